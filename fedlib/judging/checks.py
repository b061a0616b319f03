"""Named checks: a sentence of a paper as a list of comparisons.

A check takes a tidy frame (one row per unit and setting) and says which differences support the sentence; `claims`
judges them. Every comparison that the sentence asks for is in the list: one that was not run, or cannot be made, is
marked and not dropped. The options of a claim are those of its check and of `Pairing`, and `where`, which restricts the
rows; call `comparisons(check, frame, unit, options)`.

`over` names the axes along which a sentence is repeated, with the levels it is about, or `all` that were measured:
{participation: [5, 10]}, {round: all}. Levels of several axes are combined.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, fields, replace
from inspect import signature
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pandas as pd

from fedlib.judging.claims import Comparison
from fedlib.judging.statistics import race

ALL = "all"
EXACT = "exact"  # the unit of what has no spread: a model of delays, printed numbers
UNITS = {"seed": ["seed"], "draw": ["seed"], "problem": ["seed", "factory"], EXACT: []}  # unit: its columns
NEEDS_MARGIN = ("near", "flat")  # checks that ask for differences within the claim's margin


# Rows and sides


def rows_where(frame: pd.DataFrame, where: dict[str, list] | None) -> pd.DataFrame:
    """The rows that a sentence is about: `where` maps a column to its allowed values."""
    for column, values in (where or {}).items():
        frame = frame[frame[column].isin(values)]
    return frame


def levels(frame: pd.DataFrame, over: dict[str, Any]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The frame at each combination of levels, with its name: "mnist, xi=2", "participation 5"."""
    wanted = [sorted(frame[axis].dropna().unique()) if listed == ALL else listed for axis, listed in over.items()]
    for combination in product(*wanted):
        here, words = frame, []
        for axis, level in zip(over, combination, strict=True):
            here = here[here[axis] == level]
            words.append(named(axis, level))
        yield ", ".join(words), here


def named(axis: str, level: Hashable) -> str:
    """A level in words: a string as it is, a number with its axis."""
    return level if isinstance(level, str) else f"{axis} {level:g}"


@dataclass(frozen=True)
class Pairing:
    """How two sides are compared: what is measured, over which units, and which way is better."""

    unit: str
    value: str
    lower_is_better: bool = False
    times: float = 1.0  # the better side must be this many times as good
    in_every: str | None = None  # an axis inside a unit, such as factory: its worst member represents the unit
    reached: str | None = None  # column that says whether a run reached the target; `value` is what it needed, at least
    guess: str | None = None  # column with the score up to which a model is no better than guessing

    @property
    def exact(self) -> bool:
        return self.unit == EXACT

    def compare(self, label: str, first: pd.DataFrame, second: pd.DataFrame, near: bool = False) -> Comparison:
        """The first side against the second."""
        if first.empty or second.empty:
            return Comparison(label, near=near, blank="not run")
        if self.guess and all((side[self.value].mean() <= side[self.guess]).all() for side in (first, second)):
            units = self.by_unit(first).index
            return Comparison(
                label, near=near, blank="not comparable", neither=units, note="both at the level of guessing"
            )
        if self.reached:
            return self._race(label, first, second)
        return self._difference(label, first, second, near)

    def _difference(self, label: str, first: pd.DataFrame, second: pd.DataFrame, near: bool) -> Comparison:
        """Unit by unit. An infinite number, the loss of a run that diverged, counts against its side; where a side has
        no number there is nothing to compare."""
        ours, theirs = self.by_unit(first).align(self.by_unit(second), join="inner")
        told, our_end, their_end = ours.notna() & theirs.notna(), np.isinf(ours), np.isinf(theirs)
        gains = theirs - self.times * ours if self.lower_is_better else ours - self.times * theirs
        gains = self._worst_inside(gains[told & ~our_end & ~their_end].sort_index(), near)
        neither = self._units(ours.index[~told | (our_end & their_end)])
        return Comparison(
            label,
            gains,
            near=near,
            exact=self.exact,
            ours_short=int((told & our_end & ~their_end).sum()),
            theirs_short=int((told & their_end & ~our_end).sum()),
            neither=neither,
            blank="" if len(gains) else "not comparable" if len(ours) else "not run",
            note=_nothing_in(neither),
        )

    def _units(self, members: pd.Index) -> pd.Index:
        return members.droplevel(self.in_every).unique() if self.in_every and len(members) else members

    def _race(self, label: str, first: pd.DataFrame, second: pd.DataFrame) -> Comparison:
        sides = [
            pd.DataFrame({"value": self.by_unit(side), "arrived": self.by_unit(side, self.reached) > 0}).dropna()
            for side in (first, second)
        ]
        run = race(sides[0], sides[1], self.times)
        blank = "" if len(run.differences) else "not comparable" if len(run.neither) else "not run"
        note = f"neither arrived in {len(run.neither)} of the units" if len(run.neither) else ""
        return Comparison(
            label,
            run.differences,
            exact=self.exact,
            ours_short=run.ours_short,
            theirs_short=run.theirs_short,
            neither=run.neither,
            bounds=len(run.neither) > 0,
            blank=blank,
            note=note,
        )

    def by_unit(self, side: pd.DataFrame, column: str | None = None) -> pd.Series:
        """One number per unit (and member of `in_every`), the mean over everything inside it."""
        names = [*UNITS[self.unit], *([self.in_every] if self.in_every else [])]
        if names:
            numbers = side.set_index(names)[column or self.value].astype(float)
            return numbers if numbers.index.is_unique else numbers.groupby(level=names).mean()
        numbers = side[column or self.value].dropna()
        if len(set(numbers)) > 1:
            raise ValueError(f"an exact comparison needs one number per side, not {numbers.tolist()}")
        return pd.Series([numbers.iloc[0]] if len(numbers) else [], dtype=float)

    def _worst_inside(self, gains: pd.Series, near: bool) -> pd.Series:
        if not self.in_every or gains.empty:
            return gains
        grouped = gains.groupby(level=UNITS[self.unit])
        return grouped.agg(lambda inside: inside.loc[inside.abs().idxmax()]) if near else grouped.min()


