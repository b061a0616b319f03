"""Drawings of the FedGS notebooks on training: Fig. 6, the surfaces of Fig. 5, the heat maps of Fig. 7."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.papers.fedgs.comparison import BASELINE, FAMILIES, OURS

COLOURS = seaborn.color_palette("colorblind")
FIXED = {
    OURS: {"color": "black", "linewidth": 2.4},
    BASELINE.name: {"color": "0.55", "linewidth": 2.4, "linestyle": "--"},
}
DASHES = ("-", (0, (4, 1.5)), (0, (5, 1, 1, 1)), (0, (1, 1)))


def twelve(frame: pd.DataFrame) -> Figure:
    """Fig. 6: accuracy above loss for each family of rivals, FedGS and FedAvg in every panel."""
    fig, panels = plt.subplots(4, 3, figsize=(12, 13), sharex=True, sharey="row", layout="constrained")
    start, lowest = frame.loc[frame["round"] == 0, "loss"].max(), frame["loss"].min()
    for place, (family, members) in enumerate(FAMILIES.items()):
        row, column = 2 * (place // 3), place % 3
        above, below = panels[row, column], panels[row + 1, column]
        shown = [name for name in (OURS, BASELINE.name, *members) if (frame["method"] == name).any()]
        for axes, value in ((above, "accuracy"), (below, "loss")):
            _lines(axes, frame, shown, value)
        above.set_title(family)
        above.legend(*(reversed(part) for part in above.get_legend_handles_labels()), fontsize=8, loc="upper left")
        below.set_ylim(0.9 * lowest, 1.2 * start)  # a server that overshoots may leave the picture for a while
    for row, label in enumerate(("test accuracy", "test loss") * 2):
        panels[row, 0].set_ylabel(label)
    for axes in panels[-1]:
        axes.set_xlabel("communication round")
    return fig


def _lines(axes: Axes, frame: pd.DataFrame, shown: list[str], value: str) -> None:
    """Mean over seeds with a band of one standard deviation."""
    rivals = [name for name in shown if name not in FIXED]
    for name in reversed(shown):  # FedGS last, on top
        place = rivals.index(name) if name in rivals else 0
        look = FIXED.get(name) or {"color": COLOURS[place], "linestyle": DASHES[place], "linewidth": 1.7}
        by_round = frame[frame["method"] == name].groupby("round")[value]
        mean, spread = by_round.mean(), by_round.std().fillna(0)
        axes.plot(mean.index, mean, label=name, **look)
        axes.fill_between(mean.index, mean - spread, mean + spread, color=look["color"], alpha=0.15, linewidth=0)


def prices(frame: pd.DataFrame, costs: pd.DataFrame) -> Figure:
    """Accuracy of FedGS and FedAvg over rounds, sample gradients, and models that cross to the cloud."""
    scales = {
        "communication round": None,
        "sample gradients": "sample gradients",
        "models to and from the cloud": "models to and from the cloud",
    }
    of = costs.set_index("method")
    fig, row = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
    for axes, (label, column) in zip(row, scales.items(), strict=True):
        for name, payer in ((OURS, OURS), (BASELINE.name, "each rival")):
            mean = frame[frame["method"] == name].groupby("round")["accuracy"].mean()
            price = 1.0 if column is None else of.loc[payer, column]
            axes.plot(mean.index * price, mean, label=name, **FIXED[name])
        axes.set_xlabel(label)
    row[0].set_ylabel("test accuracy")
    row[0].legend()
    return fig


def surface(table: pd.DataFrame, xlabel: str, ylabel: str) -> Figure:
    """An accuracy surface seen from above, a number in each cell; cells that cannot exist stay blank."""
    fig, axes = plt.subplots(figsize=(6.2, 3.9), layout="constrained")
    _map(axes, table, xlabel, ylabel)
    fig.colorbar(axes.collections[0], ax=axes, label="test accuracy in %")
    return fig


def _map(axes: Axes, table: pd.DataFrame, xlabel: str, ylabel: str, limits: tuple = (None, None)) -> None:
    look = {"annot": True, "fmt": ".1f", "cmap": "mako", "cbar": False, "linewidths": 1}
    seaborn.heatmap(table, ax=axes, vmin=limits[0], vmax=limits[1], **look)
    axes.invert_yaxis()
    axes.grid(False)
    axes.set(xlabel=xlabel, ylabel=ylabel)


def rate_maps(tables: dict[str, pd.DataFrame], best: dict[str, tuple[float, float]]) -> Figure:
    """Fig. 7: one heat map a method, the best cell framed."""
    fig, row = plt.subplots(1, len(tables), figsize=(3.3 * len(tables), 3.6), layout="constrained")
    limits = min(table.min().min() for table in tables.values()), max(table.max().max() for table in tables.values())
    for axes, (name, table) in zip(np.atleast_1d(row), tables.items(), strict=True):
        _map(axes, table, "server learning rate", "client learning rate", limits)
        client, server = best[name]
        corner = table.columns.get_loc(server), table.index.get_loc(client)
        axes.add_patch(plt.Rectangle(corner, 1, 1, fill=False, edgecolor=COLOURS[1], linewidth=3, clip_on=False))
        axes.set_title(name)
    for axes in np.atleast_1d(row)[1:]:
        axes.set_ylabel("")
    fig.colorbar(axes.collections[0], ax=row, label="test accuracy in %", shrink=0.9)
    return fig
