"""A study: many runs in, one tidy frame out.

Recorded and stored runs are read; missing ones go to the backend in use, after a message that says how many there are.
The present code *vouches for* a recorded run if it is the code that computed it, or was verified to give the same
digits. FEDLIB_RECORD says how to use the record:

    use      read the runs that the present code vouches for, compute the rest (the default)
    stale    read all runs, and mark on the page those that the present code does not vouch for
    only     compute nothing: a run that is not recorded, or not vouched for, is an error (for the tests)
    ignore   as if nothing were recorded
"""

import json
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache

import pandas as pd
from tqdm import tqdm

from fedlib import data, surroundings
from fedlib.problem.limits import Count, checked
from fedlib.runs import backends, durations, record, store
from fedlib.runs.bars import quiet
from fedlib.runs.record import DamagedRecord, RecordedRun
from fedlib.runs.run import Run
from fedlib.runs.store import Task

__all__ = ["NotRecorded", "Run", "RunFailed", "execute", "labelled", "obtain"]

POLICIES = ("use", "stale", "only", "ignore")


class RunFailed(RuntimeError):
    """Some runs raised; the others are finished and stored."""


class NotRecorded(RuntimeError):
    """Only recorded runs may be used, but some are not recorded, or the present code does not vouch for them."""


class NotComputed(RuntimeError):
    """A plan came to a computation that is not a run, and computes nothing."""


def execute(runs: Iterable[Task], backend: str | None = None, workers: int | None = None) -> pd.DataFrame:
    """All runs as one tidy frame: the label of each run, its seed, and one row per measured round.

    The backend is named here, or by FEDLIB_BACKEND and FEDLIB_WORKERS (set from the Hydra config); by default runs are
    shared by one process per core.
    """
    runs = list(runs)
    chosen = backends.load(backend)
    many: int = backends.cores() if workers is None else checked("workers", workers, Count)
    unique = {run.name: run for run in runs}
    records = {name: frame for name, run in unique.items() if (frame := read(run)) is not None}
    missing = [run for name, run in unique.items() if name not in records]
    failures: dict[str, str] = {}
    note_study(unique, missing)
    announce(missing, many)
    with _bar(missing) as bar:
        for run, outcome in chosen.outcomes(missing, many, bar.update):
            if isinstance(outcome, str):
                failures[run.name] = outcome
            else:
                records[run.name] = outcome
                note_use(run, "computed")
    if failures:
        raise _missing_data(failures) or RunFailed(_failure_report(missing, failures))
    return pd.concat([labelled(run, records[run.name]) for run in runs], ignore_index=True)


def obtain(task: Task) -> pd.DataFrame:
    """What one computation gives: read, or computed in this process and stored."""
    if (records := read(task)) is not None:
        return records
    if backends.chosen() == backends.DRY:
        raise NotComputed(f"{task.kind} is not on record, and a plan computes nothing")
    announce([task], 1)
    records = store.compute(task)
    note_use(task, "computed")
    return records


def read(task: Task) -> pd.DataFrame | None:
    """The records of a run that is recorded or stored, or None."""
    policy, recorded = _policy(), None
    try:
        recorded = None if policy == "ignore" else record.find(task.name)
        if recorded is not None and (policy == "stale" or record.is_vouched_for(recorded[1], task)):
            records = record.records_of(*recorded)
            note_use(task, "recorded" if record.is_vouched_for(recorded[1], task) else "stale")
            return records
    except DamagedRecord as damage:
        if policy == "only":
            raise
        _warn(f"{damage} It is not used.")
    if policy == "only":
        raise NotRecorded(_not_recorded(task, recorded))
    if (records := store.load(task)) is not None:
        note_use(task, "stored")
    return records


@lru_cache  # once: a damaged table is met with every run
def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def _policy() -> str:
    policy = surroundings.record_policy() or POLICIES[0]
    if policy not in POLICIES:
        raise ValueError(f"FEDLIB_RECORD={policy} must be one of {', '.join(POLICIES)}")
    return policy


def _not_recorded(task: Task, recorded: tuple[str, RecordedRun] | None) -> str:
    if recorded is None:
        return f"not on record: {task.kind}\n{task.asked}"
    return (
        f"recorded by other code than the present: {task.kind} (at commit {recorded[1].commit}, maker "
        f"{recorded[1].maker}; now {task.maker}). If the change should not alter any digit, "
        f"`python -m fedlib verify paper={recorded[0]} --accept` checks that; otherwise compute the runs again."
    )


def note_use(task: Task, origin: str) -> None:
    """Note which run a notebook used and where it came from, while a report is built."""
    if file := surroundings.used_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(f"{task.name},{origin}\n")


def note_study(runs: Mapping[str, Task], missing: list[Task]) -> None:
    """Note what a study asks for, while runs are planned."""
    if file := surroundings.planned_file():
        noted = {"runs": {name: run.asked for name, run in runs.items()}, "missing": [run.name for run in missing]}
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(noted) + "\n")


def announce(missing: list[Task], workers: int) -> None:
    """Print how many runs will be computed, why, and about how long it takes."""
    if missing and not quiet():
        print(durations.forecast(missing, workers), file=sys.stderr)


def labelled(run: Task, records: pd.DataFrame) -> pd.DataFrame:
    """The records of a run with its label and seed in front."""
    seed = {"seed": run.seed} if isinstance(run, Run) else {}
    return records.assign(**run.label, **seed)[[*run.label, *seed, *records.columns]]


def _missing_data(failures: dict[str, str]) -> data.DataNotFound | None:
    """The error about missing data if all failures are due to it, otherwise None."""
    advice = {failure.partition(f"{data.DataNotFound.__name__}: ")[2] for failure in failures.values()}
    return None if "" in advice else data.DataNotFound("\n".join(sorted(advice)))


def _failure_report(runs: list[Task], failures: dict[str, str]) -> str:
    reports = [f"{run.asked}\n{failures[run.name]}" for run in runs if run.name in failures]
    return f"{len(reports)} of {len(runs)} runs failed, the others are stored.\n\n" + "\n\n".join(reports)


def _bar(runs: list[Task]) -> tqdm:
    rounds = sum(run.steps for run in runs)
    return tqdm(total=rounds, desc=f"{len(runs)} runs", unit="round", leave=False, disable=quiet() or not runs)
