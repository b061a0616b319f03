"""The paper's own numbers and formulas, checked: one row per quantity with printed, found and holds."""

import numpy as np
import pandas as pd

from fedlib.judging.checks import audit
from fedlib.papers.fedsr import results
from fedlib.problem import models

PRINTED_MLP, PRINTED_CNN = 199_210, 128_420
RIVALS = ("FedAvg", "FedProx", "MOON", "HierFAVG")


def count_weights(network: str, classes: int, shape: tuple[int, ...]) -> int:
    """Trainable numbers of a network."""
    return sum(weights.numel() for weights in models.build(network, classes, shape).parameters())


def weights() -> pd.DataFrame:
    """The networks of the four data sets against the two printed counts."""
    wanted = [
        ("MNIST, MLP", PRINTED_MLP, ("mlp200", 10, (28, 28))),
        ("Fashion-MNIST, CNN", PRINTED_CNN, ("cnn_fedsr", 10, (28, 28))),
        ("CIFAR-10, CNN", PRINTED_CNN, ("cnn_fedsr", 10, (3, 32, 32))),
        ("CIFAR-100, CNN", PRINTED_CNN, ("cnn_fedsr", 100, (3, 32, 32))),
    ]
    counted = [(name, printed, count_weights(*network)) for name, printed, network in wanted]
    rows = [(f"weights, {name}", f"{printed:,}", f"{count:,}", printed == count) for name, printed, count in counted]
    return audit(*rows)


def cifar100_size() -> pd.DataFrame:
    """Weights of the CNN with 100 classes at the printed image size, grey and in colour."""
    counts = {channels: count_weights("cnn_fedsr", 100, (channels, 28, 28)) for channels in (1, 3)}
    rows = [
        (f"weights with 100 classes on 28 x 28 x {channels}", f"{PRINTED_CNN:,}", f"{count:,}", count == PRINTED_CNN)
        for channels, count in counts.items()
    ]
    return audit(*rows)


def most_cases() -> pd.DataFrame:
    """Table II counted: FedSR against each rival in its 20 columns, iid and not, and against ring-optimization."""
    cells = results.printed("fedsr/table2").pivot(index=["data_set", "partition"], columns="method", values="printed")
    iid = cells.index.get_level_values("partition") == "iid"
    counted = {
        f"{kind} columns with FedSR above {rival}": chosen["FedSR"] > chosen[rival]
        for kind, chosen in (("iid", cells[iid]), ("non-iid", cells[~iid]))
        for rival in RIVALS
    }
    counted["columns with FedSR below ring-optimization"] = cells["FedSR"] < cells["ring-optimization"]
    return audit(*[(name, "most", f"{wins.sum()} of {len(wins)}", wins.mean() > 0.5) for name, wins in counted.items()])


def table3(devices: int) -> pd.DataFrame:
    """Each row of Table III divided by the method's transfers per round."""
    per_round, rows = results.transfers_per_round(devices), []
    for method, cells in results.printed("fedsr/table3").groupby("method", sort=False):
        rounds = cells["printed"].dropna() / per_round[method]
        found, whole = ", ".join(f"{number:g}" for number in rounds), bool((rounds == rounds.round()).all())
        rows.append((f"rounds of {method}, {per_round[method]} transfers each", "whole", found, whole))
    return audit(*rows)


def hierfavg_transfers(devices: int) -> pd.DataFrame:
    """A round of HierFAVG, devices counted both ways like FedAvg's 2K, against what Table III divides by."""
    both_ways, one_way = (results.transfers_per_round(devices, down)["HierFAVG"] for down in (True, False))
    cells = results.printed("fedsr/table3").query("method == 'HierFAVG'")["printed"]
    divides = bool((cells % both_ways == 0).all())
    return audit(("transfers of a round of HierFAVG, both ways", both_ways, both_ways if divides else one_way, divides))


def targets() -> pd.DataFrame:
    """Final accuracies of Table II beside the targets that Table III says the methods reach."""
    final = results.of_table3(results.printed("fedsr/table2")).set_index(["data_set", "method"])["printed"]
    reached, rows = results.printed("fedsr/table3").dropna(subset=["printed"]), []
    for data_set, methods in reached.groupby("data_set", sort=False)["method"]:
        target = 100 * results.printed_targets()[data_set]
        ends = {method: final[data_set, method] for method in methods}
        short = {method: end for method, end in ends.items() if end < target}
        found = ", ".join(f"{method} {end}%" for method, end in short.items()) or "all at or above"
        rows.append((f"{data_set}: below the target at the end", f"none, {target:g}%", found, not short))
    return audit(*rows)


def _equal_rings(count: int) -> float:
    """sum_m (|D_m| / |D|)^2 of M equal rings."""
    return float(np.sum(np.full(count, 1 / count) ** 2))


def bound(rings: list[int]) -> pd.DataFrame:
    """The sum of squares of equal rings against 1/2."""
    sums = {count: _equal_rings(count) for count in rings}
    rows = [(f"{count} equal rings", f"1/{count}", f"{found:.3f}", found <= 0.5) for count, found in sums.items()]
    return audit(*rows)


def lemma(rings: list[int]) -> pd.DataFrame:
    """(18) where all rings return one model at distance 1: the left side is 1, the right 2 sum_m (|D_m| / |D|)^2."""
    right = {f"right side of (18), {count} equal rings that agree": 2 * _equal_rings(count) for count in rings}
    return audit(*[(name, ">= 1", f"{found:.2f}", found >= 1) for name, found in right.items()])


def fig9_list() -> pd.DataFrame:
    """Local epochs in the list of settings and in the discussion of Section IV-E."""
    listed, discussed = (1, 2, 5), 10
    name = f"{discussed} local epochs among the settings"
    return audit((name, ", ".join(map(str, listed)), f"{discussed} discussed", discussed in listed))


def ring_higher() -> pd.DataFrame:
    """Table IV, column by column."""
    cells = results.printed("fedsr/table4").pivot(index=["participation", "moment"], columns="method", values="printed")
    rows = []
    for (share, moment), cell in cells.sort_index(ascending=[True, False]).iterrows():
        ring, fedsr = cell["ring-optimization"], cell["FedSR"]
        rows.append((f"participation {share}, {moment}", f"ring {ring}%", f"FedSR {fedsr}%", ring > fedsr))
    return audit(*rows)
