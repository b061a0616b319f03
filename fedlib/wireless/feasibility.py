"""Can the deadline be met, and if not, which devices are too slow (FCBAFL, constraints 23b, 23d and 23e)?

A device that computes at a given frequency has the rest of the deadline for sending, which takes at least a share
b_n^min of the band. The deadline is out of reach if some device needs more than the whole band, or if all needs
together exceed it.
"""

from dataclasses import dataclass

import numpy as np

from fedlib.wireless.costs import compute_delay_s, shannon_rate_bits_per_s, transmit_delay_s
from fedlib.wireless.devices import Devices
from fedlib.wireless.monotone import decreasing_root

ROUNDING = 1e-12  # shares that sum to one up to this are within the band


@dataclass(frozen=True)
class Feasibility:
    """Who can meet the deadline, for instances of shape `(...)` with devices on the last axis."""

    share_min: np.ndarray  # b_n^min, infinite where even the whole band is too little

    @property
    def feasible(self) -> np.ndarray:
        """One answer per instance."""
        return np.sum(self.share_min, axis=-1) <= 1 + ROUNDING

    @property
    def hopeless(self) -> np.ndarray:
        """Devices that would be late even alone on the whole band."""
        return np.isinf(self.share_min)

    @property
    def crowded_out(self) -> np.ndarray:
        """The fewest further devices to leave out so that all others are in time: those with the largest needs."""
        order = np.argsort(self.share_min, axis=-1, kind="stable")
        used = np.cumsum(np.take_along_axis(self.share_min, order, axis=-1), axis=-1)
        left_out = np.empty(used.shape, dtype=bool)
        np.put_along_axis(left_out, order, used > 1 + ROUNDING, axis=-1)
        return left_out & ~self.hopeless

    def explain(self) -> str:
        """One sentence that names the devices, for a single instance."""
        if self.share_min.ndim != 1:
            raise ValueError(f"explain() speaks of one instance; take one of these {self.share_min.shape[:-1]}.")
        if self.feasible:
            return f"All {self.share_min.size} devices meet the deadline with {np.sum(self.share_min):.1%} of the band."
        reasons = []
        if self.hopeless.any():
            reasons.append(f"late even with the whole band: devices {_names(self.hopeless)}")
        if self.crowded_out.any():
            reasons.append(f"no room in the band for devices {_names(self.crowded_out)}")
        return "The deadline cannot be met; " + "; ".join(reasons) + "."


def feasibility(
    devices: Devices, deadline_s: np.ndarray | float, frequency_hz: np.ndarray | float | None = None
) -> Feasibility:
    """Smallest shares b_n^min that meet the deadline at these frequencies (default: every device at f_n^max)."""
    frequency_hz = devices.frequency_max_hz if frequency_hz is None else np.asarray(frequency_hz, dtype=np.float64)
    return Feasibility(share_for_delay(devices, per_device(deadline_s) - compute_delay_s(devices, frequency_hz)))


def per_device(deadline_s: np.ndarray | float) -> np.ndarray:
    """Deadlines, one per instance, with an axis of devices appended."""
    deadline_s = np.asarray(deadline_s, dtype=np.float64)
    if not (np.all(np.isfinite(deadline_s)) and np.all(deadline_s > 0)):
        raise ValueError(f"deadline_s must be positive and finite; got {deadline_s}.")
    return deadline_s[..., None]


def share_for_delay(devices: Devices, sending_s: np.ndarray) -> np.ndarray:
    """Share on which sending takes exactly `sending_s`: equation (17) solved for b_n; infinite where none does."""
    whole = transmit_delay_s(devices, np.ones(devices.shape))
    reachable = sending_s >= whole
    target = np.where(reachable, sending_s, whole)
    # ln(1+x) <= sqrt(x) bounds the rate from above, hence the share from below.
    nats = devices.payload_bits / target * np.log(2) / devices.bandwidth_hz
    low = np.minimum(np.log(nats * nats / devices.snr), 0)

    def missing(log_share: np.ndarray, snr: np.ndarray, needed_rate: np.ndarray) -> np.ndarray:
        rate = shannon_rate_bits_per_s(np.exp(log_share), snr, devices.bandwidth_hz)
        return np.log(needed_rate) - np.log(rate)

    root = decreasing_root(missing, low, np.zeros_like(low), (devices.snr, devices.payload_bits / target))
    return np.where(reachable, np.exp(root), np.inf)


def _names(mask: np.ndarray) -> str:
    return ", ".join(str(n) for n in np.flatnonzero(mask))
