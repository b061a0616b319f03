"""Table II and Fig. 6: FedGS and the rows it is compared with, on the same devices.

A row is a name of the table, the algorithm that computes it and the options that only it has. Rivals train `epochs`
passes over their data on M * L participants per round; FedGS takes T one-step iterations on L devices of each of M
factories. Every row is tuned by one rule (`runs.tuning`): four points of its learning rate, or of its learning rate and
one more option, two values each; where there is a final, two of the best run again for longer. Rows that differ in one
thing only share a rate (`TOGETHER`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedlib import engine, selection
from fedlib.algorithms.fedgs import FedGS
from fedlib.problem.federation import Federation, federate
from fedlib.problem.queues import SampleQueues
from fedlib.problem.streams import generator
from fedlib.report.holdings import Holdings
from fedlib.runs import tuning
from fedlib.runs.computations import computation
from fedlib.runs.study import Run
from fedlib.runs.tuning import Final, Grid, Sweep

PRINTED_ROUNDS = 500
PRINTED_LR = 0.01
PRINTED_MUS = (0.05, 0.1, 0.5, 1.0)  # of FedProx; with a smaller one it would turn into FedAvg


@dataclass(frozen=True)
class TableRow:
    """One row of Table II."""

    name: str
    algorithm: str
    options: dict[str, Any] = field(default_factory=dict)


BASELINE = TableRow("FedAvg", "fedavg")
FEDGS = "FedGS"
RANDOM_GROUPS = "FedGS, random groups"  # super nodes without GBP-CS
WRITERS, ALIKE = "a device is a writer", "devices alike"
# Rows that share a learning rate, because they differ in one thing only: the choice of devices; the mean of models.
TOGETHER = ((FEDGS, RANDOM_GROUPS), (BASELINE.name, "IDA", "IDA+INTRAC", "IDA+FedAvg"))
GAMMA = 0.1  # FedMMD: weight of the discrepancy, as printed
SERVERS = {"FedAvgM": "fedavgm", "FedAdagrad": "fedadagrad", "FedAdam": "fedadam", "FedYogi": "fedyogi"}
FAMILIES = {
    "FedProx": ["FedProx"],
    "IDA": ["IDA", "IDA+INTRAC", "IDA+FedAvg"],
    "CGAU": ["CGAU", "CGAU 2x"],
    "FedMMD": ["FedMMD"],
    "FedFusion": ["FedFusion+Conv", "FedFusion+Multi", "FedFusion+Single"],
    "FedOpt": list(SERVERS),
}  # the panels of Fig. 6


@dataclass(frozen=True)
class FactorySetting:
    """Devices in factories and how they train: the setting of all training runs of this paper."""

    data_set: str
    devices: int = 350  # K
    samples: int | None = None  # training samples in use, of all writers
    test_samples: int | None = None
    width: int = 32  # of the network; 32 and 2048 is LEAF's
    hidden: int = 2048
    factories: int = 10  # M
    selected: int = 10  # L
    presampled: int = 2  # L_rnd
    batch: int = 32  # n
    iterations: int = 50  # T
    epochs: int = 5  # of the rivals
    lr: float = PRINTED_LR  # of rows whose rate is not tuned
    start: str = "xavier"  # the rule for the initial weights, from the authors' code; the paper prints none
    partitioner: str = "by_writer"  # or "iid", for devices alike

    @property
    def federation(self) -> dict[str, Any]:
        """Arguments of `federate`: one device per writer, or as many devices alike."""
        network = {"width": self.width, "hidden": self.hidden, "start": self.start}
        data = {"data_set": self.data_set, "samples": self.samples, "test_samples": self.test_samples}
        deal = {"partitioner": self.partitioner, "clients": self.devices}
        return data | deal | {"network": "cnn_leaf", "network_options": network}

    @property
    def rival_options(self) -> dict[str, Any]:
        """Options of all methods but FedGS: as many participants per round as FedGS has per step."""
        share = self.factories * self.selected / self.devices
        return {"participation": share, "epochs": self.epochs, "batch": self.batch, "lr": self.lr}

    @property
    def fedgs_options(self) -> dict[str, Any]:
        """Options of FedGS."""
        choice = {"factories": self.factories, "devices": self.selected, "presampled": self.presampled}
        return choice | {"batch": self.batch, "iterations": self.iterations, "lr": self.lr}


def main_rows(selected: int) -> list[TableRow]:
    """FedAvg, FedGS, and FedGS whose L = `selected` devices are all drawn at random."""
    return [BASELINE, TableRow(FEDGS, "fedgs"), TableRow(RANDOM_GROUPS, "fedgs", {"presampled": selected})]


def rivals(units: int, only: Sequence[str] = ()) -> list[TableRow]:
    """The rows of Table II without FedAvg and FedGS, in its order, and the second CGAU of Fig. 6.

    `only` names the rows to run where a scale skips some to save time; an empty list keeps all.
    """
    table = [
        TableRow("FedProx", "fedprox"),
        TableRow("IDA", "ida"),
        TableRow("IDA+INTRAC", "ida_intrac"),
        TableRow("IDA+FedAvg", "ida_fedavg"),
        TableRow("CGAU", "cgau", {"layers": 1, "units": units}),
        TableRow("CGAU 2x", "cgau", {"layers": 2, "units": units}),
        TableRow("FedMMD", "fedmmd", {"gamma": GAMMA}),
        TableRow("FedFusion+Conv", "fedfusion_conv"),
        TableRow("FedFusion+Multi", "fedfusion_multi"),
        TableRow("FedFusion+Single", "fedfusion_single"),
        *(TableRow(name, algorithm) for name, algorithm in SERVERS.items()),
    ]
    return [row for row in table if not only or row.name in only]


# Tuning


@dataclass(frozen=True)
class Rates:
    """The values that tuning tries first: four points of every row."""

    single: Sequence[float]  # learning rates of a row that has nothing else to tune
    paired: Sequence[float]  # client rates of a row with a second option
    mus: Sequence[float]  # FedProx's strength
    momentum: Sequence[float]  # server rates of FedAvgM
    adaptive: Sequence[float]  # server rates of FedAdagrad, FedAdam and FedYogi

    def grid(self, row: TableRow) -> Grid:
        """The options of a row and the values to try."""
        if row.name == "FedProx":
            return {"lr": self.paired, "mu": self.mus}
        if row.name in SERVERS:
            return {"lr": self.paired, "server_lr": self.momentum if row.name == "FedAvgM" else self.adaptive}
        return {"lr": self.single}


def tune(
    setting: FactorySetting, rows: Sequence[TableRow], rates: Rates, rounds: int, seed: int, final: Final | None = None
) -> Sweep:
    """The best point of every row, on held-out training samples of the devices and a seed that no result uses.

    `setting` has as many iterations T as keep the ratio of work when devices hold samples back.
    """
    bases = {row.name: run(setting, row, rounds, 0) for row in rows}
    grids = {row.name: rates.grid(row) for row in rows}
    limits = {"mu": (min(PRINTED_MUS), max(PRINTED_MUS))}
    return tuning.tune(bases, grids, [seed], limits=limits, together=TOGETHER, final=final, last=min(2, rounds))


def tuned(rows: Sequence[TableRow], best: Mapping[str, Mapping[str, float]]) -> list[TableRow]:
    """The rows with the options that tuning found."""
    return [replace(row, options=row.options | dict(best[row.name])) for row in rows]


def at_rate(rows: Sequence[TableRow], lr: float) -> list[TableRow]:
    """The rows at one learning rate, such as the printed one."""
    return [replace(row, options=row.options | {"lr": lr}) for row in rows]


# Runs


def run(setting: FactorySetting, row: TableRow, rounds: int, seed: int, every: int = 1, **label: Any) -> Run:
    """One run of a row, or of FedGS with some of its options changed."""
    shared = setting.fedgs_options if row.algorithm == "fedgs" else setting.rival_options
    label = {"method": row.name} | label
    return Run(row.algorithm, setting.federation, rounds, seed, shared | row.options, every, label)


def on_seeds(setting: FactorySetting, rows: Sequence[TableRow], rounds: int, seeds: Sequence[int]) -> list[Run]:
    """Rows on seeds, the seeds outermost, so federations are shared."""
    return [run(setting, row, rounds, seed, data_set=setting.data_set) for seed in seeds for row in rows]


def table2(
    setting: FactorySetting,
    rows: Sequence[TableRow],
    rounds: int,
    first_seed: int,
    seeds: Mapping[str, int],
) -> list[Run]:
    """Every row on as many seeds as `seeds` says by name, counted from the first: all rows share the first ones."""
    return [
        row_run
        for seed in range(first_seed, first_seed + max(seeds.values()))
        for row_run in on_seeds(setting, [row for row in rows if seed < first_seed + seeds[row.name]], rounds, [seed])
    ]


def beside_printed(setting: FactorySetting, rounds: int, holdings: Holdings) -> pd.DataFrame:
    """The set-up: what the paper prints, what the authors' code does, and what is run here."""
    sizes = holdings.sizes
    maps = f"Conv {setting.width}, Conv {2 * setting.width}, Dense {setting.hidden}, Dense {holdings.counts.shape[1]}"
    selected = f"{setting.factories}, {setting.selected}, {setting.presampled}"
    here = f"{sizes.min()} to {sizes.max()}, mean {sizes.mean():.0f}"
    rows = {
        "data": ("FEMNIST, 350 devices", "LEAF's FEMNIST, --sf 0.1 -k 100", f"{setting.data_set}, {holdings.clients}"),
        "samples per device": ("uneven, mean 227", "", here),
        "network": ("Conv 32, Conv 64, Dense 2048, Dense 62", "", maps),
        "inputs": ("not printed", "", "pixels from 0 to 1, ink 1, not standardised"),
        "first weights": ("not printed", "Xavier's rule", f"{setting.start.capitalize()}'s rule"),
        "factories M, selected L, at random": ("10, 10, 2", "", selected),
        "a group smaller than L": ("not said", "takes all its devices", "takes all its devices"),
        "pre-sample": ("every iteration", "every round", "every iteration; every round as a variant"),
        "target of the zero start": ("fixed, Eq. (11)", "grows with the devices chosen", "fixed; growing as a variant"),
        "GBP-CS stops": ("when d rises; when it no longer falls", *["when d no longer falls"] * 2),
        "order of a device's samples": ("a stream", "the same seed for all devices", "a seed for each device"),
        "the genetic sampler mutates": ("with probability 0.001", "whole individuals", "single bits"),
        "batch n, iterations T": ("32, 50", "", f"{setting.batch}, {setting.iterations}"),
        "local epochs of the rivals": ("5", "", str(setting.epochs)),
        "learning rate": ("0.01", "", "tuned for every row; 0.01 beside it"),
        "decay of the rate": ("not printed", "by a factor per round, which is 1 by default", "none"),
        "rounds R": (str(PRINTED_ROUNDS), "", str(rounds)),
        "FedGS's accuracy, T = 10, 30, 50": (
            "Fig. 5a, a surface",
            "79.3, 84.8, 85.9%, n = 5 (stored log)",
            "next notebook",
        ),
    }
    columns = ["printed", "released code", "here"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("set-up")


# Proposition 2: gradients of batches compared with the gradient of all data

INDEPENDENT, FEW_INDEPENDENT = "independent samples", "independent, as few as a device has"
KINDS = ("chosen by GBP-CS", "drawn at random", "one device", INDEPENDENT, FEW_INDEPENDENT)


@computation
def gradient_divergences(setting: FactorySetting, lr: float, rounds: list[int], seed: int) -> pd.DataFrame:
    """How far the classes of a batch and its gradient are from those of all data, while FedGS trains.

    After each of these rounds every factory has five batches: those of the devices that GBP-CS chooses from what is
    queued, fresh ones of as many devices drawn at random, the first of these alone, as many samples as a super node
    has, drawn from all devices, and the first of these, as many as one device has. One row per round, factory and kind:
    `divergence` of the classes; as shares of the norm of the gradient of all data, `gradient`, the norm of the
    difference, and the two terms of its bound delta^m in Proposition 2: `same_classes`, against all data with the
    classes weighted as in the batch, and `other_classes`, from there to all data as they are.
    """
    federation = federate(**setting.federation, seed=seed)
    method = FedGS(**replace(setting, lr=lr).fedgs_options)
    state, frames = method.init(federation), []
    for round in range(max(rounds) + 1):
        if round in rounds:
            batches = _offers(federation, method, state["taken"].numpy(), round)
            frames.append(_distances(federation, state["weights"], batches).assign(seed=seed, round=round))
        if round < max(rounds):
            state = method.round(federation, state, round + 1)
    return pd.concat(frames, ignore_index=True)


def _offers(federation: Federation, method: FedGS, taken: np.ndarray, round: int) -> list[tuple[str, int, np.ndarray]]:
    """Kind, factory, and the rows of the batch."""
    queues, t = SampleQueues(federation, method.batch, taken), round * method.iterations
    by_chance = replace(method, presampled=method.devices)
    chosen, drawn = (one.select(federation, queues.counts, t)[0] for one in (method, by_chance))
    rng = generator(federation.seed, "fresh samples", round)
    offers = []
    for factory, (best, random) in enumerate(zip(chosen, drawn, strict=True), start=1):
        fresh = [_fresh_batch(federation, int(device), method.batch, rng) for device in random]
        independent = rng.integers(len(federation.y), size=method.batch * len(best))
        batches = (queues.rows[best].ravel(), np.concatenate(fresh), fresh[0], independent, independent[: method.batch])
        offers += [(kind, factory, rows) for kind, rows in zip(KINDS, batches, strict=True)]
    return offers


def _fresh_batch(federation: Federation, device: int, batch: int, rng: np.random.Generator) -> np.ndarray:
    """Samples of a device drawn anew: what is queued has been passed over and is no random batch."""
    rows = federation.rows[device].numpy()
    return rng.choice(rows, batch, replace=len(rows) < batch)


def _distances(
    federation: Federation, weights: torch.Tensor, offers: list[tuple[str, int, np.ndarray]]
) -> pd.DataFrame:
    real = selection.real_distribution(federation.class_counts.numpy())
    by_class = _class_gradients(federation, weights)
    everything = _mixed(real, by_class)
    length = float(everything.norm())
    rows = []
    for kind, factory, batch in offers:
        x, y = federation.x[batch], federation.y[batch]
        shares = np.bincount(y.numpy(), minlength=federation.classes) / len(batch)
        gradient = engine.mean_gradient(federation.network, weights, x, y)
        reweighted = _mixed(shares, by_class)
        pairs = {
            "gradient": (gradient, everything),
            "same_classes": (gradient, reweighted),
            "other_classes": (reweighted, everything),
        }
        apart = {name: float((one - other).norm()) / length for name, (one, other) in pairs.items()}
        about = {"batch": kind, "factory": factory, "divergence": float(np.linalg.norm(shares - real))}
        rows.append(about | apart)
    return pd.DataFrame(rows)


def _class_gradients(federation: Federation, weights: torch.Tensor) -> torch.Tensor:
    """The mean gradient of all samples of each class, (classes, weights); zero for a class that nobody has."""
    labels, gradients = federation.y, torch.zeros(federation.classes, len(weights))
    for label in labels.unique().tolist():
        members = labels == label
        gradients[label] = engine.mean_gradient(federation.network, weights, federation.x[members], labels[members])
    return gradients


def _mixed(shares: np.ndarray, by_class: torch.Tensor) -> torch.Tensor:
    """P^T g: the gradient of data with these class shares."""
    return engine.weighted_sum(torch.as_tensor(shares, dtype=torch.float32), by_class)
