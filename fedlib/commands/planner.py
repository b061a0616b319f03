"""What `fedlib plan` prints, as plain data: the runs of each notebook, and what the missing ones cost."""

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from omegaconf import DictConfig
from tqdm import tqdm

from fedlib.commands.dry_run import Study, studies_of
from fedlib.report.execute import environment
from fedlib.report.notebooks import Notebook, values_of
from fedlib.report.produce import kernel_environment
from fedlib.runs.bars import quiet
from fedlib.runs.plan import kinds
from fedlib.runs.plan.kinds import Cost
from fedlib.runs.run import Run

Measure = Callable[[list[Run]], Iterator[Cost | str]]  # for each run, the cost of its kind or why it is unknown


class PlannedRun(NamedTuple):
    """A run with its kind, which takes a while to compute."""

    run: Run
    kind: str


@dataclass
class PlannedNotebook:
    """The runs of a notebook: its studies one after another, each with the runs that no earlier study has."""

    notebook: Notebook
    studies: list[list[PlannedRun]] = field(default_factory=list)
    runs: int = 0
    stored: int = 0
    shared: int = 0  # with notebooks before it in this plan
    note: str | None = None


class Planner:
    """The runs of one notebook after another, and what their kinds cost."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
        self.costs: dict[str, Cost | str] = {}
        self.seen: set[str] = set()  # runs of all notebooks so far

    def plan(self, notebook: Notebook, values: dict[str, Any]) -> PlannedNotebook:
        """Find the notebook's runs, and measure the kinds of those that are to be computed."""
        studies, note = studies_of(notebook, values)
        planned, names = PlannedNotebook(notebook, note=note), set()
        for study in studies:
            self.count(planned, study, names)
            names.update(study.runs)
        self.seen |= names
        self.price([task for tasks in planned.studies for task in tasks], notebook.label)
        return planned

    def count(self, planned: PlannedNotebook, study: Study, before: set[str]) -> None:
        """Add the runs of a study that the notebook did not have before."""
        new = [name for name in study.runs if name not in before]
        missing = [name for name in new if name in study.missing]
        to_do = [name for name in missing if name not in self.seen]
        planned.studies.append([PlannedRun(study.runs[name], kinds.kind(study.runs[name])) for name in to_do])
        planned.runs += len(new)
        planned.stored += len(new) - len(missing)
        planned.shared += len(missing) - len(to_do)

    def price(self, tasks: list[PlannedRun], title: str) -> None:
        """Measure the kinds that are not known yet, each on its run with most passes."""
        new: dict[str, Run] = {}
        for task in sorted(tasks, key=lambda task: -kinds.loops(task.run.config["options"])):
            if task.kind not in self.costs:
                new.setdefault(task.kind, task.run)
        answers = self.measure(list(new.values())) if new else ()
        bar = tqdm(answers, title, len(new), unit="kind", leave=False, disable=quiet() or not new)
        self.costs |= dict(zip(new, bar, strict=True))

    def cost(self, task: PlannedRun) -> Cost | None:
        """The cost of the run's kind, if known."""
        cost = self.costs[task.kind]
        return cost if isinstance(cost, Cost) else None


def plan(notebooks: list[Notebook], config: DictConfig, workers: tuple[int, ...], measure: Measure) -> dict[str, Any]:
    """The plan of notebooks with the values of a config, as plain data: what `--json` prints."""
    planner = Planner(measure)
    with environment(kernel_environment(config)):
        planned = [planner.plan(notebook, values_of(notebook, config)) for notebook in notebooks]
    rows = [row(notebook, planner, workers) for notebook in planned]
    missing = [task.kind for notebook in planned for tasks in notebook.studies for task in tasks]
    return {
        "scale": config.scale.name,
        "workers": list(workers),
        "notebooks": rows,
        "total": total(rows, workers),
        "kinds": measurements(planner, missing),
    }


def row(planned: PlannedNotebook, planner: Planner, workers: tuple[int, ...]) -> dict[str, Any]:
    """One notebook."""
    studies = [[(task.run, cost) for task in tasks if (cost := planner.cost(task))] for tasks in planned.studies]
    durations = [[cost.seconds(run) for run, cost in known] for known in studies]
    missing, seconds = sum(map(len, planned.studies)), [took for per_study in durations for took in per_study]
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
        "wall_seconds": {str(n): sum(makespan(per_study, n) for per_study in durations) for n in workers},
        "note": planned.note,
    }


def makespan(durations: list[float], workers: int) -> float:
    """The time until all workers are done, if each takes the longest run left as soon as it is free."""
    ends = [0.0] * workers
    for duration in sorted(durations, reverse=True):
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def total(rows: list[dict[str, Any]], workers: tuple[int, ...]) -> dict[str, Any]:
    """All notebooks, one after another."""
    summed = ("runs", "stored", "shared", "missing", "unmeasured", "core_hours", "result_bytes")
    sums = {name: sum(row[name] for row in rows) for name in summed}
    most = {name: max((row[name] for row in rows), default=0) for name in ("longest_seconds", "memory_bytes")}
    walls = {str(n): sum(row["wall_seconds"][str(n)] for row in rows) for n in workers}
    return sums | most | {"wall_seconds": walls}


def measurements(planner: Planner, missing: list[str]) -> list[dict[str, Any]]:
    """For each kind of the missing runs its measured seconds, or why there are none."""
    counts = Counter(missing)
    parts = ("setup", "base", "loop", "evaluation", "part", "memory")
    return [
        {"kind": json.loads(name), "runs": counts[name]}
        | ({part: getattr(cost, part) for part in parts} if isinstance(cost, Cost) else {"error": cost})
        for name, cost in planner.costs.items()
    ]
