"""When to show progress bars."""

import sys

from fedlib import surroundings


def quiet(bar: bool | None = None) -> bool:
    """Whether to hide progress bars: as asked, otherwise if they are unwanted or there is no screen to show them."""
    if bar is not None:
        return not bar
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return surroundings.progress_is_hidden() or not watched
