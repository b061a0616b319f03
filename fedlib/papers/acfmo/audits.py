"""The paper's own numbers and equations, checked: one row per quantity with printed, found and holds."""

import pandas as pd

from fedlib.judging import ledger
from fedlib.judging.checks import audit
from fedlib.papers.acfmo.results import best_iterations, largest_stable


def micro(accuracy: str, recall: str, f1: str) -> pd.DataFrame:
    """Printed accuracy, micro recall and micro F1 of ACFMO, level by level: three names of one number."""
    paper = ledger.load("acfmo")
    (levels,) = paper.entry(accuracy).blocks[0].columns.values()
    rows = []
    for position, level in enumerate(levels):
        values = [paper.entry(id).blocks[0].printed["ACFMO"][position] for id in (accuracy, recall, f1)]
        equal = values[0] / 100 == values[1] == values[2]
        printed = f"{values[0]}%, {values[1]}, {values[2]}"
        rows.append((f"{level}% of devices", printed, "equal" if equal else "different", equal))
    return audit(*rows)


def advice(ends: pd.DataFrame) -> pd.DataFrame:
    """Is the recommended pair (0.6, 0.99) within one standard deviation of the best pair of the grid?"""
    cells = ends.groupby(["beta1", "beta2"])["accuracy"].agg(["mean", "std"]).fillna(0)
    best = cells["mean"].idxmax()
    advised, top = cells.loc[(0.6, 0.99)], cells.loc[best]
    holds = advised["mean"] >= top["mean"] - top["std"]
    return audit(
        ("best beta1, beta2", "0.6, 0.99", f"{best[0]}, {best[1]}", holds),
        ("accuracy there", f"{advised['mean']:.4f}", f"{top['mean']:.4f}", holds),
    )


def lag(pair: pd.DataFrame) -> pd.DataFrame:
    """The largest stable step and the measured accuracy at beta1 = 0.9, with this round's moments and with the lag."""
    accuracy = pair[pair["beta1"] == 0.9].groupby("variant")["accuracy"].agg(["mean", "std"]).fillna(0)
    current, printed = accuracy.loc["current"], accuracy.loc["printed"]
    without, late = (largest_stable(0.9, rounds) for rounds in (0, 1))
    kept = printed["mean"] >= current["mean"] - current["std"]
    reach = "largest stable step x curvature"
    return audit(
        (reach, f"{without:.1f} without lag", f"{late:.1f} with lag", late >= without),
        ("accuracy", f"{current['mean']:.3f} without lag", f"{printed['mean']:.3f} with lag", kept),
    )


def first_round(moves: pd.DataFrame) -> pd.DataFrame:
    """How far the first round moves the model, for both readings of Eq. (4)."""
    rows = [
        (f"change of the model in round 1, {variant}", "> 0", f"{moved:.4f}", moved > 0)
        for variant, moved in zip(moves["variant"], moves["moved"], strict=True)
    ]
    return audit(*rows)


def local_work(weight: pd.DataFrame) -> pd.DataFrame:
    """Is the local part, as `experiments.local_weight` measures it, at least 1% of the central step?"""
    ratios = weight.groupby("participation")["ratio"].median()
    rows = [
        (f"local / central at {level:.0%}", ">= 0.01", f"{ratio:.1e}", ratio >= 0.01) for level, ratio in ratios.items()
    ]
    return audit(*rows)


def jensen(ratios: pd.DataFrame) -> pd.DataFrame:
    """Median over devices of E|g|^2 / |E g|^2 for single-sample gradients, which Eq. (36) says is at most one."""
    rows = []
    for round, ratio in ratios.groupby("round")["ratio"].median().items():
        moment = f"after {round} rounds" if round else "at the start"
        rows.append((f"E|g|^2 / |E g|^2 {moment}, median device", "<= 1", f"{ratio:.3g}", ratio <= 1))
    return audit(*rows)


def local_iterations(mu: float, smooth: float, reach: int = 1000) -> pd.DataFrame:
    """Local iterations that Eq. (82) asks for, against what a device can do per round."""
    asked = {target: int(best_iterations(target, mu, smooth)) for target in (0.5, 0.9)}
    rows = [
        (f"K* for a target rate of {target}", f"<= {reach}", steps, steps <= reach) for target, steps in asked.items()
    ]
    return audit(*rows)
