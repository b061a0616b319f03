"""Frequency and bandwidth together: P_0 of FCBAFL, equation (23).

The paper splits P_0 into P_1 (shares at fixed frequencies) and P_2 (frequencies at fixed shares) and solves one after
the other: `alternation`. P_1 then counts only the energy of sending, although a larger share also lets a device compute
more slowly.

The paper calls P_0 non-convex, but at fixed power it is convex as it stands: sending time t(b) is convex in the share,
computing time W / f (W = Q_l c d cycles) and the energy W sigma f^2 in the frequency, and (23e) bounds a sum of these.
`joint_optimum` puts the best frequency, equation (31), into the energy. What remains, p t + sigma W^3 / (Q_T - t)^2 or
with the constant of f^min once that suffices, is convex and separable in b: the price search of `bandwidth` is exact.
"""

import numpy as np

from fedlib.wireless.allocation import Allocation
from fedlib.wireless.bandwidth import clear_market, optimal_bandwidth, shares_in_time
from fedlib.wireless.costs import compute_delay_s, delay_slope_s, shannon_rate_bits_per_s
from fedlib.wireless.devices import Devices
from fedlib.wireless.feasibility import feasibility, per_device, share_for_delay
from fedlib.wireless.frequency import optimal_frequency
from fedlib.wireless.monotone import decreasing_root


def alternation(
    devices: Devices,
    deadline_s: np.ndarray | float,
    frequency_hz: np.ndarray | float | None = None,
    method: str = "exact",
) -> Allocation:
    """FCBAFL's way: OA at fixed frequencies (by default f_n^max), then OF.

    Once is enough: a device slowed down to meet the deadline exactly cannot give up any share afterwards. A fixed
    frequency below f_n^max leaves less time for sending: more deadlines are out of reach, and the shares are worse.
    """
    first = optimal_bandwidth(devices, deadline_s, frequency_hz, method)
    return Allocation(devices, first.share, optimal_frequency(devices, first.share, deadline_s), first.feasibility)


def joint_optimum(devices: Devices, deadline_s: np.ndarray | float) -> Allocation:
    """The shares and frequencies of least energy that meet the deadline."""
    reach = feasibility(devices, deadline_s)
    limit_s = np.broadcast_to(per_device(deadline_s), (*reach.share_min.shape[:-1], 1))[reach.feasible]
    share = shares_in_time(devices, reach, lambda devices, share_min: _exact_joint(devices, limit_s, share_min))
    return Allocation(devices, share, optimal_frequency(devices, share, deadline_s), reach)


def _exact_joint(devices: Devices, deadline_s: np.ndarray, share_min: np.ndarray) -> np.ndarray:
    """At `slow_share` a device reaches f^min: more share no longer slows it down, so its saving drops there."""
    slow_s = deadline_s - compute_delay_s(devices, devices.frequency_min_hz)
    slow_share = np.clip(share_for_delay(devices, slow_s), share_min, 1)

    def parameters(rows):
        here = devices[rows]
        return deadline_s[rows], here.snr, here.payload_bits, here.power_w, here.cycles, here.capacitance

    def saving(share, above_min, deadline_s, snr, payload_bits, power_w, cycles, capacitance):
        sending_s = payload_bits / shannon_rate_bits_per_s(share, snr, devices.bandwidth_hz)
        needed_hz = cycles / (deadline_s - sending_s)
        slowing_w = 2 * capacitance * needed_hz * needed_hz * needed_hz  # d(compute energy) / d(sending time)
        saved_s = delay_slope_s(share, snr, payload_bits, devices.bandwidth_hz)
        return saved_s * (power_w + np.where(above_min, slowing_w, 0))

    def worth(log_share, price, above_min, *parameters):
        return np.log(saving(np.exp(log_share), above_min, *parameters) / price)

    def demand(price, rows):
        here, slow = parameters(rows), slow_share[rows]
        above_min = saving(slow, True, *here) < price
        low, high = np.where(above_min, share_min[rows], slow), np.where(above_min, slow, 1)
        return np.exp(decreasing_root(worth, np.log(low), np.log(high), (price, above_min, *here)))

    everyone = parameters(np.arange(len(share_min)))
    return clear_market(demand, lambda share: saving(share, share < slow_share, *everyone), share_min)
