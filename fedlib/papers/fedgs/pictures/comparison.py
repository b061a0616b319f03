"""Fig. 6, accuracy and loss of all rows of Table II; FedGS and FedAvg at equal prices."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.papers.fedgs.experiments.comparison import BASELINE, FAMILIES, FEDGS

COLOURS = seaborn.color_palette("colorblind")
FIXED = {
    FEDGS: {"color": "black", "linewidth": 2.4},
    BASELINE.name: {"color": "0.55", "linewidth": 2.4, "linestyle": "--"},
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
    by_method = costs.set_index("method")
    fig, row = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
    for axes, (label, column) in zip(row, scales.items(), strict=True):
        for name, payer in ((FEDGS, FEDGS), (BASELINE.name, "each rival")):
            mean = frame[frame["method"] == name].groupby("round")["accuracy"].mean()
            price = 1.0 if column is None else by_method.loc[payer, column]
            axes.plot(mean.index * price, mean, label=name, **FIXED[name])
        axes.set_xlabel(label)
    row[0].set_ylabel("test accuracy")
    row[0].legend()
    return fig
