"""Lesson 4, changing the topology: topologies, races in three currencies, forgetting."""

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from fedlib.algorithms.algorithm import Algorithm
from fedlib.course.lesson4.problem import (
    BUDGET,
    CLOUD_PRICE,
    LOCAL,
    METHODS,
    MUCH,
    PATIENCE,
    RingTour,
    affordable_rounds,
    cost,
    design,
    epochs_in_a_row,
    method,
    planned,
)
from fedlib.papers.fedsr.pictures import DEVICE, DOWN, LOOKS, RING, SERVER, UP
from fedlib.report import plots, sliders
from fedlib.runs.study import execute


def topologies() -> tuple[Figure, pd.DataFrame]:
    """Star, hierarchy, ring, and rings under a server, six devices each; and who averages what."""
    fig, panels = plt.subplots(1, 4, figsize=(13, 3.9), layout="constrained")
    draws = {"star": _star, "hierarchy": _hierarchy, "ring": _ring, "rings under a server": _rings}
    for axes, (name, draw) in zip(panels, draws.items(), strict=True):
        axes.set(xlim=(-1.3, 1.3), ylim=(-1.35, 1.3), aspect="equal", title=name)
        axes.axis("off")
        draw(axes)
    kinds = {"down: from a server": DOWN, "up: to a server": UP, "on: to the next device": RING}
    lines = [Line2D([], [], color=colour, marker=">", label=name) for name, colour in kinds.items()]
    fig.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False)
    rows = [
        ("star", "FedAvg", "the cloud, once a round", 1),
        ("hierarchy", "HierFAVG", "edge servers several times, then the cloud", 1),
        ("ring", "ring-optimization", "nobody", 6),
        ("rings under a server", "FedSR", "the cloud, one model a ring", 3),
    ]
    columns = ["topology", "method", "who averages", "visits in a row"]
    return fig, pd.DataFrame(rows, columns=columns).set_index("topology")


