"""The numbers of the FCBAFL notebooks, from what the experiments return."""

import numpy as np
import pandas as pd

from fedlib.papers.fcbafl.experiments import Costs


def theta_after(frame: pd.DataFrame, rounds: list[int]) -> pd.DataFrame:
    """The local accuracy theta of (7) after some rounds: one row per curve, batch, round and seed."""
    chosen = frame[frame["eta"].notna() & frame["round"].isin(rounds)]
    return chosen[["curve", "eta", "batch", "round", "seed", "theta", "theta_max"]].reset_index(drop=True)


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
