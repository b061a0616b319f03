"""`python -m fedlib.bench.overhead`: the overhead of each backend, on a study of 40 short runs.

The same study goes to the in-process backend on one core, to a Dask cluster of this machine with one and two workers,
and to two processes, in turns, each time into an empty store. Workers are started and warm before the clock starts,
because they outlive a study. The result is printed and written to `reports/bench/overhead.json`.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from fedlib.bench import machine
from fedlib.data.files import write_text
from fedlib.report.execute import environment
from fedlib.runs import study
from fedlib.surroundings import REPOSITORY

RUNS, ROUNDS, REPETITIONS = 40, 5, 3
TITLE = "The overhead of each backend, on a study of 40 short runs."
ALONE = "inprocess"
SETUPS = ((ALONE, 1), ("dask", 1), ("dask", 2), ("processes", 2))
DEAL = {"data_set": "noise", "partitioner": "dirichlet", "clients": 20, "alpha": 0.5, "network": "mlp200"}


@dataclass(frozen=True)
class BackendOverhead:
    """One backend on the study: `efficiency` is the share of its workers' time that went into the runs."""

    backend: str
    workers: int
    seconds: float
    efficiency: float
    overhead_ms: float  # per run, of a worker's time

    def row(self) -> str:
        """A line of the printed table."""
        shares = f"{self.seconds:6.2f} s  {100 * self.efficiency:4.0f} %  {self.overhead_ms:6.1f} ms per run"
        return f"{self.backend:10} {self.workers} worker{'s' if self.workers > 1 else ' '}  {shares}"


def compare(times: dict[tuple[str, int], list[float]], runs: int) -> list[BackendOverhead]:
    """Medians over the repetitions, compared with the in-process backend."""
    seconds = {setup: median(repetitions) for setup, repetitions in times.items()}
    alone = seconds[ALONE, 1]
    return [
        BackendOverhead(backend, workers, wall, alone / (workers * wall), 1000 * (workers * wall - alone) / runs)
        for (backend, workers), wall in seconds.items()
    ]


def a_study(seeds: range) -> list[study.Run]:
    """FedAvg with a perceptron, a federation of its own for each run."""
    options = {"participation": 0.5, "epochs": 1, "batch": 32}
    return [study.Run("fedavg", DEAL, ROUNDS, seed, options, every=ROUNDS) for seed in seeds]


def write_noise(folder: Path) -> None:
    """A data set of MNIST's shape that workers load by name."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (2500, 28, 28), dtype=np.uint8), np.arange(2500) % 10
    np.savez(folder / "noise.npz", x_train=x[:2000], y_train=y[:2000], x_test=x[2000:], y_test=y[2000:])


def measure(backend: str, workers: int) -> float:
    """Seconds of the study; a few other runs come first, so that every worker is started and warm."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"FEDLIB_RUNS": f"{folder}/runs", "FEDLIB_DATA": folder, "FEDLIB_THREADS": "1", "FEDLIB_PROGRESS": "0"}
        write_noise(Path(folder))
        with environment(places):
            os.environ.pop("FEDLIB_ADDRESS", None)
            study.execute(a_study(range(RUNS, RUNS + 4 * workers)), backend, workers)
            began = time.perf_counter()
            study.execute(a_study(range(RUNS)), backend, workers)
            return time.perf_counter() - began


def main(arguments: list[str] | None = None, folder: Path = REPOSITORY / "reports" / "bench") -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m fedlib.bench.overhead", description=TITLE)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help=f"turns of each backend ({REPETITIONS})")
    repetitions = parser.parse_args(arguments).repetitions
    if repetitions < 1:
        parser.error(f"--repetitions must be at least 1, not {repetitions}")
    facts, times = machine.facts({}), {setup: [] for setup in SETUPS}
    for _ in range(repetitions):
        for setup in SETUPS:
            times[setup].append(measure(*setup))
    results = compare(times, RUNS)
    print(f"{RUNS} runs, medians of {repetitions}; {facts['processor']}, {facts['cores']} cores, load {facts['load']}")
    print("\n".join(result.row() for result in results))
    record = {"machine": facts, "runs": RUNS, "results": [vars(result) for result in results]}
    write_text(folder / "overhead.json", json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
