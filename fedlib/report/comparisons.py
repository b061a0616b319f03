"""The comparisons of a claim as a forest: one row each, effect and interval, sorted, with the margin as a line.

Here are the order of the rows, the range of the axis, the description in words, the table, and the small drawing of the
index. `forest` draws the large one. A filled circle holds, a cross is reversed, a hollow circle is undecided; an
interval that extends beyond the picture ends in an arrow.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from fedlib.judging.ledger import NOT_JUDGED
from fedlib.report.verdicts import LOOKS, between, effect, measured, weighed

PADDING = 0.06  # share of the axis left empty at each end
REACH = 1.2  # intervals are cut where they extend beyond the effects by more than this many times the effects' range
UNLIKE = 100  # decided effects that differ by this factor need a logarithmic axis
NARROW, HEIGHT, PITCHES = 150, 110, (4.0, 11.0)  # of the small drawing: pixels; least and largest between rows
MARKS = {"holds": "filled circle", "reversed": "cross", "undecided": "hollow circle"}


def ordered(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The largest effect first, what was not compared last; an average that decides comes before all."""
    rows = sorted(line["comparisons"], key=lambda row: -math.inf if row["effect"] is None else row["effect"])[::-1]
    return [line["averaged"], *rows] if line["averaged"] else rows


def colour(line: dict[str, Any], outcome: str) -> str:
    """The name of an outcome's colour; grey if the claim is not judged and outcomes are only shown."""
    return "calm" if line["verdict"] == NOT_JUDGED else LOOKS[outcome][0]


def table(line: dict[str, Any]) -> pd.DataFrame:
    """The same rows in numbers; outcomes of a claim that is not judged are in brackets."""
    outcome = "({})" if line["verdict"] == NOT_JUDGED else "{}"
    rows = [
        {
            "comparison": row["label"],
            "effect": effect(row["effect"], row["interval"]),
            "interval": between(row["interval"], row["effect"] or 0.0),
            "n": str(row["n"] or ""),
            "outcome": row["outcome"] if row["effect"] is None else outcome.format(row["outcome"]),
        }
        for row in ordered(line)
    ]
    frame = pd.DataFrame(rows).set_index("comparison")
    return frame.loc[:, (frame != "").any()]


def description(line: dict[str, Any]) -> str:
    """The plot in words, with the counts: its alt text."""
    near = any(row["near"] for row in line["comparisons"])
    drawn = {row["outcome"] for row in ordered(line)}
    marks = ", ".join(f"{mark} {outcome}" for outcome, mark in MARKS.items() if outcome in drawn)
    margin = f"margin {'±' if near else ''}{margin_of(line):.4g}"
    signs = f" ({marks})" if marks else ""
    return f"Forest plot, effects with intervals, {margin}{signs}: {measured(line)}. {weighed(line)}".strip()


def margin_of(line: dict[str, Any]) -> float:
    """Where comparisons begin to hold; near ones hold between this and its negative."""
    return max((row["margin"] for row in line["comparisons"]), default=0.0)


