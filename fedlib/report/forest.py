"""The forest plot of a claim, as `comparisons` describes it, drawn with Matplotlib."""

import textwrap
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedlib.report.comparisons import Axis, axis, colour, margin_of, ordered
from fedlib.report.verdicts import COLOURS, PLURALS

WIDTH = 5.2  # inches: labels stay legible where a phone shrinks the picture
ROOMY, DENSE = (0.27, 9.5), (0.165, 7.5)  # inches per row and size of its label: up to FEW rows, and from MANY on
FEW, MANY = 12, 36
LONGEST = 36  # characters of a label
MARKERS = {"holds": "o", "reversed": "X", "undecided": "o"}
HOLLOW = ("undecided",)


def draw(line: dict[str, Any]) -> Figure:
    """One row per comparison, the largest effect on top, with the margin as a line (near: as a band)."""
    rows = ordered(line)
    pitch, size = _density(len(rows))
    fig, ax = plt.subplots(figsize=(WIDTH, pitch * (len(rows) + 1) + 1.2), layout="constrained")
    shown = axis(line)
    _frame(ax, line, shown)
    for at, row in enumerate(rows):
        _row(ax, row, COLOURS[colour(line, row["outcome"])], at, shown, size)
    if line["averaged"]:
        ax.axhline(0.5, color="0.6", linewidth=0.8)
    ax.set_yticks(range(len(rows)), [textwrap.shorten(row["label"], LONGEST, placeholder=" …") for row in rows])
    ax.tick_params(axis="y", labelsize=size, length=0, pad=8)
    ax.tick_params(axis="x", labelsize=8.5)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(False, axis="y")
    seaborn.despine(ax=ax, left=True)
    _explain(fig, line)
    return fig


def _density(rows: int) -> tuple[float, float]:
    """Inches per row and size of the labels: the more rows, the closer together."""
    share = min(max((rows - FEW) / (MANY - FEW), 0.0), 1.0)
    pitch, size = (roomy + share * (dense - roomy) for roomy, dense in zip(ROOMY, DENSE, strict=True))
    return pitch, size


def _frame(ax: Axes, line: dict[str, Any], shown: Axis) -> None:
    """The axis of effects, with the margin that a comparison has to pass."""
    margin, near = margin_of(line), any(row["near"] for row in line["comparisons"])
    if shown.threshold is not None:
        ax.set_xscale("function", functions=(np.vectorize(shown.stretched), np.vectorize(shown.shrunk)))
        ax.set_xticks(shown.ticks() or [], [f"{tick:g}" for tick in shown.ticks() or []])
    ax.set_xlim(shown.low, shown.high)
    if near:
        ax.axvspan(-margin, margin, color="0.92", zorder=0)
    for at in {margin, -margin} if near else {margin}:
        ax.axvline(at, color="0.15", linewidth=1.3, zorder=1)
    if margin:
        ax.axvline(0, color="0.55", linewidth=0.8, linestyle=":", zorder=1)
    side = "inside the band" if near else "right of the line"
    quantity = line["quantity"].replace("_", " ") or "the number"
    logarithmic = "" if shown.threshold is None else " (logarithmic)"
    ax.set_xlabel(f"effect on {quantity}{logarithmic}\n{side}: as claimed", fontsize=9)


def _row(ax: Axes, row: dict[str, Any], hue: str, at: int, shown: Axis, size: float) -> None:
    if row["effect"] is None:
        ax.annotate(
            row["outcome"],
            (0.5, at),
            xycoords=("axes fraction", "data"),
            color=hue,
            fontsize=size,
            fontstyle="italic",
            ha="center",
            va="center",
        )
        return
    if row["interval"]:
        low, high = shown.cut(row["interval"])
        ax.plot([low, high], [at, at], color=hue, linewidth=1.6, solid_capstyle="butt", zorder=2)
        for end, wanted, arrow in ((low, row["interval"][0], "<"), (high, row["interval"][1], ">")):
            if end != wanted:
                ax.plot([end], [at], arrow, color=hue, markersize=0.55 * size, clip_on=False, zorder=2)
    face = "white" if row["outcome"] in HOLLOW else hue
    ax.plot(
        [row["effect"]],
        [at],
        MARKERS[row["outcome"]],
        markerfacecolor=face,
        markeredgecolor=hue,
        markeredgewidth=1.4,
        markersize=0.75 * size,
        zorder=3,
    )


def _explain(fig: Figure, line: dict[str, Any]) -> None:
    """The marks with their counts, below the axis."""
    counts = line["counts"]
    handles = [
        Line2D(
            [],
            [],
            linestyle="-",
            linewidth=1.6,
            marker=marker,
            markersize=6.5,
            color=COLOURS[colour(line, outcome)],
            markerfacecolor="white" if outcome in HOLLOW else COLOURS[colour(line, outcome)],
            markeredgewidth=1.4,
            label=f"{counts[outcome]} {outcome if counts[outcome] == 1 else PLURALS.get(outcome, outcome)}",
        )
        for outcome, marker in MARKERS.items()
        if counts[outcome]
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
