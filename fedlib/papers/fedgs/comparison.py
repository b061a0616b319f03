"""Table II and Fig. 6: FedGS and the rows it is compared with, on the same devices.

A row is a name of the table, the algorithm that computes it and its own options. Rivals train `epochs` passes over
their data on M * L participants a round; FedGS takes T one-step iterations on L devices of each of M factories.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import pandas as pd

from fedlib.judging import curves
from fedlib.problem.federation import Federation
from fedlib.runs.study import Run

HE = 6**0.5  # width of the first weights for rectifiers; the paper prints no initialiser
PRINTED_ROUNDS = 500
PRINTED_TARGET = 0.82
TARGET_SHARE = 82.0 / 82.1  # the printed target as a share of what FedAvg ends with, by Table II


@dataclass(frozen=True)
class Row:
    """One row of Table II."""

    name: str
    algorithm: str
    options: dict = field(default_factory=dict)


BASELINE = Row("FedAvg", "fedavg")
OURS = "FedGS"
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
class Setting:
    """What all runs of this paper share."""

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
    def federation(self) -> dict:
        """Arguments of `federate`: one device a writer."""
        network = {"width": self.width, "hidden": self.hidden, "gain": HE}
        data = {"data_set": self.data_set, "samples": self.samples, "test_samples": self.test_samples}
        deal = {"partitioner": "by_writer", "clients": self.devices}
        return data | deal | {"network": "cnn_leaf", "network_options": network}

    @property
    def rival(self) -> dict:
        """Options of everyone but FedGS: as many participants a round as FedGS has a step."""
        share = self.factories * self.selected / self.devices
        return {"participation": share, "epochs": self.epochs, "batch": self.batch, "lr": self.lr}

    @property
    def fedgs(self) -> dict:
        own = {"factories": self.factories, "devices": self.selected, "presampled": self.presampled}
        return own | {"batch": self.batch, "iterations": self.iterations, "lr": self.lr}


def rows(
    mu: float,
    gamma: float,
    units: int,
    conv_lr: float,
    server_rates: dict[str, tuple[float, float]],
    only: Sequence[str] = (),
) -> list[Row]:
    """The rows of Table II but FedGS, in its order, and the second CGAU of Fig. 6; `server_rates` as found by Fig. 7.

    `only` names the rows to keep where not all can be afforded; an empty list keeps all.
    """
    table = [
        BASELINE,
        Row("FedProx", "fedprox", {"mu": mu}),
        Row("IDA", "ida"),
        Row("IDA+INTRAC", "ida_intrac"),
        Row("IDA+FedAvg", "ida_fedavg"),
        Row("CGAU", "cgau", {"layers": 1, "units": units}),
        Row("CGAU 2x", "cgau", {"layers": 2, "units": units}),
        Row("FedMMD", "fedmmd", {"gamma": gamma}),
        Row("FedFusion+Conv", "fedfusion_conv", {"lr": conv_lr}),
        Row("FedFusion+Multi", "fedfusion_multi"),
        Row("FedFusion+Single", "fedfusion_single"),
        *(Row(name, SERVERS[name], {"lr": own, "server_lr": server}) for name, (own, server) in server_rates.items()),
    ]
    return [row for row in table if not only or row.name in only]


def run(setting: Setting, row: Row, rounds: int, seed: int, every: int = 1, **label) -> Run:
    """One run of a row, or of FedGS with some of its options changed."""
    shared = setting.fedgs if row.algorithm == "fedgs" else setting.rival
    label = {"method": row.name} | label
    return Run(row.algorithm, setting.federation, rounds, seed, shared | row.options, every, label)


def runs(setting: Setting, rivals: list[Row], rounds: int, seeds: range, every: int = 1) -> list[Run]:
    """All rows on all seeds, the seeds outermost, so federations are shared."""
    table = [*rivals, Row(OURS, "fedgs")]
    return [run(setting, row, rounds, seed, every, data_set=setting.data_set) for seed in seeds for row in table]


def target_of(frame: pd.DataFrame, last: int, rounds: int) -> float:
    """82% where the printed rounds are run; else the same share of what FedAvg ends with as in the table."""
    if rounds >= PRINTED_ROUNDS:
        return PRINTED_TARGET
    baseline = frame[frame["method"] == BASELINE.name].sort_values("round").groupby("seed")["accuracy"]
    return float(TARGET_SHARE * baseline.apply(lambda accuracy: accuracy.tail(last).mean()).mean())


COLUMN_OF = {"fedgs/table2-loss": "loss", "fedgs/table2-rounds": "rounds", "fedgs/table2-gain": "gain"}


def table(ends: pd.DataFrame) -> pd.DataFrame:
    """Table II for reading: accuracy and gain in percent, loss, rounds to the target; means over seeds."""
    means = ends.groupby("method", sort=False)[["accuracy", "gain", "loss", "rounds_to_target"]].mean()
    means[["accuracy", "gain"]] *= 100
    shown = means.round({"accuracy": 1, "gain": 1, "loss": 3, "rounds_to_target": 1})
    names = {"accuracy": "accuracy, %", "gain": "gain over FedAvg, %", "rounds_to_target": "rounds to target"}
    return shown.rename(columns=names)


def in_words(costs: pd.DataFrame) -> str:
    """The table of costs as sentences."""
    of = costs.set_index("method")
    ours, rival = of.loc[OURS], of.loc["each rival"]
    gradients, steps, inside, outside = costs.columns[1:]
    return (
        f"In a round a rival computes {rival[gradients]:.0f} sample gradients in about {rival[steps]:.0f} steps a "
        f"device and moves {rival[outside]:.0f} models through the cloud.\n"
        f"FedGS computes {ours[gradients]:.0f} in {ours[steps]:.0f} steps, moves {ours[inside]:.0f} models inside its "
        f"factories and {ours[outside]:.0f} through the cloud."
    )


def at_equal_price(frame: pd.DataFrame, costs: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of FedGS and FedAvg at the largest price both have paid: rounds, sample gradients, cloud traffic."""
    of = costs.set_index("method")
    by_round = frame.groupby(["method", "round"])["accuracy"].mean()
    curves_of = {name: by_round[name] for name in (OURS, BASELINE.name)}
    rows = []
    for label in ("rounds", "sample gradients", "models to and from the cloud"):
        price = {OURS: OURS, BASELINE.name: "each rival"}
        per_round = {name: 1.0 if label == "rounds" else of.loc[payer, label] for name, payer in price.items()}
        budget = min(curve.index.max() * per_round[name] for name, curve in curves_of.items())
        found = {name: np.interp(budget / per_round[name], curve.index, curve) for name, curve in curves_of.items()}
        rows.append({"at equal": label, "price": budget} | found | {"lead": found[OURS] - found[BASELINE.name]})
    return pd.DataFrame(rows)


