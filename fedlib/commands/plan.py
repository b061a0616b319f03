"""The plan of the chosen notebooks, as a table or as JSON.

    python -m fedlib plan paper=fedsr scale=desk
    python -m fedlib plan paper=fedsr scale=paper --workers 32 --json

For each notebook: its runs and how many of them are in the store, core-hours, memory of a worker, size of the results, and the
time that n workers need. Only runs are counted, not what notebooks compute besides. Nothing is written.
"""

import argparse
import heapq
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import pandas as pd
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from fedlib import data
from fedlib.commands.rehearsal import rehearse
from fedlib.report.build import kernel_environment
from fedlib.report.execute import environment
from fedlib.report.notebooks import Notebook, selection
from fedlib.report.settings import UsageError, compose_jobs, register_resolvers
from fedlib.runs import store, study
from fedlib.runs.plan import kinds
from fedlib.runs.plan.kinds import Cost
from fedlib.runs.plan.measure import measured
from fedlib.runs.simulation import quiet
from fedlib.runs.store import Run

WORKERS = (1, 2, 4, 8, 16, 32)
SECONDS = 2.0  # about so long a kind is measured
MEANING = """Times of one core of this machine. A worker is one core; it takes the longest run left and waits at the end of a
study. Runs only: what notebooks compute besides comes on top. Shared: with a notebook above."""
Measure = Callable[[list[Run]], Iterator[Cost | str]]  # for each run the cost of its kind, or why it is not known


def show(words: list[str], root: Path) -> bool:
    """Print the plan that the command line asks for; whether all notebooks could be planned to their end."""
    options, overrides = read(words)
    register_resolvers(root)
    (config,) = compose_jobs(root, overrides)
    made = plan(root, config, options.workers or WORKERS, partial(measured, seconds=options.seconds))
    print(json.dumps(made, indent=1) if options.json else text(made))
    return all(each["note"] is None for each in made["notebooks"])


