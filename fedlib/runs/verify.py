"""Recompute recorded runs and compare.

Runs of a kind use the same code, so one run of each kind is computed again: its first rounds, with the settings of the
whole run, up to the second measurement. Or whole runs, chosen at random or all of them. Digits must be equal; with
another processor or another version of a library they must be equal within rounding, and the report says so.
"""

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np
import pandas as pd

from fedlib import data
from fedlib.data.known import FINGERPRINTS
from fedlib.runs import record, tables, versions
from fedlib.runs.backends.processes import in_workers
from fedlib.runs.record import DamagedRecord, RecordedRun
from fedlib.runs.run import Run
from fedlib.runs.simulation import Progress
from fedlib.runs.store import Task

MEASUREMENTS = 2  # after the start, at least, of a run that is not recomputed whole
BEGINNING = 60  # recorded seconds: of a longer run, its first rounds up to here are enough to accept new code
CHANGES = ("cap", "restart", "stop")  # options of methods that change their ways some rounds after the start
RELATIVE, ABSOLUTE = 1e-3, 5e-4  # what rounding may change within a few rounds; a score moves by one sample in 2,000
Outcome = Literal["equal", "equal within rounding", "differs", "damaged", "failed", "not checked"]
COMPARED: tuple[Outcome, ...] = ("equal", "equal within rounding", "differs")
WRONG: tuple[Outcome, ...] = ("differs", "damaged", "failed")
Extent = Literal["first rounds", "beginning", "whole"]  # how much of a run is computed again


@dataclass(frozen=True)
class VerifiedRun:
    """The result of computing one recorded run again."""

    paper: str
    run: RecordedRun
    maker: str  # the present one; "" if the present code cannot make the run
    outcome: Outcome
    rows: int  # measurements compared ...
    of: int  # ... of all that are recorded
    seconds: float
    note: str = ""


class EnoughRounds(Exception):
    """The wanted number of rounds is computed."""


def one_of_each_kind(
    runs: Iterable[tuple[str, RecordedRun]],
    whole: bool = False,
    kind: Callable[[RecordedRun], str] = attrgetter("kind"),
) -> list[tuple[str, RecordedRun]]:
    """For each kind and each recorded maker, the fastest run: per measurement, or as a `whole`."""
    chosen: dict[tuple[str, str], tuple[float, str, RecordedRun]] = {}
    for paper, run in runs:
        price = run.seconds if whole else run.seconds / _steps(run)
        alike = kind(run), run.maker
        best = chosen.get(alike)
        if best is None or (price, run.name) < (best[0], best[2].name):
            chosen[alike] = price, paper, run
    return [(paper, run) for _, paper, run in chosen.values()]


def at_random(runs: list[tuple[str, RecordedRun]], count: int) -> list[tuple[str, RecordedRun]]:
    """This many of the runs, drawn differently each time."""
    return random.SystemRandom().sample(runs, min(count, len(runs)))


def not_vouched_for(runs: Iterable[tuple[str, RecordedRun]]) -> list[tuple[str, RecordedRun]]:
    """Those of other code that has not been accepted as equivalent to the present one."""
    return [
        (paper, run) for paper, run in runs if (task := remade(run)) is None or not record.is_vouched_for(run, task)
    ]


def remade(run: RecordedRun) -> Task | None:
    """The run, ready to be computed again; None if the present code cannot make it."""
    try:
        task = run.task()
        return task if task.maker else None
    except Exception:  # a method or an option that is no more, or a damaged line
        return None


def check_all(
    runs: list[tuple[str, RecordedRun]],
    extent: Extent,
    workers: int,
    count: Callable[[int], object] = lambda number: None,
) -> Iterator[VerifiedRun]:
    """Compute runs again, several at a time, and compare each; yields results as they are done."""
    if min(workers, len(runs)) <= 1:
        results = (check(paper, run, extent) for paper, run in runs)
    else:
        asked: list[tuple[str, RecordedRun, Extent]] = [(paper, run, extent) for paper, run in runs]
        results = (result for _, result in in_workers(check_in_worker, asked, workers, lambda rounds: None))
    for result in results:
        yield result
        count(1)


def check_in_worker(asked: tuple[str, RecordedRun, Extent]) -> VerifiedRun:
    """The task of a worker."""
    return check(*asked)


