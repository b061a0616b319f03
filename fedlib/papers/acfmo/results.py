"""The numbers of the ACFMO notebooks: of the runs, of the stability of momentum, of the convergence theory."""

from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from fedlib.judging import curves, ledger
from fedlib.judging.statistics import estimate
from fedlib.papers.acfmo.experiments import BATCH_SUMS, DEVICE_SUMS, PAPERS, READINGS, RIVALS, TUNED, acfmo
from fedlib.runs.tuning import Sweep

HALF_A_POINT = 0.005  # what rounding to whole percent hides
STRONGEST = ("FedALA", "FedDBE")  # of the rivals, in print
MOMENTS = ("Eqs. (4) to (9) as printed", "this round's moments", "unnormalised moments")  # READINGS, as claims say it
PAPERS_RATES = (PAPERS, BATCH_SUMS, DEVICE_SUMS)

# What travels between a device and the server in a round, in vectors of the model's size: method -> down, up, what
VECTORS: dict[str, tuple[int, int, str]] = {
    "ACFMO": (3, 2, "the model, the accelerated model and the anchor; the gradient and the trained model"),
    "FedDBE": (1, 1, "the model; the trained model"),
    "FedALA": (1, 1, "the model; the trained model"),
    "FedPAC": (1, 2, "the combined head; the trained head and the class statistics"),
    "FedGH": (1, 1, "the head; the class prototypes"),
    "FedAvg": (1, 1, "the model; the trained model"),
    "Server Adam": (1, 1, "the model; the gradient"),
}


def vectors(method: str) -> int:
    """Vectors of the model's size that a device and the server exchange in a round; ACFMO's readings are alike."""
    down, up, _ = VECTORS[method.split(",")[0]]
    return down + up


def traffic() -> pd.DataFrame:
    """What each method sends, for reading."""
    rows = [(method, down, up, down + up, what) for method, (down, up, what) in VECTORS.items()]
    return pd.DataFrame(rows, columns=["method", "down", "up", "together", "what"]).set_index("method")


# What is printed


def printed(id: str) -> dict[int, float]:
    """What the paper prints for ACFMO in a figure, by participation level, in our unit; of "over 95" the 95."""
    cells, scale = ledger.printed(id), ledger.load("acfmo").entry(id).scale
    ours = cells[cells["method"] == acfmo(READINGS[0])].set_index("participation")["printed"]
    return {level: ledger.printed_range(value)[0] / scale for level, value in ours.items()}


def within(frame: pd.DataFrame, figure: str, table: str) -> pd.DataFrame:
    """Rounds until ACFMO has the accuracy that a figure prints for its level, beside those printed in a table.

    Half a point less counts as reached, as it would be printed the same. `spare` is printed rounds less ours; a run
    that never arrives counts as one round more than it had, and says nothing where it was too short to arrive late.
    """
    entry = ledger.load("acfmo").entry(table)
    ((levels,), row) = entry.blocks[0].columns.values(), entry.blocks[0].printed[acfmo(READINGS[0])]
    most = {level: ledger.printed_range(cell)[1] for level, cell in zip(levels, row, strict=True) if cell is not None}
    targets = printed(figure)
    ours = frame[frame["method"].isin(map(acfmo, READINGS)) & frame["participation"].isin(most)]
    parts = [
        speed(runs, ["rates", "method", "participation"], [targets[level] - HALF_A_POINT]).assign(printed=most[level])
        for level, runs in ours.groupby("participation", sort=False)
    ]
    rounds = pd.concat(parts, ignore_index=True)
    spare = rounds["printed"] - rounds["rounds_to_target"]
    return rounds.assign(spare=spare.where(rounds["reached"] | (spare < 0)))


def by_reading(page: str, line: Callable[[str], dict[str, Any]]) -> pd.DataFrame:
    """The verdicts on the claims of a page: a row for each claim and its step sizes, a column for each reading of Eqs.
    (4) to (9); `line` gives the ledger's line of an id. A claim in which ACFMO has no part is the same in all columns.
    """
    claims = [entry for entry in ledger.load("acfmo").entries if entry.kind == "claim" and entry.page == page]
    cells = {
        (entry.statement, rates, moments): told["verdict"]
        for entry in claims
        for told in line(entry.id)["readings"]
        for rates, moments in _rates_and_moments(told["reading"])
    }
    return pd.Series(cells).unstack(sort=False).fillna("").rename_axis(["claim", "step sizes"])


