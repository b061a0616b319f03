"""How fast each device computes: the three schemes of Figs. 6 and 7 (FCBAFL, Section 4.2).

The paper calls [f_n^min, f_n^max] the feasible range, but a slow device may then miss the deadline, against
constraint (23e). The range that meets it, constraint (30a), starts at the optimal frequency. `random_frequency` and
`average_frequency` take the start of the range as an argument, so both readings are one call away. Where even f_n^max
is too slow, (30a) is empty: `optimal_frequency` has no answer, `hurried_frequency` runs at f_n^max.
"""

import numpy as np

from fedlib.wireless.costs import transmit_delay_s
from fedlib.wireless.devices import Devices
from fedlib.wireless.feasibility import per_device

ROUNDING = 1e-9  # a frequency this little above f_n^max counts as f_n^max


def optimal_frequency(devices: Devices, share: np.ndarray, deadline_s: np.ndarray | float) -> np.ndarray:
    """OF, equations (30a), (31): the slowest permitted frequency that meets the deadline; NaN where there is none."""
    left_s = per_device(deadline_s) - transmit_delay_s(devices, share)
    needed_hz = devices.cycles / np.where(left_s > 0, left_s, np.nan)  # f_n^*
    reachable = needed_hz <= devices.frequency_max_hz * (1 + ROUNDING)
    return np.where(reachable, np.clip(needed_hz, devices.frequency_min_hz, devices.frequency_max_hz), np.nan)


def hurried_frequency(devices: Devices, share: np.ndarray, deadline_s: np.ndarray | float) -> np.ndarray:
    """OF wherever it exists; a device that is late at every permitted frequency computes at f_n^max.

    (31) grows without bound as the time left for computing shrinks, so f_n^max is its limit under (23b). Where sending
    alone takes longer than the deadline, (31) turns negative and max{f_n^min, f_n^*} would give the latest devices the
    lowest frequency; here they compute at f_n^max like all others that are late.
    """
    frequency_hz = optimal_frequency(devices, share, deadline_s)
    return np.where(np.isnan(frequency_hz), devices.frequency_max_hz, frequency_hz)


def average_frequency(devices: Devices, slowest_hz: np.ndarray | None = None) -> np.ndarray:
    """AF: the middle of [slowest_hz, f_n^max]; slowest_hz is f_n^min, as printed, or the optimal frequency."""
    return (_start(devices, slowest_hz) + devices.frequency_max_hz) / 2


def random_frequency(devices: Devices, rng: np.random.Generator, slowest_hz: np.ndarray | None = None) -> np.ndarray:
    """RF: uniform on [slowest_hz, f_n^max], as for `average_frequency`; a device has one draw for all deadlines."""
    start = _start(devices, slowest_hz)
    return start + (devices.frequency_max_hz - start) * rng.random(devices.shape)


def _start(devices: Devices, slowest_hz: np.ndarray | None) -> np.ndarray:
    return devices.frequency_min_hz if slowest_hz is None else slowest_hz
