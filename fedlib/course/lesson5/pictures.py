"""Lesson 5, choosing who takes part: who holds what, groups, rewards, and the tournament."""

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib import selection
from fedlib.algorithms.randomclients import sizes
from fedlib.course.exercise import filled
from fedlib.course.lesson5.problem import (
    ENTRANTS,
    ROUNDS,
    SIZE,
    WORK,
    WORLDS,
    YOURS,
    Selector,
    after,
    alphas,
    counts_of,
    entrant,
    games,
    invited,
    mixture_distance,
    searches,
    standings,
    world,
)
from fedlib.judging.statistics import estimate
from fedlib.problem import skew
from fedlib.problem.streams import generator
from fedlib.report import plots
from fedlib.report.show import png
from fedlib.selection import skewness

COLOURS = seaborn.color_palette("colorblind")


def worlds_picture() -> tuple[Figure, pd.DataFrame]:
    """Who holds what in both worlds."""
    fig, panels = plt.subplots(len(WORLDS), 1, figsize=(10, 6.2), layout="constrained")
    rows = {}
    for axes, name in zip(panels, WORLDS, strict=True):
        counts = counts_of(name)
        plots.heatmap(counts, ax=axes)
        axes.set(title=name, ylabel="digit")
        held = skew.effective_classes(counts)
        rows[name] = {"fewest": held.min(), "mean": held.mean(), "most": held.max()}
    return fig, pd.DataFrame(rows).T.round(1).rename_axis("digits per client (effective number)")


def groups_picture(counts: np.ndarray, groups: dict[str, np.ndarray]) -> tuple[Figure, pd.DataFrame]:
    """The mixtures of some groups beside everybody's."""
    fig, panels = plt.subplots(1, len(groups), figsize=(4.2 * len(groups), 3.2), sharey=True, layout="constrained")
    rows = {}
    for axes, (name, group), colour in zip(panels, groups.items(), COLOURS, strict=False):
        _mixture(axes, counts, group, colour)
        members = ", ".join(str(int(client)) for client in sorted(group))
        rows[name] = {"clients": members, "distance": mixture_distance(counts, group)}
        axes.set_title(f"{name}: {rows[name]['distance']:.2f}")
    panels[0].set_ylabel("share of the group's samples")
    return fig, pd.DataFrame(rows).T.rename_axis("group").assign(
        distance=lambda t: t["distance"].astype(float).round(3)
    )


def _mixture(axes: Axes, counts: np.ndarray, group, colour) -> None:
    own, classes = counts[list(group)].sum(axis=0), counts.shape[1]
    axes.bar(range(classes), own / max(1, own.sum()), color=colour)
    real = selection.real_distribution(counts)
    axes.step(
        np.arange(classes + 1) - 0.5, [*real, real[-1]], where="post", color="black", linewidth=1.5, linestyle="--"
    )
    axes.set(xlabel="digit", xticks=range(classes), ylim=(0, 0.45))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


def landscape_picture(draws: int = 2000, seed: int = 0) -> tuple[Figure, pd.DataFrame]:
    """Distances of random groups as a histogram, those of the searches as lines, in both worlds."""
    fig, panels = plt.subplots(1, len(WORLDS), figsize=(11, 3.6), layout="constrained")
    rows = {}
    for axes, name in zip(panels, WORLDS, strict=True):
        counts, rng = counts_of(name), generator(seed, "landscape")
        drawn = [mixture_distance(counts, rng.choice(len(counts), SIZE, replace=False)) for _ in range(draws)]
        axes.hist(drawn, 40, color="0.8")
        found = {way: mixture_distance(counts, group) for way, group in searches(counts).items()}
        for (way, distance), colour, dash in zip(found.items(), COLOURS, ("-", "--", ":"), strict=False):
            axes.axvline(distance, color=colour, linestyle=dash, linewidth=2.2, label=way)
        axes.set(title=name, xlabel="distance of the group's mixture", xlim=(0, None), yticks=[])
        rows[name] = {"random, mean": np.mean(drawn), f"best of {draws} random": min(drawn)} | found
    panels[0].set_ylabel(f"{draws} random groups")
    panels[1].legend(loc="upper right", fontsize=9)
    return fig, pd.DataFrame(rows).T.round(3).rename_axis("distance")


def by_hand(name: str = "all skewed", clients: int = 12) -> ipywidgets.VBox:
    """Choose a group with the mouse; the bars follow, and the best group of that size can be looked up."""
    counts = counts_of(name)[:clients]
    box = ipywidgets.SelectMultiple(options=range(clients), value=(0, 1, 2, 3), rows=clients, description="clients")
    words, picture = ipywidgets.HTML(), ipywidgets.Image(format="png")

    def redraw(change: object = None) -> None:
        fig, words.value = hand_picture(counts, box.value)
        picture.value = png(fig)

    box.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([ipywidgets.HBox([box, picture]), words])


