"""The experiments of the FCBAFL paper: runs of the learning (Figs. 2 to 5), sweeps of the energy (Figs. 6 to 8).

Learning: a curve is FedAvg (eta None) or FCBAFL with one eta, at one step size. A batch is a number of samples or
"full".

Energy: what a round costs under each scheme of frequency and bandwidth, over many channel draws. Sending and computing
are kept apart, an axis of two in front: no scheme looks at the capacitance sigma, so a map over sigma only weighs the
two anew. A scheme "as printed" ignores the deadline; without the words, devices first get what they need to be in time
(see `fedlib.wireless`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedlib import wireless
from fedlib.problem.streams import generator
from fedlib.runs import tuning
from fedlib.runs.computations import computation
from fedlib.runs.study import Run
from fedlib.runs.tuning import Sweep
from fedlib.wireless import Devices, Scenario

FULL = "full"
SHARED_STEP = "FedAvg, shared step"
AS_PRINTED = " as printed"
Costs = dict[str, np.ndarray]  # scheme -> (sending and computing, points of the sweep, draws) in joules
Schemes = Callable[[Devices, np.ndarray | float, int], Costs]  # of devices, deadline in s and seed


# Learning


class Curve(NamedTuple):
    """One line of a figure."""

    eta: float | None  # None is FedAvg
    lr: float


def curve_name(eta: float | None) -> str:
    """How a curve is called in figures and in the ledger."""
    return "FedAvg" if eta is None else f"FCBAFL, eta {eta}"


def federation_options(devices: int, alpha: float, l2: float, samples: int | None) -> dict[str, Any]:
    """Softmax regression on MNIST's pixels; each digit is dealt in shares from Dir(alpha), so sizes differ, too."""
    split = {"partitioner": "dirichlet", "clients": devices, "alpha": alpha}
    return {"data_set": "mnist", "samples": samples, "l2": l2} | split


def run(
    federation: dict[str, Any],
    title: str,
    curve: Curve,
    batch: int | str,
    rounds: int,
    seed: int,
    every: int = 1,
    **options: Any,
) -> Run:
    """One run; `options` hold what all curves share, the local iterations Q_l above all."""
    algorithm, eta = ("localdescent", {}) if curve.eta is None else ("fcbafl", {"eta": curve.eta})
    local = {"lr": curve.lr, "batch": None if batch == FULL else batch}
    label = {"curve": title, "eta": np.nan if curve.eta is None else curve.eta, "batch": batch, "lr": curve.lr}
    return Run(algorithm, federation, rounds, seed, options | eta | local, every, label)


def tune(
    federation: dict[str, Any],
    etas: list[float],
    rates: list[float],
    batch: int,
    rounds: int,
    seed: int,
    **options: Any,
) -> Sweep:
    """The best step size of FedAvg and of every eta."""
    curves = {curve_name(eta): Curve(eta, rates[0]) for eta in (None, *etas)}
    bases = {
        title: run(federation, title, curve, batch, rounds, 0, every=rounds, **options)
        for title, curve in curves.items()
    }
    return tuning.tune(bases, {key: {"lr": rates} for key in bases}, [seed])


def at_one_step(best: dict[str, float], etas: list[float]) -> dict[str, Curve]:
    """FedAvg at its best step size, FCBAFL with every eta at that of the largest eta, and FedAvg at that one, too."""
    shared = best[curve_name(max(etas))]
    ours = {curve_name(eta): Curve(eta, shared) for eta in etas}
    return {curve_name(None): Curve(None, best[curve_name(None)]), SHARED_STEP: Curve(None, shared)} | ours


def at_equal_product(best: dict[str, float], etas: list[float]) -> dict[str, Curve]:
    """The smallest and the largest eta, each at the step size that makes eta times step the best of the largest."""
    product = max(etas) * best[curve_name(max(etas))]
    return {curve_name(eta): Curve(eta, product / eta) for eta in (min(etas), max(etas))}


def comparison(
    federation: dict[str, Any],
    curves: dict[str, Curve],
    batches: list[int | str],
    rounds: int,
    seeds: range,
    **options: Any,
) -> list[Run]:
    """Every curve, every batch, several seeds; the seeds outermost, so federations are shared."""
    return [
        run(federation, title, curve, batch, rounds, seed, **options)
        for seed in seeds
        for batch in batches
        for title, curve in curves.items()
    ]


