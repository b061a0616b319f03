"""The runs of Tables I to IV and Figs. 3, 5, 9 and 10, with the printed settings; the data of Figs. 7 and 8.

Methods and hyper-parameters never change with the scale; data set, samples and rounds do. The learning rate falls over
the `schedule`; a run may have fewer rounds. A partition is named like the paper's columns: iid, xi=2, alpha=0.1.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fedlib import data
from fedlib.algorithms.fedsr import FedSR
from fedlib.problem import skew
from fedlib.problem.federation import federate
from fedlib.problem.partition import PARTITIONERS
from fedlib.problem.streams import generator
from fedlib.runs import study, tuning
from fedlib.runs.computations import computation
from fedlib.runs.study import Run
from fedlib.runs.tuning import Sweep

LOCAL = {"lr": 0.01, "final_lr": 1e-5, "momentum": 0.5, "batch": 32}  # Section IV-D, the rate on a cosine
EPOCHS = 5  # epochs per device and round, the same for all methods
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
ONE_EPOCH = tuple(f"{method}, E = 1" for method in STAR)  # the star methods with a fifth of the work
RING_ONE_EPOCH = "ring-optimization, E = 1"  # the paper does not say how many epochs the ring makes
LITERAL = "FedSR as printed"  # Algorithm 1 exactly as printed
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (METHODS[method][0], {"epochs": 1}) for name, method in zip(ONE_EPOCH, STAR, strict=True)},
    RING_ONE_EPOCH: ("ring", {"epochs": 1}),
    "FedSR, R = 1": ("fedsr", {"epochs": 1, "passes": 1, "cluster_size": RING_DEVICES}),
    LITERAL: ("literalfedsr", METHODS["FedSR"][1]),
}
TARGETS = {"mnist": 0.90, "fashion_mnist": 0.80, "cifar10": 0.67, "cifar100": 0.33}  # of Table III

# The kinds of input, the plainest first. Mirrored digits are not digits, so MNIST is neither mirrored nor cropped.
INPUTS: dict[str, dict[str, Any]] = {
    "as they are": {},
    "standardised": {"standardise": "channel"},
    "cropped and mirrored": {"standardise": "channel", "crop": 4, "flip": True},
}
CANDIDATES = {
    "mnist": ["as they are", "standardised"],
    "fashion_mnist": ["as they are", "standardised", "cropped and mirrored"],
    "cifar10": ["as they are", "standardised", "cropped and mirrored"],
}
# One choice per data set, equal for all methods: `results.plainest` on centralised runs with held-out data.
CHOSEN_INPUTS = {
    "mnist": "as they are",
    "fashion_mnist": "standardised",
    "cifar10": "standardised",
    "cifar100": "standardised",
}

# What the desk scale runs, in order: block, notebook, what, runs, core-hours as projected before the first of them.
BLOCKS = (
    ("inputs", "images", "centralised training with two or three kinds of input, 20 epochs, held-out data", 8, 0.5),
    ("inputs", "images", "the same on CIFAR-10 with two more seeds, because one did not decide", 6, 0.5),
    ("inputs", "images", "the same on MNIST, because its margin turned out to be as narrow", 4, 0.1),
    ("mu", "comparison", "FedProx and MOON tuned on held-out data, 20 rounds", 8, 0.1),
    ("A", "comparison", "Table III on MNIST: all samples, to 90% on a 500-round schedule, 5 seeds", 60, 2.4),
    ("A", "comparison", "the same with standardised inputs: FedAvg with E = 1 and 5, FedSR, 5 seeds", 15, 0.2),
    (
        "A",
        "comparison",
        "as they are on four other seeds, shown and not judged, because two trials were much faster",
        12,
        0.4,
    ),
    (
        "A",
        "comparison",
        "FedAvg on six splits chosen by which digits share a device, to test a guess about that",
        6,
        0.3,
    ),
    ("A", "comparison", "FedAvg with E = 1 and 5 and FedSR on five further seeds, to test their ratio", 15, 0.6),
    ("B", "comparison", "Table II on MNIST: 1000 images per device, 100 rounds, 5 seeds", 100, 4.4),
    ("B", "comparison", "equal budgets at xi = 2: FedSR for 16, 25 and 36 rounds, FedAvg for 25, 5 seeds", 20, 0.2),
    ("B", "comparison", "the control: FedSR with iid data and FedAvg's epochs in a row, 25 rounds, 5 seeds", 5, 0.1),
    ("B", "ring_idea", "Table I on MNIST: all samples, 100 rounds, 3 seeds", 12, 0.3),
    ("C", "sensitivity", "Figs. 9 and 10, with a control (5 seeds), and Table IV (3 seeds) on MNIST", 132, 2.5),
    ("C", "sensitivity", "a control of Table IV with iid data: FedAvg, HierFAVG and FedSR, 3 seeds", 9, 0.2),
    ("D", "ring_idea", "Fig. 3 on CIFAR-10: 5000 images, 60 rounds, 3 seeds", 12, 0.3),
    ("D", "images", "CIFAR-10 and Fashion-MNIST at xi = 2, 15 rounds, 3 seeds; FedAvg and FedSR iid", 30, 2.1),
    ("D", "images", "a control there: FedSR with no more epochs in a row than FedAvg, 3 rounds, 3 seeds", 12, 0.6),
    ("E", "comparison", "whole 500-round runs at xi = 2: FedAvg with E = 5 and 1, FedSR, 3 seeds", 9, 5.2),
    ("E", "comparison", "the same with the ring, left out at first for its cost", 3, 2.4),
)
# What the desk scale skips, because it takes too long, with the hours it would take.
NOT_RUN = (
    ("Table II on MNIST with all samples and 500 rounds, all methods and columns, 5 seeds", 130),
    ("of Table II as above: alpha = 0.3; MOON but at xi = 2; FedProx and HierFAVG at xi = 4", 4.2),
    ("whole 500-round runs of HierFAVG, FedProx and MOON at xi = 2, 3 seeds", 10),
    ("whole 500-round runs of FedProx and MOON with one local epoch at xi = 2, 3 seeds", 1.7),
    ("Table I and Fig. 3 with all samples on Fashion-MNIST, CIFAR-10 and CIFAR-100, 3 seeds", 88),
    ("Table II on Fashion-MNIST, CIFAR-10 and CIFAR-100 as printed, 5 seeds", 6000),
    ("Table III on Fashion-MNIST, CIFAR-10 and CIFAR-100, 5 seeds", 440),
    ("Table IV on CIFAR-10, and on MNIST with FedProx, MOON and 40% participation", 210),
    ("Fig. 9 with ten local epochs on MNIST, 5 seeds", 0.5),
    ("Figs. 9 and 10 on CIFAR-10 as printed, 3 seeds", 620),
)


@dataclass(frozen=True)
class TrainingProblem:
    """A data set at a scale: how many samples (None keeps all), rounds and devices."""

    data_set: str
    samples: int | None
    rounds: int
    devices: int = 20
    test_samples: int | None = None
    every: int = 1
    schedule: int | None = None  # rounds over which the rate falls; None: those of the run
    target: float | None = None  # accuracy at which a run ends
    inputs: str | None = None  # None: the data set's choice

    def federation_options(self, partition: str) -> dict[str, Any]:
        """Arguments of `federate`; MNIST trains the MLP, the others the CNN."""
        network = "mlp200" if self.data_set == "mnist" else "cnn_fedsr"
        size = {"samples": self.samples, "test_samples": self.test_samples, "clients": self.devices}
        shaping = INPUTS[self.inputs or CHOSEN_INPUTS.get(self.data_set, "as they are")]
        return {"data_set": self.data_set, "network": network} | size | shaping | partition_options(partition)


def partition_options(partition: str) -> dict[str, Any]:
    """The partitioner behind a column's name."""
    if partition == "iid":
        return {"partitioner": "iid"}
    symbol, _, value = partition.partition("=")
    if symbol == "xi" and value.isdigit():
        return {"partitioner": "shards", "per_client": int(value)}
    if symbol == "alpha":
        return {"partitioner": "dirichlet", "alpha": float(value)}
    raise ValueError(f"no partition {partition!r}: write iid, xi=<shards per device> or alpha=<concentration>")


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
    """One run of a method; `options` override those in the table of methods."""
    algorithm, fixed = (METHODS | VARIANTS)[method]
    names = {"data_set": problem.data_set, "partition": partition, "method": method} | (label or {})
    all_options = LOCAL | {"schedule": problem.schedule or problem.rounds} | fixed | options
    stop = None if problem.target is None else {"accuracy": problem.target}
    federation = problem.federation_options(partition)
    return Run(algorithm, federation, problem.rounds, seed, all_options, problem.every, names, stop)


