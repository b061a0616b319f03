"""Fig. 6, accuracy and loss of all rows of Table II; accuracy at equal cost; gradients of batches."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.papers.fedgs.experiments.comparison import BASELINE, FAMILIES, FEDGS, RANDOM_GROUPS
from fedlib.papers.fedgs.results import CURRENCIES
from fedlib.report import plots
from fedlib.runs.tuning import Sweep

COLOURS = seaborn.color_palette("colorblind")
FIXED = {
    FEDGS: {"color": "black", "linewidth": 2.4},
    BASELINE.name: {"color": "0.55", "linewidth": 2.4, "linestyle": "--"},
    RANDOM_GROUPS: {"color": COLOURS[0], "linewidth": 2.0, "linestyle": (0, (1, 1))},
}
DASHES = ("-", (0, (4, 1.5)), (0, (5, 1, 1, 1)), (0, (1, 1)))


def family_panels(frame: pd.DataFrame) -> Figure:
    """Fig. 6: accuracy above loss for each family of rivals, FedGS and FedAvg in every panel."""
    fig, panels = plt.subplots(4, 3, figsize=(12, 13), sharex=True, sharey="row", layout="constrained")
    start, lowest = frame.loc[frame["round"] == 0, "loss"].max(), frame["loss"].min()
    for place, (family, members) in enumerate(FAMILIES.items()):
        row, column = 2 * (place // 3), place % 3
        above, below = panels[row, column], panels[row + 1, column]
        shown = [name for name in (FEDGS, BASELINE.name, *members) if (frame["method"] == name).any()]
        for axes, value in ((above, "accuracy"), (below, "loss")):
            _lines(axes, frame, shown, value)
        above.set_title(family)
        above.legend(*(reversed(part) for part in above.get_legend_handles_labels()), fontsize=8, loc="upper left")
        below.set_ylim(0.9 * lowest, 1.2 * start)  # a server that overshoots may leave the picture for some rounds
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
        plots.band(axes, frame[frame["method"] == name], value, name, look)


def tuning(sweep: Sweep) -> Figure:
    """What tuning tried, one panel per row of the table: the score over the learning rate, one line per value of its
    second option, a ring around the best; hollow points were added because the best lay at an end."""
    means, columns = sweep.means(), 4
    height = -(-len(sweep.best) // columns)
    fig, grid = plt.subplots(height, columns, figsize=(12, 2.3 * height), layout="constrained", squeeze=False)
    for axes, (method, best) in zip(grid.flat, sweep.best.items(), strict=False):
        rows = means[means["method"] == method].sort_values("lr")
        second = next((option for option in best if option != "lr"), None)
        lines = [("", rows)] if second is None else rows.groupby(second)
        for place, (value, line) in enumerate(lines):
            axes.plot(
                line["lr"], line["score"], color=COLOURS[place], marker="osD^vP"[place], markersize=5, label=value
            )
            added = line[line["extension"] > 0]
            axes.plot(added["lr"], added["score"], "o", color=COLOURS[place], markerfacecolor="white", markersize=5)
        winner = sweep.winner(method)
        axes.plot(winner["lr"], winner["score"], "o", markersize=12, markerfacecolor="none", color="black")
        axes.set(xscale="log", title=method)
        axes.set_xticks(ticks := sorted(rows["lr"].unique()), [f"{tick:g}" for tick in ticks], fontsize=8)
        axes.minorticks_off()
        if second is not None:
            axes.legend(title={"mu": "mu", "server_lr": "server rate"}[second], fontsize=7, title_fontsize=7)
    for axes in list(grid.flat)[len(sweep.best) :]:
        axes.axis("off")
    fig.supxlabel("learning rate")
    fig.supylabel("score on held-out training samples")
    return fig


def prices(frame: pd.DataFrame, costs: pd.DataFrame) -> Figure:
    """Accuracy of FedAvg, FedGS and random groups over rounds, sample gradients and models that cross to the cloud."""
    by_method = costs.set_index("method")
    fig, row = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
    for axes, (currency, column) in zip(row, CURRENCIES.items(), strict=True):
        for name, payer in ((FEDGS, FEDGS), (RANDOM_GROUPS, FEDGS), (BASELINE.name, "each rival")):
            price = 1.0 if column is None else by_method.loc[payer, column]
            plots.band(axes, frame[frame["method"] == name], "accuracy", name, FIXED[name], unit=price)
        axes.set_xlabel(currency)
    row[0].set_ylabel("test accuracy")
    row[0].legend()
    return fig


def gradients(divergences: pd.DataFrame) -> Figure:
    """Proposition 2: the divergence of gradients over the rounds, and against that of the classes."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
    for place, (kind, rows) in enumerate(divergences.groupby("batch", sort=False)):
        look = {"color": COLOURS[place], "marker": "osD^v"[place]}
        by_round = rows.groupby("round")["gradient"]
        left.errorbar(by_round.mean().index, by_round.mean(), by_round.std().fillna(0), capsize=3, label=kind, **look)
        right.scatter(rows["divergence"], rows["gradient"], s=14, alpha=0.5, **look)
    left.set(xlabel="communication round", ylabel="divergence of the gradient, share of its norm")
    right.set(xlabel="divergence of the classes", xlim=(0, None), ylim=(0, None))
    left.legend()
    return fig