def hand_picture(counts: np.ndarray, group: tuple[int, ...]) -> tuple[Figure, str]:
    """Who holds what, the group's mixture, and a sentence that compares it with the best group of its size."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", width_ratios=[1.5, 1])
    plots.heatmap(counts, ax=left)
    left.set_ylabel("digit")
    _mixture(right, counts, group, COLOURS[0])
    right.set_title(f"your group, and all {len(counts)} (dashed)")
    if not group:
        return fig, "Choose somebody (Ctrl or Shift and click for several)."
    best = mixture_distance(counts, searches(counts, len(group))["best of all"])
    mine = mixture_distance(counts, list(group))
    count = f"{len(group)} client{'s are' if len(group) > 1 else ' is'}"
    return fig, f"Your {count} {mine:.3f} away from everybody's mixture; the best group of that size {best:.3f}."


def rewards_picture(moments: tuple[int, ...], name: str = "mixed") -> tuple[Figure, pd.DataFrame]:
    """Reward against true skewness of all clients, at models after these numbers of rounds."""
    federation, truth = world(name), alphas(name)
    everybody = np.arange(federation.clients)
    fig, panels = plt.subplots(1, len(moments), figsize=(5 * len(moments), 3.6), layout="constrained")
    rows = {}
    for axes, rounds in zip(panels, moments, strict=True):
        found = skewness.insights(federation, after(name, rounds)["weights"], everybody, WORK["lr"])
        rewards = -skewness.estimates(found, sizes(federation, everybody))
        axes.scatter(truth, rewards, color=COLOURS[0])
        axes.set(title=f"after {rounds} rounds", xlabel="true skewness $\\alpha$ of the client", ylabel="reward $-Q$")
        order = pd.Series(truth).corr(pd.Series(rewards), method="spearman")
        lowest, highest = rewards.min(), rewards.max()
        rows[f"after {rounds} rounds"] = {"lowest reward": lowest, "highest": highest, "rank correlation": order}
    return fig, pd.DataFrame(rows).T.round(2)


def bandit_picture(rounds: int, seeds: range) -> tuple[Figure, pd.DataFrame]:
    """Whom the bandit invites over the rounds, in both worlds: mean skewness of the participants, mean over seeds."""
    fig, panels = plt.subplots(1, len(WORLDS), figsize=(11, 3.6), sharey=True, layout="constrained")
    rows = {}
    for axes, name in zip(panels, WORLDS, strict=True):
        found = invited(name, WORLDS[name], rounds, list(seeds))
        above = found.pivot(index="seed", columns="round", values="above").to_numpy()  # (seeds, rounds)
        intervals = np.array([estimate(column).interval() for column in above.T])
        when = np.arange(1, rounds + 1)
        axes.fill_between(when, *intervals.T, color=COLOURS[0], alpha=0.25, linewidth=0, label="95% interval")
        axes.plot(when, above.mean(axis=0), "o-", markersize=3, color=COLOURS[0], label=f"mean over {len(seeds)} seeds")
        axes.axhline(0, color="0.3", linestyle=":", label="as skewed as all clients")
        axes.set(title=name, xlabel="round")
        half = rounds // 2
        parts = {"first half": above[:, :half], "second half": above[:, half:]}
        rows[name] = {part: _with_interval(values.mean(axis=1)) for part, values in parts.items()}
    panels[0].set_ylabel("participants' skewness\nminus that of all clients")
    panels[1].legend(fontsize=9, loc="lower left")
    return fig, pd.DataFrame(rows).T.rename_axis("skewness above that of all clients")


def _with_interval(values: np.ndarray) -> str:
    low, high = estimate(values).interval() or (np.nan, np.nan)
    return f"{values.mean():+.2f} ({low:+.2f} to {high:+.2f})"


def tournament(mine: Selector | None = None) -> tuple[Figure, pd.DataFrame]:
    """Our entrants and, once it is written and answers as it should, the student's; says so if that is missing."""
    frames = [entrant(name) for name in ENTRANTS]
    if mine is None or not filled(mine):
        print("Your selector is still to be written: the tournament starts without it.")
    else:
        try:
            frames.append(games(mine).assign(selector=YOURS))
        except Exception as error:
            print(f"Your selector had to leave the tournament: {type(error).__name__}: {error}")
    frame = pd.concat(frames, ignore_index=True)
    return tournament_picture(frame), standings(frame)


def tournament_picture(frame: pd.DataFrame) -> Figure:
    """Accuracy over rounds in both worlds, a line a selector, the student's in black."""
    fig, panels = plt.subplots(1, len(WORLDS), figsize=(12, 4.2), sharey=True, layout="constrained")
    dashes = ["-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1))]
    for axes, name in zip(panels, WORLDS, strict=True):
        for place, (selector, rows) in enumerate(frame[frame["world"] == name].groupby("selector", sort=False)):
            mean = rows.groupby("round")["accuracy"].mean()
            look = {"color": COLOURS[place], "linestyle": dashes[place % 6], "linewidth": 1.8}
            if selector == YOURS:
                look = {"color": "black", "linewidth": 2.2, "marker": "D", "markersize": 4}
            axes.plot(mean.index, mean, label=selector, **look)
        axes.set(title=name, xlabel="communication round", xlim=(0, ROUNDS), ylim=(0, 0.9))
    panels[0].set_ylabel("test accuracy, mean over seeds")
    panels[0].yaxis.set_major_formatter(PercentFormatter(1))
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return fig
