"""Figures of the ACFMO notebooks."""

from collections.abc import Mapping
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy import ndarray
from scipy.special import expit, logit

from fedlib.papers.acfmo.experiments import BATCH_SUMS, DEVICE_SUMS, PAPERS, READINGS, TUNED
from fedlib.report import plots

Scale = Literal["linear", "log", "logit"]
TRANSFORMS = {"linear": (np.asarray, np.asarray), "log": (np.log, np.exp), "logit": (logit, expit)}  # and back
SMALLEST = 1e-6  # a share this near to 0 or 1 is drawn as if it were
Facet = tuple[str, str]  # a column of the data, and how its levels are named: ("participation", "{}% of the devices")
Marks = Mapping[object, float]


def sample_and_split(image: pd.DataFrame, counts: ndarray) -> Figure:
    """One image of the data set (`experiments.first_image`), and which device holds how many samples of each class."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=[1, 1.6])
    left.imshow(image.drop(columns="label"), cmap="gray_r")
    left.set(title=f"one sample, label {image['label'].iloc[0]}", xticks=[], yticks=[])
    plots.heatmap(counts, ax=right)
    return fig


READING_NAMES = {
    "printed": "equations as printed",
    "current": "with this round's moments",
    "unnormalised": "unnormalised moments",
}
RATE_NAMES = {
    PAPERS: "the paper's rate\nfor every method,\nmean gradients",
    BATCH_SUMS: "the same,\nsums over a batch",
    DEVICE_SUMS: "the same,\nsums over a device",
    TUNED: "every method\ntuned",
}


def mean_leads(leads: pd.DataFrame, printed: tuple[float, float]) -> Figure:
    """ACFMO's lead with its interval for each set of step sizes and each reading, beside the printed range, in points.

    `leads` are those of `results.mean_leads`.
    """
    fig, ax = plt.subplots(figsize=(8.5, 6))
    ax.axvspan(*printed, color="0.85", zorder=0)
    ax.text(float(np.mean(printed)), -0.8, "printed", ha="center", va="center", color="0.35")
    ax.axvline(0, color="black", linewidth=0.8)
    blue, orange = seaborn.color_palette("colorblind")[0], seaborn.color_palette("colorblind")[3]
    for place, (rates, name) in enumerate(RATE_NAMES.items()):
        colour = blue if rates == TUNED else orange
        for i, reading in enumerate(READINGS):
            runs = leads[(leads["rates"] == rates) & (leads["reading"] == reading)]
            _draw_lead(ax, 100 * runs["lead"], 3.6 * place + i, colour)
        beside = {"x": 1.02, "y": 3.6 * place + 1, "transform": ax.get_yaxis_transform()}
        ax.text(s=name, va="center", color=colour, weight="bold", **beside)
    rows = [3.6 * place + i for place in range(len(RATE_NAMES)) for i in range(len(READINGS))]
    ax.set_yticks(rows, [READING_NAMES[reading] for reading in READINGS] * len(RATE_NAMES))
    ax.set(ylim=(max(rows) + 0.6, -1.3), xlabel="ACFMO's lead over FedALA and FedDBE, in points of accuracy")
    ax.margins(x=0.12)
    ax.grid(axis="y", visible=False)
    return fig


def _draw_lead(ax: Axes, points: pd.Series, row: float, colour: tuple[float, float, float]) -> None:
    """A mean with its interval, which a single seed has not, and its value beside it."""
    mean, (low, high) = points.mean(), plots.interval(points)
    ax.errorbar(mean, row, xerr=[[mean - low], [high - mean]], fmt="o", color=colour, capsize=3, markersize=7)
    ax.text(np.nanmax([mean, high]) + 0.6, row, f"{mean:+.1f}", va="center")


# Curves over rounds


def curves(
    frame: pd.DataFrame,
    value: str,
    ylabel: str,
    rows: Facet,
    columns: Facet,
    hue: str = "method",
    scale: Scale = "linear",
    ticks: list[float] | None = None,
    optimum: float | Marks | None = None,
    marks: Marks | None = None,
) -> Figure:
    """A panel for each level of `rows` and `columns`, one line per level of `hue`: the mean over seeds, with a band of
    one standard deviation, both taken on the axis they are drawn on.

    A dashed line marks the centralised `optimum`, of all panels or by level of the rows; a dotted one what the paper
    prints, by level of the columns.
    """
    down, across, lines = (list(frame[name].unique()) for name in (rows[0], columns[0], hue))
    size = (1.6 + 2.9 * len(across), 0.9 + 2.5 * len(down))
    fig, grid = plt.subplots(len(down), len(across), figsize=size, sharex=True, sharey=True, squeeze=False)
    looks = dict(zip(lines, _looks(lines), strict=True))
    for i, row in enumerate(down):
        for k, column in enumerate(across):
            ax, panel = grid[i][k], frame[(frame[rows[0]] == row) & (frame[columns[0]] == column)]
            for line, runs in panel.groupby(hue, sort=False):
                _draw_line(ax, band(runs, value, scale), looks[line])
            best = optimum.get(row) if isinstance(optimum, Mapping) else optimum
            _draw_levels(ax, best, (marks or {}).get(column))
            ax.set_visible(not panel.empty)
            titles = [text.format(level) for text, level in ((rows[1], row), (columns[1], column))]
            ax.set_title(", ".join(filter(None, titles)), fontsize=10)
            _set_scale(ax, scale, ticks)
    for column in grid.T:
        lowest = [ax for ax in column if ax.get_visible()][-1]
        lowest.set_xlabel("communication round")
        lowest.tick_params(labelbottom=True)
    for ax in grid[:, 0]:
        ax.set_ylabel(ylabel)
    _explain(fig, looks, optimum is not None, bool(marks))
    return fig


def band(runs: pd.DataFrame, value: str, scale: Scale) -> pd.DataFrame:
    """Mean over seeds and mean -+ standard deviation of each round, taken on the transformed axis and brought back:
    columns low, middle, high, by round."""
    there, back = TRANSFORMS[scale]
    numbers = (
        runs[value].clip(SMALLEST, 1 - SMALLEST if scale == "logit" else None) if scale != "linear" else runs[value]
    )
    grouped = pd.Series(there(numbers.to_numpy()), runs["round"].to_numpy()).groupby(level=0)
    mean, deviation = grouped.mean(), grouped.std().fillna(0)
    return pd.DataFrame(
        {"low": back(mean - deviation), "middle": back(mean), "high": back(mean + deviation)}, mean.index
    )


def _looks(lines: list) -> list[dict]:
    """A colour and a dash for each line; the readings of ACFMO share a colour."""
    dashes = ["-", "--", (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (6, 2)), (0, (3, 1, 1, 1, 1, 1)), "-.", "-", "--"]
    palette = seaborn.color_palette("colorblind", 10)
    readings = [f"ACFMO, {reading}" for reading in READINGS]
    others = [line for line in lines if line not in readings]
    looks = []
    for line in lines:
        if line in readings:
            looks.append({"color": "black", "linestyle": dashes[readings.index(line)], "linewidth": 1.8})
        else:
            number = others.index(line)
            looks.append({"color": palette[number % 10], "linestyle": dashes[number % 9], "linewidth": 1.4})
    return looks


def _draw_line(ax: Axes, drawn: pd.DataFrame, look: dict) -> None:
    ax.fill_between(drawn.index, drawn["low"], drawn["high"], color=look["color"], alpha=0.15, linewidth=0)
    ax.plot(drawn.index, drawn["middle"], **look)


def _draw_levels(ax: Axes, optimum: float | None, mark: float | None) -> None:
    if optimum is not None:
        ax.axhline(optimum, color="0.45", linestyle=(0, (8, 3)), linewidth=1)
    if mark is not None:
        ax.axhline(mark, color="0.25", linestyle=":", linewidth=1.3)


def _set_scale(ax: Axes, scale: Scale, ticks: list[float] | None) -> None:
    ax.set_yscale(scale)
    if ticks:
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
    if ticks and scale == "logit":
        ax.set_ylim(ticks[0], 1 - (1 - ticks[-1]) / 1.5)


def _explain(fig: Figure, looks: dict, optimum: bool, marks: bool) -> None:
    handles = [Line2D([], [], label=str(line), **look) for line, look in looks.items()]
    if optimum:
        handles.append(Line2D([], [], color="0.45", linestyle=(0, (8, 3)), linewidth=1, label="centralised optimum"))
    if marks:
        handles.append(Line2D([], [], color="0.25", linestyle=":", linewidth=1.3, label="printed for ACFMO"))
    fig.tight_layout()
    fig.legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def sizes(counts: ndarray) -> Figure:
    """How many samples the devices of an unequal split hold."""
    fig, axes = plt.subplots(figsize=(7, 3.2))
    axes.hist(counts.sum(axis=1), bins=40)
    axes.set(xlabel="samples of a device", ylabel="devices")
    return fig


# The grid of decay rates


def grids(ends: pd.DataFrame, value: str = "accuracy", scale: float = 100, digits: int = 1) -> Figure:
    """One grid per reading, side by side: the mean over seeds for each pair of decay rates.

    Each grid has its own scale of colours, so that its darkest corner shows however close its cells are.
    """
    means = ends.groupby(["variant", "beta1", "beta2"], sort=False)[value].mean().mul(scale)
    fig, axes = plt.subplots(1, len(READINGS), figsize=(13, 3.6), layout="constrained")
    for ax, reading in zip(axes, READINGS, strict=True):
        cells = means[reading].unstack("beta2").sort_index(ascending=False)
        seaborn.heatmap(cells, ax=ax, annot=True, fmt=f".{digits}f", cmap="viridis", cbar=False, linewidths=1)
        span = f"{cells.min().min():.{digits}f} to {cells.max().max():.{digits}f}"
        ax.set(title=f"{reading}: {span}", xlabel=r"$\beta_2$", ylabel=r"$\beta_1$")
    return fig


def growth_factors(factors: pd.DataFrame, beta1: float = 0.9) -> Figure:
    """Growth factor per round over step x curvature, for both readings of Eq. (4)."""
    fig, axes = plt.subplots(figsize=(7, 3.8))
    axes.plot(factors["step x curvature"], factors["this round"], label="this round's moments")
    axes.plot(factors["step x curvature"], factors["lag"], linestyle="--", label="moments lag one round (as printed)")
    axes.axhline(1, color="0.25", linestyle=":")
    axes.set(xscale="log", xlabel="step size x curvature", ylabel="growth factor per round", ylim=(0.8, 2))
    axes.legend(title=rf"$\beta_1 = {beta1}$")
    return fig


def step_sizes(ends: pd.DataFrame, rounds: int) -> Figure:
    """Accuracy over the server's step, one line per reading of Eqs. (4) to (9)."""
    fig, axes = plt.subplots(figsize=(7, 3.8))
    for variant, runs in ends.groupby("variant", sort=False):
        dash = {"printed": "-", "current": "--", "unnormalised": ":"}[str(variant)]
        axes.plot(runs["server_lr"], runs["accuracy"], marker="o", linestyle=dash, label=variant)
    axes.set(xscale="log", xlabel=r"$\alpha_g^0$ (the paper: 0.02)", ylabel=f"accuracy after {rounds} rounds")
    axes.legend(title=None)
    return fig


