"""The numbers of the FCBAFL notebooks, from what the experiments return."""

import numpy as np
import pandas as pd

from fedlib.papers.fcbafl.experiments import Costs, Curve, LearningSetting, curve_name

RUN = ["setting", "step", "curve", "batch", "seed"]  # what names a run of the learning


def setups(printed: LearningSetting, fedl: LearningSetting, fedl_lr: float) -> pd.DataFrame:
    """The set-up of the learning: what the paper prints, what FEDL's authors released, and what is run here."""
    devices, samples = printed.federation["clients"], printed.federation["samples"] or 60_000
    per_round = round(fedl.local["participation"] * devices)
    alpha, l2, steps = printed.federation["alpha"], printed.federation["l2"], printed.local["steps"]
    rows = {
        "images": ("MNIST", "MNIST, 70,000", f"MNIST, {samples:,}", f"MNIST, {samples:,}"),
        "split over devices": (
            "unbalanced, non-iid",
            "3 digits each, log-normal amounts",
            f"Dir({alpha:g}) per digit",
            "3 digits each, log-normal amounts",
        ),
        "training and test": ("75% and 25%", *["75% and 25% of each device"] * 3),
        "pixels": ("not printed", "standardised", "shares of one", "standardised"),
        "model": ("payload of softmax regression", *["softmax regression"] * 3),
        "l2 term": ("asked for, not printed", "none", f"{l2:g}", "none"),
        "devices per round": (f"all {devices}", "10 of 100", f"all {devices}", f"{per_round} of {devices}"),
        "local work": ("20 iterations", "20 epochs", f"{steps} iterations", f"{fedl.local['epochs']} epochs"),
        "eta, minibatches": (
            "two, not printed",
            "0.2",
            *(_listed(setting, "minibatch") for setting in (printed, fedl)),
        ),
        "eta, full batches": (
            "0.2 and larger",
            "0.2, 2, 4",
            *(_listed(setting, "full") for setting in (printed, fedl)),
        ),
        "step size": ("not printed", "0.003 for all", "best of a grid; one for all", f"best of a grid; {fedl_lr:g}"),
        "rounds": ("500", "800", str(printed.rounds), str(fedl.rounds)),
    }
    columns = ["the paper", "FEDL's code", "here, as printed", "here, as FEDL"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("set-up")


def _listed(setting: LearningSetting, batches: str) -> str:
    return ", ".join(f"{eta:g}" for eta in setting.etas[batches])


def step_sizes(settings: dict[str, dict[str, dict[int | str, list[Curve]]]]) -> pd.DataFrame:
    """Every curve's step size by setting, rule and batch."""
    rows = [
        {"setting": setting, "step": step, "curve": curve_name(curve.eta), "batch": str(batch), "lr": curve.lr}
        for setting, rules in settings.items()
        for step, by_batch in rules.items()
        for batch, curves in by_batch.items()
        for curve in curves
    ]
    table = pd.DataFrame(rows).pivot(index=["setting", "step", "curve"], columns="batch", values="lr")
    return table.astype(object).fillna("")


def theta_after(frame: pd.DataFrame, rounds: list[int]) -> pd.DataFrame:
    """The local accuracy theta of (7) after some rounds: one row per curve, batch, round and seed."""
    chosen = frame[frame["eta"].notna() & frame["round"].isin(rounds)]
    return chosen[["curve", "eta", "batch", "round", "seed", "theta", "theta_max"]].reset_index(drop=True)


def energy_to_target(ends: pd.DataFrame, joules: pd.DataFrame) -> pd.DataFrame:
    """What reaching the target cost each run: its rounds times the joules of a round of its method, averaged over
    channel draws. One row per run and way of counting the work (`reading`)."""
    per_round = joules.groupby(["setting", "reading", "method", "batch"], as_index=False)["energy_j"].mean()
    methods = ends["curve"].str.split(",").str[0]
    runs = ends.assign(method=methods)[[*RUN, "method", "rounds_to_target", "reached"]]
    costs = runs.merge(per_round.rename(columns={"energy_j": "round_j"}), on=["setting", "method", "batch"])
    return costs.assign(energy_kj=costs["rounds_to_target"] * costs["round_j"] / 1000)


def savings(sweep: pd.DataFrame, axis: str, best: str) -> pd.DataFrame:
    """One row per draw, scheme and point with the saving of `best` on the scheme, and one for the whole sweep.

    `sweep` has the costs by scheme, `axis` and draw, as `experiments.over_deadlines` returns them. Draws in which some
    point has no plan at all (the deadline is out of reach) are left out.
    """
    points, count = sweep[axis].unique(), sweep["seed"].nunique()
    costs: Costs = {
        scheme: rows[["sending_j", "computing_j"]].to_numpy().T.reshape(2, len(points), count)
        for scheme, rows in sweep.groupby("scheme", sort=False)
    }
    feasible = ~np.isnan(np.sum(costs[best], axis=(0, 1)))
    draws, frames = np.flatnonzero(feasible), []
    for scheme, joules in costs.items():
        by_point = _saving_rows(joules[..., feasible], costs[best][..., feasible], draws)
        frames.append(by_point.assign(scheme=scheme, sweep="point", **{axis: np.repeat(points, len(draws))}))
        whole, least = (table.sum(axis=1, keepdims=True)[..., feasible] for table in (joules, costs[best]))
        frames.append(_saving_rows(whole, least, draws).assign(scheme=scheme, sweep="all", **{axis: np.nan}))
    frame = pd.concat(frames, ignore_index=True)
    first = ["scheme", "sweep", axis, "seed"]
    return frame[[*first, *(column for column in frame if column not in first)]]


def _saving_rows(joules: np.ndarray, best: np.ndarray, draws: np.ndarray) -> pd.DataFrame:
    energy, least = joules.sum(axis=0), best.sum(axis=0)
    return pd.DataFrame(
        {
            "seed": np.tile(draws, len(energy)),
            "sending_j": joules[0].ravel(),
            "computing_j": joules[1].ravel(),
            "energy_j": energy.ravel(),
            "saving": (1 - least / energy).ravel(),
        }
    )


def map_spans(grid: pd.DataFrame, printed: dict[tuple[str, str], float], radius_km: float) -> pd.DataFrame:
    """For each printed saving: what the map spans, and the capacitance that gives it at this radius, if any."""
    rows = {}
    for (figure, scheme), value in printed.items():
        cells = grid[(grid["figure"] == figure) & (grid["scheme"] == scheme)]
        span = {"printed": value, "lowest": cells["saving"].min(), "highest": cells["saving"].max()}
        shares = {key: f"{share:.1%}" for key, share in span.items()}
        rows[f"{figure}: {scheme}"] = shares | {f"sigma at {radius_km:g} km": _capacitance_for(cells, value, radius_km)}
    return pd.DataFrame(rows).T


def _capacitance_for(cells: pd.DataFrame, saving: float, radius_km: float) -> str:
    """Between the capacitances of the map, on a logarithmic scale."""
    line = cells[cells["radius_km"] == radius_km].sort_values("saving")
    if line.empty or not line["saving"].iloc[0] <= saving <= line["saving"].iloc[-1]:
        return "none"
    return f"{10 ** np.interp(saving, line['saving'], np.log10(line['capacitance'])):.1e}"
