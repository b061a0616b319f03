"""Atomic writes: write a file beside the target, then rename it."""

import os
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write(part)` on a file beside `path`, then rename it: readers see the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(part)
        with open(part, "rb+") as written:  # else a loss of power can leave the new name with no content
            os.fsync(written.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """The same for a text."""
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
