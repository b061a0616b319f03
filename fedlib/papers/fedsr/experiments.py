"""The runs of Tables I to IV and Figs. 3, 5, 9 and 10, with the printed settings; who holds what, Figs. 7 and 8.

Methods and hyper-parameters never change with the scale; data set, samples and rounds do. A partition is named as the
paper's columns are: iid, xi=2, alpha=0.1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedlib import data
from fedlib.algorithms.fedsr import FedSR
from fedlib.problem import skew
from fedlib.problem.federation import federate
from fedlib.problem.partition import PARTITIONERS
from fedlib.problem.streams import generator
from fedlib.runs import tuning
from fedlib.runs.computations import computation
from fedlib.runs.study import Run
from fedlib.runs.tuning import Sweep

LOCAL = {"lr": 0.01, "final_lr": 1e-5, "momentum": 0.5, "batch": 32}  # Section IV-D, the rate on a cosine
EPOCHS = 5  # epochs per device and round, whatever the method
RING_DEVICES = 4  # devices per ring

# Method -> algorithm and what makes up its five epochs per round.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "Centralized": ("centralised", {"epochs": EPOCHS}),
    "FedAvg": ("fedavg", {"epochs": EPOCHS}),
    "FedProx": ("fedprox", {"epochs": EPOCHS}),
    "MOON": ("moon", {"epochs": EPOCHS}),
    "HierFAVG": ("hierfavg", {"epochs": 1, "iterations": EPOCHS, "cluster_size": RING_DEVICES}),
    "ring-optimization": ("ring", {"epochs": EPOCHS}),
    "FedSR": ("fedsr", {"epochs": 1, "passes": EPOCHS, "cluster_size": RING_DEVICES}),
}
STAR = ("FedAvg", "FedProx", "MOON")
DECENTRAL = tuple(METHODS)[1:]  # all but centralised training


@dataclass(frozen=True)
class TrainingProblem:
    """A data set at a scale: how many samples (None keeps all), rounds and devices."""

    data_set: str
    samples: int | None
    rounds: int
    devices: int = 20
    test_samples: int | None = None
    every: int = 1

    def federation_options(self, partition: str) -> dict[str, Any]:
        """Arguments of `federate`; MNIST trains the MLP, the others the CNN."""
        network = "mlp200" if self.data_set == "mnist" else "cnn_fedsr"
        size = {"samples": self.samples, "test_samples": self.test_samples, "clients": self.devices}
        return {"data_set": self.data_set, "network": network} | size | partition_options(partition)


def partition_options(partition: str) -> dict[str, Any]:
    """The partitioner behind a column's name."""
    if partition == "iid":
        return {"partitioner": "iid"}
    symbol, _, value = partition.partition("=")
    if symbol == "xi" and value.isdigit():
        return {"partitioner": "shards", "per_client": int(value)}
    if symbol == "alpha":
        return {"partitioner": "dirichlet", "alpha": float(value)}
    raise ValueError(f"no partition {partition!r}: write iid, xi=<shards a device> or alpha=<concentration>")


