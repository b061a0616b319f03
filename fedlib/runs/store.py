"""The local store: finished runs are read back, interrupted ones continue.

A run is stored by its name, its maker and the versions of the libraries, so a result is never mistaken for that of
another run. Its folder, `<name>/<maker>-<versions>`, holds

    run.json         settings, maker, versions, duration, digest of records; written last, so it marks a finished run
    records.csv      one row per measured round (`runs.tables`)
    checkpoint.npz   state and records of an unfinished run, replaced atomically
"""

import contextlib
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import filelock
import numpy as np
import pandas as pd
import torch

from fedlib import surroundings
from fedlib.data.files import write_atomically, write_text
from fedlib.runs import tables, versions
from fedlib.runs.computations import Computation
from fedlib.runs.run import Run, federation_of
from fedlib.runs.simulation import Progress

Task = Run | Computation
CHECKPOINT_SECONDS = 5.0  # an unfinished run is saved at most this often
# What damage to a zip of arrays can raise, from a cut-off file to a flipped bit in a header.
UNREADABLE = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile)
TORN = (FileNotFoundError, ValueError, LookupError)  # and to a table or a JSON file


def folder() -> Path:
    """Where runs are stored."""
    return surroundings.runs_folder()


def folder_of(task: Task) -> Path:
    """Where this run is stored."""
    return folder() / task.name / f"{task.maker}-{versions.digest()}"


def load(task: Task) -> pd.DataFrame | None:
    """The records of a finished run, or None."""
    entry = _entry(folder_of(task))
    return None if entry is None else entry[2]


def finished(name: str) -> tuple[dict[str, Any], bytes] | None:
    """The content of run.json and the records of a run finished by the present code; None if there is none."""
    for place in (folder() / name).glob(f"*-{versions.digest()}"):
        if (entry := _entry(place)) is not None:
            facts, content, _ = entry
            if task_of(facts["asked"]).maker == facts["maker"]:
                return facts, content
    return None


def _entry(place: Path) -> tuple[dict[str, Any], bytes, pd.DataFrame] | None:
    """Run.json, records as bytes and as a frame. None if the run is not finished, or if a file is damaged, such as by
    a loss of power: then the entry is set aside, and the run is computed again."""
    if not (place / "run.json").exists():
        return None
    try:
        facts = json.loads((place / "run.json").read_text(encoding="utf-8"))
        content = (place / "records.csv").read_bytes()
        if facts.get("records", _digest(content)) != _digest(content):
            raise ValueError("its records are not those that were written")
        return facts, content, tables.from_csv(content)
    except TORN as problem:
        for name in ("run.json", "records.csv"):
            with contextlib.suppress(FileNotFoundError):  # another process may set it aside, too
                (place / name).rename(place / f"{name}.unreadable")
        print(f"run {place.parent.name} set aside in the store, it is computed again: {problem}")
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def task_of(asked: dict[str, Any]) -> Task:
    """The run or computation with these settings."""
    return Computation(**asked) if "function" in asked else Run(**asked)


def compute(
    task: Task, after_round: Callable[[Progress], object] = lambda progress: None, bar: bool | None = False
) -> pd.DataFrame:
    """The records of a run: read back, continued or computed. Safe when several processes ask for the same run."""
    if (records := load(task)) is not None:
        return records
    folder_of(task).mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder_of(task) / ".lock"):
        if (records := load(task)) is not None:
            return records
        return _compute(task, after_round, bar)


def _compute(task: Task, after_round: Callable[[Progress], object], bar: bool | None) -> pd.DataFrame:
    checkpoint, saved = folder_of(task) / "checkpoint.npz", time.monotonic()

    def save(progress: Progress) -> None:
        nonlocal saved
        if time.monotonic() - saved >= CHECKPOINT_SECONDS and progress.round < task.steps:
            write_checkpoint(checkpoint, progress, seconds=earlier + time.perf_counter() - began)
            saved = time.monotonic()
        after_round(progress)

    progress, earlier = read_checkpoint(checkpoint)
    began = time.perf_counter()
    records = task.compute(progress, save, bar)
    seconds = earlier + time.perf_counter() - began
    return finish(task, records, seconds, resumed=progress is not None)


def finish(task: Task, records: pd.DataFrame, seconds: float, resumed: bool, split: str | None = None) -> pd.DataFrame:
    """Store records computed here or elsewhere; returns what `load` will. `split` is the partition's fingerprint."""
    if split is None and isinstance(task, Run):
        split = federation_of(task).fingerprint
    content = tables.to_csv(records)
    facts = {
        "name": task.name,
        "kind": task.kind,
        "asked": task.asked,
        "maker": task.maker,
        "versions": versions.versions(),
        "processor": versions.processor(),
        "seconds": round(seconds, 3),
        "resumed": resumed,
        "partition": split,
        "records": _digest(content),
    }
    place = folder_of(task)
    write_atomically(place / "records.csv", lambda path: path.write_bytes(content))
    write_text(place / "run.json", json.dumps(facts, indent=1, sort_keys=True))
    (place / "checkpoint.npz").unlink(missing_ok=True)
    return tables.from_csv(content)


def write_checkpoint(path: Path, progress: Progress, seconds: float = 0.0) -> None:
    """State, records, round and the seconds spent so far in one file, so that they can never disagree."""

    def write(part: Path) -> None:
        with open(part, "wb") as file:
            _pack(progress, seconds, file)

    write_atomically(path, write)


def read_checkpoint(path: Path) -> tuple[Progress | None, float]:
    """The progress saved at `path` and its seconds; None if it is missing or unreadable: the run starts again."""
    try:
        return _unpack(path)
    except FileNotFoundError:
        return None, 0.0
    except UNREADABLE as problem:
        path.rename(path.with_suffix(".unreadable"))
        print(f"checkpoint of run {path.parent.parent.name} set aside, the run starts again: {problem}")
        return None, 0.0


def to_bytes(progress: Progress) -> bytes:
    """What `write_checkpoint` would write, for sending."""
    file = io.BytesIO()
    _pack(progress, 0.0, file)
    return file.getvalue()


def from_bytes(content: bytes) -> Progress:
    """The inverse of `to_bytes`."""
    return _unpack(io.BytesIO(content))[0]


def _pack(progress: Progress, seconds: float, file: BinaryIO) -> None:
    assert progress.state is not None, "a run has a state as soon as it has begun"
    records = json.dumps(progress.records)  # Python's floats survive JSON to the last bit
    arrays: dict[str, Any] = {"round": progress.round, "records": np.array(records), "seconds": seconds}
    arrays |= {f"state.{name}": tensor.numpy() for name, tensor in progress.state.items()}
    np.savez(file, **arrays)


def _unpack(file: Path | BinaryIO) -> tuple[Progress, float]:
    with np.load(file, allow_pickle=False) as saved:
        state = {
            name.removeprefix("state."): torch.as_tensor(saved[name]) for name in saved if name.startswith("state.")
        }
        progress = Progress(int(saved["round"]), state, json.loads(str(saved["records"])))
        return progress, float(saved["seconds"])
