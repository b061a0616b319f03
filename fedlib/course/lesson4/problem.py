"""Lesson 4, changing the topology: four ways to move a model, what a round of each costs, what a ring forgets.

Twelve devices with two kinds of digits each. A link to the cloud may cost more than one between neighbours; a round may
take longer in a row than another. So accuracy is drawn against rounds, against cost and against time.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from fedlib import engine
from fedlib.algorithms import create
from fedlib.algorithms.algorithm import Algorithm
from fedlib.judging import transfers
from fedlib.problem.federation import Federation
from fedlib.report import drift
from fedlib.runs.states import state_after
from fedlib.runs.study import Run, execute

DEVICES, EPOCHS, RING_SIZE = 12, 3, 4
LOCAL = {"lr": 0.1, "batch": 20}
PROBLEM = {
    "data_set": "mnist",
    "partitioner": "shards",
    "per_client": 2,
    "clients": DEVICES,
    "network": "mlp200",
    "samples": 960,
    "test_samples": 1000,
}  # arguments of `federate`: 80 images a device, of two or three digits
METHODS = {
    "FedAvg": ("fedavg", {"epochs": EPOCHS}),
    "HierFAVG": ("hierfavg", {"epochs": 1, "iterations": EPOCHS, "cluster_size": RING_SIZE}),
    "ring-optimization": ("ring", {"epochs": EPOCHS}),
    "FedSR": ("fedsr", {"epochs": 1, "passes": EPOCHS, "cluster_size": RING_SIZE}),
}  # every device computes EPOCHS epochs per round
CLOUD_PRICE = 10  # of a model to or from the cloud; any other sending costs 1
BUDGET, PATIENCE = 1000, 120  # of the last exercise: cost, and epochs in a row
SAMPLE_DESIGN = {"cluster_size": 4, "passes": 3}  # the design of the text, to be beaten


def method(name: str) -> Algorithm:
    """One of the four methods with the settings of this lesson."""
    algorithm, options = METHODS[name]
    return create(algorithm, **options, **LOCAL)


def models_sent(algorithm: Algorithm, devices: int = DEVICES) -> int:
    """Arrows of a round: every sending of a model counts."""
    return transfers.per_round(algorithm, devices, edge_broadcasts=True)


def cost(algorithm: Algorithm, cloud_price: float, devices: int = DEVICES) -> float:
    """Of a round, when a model to or from the cloud costs `cloud_price` and any other sending costs 1."""
    return sum(cloud_price if "cloud" in hop else 1 for hop in transfers.hops(algorithm, devices))


def epochs_in_a_row(algorithm: Algorithm, devices: int = DEVICES) -> int:
    """How long a round takes: the epochs that must wait for each other. Devices side by side do not."""
    kind, options = type(algorithm).__name__, vars(algorithm)
    if kind == "Ring":
        return devices * options["epochs"]
    if kind == "FedSR":
        return min(devices, options["cluster_size"]) * options["passes"] * options["epochs"]
    return options.get("iterations", 1) * options["epochs"]


def round_of(devices: int = DEVICES, cloud_price: float = CLOUD_PRICE) -> pd.DataFrame:
    """What a round of each method means."""
    made = {name: method(name) for name in METHODS}
    return pd.DataFrame(
        {
            "models sent": {name: models_sent(each, devices) for name, each in made.items()},
            f"cost, cloud links {cloud_price:g}": {
                name: cost(each, cloud_price, devices) for name, each in made.items()
            },
            "epochs in a row": {name: epochs_in_a_row(each, devices) for name, each in made.items()},
        }
    ).rename_axis("method")


def race(rounds: int, seeds: range) -> pd.DataFrame:
    """All four methods on the skewed problem: one row a run and round."""
    runs = [
        planned(algorithm, seed, rounds, options | LOCAL, {"method": name})
        for name, (algorithm, options) in METHODS.items()
        for seed in seeds
    ]
    return execute(runs)


def planned(algorithm: str, seed: int, rounds: int, options: dict, label: dict) -> Run:
    return Run(algorithm, PROBLEM, rounds, seed, options, label=label)


def classes_seen(federation: Federation, rings: list[np.ndarray]) -> pd.DataFrame:
    """The kinds of digits that each ring's devices hold together."""
    held = federation.class_counts.numpy() > 0
    rows = [
        {
            "ring": m,
            "devices": ", ".join(str(int(device)) for device in ring),
            "digits per device": f"{held[ring].sum(axis=1).mean():.1f}",
            "digits of the ring": int(held[ring].any(axis=0).sum()),
        }
        for m, ring in enumerate(rings, 1)
    ]
    return pd.DataFrame(rows).set_index("ring")


@dataclass(frozen=True)
class RingTour:
    """A model's way along a ring: what it knows after each visit, and what each device holds."""

    recall: np.ndarray  # (visits + 1, classes), the start first
    held: np.ndarray  # (visits, classes): share of the device's samples

    @property
    def ago(self) -> np.ndarray:
        """Visits since a device held some of a class, (visits, classes); 0 is the device itself, NaN is never yet."""
        found = np.full(self.held.shape, np.nan)
        last = np.full(self.held.shape[1], np.nan)
        for visit, shares in enumerate(self.held):
            last[shares >= MUCH] = visit
            found[visit] = visit - last
        return found


MUCH = 0.1  # a device holds a class if at least this share of its samples is of it


def trainer(federation: Federation, work: engine.Work, round: int = 1) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """A function `train(model, device)`: what a device makes of a model."""
    return lambda model, device: engine.train(
        federation, engine.Cohort(np.array([device]), model), work, round
    ).weights[0]


def after(federation: Federation, rounds: int) -> torch.Tensor:
    """The cloud's model after some rounds of FedSR."""
    return state_after(method("FedSR"), federation, rounds)["weights"]


def journey(
    federation: Federation, start: torch.Tensor, ring: np.ndarray, work: engine.Work, round: int = 1
) -> RingTour:
    """Let one model visit the devices of a ring once and look at it after every visit."""
    weights, known, visit = start, [drift.recall(federation, start)], trainer(federation, work, round)
    for device in ring:
        weights = visit(weights, device)
        known.append(drift.recall(federation, weights))
    shares = federation.class_counts / federation.class_counts.sum(dim=1, keepdim=True)
    return RingTour(np.stack(known), shares.numpy()[ring])


def design(cluster_size: int, passes: int) -> Algorithm:
    """FedSR with rings of this size and this many passes."""
    return create("fedsr", epochs=1, cluster_size=cluster_size, passes=passes, **LOCAL)


def affordable_rounds(algorithm: Algorithm) -> int:
    """Rounds that neither the budget nor our patience ends."""
    return int(min(BUDGET // cost(algorithm, CLOUD_PRICE), PATIENCE // epochs_in_a_row(algorithm)))
