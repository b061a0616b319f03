"""Figures of the FedGS time notebook: Proposition 4 as four sweeps, time to a target, a round's time with sliders."""

from dataclasses import replace

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.papers.fedgs import results
from fedlib.papers.fedgs.experiments.timing import RATIOS, ROUND_SECONDS, RoundTiming, flips, sweep, threshold
from fedlib.report import sliders

COLOURS = seaborn.color_palette("colorblind")
LINES = dict(zip(ROUND_SECONDS, ((0, "-"), (1, "-"), (2, (0, (4, 2)))), strict=True))
LABELS = {
    "iterations": "iterations a round T",
    "factories": "factories M",
    "selected": "devices selected from each factory L",
    "ratio": "ratio of bandwidths $B_{int}/B_{ext}$",
}


def proposition_4(frame: pd.DataFrame, timing: RoundTiming) -> Figure:
    """Four panels; in each, one quantity changes and the others stay; a dotted line where the condition changes."""
    fig, panels = plt.subplots(2, 2, figsize=(11, 7), layout="constrained")
    for axes, (name, points) in zip(panels.flat, frame.groupby("sweep", sort=False), strict=True):
        _lines(axes, points, "value", "seconds")
        place = flips(timing)[name]
        if points["value"].min() <= place <= points["value"].max():
            axes.axvline(place, color="black", linestyle=":", linewidth=1.5)
        axes.axvline(getattr(timing, name), color="0.75", linewidth=6, alpha=0.5, zorder=0)
        axes.set(xlabel=LABELS[name], ylabel="time of a round in s", yscale="log")
    panels[1, 1].set_xscale("log")
    panels[1, 1].axvspan(*RATIOS, color=COLOURS[8], alpha=0.15)
    panels[1, 1].text(11, panels[1, 1].get_ylim()[1] * 0.72, "printed range", fontsize=9, color="0.3")
    fig.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return fig


def _lines(axes: Axes, frame: pd.DataFrame, x: str, y: str) -> None:
    for method, points in frame.groupby("method", sort=False):
        colour, dash = LINES[method]
        axes.plot(points[x], points[y], color=COLOURS[colour], linestyle=dash, linewidth=2, label=method)


def hours_to_target(frame: pd.DataFrame) -> Figure:
    """Time to the target over the ratio."""
    fig, axes = plt.subplots(figsize=(8, 4.2))
    _lines(axes, frame, "ratio", "hours")
    axes.axvspan(*RATIOS, color=COLOURS[8], alpha=0.15)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["ratio"], ylabel="hours to 82%, rounds of Table II")
    axes.legend()
    return fig


def round_times(timing: RoundTiming) -> tuple[Figure, str]:
    """Time of a round over the ratio for one setting, and the answer in words."""
    fig, axes = plt.subplots(figsize=(7.5, 4))
    _lines(axes, sweep(timing, {"ratio": np.geomspace(1, 300, 60)}), "value", "seconds")
    axes.axvline(float(timing.ratio), color="0.75", linewidth=6, alpha=0.6, zorder=0)
    place = float(threshold(timing))
    if 1 <= place <= 300:
        axes.axvline(place, color="black", linestyle=":", linewidth=1.5)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["ratio"], ylabel="time of a round in s")
    axes.set_title(f"T = {timing.iterations:g}, M = {timing.factories:g}, L = {timing.selected:g}")
    axes.legend()
    return fig, results.who_is_faster(timing)


def timing_explorer(timing: RoundTiming) -> ipywidgets.VBox:
    """Sliders on Proposition 4, starting at this setting: T, M, L, the ratio of bandwidths and T_select."""
    seconds = {"min": 0, "max": 2, "step": 0.005, "readout_format": ".3f"}
    return sliders.explorer(
        lambda **values: round_times(replace(timing, **values)),
        iterations=ipywidgets.IntSlider(int(timing.iterations), min=1, max=200, description="T"),
        factories=ipywidgets.IntSlider(int(timing.factories), min=1, max=50, description="M"),
        selected=ipywidgets.IntSlider(int(timing.selected), min=1, max=40, description="L"),
        ratio=ipywidgets.FloatLogSlider(timing.ratio, min=0, max=2.4, step=0.05, description="ratio"),
        select_s=ipywidgets.FloatSlider(timing.select_s, **seconds, description="select, s"),
    )