# Energy: the schemes


def frequency_costs(devices: Devices, deadline_s: np.ndarray | float, seed: int) -> Costs:
    """RF, AF and OF on an equally shared band, Figs. 6 and 7."""
    needs = wireless.feasibility(devices, deadline_s).share_min
    share = wireless.equal_share(devices, needs)
    slowest = wireless.optimal_frequency(devices, share, deadline_s)
    plain = wireless.equal_share(devices)
    return {
        "RF": round_costs(devices, share, wireless.random_frequency(devices, generator(seed, "frequency"), slowest)),
        "AF": round_costs(devices, share, wireless.average_frequency(devices, slowest)),
        "OF": round_costs(devices, share, slowest),
        "RF" + AS_PRINTED: round_costs(devices, plain, _random_frequency(devices, seed)),
        "AF" + AS_PRINTED: round_costs(devices, plain, wireless.average_frequency(devices)),
    }


def allocation_costs(devices: Devices, deadline_s: np.ndarray | float, seed: int) -> Costs:
    """RA, AA, SA and OA at the optimal frequency, Fig. 8."""
    best = wireless.alternation(devices, deadline_s)
    in_time = {
        name: round_costs(devices, share, wireless.optimal_frequency(devices, share, deadline_s))
        for name, share in _shares(devices, seed, best.feasibility.share_min).items()
    }
    printed = {
        name + AS_PRINTED: round_costs(devices, share, _hurried(devices, share, deadline_s))
        for name, share in _shares(devices, seed).items()
    }
    return in_time | {"OA": round_costs(devices, best.share, best.frequency_hz)} | printed


SCHEMES: dict[str, Schemes] = {"frequency": frequency_costs, "allocation": allocation_costs}


def round_costs(devices: Devices, share: np.ndarray, frequency_hz: np.ndarray) -> np.ndarray:
    """Joules of sending and of computing, all devices of a round together."""
    sending = np.sum(wireless.transmit_energy_j(devices, share), axis=-1)
    return np.stack(np.broadcast_arrays(sending, np.sum(wireless.compute_energy_j(devices, frequency_hz), axis=-1)))


