"""From curves to the numbers of the tables: one row per run and cell."""

import numpy as np
import pandas as pd

from fedlib import algorithms
from fedlib.judging import ledger, transfers
from fedlib.papers.fedsr.experiments import DECENTRAL, EPOCHS, METHODS, RING_DEVICES, STAR

KEYS = ["data_set", "partition", "method", "seed"]
TEST_IMAGES = 2000  # the fewest that any scale tests on


def ends(curves: pd.DataFrame, keys: list[str] = KEYS) -> pd.DataFrame:
    """The last record of each run, `cell`, data set and partition in one word, and `guess`, what a guess may score."""
    curves = curves.reset_index(drop=True)
    last = curves.loc[curves.groupby(keys, sort=False)["round"].idxmax()]
    last = last[[*keys, "round", "accuracy", "loss"]].reset_index(drop=True)
    guess = last["data_set"].map(lambda name: beyond_guessing(name, TEST_IMAGES))
    return last.assign(cell=last["data_set"] + ", " + last["partition"], guess=guess)


def guess_level(data_set: str) -> float:
    """What a guess scores on average."""
    return 1 / (100 if data_set == "cifar100" else 10)


def beyond_guessing(data_set: str, test_images: int) -> float:
    """A guess's score plus three standard errors of that many test images."""
    share = guess_level(data_set)
    return share + 3 * float(np.sqrt(share * (1 - share) / test_images))


def judged(rows: pd.DataFrame, test_images: int) -> pd.Series:
    """The accuracy where some method of the cell has, on average, learnt more than a guess knows; else blank."""
    best = rows.groupby(["cell", "method"])["accuracy"].mean().groupby("cell").max()
    limit = rows["data_set"].map(lambda name: beyond_guessing(name, test_images))
    return rows["accuracy"].where(rows["cell"].map(best) > limit)