# Checks


def above(
    frame: pd.DataFrame, pairing: Pairing, key: str, first: Hashable, others: list, over: dict[str, Any]
) -> list[Comparison]:
    """`first` is better than each of `others`, at every level."""
    return [pairing.compare(label, one, other) for label, one, other in _pairs(frame, key, first, others, over)]


def below(
    frame: pd.DataFrame, pairing: Pairing, key: str, first: Hashable, others: list, over: dict[str, Any]
) -> list[Comparison]:
    """Each of `others` is better than `first`, at every level."""
    return [pairing.compare(label, other, one) for label, one, other in _pairs(frame, key, first, others, over)]


def near(
    frame: pd.DataFrame, pairing: Pairing, key: str, first: Hashable, others: list, over: dict[str, Any]
) -> list[Comparison]:
    """`first` differs from each of `others` by at most the claim's margin, at every level."""
    pairs = _pairs(frame, key, first, others, over)
    return [pairing.compare(label, one, other, near=True) for label, one, other in pairs]


def _pairs(
    frame: pd.DataFrame, key: str, first: Hashable, others: list, over: dict[str, Any]
) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """The rows of `first` and of each of `others`, at every level, with a label."""
    for place, here in levels(frame, over):
        for other in others:
            yield _label(named(key, other), place), here[here[key] == first], here[here[key] == other]


def flat(frame: pd.DataFrame, pairing: Pairing, key: str, among: list, over: dict[str, Any]) -> list[Comparison]:
    """Any two of the levels `among` of `key` differ by at most the claim's margin, at every level of `over`."""
    return [
        pairing.compare(_label(f"{key} {a} and {b}", place), here[here[key] == a], here[here[key] == b], near=True)
        for place, here in levels(frame, over)
        for a, b in combinations(among, 2)
    ]


def rises(frame: pd.DataFrame, pairing: Pairing, key: str, along: list | str, over: dict[str, Any]) -> list[Comparison]:
    """The value improves from each of the levels `along` of `key` to the next, at every level of `over`."""
    steps = sorted(frame[key].dropna().unique()) if along == ALL else along
    return [
        pairing.compare(_label(f"{key} {low} to {high}", place), here[here[key] == high], here[here[key] == low])
        for place, here in levels(frame, over)
        for low, high in pairwise(steps)
    ]


def gap_grows(
    frame: pd.DataFrame, pairing: Pairing, key: str, first: Hashable, others: list, along: dict[str, list]
) -> list[Comparison]:
    """The lead of `first` over the best of `others` grows from each level of an axis to the next.

    Two differences must be positive: how much the lead grows, and the lead that it grows to. A shrinking deficit is not
    a growing lead.
    """
    ((axis, listed),) = along.items()
    leads = {level: _lead(frame[frame[axis] == level], pairing, key, first, others) for level in listed}
    comparisons = []
    for before, after in pairwise(listed):
        growth = (leads[after] - leads[before]).dropna()
        label, blank = f"{axis} {before} to {after}", "" if len(growth) else "not run"
        ahead = Comparison(label, leads[after].reindex(growth.index), exact=pairing.exact, note="the lead itself")
        comparisons.append(
            Comparison(label, growth, exact=pairing.exact, blank=blank, besides=ahead if not blank else None)
        )
    return comparisons


