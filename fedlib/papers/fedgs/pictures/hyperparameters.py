"""The surfaces of Fig. 5 and the heat maps of Fig. 7, seen from above."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

COLOURS = seaborn.color_palette("colorblind")


def accuracy_map(table: pd.DataFrame, xlabel: str, ylabel: str) -> Figure:
    """An accuracy surface seen from above, with a number in each cell; impossible cells stay blank."""
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
    """Fig. 7: one heat map per method, the best cell framed."""
    fig, grid = plt.subplots(1, len(tables), figsize=(3.3 * len(tables), 3.6), layout="constrained", squeeze=False)
    panels = grid[0]
    limits = min(table.min().min() for table in tables.values()), max(table.max().max() for table in tables.values())
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        _map(axes, table, "server learning rate", "client learning rate", limits)
        client, server = best[name]
        corner = table.columns.get_loc(server), table.index.get_loc(client)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=COLOURS[1], linewidth=3, clip_on=False))
        axes.set_title(name)
    for axes in panels[1:]:
        axes.set_ylabel("")
    fig.colorbar(panels[-1].collections[0], ax=panels, label="test accuracy in %", shrink=0.9)
    return fig