def _shares(devices: Devices, seed: int, needs: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
    return {
        "RA": wireless.random_share(devices, generator(seed, "share"), needs),
        "AA": wireless.equal_share(devices, needs),
        "SA": wireless.snr_share(devices, needs),
    }


def _random_frequency(devices: Devices, seed: int) -> np.ndarray:
    return wireless.random_frequency(devices, generator(seed, "frequency"))


def _hurried(devices: Devices, share: np.ndarray, deadline_s: np.ndarray | float) -> np.ndarray:
    """The optimal frequency; a device that is late whatever it does computes as fast as it can."""
    frequency_hz = wireless.optimal_frequency(devices, share, deadline_s)
    return np.where(np.isnan(frequency_hz), devices.frequency_max_hz, frequency_hz)


# Energy: the sweeps


@computation
def over_deadlines(scenario: Scenario, deadlines_s: list[float], draws: int, seed: int) -> pd.DataFrame:
    """Fig. 6: one number of devices, several deadlines; one row per scheme, deadline and draw."""
    return tidy_costs(_deadline_costs(scenario, deadlines_s, draws, seed), "deadline_s", deadlines_s)


@computation
def over_devices(schemes: str, scenario: Scenario, counts: list[int], draws: int, seed: int) -> pd.DataFrame:
    """Figs. 7 and 8: one deadline, several numbers of devices; one row per scheme, number and draw."""
    return tidy_costs(_device_costs(SCHEMES[schemes], scenario, counts, draws, seed), "devices", counts)


def tidy_costs(costs: Costs, axis: str, points: Sequence[float]) -> pd.DataFrame:
    """Scheme, point, draw (`seed`) and the joules of sending and computing."""
    draws = next(iter(costs.values())).shape[-1]
    frames = []
    for scheme, (sending, computing) in costs.items():
        place = {"scheme": scheme, axis: np.repeat(points, draws), "seed": np.tile(range(draws), len(points))}
        frames.append(pd.DataFrame(place | {"sending_j": sending.ravel(), "computing_j": computing.ravel()}))
    return pd.concat(frames, ignore_index=True)


def _deadline_costs(scenario: Scenario, deadlines_s: list[float], draws: int, seed: int) -> Costs:
    devices = wireless.draw_devices(scenario, generator(seed, "devices"), (draws,))
    costs = frequency_costs(devices[None], np.array(deadlines_s)[:, None], seed)  # deadlines before draws
    return dict(zip(costs, np.broadcast_arrays(*costs.values()), strict=True))


def _device_costs(schemes: Schemes, scenario: Scenario, counts: list[int], draws: int, seed: int) -> Costs:
    """A cell of n devices is the first n of the largest one, so that draws are paired."""
    largest = replace(scenario, devices=max(counts))
    devices = wireless.draw_devices(largest, generator(seed, "devices"), (draws,))
    costs = [schemes(devices[..., :count], scenario.deadline_s, seed) for count in counts]
    return {name: np.stack([point[name] for point in costs], axis=1) for name in costs[0]}


def lateness(scenario: Scenario, draws: int, seed: int) -> pd.DataFrame:
    """Share of the devices that miss the deadline under the schemes as printed."""
    devices = wireless.draw_devices(scenario, generator(seed, "devices"), (draws,))
    equal = wireless.equal_share(devices)
    plans = {"RF": (equal, _random_frequency(devices, seed)), "AF": (equal, wireless.average_frequency(devices))}
    for name, share in _shares(devices, seed).items():
        plans[name] = share, _hurried(devices, share, scenario.deadline_s)
    limit_s = scenario.deadline_s * (1 + 1e-9)
    late = {name + AS_PRINTED: wireless.delay_s(devices, *plan) > limit_s for name, plan in plans.items()}
    rows = {name: {"devices late": mask.mean(), "rounds late": mask.any(-1).mean()} for name, mask in late.items()}
    return pd.DataFrame(rows).T.rename_axis("scheme")


@computation
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
        for figure, best, costs in (
            ("fig6", "OF", _deadline_costs(cell, deadlines_s, draws, seed)),
            ("fig7", "OF", _device_costs(frequency_costs, cell, counts, draws, seed)),
            ("fig8", "OA", _device_costs(allocation_costs, cell, counts, draws, seed)),
        ):
            for capacitance in capacitances:
                savings = _mean_savings(costs, best, capacitance / scenario.capacitance)
                rows += [(figure, scheme, capacitance, radius_km, saving) for scheme, saving in savings]
    columns = ["figure", "scheme", "capacitance", "radius_km", "saving"]
    return pd.DataFrame(rows, columns=columns).sort_values(columns[:4], ignore_index=True)


def _mean_savings(costs: Costs, best: str, computing: float) -> Iterator[tuple[str, float]]:
    """What `best` saves on each other scheme over a whole sweep, with the joules of computing times a factor."""
    factors = np.array([1, computing])
    total = {scheme: np.tensordot(factors, joules.sum(axis=1), 1) for scheme, joules in costs.items()}
    for scheme in total.keys() - {best}:
        yield scheme, float(np.nanmean(1 - total[best] / total[scheme]))


# Energy: the solvers


@computation
def joint_gap(scenario: Scenario, deadlines_s: list[float], counts: list[int], draws: int, seed: int) -> pd.DataFrame:
    """What the joint optimum saves on bandwidth first, frequency second; one row per deadline, size and draw."""
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


@computation(clock=("lbfgsb_ms", "exact_ms"))
def solvers(scenario: Scenario, counts: list[int], seed: int) -> pd.DataFrame:
    """L-BFGS-B and the exact solver on one cell of each size, the band growing with the devices: energy and time."""
    rows = []
    for count in counts:
        cell = replace(scenario, devices=count, bandwidth_hz=scenario.bandwidth_hz * count / scenario.devices)
        devices = wireless.draw_devices(cell, generator(seed, "devices"))
        row: dict[str, float] = {"devices": count}
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
    costs = frequency_costs(devices, scenario.deadline_s, seed) | allocation_costs(devices, scenario.deadline_s, seed)
    costs |= {"joint": round_costs(devices, joint.share, joint.frequency_hz)}
    names = ("RF", "AF", "OF", "RA", "AA", "SA", "OA", "joint")
    frame = pd.DataFrame({name: costs[name] for name in names}, index=["sending", "computing"]).T.rename_axis("scheme")
    return frame, joint.feasibility.explain()