def _lead(here: pd.DataFrame, pairing: Pairing, key: str, first: Hashable, others: list) -> pd.Series:
    """The lead of the first over the rival that is best on average, unit by unit, where all of them were run.

    The best rival of each unit would be favoured by luck.
    """
    sides = {name: pairing.by_unit(here[here[key] == name]) for name in (first, *others)}
    table = pd.DataFrame(sides).dropna()
    return table[first] - table[table[others].mean().idxmax()] if len(table) else pd.Series(dtype=float)


def at_least(frame: pd.DataFrame, pairing: Pairing, least: float, over: dict[str, Any]) -> list[Comparison]:
    """The value is `least` or more at every level; a unit without a value was run, but has nothing to compare."""
    comparisons = []
    for place, here in levels(frame, over):
        numbers = (pairing.by_unit(here) - least).sort_index()
        known, neither = numbers.dropna(), numbers.index[numbers.isna()]
        blank = "" if len(known) else "not run" if here.empty else "not comparable"
        note = _nothing_in(neither)
        comparisons.append(Comparison(place, known, exact=pairing.exact, neither=neither, blank=blank, note=note))
    return comparisons


def stays_below(frame: pd.DataFrame, pairing: Pairing, limit: float, over: dict[str, Any]) -> list[Comparison]:
    """Every single value is below `limit`, at every level: one that reaches it refutes the sentence."""
    comparisons = []
    for place, here in levels(frame, over):
        distance = limit - here[pairing.value].max()
        blank = "not run" if pd.isna(distance) else ""
        note = f"{len(here)} values"
        comparisons.append(Comparison(place, pd.Series([distance]), exact=True, blank=blank, note=note))
    return comparisons


def ratio(
    frame: pd.DataFrame,
    pairing: Pairing,
    key: str,
    first: Hashable,
    second: Hashable,
    least: float,
    most: float,
    over: dict[str, Any],
) -> list[Comparison]:
    """The first needs between `least` and `most` times what the second needs, at every level."""
    lower = replace(pairing, lower_is_better=True, times=least)
    upper = replace(pairing, lower_is_better=True, times=1 / most)
    comparisons = []
    for place, here in levels(frame, over):
        slow, fast = here[here[key] == first], here[here[key] == second]
        comparisons.append(lower.compare(_label(f"at least {least:g} times", place), fast, slow))
        comparisons.append(upper.compare(_label(f"at most {most:g} times", place), slow, fast))
    return comparisons


def _nothing_in(units: pd.Index) -> str:
    return f"nothing to compare in {len(units)} of the units" if len(units) else ""


def _label(what: str, place: str) -> str:
    return f"{what}, {place}" if place else what


CHECKS: dict[str, Callable[..., list[Comparison]]] = {
    check.__name__: check for check in (above, below, near, flat, rises, gap_grows, at_least, stays_below, ratio)
}


def comparisons(check: str, frame: pd.DataFrame, unit: str, options: dict[str, Any]) -> list[Comparison]:
    """All comparisons that a claim asks for."""
    of_pairing, of_check = _split(options)
    return CHECKS[check](rows_where(frame, options.get("where")), Pairing(unit, **of_pairing), **of_check)


def require_options(check: str, options: dict[str, Any]) -> None:
    """A TypeError that names what is missing or unknown."""
    of_pairing, of_check = _split(options)
    signature(CHECKS[check]).bind("the data", "how", **of_check)
    signature(Pairing).bind("the unit", **of_pairing)


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    known = {field.name for field in fields(Pairing)} - {"unit"}
    of_pairing = {name: value for name, value in options.items() if name in known}
    return of_pairing, {name: value for name, value in options.items() if name not in known and name != "where"}


# Audits


@dataclass(frozen=True)
class Audited:
    """The result of an audit: holds or not, and the quantities that decided, printed and found."""

    verdict: str
    reported: str
    measured: str


def audit(*rows: tuple) -> pd.DataFrame:
    """The frame that `statement` reads, from rows of (quantity, printed, found, holds)."""
    return pd.DataFrame(rows, columns=["quantity", "printed", "found", "holds"])


def statement(frame: pd.DataFrame) -> Audited:
    """The result of an audit, from columns quantity, printed, found and holds, one row per quantity."""
    if frame.empty:
        return Audited("not run", "", "")
    holds = frame["holds"].eq(True)  # a missing value does not hold
    decisive = frame[~holds] if not holds.all() else frame
    rows = list(decisive.head(4).itertuples())
    printed = "; ".join(f"{row.quantity}: {_short(row.printed)}" for row in rows)
    computed = "; ".join(f"{row.quantity}: {_short(row.found)}" for row in rows)
    return Audited("holds" if holds.all() else "does not hold", printed, computed)


def _short(value: Any) -> str:
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return str(value)
