"""Who gets which share of the band: the four schemes of Fig. 8 (FCBAFL, Sections 3 and 4.2).

RA, AA and SA do not look at the deadline, and often leave some device too little to meet it. Given `share_min`, they
first hand every device what it needs and apply their rule to the rest; without, they are the printed rules.

OA minimises the energy of sending, P_1 of equation (26), at fixed frequencies, in one of two ways.
- `lbfgsb` is the paper's choice. L-BFGS-B knows bounds but not sum(b) = 1, so it moves weights z_n >= 0 with b_n =
  b_n^min + (1 - sum b^min) z_n / sum z: every point it visits is feasible, and z_n = 0 is the deadline's bound.
- `exact` uses that the objective is convex and separable: all devices above their bound save the same energy for the
  next bit of share. That is the price of the band, the multiplier of sum(b) = 1; search for the one at which all is
  used up.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from fedlib.wireless.devices import Devices
from fedlib.wireless.energy import seconds_saved_per_share, transmit_energy_j
from fedlib.wireless.feasibility import ROUNDING, feasibility
from fedlib.wireless.plan import Plan
from fedlib.wireless.roots import decreasing_root


def random_share(devices: Devices, rng: np.random.Generator, share_min: np.ndarray | float = 0.0) -> np.ndarray:
    """RA: uniform random numbers, scaled to sum to one (constraint 23d)."""
    return _share_out(rng.random(devices.shape), share_min)


def equal_share(devices: Devices, share_min: np.ndarray | float = 0.0) -> np.ndarray:
    """AA: the same for all."""
    return _share_out(np.ones(devices.shape), share_min)


def snr_share(devices: Devices, share_min: np.ndarray | float = 0.0) -> np.ndarray:
    """SA: in proportion to p_n h_n / N_0, as printed; the strongest channels get the most."""
    return _share_out(devices.snr, share_min)


def optimal_bandwidth(
    devices: Devices,
    deadline_s: np.ndarray | float,
    frequency_hz: np.ndarray | None = None,
    method: str = "exact",
) -> Plan:
    """OA: the solution of P_1 at fixed frequencies; by default f_n^max, which leaves most time for sending."""
    if method not in SOLVERS:
        raise ValueError(f"method must be one of {', '.join(SOLVERS)}; got {method!r}.")
    frequency_hz = devices.frequency_max_hz if frequency_hz is None else frequency_hz
    reach = feasibility(devices, deadline_s, frequency_hz)
    share = SOLVERS[method](devices, np.where(reach.feasible[..., None], reach.share_min, np.nan))
    return Plan(devices, share, np.broadcast_to(frequency_hz, share.shape), reach)


def clear_market(demand: Callable, saving: Callable, share_min: np.ndarray) -> np.ndarray:
    """Shares at the price at which the devices together ask for the whole band.

    `demand(price)` is what each device asks for, `saving(share)` the energy that the next bit of share saves it. Split
    the surplus evenly: at the lowest saving all ask for at least that, at the highest none asks for more. A bracket.
    """
    even = saving(_share_out(np.ones_like(share_min), share_min))
    low, high = np.log(np.min(even, axis=-1)), np.log(np.max(even, axis=-1))
    log_price = decreasing_root(lambda v: np.log(np.sum(demand(np.exp(v)[..., None]), axis=-1)), low, high)
    above = np.maximum(demand(np.exp(log_price)[..., None]) - share_min, 0)
    return _share_out(above, share_min)  # the price is exact up to rounding; this makes the sum so, too


def _exact(devices: Devices, share_min: np.ndarray) -> np.ndarray:
    def saving(share):
        return devices.power_w * seconds_saved_per_share(devices, share)

    def demand(price):
        return np.exp(decreasing_root(lambda u: np.log(saving(np.exp(u)) / price), np.log(share_min), np.float64(0)))

    return clear_market(demand, saving, share_min)


def _lbfgsb(devices: Devices, share_min: np.ndarray) -> np.ndarray:
    devices = replace(devices, gain=np.broadcast_to(devices.gain, share_min.shape))  # an instance for every deadline
    share = np.full(share_min.shape, np.nan)
    for index in np.ndindex(share_min.shape[:-1]):
        if not np.isnan(share_min[index]).any():
            share[index] = _lbfgsb_one(devices[index], share_min[index])
    return share


def _lbfgsb_one(devices: Devices, share_min: np.ndarray) -> np.ndarray:
    """One instance; the objective is scaled to one at the start, so that the tolerances are relative."""
    surplus = max(1 - np.sum(share_min), 0.0)
    start_j = np.sum(transmit_energy_j(devices, _share_out(np.ones_like(share_min), share_min)))

    def objective(weights):
        total = np.sum(weights)
        share = _share_out(weights, share_min)
        slope = -devices.power_w * seconds_saved_per_share(devices, share)
        gradient = surplus / total * (slope - np.sum(slope * weights) / total)
        return np.sum(transmit_energy_j(devices, share)) / start_j, gradient / start_j

    answer = minimize(
        objective,
        np.ones_like(share_min),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * share_min.size,
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-12},
    )
    return _share_out(answer.x, share_min)


def _share_out(weights: np.ndarray, share_min: np.ndarray | float) -> np.ndarray:
    """What each device needs, plus its part of the rest; NaN where the band is too small for the needs."""
    needs = np.asarray(share_min) + np.zeros_like(weights)
    needed = np.sum(needs, axis=-1, keepdims=True)
    needs = np.where(needed <= 1 + ROUNDING, needs, np.nan)
    surplus = np.where(needed <= 1, 1 - needed, 0)
    total = np.sum(weights, axis=-1, keepdims=True)
    return needs + surplus * weights / np.where(total > 0, total, 1)  # no weight at all: the needs fill the band


SOLVERS = {"exact": _exact, "lbfgsb": _lbfgsb}
