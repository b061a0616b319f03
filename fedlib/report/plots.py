"""Plots that several notebooks share: `heatmap` and `stacked_bars` of the classes that clients hold, `sweep` of the
points that tuning tried, `band` (a line with its spread over seeds), `box` (for a schematic).

Counts come from `fedlib.problem.skew.class_counts`, curves from `fedlib.runs.study.execute`. A plot that only one paper
needs is in the `pictures` of that paper.
"""

from collections.abc import Callable, Hashable, Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator, PercentFormatter
from matplotlib.typing import ColorType

from fedlib.judging.statistics import estimate
from fedlib.problem.skew import class_shares
from fedlib.runs.tuning import Sweep

FEW_CLIENTS = 30  # up to here a picture shows each client by its number; beyond, clients are sorted into blocks
FEW_CLASSES = 10  # up to here classes have colours of their own; beyond, a scale
MOST_NUMBERS = 12  # up to this many clients and classes the numbers themselves are written into the map


def deviation(values: pd.Series) -> tuple[float, float]:
    """One standard deviation to either side of the mean; zero for a single value."""
    spread = values.std() if len(values) > 1 else 0.0
    return values.mean() - spread, values.mean() + spread


def interval(values: pd.Series) -> tuple[float, float]:
    """The 95% interval of the mean; NaN for a single value."""
    return estimate(values).interval() or (np.nan, np.nan)


def band(
    axes: Axes,
    runs: pd.DataFrame,
    value: str,
    label: Hashable,
    look: Mapping,
    along: str = "round",
    unit: float = 1.0,
    spread: Callable[[pd.Series], tuple[float, float]] = deviation,
) -> None:
    """The mean of a column over seeds as a line, with a band of its spread.

    `look` holds options of `Axes.plot`, colour included; `unit` is the length of one step `along` on the axis.
    """
    by_place = runs.groupby(along)[value]
    mean, (low, high) = by_place.mean(), zip(*map(spread, (values for _, values in by_place)), strict=True)
    axes.plot(mean.index * unit, mean, label=str(label), **look)
    axes.fill_between(mean.index * unit, low, high, color=look["color"], alpha=0.18, linewidth=0)


def box(axes: Axes, corner: tuple[float, float], size: tuple[float, float], text: str, colour: ColorType) -> None:
    """A white box with rounded corners and centred text; `corner` is the lower left one."""
    look = {"boxstyle": "round,pad=0.05", "fc": "white", "ec": colour, "lw": 1.8}
    axes.add_patch(FancyBboxPatch(corner, *size, **look))
    middle = corner[0] + size[0] / 2, corner[1] + size[1] / 2
    axes.text(*middle, text, ha="center", va="center", fontsize=9.5)


def new_axes(width: float, height: float) -> Axes:
    """The axes of a new figure, for a plot without given axes."""
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def heatmap(counts: np.ndarray, ax: Axes | None = None, most: int | None = None) -> Axes:
    """Samples by client (across) and class (up) as colours; white means none. `most` is where the colours end.

    Few clients are in their own order, with the numbers written in if there are not too many; many clients are sorted
    by their most frequent class, so that the split shows as blocks.
    """
    ax = new_axes(8, 3.6) if ax is None else ax
    clients, classes = counts.shape
    cells = counts[_order(counts)].T
    most = most or max(int(cells.max()), 1)
    _colour_cells(ax, cells, most)
    if clients <= FEW_CLIENTS:
        ax.vlines(np.arange(1, clients) - 0.5, -0.5, classes - 0.5, color="white", linewidth=2)
    if classes <= FEW_CLASSES:
        ax.hlines(np.arange(1, classes) - 0.5, -0.5, clients - 0.5, color="white", linewidth=2)
    if max(clients, classes) <= MOST_NUMBERS:
        _write_numbers(ax, cells, most)
    ax.set_ylabel("class")
    ax.yaxis.set_major_locator(MaxNLocator(min(classes, 10), integer=True))
    _label_clients(ax, clients)
    return ax


def stacked_bars(counts: np.ndarray, ax: Axes | None = None) -> Axes:
    """One bar per client, cut into its classes' shares; ordered like `heatmap`, so that the two can be compared."""
    ax = new_axes(8, 3.6) if ax is None else ax
    clients, classes = counts.shape
    tops = np.cumsum(np.nan_to_num(class_shares(counts[_order(counts)])), axis=1).T
    edges = np.arange(clients + 1) - 0.5
    palette = _class_colours(classes)
    for k, top in enumerate(tops):
        base = tops[k - 1] if k else np.zeros(clients)
        ax.stairs(top, edges, baseline=base, fill=True, color=palette[k], linewidth=0, antialiased=False, label=str(k))
    if clients <= FEW_CLIENTS:
        ax.vlines(edges[1:-1], 0, 1, color=ax.get_facecolor(), linewidth=60 / clients)
    _explain_colours(ax, palette)
    ax.set(ylim=(0, 1), ylabel="share of the client's samples")
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    _label_clients(ax, clients)
    return ax


