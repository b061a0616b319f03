"""Statistics of differences between paired runs: intervals, tests, families of tests, races that not all runs finish.

A comparison is a difference over independent units (seeds, channel draws, selection problems): within a unit, both
sides share partition, start and participants, so their difference varies less than either side. Everything here follows
from the mean difference and its standard error (`estimate`):

    Estimate.interval, above, below       Student's t; a direction is claimed where the 95% interval has left the margin
    Estimate.inside, outside              two one-sided tests at 5%: the 90% interval lies within the margin, or beyond
    holm, most                            many tests at once: any of them, more than half of them
    race                                  rounds to a target that one side, or both, never reach
    Estimate.detectable, units_needed     the smallest detectable effect, and the units needed to detect this one

Fewer than three units decide nothing: every p-value is 1.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, sqrt

import numpy as np
import pandas as pd
from scipy import optimize, stats

LEVEL = 0.05
FEWEST = 3  # units that can decide anything
POWER = 0.8  # an effect is called detectable if it is found with this probability
ROUNDING = 1e-9  # differences that floating point may leave between equal numbers
NORMAL_UNITS = 100  # from here on Student's t is practically normal
MOST_UNITS = 10_000  # beyond this many, "how many units would decide" has no useful answer


@dataclass(frozen=True)
class Estimate:
    """A mean difference over `n` units and its standard error; an exact one (computed or printed) has neither."""

    mean: float
    error: float = 0.0
    n: int | None = None

    @property
    def exact(self) -> bool:
        return self.n is None

    def interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """Confidence interval of the mean, by default 95%; None if the estimate is exact, or of a single unit."""
        if self.n is None or self.n < 2:
            return None
        half = _critical(level / 2, self.n) * self.error
        return self.mean - half, self.mean + half

    def above(self, margin: float) -> float:
        """p-value of "above the margin": at most 5% exactly when the 95% interval lies above it."""
        return min(1.0, 2 * self._tail(self.mean - margin, tie=False))

    def below(self, margin: float) -> float:
        """p-value of "below the margin", likewise; an exact tie is not above, so it counts here."""
        return min(1.0, 2 * self._tail(margin - self.mean, tie=True))

    def inside(self, margin: float) -> float:
        """p-value of "within the margin of zero", by two one-sided tests: the 90% interval lies inside."""
        return max(self._tail(self.mean + margin, tie=True), self._tail(margin - self.mean, tie=True))

    def outside(self, margin: float) -> float:
        """p-value of "farther from zero than the margin": at most 5% when the 90% interval lies beyond it."""
        return self._tail(abs(self.mean) - margin, tie=False)

    def _tail(self, distance: float, tie: bool) -> float:
        """p-value of the one-sided "the mean exceeds a point", which is this far below it; `tie` decides exact ties."""
        if self.n is None:
            return 0.0 if distance > (-ROUNDING if tie else ROUNDING) else 1.0
        if self.n < FEWEST:
            return 1.0
        return float(stats.t.sf(distance / self.error, self.n - 1))

    def detectable(self) -> float | None:
        """The smallest effect found with 80% probability with these units and this spread; None below three units."""
        if self.n is None or self.n < FEWEST:
            return None
        return self.error * _noncentrality(self.n)


@cache
def _critical(tail: float, n: int) -> float:
    """Student's t of n units that leaves this much probability above it."""
    return float(stats.t.isf(tail, n - 1))


@cache
def _noncentrality(n: int, level: float = LEVEL) -> float:
    """How many standard errors an effect must have to be found with 80% probability."""
    critical = _critical(level / 2, n)
    return float(optimize.brentq(lambda far: stats.nct.sf(critical, n - 1, far) - POWER, 0.0, 100.0))


def estimate(differences: np.ndarray | pd.Series, resolution: float = 0.0) -> Estimate:
    """Mean and standard error of one difference per unit; their order does not matter.

    The error is never so small that the interval would be narrower than the resolution of the measurement (every k-th
    round) on either side of the mean.
    """
    values = np.sort(np.asarray(differences, dtype=float))
    n = len(values)
    if n == 0 or not np.isfinite(values).all():
        raise ValueError(f"differences must be finite numbers, at least one; got {values.tolist()}")
    error = float(stats.sem(values)) if n > 1 else 0.0
    least = max(resolution, ROUNDING) / _critical(LEVEL, max(n, 2))
    return Estimate(float(values.mean()), max(error, least), n)


def units_needed(distance: float, deviation: float, level: float = LEVEL) -> int | None:
    """Units with which an effect this far from the margin is found with 80% probability; None: too many to run."""
    if deviation <= 0:
        return FEWEST
    quantiles = stats.norm.isf(level / 2) + stats.norm.ppf(POWER)
    share = abs(distance) / (quantiles * deviation)  # of what a single unit would have to show
    if share * share * MOST_UNITS < 1:
        return None
    n = max(FEWEST, ceil(1 / (share * share)))  # as if the deviation were known; few units need a few more
    while n <= NORMAL_UNITS and _noncentrality(n, level) > abs(distance) * sqrt(n) / deviation:
        n += 1
    return n


# Families of comparisons


def holm(p_values: list[float]) -> list[float]:
    """p-values adjusted by Holm: with 95% confidence, all those at or below 5% are right."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.tolist()


def more_than_half(count: int) -> int:
    """The smallest number that is more than half of `count`."""
    return count // 2 + 1


def most(p_values: list[float]) -> float:
    """p-value of "more than half of these hold": the partial conjunction of Benjamini and Heller.

    The best half is set aside; Simes's test then asks whether at least one of the rest holds. It is valid for
    independent and for positively dependent comparisons, such as those that share a method.
    """
    left = sorted(p_values)[more_than_half(len(p_values)) - 1 :]
    return float(stats.false_discovery_control(left).min())


# Rounds to a target


@dataclass(frozen=True)
class Race:
    """Differences in favour of `ours` where at least one side arrived, and how often a side did not."""

    differences: pd.Series
    ours_short: int
    theirs_short: int
    neither: pd.Index  # units in which neither arrived


def race(ours: pd.DataFrame, theirs: pd.DataFrame, ratio: float = 1.0) -> Race:
    """Two frames by unit with `value` (rounds, transfers) and `arrived`: theirs - ratio * ours, unit by unit.

    The value of a side that never arrived is the least that it would have needed, a bound that counts against it. A
    unit in which neither arrived is left out.
    """
    both = ours.add_suffix("_ours").join(theirs.add_suffix("_theirs"), how="inner").sort_index()
    arrived = both[["arrived_ours", "arrived_theirs"]].astype(bool)
    ran = both[arrived.any(axis=1)]
    return Race(
        differences=ran["value_theirs"] - ratio * ran["value_ours"],
        ours_short=int((~arrived["arrived_ours"] & arrived["arrived_theirs"]).sum()),
        theirs_short=int((arrived["arrived_ours"] & ~arrived["arrived_theirs"]).sum()),
        neither=both.index[~arrived.any(axis=1)],
    )


def beyond_guessing(share: float, test_images: int) -> float:
    """The accuracy of guessing, right this often on average, plus three standard errors with this many test images."""
    return share + 3 * sqrt(share * (1 - share) / test_images)
