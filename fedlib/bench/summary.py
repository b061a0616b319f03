"""From measurements to medians with quartiles, and to ratios with their aims."""

from dataclasses import dataclass

import numpy as np

from fedlib.bench.workloads import AIMS


@dataclass(frozen=True)
class Spread:
    """Median, smallest value and quartiles."""

    median: float
    low: float
    first: float
    third: float


@dataclass(frozen=True)
class Ratio:
    """The engine compared with one rival: its time over ours, so more is better; for the limit, our share of its speed.

    `first` and `third` are quartiles of the ratios within each repetition.
    """

    value: float
    first: float
    third: float
    aim: float | None

    @property
    def reached(self) -> bool | None:
        """Whether the aim is reached; None if there is none."""
        return None if self.aim is None else self.value >= self.aim


def spread(values: list[float]) -> Spread:
    """The spread of some measurements."""
    first, median, third = np.percentile(values, [25, 50, 75])
    return Spread(float(median), min(values), float(first), float(third))


def ratio(workload: str, rival: str, ours: list[float], theirs: list[float]) -> Ratio:
    """Ratio of the medians; repetitions are paired for the quartiles."""
    paired = [slow / fast for slow, fast in zip(theirs, ours, strict=False)]
    first, third = np.percentile(paired, [25, 75])
    value = float(np.median(theirs) / np.median(ours))
    return Ratio(value, float(first), float(third), AIMS.get(workload, {}).get(rival))


def ratios(workload: str, times: dict[str, list[float]]) -> dict[str, Ratio]:
    """The engine compared with each rival that was measured; empty if the engine was not."""
    ours = times.get("engine") or []
    return {
        rival: ratio(workload, rival, ours, theirs)
        for rival, theirs in times.items()
        if ours and theirs and rival != "engine"
    }