def _around(centre: tuple[float, float], radius: float, count: int) -> list[tuple[float, float]]:
    """Places on a circle, clockwise from the top."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return [(centre[0] + radius * np.cos(angle), centre[1] + radius * np.sin(angle)) for angle in angles]


def _node(axes: Axes, place: tuple[float, float], text: str, colour, shape: str = "o") -> None:
    size = 23 if shape == "o" else 27
    axes.plot(*place, shape, markersize=size, color="white", markeredgecolor=colour, markeredgewidth=2, zorder=3)
    axes.text(*place, text, ha="center", va="center", fontsize=8, zorder=4)


def _link(axes: Axes, start, end, colour, bend: float = 0.0) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "lw": 1.5, "shrinkA": 13, "shrinkB": 13}
    axes.annotate("", end, start, arrowprops=look | {"connectionstyle": f"arc3,rad={bend}"})


def _both_ways(axes: Axes, server, place) -> None:
    """Two straight arrows side by side, the way down and the way up."""
    along = np.subtract(place, server)
    aside = 0.055 * np.array([along[1], -along[0]]) / np.hypot(*along)
    _link(axes, server + aside, place + aside, DOWN)
    _link(axes, place - aside, server - aside, UP)


def _star(axes: Axes) -> None:
    for number, place in enumerate(_around((0, 0), 1.05, 6), 1):
        _both_ways(axes, (0, 0), place)
        _node(axes, place, str(number), DEVICE)
    _node(axes, (0, 0), "cloud", SERVER, "s")


def _hierarchy(axes: Axes) -> None:
    for x, first in ((-0.68, 1), (0.68, 4)):
        _both_ways(axes, (0, 1.05), (x, 0.1))
        for k in range(3):
            place = (x + 0.44 * (k - 1), -1.0)
            _both_ways(axes, (x, 0.1), place)
            _node(axes, place, str(first + k), DEVICE)
        _node(axes, (x, 0.1), "edge", SERVER, "s")
    _node(axes, (0, 1.05), "cloud", SERVER, "s")


def _ring(axes: Axes) -> None:
    places = _around((0, 0), 0.95, 6)
    for k, place in enumerate(places):
        _link(axes, place, places[(k + 1) % 6], RING, -0.2)
        _node(axes, place, str(k + 1), DEVICE)


def _rings(axes: Axes) -> None:
    for x, first in ((-0.7, 1), (0.7, 4)):
        _both_ways(axes, (0, 1.05), (x, 0.25))
        places = [(x - 0.4, -0.45), (x, -1.05), (x + 0.4, -0.45)]
        for k, place in enumerate(places):
            _link(axes, place, places[(k + 1) % 3], RING, 0.0)
            _node(axes, place, str(first + k), DEVICE)
        _link(axes, (x, 0.25), places[0], DOWN)
        _link(axes, places[2], (x, 0.25), UP)
        _node(axes, (x, 0.25), "edge", SERVER, "s")
    _node(axes, (0, 1.05), "cloud", SERVER, "s")


def race_picture(frame: pd.DataFrame, cloud_price: float = CLOUD_PRICE) -> tuple[Figure, pd.DataFrame]:
    """Accuracy over rounds, cost and time, a line a method (mean over seeds, a band of one standard deviation).

    The table has the accuracy after equal rounds, at equal cost and in equal time: what the cheapest, or the quickest,
    method has used when it ends.
    """
    scales = {
        "rounds": dict.fromkeys(METHODS, 1),
        f"cost (cloud link {cloud_price:g}, other links 1)": {
            name: cost(method(name), cloud_price) for name in METHODS
        },
        "time, epochs in a row": {name: epochs_in_a_row(method(name)) for name in METHODS},
    }
    fig, panels = plt.subplots(1, 3, figsize=(13, 3.9), sharey=True, layout="constrained")
    columns, rounds = {}, frame["round"].max()
    for axes, (label, per_round) in zip(panels, scales.items(), strict=True):
        common = rounds * min(per_round.values())
        reached = {name: _accuracy_at(frame, name, common / each) for name, each in per_round.items()}
        columns[f"{label.split(',')[0].split()[0]} {common:g}"] = reached
        for name, each in per_round.items():
            _line(axes, frame[frame["method"] == name], name, each)
        axes.axvline(common, color="0.5", linestyle=":", linewidth=1)
        axes.set(xlabel=label, ylim=(0, 1), xlim=(0, rounds if label == "rounds" else 3 * common))
    panels[0].set_ylabel("test accuracy")
    panels[0].yaxis.set_major_formatter(PercentFormatter(1))
    panels[0].legend(loc="lower right", fontsize=9)
    return fig, pd.DataFrame(columns).rename_axis("accuracy, percent, at equal")


def _line(axes: Axes, runs: pd.DataFrame, name: str, per_round: float) -> None:
    colour, dash = LOOKS[name]
    look = {"color": colour, "linestyle": dash, "linewidth": 1.8}
    plots.band(axes, runs, "accuracy", name, look, unit=per_round)


def _accuracy_at(frame: pd.DataFrame, name: str, round: float) -> str:
    """Of the last round that is finished by then."""
    rows = frame[(frame["method"] == name) & (frame["round"] == int(round + 1e-9))]["accuracy"] * 100
    return f"{rows.mean():.1f} ± {rows.std():.1f}"


def price_explorer(frame: pd.DataFrame, cloud_price: float = CLOUD_PRICE) -> ipywidgets.VBox:
    """A slider for the price of a cloud link above the race; nothing is trained again."""

    def draw(cloud_price: float) -> tuple[Figure, str]:
        costs = ", ".join(f"{name} {cost(method(name), cloud_price):.0f}" for name in METHODS)
        return race_picture(frame, cloud_price)[0], f"A round costs: {costs}."

    slider = ipywidgets.FloatLogSlider(
        cloud_price, min=0, max=2, step=0.1, description="cloud price", readout_format=".3g"
    )
    return sliders.explorer(draw, cloud_price=slider)


def tug_of_war(rate: float, targets: tuple[float, ...] = (0, 1, 2, 3), passes: int = 3) -> tuple[Figure, pd.DataFrame]:
    """A model that is one number. Device k pulls it towards its target: w <- (1 - rate) w + rate t_k."""
    ring, star = [0.0], [0.0]
    for _ in range(passes):
        for target in targets:
            ring.append((1 - rate) * ring[-1] + rate * target)
        star.append(float(np.mean([(1 - rate) * star[-1] + rate * target for target in targets])))
    fig, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
    axes.grid(False)
    middle = float(np.mean(targets))
    for name, target in [*((f"device {number}", target) for number, target in enumerate(targets, 1)), ("mean", middle)]:
        grey, dash = ("0.3", ":") if name == "mean" else ("0.75", "-")
        axes.hlines(target, 0, len(ring) - 1, linewidth=1, color=grey, linestyle=dash)
        axes.text(len(ring) - 0.7, target, name, va="center", fontsize=9)
    colour, dash = LOOKS["ring-optimization"]
    axes.plot(ring, marker="o", color=colour, linestyle=dash, label="ring: one after another")
    visits = np.arange(passes + 1) * len(targets)
    axes.plot(visits, star, marker="s", color=LOOKS["FedAvg"][0], label="star: all at once, then averaged")
    axes.set(xlabel="visits", ylabel="model $w$", xticks=visits, xlim=(-0.3, len(ring) + 1))
    axes.legend(loc="upper left", fontsize=9)
    ends = {"ring": ring[:: len(targets)], "star": star}
    table = pd.DataFrame(ends, index=pd.RangeIndex(passes + 1, name="after pass")).round(2)
    return fig, table.assign(mean=middle)


def journeys_picture(found: dict[str, RingTour]) -> tuple[Figure, pd.DataFrame]:
    """One map per tour, visits across and classes up, frames where the visited device holds the class."""
    fig, panels = plt.subplots(1, len(found), figsize=(6.4 * len(found), 4.2), squeeze=False, layout="constrained")
    for axes, (name, each) in zip(panels[0], found.items(), strict=True):
        visits, classes = each.held.shape
        image = axes.imshow(
            each.recall.T,
            cmap=seaborn.color_palette("mako_r", as_cmap=True),
            vmin=0,
            vmax=1,
            aspect="auto",
            origin="lower",
        )
        for visit, label in np.argwhere(each.held >= MUCH):
            axes.add_patch(
                Rectangle((visit + 0.54, label - 0.46), 0.92, 0.92, fill=False, edgecolor=RING, linewidth=2.2)
            )
        axes.grid(False)
        axes.axvline(0.5, color="white", linewidth=5)
        axes.set(title=name, xlabel="visit", xticks=range(visits + 1), yticks=range(classes))
        axes.set_xticklabels(["start", *map(str, range(1, visits + 1))], fontsize=9)
        axes.tick_params(length=0)
        seaborn.despine(ax=axes, left=True, bottom=True)
    panels[0, 0].set_ylabel("digit")
    fig.colorbar(image, ax=panels, label="got right", format=PercentFormatter(1), pad=0.02)
    means = {name: each.recall.mean(axis=1) for name, each in found.items()}
    table = (100 * pd.DataFrame(means)).round(0).astype(int).T.rename_axis("mean over digits, percent, after visit")
    return fig, table


def forgetting_picture(found: dict[str, RingTour], longest: int = 5) -> tuple[Figure, pd.DataFrame]:
    """How much of a class is left this many visits after it was last trained, mean over the journey."""
    fig, axes = plt.subplots(figsize=(6.6, 3.8), layout="constrained")
    columns = {}
    for (name, each), mark in zip(found.items(), "os^", strict=False):
        after, ago = each.recall[1:], each.ago
        columns[name] = [float(after[ago == visits].mean()) for visits in range(longest + 1)]
        axes.plot(range(longest + 1), columns[name], marker=mark, linestyle="-" if mark == "o" else "--", label=name)
    axes.set(xlabel="visits since a device held the digit", ylabel="got right", ylim=(0, 1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.legend()
    table = (100 * pd.DataFrame(columns)).round(0).astype(int).T
    return fig, table.rename_axis("got right, percent").rename_axis("visits ago", axis=1)


def contest(frame: pd.DataFrame, mine: dict | None) -> tuple[Figure, pd.DataFrame]:
    """The methods of the race and `mine`, a design of rings, each for as long as budget and patience last.

    The rate is constant, so that the first rounds of a long run are a short run.
    """
    made, runs = {name: method(name) for name in METHODS}, [frame]
    if mine:
        made["your rings"] = design(**mine)
        rest = (affordable_rounds(made["your rings"]), {"epochs": 1} | mine | LOCAL, {"method": "your rings"})
        runs.append(execute([planned("fedsr", seed, *rest) for seed in frame["seed"].unique().tolist()]))
    rounds = {name: affordable_rounds(each) for name, each in made.items()}
    everything = pd.concat(runs, ignore_index=True)
    shown = everything[everything["round"] <= everything["method"].map(rounds)]
    rows = {
        name: {
            "rounds": rounds[name],
            "cost": round(rounds[name] * cost(each, CLOUD_PRICE)),
            "epochs in a row": rounds[name] * epochs_in_a_row(each),
            "accuracy": _accuracy_at(shown, name, rounds[name]),
        }
        for name, each in made.items()
    }
    return _contest_picture(shown, made), pd.DataFrame(rows).T.rename_axis("method")


def _contest_picture(shown: pd.DataFrame, made: dict[str, Algorithm]) -> Figure:
    fig, panels = plt.subplots(1, 2, figsize=(11, 3.9), sharey=True, layout="constrained")
    scales = {
        "cost": (BUDGET, {name: cost(each, CLOUD_PRICE) for name, each in made.items()}),
        "epochs in a row (time)": (PATIENCE, {name: epochs_in_a_row(each) for name, each in made.items()}),
    }
    for axes, (label, (limit, per_round)) in zip(panels, scales.items(), strict=True):
        for name, runs in shown.groupby("method", sort=False):
            colour, dash = LOOKS.get(name, ("black", "-"))
            mean = runs.groupby("round")["accuracy"].mean()
            look = {"marker": "o" if name in METHODS else "D", "markersize": 4}
            axes.plot(mean.index * per_round[name], mean, color=colour, linestyle=dash, label=name, **look)
        axes.axvline(limit, color="0.5", linestyle=":")
        axes.set(xlabel=label, xlim=(0, 1.05 * limit), ylim=(0, 1))
    panels[0].yaxis.set_major_formatter(PercentFormatter(1))
    panels[0].set_ylabel("test accuracy")
    panels[1].legend(loc="lower right", fontsize=9)
    return fig
