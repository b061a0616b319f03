"""The experiments of the FCBAFL paper: runs of the learning (Figs. 2 to 5), sweeps of the energy (Figs. 6 to 8).

Learning: the surrogate is that of FEDL (Dinh et al., 2021; the paper's reference [14]), so it is run as printed and as
FEDL's authors run theirs. A curve is FedAvg (eta None) or FCBAFL with one eta, at one step size: its own best, or one
for all. A batch is a number of samples or "full".

Energy: what a round costs under each scheme of frequency and bandwidth, over many channel draws. Sending and computing
are kept apart, an axis of two in front: no scheme looks at the capacitance sigma, so a map over sigma only weighs the
two anew. A scheme "as printed" ignores the deadline; without the words, devices first get what they need to be in time
(see `fedlib.wireless`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
PRINTED, FEDL = "as printed", "as FEDL"  # settings of the learning
OWN_STEP, ONE_STEP = "own step", "one step"  # every curve at its best step size, or all at the same
TEST_SHARE = 0.25  # of each device's samples
AS_PRINTED = " as printed"
Costs = dict[str, np.ndarray]  # scheme -> (sending and computing, points of the sweep, draws) in joules
Schemes = Callable[[Devices, np.ndarray | float, int], Costs]  # of devices, deadline in s and seed


# Learning


class Curve(NamedTuple):
    """One line of a figure."""

    eta: float | None  # None is FedAvg
    lr: float


@dataclass(frozen=True)
class LearningSetting:
    """A way to set the learning up: whose data, what a device does in a round, and which eta are shown."""

    name: str
    federation: dict[str, Any]
    local: dict[str, Any]  # Q_l, as iterations (`steps`) or as passes over the data (`epochs`), and who takes part
    etas: dict[str, list[float]]  # of minibatches and of full batches
    rounds: int

    def etas_at(self, batch: int | str) -> list[float]:
        return self.etas["full" if batch == FULL else "minibatch"]

    def work_at(self, batch: int | str) -> dict[str, Any]:
        """The local work; a pass over the data in full batches is one iteration."""
        if batch != FULL:
            return self.local | {"batch": batch}
        return self.local | {"batch": None, "steps": self.local["steps"] or self.local["epochs"], "epochs": None}


def curve_name(eta: float | None) -> str:
    """How a curve is called in figures and in the ledger."""
    return "FedAvg" if eta is None else f"FCBAFL, eta {eta}"


def as_printed(
    devices: int, samples: int | None, alpha: float, l2: float, steps: int, etas: dict[str, list[float]], rounds: int
) -> LearningSetting:
    """What the paper says: all devices, Q_l iterations, a 75/25 split of each device's samples. The rest is ours: each
    digit is dealt in shares from Dir(alpha), so sizes differ, too; pixels as shares of one."""
    split = {"partitioner": "dirichlet", "clients": devices, "alpha": alpha}
    federation = {"data_set": "mnist", "samples": samples, "l2": l2, "test_share": TEST_SHARE} | split
    return LearningSetting(PRINTED, federation, {"steps": steps, "epochs": None}, etas, rounds)


def as_fedl(
    devices: int, samples: int | None, participants: int, epochs: int, etas: dict[str, list[float]], rounds: int
) -> LearningSetting:
    """What FEDL, the source of the method, does on MNIST: three neighbouring digits per device in log-normal amounts,
    standardised pixels, no l2 term, a few devices per round, Q_l passes over the data."""
    split = {"partitioner": "lognormal_labels", "clients": devices, "per_client": 3}
    federation = {"data_set": "mnist", "samples": samples, "standardise": "feature", "test_share": TEST_SHARE} | split
    local = {"steps": None, "epochs": epochs, "participation": participants / devices}
    return LearningSetting(FEDL, federation, local, etas, rounds)


def run(setting: LearningSetting, curve: Curve, batch: int | str, seed: int, rounds: int, every: int = 1) -> Run:
    """One run of a curve."""
    algorithm, eta = ("localdescent", {}) if curve.eta is None else ("fcbafl", {"eta": curve.eta})
    label = {
        "setting": setting.name,
        "curve": curve_name(curve.eta),
        "eta": np.nan if curve.eta is None else curve.eta,
        "batch": str(batch),
        "lr": curve.lr,
    }
    return Run(
        algorithm, setting.federation, rounds, seed, setting.work_at(batch) | eta | {"lr": curve.lr}, every, label
    )


def tune(setting: LearningSetting, rates: list[float], batch: int | str, rounds: int, seed: int) -> Sweep:
    """The best step size of FedAvg and of every eta, at one size of batches."""
    etas = {curve_name(eta): eta for eta in (None, *setting.etas_at(batch))}
    bases = {name: run(setting, Curve(eta, rates[0]), batch, 0, rounds, every=rounds) for name, eta in etas.items()}
    return tuning.tune(bases, {name: {"lr": rates} for name in bases}, [seed])


def own_steps(setting: LearningSetting, sweeps: dict[int | str, Sweep]) -> dict[int | str, list[Curve]]:
    """Every curve at the step size that is best for it, at each size of batches."""
    return {
        batch: [Curve(eta, sweep.best[curve_name(eta)]["lr"]) for eta in (None, *setting.etas_at(batch))]
        for batch, sweep in sweeps.items()
    }


def one_step(setting: LearningSetting, batches: list[int | str], lr: float) -> dict[int | str, list[Curve]]:
    """Every curve at one and the same step size."""
    return {batch: [Curve(eta, lr) for eta in (None, *setting.etas_at(batch))] for batch in batches}


def comparison(setting: LearningSetting, curves: dict[int | str, list[Curve]], step: str, seeds: range) -> list[Run]:
    """Every curve, every batch, several seeds; the seeds outermost, so federations are shared."""
    runs = [
        run(setting, curve, batch, seed, setting.rounds)
        for seed in seeds
        for batch, lines in curves.items()
        for curve in lines
    ]
    return [replace(run, label=run.label | {"step": step}) for run in runs]


def at_equal_product(largest: Curve, smallest_eta: float) -> list[Curve]:
    """The largest eta at its step size, and the smallest with the step size that makes the product the same."""
    if largest.eta is None:
        raise ValueError("FedAvg has no eta, hence no product")
    return [Curve(smallest_eta, largest.lr * largest.eta / smallest_eta), largest]


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
