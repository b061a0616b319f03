"""How long runs will take, from the durations on record."""

import json
from collections import Counter
from contextlib import suppress
from statistics import mean
from typing import Any

from fedlib.runs import record
from fedlib.runs.plan.kinds import loops
from fedlib.runs.record import DamagedRecord
from fedlib.runs.store import Task


def forecast(missing: list[Task], workers: int) -> str:
    """In words: how many runs will be computed, why, and about how long that takes."""
    reasons = Counter(_reason(task) for task in missing)
    known = [seconds for task in missing if (seconds := expected(task)) is not None]
    return f"{len(missing)} to compute ({_listed(reasons)}){_time(known, len(missing), workers)}"


def expected(task: Task) -> float | None:
    """Seconds on one core, from the same run by other code, or from runs of its kind; None if there are none."""
    with suppress(DamagedRecord):
        if (recorded := record.find(task.name)) is not None:
            return recorded[1].seconds
        paces = [run.seconds / _work(json.loads(run.asked)) for _, run in record.everything() if run.kind == task.kind]
        return mean(paces) * _work(task.asked) if paces else None
    return None


def _work(asked: dict[str, Any]) -> float:
    """What the time of runs of a kind is proportional to: rounds, passes per round, samples where they are given."""
    samples = asked.get("federation", {}).get("samples") or 1
    return asked.get("rounds", 1) * loops(asked.get("options", {})) * samples


def seconds_per_seed(paper: str) -> float | None:
    """Seconds on one core for one more seed of all of a paper's recorded runs, at its largest scale; None if nothing is
    recorded. Tuning runs are done once and do not count."""
    recorded = {}
    with suppress(DamagedRecord):
        recorded = record.runs_of(paper)
    for scale in ("paper", "desk", "quick"):
        runs = [(run, json.loads(run.asked)) for run in recorded.values() if scale in run.scales.split()]
        results = [(run.seconds, asked["seed"]) for run, asked in runs if _is_result(asked)]
        if results:
            return sum(seconds for seconds, _ in results) / len({seed for _, seed in results})
    return None


def _is_result(asked: dict[str, Any]) -> bool:
    return "federation" in asked and "validation_share" not in asked["federation"]


def _reason(task: Task) -> str:
    try:
        recorded = record.find(task.name)
    except DamagedRecord:
        return "the record is damaged"
    return f"recorded by other code, at commit {recorded[1].commit}" if recorded else "not on record"


def _listed(reasons: Counter[str]) -> str:
    if len(reasons) == 1:
        return next(iter(reasons))
    return "; ".join(f"{count} {reason}" for reason, count in reasons.items())


def _time(known: list[float], runs: int, workers: int) -> str:
    if not known:
        return "; the progress bar will tell how long it takes"
    # Runs of unknown length are taken to be as long as the others; a single run cannot be split over workers.
    seconds = max(mean(known) * runs / min(workers, runs), max(known))
    return f"; about {in_words(seconds)} with {workers} at a time"


def in_words(seconds: float) -> str:
    """40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