def tally(verdicts: pd.DataFrame) -> dict[str, int]:
    """Claims of `by_reading` and how many of them are reproduced and contradicted, by reading; of each claim the step
    sizes that decide it count, which come first."""
    first = verdicts.groupby("claim", sort=False).first()
    counts = {
        f"{verdict}_{reading}": int((first[moments] == verdict).sum())
        for verdict in ("reproduced", "contradicted")
        for reading, moments in zip(READINGS, MOMENTS, strict=True)
    }
    return {"claims": len(first)} | counts


def _rates_and_moments(reading: str) -> list[tuple[str, str]]:
    """ "this round's moments, each tuned" in its two parts, the second first; without the first part, with each."""
    moments, _, rates = reading.partition(", ")
    return [(rates, moments)] if moments in MOMENTS else [(reading, each) for each in MOMENTS]


# Of the runs


def speed(frame: pd.DataFrame, keys: list[str], targets: list[float]) -> pd.DataFrame:
    """One row per run and target: rounds, and vectors per participating device, until the accuracy is first reached.

    A run that never arrives counts as one round more than it had; `reached` says so.
    """
    rows = []
    for labels, run in frame.groupby([*keys, "seed"], sort=False):
        names = dict(zip([*keys, "seed"], labels, strict=True))
        for target in targets:
            rounds, reached = curves.rounds_to(run, target)
            cost = rounds * vectors(names["method"])
            arrived = {"rounds_to_target": rounds, "vectors_to_target": cost, "reached": reached}
            rows.append(names | {"target": target} | arrived)
    return pd.DataFrame(rows)


def speed_table(speeds: pd.DataFrame, value: str = "rounds_to_target") -> pd.DataFrame:
    """For reading: the mean over seeds; "never" where no run arrives, with a > where only some do."""

    def cell(runs: pd.DataFrame) -> str:
        mark = "" if runs["reached"].all() else ">"
        return f"{mark}{runs[value].mean():.0f}" if runs["reached"].any() else "never"

    columns = ["rates", "method", "participation", "target"]
    cells = speeds.groupby(columns, sort=False)[[value, "reached"]].apply(cell)
    return cells.unstack(["participation", "target"], sort=False)


def leads(ends: pd.DataFrame) -> pd.DataFrame:
    """By how much ACFMO ends above each rival: one row per reading, rival, set of step sizes, level and seed."""
    keys = [name for name in ("features", "rates", "participation", "seed") if name in ends]
    wide = ends.pivot_table(index=keys, columns="method", values="accuracy")
    rows = [
        (wide[acfmo(reading)] - wide[rival]).rename("lead").reset_index().assign(reading=reading, rival=rival)
        for reading in READINGS
        for rival in RIVALS
        if rival in wide
    ]
    return pd.concat(rows, ignore_index=True)


def mean_leads(ahead: pd.DataFrame, rivals: Collection[str] = STRONGEST) -> pd.DataFrame:
    """The lead over rivals, averaged over these and over levels: one row per reading, rates and seed."""
    close = ahead[ahead["rival"].isin(rivals)]
    return close.groupby(["reading", "rates", "seed"], sort=False)["lead"].mean().reset_index()


def average_leads(ahead: pd.DataFrame) -> dict[str, str]:
    """`mean_leads` in points with their intervals, by "current_tuned", "current_papers" ..."""
    short = {PAPERS: "papers", BATCH_SUMS: "batch", DEVICE_SUMS: "device", TUNED: "tuned"}
    return {
        f"{reading}_{short[rates]}": in_points(runs["lead"])
        for (reading, rates), runs in mean_leads(ahead).groupby(["reading", "rates"])
    }


