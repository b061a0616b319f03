"""Drawings of the FedGS time notebook: Proposition 4 as four sweeps, the time to a target, the sliders' picture."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.papers.fedgs.time_model import METHODS, RATIOS, Setting, flips, sweep, threshold

COLOURS = seaborn.color_palette("colorblind")
LINES = dict(zip(METHODS, ((0, "-"), (1, "-"), (2, (0, (4, 2)))), strict=True))
LABELS = {
    "iterations": "iterations a round T",
    "factories": "factories M",
    "selected": "devices selected from each factory L",
    "ratio": "ratio of bandwidths $B_{int}/B_{ext}$",
}


def proposition(frame: pd.DataFrame, s: Setting) -> Figure:
    """Four panels, one moves and the others stay; a dotted line where the condition changes sides."""
    fig, panels = plt.subplots(2, 2, figsize=(11, 7), layout="constrained")
    for axes, (name, own) in zip(panels.flat, frame.groupby("sweep", sort=False), strict=True):
        _lines(axes, own, "value", "seconds")
        place = flips(s)[name]
        if own["value"].min() <= place <= own["value"].max():
            axes.axvline(place, color="black", linestyle=":", linewidth=1.5)
        axes.axvline(getattr(s, name), color="0.75", linewidth=6, alpha=0.5, zorder=0)
        axes.set(xlabel=LABELS[name], ylabel="time of a round in s", yscale="log")
    panels[1, 1].set_xscale("log")
    panels[1, 1].axvspan(*RATIOS, color=COLOURS[8], alpha=0.15)
    panels[1, 1].text(11, panels[1, 1].get_ylim()[1] * 0.72, "printed range", fontsize=9, color="0.3")
    fig.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return fig


def _lines(axes: Axes, frame: pd.DataFrame, x: str, y: str) -> None:
    for method, own in frame.groupby("method", sort=False):
        colour, dash = LINES[method]
        axes.plot(own[x], own[y], color=COLOURS[colour], linestyle=dash, linewidth=2, label=method)


def hours(frame: pd.DataFrame) -> Figure:
    """Time to the target over the ratio."""
    fig, axes = plt.subplots(figsize=(8, 4.2))
    _lines(axes, frame, "ratio", "hours")
    axes.axvspan(*RATIOS, color=COLOURS[8], alpha=0.15)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["ratio"], ylabel="hours to 82%, rounds of Table II")
    axes.legend()
    return fig


def at(s: Setting) -> tuple[Figure, str]:
    """Time of a round over the ratio for one setting, and the answer in words."""
    fig, axes = plt.subplots(figsize=(7.5, 4))
    _lines(axes, sweep(s, {"ratio": np.geomspace(1, 300, 60)}), "value", "seconds")
    axes.axvline(s.ratio, color="0.75", linewidth=6, alpha=0.6, zorder=0)
    place = float(threshold(s))
    if 1 <= place <= 300:
        axes.axvline(place, color="black", linestyle=":", linewidth=1.5)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["ratio"], ylabel="time of a round in s")
    axes.set_title(f"T = {s.iterations:g}, M = {s.factories:g}, L = {s.selected:g}")
    axes.legend()
    return fig, answer(s)


def answer(s: Setting) -> str:
    """Who is faster, and what the condition says."""
    took = {name: float(seconds(s)) for name, seconds in METHODS.items()}
    times = ", ".join(f"{name}: {value:.0f} s" for name, value in took.items())
    place = float(threshold(s))
    if not np.isfinite(place):
        return f"{times}. With one device a factory there is nothing to save: FedAvg's round is never the longer one."
    holds = "holds" if place < s.ratio else "does not hold"
    return f"{times}. TL/(M(L-1)) = {place:.2f} < {s.ratio:g} {holds}."