def check(paper: str, run: RecordedRun, extent: Extent) -> VerifiedRun:
    """Compute a run again, whole or in part, and compare with its record."""
    began, task = time.perf_counter(), remade(run)
    try:
        outcome, note, rows, of = _checked(paper, run, extent)
    except DamagedRecord as damage:
        outcome, note, rows, of = "damaged", str(damage), 0, 0
    except data.DataNotFound:
        sets = task.data_sets if task else []
        outcome, note, rows, of = "not checked", f"needs {', '.join(sets)}, which is not here", 0, 0
    except Exception as problem:  # one run must not take the others' outcomes with it
        told = f"{type(problem).__name__}: {problem}"
        outcome, note, rows, of = "failed", f"the present code cannot compute it: {told}", 0, 0
    maker, seconds = task.maker if task else "", time.perf_counter() - began
    return VerifiedRun(paper, run, maker, outcome, rows, of, seconds, note)


def _checked(paper: str, run: RecordedRun, extent: Extent) -> tuple[Outcome, str, int, int]:
    """Outcome and note, and the number of measurements compared and recorded."""
    recorded, task = record.records_of(paper, run), run.task()
    if task.name != run.name:
        others = [name for name in task.data_sets if data.fingerprint_of(name) != FINGERPRINTS.get(name)]
        if others:
            return "not checked", f"another version of {', '.join(others)} is here than the one behind it", 0, 0
        return "damaged", f"its settings belong to the name {task.name}", 0, 0
    again = recompute(task, rounds_of(task, extent, recorded, run.seconds))
    clock = () if isinstance(task, Run) else task.clock
    outcome, note = compare(recorded.head(len(again)).drop(columns=[*clock]), again.drop(columns=[*clock]), run)
    return outcome, note, len(again), len(recorded)


def rounds_of(task: Task, extent: Extent, recorded: pd.DataFrame, seconds: float) -> int | None:
    """How many rounds of a run to compute again; None for all of it.

    A beginning is long enough to show whether new code gives the same digits, unless the method changes its ways later.
    """
    if extent == "whole" or not isinstance(task, Run):
        return None
    if extent == "first rounds":
        return 0
    if seconds <= BEGINNING or any(task.config["options"].get(option) is not None for option in CHANGES):
        return None
    return math.ceil(int(recorded["round"].iloc[-1]) * BEGINNING / seconds)


def recompute(task: Task, rounds: int | None) -> pd.DataFrame:
    """The records of a run by the present code, as they would be read back: all, or those of the first rounds."""
    progress = Progress()

    def halt(progress: Progress) -> None:
        if len(progress.records) > MEASUREMENTS and rounds is not None and progress.round >= rounds:
            raise EnoughRounds

    if rounds is None or not isinstance(task, Run):
        return tables.from_csv(tables.to_csv(task.compute()))
    with contextlib.suppress(EnoughRounds):
        task.compute(progress, halt)
    return tables.from_csv(tables.to_csv(pd.DataFrame(progress.records)))


def compare(recorded: pd.DataFrame, again: pd.DataFrame, run: RecordedRun) -> tuple[Outcome, str]:
    """Whether two frames of records are equal, and where they are not."""
    if list(recorded.columns) != list(again.columns) or len(recorded) != len(again):
        return "differs", f"{recorded.shape} with {list(recorded)} recorded, {again.shape} with {list(again)} now"
    if recorded.equals(again) or tables.to_csv(recorded) == tables.to_csv(again):
        return "equal", ""
    place, size = largest_difference(recorded, again)
    elsewhere = [run.processor] if run.processor != versions.processor() else []
    elsewhere += [changed] if (changed := versions.differences(run.versions_on_record())) else []
    if elsewhere and size <= 1:
        return "equal within rounding", f"recorded with {', '.join(elsewhere)}; largest difference: {place}"
    return "differs", place


def largest_difference(recorded: pd.DataFrame, again: pd.DataFrame) -> tuple[str, float]:
    """Where two frames of the same shape differ most, in words, and by how many times the tolerance."""
    worst, place = 0.0, ""
    for column in recorded:
        if not pd.api.types.is_numeric_dtype(recorded[column]) or not pd.api.types.is_numeric_dtype(again[column]):
            sizes = np.where(recorded[column].astype(str) == again[column].astype(str), 0.0, np.inf)
        else:
            old, new = recorded[column].to_numpy(float), again[column].to_numpy(float)
            same = (old == new) | (np.isnan(old) & np.isnan(new))
            sizes = np.where(same, 0.0, np.nan_to_num(abs(new - old), nan=np.inf) / (ABSOLUTE + RELATIVE * abs(old)))
        row = int(np.argmax(sizes))
        if sizes[row] > worst:
            worst = float(sizes[row])
            at = f"round {recorded['round'].iloc[row]}" if "round" in recorded else f"row {row}"
            place = f"{column} in {at}: {recorded[column].iloc[row]!r} recorded, {again[column].iloc[row]!r} now"
    return place, worst


def _steps(run: RecordedRun) -> int:
    """The number of measurements of a run, of which few are enough to check it."""
    task = remade(run)
    return max(1, task.rounds // task.every) if isinstance(task, Run) else 1