def two_methods(problem: TrainingProblem, partitions: list[str], seeds: range) -> list[Run]:
    """Table I and Fig. 3: FedAvg and ring-optimization with one local epoch."""
    return [
        run(method, problem, partition, seed, epochs=1)
        for seed in seeds
        for partition in partitions
        for method in ("FedAvg", "ring-optimization")
    ]


def central_check(problem: TrainingProblem, seeds: range) -> list[Run]:
    """Centralised training of one epoch per round with each kind of input, measured on held-out training samples."""
    runs = []
    for inputs in CANDIDATES[problem.data_set]:
        for seed in seeds:
            shaped = run("Centralized", replace(problem, inputs=inputs), "iid", seed, epochs=1)
            runs.append(replace(tuning.held_out(shaped, seed, {}), label=shaped.label | {"inputs": inputs}))
    return runs


def plan() -> pd.DataFrame:
    """The blocks of the desk scale with their projected core-hours, and what it skips because it takes too long."""
    rows = [
        {"block": block, "what": what, "runs": str(runs), "core-hours": hours} for block, _, what, runs, hours in BLOCKS
    ]
    rows.append({"block": "together", "what": "", "runs": "", "core-hours": round(sum(row[-1] for row in BLOCKS), 1)})
    rows += [{"block": "not run", "what": what, "runs": "", "core-hours": hours} for what, hours in NOT_RUN]
    return pd.DataFrame(rows).set_index("block")


