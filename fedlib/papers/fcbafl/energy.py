"""Figs. 6 to 8: what a round costs under each scheme of frequency and bandwidth, over many channel draws.

Sending and computing are kept apart, an axis of two in front: no scheme looks at the capacitance sigma, so a map over
sigma only weighs the two anew. A scheme "as printed" ignores the deadline; without the words, devices first get what
they need to be in time (see `fedlib.wireless`).
"""

import time
from dataclasses import replace

import numpy as np
import pandas as pd

from fedlib import wireless
from fedlib.problem.streams import generator
from fedlib.wireless import Devices, Scenario

PRINTED = " as printed"
Costs = dict[str, np.ndarray]  # scheme -> (sending and computing, points of the sweep, draws) in joules


def frequency_costs(devices: Devices, deadline_s: np.ndarray | float, seed: int) -> Costs:
    """RF, AF and OF on an equally shared band, Figs. 6 and 7."""
    needs = wireless.feasibility(devices, deadline_s).share_min
    share = wireless.equal_share(devices, needs)
    slowest = wireless.optimal_frequency(devices, share, deadline_s)
    plain = wireless.equal_share(devices)
    return {
        "RF": costs(devices, share, wireless.random_frequency(devices, generator(seed, "frequency"), slowest)),
        "AF": costs(devices, share, wireless.average_frequency(devices, slowest)),
        "OF": costs(devices, share, slowest),
        "RF" + PRINTED: costs(devices, plain, wireless.random_frequency(devices, generator(seed, "frequency"))),
        "AF" + PRINTED: costs(devices, plain, wireless.average_frequency(devices)),
    }


def allocation_costs(devices: Devices, deadline_s: np.ndarray | float, seed: int) -> Costs:
    """RA, AA, SA and OA at the optimal frequency, Fig. 8."""
    best = wireless.alternation(devices, deadline_s)
    in_time = {
        name: costs(devices, share, wireless.optimal_frequency(devices, share, deadline_s))
        for name, share in _shares(devices, seed, best.feasibility.share_min).items()
    }
    printed = {
        name + PRINTED: costs(devices, share, _hurried(devices, share, deadline_s))
        for name, share in _shares(devices, seed).items()
    }
    return in_time | {"OA": costs(devices, best.share, best.frequency_hz)} | printed