def split(labels: np.ndarray, partition: str, devices: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The samples of each device under the partition of this name."""
    options = partition_options(partition)
    return PARTITIONERS[options.pop("partitioner")](labels, devices, **options, rng=rng)


def columns(data_set: str, wanted: list[str]) -> list[str]:
    """The columns of Table II for a data set: CIFAR-100 has twice as many shards per device."""
    twice = {"xi=4": "xi=8", "xi=2": "xi=4"} if data_set == "cifar100" else {}
    return [twice.get(partition, partition) for partition in wanted]


def run(
    method: str,
    problem: TrainingProblem,
    partition: str,
    seed: int,
    label: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    """One run of a method; `options` change what the table of methods says."""
    algorithm, fixed = METHODS[method]
    names = {"data_set": problem.data_set, "partition": partition, "method": method} | (label or {})
    all_options = LOCAL | {"schedule": problem.rounds} | fixed | options
    federation = problem.federation_options(partition)
    return Run(algorithm, federation, problem.rounds, seed, all_options, problem.every, names)


def two_methods(problem: TrainingProblem, partitions: list[str], seeds: range) -> list[Run]:
    """Table I and Fig. 3: FedAvg and ring-optimization with one local epoch."""
    return [
        run(method, problem, partition, seed, epochs=1)
        for seed in seeds
        for partition in partitions
        for method in ("FedAvg", "ring-optimization")
    ]


def tune(problem: TrainingProblem, partition: str, grids: dict[str, list[float]], seed: int) -> Sweep:
    """The best mu of FedProx and MOON."""
    bases = {method: run(method, problem, partition, 0) for method in grids}
    return tuning.tune(bases, {method: {"mu": grid} for method, grid in grids.items()}, [seed])


def comparison(
    problem: TrainingProblem,
    partitions: list[str],
    methods: list[str],
    seeds: range,
    chosen: dict[str, dict[str, Any]],
) -> list[Run]:
    """Table II: every method on every partition; centralised training sees no partition and runs on the iid one.

    `chosen` holds options of single methods, such as `tune` finds them.
    """
    return [
        run(method, problem, "iid" if method == "Centralized" else partition, seed, **chosen.get(method, {}))
        for seed in seeds
        for partition in partitions
        for method in methods
        if method != "Centralized" or partition == partitions[0]
    ]


def crowd(
    problem: TrainingProblem,
    shares: list[float],
    methods: list[str],
    seeds: range,
    chosen: dict[str, dict[str, Any]],
) -> list[Run]:
    """Table IV: a share of many devices takes part in each round, xi = 2. `chosen` as for `comparison`."""
    return [
        run(method, problem, "xi=2", seed, {"participation": share}, participation=share, **chosen.get(method, {}))
        for seed in seeds
        for share in shares
        for method in methods
    ]


def epochs_and_passes(
    problem: TrainingProblem, local: list[int], ring: list[int], partitions: list[str], seeds: range
) -> list[Run]:
    """Fig. 9: FedSR with more local epochs and one pass, or one local epoch and more passes."""
    work = [("local", number, {"epochs": number, "passes": 1}) for number in local]
    work += [("ring", number, {"epochs": 1, "passes": number}) for number in ring]
    return [
        run("FedSR", problem, partition, seed, {"kind": kind, "epochs": number}, **options)
        for seed in seeds
        for partition in partitions
        for kind, number, options in work
    ]


def ring_shares(problem: TrainingProblem, shares: list[float], partitions: list[str], seeds: range) -> list[Run]:
    """Fig. 10: rings that hold a given share of all devices."""
    return [
        run("FedSR", problem, partition, seed, {"share": share}, cluster_size=round(share * problem.devices))
        for seed in seeds
        for partition in partitions
        for share in shares
    ]


# Who holds what: Figs. 7 and 8


@computation
def first_rings(federation: dict, seed: int) -> pd.DataFrame:
    """The rings of FedSR's first round, with their devices and how many classes a model sees on its way around each."""
    built = federate(**federation, seed=seed)
    held = built.class_counts.numpy() > 0
    rings = FedSR(cluster_size=RING_DEVICES).rings(built, round=1)
    return pd.DataFrame(
        [
            {"ring": ring + 1, "devices": str(devices.tolist()), "classes seen": int(held[devices].any(axis=0).sum())}
            for ring, devices in enumerate(rings)
        ]
    )


@computation
def device_counts(data_set: str, partitions: list[str], devices: int, seed: int) -> pd.DataFrame:
    """Fig. 8: how many samples of each class each device holds; one row per partition, device and class."""
    labels = data.load(data_set).y_train.numpy()
    classes, rows = int(labels.max()) + 1, []
    for partition in partitions:
        counts = skew.class_counts(labels, split(labels, partition, devices, generator(seed, "partition")), classes)
        rows += [(partition, device, label, int(samples)) for (device, label), samples in np.ndenumerate(counts)]
    return pd.DataFrame(rows, columns=["partition", "device", "class", "samples"])


@computation
def ring_draws(data_set: str, partitions: list[str], devices: int, ring: int, count: int, seed: int) -> pd.DataFrame:
    """Fig. 7: how evenly the data fall on rings of `ring` devices; one row per draw of partition and rings."""
    labels, rows = data.load(data_set).y_train.numpy(), []
    for partition in partitions:
        for draw in range(count):
            rng = generator(seed, "fig7", draw)
            sizes = np.array([len(part) for part in split(labels, partition, devices, rng)])
            squares = sum_of_squares(sizes, ring, rng)
            rows.append({"partition": partition, "seed": draw, "sum_of_squares": squares})
    return pd.DataFrame(rows)


def sum_of_squares(sizes: np.ndarray, ring: int, rng: np.random.Generator) -> float:
    """sum_m (|D_m| / |D|)^2 when devices of these sizes are dealt at random into rings of `ring`."""
    order = rng.permutation(len(sizes))
    weights = np.array([sizes[order[first : first + ring]].sum() for first in range(0, len(order), ring)]) / sizes.sum()
    return float((weights**2).sum())
