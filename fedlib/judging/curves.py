"""What curves over rounds say: where they end, when they reach a target, how rough they are."""

from typing import Any

import numpy as np
import pandas as pd


def final(frame: pd.DataFrame, keys: list[str], last: int, target: float) -> pd.DataFrame:
    """One row per run: each score's mean over the `last` measured rounds, rounds to the target accuracy, roughness.

    For a run that never reaches the target, `rounds_to_target` is one more than its rounds, and `reached` is false. A
    loss that diverged is infinite.
    """
    scores = [column for column in frame.select_dtypes("number").columns if column not in (*keys, "seed", "round")]
    rows = []
    for labels, run in frame.groupby([*keys, "seed"], sort=False):
        run = run.sort_values("round")
        names = dict(zip([*keys, "seed"], labels, strict=True))
        rows.append(names | run[scores].tail(last).mean().to_dict() | _speed_and_roughness(run, target))
    ends, losses = pd.DataFrame(rows), [score for score in scores if score.endswith("loss")]
    return ends.assign(**{loss: ends[loss].fillna(np.inf) for loss in losses})


def _speed_and_roughness(run: pd.DataFrame, target: float) -> dict[str, Any]:
    """When a run first reaches the target, and how much it jumps from measurement to measurement in its second half."""
    rounds, reached = rounds_to(run, target)
    roughness = float(run["accuracy"].tail(len(run) // 2).diff().std())
    return {"rounds_to_target": rounds, "reached": reached, "roughness": roughness}


def rounds_to(run: pd.DataFrame, target: float) -> tuple[int, bool]:
    """The first measured round of a run at or above the target, and True; one more than its rounds, and False, if there
    is none."""
    hits = run.loc[run["accuracy"] >= target, "round"]
    return (int(hits.min()), True) if len(hits) else (int(run["round"].max()) + 1, False)


def mean_curves(frame: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    """Mean and standard deviation over seeds for each measured round."""
    grouped = frame.groupby([*keys, "round"], sort=False)[value]
    return pd.DataFrame({"mean": grouped.mean(), "sd": grouped.std().fillna(0)}).reset_index()
