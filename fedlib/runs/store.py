"""The store of runs: what is finished is read back, what was interrupted continues.

A run is plain data: the method, the federation, rounds and seed. Its key is a hash of that, of the data set's bytes and
of the code and the libraries that compute it, so a stored result can never stand for something else. A run's folder:

    run.json         what was run, with which versions, how long it took; written last, so it marks a finished run
    records.csv      one row per measured round
    checkpoint.npz   state and records of an unfinished run, replaced atomically
"""

import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, BinaryIO

import filelock
import numpy as np
import pandas as pd
import torch

from fedlib import algorithms, data
from fedlib.data.files import write_atomically, write_text
from fedlib.problem import check_federation, partition
from fedlib.problem.federation import Federation, federate
from fedlib.problem.limits import Count, Seed, check_fields
from fedlib.runs.simulation import Progress, simulate

REPOSITORY = Path(__file__).resolve().parents[2]
CODE = ("algorithms", "engine", "selection", "problem", "runs/simulation.py")
CHECKPOINT_SECONDS = 5.0  # an unfinished run is saved at most this often
# What damage to a zip of arrays can raise, from a cut-off file to a flipped bit in a header.
UNREADABLE = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile)


def folder() -> Path:
    """Where runs are kept: FEDLIB_RUNS, else reports/runs in the repository."""
    return Path(os.environ.get("FEDLIB_RUNS") or REPOSITORY / "reports" / "runs")