def chosen_at_random(setting: Setting, rounds: int, seeds: range) -> list[Run]:
    """FedGS without GBP-CS: all L devices are drawn, nothing else changes."""
    row = Row(f"{OURS}, random devices", "fedgs", {"presampled": setting.selected})
    return [run(setting, row, rounds, seed, data_set=setting.data_set) for seed in seeds]


def ends(frame: pd.DataFrame, last: int, target: float, rounds: int) -> pd.DataFrame:
    """One row a run as the ledger wants it: final scores, rounds to the target, gain over FedAvg of the same seed."""
    found = curves.final(frame, ["method", "data_set"], last, target).assign(stage="final")
    baseline = found[found["method"] == BASELINE.name].set_index("seed")["accuracy"]
    found["gain"] = found["accuracy"] - found["seed"].map(baseline)
    found["rounds_of_500"] = found["rounds_to_target"] if rounds == PRINTED_ROUNDS else np.nan
    return found


def beside_printed(setting: Setting, rounds: int, seeds: int, federation: Federation) -> pd.DataFrame:
    """What this scale changes: the printed setting beside ours."""
    printed = Setting("femnist")
    sizes = federation.sizes.numpy()
    lines = {
        "data": ("FEMNIST", setting.data_set),
        "devices K, factories M": ("350, 10", f"{federation.clients}, {setting.factories}"),
        "selected a factory L, of them at random": ("10, 2", f"{setting.selected}, {setting.presampled}"),
        "samples a device": ("uneven, mean 227", f"{sizes.min():.0f} to {sizes.max():.0f}, mean {sizes.mean():.0f}"),
        "network": ("6603710 weights", f"{federation.start.numel()} weights"),
        "batch n": (printed.batch, setting.batch),
        "iterations a round T": (printed.iterations, setting.iterations),
        "local epochs of the rivals": (printed.epochs, setting.epochs),
        "learning rate": (printed.lr, setting.lr),
        "rounds R": (PRINTED_ROUNDS, rounds),
        "seeds": ("not printed", seeds),
    }
    return pd.DataFrame(lines, index=["printed", "here"]).T.astype(str).rename_axis("setting")


def costs(setting: Setting, federation: Federation) -> pd.DataFrame:
    """What a round costs: sample gradients, steps one after another, and models sent, for FedGS and for its rivals.

    A rival's participants download and upload one model each through the cloud. In FedGS each selected device exchanges
    its model with the base station in every iteration, and only the base stations exchange theirs with the cloud.
    """
    taking_part = setting.factories * setting.selected
    mean = float(federation.sizes.mean())
    steps = float(np.mean([setting.epochs * ceil(size / setting.batch) for size in federation.sizes.tolist()]))
    rival = (setting.epochs * mean * taking_part, steps, 0, 2 * taking_part)
    drawn = setting.iterations * setting.batch * taking_part
    fedgs = (drawn, setting.iterations, 2 * taking_part * setting.iterations, 2 * setting.factories)
    names = ["sample gradients", "steps one after another", "models inside factories", "models to and from the cloud"]
    index = pd.Index(["each rival", OURS], name="method")
    table = pd.DataFrame([rival, fedgs], columns=names, index=index, dtype=float)
    table.loc["FedGS / rival"] = table.loc[OURS] / table.loc["each rival"].replace(0, np.nan)
    return table.reset_index()
