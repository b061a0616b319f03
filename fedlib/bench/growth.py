"""How the engine's time grows: flat in the number of clients, linear in the number of participants.

Clients that do not take part cost nothing but their data in RAM; each participant costs the same work.
"""

import signal
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedlib.bench.contestants import GROWTH, NotAvailable
from fedlib.bench.referee import Failed, Worker
from fedlib.bench.workloads import Workload

CLIENTS = (10, 100, 1000, 10_000)
COHORTS = (10, 30, 100, 300, 1000)
STUDIES = {
    "softmax": Workload(
        "softmax",
        "Softmax regression 576x10, ten steps of batch 16",
        "softmax",
        (576,),
        10,
        clients=CLIENTS[-1],
        size=20,
        participants=COHORTS[0],
        batch=16,
        steps=10,
    ),
    "mlp200": Workload(
        "mlp200",
        "Perceptron 784-200-200-10, ten steps of batch 32, momentum 0.5",
        "mlp200",
        (28, 28),
        10,
        clients=CLIENTS[-1],
        size=20,
        participants=COHORTS[0],
        batch=32,
        steps=10,
        momentum=0.5,
    ),
}


def cases(workload: Workload) -> dict[str, Workload]:
    """The study's settings by name: clients at the smallest cohort, cohorts among all clients."""
    return {
        **{
            f"clients {clients}": replace(workload, clients=clients)
            for clients in CLIENTS
            if clients <= workload.clients
        },
        **{f"cohort {size}": replace(workload, participants=size) for size in COHORTS if size <= workload.clients},
    }


def measure(
    studies: dict[str, Workload], repetitions: int, results: dict[str, dict], say: Callable[[str], None]
) -> None:
    """Milliseconds per round for each case of each study, in turns; `results` is filled step by step."""
    for name, workload in studies.items():
        results[name] = {"title": workload.title, "ms": {case: [] for case in cases(workload)}}
        worker = Worker(GROWTH, workload)
        try:
            _measure_one(
                worker, results[name]["ms"], repetitions, lambda text, name=name: say(f"growth {name}  {text}")
            )
        except (Failed, NotAvailable) as reason:
            results[name]["missing"] = f"failed: {reason}"
        finally:
            worker.close()


def _measure_one(worker: Worker, times: dict[str, list[float]], repetitions: int, say: Callable[[str], None]) -> None:
    say("prepares and warms up")
    worker.ready()
    for case in times:
        worker.warm_up(case)
    worker.signal(signal.SIGSTOP)
    for repetition in range(repetitions):
        for case in times:
            times[case].append(worker.turn(case))
        say(f"{repetition + 1}/{repetitions}")


def series(times: dict[str, list[float]], kind: str) -> dict[int, float]:
    """Median milliseconds per round by number of clients (`kind` "clients") or participants ("cohort")."""
    measured = [(*case.split(), values) for case, values in times.items() if values]
    return {int(size): float(np.median(values)) for axis, size, values in measured if axis == kind}


def slope(points: dict[int, float]) -> float:
    """Exponent p of the fit time = c * size^p (least squares on logarithms): 0 is flat, 1 is linear."""
    sizes, times = np.log(list(points)), np.log(list(points.values()))
    return float(np.polyfit(sizes, times, 1)[0])
