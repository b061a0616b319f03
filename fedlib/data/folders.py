"""Where data lives: the drop-in folder and the cache, both movable through the environment."""

import os
from pathlib import Path

from platformdirs import user_cache_dir

REPOSITORY = Path(__file__).resolve().parents[2]


def drop_in_folder() -> Path:
    """`FEDLIB_DATA`, by default `data/` in the repository: the user's own files, which are only ever read."""
    return Path(os.environ.get("FEDLIB_DATA") or REPOSITORY / "data").expanduser()


def cache_folder() -> Path:
    """`data/` below `FEDLIB_CACHE`, by default below the user's cache folder, so that all clones share one copy."""
    return Path(os.environ.get("FEDLIB_CACHE") or user_cache_dir("fedlib")).expanduser() / "data"


def offline() -> bool:
    """True when `FEDLIB_OFFLINE` forbids any use of the network."""
    return os.environ.get("FEDLIB_OFFLINE", "0") not in ("", "0")
