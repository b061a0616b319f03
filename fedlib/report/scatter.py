"""Printed against measured numbers, all papers in one picture: an inline SVG drawn while the index is built.

Shares are shown in percent. Quantities in other units are scaled so that the largest printed value of their figure or
table is 100: this keeps their place relative to the identity line, which is what the picture shows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from fedlib.judging.ledger import DECIDED, printed_range

SIZE, MARGIN, TOP = 460, 52, 14  # of the square plot, of the axes' labels, above the plot
SHAPES = (  # corners of each paper's marker; none: a circle
    (),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
    ((-1.1, -0.9), (1.1, -0.9), (0, 1.2)),
)


@dataclass(frozen=True)
class Point:
    """One printed number and ours, both in percent."""

    paper: str
    entry: str
    text: str
    reported: tuple[float, float]  # low and high, equal unless a range is printed
    measured: float
    interval: tuple[float, float]  # of the measured mean; both ends equal it if there is none

    @property
    def middle(self) -> float:
        return sum(self.reported) / 2


def points(entries: Iterable[dict[str, Any]]) -> list[Point]:
    """All numbers that could be compared and have a place on an axis (bounds such as "<90" have none)."""
    return [point for entry in entries for point in _points_of(entry)]


def _points_of(entry: dict[str, Any]) -> list[Point]:
    pairs = [(cell, _bounded(cell["reported"])) for cell in entry["cells"] if cell["verdict"] in DECIDED]
    pairs = [(cell, reported) for cell, reported in pairs if reported]
    factor = _to_percent(entry.get("printed_in", ""), [high for _, (_, high) in pairs])
    return [
        Point(
            entry["paper"],
            entry["id"],
            f"{entry['id']}, {cell['label']}: reported {cell['reported']}, measured {cell['measured']:.4g}",
            (low * factor, high * factor),
            cell["measured"] * factor,
            tuple(factor * end for end in cell["interval"] or 2 * [cell["measured"]]),
        )
        for cell, (low, high) in pairs
    ]


def _bounded(reported: Any) -> tuple[float, float] | None:
    if reported is None:
        return None
    low, high = tuple(reported) if isinstance(reported, list) else printed_range(reported)
    return (low, high) if abs(low) != float("inf") and abs(high) != float("inf") else None


def _to_percent(printed_in: str, reported: list[float]) -> float:
    largest = max(map(abs, reported), default=1.0)
    if printed_in == "%":
        return 1.0
    if not printed_in and largest <= 1.0:
        return 100.0
    return 100.0 / largest


class Axes:
    """Percent to pixels, the same on both axes."""

    def __init__(self, values: list[float]) -> None:
        self.low = 10 * int(max(0.0, min(values)) // 10)
        self.high = min(150, 10 * int(-(-max(values) // 10)))

    def x(self, value: float) -> float:
        return round(MARGIN + SIZE * (self._inside(value) - self.low) / (self.high - self.low), 1)

    def y(self, value: float) -> float:
        return round(TOP + SIZE - SIZE * (self._inside(value) - self.low) / (self.high - self.low), 1)

    def _inside(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def ticks(self) -> range:
        step = 10 if self.high - self.low <= 80 else 20
        return range(self.low, self.high + 1, step)


def svg(entries: list[dict[str, Any]]) -> str:
    """The picture; empty if no printed number was measured."""
    shown = points(entries)
    if not shown:
        return ""
    papers = list(dict.fromkeys(entry["paper"] for entry in entries))
    axes = Axes([value for p in shown for value in (*p.reported, p.measured)])
    marks = "\n".join(_mark(point, papers.index(point.paper), axes) for point in shown)
    width, height = MARGIN + SIZE + 12, TOP + SIZE + MARGIN
    named = 'role="img" aria-labelledby="scatter-title scatter-text"'
    return (
        f'<svg class="scatter" viewBox="0 0 {width} {height}" {named}>\n'
        '<title id="scatter-title">Reported against measured</title>\n'
        f'<desc id="scatter-text">{_description(shown)}</desc>\n'
        f"{_frame(axes)}\n{marks}\n</svg>"
    )


def _description(shown: list[Point]) -> str:
    above = sum(point.measured >= point.middle for point in shown)
    return (
        f"{len(shown)} printed numbers, each with the mean measured here; {above} lie on or above the identity line, "
        f"{len(shown) - above} below. The table that follows has all of them."
    )


def _frame(axes: Axes) -> str:
    left, right, top, bottom = MARGIN, MARGIN + SIZE, TOP, TOP + SIZE
    lines = [f'<line class="identity" x1="{left}" y1="{bottom}" x2="{right}" y2="{top}"/>']
    for tick in axes.ticks():
        x, y = axes.x(tick), axes.y(tick)
        lines += [
            f'<line class="grid" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>',
            f'<line class="grid" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>',
            f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{tick}</text>',
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{tick}</text>',
        ]
    middle = TOP + SIZE / 2
    lines += [
        f'<text class="axis" x="{MARGIN + SIZE / 2}" y="{bottom + 40}" text-anchor="middle">reported, %</text>',
        f'<text class="axis" transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">measured, %</text>',
    ]
    return "\n".join(lines)


def _mark(point: Point, series: int, axes: Axes) -> str:
    x, y, (low, high) = axes.x(point.middle), axes.y(point.measured), point.reported
    least, most = map(axes.y, point.interval)
    bars = f'<line x1="{x}" x2="{x}" y1="{least}" y2="{most}"/>'
    if high > low:
        bars += f'<line x1="{axes.x(low)}" x2="{axes.x(high)}" y1="{y}" y2="{y}"/>'
    slug = point.entry.replace("/", "-")
    return (
        f'<a class="point series-{series}" data-entry="{slug}" href="#entry-{slug}" tabindex="-1">'
        f"<title>{escape(point.text)}</title>{bars}{shape(series, x, y)}</a>"
    )


def shape(series: int, x: float, y: float, r: float = 4.5) -> str:
    """The marker of the series-th paper: shapes differ, so colour is not needed to tell papers apart."""
    corners = SHAPES[series % len(SHAPES)]
    if not corners:
        return f'<circle cx="{x}" cy="{y}" r="{r}"/>'
    return f'<polygon points="{" ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners)}"/>'
