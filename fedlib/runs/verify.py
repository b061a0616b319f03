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
from concurrent.futures import as_completed
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np
import pandas as pd

from fedlib import data
from fedlib.runs import record, tables, versions
from fedlib.runs.backends.processes import start_pool, stop_pool
from fedlib.runs.record import DamagedRecord, RecordedRun
from fedlib.runs.run import Run
from fedlib.runs.simulation import Progress
from fedlib.runs.store import Task

MEASUREMENTS = 2  # after the start, at least, of a run that is not recomputed whole
BEGINNING = 60  # recorded seconds: of a longer run, its first rounds up to here are enough to accept new code
CHANGES = ("cap", "restart", "stop")  # options of methods that change their ways some rounds after the start
RELATIVE, ABSOLUTE = 1e-3, 5e-4  # what rounding may change within a few rounds; a score moves by one sample in 2,000
Outcome = Literal["equal", "equal within rounding", "differs", "damaged", "not checked"]
Extent = Literal["first rounds", "beginning", "whole"]  # how much of a run is computed again


@dataclass(frozen=True)
class VerifiedRun:
    """The result of computing one recorded run again."""

    paper: str
    run: RecordedRun
    maker: str  # the present one
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
        price = run.seconds if whole else run.seconds / _steps(run.task())
        alike = kind(run), run.maker
        best = chosen.get(alike)
        if best is None or (price, run.name) < (best[0], best[2].name):
            chosen[alike] = price, paper, run
    return [(paper, run) for _, paper, run in chosen.values()]


def at_random(runs: list[tuple[str, RecordedRun]], count: int) -> list[tuple[str, RecordedRun]]:
    """This many of the runs, drawn differently each time."""
    return random.SystemRandom().sample(runs, min(count, len(runs)))


def with_new_maker(runs: Iterable[tuple[str, RecordedRun]]) -> list[tuple[str, RecordedRun]]:
    """Those that were recorded by other code than the present."""
    return [(paper, run) for paper, run in runs if run.task().maker != run.maker]


def check_all(
    runs: list[tuple[str, RecordedRun]],
    extent: Extent,
    workers: int,
    count: Callable[[int], object] = lambda number: None,
) -> Iterator[VerifiedRun]:
    """Compute runs again, several at a time, and compare each; yields results as they are done."""
    if min(workers, len(runs)) <= 1:
        for paper, run in runs:
            yield check(paper, run, extent)
            count(1)
        return
    executor = start_pool(workers).executor
    try:
        for future in as_completed([executor.submit(check, paper, run, extent) for paper, run in runs]):
            yield future.result()
            count(1)
    except BaseException:
        stop_pool()
        raise


def check(paper: str, run: RecordedRun, extent: Extent) -> VerifiedRun:
    """Compute a run again, whole or in part, and compare with its record."""
    task, began = run.task(), time.perf_counter()

    def checked(outcome: Outcome, rows: int = 0, of: int = 0, note: str = "") -> VerifiedRun:
        return VerifiedRun(paper, run, task.maker, outcome, rows, of, time.perf_counter() - began, note)

    try:
        recorded = record.records_of(paper, run)
        if task.name != run.name:
            return checked("damaged", note=f"its settings belong to the name {task.name}")
        again = recompute(task, rounds_of(task, extent, recorded, run.seconds))
    except DamagedRecord as damage:
        return checked("damaged", note=str(damage))
    except data.DataNotFound:
        return checked("not checked", note=f"needs {', '.join(task.data_sets)}, which is not here")
    clock = () if isinstance(task, Run) else task.clock
    outcome, note = compare(recorded.head(len(again)).drop(columns=[*clock]), again.drop(columns=[*clock]), run)
    return checked(outcome, len(again), len(recorded), note)


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


def _steps(task: Task) -> int:
    """The number of measurements of a run, of which few are enough to check it."""
    return max(1, task.rounds // task.every) if isinstance(task, Run) else 1
