"""The runs of Tables I to IV and Figs. 3, 5, 9 and 10: which methods on which federations, with the printed settings.

Methods and hyper-parameters never change with the scale; data set, samples and rounds do. A problem is a data set with
the number of its samples and rounds; a partition is named as the paper's columns are: iid, xi=2, alpha=0.1.
"""

from dataclasses import dataclass

import pandas as pd

from fedlib import algorithms, data
from fedlib.judging import transfers
from fedlib.runs.study import Run

LOCAL = {"lr": 0.01, "final_lr": 1e-5, "momentum": 0.5, "batch": 32}  # Section IV-D, the rate on a cosine
EPOCHS = 5  # epochs of a device in a round, whatever the method
RING = 4  # devices of a ring

# Method -> algorithm and what makes up its five epochs a round.
METHODS: dict[str, tuple[str, dict]] = {
    "Centralized": ("centralised", {"epochs": EPOCHS}),
    "FedAvg": ("fedavg", {"epochs": EPOCHS}),
    "FedProx": ("fedprox", {"epochs": EPOCHS}),
    "MOON": ("moon", {"epochs": EPOCHS}),
    "HierFAVG": ("hierfavg", {"epochs": 1, "iterations": EPOCHS, "cluster_size": RING}),
    "ring-optimization": ("ring", {"epochs": EPOCHS}),
    "FedSR": ("fedsr", {"epochs": 1, "passes": EPOCHS, "cluster_size": RING}),
}
STAR = ("FedAvg", "FedProx", "MOON")
DECENTRAL = tuple(METHODS)[1:]  # all but centralised training


@dataclass(frozen=True)
class Problem:
    """A data set at a scale; None keeps all samples."""

    data_set: str
    samples: int | None
    rounds: int
    devices: int = 20
    test_samples: int | None = None
    every: int = 1

    def federation(self, partition: str) -> dict:
        """Arguments of `federate`; MNIST trains the MLP, the others the CNN."""
        network = "mlp200" if self.data_set == "mnist" else "cnn_fedsr"
        size = {"samples": self.samples, "test_samples": self.test_samples, "clients": self.devices}
        return {"data_set": self.data_set, "network": network} | size | deal(partition)


def deal(partition: str) -> dict:
    """The partitioner behind a column's name."""
    if partition == "iid":
        return {"partitioner": "iid"}
    symbol, _, value = partition.partition("=")
    if symbol == "xi" and value.isdigit():
        return {"partitioner": "shards", "per_client": int(value)}
    if symbol == "alpha":
        return {"partitioner": "dirichlet", "alpha": float(value)}
    raise ValueError(f"no partition {partition!r}: write iid, xi=<shards a device> or alpha=<concentration>")


def columns(data_set: str, wanted: list[str]) -> list[str]:
    """The columns of Table II for a data set: CIFAR-100 has twice as many shards a device."""
    twice = {"xi=4": "xi=8", "xi=2": "xi=4"} if data_set == "cifar100" else {}
    return [twice.get(partition, partition) for partition in wanted]


def on_disk(data_sets: list[str]) -> list[str]:
    """Those of these data sets that can be had here."""
    places = data.available()
    return [name for name in data_sets if not places.get(name, "missing").startswith("missing")]


def run(method: str, problem: Problem, partition: str, seed: int, label: dict | None = None, **options) -> Run:
    """One run of a method; `options` change what the table of methods says."""
    algorithm, own = METHODS[method]
    names = {"data_set": problem.data_set, "partition": partition, "method": method} | (label or {})
    options = LOCAL | {"rounds": problem.rounds} | own | options
    return Run(algorithm, problem.federation(partition), problem.rounds, seed, options, problem.every, names)


def two_methods(problem: Problem, partitions: list[str], seeds: range) -> list[Run]:
    """Table I and Fig. 3: FedAvg and ring-optimization with one local epoch."""
    return [
        run(method, problem, partition, seed, epochs=1)
        for seed in seeds
        for partition in partitions
        for method in ("FedAvg", "ring-optimization")
    ]


