"""Progress bars, for those who watch."""

import os
import sys


def quiet(bar: bool | None = None) -> bool:
    """Whether to hide progress bars: as asked, else when FEDLIB_PROGRESS=0 or nobody is watching."""
    if bar is not None:
        return not bar
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return os.environ.get("FEDLIB_PROGRESS", "1") == "0" or not watched