def mean_lead_table(ahead: pd.DataFrame) -> pd.DataFrame:
    """For reading: mean leads over the strongest rivals, and over each of them, by set of step sizes and reading."""
    parts = {
        " and ".join(rivals): mean_leads(ahead, rivals) for rivals in (STRONGEST, *((rival,) for rival in STRONGEST))
    }
    text = {
        rivals: leads.groupby(["rates", "reading"], sort=False)["lead"].apply(in_points).unstack(sort=False)
        for rivals, leads in parts.items()
    }
    return pd.concat(text, names=["lead over"])


def baselines(ends: pd.DataFrame, figure: str) -> pd.DataFrame:
    """For reading: where the baselines end in percent at the paper's rate, by what it multiplies, beside print."""
    rivals = [*RIVALS, "FedAvg"]
    ours = ends[ends["rates"].isin(PAPERS_RATES) & ends["method"].isin(rivals)]
    means = ours.groupby(["rates", "method", "participation"], sort=False)["accuracy"].mean().mul(100)
    text = means.map("{:.1f}".format).unstack("participation", sort=False)
    block = ledger.load("acfmo").entry(figure).blocks[0]
    (levels,) = block.columns.values()
    in_print = pd.DataFrame({rival: dict(zip(levels, block.printed[rival], strict=True)) for rival in RIVALS}).T
    table = pd.concat([pd.concat({"in print": in_print[list(text)].astype(str)}), text])
    return table.rename_axis(["rates", "method"])


def chosen(sweeps: Mapping[str, Mapping[int, Sweep]]) -> pd.DataFrame:
    """For reading: the step size of every method at every level of participation, by what was asked for."""
    best = {
        (name, level): {method: next(iter(point.values())) for method, point in sweep.best.items()}
        for name, of_levels in sweeps.items()
        for level, sweep in of_levels.items()
    }
    return pd.DataFrame(best).rename_axis(columns=["best", "participation"])


def lead_table(ahead: pd.DataFrame, figure: str) -> pd.DataFrame:
    """Leads in points with their 95% intervals, one row per level and rival, beside the lead that the paper prints."""
    columns = {"printed": _printed_leads(figure)}
    for (rates, reading), runs in ahead.groupby(["rates", "reading"], sort=False):
        columns[f"{reading}, {rates}"] = runs.groupby(["participation", "rival"], sort=False)["lead"].apply(in_points)
    table = pd.DataFrame(columns).dropna(how="all", subset=list(columns)[1:]).fillna("")
    return table.rename_axis(["participation", "rival"])


def _printed_leads(figure: str) -> pd.Series:
    """Printed accuracy of ACFMO less that of each rival: a range or a bound where these are printed as such."""
    words = {
        cell: f">{least:g}" if np.isinf(most) else f"{least:g}" + f"..{most:g}" * (most > least)
        for cell, (least, most) in _printed_lead_ranges(figure).items()
    }
    return pd.Series(words)


def _printed_lead_ranges(figure: str) -> dict[tuple[int, str], tuple[float, float]]:
    """Least and largest printed lead in points, by level and rival."""
    block = ledger.load("acfmo").entry(figure).blocks[0]
    ((levels,), ours) = block.columns.values(), printed(figure)
    ranges = {}
    for position, level in enumerate(levels):
        for rival in RIVALS:
            low, high = ledger.printed_range(block.printed[rival][position])
            ranges[level, rival] = 100 * ours[level] - high, 100 * ours[level] - low
    return ranges


def printed_mean_lead(figure: str) -> tuple[float, float]:
    """The printed lead in points over the strongest rivals, averaged over these and over levels: from, to."""
    ranges = [ends for (_, rival), ends in _printed_lead_ranges(figure).items() if rival in STRONGEST]
    return float(np.mean([least for least, _ in ranges])), float(np.mean([most for _, most in ranges]))


def leads_as_printed(ahead: pd.DataFrame, figure: str) -> int:
    """How many of the mean leads, one for each reading and set of step sizes, lie in the printed range."""
    points = 100 * mean_leads(ahead).groupby(["reading", "rates"])["lead"].mean()
    return int(points.between(*printed_mean_lead(figure)).sum())


