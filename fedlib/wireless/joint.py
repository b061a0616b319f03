"""Frequency and bandwidth together: P_0 of FCBAFL, equation (23).

The paper splits P_0 into P_1 (shares at fixed frequencies) and P_2 (frequencies at fixed shares) and solves one after
the other: `alternation`. A share then counts for the energy of sending alone, although it also lets a device compute
slowly.

The paper calls P_0 non-convex, but at fixed power it is convex as it stands: sending time t(b) is convex in the share,
computing time W / f (W = Q_l c d cycles) and the energy W sigma f^2 in the frequency, and (23e) bounds a sum of these.
`joint_optimum` puts the best frequency, equation (31), into the energy. What remains, p t + sigma W^3 / (Q_T - t)^2 or
with the constant of f^min once that suffices, is convex and separable in b: the price search of `bandwidth` is exact.
"""

import numpy as np

from fedlib.wireless.bandwidth import clear_market, optimal_bandwidth
from fedlib.wireless.devices import Devices
from fedlib.wireless.energy import compute_delay_s, seconds_saved_per_share, transmit_delay_s
from fedlib.wireless.feasibility import feasibility, per_device, share_for_delay
from fedlib.wireless.frequency import optimal_frequency
from fedlib.wireless.plan import Plan
from fedlib.wireless.roots import decreasing_root


def alternation(devices: Devices, deadline_s: np.ndarray | float, method: str = "exact") -> Plan:
    """FCBAFL's way: OA at f_n^max, then OF.

    Once is enough: a device slowed down to meet the deadline exactly cannot give up any share afterwards.
    """
    plan = optimal_bandwidth(devices, deadline_s, method=method)
    return Plan(devices, plan.share, optimal_frequency(devices, plan.share, deadline_s), plan.feasibility)


def joint_optimum(devices: Devices, deadline_s: np.ndarray | float) -> Plan:
    """The shares and frequencies of least energy that meet the deadline."""
    reach = feasibility(devices, deadline_s)
    share_min = np.where(reach.feasible[..., None], reach.share_min, np.nan)
    share = _exact_joint(devices, per_device(deadline_s), share_min)
    return Plan(devices, share, optimal_frequency(devices, share, deadline_s), reach)


def _exact_joint(devices: Devices, deadline_s: np.ndarray, share_min: np.ndarray) -> np.ndarray:
    """At `slow_share` a device reaches f^min: more share no longer slows it down, so its saving drops there."""
    slow_s = deadline_s - compute_delay_s(devices, devices.frequency_min_hz)
    slow_share = np.clip(share_for_delay(devices, slow_s), share_min, 1)

    def saving(share, above_min):
        left_s = deadline_s - transmit_delay_s(devices, share)
        needed_hz = devices.cycles / left_s
        slowing_w = 2 * devices.capacitance * needed_hz * needed_hz * needed_hz  # d(compute energy) / d(sending time)
        return seconds_saved_per_share(devices, share) * (devices.power_w + np.where(above_min, slowing_w, 0))

    def demand(price):
        above_min = saving(slow_share, True) < price
        low, high = np.where(above_min, share_min, slow_share), np.where(above_min, slow_share, 1)

        def worth(log_share):
            return np.log(saving(np.exp(log_share), above_min) / price)

        return np.exp(decreasing_root(worth, np.log(low), np.log(high)))

    return clear_market(demand, lambda share: saving(share, share < slow_share), share_min)
