"""The cache: one folder per data set, with `.npy` files that processes share as memory maps, and their hashes as JSON.

Beside the finished folder `<key>` there may be `<key>.lock` (one writer at a time), `<key>.work` (downloads kept until
the data set is complete), `<key>.part` (being written, renamed when done) and `<key>.corrupt-<n>` (set aside because
its bytes no longer matched their hashes). Only complete, hashed folders are ever read.
"""

import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock

from fedlib import surroundings
from fedlib.data.dataset import Arrays, sha256
from fedlib.data.errors import Damaged

HASHES = "hashes.json"
verified: dict[Path, tuple[int, int, int, str]] = {}  # file -> size, mtime, inode, hash; hashed once per process


@dataclass(frozen=True)
class Stored:
    """Arrays of the cache as copy-on-write maps, with their SHA-256."""

    arrays: Arrays
    hashes: Mapping[str, str]


def has(key: str) -> bool:
    """True if the cache holds a finished folder of that name (its bytes are checked when it is opened)."""
    return (surroundings.cache_folder() / key / HASHES).is_file()


def obtain(key: str, expected: Mapping[str, str] | None, make: Callable[[Path], Arrays]) -> Stored:
    """Open `key`, or `make` and store it first; `expected` hashes, where known, must agree with the bytes.

    `make` gets a folder for its downloads that survives interruption. A damaged entry is set aside and made again.
    Several processes may call at once: one makes the entry, the others wait for it.
    """
    folder = surroundings.cache_folder() / key
    try:
        return open_verified(folder, expected)
    except (FileNotFoundError, Damaged):
        pass
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(sibling(folder, "lock")):
        return open_or_make(folder, expected, make)


def open_or_make(folder: Path, expected: Mapping[str, str] | None, make: Callable[[Path], Arrays]) -> Stored:
    """`obtain` with the lock held: look again (another process may have made it), else make it."""
    try:
        return open_verified(folder, expected)
    except FileNotFoundError:
        pass
    except Damaged as error:
        set_aside(folder, error)
    workspace = sibling(folder, "work")
    workspace.mkdir(exist_ok=True)
    write(folder, make(workspace))
    shutil.rmtree(workspace)
    return open_verified(folder, expected)


def sibling(folder: Path, suffix: str) -> Path:
    """`<key>.<suffix>` beside `<key>`."""
    return folder.with_name(f"{folder.name}.{suffix}")


def set_aside(folder: Path, reason: Exception) -> None:
    """Rename a damaged entry and say so."""
    number = 1
    while sibling(folder, f"corrupt-{number}").exists():
        number += 1
    target = sibling(folder, f"corrupt-{number}")
    folder.rename(target)
    warnings.warn(f"damaged data in the cache was set aside as {target} and is made again: {reason}", stacklevel=2)


def write(folder: Path, arrays: Arrays) -> None:
    """Write all arrays and their hashes into a `.part` folder, then rename it: complete or not there."""
    part = sibling(folder, "part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for name, array in arrays.items():
        np.save(part / f"{name}.npy", array, allow_pickle=False)
    (part / HASHES).write_text(json.dumps({name: sha256(array) for name, array in arrays.items()}, indent=1))
    shutil.rmtree(folder, ignore_errors=True)  # a folder without hashes is not an entry
    part.rename(folder)


def open_verified(folder: Path, expected: Mapping[str, str] | None) -> Stored:
    """Map the arrays of an entry after checking them; `FileNotFoundError` if there is none."""
    text = (folder / HASHES).read_text(errors="replace")
    try:
        hashes = dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise Damaged(f"{folder / HASHES} is not readable") from error
    if expected is not None and hashes != dict(expected):
        raise Damaged(f"{folder} has hashes {hashes} where {dict(expected)} are known")
    return Stored({name: map_verified(folder / f"{name}.npy", digest) for name, digest in hashes.items()}, hashes)


def map_verified(file: Path, digest: str) -> np.ndarray:
    """Map one `.npy` file copy-on-write if its bytes hash to `digest`."""
    try:
        array = np.load(file, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Damaged(f"{file} is not readable: {error}") from error
    seen = (*stamp(file), digest)
    if verified.get(file) != seen:
        if (actual := sha256(array)) != digest:
            raise Damaged(f"{file} has SHA-256 {actual} instead of {digest}")
        verified[file] = seen
    return array


def stamp(file: Path) -> tuple[int, int, int]:
    """Size, time and inode of a file: if they stay, so did its bytes."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino
