"""The paper's own numbers and formulas, checked: one row a quantity with printed, found and holds."""

import numpy as np
import pandas as pd

from fedlib import models
from fedlib.papers.fedsr import experiments, results

PRINTED_MLP, PRINTED_CNN = 199_210, 128_420
RIVALS = ("FedAvg", "FedProx", "MOON", "HierFAVG")
TABLE3_PARTITION = {"mnist": "xi=2", "fashion_mnist": "xi=2", "cifar10": "xi=2", "cifar100": "xi=4"}


def table(*rows: tuple) -> pd.DataFrame:
    """Rows of (quantity, printed, found, holds)."""
    return pd.DataFrame(rows, columns=["quantity", "printed", "found", "holds"])


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
    found = [(name, printed, count_weights(*network)) for name, printed, network in wanted]
    return table(*[(f"weights, {name}", printed, count, printed == count) for name, printed, count in found])


def cifar100_size() -> pd.DataFrame:
    """Weights of the CNN with 100 classes at the printed image size; the last row is the size that fits."""
    rows = []
    for shape in ((1, 28, 28), (3, 28, 28)):
        count = count_weights("cnn_fedsr", 100, shape)
        rows.append((f"weights with 100 classes on {shape[1]} x {shape[2]} x {shape[0]}", PRINTED_CNN, count, count == PRINTED_CNN))
    return table(*rows)


def most_cases() -> pd.DataFrame:
    """Table II counted: FedSR against each rival in its 20 columns, iid and not, and against ring-optimization."""
    cells = results.printed("fedsr/table2").pivot(index=["data_set", "partition"], columns="method", values="printed")
    iid = cells.index.get_level_values("partition") == "iid"
    rows = []
    for kind, chosen in (("iid", cells[iid]), ("non-iid", cells[~iid])):
        for rival in RIVALS:
            wins = int((chosen["FedSR"] > chosen[rival]).sum())
            rows.append((f"{kind} columns with FedSR above {rival}", "most", f"{wins} of {len(chosen)}", wins > len(chosen) / 2))
    below = int((cells["FedSR"] < cells["ring-optimization"]).sum())
    rows.append(("columns with FedSR below ring-optimization", "most", f"{below} of {len(cells)}", below > len(cells) / 2))
    return table(*rows)


def table3(devices: int) -> pd.DataFrame:
    """Each row of Table III divided by the method's transfers a round."""
    per_round, rows = experiments.per_round(devices), []
    for method, cells in results.printed("fedsr/table3").groupby("method", sort=False):
        rounds = cells["printed"].dropna() / per_round[method]
        whole = bool((rounds == rounds.round()).all())
        rows.append((f"rounds of {method}, {per_round[method]} transfers each", "whole", ", ".join(f"{r:g}" for r in rounds), whole))
    return table(*rows)


def hierfavg_transfers(devices: int) -> pd.DataFrame:
    """A round of HierFAVG with device transfers both ways, as FedAvg's 2K counts them, against what Table III divides by."""
    both_ways, one_way = (experiments.per_round(devices, edge_broadcasts)["HierFAVG"] for edge_broadcasts in (True, False))
    cells = results.printed("fedsr/table3").query("method == 'HierFAVG'")["printed"]
    divides = bool((cells % both_ways == 0).all())
    return table(("transfers of a round of HierFAVG, both ways", both_ways, both_ways if divides else one_way, divides))


def targets() -> pd.DataFrame:
    """Final accuracies of Table II beside the targets that Table III says the methods reach."""
    final = results.printed("fedsr/table2").set_index(["data_set", "partition", "method"])["printed"]
    reached, rows = results.printed("fedsr/table3").dropna(subset=["printed"]), []
    for data_set, methods in reached.groupby("data_set", sort=False)["method"]:
        target = 100 * results.printed_targets()[data_set]
        ends = {method: final[data_set, TABLE3_PARTITION[data_set], method] for method in methods}
        short = {method: end for method, end in ends.items() if end < target}
        found = ", ".join(f"{method} {end}%" for method, end in short.items()) or "all at or above"
        rows.append((f"{data_set}: below the target at the end", f"none, {target:g}%", found, not short))
    return table(*rows)


def bound(rings: list[int]) -> pd.DataFrame:
    """sum_m (|D_m| / |D|)^2 of M equal rings."""
    sums = {count: float(np.sum(np.full(count, 1 / count) ** 2)) for count in rings}
    return table(*[(f"{count} equal rings", f"1/{count}", f"{value:.3f}", value <= 0.5 + 1e-12) for count, value in sums.items()])


def lemma(rings: list[int]) -> pd.DataFrame:
    """(18) where all rings return the same model at distance 1: the left side is 1, the right 2 sum_m (|D_m| / |D|)^2."""
    right = {count: 2 * float(np.sum(np.full(count, 1 / count) ** 2)) for count in rings}
    return table(*[(f"right side of (18), {count} equal rings that agree", ">= 1", f"{value:.2f}", value >= 1) for count, value in right.items()])


def fig9_list() -> pd.DataFrame:
    """Local epochs in the list of settings and in the discussion of Section IV-E."""
    listed, discussed = (1, 2, 5), 10
    return table((f"{discussed} local epochs among the settings", ", ".join(map(str, listed)), f"{discussed} discussed", discussed in listed))


def ring_higher() -> pd.DataFrame:
    """Table IV, column by column."""
    cells = results.printed("fedsr/table4").pivot(index=["participation", "moment"], columns="method", values="printed")
    rows = []
    for (share, moment), cell in cells.sort_index(ascending=[True, False]).iterrows():
        ring, fedsr = cell["ring-optimization"], cell["FedSR"]
        rows.append((f"participation {share}, {moment}", f"ring {ring}%", f"FedSR {fedsr}%", ring > fedsr))
    return table(*rows)
