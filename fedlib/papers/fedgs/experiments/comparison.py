"""Table II and Fig. 6: FedGS and the rows it is compared with, on the same devices.

A row is a name of the table, the algorithm that computes it and the options that only it has. Rivals train `epochs`
passes over their data on M * L participants per round; FedGS takes T one-step iterations on L devices of each of M
factories.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fedlib.report.holdings import Holdings
from fedlib.runs.study import Run

PRINTED_ROUNDS = 500


@dataclass(frozen=True)
class TableRow:
    """One row of Table II."""

    name: str
    algorithm: str
    options: dict[str, Any] = field(default_factory=dict)


BASELINE = TableRow("FedAvg", "fedavg")
FEDGS = "FedGS"
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
    """Devices in factories and how they train: what all training runs of this paper share."""

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
    lr: float = 0.01

    @property
    def federation(self) -> dict[str, Any]:
        """Arguments of `federate`: one device per writer."""
        network = {"width": self.width, "hidden": self.hidden, "start": "he"}
        data = {"data_set": self.data_set, "samples": self.samples, "test_samples": self.test_samples}
        deal = {"partitioner": "by_writer", "clients": self.devices}
        return data | deal | {"network": "cnn_leaf", "network_options": network}

    @property
    def rival_options(self) -> dict[str, Any]:
        """Options of everyone but FedGS: as many participants per round as FedGS has per step."""
        share = self.factories * self.selected / self.devices
        return {"participation": share, "epochs": self.epochs, "batch": self.batch, "lr": self.lr}

    @property
    def fedgs_options(self) -> dict[str, Any]:
        """Options of FedGS."""
        choice = {"factories": self.factories, "devices": self.selected, "presampled": self.presampled}
        return choice | {"batch": self.batch, "iterations": self.iterations, "lr": self.lr}


def table2_rows(
    tuned: dict[str, dict[str, float]],
    gamma: float,
    units: int,
    conv_lr: float,
    only: Sequence[str] = (),
) -> list[TableRow]:
    """The rows of Table II but FedGS, in its order, and the second CGAU of Fig. 6.

    `tuned` holds the options of FedProx and of the FedOpt family, as `tune` finds them. `only` names the rows to run
    where a scale skips some to save time; an empty list keeps all.
    """
    table = [
        BASELINE,
        TableRow("FedProx", "fedprox", tuned["FedProx"]),
        TableRow("IDA", "ida"),
        TableRow("IDA+INTRAC", "ida_intrac"),
        TableRow("IDA+FedAvg", "ida_fedavg"),
        TableRow("CGAU", "cgau", {"layers": 1, "units": units}),
        TableRow("CGAU 2x", "cgau", {"layers": 2, "units": units}),
        TableRow("FedMMD", "fedmmd", {"gamma": gamma}),
        TableRow("FedFusion+Conv", "fedfusion_conv", {"lr": conv_lr}),
        TableRow("FedFusion+Multi", "fedfusion_multi"),
        TableRow("FedFusion+Single", "fedfusion_single"),
        *(TableRow(name, SERVERS[name], tuned[name]) for name in SERVERS),
    ]
    return [row for row in table if not only or row.name in only]


def run(setting: FactorySetting, row: TableRow, rounds: int, seed: int, every: int = 1, **label: Any) -> Run:
    """One run of a row, or of FedGS with some of its options changed."""
    shared = setting.fedgs_options if row.algorithm == "fedgs" else setting.rival_options
    label = {"method": row.name} | label
    return Run(row.algorithm, setting.federation, rounds, seed, shared | row.options, every, label)


def table2(setting: FactorySetting, rivals: list[TableRow], rounds: int, seeds: range, every: int = 1) -> list[Run]:
    """All rows on all seeds, the seeds outermost, so federations are shared."""
    table = [*rivals, TableRow(FEDGS, "fedgs")]
    return [run(setting, row, rounds, seed, every, data_set=setting.data_set) for seed in seeds for row in table]


def chosen_at_random(setting: FactorySetting, rounds: int, seeds: range) -> list[Run]:
    """FedGS without GBP-CS: all L devices are drawn, nothing else changes."""
    row = TableRow(f"{FEDGS}, random devices", "fedgs", {"presampled": setting.selected})
    return [run(setting, row, rounds, seed, data_set=setting.data_set) for seed in seeds]


def beside_printed(setting: FactorySetting, rounds: int, seeds: int, held: Holdings) -> pd.DataFrame:
    """What this scale changes: the printed setting beside ours, whose devices hold this."""
    printed, sizes = FactorySetting("femnist"), held.sizes
    lines = {
        "data": ("FEMNIST", setting.data_set),
        "devices K, factories M": ("350, 10", f"{held.clients}, {setting.factories}"),
        "selected a factory L, of them at random": ("10, 2", f"{setting.selected}, {setting.presampled}"),
        "samples a device": ("uneven, mean 227", f"{sizes.min():.0f} to {sizes.max():.0f}, mean {sizes.mean():.0f}"),
        "network": ("6603710 weights", f"{held.weights} weights"),
        "batch n": (printed.batch, setting.batch),
        "iterations a round T": (printed.iterations, setting.iterations),
        "local epochs of the rivals": (printed.epochs, setting.epochs),
        "learning rate": (printed.lr, setting.lr),
        "rounds R": (PRINTED_ROUNDS, rounds),
        "seeds": ("not printed", seeds),
    }
    return pd.DataFrame(lines, index=["printed", "here"]).T.astype(str).rename_axis("setting")
