"""Lesson 6, the server's step: walks in the valley, the lengths of Adam's steps, tuning and the race."""

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib.course.lesson6.problem import SERVERS, Valley, steady_steps, three_servers
from fedlib.report import plots, sliders
from fedlib.runs.tuning import Sweep

COLOURS = seaborn.color_palette("colorblind")


def walks(paths: dict[str, np.ndarray], valley: Valley) -> Figure:
    """One panel per server: the valley from above, its lowest point, and the server's way."""
    fig, row = plt.subplots(
        1, len(paths), figsize=(3.6 * len(paths), 4), sharex=True, sharey=True, layout="constrained"
    )
    reach = 10.5
    grid = np.stack(np.meshgrid(np.linspace(-reach, reach, 120), np.linspace(-reach, reach, 120)), axis=-1)
    for ax, (name, path), colour in zip(np.atleast_1d(row), paths.items(), COLOURS, strict=False):
        ax.contour(grid[..., 0], grid[..., 1], np.sqrt(valley.loss(grid)), levels=12, colors="0.82", linewidths=0.8)
        ax.plot(*path.T, ".-", color=colour, linewidth=1.2, markersize=5)
        ax.plot(*path[0], "o", color="black", markersize=7, label="start")
        ax.plot(0, 0, "*", color=COLOURS[3], markersize=15, label="best for all clients")
        ax.set(title=name, xlabel="first weight", xlim=(-reach, reach), ylim=(-reach, reach))
        ax.grid(False)
    np.atleast_1d(row)[0].set_ylabel("second weight")
    np.atleast_1d(row)[-1].legend(loc="upper right", fontsize=9)
    return fig


def valley_explorer(rounds: int, beta: float, server_lr: float, angle: float) -> ipywidgets.VBox:
    """Sliders for the server's momentum, Adam's rate and the angle of the valley."""

    def draw(beta: float, server_lr: float, angle: float) -> tuple[Figure, str]:
        valley = Valley(angle=angle)
        paths = three_servers(valley, rounds, beta, server_lr)
        text = ", ".join(f"{name} {valley.loss(path)[-1]:.2f}" for name, path in paths.items())
        return walks(paths, valley), f"Loss above the minimum after {rounds} rounds: {text}."

    return sliders.explorer(
        draw,
        beta=ipywidgets.FloatSlider(beta, min=0, max=0.95, step=0.05, description="beta"),
        server_lr=ipywidgets.FloatLogSlider(server_lr, min=-2, max=0.5, step=0.25, description="Adam's rate"),
        angle=ipywidgets.IntSlider(angle, min=0, max=90, step=15, description="angle"),
    )


def tuning_curves(tuned: Sweep) -> Figure:
    """A panel per method: held-out accuracy over the clients' rate, a line per value of its second knob."""
    fig, axes = plt.subplots(2, 4, figsize=(13, 6), sharey=True, layout="constrained")
    means = tuned.means()
    for ax, name in zip(axes.flat, SERVERS, strict=False):
        tries = means[means["method"] == name]
        second = next((option for option in tuned.best[name] if option != "lr"), None)
        lines = tries.groupby(second) if second else [(None, tries)]
        for place, (value, line) in enumerate(lines):
            line = line.sort_values("lr")
            label = f"{KNOBS[second]} {value:g}" if second else None
            ax.plot(line["lr"], line["score"], marker="osD^vPX*"[place % 8], color=COLOURS[place], label=label)
        best = tries.loc[tries["score"].idxmax()]
        ax.plot(best["lr"], best["score"], "o", markersize=14, markerfacecolor="none", color="black")
        ax.set(xscale="log", title=name, xlabel="clients' rate")
        ax.set_xticks(values := sorted(tries["lr"].unique()), [f"{value:.2g}" for value in values], fontsize=8)
        ax.minorticks_off()
        if second:
            ax.legend(fontsize=8)
    axes.flat[-1].axis("off")
    for ax in axes[:, 0]:
        ax.set_ylabel("held-out accuracy")
        ax.yaxis.set_major_formatter(PercentFormatter(1))
    return fig


