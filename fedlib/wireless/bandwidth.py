"""Who gets which share of the band: the four schemes of Fig. 8 (FCBAFL, Sections 3 and 4.2).

RA, AA and SA are the printed rules; AA is b_n = 1/N. They ignore the deadline, and often leave some device too little
to meet it. Given `share_min`, they first give every device what it needs and apply their rule to the rest: that is no
longer what the paper compares with, but it meets the deadline.

OA minimises the energy of sending, P_1 of equation (26), at fixed frequencies, in one of two ways.
- `lbfgsb` is the paper's choice. L-BFGS-B knows bounds but not sum(b) = 1, so it moves weights z_n >= 0 with b_n =
  b_n^min + (1 - sum b^min) z_n / sum z: every point it visits is feasible, and z_n = 0 is the deadline's bound.
- `exact` uses that the objective is convex and separable: all devices above their bound save the same energy for the
  next bit of share. That is the price of the band, the multiplier of sum(b) = 1; search for the one at which all is
  used up.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from fedlib.wireless.allocation import Allocation
from fedlib.wireless.costs import delay_slope_s, seconds_saved_per_share, transmit_energy_j
from fedlib.wireless.devices import Devices
from fedlib.wireless.feasibility import ROUNDING, Feasibility, feasibility
from fedlib.wireless.monotone import decreasing_root


def random_share(devices: Devices, rng: np.random.Generator, share_min: np.ndarray | float = 0.0) -> np.ndarray:
    """RA: uniform random numbers, scaled to sum to one (constraint 23d)."""
    return _share_out(rng.random(devices.shape), share_min)


def equal_share(devices: Devices, share_min: np.ndarray | float = 0.0) -> np.ndarray:
    """AA: b_n = 1/N."""
    return _share_out(np.ones(devices.shape), share_min)


def snr_share(devices: Devices, share_min: np.ndarray | float = 0.0) -> np.ndarray:
    """SA: in proportion to p_n h_n / N_0, as printed; the strongest channels get the most."""
    return _share_out(devices.snr, share_min)


def optimal_bandwidth(
    devices: Devices,
    deadline_s: np.ndarray | float,
    frequency_hz: np.ndarray | float | None = None,
    method: str = "exact",
) -> Allocation:
    """OA: the solution of P_1 at fixed frequencies; by default f_n^max, which leaves most time for sending."""
    if method not in SOLVERS:
        raise ValueError(f"method must be one of {', '.join(SOLVERS)}; got {method!r}.")
    frequency_hz = devices.frequency_max_hz if frequency_hz is None else frequency_hz
    reach = feasibility(devices, deadline_s, frequency_hz)
    share = shares_in_time(devices, reach, SOLVERS[method])
    return Allocation(devices, share, np.broadcast_to(frequency_hz, share.shape), reach)


def shares_in_time(
    devices: Devices, reach: Feasibility, solve: Callable[[Devices, np.ndarray], np.ndarray]
) -> np.ndarray:
    """`solve(devices, share_min)` for the instances that can meet the deadline, one per row; NaN for the others."""
    share = np.full(reach.share_min.shape, np.nan)
    if reach.feasible.any():
        solvable = devices.broadcast_to(share.shape)[reach.feasible]
        share[reach.feasible] = solve(solvable, reach.share_min[reach.feasible])
    return share


def clear_market(
    demand: Callable[[np.ndarray, np.ndarray], np.ndarray],
    saving: Callable[[np.ndarray], np.ndarray],
    share_min: np.ndarray,
) -> np.ndarray:
    """Shares at the price at which the devices together ask for the whole band; one instance per row.

    `demand(price, rows)` is what the devices of these rows ask for, `saving(share)` the energy that the next bit of
    share saves each device. The search starts from an even split of the surplus: at a price equal to the lowest saving
    all ask for at least their part, at the highest none asks for more, so these two prices bracket the solution.
    """
    even = saving(_share_out(np.ones_like(share_min), share_min))
    low, high = np.log(np.min(even, axis=-1)), np.log(np.max(even, axis=-1))
    rows = np.arange(len(share_min))

    def log_demand(log_price: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.log(np.sum(demand(np.exp(log_price)[:, None], rows), axis=-1))

    price = np.exp(decreasing_root(log_demand, low, high, (rows,)))
    above = np.maximum(demand(price[:, None], rows) - share_min, 0)
    return _share_out(above, share_min)  # the price is exact up to rounding; this makes the sum exact, too


def _exact(devices: Devices, share_min: np.ndarray) -> np.ndarray:
    def worth(log_share, price, snr, payload_bits, power_w):
        return np.log(power_w * delay_slope_s(np.exp(log_share), snr, payload_bits, devices.bandwidth_hz) / price)

    def demand(price, rows):
        low, here = np.log(share_min[rows]), devices[rows]
        parameters = price, here.snr, here.payload_bits, here.power_w
        return np.exp(decreasing_root(worth, low, np.zeros_like(low), parameters))

    def saving(share):
        return devices.power_w * seconds_saved_per_share(devices, share)

    return clear_market(demand, saving, share_min)


def _lbfgsb(devices: Devices, share_min: np.ndarray) -> np.ndarray:
    return np.stack([_lbfgsb_one(devices[row], needs) for row, needs in enumerate(share_min)])


def _lbfgsb_one(devices: Devices, share_min: np.ndarray) -> np.ndarray:
    """One instance; the objective is scaled to one at the start, so that the tolerances are relative."""
    surplus = max(1 - np.sum(share_min), 0.0)
    start_j = np.sum(transmit_energy_j(devices, _share_out(np.ones_like(share_min), share_min)))

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
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
    """What each device needs, plus its part of the rest by weight; NaN where the band is too small for the needs."""
    needs = np.asarray(share_min) + np.zeros_like(weights)
    needed = np.sum(needs, axis=-1, keepdims=True)
    needs = np.where(needed <= 1 + ROUNDING, needs, np.nan)
    surplus = np.where(needed <= 1, 1 - needed, 0)
    total = np.sum(weights, axis=-1, keepdims=True)
    return needs + surplus * weights / np.where(total > 0, total, 1)  # no weight at all: the needs fill the band


SOLVERS = {"exact": _exact, "lbfgsb": _lbfgsb}
