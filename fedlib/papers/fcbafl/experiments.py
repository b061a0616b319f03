"""The experiments of the FCBAFL paper: runs of the learning (Figs. 2 to 5), sweeps of the energy (Figs. 6 to 8).

Learning: the surrogate is that of FEDL (Dinh et al., 2021; the paper's reference [14]), so it is run as printed and as
FEDL's authors run theirs. A curve is FedAvg (eta None) or FCBAFL with one eta, at one step size: its own tuned one, the
one that is fastest to a target, or one for all. A batch is a number of samples or "full".

Energy: what a round costs under each scheme of frequency and bandwidth, over many channel draws. RF, AF, RA, AA and SA
are the printed rules, which ignore the deadline; a device that they make late computes at f_max and is counted. "RF, in
time" and similar ones meet the deadline: frequencies come from (30a) instead of (23b), and a share is first what the
device needs, then its part of the rest by the rule. No scheme depends on the capacitance sigma, so a map over sigma
only changes the weights of sending and computing.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedlib import wireless
from fedlib.problem.streams import generator
from fedlib.runs import tuning
from fedlib.runs.computations import computation
from fedlib.runs.study import Run
from fedlib.runs.tuning import Final, Sweep
from fedlib.wireless import Devices, Scenario
from fedlib.wireless.devices import BITS_PER_MEGABYTE

FULL = "full"
PRINTED, FEDL = "as printed", "as FEDL"  # settings of the learning
OWN_STEP, ONE_STEP = "own step", "one step"  # every curve at the step size that won its tuning, or all at the same
FASTEST_STEP = "fastest step"  # every curve at the step size that takes it to a target in the fewest rounds
FINALISTS = 3  # step sizes of a curve that meet over the whole length: some swing for as long as tuning runs last
TEST_SHARE = 0.25  # of each device's samples
IN_TIME = ", in time"
MEASURES = ["sending_j", "computing_j", "late"]  # joules, joules, devices that miss the deadline
Costs = dict[str, np.ndarray]  # scheme -> (MEASURES, points of the sweep, draws)
Schemes = Callable[[Devices, np.ndarray | float, int, bool], Costs]  # of devices, deadline in s, seed, and "in time"
Printed = list[tuple[str, str, float]]  # figure, scheme, saving of the optimal scheme on it


# Learning


class Curve(NamedTuple):
    """One line of a figure."""

    eta: float | None  # None is FedAvg
    lr: float


@dataclass(frozen=True)
class LearningSetting:
    """One setting of the learning: the data, the local work of a device, and the values of eta."""

    name: str
    federation: dict[str, Any]
    local: dict[str, Any]  # Q_l, as iterations (`steps`) or as passes over the data (`epochs`), and the participation
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
    """The name of a curve in figures and in the ledger."""
    return "FedAvg" if eta is None else f"FCBAFL, eta {eta}"


def as_printed(
    devices: int, samples: int | None, alpha: float, l2: float, steps: int, etas: dict[str, list[float]], rounds: int
) -> LearningSetting:
    """What the paper says: all devices, Q_l iterations, a 75/25 split of each device's samples. The rest is our choice:
    each digit is dealt in shares from Dir(alpha), so sizes differ, too; pixels are scaled to 0 ... 1."""
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


def run(setting: LearningSetting, curve: Curve, batch: int | str, seed: int, rounds: int) -> Run:
    """One run of a curve."""
    algorithm, eta = ("localdescent", {}) if curve.eta is None else ("fcbafl", {"eta": curve.eta})
    label = {
        "setting": setting.name,
        "curve": curve_name(curve.eta),
        "eta": np.nan if curve.eta is None else curve.eta,
        "batch": str(batch),
        "lr": curve.lr,
    }
    return Run(algorithm, setting.federation, rounds, seed, setting.work_at(batch) | eta | {"lr": curve.lr}, 1, label)


def tune(
    setting: LearningSetting, rates: list[float], batch: int | str, rounds: int, seeds: Sequence[int], last: int
) -> Sweep:
    """The best step size of FedAvg and of every eta, at one size of batches.

    The three best of each curve meet in a final as long as the setting's runs. All runs are scored by the mean of their
    last rounds.
    """
    etas = {curve_name(eta): eta for eta in (None, *setting.etas_at(batch))}
    bases = {name: run(setting, Curve(eta, rates[0]), batch, 0, rounds) for name, eta in etas.items()}
    final = Final(setting.rounds, last, FINALISTS)
    return tuning.tune(bases, {name: {"lr": rates} for name in bases}, seeds, final=final, last=last)


def fastest(
    setting: LearningSetting, rates: list[float], batch: int | str, rounds: int, target: float, seeds: Sequence[int]
) -> Sweep:
    """The step sizes with which FedAvg and the largest eta reach the target accuracy in the fewest rounds."""
    etas = {curve_name(eta): eta for eta in (None, max(setting.etas_at(batch)))}
    bases = {
        name: replace(run(setting, Curve(eta, rates[0]), batch, 0, rounds), stop_at={"accuracy": target})
        for name, eta in etas.items()
    }
    return tuning.tune(
        bases, {name: {"lr": rates} for name in bases}, seeds, score=tuning.arrival({"accuracy": target})
    )


def own_steps(setting: LearningSetting, sweeps: dict[int | str, Sweep]) -> dict[int | str, list[Curve]]:
    """Every curve that was tuned at the step size that is best for it, at each size of batches."""
    return {
        batch: [
            Curve(eta, sweep.best[curve_name(eta)]["lr"])
            for eta in (None, *setting.etas_at(batch))
            if curve_name(eta) in sweep.best
        ]
        for batch, sweep in sweeps.items()
    }


def one_step(setting: LearningSetting, batches: list[int | str], lr: float) -> dict[int | str, list[Curve]]:
    """Every curve at the same step size."""
    return {batch: [Curve(eta, lr) for eta in (None, *setting.etas_at(batch))] for batch in batches}


def comparison(
    setting: LearningSetting,
    curves: dict[int | str, list[Curve]],
    step: str,
    seeds: range,
    stop_at: dict[str, float] | None = None,
) -> list[Run]:
    """Every curve, every batch, several seeds; the seeds outermost, so that federations are reused."""
    runs = [
        run(setting, curve, batch, seed, setting.rounds)
        for seed in seeds
        for batch, lines in curves.items()
        for curve in lines
    ]
    return [replace(run, label=run.label | {"step": step}, stop_at=stop_at) for run in runs]


def at_equal_product(largest: Curve, smallest_eta: float) -> list[Curve]:
    """The largest eta at its step size, and the smallest with the step size that gives the same product."""
    if largest.eta is None:
        raise ValueError("FedAvg has no eta, hence no product")
    return [Curve(smallest_eta, largest.lr * largest.eta / smallest_eta), largest]


# Energy: the schemes


def frequency_costs(devices: Devices, deadline_s: np.ndarray | float, seed: int, in_time: bool = True) -> Costs:
    """RF, AF and OF on b_n = 1/N, Figs. 6 and 7; with `in_time` also those that meet the deadline."""
    share = wireless.equal_share(devices)
    frequencies = {
        "RF": wireless.random_frequency(devices, generator(seed, "frequency")),
        "AF": wireless.average_frequency(devices),
        "OF": wireless.hurried_frequency(devices, share, deadline_s),
    }
    if in_time:
        slowest = wireless.optimal_frequency(devices, share, deadline_s)  # NaN: even f_max is too slow
        frequencies |= {
            "RF" + IN_TIME: wireless.random_frequency(devices, generator(seed, "frequency"), slowest),
            "AF" + IN_TIME: wireless.average_frequency(devices, slowest),
            "OF" + IN_TIME: slowest,
        }
    return {name: round_costs(devices, share, speed, deadline_s) for name, speed in frequencies.items()}


def allocation_costs(
    devices: Devices,
    deadline_s: np.ndarray | float,
    seed: int,
    in_time: bool = True,
    fixed_hz: float | None = None,
) -> Costs:
    """RA, AA, SA and OA at the optimal frequency, Fig. 8; with `in_time` also those that meet the deadline.

    OA's shares are chosen at `fixed_hz`, by default f_max.
    """
    best = wireless.alternation(devices, deadline_s, fixed_hz)
    costs = {
        name: round_costs(devices, share, wireless.hurried_frequency(devices, share, deadline_s), deadline_s)
        for name, share in _shares(devices, seed).items()
    }
    costs["OA"] = round_costs(devices, best.share, best.frequency_hz, deadline_s)
    if in_time:
        needs = wireless.feasibility(devices, deadline_s).share_min
        for name, share in _shares(devices, seed, needs).items():
            slowest = wireless.optimal_frequency(devices, share, deadline_s)
            costs[name + IN_TIME] = round_costs(devices, share, slowest, deadline_s)
    return costs


def best_scheme(scheme: str) -> str:
    """The scheme that the paper compares this one with: OF for frequencies, OA for allocations."""
    if scheme[:2] in ("RA", "AA", "SA", "OA"):
        return "OA"
    return "OF" + IN_TIME if scheme.endswith(IN_TIME) else "OF"


def round_costs(
    devices: Devices, share: np.ndarray, frequency_hz: np.ndarray, deadline_s: np.ndarray | float
) -> np.ndarray:
    """Joules of sending and of computing, and the number of late devices; NaN if there is no plan."""
    sending = np.sum(wireless.transmit_energy_j(devices, share), axis=-1)
    computing = np.sum(wireless.compute_energy_j(devices, frequency_hz), axis=-1)
    limit_s = np.asarray(deadline_s)[..., None] * (1 + 1e-9)
    late = np.sum(wireless.delay_s(devices, share, frequency_hz) > limit_s, axis=-1)
    costs = np.stack(np.broadcast_arrays(sending, computing, late.astype(float)))
    return np.where(np.isnan(sending + computing), np.nan, costs)


def _shares(devices: Devices, seed: int, needs: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
    return {
        "RA": wireless.random_share(devices, generator(seed, "share"), needs),
        "AA": wireless.equal_share(devices, needs),
        "SA": wireless.snr_share(devices, needs),
    }


def _schemes(name: str, scenario: Scenario) -> Schemes:
    known = {"frequency": frequency_costs, "allocation": partial(allocation_costs, fixed_hz=scenario.fixed_hz)}
    return known[name]


# Energy: the sweeps


@computation
def over_deadlines(scenario: Scenario, deadlines_s: list[float], draws: int, seed: int) -> pd.DataFrame:
    """Fig. 6: one number of devices, several deadlines; one row per scheme, deadline and draw."""
    return tidy_costs(_deadline_costs(scenario, deadlines_s, draws, seed), "deadline_s", deadlines_s)


@computation
def over_devices(schemes: str, scenario: Scenario, counts: list[int], draws: int, seed: int) -> pd.DataFrame:
    """Figs. 7 and 8: one deadline, several numbers of devices; one row per scheme, number and draw."""
    return tidy_costs(_device_costs(schemes, scenario, counts, draws, seed), "devices", counts)


def tidy_costs(costs: Costs, axis: str, points: Sequence[float]) -> pd.DataFrame:
    """Scheme, point, draw (`seed`), the joules of sending and computing and the late devices."""
    draws = next(iter(costs.values())).shape[-1]
    frames = []
    for scheme, measured in costs.items():
        place = {"scheme": scheme, axis: np.repeat(points, draws), "seed": np.tile(range(draws), len(points))}
        columns = dict(zip(MEASURES, measured.reshape(len(MEASURES), -1), strict=True))
        frames.append(pd.DataFrame(place | columns))
    return pd.concat(frames, ignore_index=True)


def _deadline_costs(scenario: Scenario, deadlines_s: list[float], draws: int, seed: int, in_time: bool = True) -> Costs:
    devices = wireless.draw_devices(scenario, generator(seed, "devices"), (draws,))
    return frequency_costs(devices[None], np.array(deadlines_s)[:, None], seed, in_time)  # deadlines before draws


def _device_costs(
    schemes: str, scenario: Scenario, counts: list[int], draws: int, seed: int, in_time: bool = True
) -> Costs:
    """A cell of n devices is the first n of the largest one, so that draws are paired."""
    largest = replace(scenario, devices=max(counts))
    devices = wireless.draw_devices(largest, generator(seed, "devices"), (draws,))
    costs_of = _schemes(schemes, scenario)
    costs = [costs_of(devices[..., :count], scenario.deadline_s, seed, in_time) for count in counts]
    return {name: np.stack([point[name] for point in costs], axis=1) for name in costs[0]}


# Energy: what the printed percentages would need


@computation
def sensitivity(
    scenario: Scenario,
    capacitances: list[float],
    radii_km: list[float],
    deadlines_s: list[float],
    sweep_s: list[float],
    counts: list[int],
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """Mean savings of Figs. 6 to 8 on two planes: capacitance and radius at the scenario's deadline, capacitance and
    deadline at its radius.

    Fig. 6 is the mean over `sweep_s` on the first plane, and each deadline alone on the second. `no_plan` is the share
    of the draws that have no plan at some point of the sweep; the saving is that of the others.
    """
    planes = [("radius", replace(scenario, radius_km=radius_km), sweep_s) for radius_km in radii_km]
    planes += [("deadline", replace(scenario, deadline_s=limit_s), [limit_s]) for limit_s in deadlines_s]
    frames = []
    for plane, cell, sweep in planes:
        place = {"plane": plane, "radius_km": cell.radius_km, "deadline_s": cell.deadline_s}
        frames.append(_cell_savings(cell, capacitances, sweep, counts, draws, seed).assign(**place))
    return pd.concat(frames, ignore_index=True)


def _cell_savings(
    cell: Scenario, capacitances: Sequence[float], sweep_s: list[float], counts: list[int], draws: int, seed: int
) -> pd.DataFrame:
    """One row per figure, scheme and capacitance."""
    rows = []
    for figure, costs in _figure_costs(("fig6", "fig7", "fig8"), cell, sweep_s, counts, draws, seed):
        for scheme in (name for name in costs if name != best_scheme(name)):
            savings = sweep_savings(costs, scheme, np.array(capacitances) / cell.capacitance)
            missing = float(np.mean(np.isnan(savings[0])))
            means = [_mean(line) for line in savings]
            rows += [(figure, scheme, *values, missing) for values in zip(capacitances, means, strict=True)]
    return pd.DataFrame(rows, columns=["figure", "scheme", "capacitance", "saving", "no_plan"])


def _figure_costs(
    figures: Sequence[str], cell: Scenario, sweep_s: list[float], counts: list[int], draws: int, seed: int
) -> Iterator[tuple[str, Costs]]:
    """The costs of the schemes as printed."""
    for figure in figures:
        if figure == "fig6":
            yield figure, _deadline_costs(cell, sweep_s, draws, seed, in_time=False)
        else:
            schemes = "frequency" if figure == "fig7" else "allocation"
            yield figure, _device_costs(schemes, cell, counts, draws, seed, in_time=False)


def sweep_savings(costs: Costs, scheme: str, computing: np.ndarray) -> np.ndarray:
    """What the optimal scheme saves on this one over a whole sweep, `(factors, draws)`.

    The joules of computing are multiplied by each of the factors `computing`; NaN if some point has no plan.
    """
    energy, least = (
        sending + computing[:, None] * working
        for sending, working, _ in (costs[name].sum(axis=1) for name in (scheme, best_scheme(scheme)))
    )
    return 1 - least / energy


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


@computation
def closest(
    scenario: Scenario,
    printed: Printed,
    capacitances: list[float],
    radii_km: list[float],
    deadlines_s: list[float],
    sweep_s: list[float],
    counts: list[int],
    in_time: float,
    halvings: int,
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """The capacitance, radius and deadline whose mean savings come closest to printed ones, least squares.

    A grid over radius and deadline, then `halvings` finer grids of nine points around each of the best three, all
    between the smallest and the largest values given; at each point the capacitance is the best of 200. The deadline is
    that of Figs. 7 and 8; Fig. 6 has the sweep `sweep_s`. Only points count at which OF and OA are in time in at least
    the share `in_time` of all rounds. One row per printed saving, with the saving at the best point.
    """
    fine = np.geomspace(min(capacitances), max(capacitances), 200)

    @cache
    def fit(radius_km: float, deadline_s: float) -> Fit:
        cell = replace(scenario, radius_km=radius_km, deadline_s=deadline_s)
        seen = _best_capacitance(cell, printed, fine, sweep_s, counts, draws, seed)
        return seen if seen.in_time >= in_time else seen._replace(distance=np.inf)

    grid = sorted(fit(*place) for place in product(radii_km, deadlines_s))
    best = min(_refined(fit, start, radii_km, deadlines_s, halvings) for start in grid[:3])
    figures, schemes, values = zip(*printed, strict=True)
    rows = pd.DataFrame({"figure": figures, "scheme": schemes, "printed": values, "saving": best.savings})
    return rows.assign(**{name: value for name, value in best._asdict().items() if name != "savings"})


class Fit(NamedTuple):
    """The best capacitance at a radius and deadline; the least distance comes first."""

    distance: float  # root mean square difference to the printed savings
    capacitance: float
    radius_km: float
    deadline_s: float
    in_time: float  # share of the rounds in which OF and OA meet the deadline
    savings: tuple[float, ...]


def _refined(
    fit: Callable[[float, float], Fit], best: Fit, radii_km: list[float], deadlines_s: list[float], halvings: int
) -> Fit:
    """The best of ever finer grids of nine points: half the mean step of the first grid, half of that, and so on."""
    radius_step = np.log(max(radii_km) / min(radii_km)) / max(len(radii_km) - 1, 1)  # of its logarithm
    deadline_step = (max(deadlines_s) - min(deadlines_s)) / max(len(deadlines_s) - 1, 1)
    sides = np.array([-1, 0, 1])
    for halving in range(1, halvings + 1):
        radii = best.radius_km * np.exp(sides * radius_step / 2**halving)
        deadlines = best.deadline_s + sides * deadline_step / 2**halving
        places = product(
            np.clip(radii, min(radii_km), max(radii_km)), np.clip(deadlines, min(deadlines_s), max(deadlines_s))
        )
        best = min(fit(float(radius_km), float(deadline_s)) for radius_km, deadline_s in places)
    return best


def _best_capacitance(
    cell: Scenario,
    printed: Printed,
    capacitances: np.ndarray,
    sweep_s: list[float],
    counts: list[int],
    draws: int,
    seed: int,
) -> Fit:
    figures = sorted({figure for figure, _, _ in printed})
    costs = dict(_figure_costs(figures, cell, sweep_s, counts, draws, seed))
    factors = capacitances / cell.capacitance
    savings = np.array(
        [[_mean(line) for line in sweep_savings(costs[figure], scheme, factors)] for figure, scheme, _ in printed]
    )
    distances = np.sqrt(np.mean((savings - np.array([[value] for *_, value in printed])) ** 2, axis=0))
    best = int(np.argmin(np.where(np.isnan(distances), np.inf, distances)))
    in_time = np.mean([np.mean(costs[figure][best_scheme(scheme)][2] == 0) for figure, scheme, _ in printed])
    distance = float(np.nan_to_num(distances[best], nan=np.inf))
    place = cell.radius_km, cell.deadline_s
    return Fit(distance, float(capacitances[best]), *place, float(in_time), tuple(savings[:, best]))


# Energy: the solvers


@computation
def joint_gap(
    scenario: Scenario, fixed_hz: list[float], deadlines_s: list[float], counts: list[int], draws: int, seed: int
) -> pd.DataFrame:
    """What the joint optimum saves on choosing bandwidth first, at fixed frequencies, and frequencies second.

    One row per fixed frequency, deadline, size and draw; `apart_j` and `gap` are blank if there is no plan at the fixed
    frequency, `joint_j` if there is none at all.
    """
    everyone = wireless.draw_devices(replace(scenario, devices=max(counts)), generator(seed, "devices"), (draws,))
    points, frames = np.array(deadlines_s)[:, None], []
    index = pd.MultiIndex.from_product([deadlines_s, range(draws)], names=["deadline_s", "seed"])
    for count in counts:
        devices = everyone[..., :count]
        joint = wireless.joint_optimum(devices, points).energy_j
        for hertz in fixed_hz:
            apart = wireless.alternation(devices, points, hertz).energy_j
            gap = np.round(1 - joint / apart, 12) + 0.0  # no minus zero where the two agree
            energies = {"apart_j": apart.ravel(), "joint_j": joint.ravel(), "gap": gap.ravel()}
            place = {"devices": count, "fixed_ghz": hertz / 1e9}
            frames.append(pd.DataFrame(energies, index).reset_index().assign(**place))
    return pd.concat(frames, ignore_index=True)


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
            plan = wireless.optimal_bandwidth(devices, cell.deadline_s, cell.fixed_hz, method)
            row[f"{method}_j"] = float(plan.transmit_energy_j)
            row[f"{method}_ms"] = 1000 * (time.perf_counter() - began)
        rows.append(row | {"difference": row["lbfgsb_j"] / row["exact_j"] - 1})
    return pd.DataFrame(rows)


def one_round(scenario: Scenario, seed: int) -> tuple[pd.DataFrame, str]:
    """All schemes in one cell: joules of sending and computing, late devices, and which cannot meet the deadline."""
    devices = wireless.draw_devices(scenario, generator(seed, "devices"))
    joint = wireless.joint_optimum(devices, scenario.deadline_s)
    costs = frequency_costs(devices, scenario.deadline_s, seed)
    costs |= allocation_costs(devices, scenario.deadline_s, seed, fixed_hz=scenario.fixed_hz)
    costs |= {"joint": round_costs(devices, joint.share, joint.frequency_hz, scenario.deadline_s)}
    names = ("RF", "AF", "OF", "RA", "AA", "SA", "OA", "joint")
    frame = pd.DataFrame({name: costs[name] for name in names}, index=["sending", "computing", "late"]).T
    return frame.rename_axis("scheme"), joint.feasibility.explain()


# Energy: what a round of FedAvg and of FCBAFL costs

BATCHES = ("20", "40", FULL)
EVERY_PASS = "each iteration a pass"  # the paper's count, Q_l c_n d_n
BY_SAMPLES = "samples counted"


class MethodCost(NamedTuple):
    """What a device does in a round besides its Q_l iterations."""

    payload: float  # as a share of what FCBAFL sends, model and gradient
    gradients: int  # over all its data


METHODS = {
    "FedAvg": MethodCost(payload=0.5, gradients=0),
    "FCBAFL": MethodCost(payload=1.0, gradients=2),  # at w^{t-1} for (6), at w_n^t for (11)
}


@computation
def round_energy(scenario: Scenario, draws: int, seed: int, samples: float = 600.0) -> pd.DataFrame:
    """Joules of one round of FedAvg and of FCBAFL on the same draws, both under OA and OF with the same deadline.

    One row per method, batch, reading and draw (`seed`): sending_j, computing_j, energy_j; blank if the deadline is out
    of reach. `samples` is the number of samples on a device of average data size. The reading "each iteration a pass"
    counts as (14) and (15) do, for any batch; "samples counted" counts only the samples of a minibatch.
    """
    devices = wireless.draw_devices(scenario, generator(seed, "devices"), (draws,))
    held = samples * devices.data_bits / (BITS_PER_MEGABYTE * np.mean(scenario.data_megabytes))  # D_n
    frames = []
    for method, batch, reading in product(METHODS, BATCHES, (EVERY_PASS, BY_SAMPLES)):
        passes = gradient_passes(method, batch, reading, scenario.local_iterations, held)
        payload = METHODS[method].payload * devices.payload_bits
        plan = wireless.alternation(
            replace(devices, passes=passes, payload_bits=payload), scenario.deadline_s, scenario.fixed_hz
        )
        joules = {"sending_j": plan.transmit_energy_j, "computing_j": plan.compute_energy_j, "energy_j": plan.energy_j}
        place = {"method": method, "batch": batch, "reading": reading, "seed": range(draws)}
        frames.append(pd.DataFrame(place | joules))
    return pd.concat(frames, ignore_index=True)


def gradient_passes(method: str, batch: str, reading: str, iterations: int, held: np.ndarray) -> np.ndarray:
    """Passes over its data that each device makes in a round: Q_l iterations and the full gradients of the method.

    With full batches the first iteration of FCBAFL starts at w^{t-1} and is the gradient there.
    """
    full = batch == FULL
    part = 1.0 if full or reading == EVERY_PASS else np.minimum(float(batch) / held, 1.0)
    gradients = METHODS[method].gradients - (1 if full and METHODS[method].gradients else 0)
    return iterations * part + gradients + np.zeros_like(held)
