"""Lesson 6, the server's step and the bill: walks in the valley, the race, bills, and energy."""

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib.course.lesson6.problem import (
    SERVERS,
    Valley,
    sending_j,
    three_plans,
    three_servers,
    whole_cell,
)
from fedlib.report import plots, sliders
from fedlib.runs.tuning import Sweep

COLOURS = seaborn.color_palette("colorblind")


def walks(paths: dict[str, np.ndarray], valley: Valley) -> Figure:
    """A panel a server: the valley from above, its lowest point, and the server's way."""
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


def race_curves(frame: pd.DataFrame, target: float) -> Figure:
    """A panel per rival of FedAvg: means over seeds with their 95% intervals, and FedAvg's in grey."""
    rivals = [name for name in frame["method"].unique() if name != "FedAvg"]
    fig, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey=True, layout="constrained")
    for ax, name, colour in zip(axes.flat, rivals, COLOURS[1:], strict=False):
        for method, look in (("FedAvg", {"color": "0.35", "linestyle": "--"}), (name, {"color": colour})):
            runs, look = frame[frame["method"] == method], look | {"linewidth": 1.8}
            plots.band(ax, runs, "accuracy", method, look, spread=plots.interval)
        ax.axhline(target, color="black", linewidth=0.8, linestyle=":")
        ax.set(title=name, ylim=(0.6, 0.93))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.legend(loc="lower right", fontsize=9)
    fig.supxlabel("communication round", fontsize=11)
    fig.supylabel("test accuracy", fontsize=11)
    return fig


def bill_bars(table: pd.DataFrame) -> Figure:
    """Two currencies side by side, means with their 95% intervals; nobody is declared the winner."""
    fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
    currencies = {"rounds": ("low", "high"), "models sent": ("models low", "models high")}
    for ax, (currency, (low, high)) in zip(axes, currencies.items(), strict=True):
        for place, row in enumerate(table.to_dict("records")):
            if np.isnan(row[currency]):
                ax.text(0, place, f"  only {row['seeds that arrive']:.0f} seeds arrive", va="center", fontsize=9)
                continue
            spread = [[row[currency] - row[low]], [row[high] - row[currency]]]
            ax.errorbar(row[currency], place, xerr=spread, fmt="o", color=COLOURS[0], capsize=4)
        ax.set(title=f"{currency}, 95% interval", xlim=(0, 1.1 * table[high].max()))
    axes[0].set_yticks(range(len(table)), table.index)
    axes[0].invert_yaxis()
    return fig


def two_devices(near: float, far: float) -> tuple[Figure, pd.DataFrame]:
    """What two devices spend on sending, depending on how the band is split between them."""
    share = np.linspace(0.02, 0.98, 193)
    parts = {
        "near device": np.array([sending_j(1 - own, near) for own in share]),
        "far device": np.array([sending_j(own, far) for own in share]),
    }
    total = parts["near device"] + parts["far device"]
    fig, ax = plt.subplots(figsize=(7, 3.9), layout="constrained")
    for (name, own), dash in zip(parts.items(), ("--", "-."), strict=True):
        ax.plot(100 * share, own, dash, label=name)
    ax.plot(100 * share, total, color="black", linewidth=2.5, label="both")
    ax.plot(100 * share[total.argmin()], total.min(), "*", color=COLOURS[3], markersize=15, label="least")
    ax.set(xlabel="the far device's share of the band in %", ylabel="energy of sending in J", ylim=(0, 3 * total.min()))
    ax.legend(ncols=2, loc="upper center")
    shown = pd.DataFrame(parts | {"both": total}, index=[f"{100 * own:.0f}%" for own in share])
    return fig, shown.iloc[[16, 56, 96, 136, 176]].round(3).rename_axis("far device's share")


def plan_bars(frame: pd.DataFrame, title: str) -> Figure:
    """Sending and computing of each plan as stacked bars, with the saving on the first."""
    fig, ax = plt.subplots(figsize=(7.5, 3.7), layout="constrained")
    frame.plot.bar(stacked=True, ax=ax, rot=0, color=[COLOURS[0], COLOURS[1]], width=0.6)
    total = frame.sum(axis=1, skipna=False)
    for position, value in enumerate(total):
        told = "no plan" if np.isnan(value) else f"{value:.0f} J"
        ax.text(position, np.nan_to_num(value), told, ha="center", va="bottom")
    ax.set(title=title, ylabel="energy of a round in J", ylim=(0, 1.15 * total.max()))
    ax.grid(False, axis="x")
    ax.legend(loc="upper right")
    return fig


def energy_explorer(deadline_s: float, radius_km: float, devices: int, seed: int) -> ipywidgets.VBox:
    """Sliders on one cell above `three_plans`."""

    def draw(deadline_s: float, radius_km: float, devices: int) -> tuple[Figure, str]:
        frame, text = three_plans(whole_cell(deadline_s, radius_km, devices), seed)
        return plan_bars(frame, f"{devices} devices, {radius_km:g} km, {deadline_s:g} s"), text

    return sliders.explorer(
        draw,
        deadline_s=ipywidgets.FloatSlider(deadline_s, min=26, max=60, step=1, description="deadline, s"),
        radius_km=ipywidgets.FloatSlider(radius_km, min=0.1, max=3, step=0.1, description="radius, km"),
        devices=ipywidgets.IntSlider(devices, min=2, max=150, description="devices"),
    )