def early(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """`rows`, the judged ends, with `early`: the mean accuracy over the measured rounds of the first quarter."""
    measured = curves[curves["round"] > 0]
    quarter = measured.groupby("data_set")["round"].transform(lambda rounds: max(rounds.max() / 4, rounds.min()))
    first = measured[measured["round"] <= quarter].groupby(KEYS)["accuracy"].mean().rename("early").reset_index()
    joined = rows.merge(first, on=KEYS)
    return joined.assign(early=joined["early"].where(joined["judged"].notna()))


def quarters(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy in percent after a quarter, half, three quarters and all of the measured rounds."""
    rows = {}
    for names, runs in curves.groupby(["data_set", "partition", "method"], sort=False):
        by_round = runs.groupby("round")["accuracy"].mean()
        last = by_round.index.max()
        until = {f"{part}% of the rounds": by_round[by_round.index <= part / 100 * last] for part in (25, 50, 75, 100)}
        rows[names] = {mark: f"{100 * part.iloc[-1]:.1f}" if len(part) else "" for mark, part in until.items()}
    return pd.DataFrame(rows).T.rename_axis(["data_set", "partition", "method"])


def in_every_column(rows: pd.DataFrame) -> pd.DataFrame:
    """Centralised training sees no partition: its run stands in every column of its data set."""
    central = rows["method"] == "Centralized"
    cells = rows.loc[~central, ["data_set", "partition", "cell"]].drop_duplicates()
    spread = rows[central].drop(columns=["partition", "cell"]).merge(cells, on="data_set")
    return pd.concat([spread, rows[~central]], ignore_index=True)


def holdings(counts: pd.DataFrame) -> pd.DataFrame:
    """How many classes and samples a device holds, from least to most, by partition (`experiments.device_counts`)."""
    held = counts.assign(classes=counts["samples"] > 0)
    by_device = held.groupby(["partition", "device"], sort=False)[["classes", "samples"]].sum()
    ends = by_device.groupby("partition", sort=False).agg(["min", "max"]).astype(str)
    ranges = {f"{name} a device": ends[name]["min"] + " to " + ends[name]["max"] for name in by_device}
    return pd.DataFrame(ranges)


def lost_against_iid(rows: pd.DataFrame, methods: tuple[str, ...] = STAR) -> pd.DataFrame:
    """iid accuracy minus that of the partition, seed by seed, where both were run.

    `judged` is blank where the method's iid run has not even come halfway from a guess to centralised training: what
    has hardly begun to learn has nothing to lose.
    """
    iid = rows[rows["partition"] == "iid"]
    reached = iid.set_index(["data_set", "method", "seed"])["accuracy"].rename("iid")
    central = iid[iid["method"] == "Centralized"].set_index(["data_set", "seed"])["accuracy"].rename("central")
    skewed = rows[rows["method"].isin(methods) & (rows["partition"] != "iid")]
    skewed = skewed.join(reached, on=["data_set", "method", "seed"]).join(central, on=["data_set", "seed"])
    skewed = skewed.dropna(subset=["iid"])
    lost, halfway = skewed["iid"] - skewed["accuracy"], (skewed["data_set"].map(guess_level) + skewed["central"]) / 2
    losses = skewed.assign(lost=lost, judged=lost.where(skewed["iid"] >= halfway))
    return losses[[*KEYS, "accuracy", "iid", "lost", "judged"]].reset_index(drop=True)


def fedavg_levels(curves: pd.DataFrame, test_images: int) -> dict[str, float]:
    """Per data set the highest accuracy that FedAvg reaches with every seed, where that is more than a guess knows."""
    best = curves[curves["method"] == "FedAvg"].groupby(KEYS)["accuracy"].max().groupby("data_set").min()
    return {name: level for name, level in best.items() if level > beyond_guessing(name, test_images)}


def of_table3(curves: pd.DataFrame) -> pd.DataFrame:
    """The curves that Table III counts: xi = 2, on CIFAR-100 xi = 4, without centralised training."""
    partition = curves["data_set"].map(lambda name: "xi=4" if name == "cifar100" else "xi=2")
    return curves[(curves["partition"] == partition) & (curves["method"] != "Centralized")]


def printed_targets() -> dict[str, float]:
    """Table III's targets as shares."""
    return {"mnist": 0.90, "fashion_mnist": 0.80, "cifar10": 0.67, "cifar100": 0.33}


def transfers_to(curves: pd.DataFrame, targets: dict[str, float], per_round: dict[str, int]) -> pd.DataFrame:
    """Rounds and transfers until each run reaches its data set's target.

    `transfers` is blank where a run never does. `transfers_at_least` then counts one round more than the run had, if
    any run of the data set gets there; else it is blank, too.
    """
    rows = []
    for labels, run in curves[curves["data_set"].isin(targets)].groupby(KEYS, sort=False):
        names = dict(zip(KEYS, labels, strict=True))
        hit = run.loc[run["accuracy"] >= targets[names["data_set"]], "round"]
        cost, reached = per_round[names["method"]], len(hit) > 0
        at_least = int(hit.min()) if reached else int(run["round"].max()) + 1
        reaching = {"target": targets[names["data_set"]], "reached": reached, "rounds_to_target": at_least}
        rows.append(names | reaching | {"transfers_at_least": float(at_least * cost)})
    columns = [*KEYS, "target", "reached", "rounds_to_target", "transfers_at_least"]
    frame = pd.DataFrame(rows, columns=columns)
    anybody = frame.groupby("data_set")["reached"].transform("any")
    known = frame["transfers_at_least"]
    return frame.assign(transfers=known.where(frame["reached"]), transfers_at_least=known.where(anybody))


def transfers_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean transfers to the target, one column per data set; ">" where some seeds never reach it."""
    runs = frame.groupby(["method", "data_set"], sort=False)
    means = runs.agg(reached=("reached", "mean"), transfers=("transfers_at_least", "mean"))
    words = [
        "not reached" if reached == 0 else f"{'> ' if reached < 1 else ''}{transfers:.0f}"
        for reached, transfers in means.itertuples(index=False)
    ]
    return pd.Series(words, means.index).unstack(sort=False)


def moments(curves: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """Table IV: the accuracy halfway and at the end."""
    read = curves.assign(moment=curves["round"].map({rounds // 2: "halfway", rounds: "end"})).dropna(subset=["moment"])
    read["cell"] = read["data_set"] + ", participation " + read["participation"].astype(str) + ", " + read["moment"]
    columns = ["data_set", "participation", "moment", "cell", "method", "seed", "round", "accuracy"]
    return read[columns].reset_index(drop=True)


def printed(id: str) -> pd.DataFrame:
    """A printed table as rows: the `where` of its block, row name, column and value."""
    rows = []
    for block in ledger.load("fedsr").entry(id).blocks:
        ((axis, levels),) = block.columns.items()
        for name, values in block.printed.items():
            for level, value in zip(levels, values, strict=True):
                rows.append(block.where | {block.rows: name, axis: level, "printed": value})
    return pd.DataFrame(rows)


def transfers_per_round(devices: int, edge_broadcasts: bool = False) -> dict[str, int]:
    """Models sent per round by each method, as Table III counts them or with what edge servers hand down."""
    made = {method: algorithms.create(METHODS[method][0], **METHODS[method][1]) for method in DECENTRAL}
    return {method: transfers.per_round(algorithm, devices, edge_broadcasts) for method, algorithm in made.items()}


def overview(devices: int) -> pd.DataFrame:
    """What a round means for each method: epochs per device, epochs that a model makes in a row, models sent."""
    longest = devices * EPOCHS
    in_a_row = {"Centralized": longest, "ring-optimization": longest, "FedSR": RING_DEVICES * EPOCHS}
    sent = transfers_per_round(devices)
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