@dataclass(frozen=True)
class Run:
    """One run. `label` names it in tidy frames and is no part of its identity."""

    algorithm: str
    federation: dict[str, Any]  # arguments of `federate` but the seed
    rounds: Count
    seed: Seed
    options: dict[str, Any] = field(default_factory=dict)  # hyper-parameters of the algorithm
    every: Count = 1  # measure every k-th round
    label: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """What is wrong here would else fail in a worker, or not before all other runs are done."""
        check_fields(self)
        check_federation(self.federation | {"seed": self.seed})
        algorithms.create(self.algorithm, **self.options).require_rounds(self.rounds)

    @property
    def config(self) -> dict[str, Any]:
        """What determines the result, all defaults spelled out."""
        config = {name: value for name, value in asdict(self).items() if name != "label"}
        options = asdict(algorithms.create(self.algorithm, **self.options))
        return config | {"options": options, "federation": _with_defaults(self.federation)}

    @cached_property
    def data_fingerprint(self) -> str:
        return data.load(self.federation["data_set"]).fingerprint

    @cached_property
    def key(self) -> str:
        content = self.config | {"data": self.data_fingerprint, "versions": versions()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def folder(self) -> Path:
        return folder() / self.key


def _with_defaults(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `federate` with its own defaults and those of the partitioner."""
    deal = partition.PARTITIONERS.get(arguments.get("partitioner", ""))
    takers = [federate, deal] if deal else [federate]
    parameters = [parameter for taker in takers for parameter in signature(taker).parameters.values()]
    defaults = {option.name: option.default for option in parameters if option.default is not option.empty}
    return {name: value for name, value in defaults.items() if name != "seed"} | arguments


def versions() -> dict[str, str]:
    """What computes a run: another torch, NumPy or fedlib may give other digits."""
    return {"torch": torch.__version__, "numpy": np.__version__, "code": code_digest()}


@cache
def code_digest() -> str:
    """A hash of the modules that a run's numbers depend on."""
    package = Path(__file__).parents[1]
    files = [
        file for name in CODE for file in sorted([package / name, *(package / name).rglob("*.py")]) if file.is_file()
    ]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def federation(run: Run) -> Federation:
    """The federation of a run, kept for the next run."""
    return _federation(json.dumps(run.federation, sort_keys=True), run.seed, run.data_fingerprint)


@lru_cache(maxsize=2)
def _federation(arguments: str, seed: int, data_fingerprint: str) -> Federation:
    """The fingerprint is there so that replaced data is never taken for the old."""
    return federate(**json.loads(arguments), seed=seed)


def load(run: Run) -> pd.DataFrame | None:
    """The records of a finished run, or None."""
    if not (run.folder / "run.json").exists():
        return None
    return pd.read_csv(run.folder / "records.csv")


def compute(
    run: Run, after_round: Callable[[Progress], object] = lambda progress: None, bar: bool | None = False
) -> pd.DataFrame:
    """The records of a run: read back, continued or computed. Safe when several processes ask for the same run."""
    if (records := load(run)) is not None:
        return records
    run.folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(run.folder / ".lock"):
        if (records := load(run)) is not None:
            return records
        return _compute(run, after_round, bar)


def _compute(run: Run, after_round: Callable[[Progress], object], bar: bool | None) -> pd.DataFrame:
    checkpoint, saved = run.folder / "checkpoint.npz", time.monotonic()

    def save(progress: Progress) -> None:
        nonlocal saved
        if time.monotonic() - saved >= CHECKPOINT_SECONDS and progress.round < run.rounds:
            write_checkpoint(checkpoint, progress)
            saved = time.monotonic()
        after_round(progress)

    progress, split = read_checkpoint(checkpoint), federation(run).fingerprint
    began = time.perf_counter()
    records = perform(run, progress, save, bar)
    return finish(run, records, split, seconds=time.perf_counter() - began, resumed=progress is not None)


def perform(
    run: Run, progress: Progress | None, after_round: Callable[[Progress], object], bar: bool | None = False
) -> pd.DataFrame:
    """The computing alone, which leaves the store as it is."""
    algorithm = algorithms.create(run.algorithm, **run.options)
    return simulate(
        algorithm, federation(run), run.rounds, every=run.every, progress=progress, after_round=after_round, bar=bar
    )


def finish(run: Run, records: pd.DataFrame, split: str, seconds: float, resumed: bool) -> pd.DataFrame:
    """File records computed here or elsewhere, with the partition's fingerprint; what `load` gives back."""
    facts = {"partition": split, "versions": versions(), "seconds": seconds, "resumed": resumed}
    write_atomically(run.folder / "records.csv", lambda path: records.to_csv(path, index=False))
    write_text(run.folder / "run.json", json.dumps(run.config | facts, indent=1, sort_keys=True))
    (run.folder / "checkpoint.npz").unlink(missing_ok=True)
    return pd.read_csv(run.folder / "records.csv")


def write_checkpoint(path: Path, progress: Progress) -> None:
    """State, records and round in one file, so that they can never disagree."""

    def write(part: Path) -> None:
        with open(part, "wb") as file:
            _pack(progress, file)

    write_atomically(path, write)


def read_checkpoint(path: Path) -> Progress | None:
    """The progress saved at `path`, or None when there is none or it cannot be read (then the run starts afresh)."""
    try:
        return _unpack(path)
    except FileNotFoundError:
        return None
    except UNREADABLE as problem:
        path.rename(path.with_suffix(".unreadable"))
        print(f"checkpoint of run {path.parent.name} set aside, the run starts afresh: {problem}")
        return None


def to_bytes(progress: Progress) -> bytes:
    """What `write_checkpoint` would write, for sending."""
    file = io.BytesIO()
    _pack(progress, file)
    return file.getvalue()


def from_bytes(content: bytes) -> Progress:
    """What `to_bytes` had sent."""
    return _unpack(io.BytesIO(content))


def _pack(progress: Progress, file: BinaryIO) -> None:
    assert progress.state is not None, "a run has a state as soon as it has begun"
    records = json.dumps(progress.records)  # Python's floats survive JSON to the last bit
    arrays: dict[str, Any] = {"round": progress.round, "records": np.array(records)}
    arrays |= {f"state.{name}": tensor.numpy() for name, tensor in progress.state.items()}
    np.savez(file, **arrays)


def _unpack(file: Path | BinaryIO) -> Progress:
    with np.load(file, allow_pickle=False) as saved:
        state = {
            name.removeprefix("state."): torch.as_tensor(saved[name]) for name in saved if name.startswith("state.")
        }
        return Progress(int(saved["round"]), state, json.loads(str(saved["records"])))