def local_weight(weight: pd.DataFrame) -> Figure:
    """The local part over the central step, round by round, one line per participation level."""
    fig, axes = plt.subplots(figsize=(7, 3.8))
    for level, rows in weight.groupby("participation"):
        axes.plot(rows["round"], rows["ratio"], marker="o", markersize=3, label=f"{level:.0%} of the devices")
    axes.set(yscale="log", xlabel="communication round", ylabel="local part / central step")
    axes.set_xticks(range(0, 21, 5))
    axes.legend(title=None)
    return fig


def theory(rates: pd.DataFrame, curves: pd.DataFrame, minima: pd.DataFrame) -> Figure:
    """Local step and local iterations over the target rate, and the bound b(q) with its minima."""
    fig, (steps, iterations, bound) = plt.subplots(1, 3, figsize=(13, 3.8))
    steps.plot(rates["target"], rates["step"])
    steps.set(xlabel=r"target rate $\hat\varphi$", ylabel=r"local step $\alpha_l^*$")
    iterations.plot(rates["target"], rates["iterations"])
    iterations.set(xlabel=r"target rate $\hat\varphi$", ylabel="local iterations $K^*$", yscale="log")
    _draw_bound(bound, curves, minima)
    fig.tight_layout()
    return fig


def _draw_bound(axes: Axes, curves: pd.DataFrame, minima: pd.DataFrame) -> None:
    for target, curve in curves.groupby("target"):
        axes.plot(curve["q"], curve["b"], label=rf"$\hat\varphi$ = {target}")
    axes.plot(minima["q*"], minima["b(q*)"], "k^", label="minimum, Eq. (80)")
    axes.set(xlabel="q", ylabel="b(q)", yscale="log")
    axes.set_ylim(top=40 * curves["b"].max())
    axes.legend(title=None, ncols=2, loc="upper center")