KNOBS = {"server_lr": "server's rate", "eta": "eta"}


def race_curves(frame: pd.DataFrame) -> Figure:
    """A panel per rival of FedAvg: means over seeds with their 95% intervals, and FedAvg's in grey."""
    rivals = [name for name in frame["method"].unique() if name != "FedAvg"]
    fig, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey=True, layout="constrained")
    for ax, name, colour in zip(axes.flat, rivals, COLOURS[1:], strict=False):
        for method, look in (("FedAvg", {"color": "0.35", "linestyle": "--"}), (name, {"color": colour})):
            runs, look = frame[frame["method"] == method], look | {"linewidth": 1.8}
            plots.band(ax, runs, "accuracy", method, look, spread=plots.interval)
        ax.set(title=name, ylim=(0.6, 0.93))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.legend(loc="lower right", fontsize=9)
    fig.supxlabel("communication round", fontsize=11)
    fig.supylabel("test accuracy", fontsize=11)
    return fig


def adam_steps(deltas: list[float], rounds: int, beta1: float, beta2: float, tau: float) -> tuple[Figure, pd.DataFrame]:
    """How long FedAdam's steps are, in units of its rate, when the clients report the same change in every round."""
    fig, ax = plt.subplots(figsize=(7.5, 3.9), layout="constrained")
    rows = {}
    for number, delta in enumerate(deltas):
        steps = steady_steps(delta, rounds, beta1, beta2, tau)
        look = {"linewidth": (6, 2, 2)[number], "alpha": (0.4, 1, 1)[number], "linestyle": ("-", "--", "-.")[number]}
        ax.plot(range(1, rounds + 1), steps, color=COLOURS[number], label=f"change {delta:g}", **look)
        rows[f"{delta:g}"] = {f"round {round}": steps[round - 1] for round in (1, 10, 30, 100, rounds)}
    ax.axhline(1, color="black", linewidth=0.8, linestyle=":")
    ax.set(xlabel="communication round", ylabel="length of the step in rates", ylim=(0, None), xscale="log")
    ax.set_xticks(ticks := [1, 3, 10, 30, 100, 300], [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.legend()
    return fig, pd.DataFrame(rows).T.rename_axis("clients' change").round(2)


def tries_picture(scores: dict[float, np.ndarray], kept: dict[int, list[float]]) -> tuple[Figure, pd.DataFrame]:
    """Held-out accuracy over the rate, one thin line per seed; marks show which rates may be the best."""
    rates = list(scores)
    fig, ax = plt.subplots(figsize=(7.5, 3.9), layout="constrained")
    for seed in range(len(scores[rates[0]])):
        ax.plot(rates, [scores[rate][seed] for rate in rates], color="0.75", linewidth=0.9)
    for (seeds, chosen), marker, colour, size in zip(
        kept.items(), "so", (COLOURS[1], COLOURS[0]), (13, 7), strict=True
    ):
        means = [scores[rate][:seeds].mean() for rate in chosen]
        look = {"markersize": size, "markerfacecolor": "none", "markeredgewidth": 2, "linestyle": "none"}
        ax.plot(chosen, means, marker, color=colour, label=f"not told from the best by {seeds} seeds", **look)
    ax.plot(
        rates, [scores[rate].mean() for rate in rates], color="black", label=f"mean of {len(scores[rates[0]])} seeds"
    )
    ax.set(xscale="log", xlabel="clients' rate", ylabel="held-out accuracy")
    ax.set_xticks(rates, [f"{rate:g}" for rate in rates])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(loc="lower right")
    rows = {
        f"{seeds} seeds": {rate: "yes" if rate in chosen else "" for rate in rates} for seeds, chosen in kept.items()
    }
    table = pd.DataFrame({"mean, %": {rate: f"{100 * scores[rate].mean():.1f}" for rate in rates}} | rows)
    return fig, table.T.rename_axis("rates that may be the best", axis=0)