def in_points(differences: pd.Series) -> str:
    """Mean and 95% interval of a difference of shares, in points."""
    seen = estimate(differences)
    interval = seen.interval()
    words = f"{100 * seen.mean:+.2f}"
    return words if interval is None else f"{words} [{100 * interval[0]:+.2f}, {100 * interval[1]:+.2f}]"


def ablation(ends: pd.DataFrame) -> pd.DataFrame:
    """Accuracy with and without local steps, and the difference; one row per reading, participation and seed."""
    keys = ["reading", "participation", "seed"]
    wide = ends.pivot_table(index=keys, columns="local steps", values="accuracy", sort=False).reset_index()
    return wide.assign(difference=wide["with"] - wide["without"])


def coinciding(
    frame: pd.DataFrame, value: str, panels: list[str], hue: str = "method", within: float = 0.002
) -> pd.DataFrame:
    """Which lines of a figure cannot be told apart: pairs whose means over seeds differ by at most `within` in every
    measured round of every panel that has both. One row per pair, with the largest difference."""
    means = frame.groupby([*panels, "round", hue], sort=False)[value].mean().unstack(hue, sort=False)
    gaps = {(a, b): (means[a] - means[b]).abs().max() for a, b in combinations(means, 2)}
    close = [(a, b, gap) for (a, b), gap in gaps.items() if gap <= within]
    return pd.DataFrame(close, columns=["line", "coincides with", "largest difference"])


def distances(ends: pd.DataFrame, figure: str) -> pd.DataFrame:
    """How far ACFMO ends from the accuracy that a figure prints for it: one row per run, `distance` as a share."""
    ours = ends[ends["method"].isin(map(acfmo, READINGS))]
    wanted = ours["participation"].map(printed(figure))
    return ours.assign(distance=(ours["accuracy"] - wanted).abs())


def features_table(apart: pd.DataFrame, optima: dict[str, float], figure: str) -> pd.DataFrame:
    """For reading: where ACFMO ends in percent with each kind of features, beside their optimum and what is printed."""
    means = apart.groupby(["method", "features", "participation"], sort=False)["accuracy"].mean().mul(100)
    text = means.map("{:.1f}".format).unstack("participation").fillna("")
    text["optimum"] = [f"{100 * optima[features]:.1f}" for _, features in text.index]
    shares = {level: f"{100 * share:g}" for level, share in printed(figure).items() if level in text}
    text.loc[("the paper prints", ""), :] = pd.Series(shares).reindex(text.columns).fillna("")
    return text


def sweep_table(tuned: Sweep) -> pd.DataFrame:
    """For reading: mean scores on held-out samples in percent by method and step size, and the best step size."""
    means = tuned.means()
    means["step size"] = means[[name for name in ("lr", "server_lr") if name in means]].bfill(axis=1).iloc[:, 0]
    scores = means.pivot(index="method", columns="step size", values="score").loc[list(tuned.best)]
    best = {method: next(iter(point.values())) for method, point in tuned.best.items()}
    return scores.mul(100).round(1).astype(object).fillna("").assign(best=pd.Series(best))


# Of the grid of decay rates


