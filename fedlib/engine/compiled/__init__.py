"""Inner loops in machine code.

LLVM compiles these functions when they are first called, which takes seconds, and keeps the result in the user's cache
folder. Its name holds a digest of the sources, because the compiler itself would look at the called file alone. The
compiler may reorder nothing, so digits depend on the source and not on the processor.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from platformdirs import user_cache_dir


def _cache_folder() -> Path:
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    below = Path(os.environ.get("FEDLIB_CACHE") or user_cache_dir("fedlib")).expanduser()
    return below / "compiled" / hashlib.sha256(sources).hexdigest()[:16]


numba.config.CACHE_DIR = str(_cache_folder())  # pyright: ignore  # numba makes its settings while it is imported


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in machine code."""
    return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
