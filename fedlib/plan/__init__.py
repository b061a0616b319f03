"""`fedlib plan`: what a report will cost before it is computed.

    python -m fedlib plan paper=fedsr scale=desk
    python -m fedlib plan paper=fedsr scale=paper --workers 32 --json

For each notebook: its runs and how many of them are in the store, core-hours, memory of a worker, size of the results, and the
time that n workers need. Notebooks are rehearsed to find their runs (`rehearsal`), kinds of runs are measured on this machine
(`kinds`, `measure`). Only runs are counted, not what notebooks compute besides. Nothing is written.
"""

import argparse
import heapq
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pandas as pd
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from fedlib import data, store, study
from fedlib.plan import kinds
from fedlib.plan.kinds import Cost
from fedlib.plan.measure import measured
from fedlib.plan.rehearsal import rehearse
from fedlib.report.build import kernel_environment
from fedlib.report.execute import environment
from fedlib.report.notebooks import Notebook, selection
from fedlib.report.settings import UsageError, compose_jobs, register_resolvers
from fedlib.simulation import quiet
from fedlib.store import Run

WORKERS = (1, 2, 4, 8, 16, 32)
SECONDS = 4.0  # about so long a kind is measured
Measure = Callable[[list[Run]], Iterator[Cost | str]]  # for each run the cost of its kind, or why it is not known


def show(words: list[str], root: Path) -> None:
    """Print the plan that the command line asks for."""
    options, overrides = read(words)
    register_resolvers(root)
    (config,) = compose_jobs(root, overrides)
    made = plan(root, config, options.workers or WORKERS, partial(measured, seconds=options.seconds))
    print(json.dumps(made, indent=1) if options.json else text(made))