def tune(problem: TrainingProblem, partition: str, grids: dict[str, list[float]], seed: int) -> Sweep:
    """The best mu of FedProx and MOON, as far as they have a grid."""
    if not grids:
        return Sweep(pd.DataFrame(), {})
    bases = {method: run(method, problem, partition, 0) for method in grids}
    return tuning.tune(bases, {method: {"mu": grid} for method, grid in grids.items()}, [seed])


def comparison(
    problem: TrainingProblem,
    partitions: list[str],
    methods: list[str],
    seeds: range,
    chosen: dict[str, dict[str, Any]],
) -> list[Run]:
    """Table II: every method on every partition; centralised training has no partition and runs once, as if iid.

    `chosen` holds options of single methods, such as those that `tune` finds; "MOON, E = 1" takes those of MOON.
    """
    return [
        run(method, problem, "iid" if method == "Centralized" else partition, seed, **chosen.get(base(method), {}))
        for seed in seeds
        for partition in partitions
        for method in methods
        if method != "Centralized" or partition == partitions[0]
    ]


def whole_schedules(problem: TrainingProblem, partition: str, lengths: dict[str, list[int]], seeds: range) -> list[Run]:
    """Each method once for each of its lengths in rounds, with a learning rate that falls over just these rounds."""
    return [
        run(method, replace(problem, rounds=rounds), partition, seed, {"length": rounds})
        for seed in seeds
        for method, all_lengths in lengths.items()
        for rounds in all_lengths
    ]


def base(method: str) -> str:
    """The method of a variant: that of "MOON, E = 1" is MOON."""
    return method.split(",")[0]


def crowd(
    problem: TrainingProblem,
    shares: list[float],
    methods: list[str],
    seeds: range,
    chosen: dict[str, dict[str, Any]],
    partition: str = "xi=2",
) -> list[Run]:
    """Table IV: a share of many devices takes part in each round. `chosen` as for `comparison`."""
    return [
        run(method, problem, partition, seed, {"participation": share}, participation=share, **chosen.get(method, {}))
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


def ring_shares(
    problem: TrainingProblem, shares: list[float], partitions: list[str], seeds: range, equal_steps: bool = False
) -> list[Run]:
    """Fig. 10: rings with a given share of all devices, for equal rounds or, as a control, for equal steps in a row.

    A ring twice as long makes twice the steps per round, so the control gives it half the rounds. Where the last ring
    is shorter than the others, the mean ring counts, each weighted by its devices.
    """
    lengths_of_rings = {share: mean_ring(problem.devices, round(share * problem.devices)) for share in shares}
    least = min(lengths_of_rings.values())
    fewer = {share: max(1, round(problem.rounds * least / length)) for share, length in lengths_of_rings.items()}
    lengths = fewer if equal_steps else dict.fromkeys(shares, problem.rounds)
    return [
        run(
            "FedSR",
            replace(problem, rounds=lengths[share]),
            partition,
            seed,
            {"share": share},
            cluster_size=round(share * problem.devices),
        )
        for seed in seeds
        for partition in partitions
        for share in shares
    ]


def mean_ring(devices: int, ring: int) -> float:
    """The devices of the ring that a device is in, on average, when rings of `ring` devices and a rest share all."""
    sizes = [min(ring, devices - first) for first in range(0, devices, ring)]
    return sum(size**2 for size in sizes) / devices


# Data on devices and rings: Figs. 7 and 8, and which digits share a device

LOOK_ALIKES = ((4, 9), (7, 9), (3, 5), (3, 8), (5, 8))  # digits that are easily taken for each other
SPLITS = range(200, 250)  # seeds whose splits are searched; no other result uses them


@computation
def look_alikes(federation: dict, seeds: list[int]) -> pd.DataFrame:
    """How many images of look-alike digits share a device, one row per seed; of a pair the rarer digit counts."""
    rows = []
    for seed in seeds:
        counts = federate(**federation, seed=seed).class_counts.numpy()
        together = sum(np.minimum(counts[:, a], counts[:, b]).sum() for a, b in LOOK_ALIKES)
        rows.append({"seed": seed, "together": int(together)})
    return pd.DataFrame(rows)


def extreme_splits(federation: dict, count: int) -> pd.DataFrame:
    """Of `SPLITS` those with the fewest and with the most look-alikes on one device, `count` of each; of equals the
    first. A plan, which computes nothing, takes any: their runs cost the same."""
    try:
        ordered = look_alikes(federation, [*SPLITS]).sort_values("together", kind="stable")
    except study.NotComputed:
        ordered = pd.DataFrame({"seed": SPLITS, "together": 0})
    few, many = ordered.head(count).assign(split="few together"), ordered.tail(count).assign(split="many together")
    return pd.concat([few, many], ignore_index=True)


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
    """Fig. 7: how evenly the data are spread over rings of `ring` devices; one row per draw of partition and rings."""
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