def read(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of `plan`, and the overrides beside them."""
    parser = argparse.ArgumentParser(
        prog="python -m fedlib plan",
        usage="%(prog)s [choice=name ...] [setting=value ...] [options]",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--json", action="store_true", help="the same for programs to read")
    parser.add_argument(
        "--workers", type=_workers, metavar="N[,N...]", help="workers to share the runs (1,2,4,8,16,32)"
    )
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="about so long a kind of run is measured (2)")
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


class Task(NamedTuple):
    """A run with its identity and its kind, which take a while to spell out."""

    run: Run
    name: str
    kind: str


@dataclass
class Planned:
    """What a notebook will run: its studies one after another, each with the runs that none before it has."""

    notebook: Notebook
    studies: list[list[Task]] = field(default_factory=list)
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
        self.fingerprints: dict[str, str | None] = {}  # of the data sets

    def rehearse(self, notebook: Notebook, values: dict[str, Any]) -> Planned:
        """Find the notebook's runs."""
        planned, own = Planned(notebook), set()

        def execute(runs: list[Run], *engine, **options) -> pd.DataFrame:
            named = [(identity(run), run) for run in runs]
            tasks = {name: Task(run, name, kinds.kind(run)) for name, run in dict(named).items()}
            found = {name: self.stored(task.run) for name, task in tasks.items()}
            self.note(planned, [task for name, task in tasks.items() if name not in own], found)
            own.update(tasks)
            self.price([task for name, task in tasks.items() if found[name] is None], notebook.label)
            answers = {name: self.answer(task) if found[name] is None else found[name] for name, task in tasks.items()}
            return pd.concat([study._labelled(run, answers[name]) for name, run in named], ignore_index=True)

        planned.note = rehearse(notebook, values, execute)
        self.seen |= own
        return planned

    def note(self, planned: Planned, new: list[Task], found: dict[str, pd.DataFrame | None]) -> None:
        """Count the runs of a study that the notebook did not have before."""
        missing = [task for task in new if found[task.name] is None]
        to_do = [task for task in missing if task.name not in self.seen]
        planned.studies.append(to_do)
        planned.runs += len(new)
        planned.stored += len(new) - len(missing)
        planned.shared += len(missing) - len(to_do)

    def stored(self, run: Run) -> pd.DataFrame | None:
        """The records of a finished run, if there are any."""
        name = run.federation["data_set"]
        if name not in self.fingerprints:
            self.fingerprints[name] = fingerprint(name)
        if self.fingerprints[name] is None:
            return None
        run.__dict__["data_fingerprint"] = self.fingerprints[name]  # else every run would load the data to have it
        return store.load(run)

    def price(self, tasks: list[Task], title: str) -> None:
        """Measure the kinds that are not known yet, each on its run with most passes."""
        new: dict[str, Run] = {}
        for task in sorted(tasks, key=lambda task: -kinds.loops(task.run.config["options"])):
            if task.kind not in self.costs:
                new.setdefault(task.kind, task.run)
        answers = self.measure(list(new.values())) if new else ()
        bar = tqdm(answers, title, len(new), unit="kind", leave=False, disable=quiet() or not new)
        self.costs |= dict(zip(new, bar, strict=True))

    def cost(self, task: Task) -> Cost | None:
        """What the run's kind costs, if that is known."""
        found = self.costs[task.kind]
        return found if isinstance(found, Cost) else None

    def answer(self, task: Task) -> pd.DataFrame:
        """Rehearsed records, no two runs quite alike: of equals a notebook would choose the same for all methods."""
        cost, run = self.cost(task), task.run
        records = kinds.rehearsed(run, cost.record if cost else {})
        tilt = crc32(json.dumps([run.algorithm, run.options], sort_keys=True).encode()) / 2**32
        return records.assign(accuracy=records["accuracy"] + 1e-6 * tilt)


def identity(run: Run) -> str:
    """What makes a run, without the data's bytes: they may not be here."""
    return json.dumps(run.config, sort_keys=True)


def fingerprint(data_set: str) -> str | None:
    """The data set's own, or None where it cannot be had."""
    try:
        return data.load(data_set).fingerprint
    except (LookupError, OSError, ValueError):
        return None


def plan(root: Path, config: DictConfig, workers: tuple[int, ...], measure: Measure) -> dict[str, Any]:
    """The plan of the notebooks that the config asks for, as plain data: what `--json` prints."""
    notebooks, planner = selection(root, config), Planner(measure)
    with tempfile.TemporaryDirectory() as nowhere, environment(kernel_environment(config, Path(nowhere))):
        planned = []
        for notebook in notebooks:
            values = OmegaConf.to_container(config[notebook.paper][notebook.name], resolve=True)
            planned.append(planner.rehearse(notebook, values))
    rows = [row(each, planner, workers) for each in planned]
    return {
        "scale": config.scale.name,
        "workers": list(workers),
        "notebooks": rows,
        "total": total(rows, workers),
        "kinds": measurements(planner, [task.kind for each in planned for tasks in each.studies for task in tasks]),
    }


def row(planned: Planned, planner: Planner, workers: tuple[int, ...]) -> dict[str, Any]:
    """One notebook."""
    studies = [[(task.run, cost) for task in tasks if (cost := planner.cost(task))] for tasks in planned.studies]
    durations = [[cost.seconds(run) for run, cost in known] for known in studies]
    missing, seconds = sum(map(len, planned.studies)), sum(durations, [])
    return {
        "notebook": planned.notebook.label,
        "runs": planned.runs,
        "stored": planned.stored,
        "shared": planned.shared,
        "missing": missing,
        "unmeasured": missing - len(seconds),
        "core_hours": sum(seconds) / 3600,
        "longest_seconds": max(seconds, default=0.0),
        "memory_bytes": max((cost.memory for known in studies for _, cost in known), default=0),
        "result_bytes": sum(kinds.result_bytes(run, cost.record) for known in studies for run, cost in known),
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


def measurements(planner: Planner, missing: list[str]) -> list[dict[str, Any]]:
    """What was measured: for each kind of the missing runs its seconds, or why there are none."""
    counts = Counter(missing)
    parts = ("setup", "base", "loop", "evaluation", "part", "memory")
    return [
        {"kind": json.loads(name), "runs": counts[name]}
        | ({part: getattr(cost, part) for part in parts} if isinstance(cost, Cost) else {"error": cost})
        for name, cost in planner.costs.items()
    ]


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
    return [
        row["notebook"],
        *counts,
        least + number(row["core_hours"]),
        duration(row["longest_seconds"]),
        *sizes,
        *walls,
    ]


def _aligned(rows: list[list[str]]) -> list[str]:
    full = [row + [""] * (len(rows[0]) - len(row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in full]
    return ["  ".join([row[0].ljust(widths[0]), *line[1:]]).rstrip() for row, line in zip(full, lines, strict=True)]


def _what_was_measured(found: list[dict[str, Any]]) -> list[str]:
    known = [each["part"] for each in found if "error" not in each]
    parts = [part for part in known if part < 1]
    lines = []
    if known:
        lines.append(f"Measured: {len(known)} kinds of runs, {len(known) - len(parts)} of them by whole rounds.")
    if parts:
        lines.append(
            f"The others by parts of a round, at least {min(parts):.2g} of its work, and projected to the whole."
        )
    for error in dict.fromkeys(each["error"] for each in found if "error" in each):
        count = sum(each["runs"] for each in found if each.get("error") == error)
        lines.append(f"Not measured, and so not counted in times and sizes: {count} runs. {error}")
    return [*lines, MEANING]


def duration(seconds: float) -> str:
    """0.4 s, 12 s, 3.5 min, 7.2 h, 12 days."""
    for unit, name, most in ((1, "s", 100), (60, "min", 100), (3600, "h", 72)):
        if seconds < unit * most:
            return f"{number(seconds / unit, 2)} {name}"
    return f"{number(seconds / 86400, 2)} days"


def size(count: int) -> str:
    """512 B, 3.4 MB."""
    unit, name = next(
        ((unit, name) for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= unit), (1, "B")
    )
    return f"{number(count / unit, 2)} {name}"


def number(value: float, digits: int = 3) -> str:
    """So many digits that matter, and never an exponent for a large number: 0.012, 1.23, 123, 4161."""
    return f"{value:.{digits}g}" if value < 10 ** (digits - 1) else f"{value:.0f}"