def _order(counts: np.ndarray) -> np.ndarray:
    """Few clients as they are; many by most frequent class, within it by its share from large to small."""
    if len(counts) <= FEW_CLIENTS:
        return np.arange(len(counts))
    return np.lexsort((-np.nan_to_num(class_shares(counts)).max(axis=1), counts.argmax(axis=1)))


def _colour_cells(ax: Axes, cells: np.ndarray, most: int) -> None:
    """The map itself, classes x clients, and its scale."""
    classes, clients = cells.shape
    image = ax.imshow(
        # A class is drawn as many thin rows, so that smoothing over clients does not blur classes.
        np.repeat(np.ma.masked_equal(cells, 0), 20, axis=0),
        extent=(-0.5, clients - 0.5, -0.5, classes - 0.5),
        aspect="auto",
        origin="lower",
        cmap=seaborn.color_palette("mako_r", as_cmap=True),
        norm=Normalize(0, most),
        interpolation="nearest" if clients <= FEW_CLIENTS else "antialiased",
        interpolation_stage="rgba",
    )
    ax.grid(False)
    ax.figure.colorbar(image, ax=ax, label="samples", pad=0.02)


def _label_clients(ax: Axes, clients: int) -> None:
    few = clients <= FEW_CLIENTS
    ax.set_xlabel("client" if few else f"{clients} clients, sorted by most frequent class")
    ax.set_xlim(-0.5, clients - 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(clients if few else 8, integer=True, steps=[1, 2, 5, 10]))
    ax.tick_params(length=0)
    seaborn.despine(ax=ax, left=True, bottom=True)


def _write_numbers(ax: Axes, cells: np.ndarray, most: int) -> None:
    for (k, client), count in np.ndenumerate(cells):
        if count:
            colour = "white" if count > 0.35 * most else "black"
            ax.text(client, k, str(count), ha="center", va="center", color=colour, fontsize="small")


def _class_colours(classes: int) -> list:
    return seaborn.color_palette("colorblind" if classes <= FEW_CLASSES else "viridis", classes)


def _explain_colours(ax: Axes, palette: list) -> None:
    """A legend stacked like the bars, or a scale where there are too many classes to name."""
    if len(palette) <= FEW_CLASSES:
        ax.legend(title="class", reverse=True, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        return
    scale = ScalarMappable(Normalize(-0.5, len(palette) - 0.5), ListedColormap(palette))
    ax.figure.colorbar(scale, ax=ax, label="class", pad=0.02)


def sweep(tuned: Sweep, names: Mapping[str, str] | None = None) -> Figure:
    """What tuning tried: the score on held-out training samples over each option, with a ring around the best.

    Methods that tune the same option share a panel; a method with two options has a panel of its own, with one line per
    value of the second. Hollow points were added because the best lay at an end. `names` are the options' names for
    readers.
    """
    means, names = tuned.means(), names or {}
    groups: dict[tuple[str, ...], list[str]] = {}
    for method, best in tuned.best.items():
        groups.setdefault((*best, method) if len(best) > 1 else tuple(best), []).append(method)
    fig, grid = plt.subplots(1, len(groups), figsize=(1 + 5 * len(groups), 4), layout="constrained", squeeze=False)
    for ax, ((option, *others), methods) in zip(grid[0], groups.items(), strict=True):
        for number, method in enumerate(methods):
            rows = means[means["method"] == method]
            lines = rows.groupby(others[0], sort=True) if len(others) > 1 else [(method, rows)]
            for position, (label, line) in enumerate(lines):
                shown = label if len(others) < 2 else f"{names.get(others[0], others[0])} {label:g}"
                _sweep_line(ax, line.sort_values(option), option, str(shown), number + position)
            winner = tuned.winner(method)
            ax.plot(winner[option], winner["score"], "o", markersize=13, markerfacecolor="none", color="black")
        ax.set(xlabel=names.get(option, option), ylabel="score on held-out training samples")
        ax.set(title=methods[0] if len(others) > 1 else "")
        if (means[option].dropna() > 0).all():
            ax.set_xscale("log")
        values = sorted(means.loc[means["method"].isin(methods), option].unique())
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.minorticks_off()
        ax.legend(title=None)
    return fig


def _sweep_line(ax: Axes, line: pd.DataFrame, option: str, label: str, position: int) -> None:
    colour, marker = f"C{position}", "osD^vPX*"[position % 8]
    ax.plot(line[option], line["score"], color=colour, marker=marker, label=label)
    added = line[line["extension"] > 0]
    ax.plot(added[option], added["score"], linestyle="", marker=marker, color=colour, markerfacecolor="white")