def grid_ends(frame: pd.DataFrame, last: int) -> pd.DataFrame:
    """One row per run: mean accuracy and loss of the last measurements, and how rough both curves are in the second
    half: the standard deviation of the change between measurements."""
    rows = []
    for labels, run in frame.groupby(["variant", "beta1", "beta2", "seed"], sort=False):
        tail, half = run.tail(last), run.tail(len(run) // 2)
        names = dict(zip(["variant", "beta1", "beta2", "seed"], labels, strict=True))
        rough = {"roughness": half["accuracy"].diff().std(), "loss_roughness": half["loss"].diff().std()}
        rows.append(names | tail[["accuracy", "loss"]].mean().to_dict() | rough)
    ends = pd.DataFrame(rows)
    return ends.assign(pair=pair(ends["beta1"], ends["beta2"]))


def pair(beta1: pd.Series, beta2: pd.Series) -> pd.Series:
    """A pair of decay rates in words: "0.6 and 0.99"."""
    return beta1.map("{:g}".format) + " and " + beta2.map("{:g}".format)


def ranges_of_beta1(ends: pd.DataFrame) -> pd.DataFrame:
    """The best accuracy with beta1 of 0.6 and more, and with less: one row each per reading, beta2 and seed."""
    named = ends.assign(range=np.where(ends["beta1"] >= 0.6, "0.6 and more", "below 0.6"))
    return named.groupby(["variant", "beta2", "seed", "range"], sort=False, as_index=False)["accuracy"].max()


def effective_steps(beta1: list[float], beta2: list[float]) -> pd.DataFrame:
    """(1 - beta1) / sqrt(1 - beta2), by which Eq. (7) multiplies Adam's step where the moments are normalised, for each
    pair of decay rates. With unnormalised moments it is one."""
    steps = {second: {first: (1 - first) / np.sqrt(1 - second) for first in beta1} for second in beta2}
    return pd.DataFrame(steps).rename_axis(index="beta1", columns="beta2")


# Momentum with and without the lag of Eq. (4)


def spectral_radius(beta1: float, reach: float, lag: int) -> float:
    """Growth factor per round of heavy-ball momentum on one coordinate.

    `reach` is step x curvature; the gradient comes `lag` rounds late, 0 or 1.
    """
    c = (1 - beta1) * reach
    polynomial = [1, -(1 + beta1 - c), beta1] if lag == 0 else [1, -(1 + beta1), beta1 + c]
    return float(np.abs(np.roots(polynomial)).max())


def largest_stable(beta1: float, lag: int) -> float:
    """The largest step x curvature whose growth factor is at most one, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spectral_radius(beta1, middle, lag) <= 1 else (low, middle)
    return low


def growth_factors(beta1: float = 0.9) -> pd.DataFrame:
    """The growth factor over step x curvature, with this round's moments and with a lag of one round."""
    reach = np.logspace(-2, 2, 161)
    factors = {
        name: [spectral_radius(beta1, value, lag) for value in reach] for name, lag in (("this round", 0), ("lag", 1))
    }
    return pd.DataFrame({"step x curvature": reach} | factors)


# The convergence theory


def best_step(target: float | np.ndarray, smooth: float) -> float | np.ndarray:
    """alpha_l*, the local step for a target rate, Eq. (81)."""
    return target / (4 * smooth * (1 + target))


def best_iterations(target: float | np.ndarray, mu: float, smooth: float) -> np.ndarray:
    """K*, the local iterations for a target rate, Eq. (82)."""
    return np.ceil(8 * smooth * (1 + target) / (mu * target**2))


def theory(mu: float, smooth: float) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Local step and iterations over target rates; b(q) for three of them; its minima beside q* of Eq. (80)."""
    targets = np.linspace(0.1, 0.95, 18)
    rates = pd.DataFrame(
        {"target": targets, "step": best_step(targets, smooth), "iterations": best_iterations(targets, mu, smooth)}
    )
    curves = [_bound_over_q(target, mu, smooth) for target in (0.5, 0.7, 0.9)]
    minima = [_minimum(curve, mu, smooth) for curve in curves]
    return rates, pd.concat(curves, ignore_index=True), pd.DataFrame(minima)


def _bound_over_q(target: float, mu: float, smooth: float) -> pd.DataFrame:
    """b(q), Eq. (79)."""
    q = np.linspace(0.01 * target, 0.99 * target, 981)
    return pd.DataFrame({"target": target, "q": q, "b": 2 * smooth * (1 + q) ** 2 / (mu * q * (target - q))})


def _minimum(curve: pd.DataFrame, mu: float, smooth: float) -> dict[str, Any]:
    """Where a curve of b is lowest, beside what the paper gives in closed form."""
    target, lowest = float(curve["target"].iloc[0]), curve.loc[curve["b"].idxmin()]
    return {
        "target": target,
        "q*": target / (2 + target),
        "q found": lowest["q"],
        "b(q*)": float(np.round(lowest["b"])),
        "step": best_step(target, smooth),
        "K*": int(best_iterations(target, mu, smooth)),
    }