def read(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of `plan`, and the overrides beside them."""
    parser = argparse.ArgumentParser(
        prog="python -m fedlib plan",
        usage="%(prog)s [choice=name ...] [setting=value ...] [options]",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--json", action="store_true", help="the same for programs to read")
    parser.add_argument("--workers", type=_workers, metavar="N[,N...]", help="workers to share the runs (1,2,4,8,16,32)")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="about so long a kind of run is measured (4)")
    try:
        options, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise UsageError(f"plan: {error}") from None
    for word in rest:
        if word.startswith("-") or "=" not in word:
            raise UsageError(f"plan {word}: settings are written name=value; options are --json, --workers, --seconds.")
    return options, rest


def _workers(word: str) -> tuple[int, ...]:
    numbers = [int(number) if number.isdigit() else 0 for number in word.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no number of workers: write 8, or 2,32")
    return tuple(sorted(set(numbers)))


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{word!r} is no positive number of seconds")
    return seconds


@dataclass
class Planned:
    """What a notebook will run: its studies one after another, each with the runs that no one before it has."""

    notebook: Notebook
    studies: list[list[Run]] = field(default_factory=list)
    runs: int = 0
    stored: int = 0
    shared: int = 0  # with notebooks before it in this plan
    note: str | None = None


class Planner:
    """Stands for `study.execute`: notes the runs, has their kinds measured and answers with records as runs leave them."""

    def __init__(self, measure: Measure):
        self.measure = measure
        self.costs: dict[str, Cost | str] = {}
        self.seen: set[str] = set()  # runs of all notebooks so far

    def rehearse(self, notebook: Notebook, values: dict[str, Any]) -> Planned:
        """Find the notebook's runs."""
        planned, own = Planned(notebook), set()

        def execute(runs: list[Run], *engine, **options) -> pd.DataFrame:
            runs = list(runs)
            unique = {identity(run): run for run in runs}
            found = {name: stored(run) for name, run in unique.items()}
            new = unique.keys() - own
            missing = [name for name in unique if name in new - self.seen and found[name] is None]
            planned.runs += len(new)
            planned.stored += sum(found[name] is not None for name in new)
            planned.shared += sum(found[name] is None for name in new & self.seen)
            planned.studies.append([unique[name] for name in missing])
            own.update(unique)
            self.price([unique[name] for name in unique if found[name] is None], notebook.label)
            answers = {name: self.answer(unique[name]) if have is None else have for name, have in found.items()}
            return pd.concat([study._labelled(run, answers[identity(run)]) for run in runs], ignore_index=True)

        planned.note = rehearse(notebook, values, execute)
        self.seen |= own
        return planned

    def price(self, runs: list[Run], title: str) -> None:
        """Measure the kinds of these runs that are not known yet."""
        new = {name: run for name, run in kinds.by_kind(runs).items() if name not in self.costs}
        answers = self.measure(list(new.values())) if new else ()
        bar = tqdm(answers, title, len(new), unit="kind", leave=False, disable=quiet() or not new)
        self.costs |= dict(zip(new, bar, strict=True))

    def cost(self, run: Run) -> Cost | None:
        """What the run's kind costs, if that is known."""
        found = self.costs[kinds.kind(run)]
        return found if isinstance(found, Cost) else None

    def answer(self, run: Run) -> pd.DataFrame:
        """Rehearsed records, no two runs quite alike: of equals a notebook would choose the same for all methods."""
        cost = self.cost(run)
        records = kinds.rehearsed(run, cost.record if cost else {})
        tilt = crc32(json.dumps([run.algorithm, run.options], sort_keys=True).encode()) / 2**32
        return records.assign(accuracy=records["accuracy"] + 1e-6 * tilt)


def identity(run: Run) -> str:
    """What makes a run, without the data's bytes: they may not be here."""
    return json.dumps(run.config, sort_keys=True)


def stored(run: Run) -> pd.DataFrame | None:
    """The records of a finished run; None also where its data set cannot be had."""
    fingerprint = _fingerprint(run.federation["data_set"])
    if fingerprint is None:
        return None
    run.__dict__["data_fingerprint"] = fingerprint  # else every run would load its data again to have it
    return store.load(run)


@cache
def _fingerprint(data_set: str) -> str | None:
    try:
        return data.load(data_set).fingerprint
    except (LookupError, OSError, ValueError):
        return None


def plan(root: Path, config: DictConfig, workers: tuple[int, ...], measure: Measure) -> dict[str, Any]:
    """The plan of the notebooks that the config asks for, as plain data: what `--json` prints."""
    notebooks, planner = selection(root, config), Planner(measure)
    _fingerprint.cache_clear()
    with tempfile.TemporaryDirectory() as nowhere, environment(kernel_environment(config, Path(nowhere))):
        planned = []
        for notebook in notebooks:
            values = OmegaConf.to_container(config[notebook.paper][notebook.name], resolve=True)
            planned.append(planner.rehearse(notebook, values))
    rows = [row(each, planner, workers) for each in planned]
    runs = [run for each in planned for study_runs in each.studies for run in study_runs]
    return {
        "scale": config.scale.name,
        "workers": list(workers),
        "notebooks": rows,
        "total": total(rows, workers),
        "kinds": measurements(planner, runs),
    }


def row(planned: Planned, planner: Planner, workers: tuple[int, ...]) -> dict[str, Any]:
    """One notebook."""
    runs = [run for runs in planned.studies for run in runs]
    costs = {id(run): planner.cost(run) for run in runs}
    durations = [[costs[id(run)].seconds(run) for run in runs if costs[id(run)]] for runs in planned.studies]
    seconds = [each for study_durations in durations for each in study_durations]
    known = [cost for cost in costs.values() if cost]
    return {
        "notebook": planned.notebook.label,
        "runs": planned.runs,
        "stored": planned.stored,
        "shared": planned.shared,
        "missing": len(runs),
        "unmeasured": len(runs) - len(seconds),
        "core_hours": sum(seconds) / 3600,
        "longest_seconds": max(seconds, default=0.0),
        "memory_bytes": max((cost.memory for cost in known), default=0),
        "result_bytes": sum(kinds.result_bytes(run, cost.record) for run in runs if (cost := costs[id(run)])),
        "wall_seconds": {str(n): sum(makespan(each, n) for each in durations) for n in workers},
        "note": planned.note,
    }


def makespan(durations: list[float], workers: int) -> float:
    """When the last of `workers` is done if each, once free, takes the longest run left."""
    ends = [0.0] * workers
    for duration in sorted(durations, reverse=True):
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def total(rows: list[dict[str, Any]], workers: tuple[int, ...]) -> dict[str, Any]:
    """All notebooks, one after another."""
    sums = ("runs", "stored", "shared", "missing", "unmeasured", "core_hours", "result_bytes")
    most = ("longest_seconds", "memory_bytes")
    found = {name: sum(row[name] for row in rows) for name in sums}
    found |= {name: max((row[name] for row in rows), default=0) for name in most}
    return found | {"wall_seconds": {str(n): sum(row["wall_seconds"][str(n)] for row in rows) for n in workers}}


def measurements(planner: Planner, runs: list[Run]) -> list[dict[str, Any]]:
    """What was measured: for each kind of the missing runs its seconds, or why there are none."""
    counts: dict[str, int] = {}
    for run in runs:
        counts[kinds.kind(run)] = counts.get(kinds.kind(run), 0) + 1
    rows = []
    for name, cost in planner.costs.items():
        known = isinstance(cost, Cost)
        timed = {key: getattr(cost, key) for key in ("setup", "base", "loop", "evaluation", "part")} if known else {"error": cost}
        rows.append({"kind": json.loads(name), "runs": counts.get(name, 0)} | timed)
    return rows


def text(made: dict[str, Any]) -> str:
    """The plan for people."""
    head = ["", "runs", "stored", "shared", "to do", "core-hours", "longest", "memory", "results"]
    head += [f"{n} worker{'s' * (n > 1)}" for n in made["workers"]]
    rows = [*made["notebooks"], {"notebook": "all", "note": None} | made["total"]]
    lines = [f"PLAN at {made['scale']} scale", *_aligned([head, *map(_cells, rows)]), ""]
    lines += [f"{each['notebook']}: {each['note']}" for each in rows if each["note"]]
    lines += _what_was_measured(made["kinds"])
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    counts = [str(row[name]) for name in ("runs", "stored", "shared", "missing")]
    if not row["runs"]:
        return [row["notebook"], "no runs"]
    least = "> " if row["unmeasured"] else ""
    sizes = [size(row["memory_bytes"]), size(row["result_bytes"])]
    walls = [least + duration(seconds) for seconds in row["wall_seconds"].values()]
    return [row["notebook"], *counts, f"{least}{row['core_hours']:.3g}", duration(row["longest_seconds"]), *sizes, *walls]


def _aligned(rows: list[list[str]]) -> list[str]:
    full = [row + [""] * (len(rows[0]) - len(row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    return [
        "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in full
    ]


def _what_was_measured(found: list[dict[str, Any]]) -> list[str]:
    known = [each for each in found if "error" not in each]
    whole = sum(each["part"] >= 1 for each in known)
    lines = []
    if known:
        parts = [each["part"] for each in known if each["part"] < 1]
        lines.append(f"Measured: {len(known)} kinds of runs, {whole} by whole rounds" + (
            f", {len(parts)} by parts of a round (the smallest {min(parts):.2g} of its work), projected to the whole." if parts else "."
        ))
    for error in dict.fromkeys(each["error"] for each in found if "error" in each):
        count = sum(each["runs"] for each in found if each.get("error") == error)
        lines.append(f"Not measured, and so not counted in times and sizes: {count} runs. {error}")
    lines.append(
        "Seconds of one core of this machine; a worker is one core, takes the longest run left, and waits at the end of each\n"
        "study. Runs only: what notebooks compute besides comes on top. Shared: with a notebook above."
    )
    return lines


def duration(seconds: float) -> str:
    """0.4 s, 12 s, 3.5 min, 7.2 h, 12 days."""
    for unit, name, most in ((1, "s", 100), (60, "min", 100), (3600, "h", 72)):
        if seconds < unit * most:
            return f"{seconds / unit:.2g} {name}" if seconds < 100 * unit else f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86400:.3g} days"


def size(number: int) -> str:
    """512 B, 3.4 MB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number} B"
