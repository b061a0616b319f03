"""Progress bars, for those who watch."""

import sys

from fedlib import surroundings


def quiet(bar: bool | None = None) -> bool:
    """Whether to hide progress bars: as asked, else when they are unwanted or nobody is watching."""
    if bar is not None:
        return not bar
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return surroundings.progress_is_hidden() or not watched
