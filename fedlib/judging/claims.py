"""From comparisons to the verdict of a claim. `checks` turns data into comparisons; here all are judged by one rule.

One comparison *holds* if the interval of its differences lies above the margin (or, for "near", inside it); it is
*reversed* if the interval lies below (outside), and *undecided* otherwise; fewer than three units decide nothing. A
claim is

- *reproduced* if its quantifier is met: all comparisons hold; most of them do (partial conjunction); or their mean;
- *contradicted* if it fails even if everything undecided held, by reversals that survive Holm's correction;
- *undecided* otherwise, with the smallest detectable effect and the number of units that would decide.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from fedlib.judging import statistics
from fedlib.judging.statistics import LEVEL, Estimate, estimate

QUANTIFIERS = ("all", "most", "average")
OUTCOMES = ("holds", "reversed", "undecided", "not comparable", "not run")
MANY_UNITS = 30  # from here on tiny effects become significant: a claim must name a margin that matters
LARGE_FAMILY, UNITS_OF_LARGE_FAMILY = 6, 5  # with more than 6 comparisons, each must be run in at least 5 units


@dataclass(frozen=True)
class Comparison:
    """One difference over units, positive where it supports the claim; `blank` says why there is none.

    `besides` is a second difference that must be positive, too: the weaker of the two decides.
    """

    label: str
    differences: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    margin: float | None = None
    near: bool = False  # the claim is that the difference is at most the margin, on either side
    exact: bool = False  # one number without spread: from a formula, or printed
    resolution: float = 0.0
    ours_short: int = 0  # units in which only the side that the claim favours never arrived, or has no number ...
    theirs_short: int = 0  # ... or only the other side
    neither: pd.Index = field(default_factory=lambda: pd.Index([]))  # units that were run, but cannot be compared
    bounds: bool = False  # there neither side arrived and both have the same bound: an average counts that as nought
    besides: "Comparison | None" = None
    blank: str = ""  # "not run" or "not comparable"
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """A judged comparison: effect, the interval that decided, and the p-values of both directions."""

    label: str
    outcome: str
    effect: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0  # units compared
    run: int = 0  # units run, with those that cannot be compared
    margin: float = 0.0
    near: bool = False
    holds: float = 1.0  # p-values
    reversed: float = 1.0
    detectable: float | None = None
    needed: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Decision:
    """The verdict of a claim and its comparisons."""

    verdict: str
    findings: tuple[Finding, ...]
    averaged: Finding | None = None  # what decided a claim about the average

    @property
    def counts(self) -> dict[str, int]:
        counter = Counter(finding.outcome for finding in self.findings)
        return {outcome: counter[outcome] for outcome in OUTCOMES} | {"of": len(self.findings)}

    @property
    def measured(self) -> list[Finding]:
        """The comparisons that were run; of a claim about the average, the average."""
        decisive = self.findings if self.averaged is None else (self.averaged,)
        return [finding for finding in decisive if finding.effect is not None]

    @property
    def fewest_units(self) -> int | None:
        """The fewest units in which a comparison was run; None if all are exact, 0 if none was run."""
        decisive = self.findings if self.averaged is None else (self.averaged,)
        counted = [finding.run for finding in decisive if finding.run]
        return min(counted) if counted else None if self.measured else 0

    @property
    def smallest(self) -> Finding | None:
        """The comparison that supports the claim least."""
        return min(self.measured, key=_strength, default=None)


def _strength(finding: Finding) -> float:
    effect = finding.effect or 0.0
    return finding.margin - abs(effect) if finding.near else effect - finding.margin


def judge(comparison: Comparison) -> Finding:
    """One comparison; if it has a second condition, by the weaker one."""
    if comparison.besides is None:
        return _judge(comparison)
    other = replace(comparison.besides, margin=comparison.margin, resolution=comparison.resolution)
    both = _judge(comparison), replace(judge(other), label=comparison.label)
    return max(both, key=lambda finding: (finding.holds, -finding.reversed))


def _judge(comparison: Comparison) -> Finding:
    if comparison.blank:
        run, note = len(comparison.neither), _note(comparison, False)
        return Finding(comparison.label, comparison.blank, near=comparison.near, run=run, note=note)
    if comparison.exact:
        seen = Estimate(float(comparison.differences.iloc[0]))
    else:
        seen = estimate(comparison.differences, comparison.resolution)
    margin = comparison.margin or 0.0
    holds, reversed_ = (
        (seen.inside(margin), seen.outside(margin)) if comparison.near else (seen.above(margin), seen.below(margin))
    )
    trifles = comparison.margin is None and (seen.n or 0) >= MANY_UNITS
    holds = 1.0 if comparison.ours_short or trifles else holds
    reversed_ = 1.0 if comparison.theirs_short or trifles else reversed_
    outcome = "holds" if holds <= LEVEL else "reversed" if reversed_ <= LEVEL else "undecided"
    return Finding(
        comparison.label,
        outcome,
        effect=seen.mean,
        interval=seen.interval(2 * LEVEL if comparison.near else LEVEL),
        n=seen.n or 0,
        run=(seen.n or 0) + len(comparison.neither),
        margin=margin,
        near=comparison.near,
        holds=holds,
        reversed=reversed_,
        detectable=_detectable(seen, margin, comparison.near),
        needed=_needed(comparison, seen) if outcome == "undecided" and not trifles else None,
        note=_note(comparison, trifles),
    )


def _detectable(seen: Estimate, margin: float, near: bool) -> float | None:
    """The smallest effect that would have been found to lie above the margin; "near" asks for no effect."""
    beyond = seen.detectable()
    return None if near or beyond is None else margin + beyond


def _needed(comparison: Comparison, seen: Estimate) -> int | None:
    """Units that would decide if effect and spread stay as they are; None if no number can be given."""
    if len(comparison.differences) < 2:
        return None
    margin = comparison.margin or 0.0
    distance = abs(seen.mean) - margin if comparison.near else seen.mean - margin
    blocked = comparison.ours_short if distance > 0 else comparison.theirs_short  # more units leave that as it is
    if abs(distance) <= comparison.resolution or blocked:
        return None
    level = 2 * LEVEL if comparison.near else LEVEL
    units = statistics.units_needed(distance, float(comparison.differences.std()), level)
    return None if units is None or units <= (seen.n or 0) else units


def _note(comparison: Comparison, trifles: bool) -> str:
    short = {"the favoured side": comparison.ours_short, "the other side": comparison.theirs_short}
    words = [f"{who} never arrived in {units} of the units" for who, units in short.items() if units]
    words += [f"{MANY_UNITS} units and more need a margin"] if trifles else []
    return "; ".join(filter(None, [comparison.note, *words]))


def decide(comparisons: Sequence[Comparison], quantifier: str) -> Decision:
    """All comparisons of a claim, and its verdict by its quantifier."""
    findings = tuple(judge(comparison) for comparison in comparisons)
    if quantifier == "average":
        averaged = judge(average(comparisons))
        words = {"holds": "reproduced", "reversed": "contradicted"}
        return Decision(words.get(averaged.outcome, "undecided"), findings, averaged)
    needed = len(findings) if quantifier == "all" else statistics.more_than_half(len(findings))
    if quantifier == "all":
        met = bool(findings) and all(finding.outcome == "holds" for finding in findings)
    else:
        met = bool(findings) and statistics.most([finding.holds for finding in findings]) <= LEVEL
    if met:
        return Decision("reproduced", findings)
    tested = [finding for finding in findings if finding.effect is not None]
    surviving = sum(p <= LEVEL for p in statistics.holm([finding.reversed for finding in tested]))
    return Decision("contradicted" if len(findings) - surviving < needed else "undecided", findings)


def average(comparisons: Sequence[Comparison]) -> Comparison:
    """The mean of all differences of a unit as one comparison; blank if any of them was not run.

    Where neither side arrived both have the same bound, and their difference counts as nought.
    """
    blanks = [comparison.blank for comparison in comparisons if comparison.blank and not comparison.bounds]
    if blanks or not comparisons:
        return Comparison("average", blank=blanks[0] if blanks else "not run")
    table = pd.concat([_with_ties(comparison) for comparison in comparisons], axis=1).dropna()
    besides = [comparison.besides for comparison in comparisons if comparison.besides is not None]
    if table.empty:
        return Comparison("average", blank="not run")
    return replace(
        comparisons[0],
        label="average",
        differences=table.mean(axis=1),
        resolution=max(comparison.resolution for comparison in comparisons) / len(comparisons),
        ours_short=sum(comparison.ours_short for comparison in comparisons),
        theirs_short=sum(comparison.theirs_short for comparison in comparisons),
        neither=pd.Index([]),
        besides=average(besides) if besides else None,
        blank="",
        note="",
    )


def _with_ties(comparison: Comparison) -> pd.Series:
    ties = pd.Series(0.0, comparison.neither if comparison.bounds else comparison.neither[:0], dtype=float)
    return pd.concat([part for part in (comparison.differences, ties) if len(part)] or [ties])


def counted(decision: Decision) -> str:
    """12 hold, 1 reversed, 3 undecided, 4 not run, of 20."""
    counts = decision.counts
    words = {"holds": "holds" if counts["holds"] == 1 else "hold"}
    told = [f"{counts[outcome]} {words.get(outcome, outcome)}" for outcome in OUTCOMES if counts[outcome]]
    return f"{', '.join(told)}, of {counts['of']}" if told else "nothing to compare"


def outlook(decision: Decision, unit: str) -> str:
    """For an undecided claim: the smallest detectable effect, and the number of units that would decide."""
    open_ones = [finding for finding in decision.measured if finding.outcome == "undecided"]
    if not open_ones:
        return ""
    seen = [finding.detectable for finding in open_ones if finding.detectable is not None]
    words = [f"An effect of {max(seen):.3g} could have been seen."] if seen else []
    needed = [finding.needed for finding in open_ones]
    known = [units for units in needed if units is not None]
    if len(known) == len(open_ones):
        words.append(f"About {max(known)} {unit}s would decide.")
    elif min(finding.n for finding in open_ones) >= statistics.FEWEST:
        words.append(f"No affordable number of {unit}s would decide.")
    else:
        words.append(f"At least {statistics.FEWEST} {unit}s are needed to decide anything.")
    return " ".join(words)