@dataclass(frozen=True)
class Axis:
    """The range of numbers shown; beyond a threshold, on both sides of zero, the axis is logarithmic."""

    low: float
    high: float
    threshold: float | None = None

    def cut(self, interval: list[float]) -> tuple[float, float]:
        """The part of an interval that is shown."""
        return max(interval[0], self.low), min(interval[1], self.high)

    def share(self, value: float) -> float:
        """Place on the axis between 0 and 1."""
        low, high, at = map(self.stretched, (self.low, self.high, min(max(value, self.low), self.high)))
        return (at - low) / (high - low)

    def stretched(self, value: float) -> float:
        """The place, as a distance from zero, where a number is drawn."""
        if self.threshold is None:
            return value
        return math.copysign(math.log1p(abs(value) / self.threshold), value)

    def shrunk(self, place: float) -> float:
        """The number that is drawn at this distance from zero."""
        return place if self.threshold is None else math.copysign(math.expm1(abs(place)) * self.threshold, place)

    def widened(self) -> "Axis":
        """With some padding at both ends, so that no mark is cut."""
        low, high = self.stretched(self.low), self.stretched(self.high)
        padding = PADDING * (high - low)
        return Axis(self.shrunk(low - padding), self.shrunk(high + padding), self.threshold)

    def ticks(self) -> list[float] | None:
        """Zero and a few powers of ten if the axis is logarithmic, otherwise None."""
        if self.threshold is None:
            return None
        powers = range(math.ceil(math.log10(self.threshold)), math.floor(math.log10(max(self.high, -self.low))) + 1)
        chosen = [10.0**power for power in list(powers)[:: -1 - len(powers) // 4]]
        return [0.0, *(at for size in chosen for at in (-size, size) if self.low <= at <= self.high)]


def axis(line: dict[str, Any]) -> Axis:
    """The axis shows all effects and the margin, and intervals as far as the effects stay legible."""
    rows = [row for row in ordered(line) if row["effect"] is not None]
    margin = margin_of(line)
    points = [row["effect"] for row in rows] + [margin] + [-margin for row in rows if row["near"]]
    ends = points + [end for row in rows for end in row["interval"] or ()]
    stretch = (max(points) - min(points)) or max(ends) - min(ends) or 1.0
    low, high = max(min(ends), min(points) - REACH * stretch), min(max(ends), max(points) + REACH * stretch)
    return Axis(low, high if high > low else low + stretch, _threshold(rows, margin)).widened()


def _threshold(rows: list[dict[str, Any]], margin: float) -> float | None:
    """Where the axis becomes logarithmic, so that decided effects are visible however small; None if it need not."""
    decided = [abs(row["effect"]) for row in rows if row["outcome"] in ("holds", "reversed") and row["effect"]]
    apart = not margin and decided and max(decided) > UNLIKE * min(decided)
    return min(decided) if apart else None


# The small drawing


def svg(line: dict[str, Any]) -> str:
    """A small forest plot for a row of the index; empty if nothing was compared."""
    rows = [row for row in ordered(line) if row["effect"] is not None]
    if not rows:
        return ""
    pitch = min(max(HEIGHT / len(rows), PITCHES[0]), PITCHES[1])
    shown, height, margin = axis(line), pitch * (len(rows) + 1), margin_of(line)

    def x(value: float) -> float:
        return round(6 + (NARROW - 12) * shown.share(value), 1)

    places = [margin, -margin] if any(row["near"] for row in rows) else [margin]
    lines = [f'<line class="margin" x1="{x(at)}" x2="{x(at)}" y1="0" y2="{height:.0f}"/>' for at in places]
    hues = [colour(line, row["outcome"]) for row in rows]
    marks = [
        _mark(row, hue, x, shown, round(pitch * (at + 1), 1), max(0.36 * pitch, 1.8))
        for at, (row, hue) in enumerate(zip(rows, hues, strict=True))
    ]
    if line["averaged"]:
        marks.append(f'<line class="rule" x1="0" x2="{NARROW}" y1="{1.5 * pitch}" y2="{1.5 * pitch}"/>')
    size = f'viewBox="0 0 {NARROW} {height:.0f}" width="{NARROW}" height="{height:.0f}"'
    named = f'role="img" aria-label="{escape(description(line))}"'
    return f'<svg class="forest" {size} {named}>{"".join(lines + marks)}</svg>'


def _mark(row: dict[str, Any], hue: str, x: Callable[[float], float], shown: Axis, y: float, r: float) -> str:
    low, high = shown.cut(row["interval"] or 2 * [row["effect"]])
    bar = f'<line x1="{x(low)}" x2="{x(high)}" y1="{y}" y2="{y}"/>'
    at = x(row["effect"])
    cross = f'<path d="M{at - r:.1f} {y - r:.1f}l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}"/>'
    sign = cross if row["outcome"] == "reversed" else f'<circle cx="{at}" cy="{y}" r="{r:.1f}"/>'
    words = f"{row['label']}: {effect(row['effect'], row['interval'])}, {row['outcome']}"
    return f'<g class="{row["outcome"]}" style="--hue: var(--{hue})"><title>{escape(words)}</title>{bar}{sign}</g>'