def _shares(devices: Devices, seed: int, needs: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
    return {
        "RA": wireless.random_share(devices, generator(seed, "share"), needs),
        "AA": wireless.equal_share(devices, needs),
        "SA": wireless.snr_share(devices, needs),
    }


def costs(devices: Devices, share: np.ndarray, frequency_hz: np.ndarray) -> np.ndarray:
    """Joules of sending and of computing, all devices of a round together."""
    sending = np.sum(wireless.transmit_energy_j(devices, share), axis=-1)
    return np.stack(np.broadcast_arrays(sending, np.sum(wireless.compute_energy_j(devices, frequency_hz), axis=-1)))


def _hurried(devices: Devices, share: np.ndarray, deadline_s: np.ndarray | float) -> np.ndarray:
    """The optimal frequency; a device that is late whatever it does computes as fast as it can."""
    frequency_hz = wireless.optimal_frequency(devices, share, deadline_s)
    return np.where(np.isnan(frequency_hz), devices.frequency_max_hz, frequency_hz)


def over_deadlines(scenario: Scenario, deadlines_s: list[float], draws: int, seed: int) -> Costs:
    """Fig. 6: one number of devices, several deadlines."""
    devices = wireless.draw_devices(scenario, generator(seed, "devices"), (draws,))
    found = frequency_costs(devices[None], np.array(deadlines_s)[:, None], seed)  # deadlines before draws
    return dict(zip(found, np.broadcast_arrays(*found.values()), strict=True))


def over_devices(schemes, scenario: Scenario, counts: list[int], draws: int, seed: int) -> Costs:
    """Figs. 7 and 8: one deadline; a cell of n devices is the first n of the largest one, so that draws are paired."""
    largest = replace(scenario, devices=max(counts))
    devices = wireless.draw_devices(largest, generator(seed, "devices"), (draws,))
    found = [schemes(devices[..., :count], scenario.deadline_s, seed) for count in counts]
    return {name: np.stack([costs[name] for costs in found], axis=1) for name in found[0]}


def tidy(found: Costs, axis: str, points: list, best: str) -> pd.DataFrame:
    """One row a draw, scheme and point with the saving of `best` on the scheme, and one for the whole sweep.

    Draws in which some point has no plan at all (the deadline is out of reach) are left out.
    """
    feasible = ~np.isnan(np.sum(found[best], axis=(0, 1)))
    frames = []
    for name, each in found.items():
        for sweep, own, rival in (
            ("point", each, found[best]),
            ("all", each.sum(axis=1, keepdims=True), found[best].sum(axis=1, keepdims=True)),
        ):
            table = _rows(own[..., feasible], rival[..., feasible], np.flatnonzero(feasible))
            levels = np.repeat(points if sweep == "point" else [np.nan], feasible.sum())
            frames.append(table.assign(scheme=name, sweep=sweep, **{axis: levels}))
    first = ["scheme", "sweep", axis, "seed"]
    frame = pd.concat(frames, ignore_index=True)
    return frame[[*first, *(column for column in frame if column not in first)]]


def _rows(own: np.ndarray, best: np.ndarray, draws: np.ndarray) -> pd.DataFrame:
    energy, least = own.sum(axis=0), best.sum(axis=0)
    return pd.DataFrame(
        {
            "seed": np.tile(draws, len(energy)),
            "sending_j": own[0].ravel(),
            "computing_j": own[1].ravel(),
            "energy_j": energy.ravel(),
            "saving": (1 - least / energy).ravel(),
        }
    )


def lateness(scenario: Scenario, draws: int, seed: int) -> pd.DataFrame:
    """Share of the devices that miss the deadline under the schemes as printed."""
    devices = wireless.draw_devices(scenario, generator(seed, "devices"), (draws,))
    equal = wireless.equal_share(devices)
    plans = {
        "RF": (equal, wireless.random_frequency(devices, generator(seed, "frequency"))),
        "AF": (equal, wireless.average_frequency(devices)),
    }
    for name, share in _shares(devices, seed).items():
        plans[name] = share, _hurried(devices, share, scenario.deadline_s)
    limit_s = scenario.deadline_s * (1 + 1e-9)
    late = {name + PRINTED: wireless.delay_s(devices, *plan) > limit_s for name, plan in plans.items()}
    rows = {name: {"devices late": own.mean(), "rounds late": own.any(axis=-1).mean()} for name, own in late.items()}
    return pd.DataFrame(rows).T.rename_axis("scheme")


def sensitivity(
    scenario: Scenario,
    capacitances: list[float],
    radii_km: list[float],
    deadlines_s: list[float],
    counts: list[int],
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """Mean saving over each sweep of Figs. 6 to 8, for every capacitance and radius."""
    rows = []
    for radius_km in radii_km:
        cell = replace(scenario, radius_km=radius_km)
        for figure, best, found in (
            ("fig6", "OF", over_deadlines(cell, deadlines_s, draws, seed)),
            ("fig7", "OF", over_devices(frequency_costs, cell, counts, draws, seed)),
            ("fig8", "OA", over_devices(allocation_costs, cell, counts, draws, seed)),
        ):
            for capacitance in capacitances:
                factors = np.array([1, capacitance / scenario.capacitance])
                total = {name: np.tensordot(factors, each.sum(axis=1), 1) for name, each in found.items()}
                for name in total.keys() - {best}:
                    saving = np.nanmean(1 - total[best] / total[name])
                    rows.append((figure, name, capacitance, radius_km, saving))
    columns = ["figure", "scheme", "capacitance", "radius_km", "saving"]
    return pd.DataFrame(rows, columns=columns).sort_values(columns[:4], ignore_index=True)


def reach(grid: pd.DataFrame, printed: dict[tuple[str, str], float], radius_km: float) -> pd.DataFrame:
    """For each printed saving: what the map spans, and the capacitance that gives it at this radius, if any."""
    rows = {}
    for (figure, scheme), value in printed.items():
        own = grid[(grid["figure"] == figure) & (grid["scheme"] == scheme)]
        line = own[own["radius_km"] == radius_km].sort_values("saving")
        inside = len(line) and line["saving"].iloc[0] <= value <= line["saving"].iloc[-1]
        sigma = 10 ** np.interp(value, line["saving"], np.log10(line["capacitance"])) if inside else np.nan
        span = {"printed": value, "lowest": own["saving"].min(), "highest": own["saving"].max()}
        rows[f"{figure}: {scheme}"] = {key: f"{share:.1%}" for key, share in span.items()} | {
            f"sigma at {radius_km:g} km": f"{sigma:.1e}" if inside else "none"
        }
    return pd.DataFrame(rows).T


def joint_gap(scenario: Scenario, deadlines_s: list[float], counts: list[int], draws: int, seed: int) -> pd.DataFrame:
    """What the joint optimum saves on bandwidth first, frequency second; a row a deadline, number of devices, draw."""
    everyone = wireless.draw_devices(replace(scenario, devices=max(counts)), generator(seed, "devices"), (draws,))
    points, frames = np.array(deadlines_s)[:, None], []
    for count in counts:
        devices = everyone[..., :count]
        apart, joint = wireless.alternation(devices, points).energy_j, wireless.joint_optimum(devices, points).energy_j
        index = pd.MultiIndex.from_product([deadlines_s, range(draws)], names=["deadline_s", "seed"])
        gap = np.round(1 - joint / apart, 12) + 0.0  # no minus zero where the two agree
        energies = {"apart_j": apart.ravel(), "joint_j": joint.ravel(), "gap": gap.ravel()}
        frames.append(pd.DataFrame(energies, index).reset_index().assign(devices=count))
    return pd.concat(frames, ignore_index=True).dropna()


def solvers(scenario: Scenario, counts: list[int], seed: int) -> pd.DataFrame:
    """L-BFGS-B and the exact solver on one cell of each size, the band growing with the devices: energy and time."""
    rows = []
    for count in counts:
        cell = replace(scenario, devices=count, bandwidth_hz=scenario.bandwidth_hz * count / scenario.devices)
        devices = wireless.draw_devices(cell, generator(seed, "devices"))
        row = {"devices": count}
        for method in ("lbfgsb", "exact"):
            began = time.perf_counter()
            plan = wireless.optimal_bandwidth(devices, cell.deadline_s, method=method)
            row[f"{method}_j"] = float(plan.transmit_energy_j)
            row[f"{method}_ms"] = 1000 * (time.perf_counter() - began)
        rows.append(row | {"difference": row["lbfgsb_j"] / row["exact_j"] - 1})
    return pd.DataFrame(rows)


def one_round(scenario: Scenario, seed: int) -> tuple[pd.DataFrame, str]:
    """All schemes in one cell: joules of sending and computing, and who can meet the deadline at all."""
    devices = wireless.draw_devices(scenario, generator(seed, "devices"))
    joint = wireless.joint_optimum(devices, scenario.deadline_s)
    found = frequency_costs(devices, scenario.deadline_s, seed) | allocation_costs(devices, scenario.deadline_s, seed)
    found |= {"joint": costs(devices, joint.share, joint.frequency_hz)}
    names = ("RF", "AF", "OF", "RA", "AA", "SA", "OA", "joint")
    frame = pd.DataFrame({name: found[name] for name in names}, index=["sending", "computing"]).T.rename_axis("scheme")
    return frame, joint.feasibility.explain()
