"""Figures of the FedSR notebooks: the topologies (Figs. 1, 2 and 4), curves, and the final accuracy over a setting."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch
from matplotlib.ticker import NullFormatter, PercentFormatter
from matplotlib.typing import ColorType

from fedlib.papers.fedsr.experiments import base
from fedlib.papers.fedsr.results import CURRENCIES, guess_level, printed_rounds
from fedlib.report import plots

Place = tuple[float, float]  # x and y on a canvas

COLOURS = seaborn.color_palette("colorblind")
SERVER, DEVICE, DOWN, UP, RING = COLOURS[0], COLOURS[1], COLOURS[4], COLOURS[2], COLOURS[3]
# Colour and dash of each method, the same in all figures.
LOOKS = {
    "Centralized": ("0.35", (0, (1, 1))),
    "FedAvg": (COLOURS[0], "-"),
    "FedProx": (COLOURS[1], (0, (4, 2))),
    "MOON": (COLOURS[4], (0, (5, 1, 1, 1))),
    "HierFAVG": (COLOURS[2], (0, (3, 1))),
    "ring-optimization": (COLOURS[5], (0, (6, 2))),
    "FedSR": (COLOURS[3], "-"),
}


def _canvas(width: float, height: float, panels: int = 1) -> tuple[Figure, Sequence[Axes]]:
    fig, row = plt.subplots(1, panels, figsize=(width, height), squeeze=False)
    for axes in row[0]:
        axes.set_aspect("equal")
        axes.axis("off")
    return fig, row[0]


def _box(axes: Axes, x: float, y: float, text: str, width: float = 1.7, height: float = 0.55) -> None:
    plots.box(axes, (x - width / 2, y - height / 2), (width, height), text, SERVER)


def _device(axes: Axes, x: float, y: float, text: str, busy: bool = False, radius: float = 0.26) -> None:
    axes.add_patch(Circle((x, y), radius, fc=RING if busy else "white", ec=RING if busy else DEVICE, lw=1.8, zorder=3))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color="white" if busy else "black", zorder=4)


def _arrow(
    axes: Axes,
    start: Place,
    end: Place,
    colour: ColorType,
    bend: float = 0.0,
    gap: float | tuple[float, float] = 12,
    width: float = 1.6,
) -> None:
    """`gap` in points is the distance kept at both ends, or at start and end."""
    shape, (before, after) = f"arc3,rad={bend}", gap if isinstance(gap, tuple) else (gap, gap)
    look = {"arrowstyle": "-|>", "mutation_scale": 11, "color": colour, "lw": width}
    axes.add_patch(FancyArrowPatch(start, end, connectionstyle=shape, shrinkA=before, shrinkB=after, **look))


def _flows(*rows: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["from", "to", "what"])


def star(devices: int = 6) -> tuple[Figure, pd.DataFrame]:
    """Fig. 1: every device exchanges models with the cloud."""
    fig, (axes,) = _canvas(6.2, 4.2)
    axes.set(xlim=(-3.4, 3.4), ylim=(-2.3, 2.3))
    for angle, number in zip(np.linspace(0, 2 * np.pi, devices, endpoint=False), range(1, devices + 1), strict=True):
        place = (2.6 * np.cos(angle), 1.8 * np.sin(angle))
        _arrow(axes, (0, 0), place, DOWN, bend=0.12, gap=(36, 18))
        _arrow(axes, place, (0, 0), UP, bend=0.12, gap=(18, 36))
        _device(axes, *place, str(number))
    _box(axes, 0, 0, "cloud\naverages", width=1.0)
    axes.text(-3.35, -2.2, "global model $w$", color=DOWN, fontsize=10)
    axes.text(3.35, -2.2, "local models $w_i$", color=UP, fontsize=10, ha="right")
    down, up = ("cloud", "every device", "global model w"), ("every device", "cloud", "local model w_i after E epochs")
    return fig, _flows(down, up)


def _ring_places(centre: Place, radius: float, devices: int = 4) -> list[Place]:
    """Devices clockwise from the top left."""
    angles = np.pi * 0.75 - 2 * np.pi * np.arange(devices) / devices
    return [(centre[0] + radius * np.cos(angle), centre[1] + radius * np.sin(angle)) for angle in angles]


def _draw_ring(
    axes: Axes,
    places: list[Place],
    busy: tuple[int, ...] = (),
    active: tuple[int, ...] = (),
    radius: float = 0.26,
) -> None:
    """Devices on a ring; `busy` devices and `active` transfers (by position of the sender) are drawn bold."""
    for k, place in enumerate(places):
        colour, width = (RING, 2.6) if k in active else ("0.75", 1.6)
        _arrow(axes, place, places[(k + 1) % len(places)], colour, -0.3, 52 * radius, width)
        _device(axes, *place, str(k + 1), busy=k in busy, radius=radius)


def ring_pass() -> tuple[Figure, pd.DataFrame]:
    """Fig. 2: train, pass the model on, around the ring."""
    fig, row = _canvas(10, 3.8, panels=3)
    steps = [
        ("1  device 1 trains the model\nthat came from device 4", (0,), (3,)),
        ("2  it hands the model\nto device 2", (), (0,)),
        ("3  train and hand on\nuntil the ring is closed", (1, 2, 3), (1, 2)),
    ]
    for axes, (title, busy, active) in zip(row, steps, strict=True):
        axes.set(xlim=(-1.6, 1.6), ylim=(-1.5, 1.5))
        _draw_ring(axes, _ring_places((0, 0), 1.1), busy, active)
        axes.set_title(title, fontsize=10.5)
    closing, next_one = (
        ("device 4", "device 1", "model of the last pass"),
        ("device k", "device k + 1", "model after a visit"),
    )
    return fig, _flows(closing, next_one)


def star_of_rings(rings: int = 3) -> tuple[Figure, pd.DataFrame]:
    """Fig. 4: cloud, edge servers, rings."""
    fig, (axes,) = _canvas(9.6, 5.2)
    axes.set(xlim=(-4.9, 4.9), ylim=(-2.6, 2.5))
    _box(axes, 0, 2.1, "cloud: averages the rings by data size, Eq. (11)", width=4.6)
    for m in range(rings):
        x = 3.2 * (m - (rings - 1) / 2)
        anchor = (0.5 * x, 1.85)
        _arrow(axes, (anchor[0] - 0.12, anchor[1]), (x - 0.15, 0.85), DOWN, gap=2)
        _arrow(axes, (x + 0.15, 0.85), (anchor[0] + 0.12, anchor[1]), UP, gap=2)
        _box(axes, x, 0.55, f"edge server {m + 1 if m < rings - 1 else 'M'}", width=1.7, height=0.45)
        places = _ring_places((x, -1.4), 0.85)
        _draw_ring(axes, places, active=(0, 1, 2, 3), radius=0.24)
        _arrow(axes, (x - 0.45, 0.3), places[0], DOWN, gap=(2, 15))
        _arrow(axes, places[3], (x - 0.75, 0.3), UP, bend=-0.35, gap=(15, 2))
    axes.text(-4.85, 1.5, "global model", color=DOWN, fontsize=10)
    axes.text(4.85, 1.5, "ring models $w^m$", color=UP, fontsize=10, ha="right")
    flows = _flows(
        ("cloud", "edge servers", "global model"),
        ("edge server", "first device of its ring", "global model"),
        ("device k", "device k + 1", "model after one local epoch, R passes"),
        ("last device of the ring", "edge server", "ring model w^m"),
        ("edge servers", "cloud", "ring models, averaged by data size"),
    )
    return fig, flows


def learning_rate(frame: pd.DataFrame) -> Figure:
    """Fig. 6: the learning rate of each round, on a cosine."""
    fig, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    axes.plot(frame["round"], frame["lr"], color=COLOURS[0])
    axes.set(xlabel="communication round", ylabel="learning rate", ylim=(0, None))
    return fig


def learning_curves(curves: pd.DataFrame) -> Figure:
    """One panel per data set (down) and partition (across), one line per method, a band of one standard deviation.

    A dotted line marks what a guess scores.
    """
    rows = list(curves["data_set"].unique())
    columns = {name: list(runs["partition"].unique()) for name, runs in curves.groupby("data_set", sort=False)}
    width = max(map(len, columns.values()))
    size = (1.2 + (2.5 if width > 2 else 3.4) * width, 0.9 + 2.3 * len(rows))
    fig, grid = plt.subplots(len(rows), width, figsize=size, sharey="row", squeeze=False, layout="constrained")
    for panels, data_set in zip(grid, rows, strict=True):
        for axes in panels[len(columns[data_set]) :]:
            axes.axis("off")
        for axes, partition in zip(panels, columns[data_set], strict=False):
            chosen = curves[(curves["data_set"] == data_set) & (curves["partition"] == partition)]
            for method, runs in chosen.groupby("method", sort=False):
                _band(axes, runs, method)
            axes.axhline(guess_level(data_set), color="0.4", linestyle=":", linewidth=1)
            axes.set_title(f"{data_set}, {partition}", fontsize=10)
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        top = curves.loc[curves["data_set"] == data_set, "accuracy"].max()
        panels[0].set(ylabel="test accuracy", ylim=(0, max(1.1 * top, 2.5 * guess_level(data_set))))
    fig.supxlabel("communication round", fontsize=11)
    _shared_legend(fig, grid)
    return fig


def _band(axes: Axes, runs: pd.DataFrame, method: str, along: str = "round") -> None:
    colour, dash = LOOKS[method]
    look = {"color": colour, "linestyle": dash, "linewidth": 1.7}
    plots.band(axes, runs, "accuracy", method, look, along)


def _shared_legend(fig: Figure, grid: np.ndarray) -> None:
    handles = {}
    for axes in grid.flat:
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    names = [name for name in LOOKS if name in handles]
    fig.legend([handles[name] for name in names], names, loc="outside upper center", ncols=len(names), frameon=False)


def headline(reached: pd.DataFrame, target: float) -> Figure:
    """Rounds to the target, one row per method: a dot per seed, hollow with one local epoch, a diamond if printed.

    `reached` are rows of `results.reaching` on MNIST; an arrow marks runs that never reached the target.
    """
    methods = list(dict.fromkeys(map(base, reached["method"])))
    printed = printed_rounds()["mnist"]
    fig, axes = plt.subplots(figsize=(7.6, 0.9 + 0.62 * len(methods)), layout="constrained")
    for row, method in enumerate(methods):
        for name, runs in reached[reached["method"].map(base) == method].groupby("method", sort=False):
            one = name != method
            colour, height = LOOKS[method][0], row + (0.17 if one else -0.17)
            look = {"facecolors": "white" if one else colour, "edgecolors": colour, "linewidths": 1.5, "zorder": 3}
            for arrived, part in runs.groupby("reached"):
                marks = {"marker": "o" if arrived else ">", "s": 52}
                axes.scatter(part["rounds_at_least"], np.full(len(part), height), **look, **marks)
            axes.plot([runs["rounds_at_least"].min(), runs["rounds_at_least"].max()], [height] * 2, color=colour, lw=1)
        if method in printed:
            axes.scatter(printed[method], row, marker="D", s=70, color="black", zorder=4)
    axes.set_xscale("log")
    ticks = [2, 5, 10, 20, 50, 100, 200, 500]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(methods)), methods)
    axes.set(xlabel=f"rounds to {target:.0%} on MNIST, xi = 2", ylim=(len(methods) - 0.5, -0.5))
    axes.grid(False, axis="y")
    _explain_headline(fig)
    return fig


def _explain_headline(fig: Figure) -> None:
    dots = {"marker": "o", "linestyle": "", "color": "0.3", "markersize": 7}
    handles = [
        Line2D([], [], **dots, label="five epochs per device and round"),
        Line2D([], [], **dots, markerfacecolor="white", label="one epoch"),
        Line2D([], [], marker="D", linestyle="", color="black", markersize=7, label="printed, for 90%"),
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)


def currencies(curves: pd.DataFrame) -> Figure:
    """Fig. 5, extended: accuracy over each currency (across) by partition (down); see `results.priced`."""
    partitions = list(curves["partition"].unique())
    size = (13, 0.9 + 2.4 * len(partitions))
    fig, grid = plt.subplots(
        len(partitions), len(CURRENCIES), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for panels, partition in zip(grid, partitions, strict=True):
        for axes, currency in zip(panels, CURRENCIES, strict=True):
            chosen = curves[(curves["partition"] == partition) & (curves["currency"] == currency)]
            for method, runs in chosen.groupby("method", sort=False):
                _band(axes, runs, str(method), "spent")
            axes.set(xscale="log", title=f"{currency}, {partition}")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.title.set_fontsize(10)
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        panels[0].set_ylabel("test accuracy")
    _shared_legend(fig, grid)
    return fig


def inputs(curves: pd.DataFrame, printed: dict[str, float]) -> Figure:
    """Held-out accuracy over epochs of centralised training, one panel per data set, one line per kind of input.

    `printed` has the centralised accuracy of Table II as a share, drawn dashed.
    """
    names = list(curves["data_set"].unique())
    fig, row = plt.subplots(1, len(names), figsize=(1.5 + 4 * len(names), 3.6), squeeze=False, layout="constrained")
    kinds = list(curves["inputs"].unique())
    for axes, data_set in zip(row[0], names, strict=True):
        for kind, runs in curves[curves["data_set"] == data_set].groupby("inputs", sort=False):
            at = kinds.index(kind)
            look = {"color": COLOURS[at], "marker": "os^D"[at], "markersize": 4}
            mean = runs.groupby("round")["accuracy"].mean()  # over seeds, where there are several
            axes.plot(mean.index, mean, label=kind, **look)
        axes.axhline(printed[data_set], color="0.25", linestyle="--", linewidth=1.2)
        axes.set(title=data_set, xlabel="epoch")
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.legend(loc="lower right", fontsize=8)
    row[0, 0].set_ylabel("accuracy on held-out samples")
    return fig


def ring_draws(draws: pd.DataFrame, rings: int) -> Figure:
    """Fig. 7: histograms of the sum of squares, with 1/M and the bound."""
    fig, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    bins = np.arange(0.19, max(0.53, draws["sum_of_squares"].max() + 0.01), 0.005)
    for position, (partition, rows) in enumerate(draws.groupby("partition", sort=False)):
        axes.hist(rows["sum_of_squares"], bins.tolist(), alpha=0.6, color=COLOURS[position], label=partition)
    axes.axvline(1 / rings, color="0.4", linestyle=":", label=f"equal rings, 1/{rings}")
    axes.axvline(0.5, color="black", linestyle="--", label="bound 1/2")
    axes.set(xlabel="sum of squared ring weights", ylabel="draws")
    axes.legend(loc="upper center")
    return fig


def heat_maps(counts: pd.DataFrame) -> Figure:
    """Fig. 8: samples by device and class (`experiments.device_counts`)."""
    partitions = counts["partition"].unique()
    fig, panels = plt.subplots(len(partitions), 1, figsize=(8.5, 2.9 * len(partitions)), layout="constrained")
    for axes, partition in zip(panels, partitions, strict=True):
        rows = counts[counts["partition"] == partition]
        plots.heatmap(rows.pivot(index="device", columns="class", values="samples").to_numpy(), ax=axes)
        axes.set_title(partition)
        axes.set_xlabel("device")
    return fig


def by_setting(ends: pd.DataFrame, setting: str, hue: str, label: str, column: str | None = None) -> Figure:
    """Figs. 9 and 10: the accuracy at the end over a setting, one line per level of `hue`; bars of one deviation."""
    levels = list(ends[column].unique()) if column else [None]
    size = (1.5 + 4 * len(levels), 3.8)
    fig, row = plt.subplots(1, len(levels), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axes, level in zip(row[0], levels, strict=True):
        chosen = ends if level is None else ends[ends[column] == level]
        for position, (name, rows) in enumerate(chosen.groupby(hue, sort=False)):
            at = rows.groupby(setting)["accuracy"]
            look = {"color": COLOURS[position], "marker": "os"[position], "linestyle": ("-", "--")[position]}
            axes.errorbar(at.mean().index, at.mean(), yerr=at.std().fillna(0), label=name, capsize=3, **look)
        axes.set(xlabel=label, title=level or "")
        axes.set_xticks(sorted(ends[setting].unique()))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    row[0, 0].set_ylabel("test accuracy at the end")
    row[0, 0].legend(title=None)
    return fig