def tuning(problem: Problem, partition: str, grids: dict[str, list[float]], seed: int) -> list[Run]:
    """FedProx and MOON at every mu of their grids, on a seed that no result uses."""
    return [run(method, problem, partition, seed, {"mu": mu}, mu=mu) for method, grid in grids.items() for mu in grid]


def best(tuned: pd.DataFrame) -> dict[str, dict]:
    """The mu with the highest accuracy, as options of each method."""
    rows = tuned.loc[tuned.groupby("method", sort=False)["accuracy"].idxmax()]
    return {row.method: {"mu": row.mu} for row in rows.itertuples()}


def comparison(problem: Problem, partitions: list[str], methods: list[str], seeds: range, chosen: dict) -> list[Run]:
    """Table II: every method on every partition; centralised training sees no partition and runs on the iid one."""
    return [
        run(method, problem, "iid" if method == "Centralized" else partition, seed, **chosen.get(method, {}))
        for seed in seeds
        for partition in partitions
        for method in methods
        if method != "Centralized" or partition == partitions[0]
    ]


def crowd(problem: Problem, shares: list[float], methods: list[str], seeds: range, chosen: dict) -> list[Run]:
    """Table IV: some of many devices take part in a round, xi = 2."""
    return [
        run(method, problem, "xi=2", seed, {"participation": share}, participation=share, **chosen.get(method, {}))
        for seed in seeds
        for share in shares
        for method in methods
    ]


def epochs(problem: Problem, local: list[int], ring: list[int], partitions: list[str], seeds: range) -> list[Run]:
    """Fig. 9: FedSR with more local epochs and one pass, or one local epoch and more passes."""
    work = [("local", each, {"epochs": each, "passes": 1}) for each in local]
    work += [("ring", each, {"epochs": 1, "passes": each}) for each in ring]
    return [
        run("FedSR", problem, partition, seed, {"kind": kind, "epochs": number}, **options)
        for seed in seeds
        for partition in partitions
        for kind, number, options in work
    ]


def ring_shares(problem: Problem, shares: list[float], partitions: list[str], seeds: range) -> list[Run]:
    """Fig. 10: rings that hold a given share of all devices."""
    return [
        run("FedSR", problem, partition, seed, {"share": share}, cluster_size=round(share * problem.devices))
        for seed in seeds
        for partition in partitions
        for share in shares
    ]


def per_round(devices: int, edge_broadcasts: bool = False) -> dict[str, int]:
    """Model transfers of a round of each method, as Table III counts them or with what edge servers hand down."""
    made = {method: algorithms.create(METHODS[method][0], **METHODS[method][1]) for method in DECENTRAL}
    return {method: transfers.per_round(algorithm, devices, edge_broadcasts) for method, algorithm in made.items()}


def overview(devices: int) -> pd.DataFrame:
    """What a round means for each method: epochs a device, epochs that a model makes in a row, models sent."""
    in_a_row = {"Centralized": devices * EPOCHS, "ring-optimization": devices * EPOCHS, "FedSR": RING * EPOCHS}
    sent = per_round(devices)
    rows = [
        {
            "method": method,
            "epochs a device": EPOCHS,
            "epochs in a row, of one device's data each": in_a_row.get(method, EPOCHS),
            "models sent": str(sent.get(method, "none")),
        }
        for method in METHODS
    ]
    return pd.DataFrame(rows).set_index("method")


def gradients(run: Run) -> int:
    """Sample gradients of a run, roughly its cost: samples of the devices that take part x epochs x rounds."""
    samples = run.federation["samples"] or len(data.load(run.federation["data_set"]).y_train)
    passes = run.options.get("passes", run.options.get("iterations", 1)) * run.options["epochs"]
    return round(samples * run.options.get("participation", 1.0) * passes * run.rounds)
