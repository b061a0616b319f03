"""From curves to the numbers of the tables: one row a run and cell."""

import numpy as np
import pandas as pd

from fedlib import ledger
from fedlib.papers.fedsr.experiments import STAR

KEYS = ["data_set", "partition", "method", "seed"]


def ends(curves: pd.DataFrame, keys: list[str] = KEYS) -> pd.DataFrame:
    """The last record of each run, and `cell`, data set and partition in one word."""
    last = curves.loc[curves.groupby(keys, sort=False)["round"].idxmax()]
    last = last[[*keys, "round", "accuracy", "loss"]].reset_index(drop=True)
    return last.assign(cell=last["data_set"] + ", " + last["partition"])


def guess(data_set: str, test_images: int) -> float:
    """What guessing can score: the share of one class plus three standard errors of that many test images."""
    share = 1 / (100 if data_set == "cifar100" else 10)
    return share + 3 * float(np.sqrt(share * (1 - share) / test_images))


def judged(rows: pd.DataFrame, test_images: int) -> pd.Series:
    """The accuracy where some method of the cell has, on average, learnt more than a guess knows; else blank."""
    best = rows.groupby(["cell", "method"])["accuracy"].mean().groupby("cell").max()
    limit = rows["data_set"].map(lambda name: guess(name, test_images))
    return rows["accuracy"].where(rows["cell"].map(best) > limit)


def early(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """`rows`, the judged ends, with `early`: the mean accuracy over the measured rounds of the first quarter."""
    measured = curves[curves["round"] > 0]
    quarter = measured.groupby("data_set")["round"].transform(lambda rounds: max(rounds.max() / 4, rounds.min()))
    first = measured[measured["round"] <= quarter].groupby(KEYS)["accuracy"].mean().rename("early").reset_index()
    joined = rows.merge(first, on=KEYS)
    return joined.assign(early=joined["early"].where(joined["judged"].notna()))


def in_every_column(rows: pd.DataFrame) -> pd.DataFrame:
    """Centralised training sees no partition: its run stands in every column of its data set."""
    central = rows["method"] == "Centralized"
    cells = rows.loc[~central, ["data_set", "partition", "cell"]].drop_duplicates()
    spread = rows[central].drop(columns=["partition", "cell"]).merge(cells, on="data_set")
    return pd.concat([rows[~central], spread], ignore_index=True)


def lost_against_iid(rows: pd.DataFrame, methods: tuple = STAR) -> pd.DataFrame:
    """iid accuracy minus that of the partition, seed by seed, where both were run."""
    rows = rows[rows["method"].isin(methods)]
    iid = rows[rows["partition"] == "iid"].set_index(["data_set", "method", "seed"])["accuracy"].rename("iid")
    other = rows[rows["partition"] != "iid"].join(iid, on=["data_set", "method", "seed"]).dropna(subset=["iid"])
    return other.assign(lost=other["iid"] - other["accuracy"])[[*KEYS, "accuracy", "iid", "lost"]].reset_index(drop=True)


def common_levels(curves: pd.DataFrame) -> dict[str, float]:
    """For each data set the highest accuracy that all its runs reach."""
    return curves.groupby(KEYS)["accuracy"].max().groupby("data_set").min().to_dict()


def printed_targets() -> dict[str, float]:
    """Table III's targets as shares."""
    return {"mnist": 0.90, "fashion_mnist": 0.80, "cifar10": 0.67, "cifar100": 0.33}


def transfers_to(curves: pd.DataFrame, targets: dict[str, float], per_round: dict[str, int]) -> pd.DataFrame:
    """Rounds and transfers until each run reaches its data set's target.

    `transfers` is blank where a run never does. `transfers_at_least` then counts one round more than the run had, if any
    run of the data set gets there; else it is blank, too.
    """
    rows = []
    for labels, run in curves.groupby(KEYS, sort=False):
        names = dict(zip(KEYS, labels, strict=True))
        hit = run.loc[run["accuracy"] >= targets[names["data_set"]], "round"]
        cost, reached = per_round[names["method"]], len(hit) > 0
        at_least = int(hit.min()) if reached else int(run["round"].max()) + 1
        found = {"target": targets[names["data_set"]], "reached": reached, "rounds_to_target": at_least}
        rows.append(names | found | {"transfers": at_least * cost if reached else None, "transfers_at_least": at_least * cost})
    frame = pd.DataFrame(rows).astype({"transfers": float, "transfers_at_least": float})
    nobody = ~frame.groupby("data_set")["reached"].transform("any")
    return frame.assign(transfers_at_least=frame["transfers_at_least"].mask(nobody))


def moments(curves: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """Table IV: the accuracy halfway and at the end."""
    named = curves.assign(moment=curves["round"].map({rounds // 2: "halfway", rounds: "end"})).dropna(subset=["moment"])
    named["cell"] = named["data_set"] + ", participation " + named["participation"].astype(str) + ", " + named["moment"]
    return named[["data_set", "participation", "moment", "cell", "method", "seed", "round", "accuracy"]].reset_index(drop=True)


def printed(id: str) -> pd.DataFrame:
    """A printed table as rows: the `where` of its block, row name, column and value."""
    rows = []
    for block in ledger.load("fedsr").entry(id).blocks:
        ((axis, levels),) = block.columns.items()
        for name, values in block.printed.items():
            rows += [block.where | {block.rows: name, axis: level, "printed": value} for level, value in zip(levels, values, strict=True)]
    return pd.DataFrame(rows)
