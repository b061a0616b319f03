"""Kinds of runs: runs of a kind cost the same per round and pass over the data.

The cost depends on counts (clients, samples, batch, steps, ...) and on the share of clients that take part, not on
learning rates, weights of terms, names and seeds. Passes over the data (`LOOPS`) are left out of the kind: time is
linear in them.
"""

import json
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, get_type_hints

from fedlib.algorithms import REGISTRY
from fedlib.problem import layout, models
from fedlib.problem.limits import is_count
from fedlib.runs.run import Run

LOOPS = ("epochs", "passes", "iterations")  # a round's local work is proportional to each
MOMENTS = ("schedule", "stop", "restart", "cap", "history")  # counts that say when, not how much
SAMPLES = ("samples", "test_samples", "test_share", "validation_share", "client_samples", "crop", "flip")
SIZES = ("data_set", "network", "network_options", "clients", *SAMPLES)
UNEQUAL = ("dirichlet", "by_writer")  # partitions whose clients differ in size


@dataclass(frozen=True)
class Cost:
    """The cost of one run of a kind: seconds on one core, bytes of memory. `record` is one record of such a run."""

    setup: float  # once per run: deal the data, first state
    base: float  # per round, for any number of passes
    loop: float  # per round and pass
    evaluation: float  # per measured round
    memory: int  # peak of the process
    part: float  # share of a whole round's local work that was timed; 1 is all of it
    record: dict[str, float] = field(default_factory=dict)

    def seconds(self, run: Run) -> float:
        """The projected time of a run on one core."""
        rounds = run.rounds * (self.base + self.loop * loops(run.config["options"]))
        return self.setup + rounds + len(measured_rounds(run)) * self.evaluation


def kind(run: Run) -> str:
    """The name of the run's kind: all that changes its cost, as JSON."""
    config = run.config
    sizes = {name: config["federation"][name] for name in SIZES}
    ragged = config["federation"]["partitioner"] in UNEQUAL and stacked(sizes["network"])
    types = get_type_hints(REGISTRY[run.algorithm], include_extras=True)
    counts = {name: value for name, value in config["options"].items() if _costs(name, types[name])}
    return json.dumps({"algorithm": run.algorithm} | sizes | {"unequal clients": ragged} | counts, sort_keys=True)


def _costs(name: str, annotation: object) -> bool:
    counted = annotation is bool or is_count(annotation)
    return name == "participation" or (counted and name not in (*LOOPS, *MOMENTS))


@cache
def stacked(network: str) -> bool:
    """Whether clients of this network train stacked, so that unequal sizes cost time."""
    return layout.is_dense(models.build(network, 10, (3, 32, 32)))


def loops(options: dict[str, Any]) -> int:
    """Passes over the data per round, or what corresponds to them; 1 if a method has none."""
    return prod(options[name] for name in LOOPS if options.get(name))


def measured_rounds(run: Run) -> list[int]:
    """The rounds that `simulate` records."""
    return [0, *(round for round in range(1, run.rounds + 1) if round % run.every == 0 or round == run.rounds)]


def result_bytes(run: Run, record: dict[str, float]) -> int:
    """Bytes of a run in the store: `records.csv` and `run.json` (about 400 bytes for maker, versions and time)."""
    rounds = measured_rounds(run)
    header = len(",".join(["round", *record])) + 1
    rows = sum(len(f"{round},") for round in rounds) + len(rounds) * len(",".join(map(str, record.values())) + "\n")
    return header + rows + len(json.dumps(run.asked, indent=1)) + 400
