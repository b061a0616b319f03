"""Time of a round (FedGS, Section VI-B, Proposition 4): FedGS against FedAvg, with and without averaging base stations.

All times in seconds. Every function takes one `RoundTiming`; its fields may be arrays, which gives sweeps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

WEIGHTS = 6_603_710  # LEAF's FEMNIST network
ROUNDS_TO_TARGET = {"FedGS": 147, "FedAvg": 478}  # to 82%, Table II
RATIOS = (10.0, 100.0)  # printed range of B_int / B_ext

Quantity = float | np.ndarray  # a value, or the values of a sweep


@dataclass(frozen=True)
class RoundTiming:
    """What the time of a round depends on, with the paper's symbols and its values where it prints them."""

    iterations: Quantity = 50  # T
    factories: Quantity = 10  # M
    selected: Quantity = 10  # L
    ratio: Quantity = 10.0  # B_int / B_ext
    external_hz: Quantity = 10e6  # B_ext; not printed
    snr: Quantity = 100.0  # gamma, 20 dB; not printed
    model_bits: Quantity = 32.0 * WEIGHTS  # S
    step_s: Quantity = 0.1  # T_comp; not printed, and the same for all methods
    select_s: Quantity = 0.015  # T_select

    @property
    def outside_s(self) -> Quantity:
        """2S / (beta B_ext): one model to the cloud and back."""
        return 2 * self.model_bits / (np.log2(1 + self.snr) * self.external_hz)

    @property
    def inside_s(self) -> Quantity:
        """2S / (beta B_int): one model to the base station and back."""
        return self.outside_s / self.ratio


def fedgs_s(timing: RoundTiming) -> Quantity:
    """Eq. (24): M models travel outside once, L models inside in each of T iterations."""
    iteration_s = timing.select_s + timing.selected * timing.inside_s + timing.step_s
    return timing.factories * timing.outside_s + timing.iterations * iteration_s


def fedavg_s(timing: RoundTiming) -> Quantity:
    """Eq. (25): all ML models travel outside, once."""
    return timing.factories * timing.selected * timing.outside_s + timing.iterations * timing.step_s


def hierarchical_s(timing: RoundTiming) -> Quantity:
    """Not in the paper's comparison: FedAvg whose base stations average, so that M models travel outside."""
    return timing.factories * timing.outside_s + timing.selected * timing.inside_s + timing.iterations * timing.step_s


ROUND_SECONDS = {"FedGS": fedgs_s, "FedAvg": fedavg_s, "FedAvg, averaged in the factory": hierarchical_s}


def threshold(timing: RoundTiming) -> Quantity:
    """Proposition 4: FedGS's round is the shorter one where B_int / B_ext is above this; infinite for L = 1."""
    with np.errstate(divide="ignore"):
        return np.divide(timing.iterations * timing.selected, timing.factories * (timing.selected - 1.0))


def flips(timing: RoundTiming) -> dict[str, float]:
    """Where the faster method changes if one of the four quantities changes and the others stay, by Proposition 4.

    FedGS wins below the number of iterations and above the three others.
    """
    spare = timing.ratio * timing.factories - timing.iterations
    return {
        "iterations": float(timing.ratio * timing.factories * (timing.selected - 1) / timing.selected),
        "factories": float(timing.iterations * timing.selected / (timing.ratio * (timing.selected - 1))),
        "selected": float(timing.ratio * timing.factories / spare) if spare > 0 else np.inf,
        "ratio": float(threshold(timing)),
    }


def sweep(timing: RoundTiming, ranges: Mapping[str, Sequence[float] | np.ndarray]) -> pd.DataFrame:
    """One row per method and point: sweep, value, method, seconds."""
    frames = []
    for name, values in ranges.items():
        moved = replace(timing, **{name: np.asarray(values, dtype=float)})
        for method, seconds in ROUND_SECONDS.items():
            took = seconds(moved) * np.ones(len(values))
            about = {"sweep": name, "value": getattr(moved, name), "method": method}
            frames.append(pd.DataFrame(about | {"seconds": took}))
    return pd.concat(frames, ignore_index=True).assign(seed=0)
