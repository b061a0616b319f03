"""Lesson 7, the bill: messages, energy and time."""

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib.course import clock
from fedlib.course.lesson7.problem import DEADLINE_S, SECONDS, sending_j, three_plans, trial, whole_cell
from fedlib.report import plots, sliders

COLOURS = seaborn.color_palette("colorblind")


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


def one_round(seed: int, round: int) -> tuple[Figure, pd.DataFrame]:
    """The ten devices of a round and their seconds; silent ones are hatched."""
    one = trial(seed)
    clients = one.invite(one.invited, round)
    seconds = one.devices.answers(round)[clients]
    fig, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    shown = np.minimum(seconds, clock.GIVE_UP)
    bars = ax.barh(range(len(clients)), shown, color=COLOURS[0])
    for bar, silent in zip(bars, ~np.isfinite(seconds), strict=True):
        if silent:
            bar.set(facecolor="white", edgecolor=COLOURS[3], hatch="//")
    ax.axvline(DEADLINE_S, color="black", linestyle="--", label=f"a deadline of {DEADLINE_S:g} s")
    ax.set(xlabel="seconds until the answer (hatched: never, given up)", ylabel="device", yticks=range(len(clients)))
    ax.set_yticklabels(clients)
    ax.grid(False, axis="y")
    ax.legend(loc="lower right")
    told = ["never" if np.isinf(each) else f"{each:.2f}" for each in seconds]
    return fig, pd.DataFrame({"seconds": told}, index=pd.Index(clients, name="device")).T


def timelines(frame: pd.DataFrame) -> Figure:
    """Accuracy over seconds: a panel per strategy, means over seeds with 95% intervals; waiting for all is dashed."""
    waiting, *others = frame["method"].unique()
    fig, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey=True, layout="constrained")
    for ax, name, colour in zip(axes.flat, others, COLOURS[1:], strict=False):
        for method, look in ((waiting, {"color": "0.35", "linestyle": "--"}), (name, {"color": colour})):
            runs = frame[frame["method"] == method]
            plots.band(ax, runs, "accuracy", method, look | {"linewidth": 1.8}, along="seconds", spread=plots.interval)
        ax.set(title=name, xlim=(0, SECONDS), ylim=(0.2, 0.95))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.legend(loc="lower right", fontsize=9)
    axes.flat[-1].axis("off")
    fig.supxlabel("seconds", fontsize=11)
    fig.supylabel("test accuracy", fontsize=11)
    return fig


def late_picture(frame: pd.DataFrame) -> Figure:
    """Accuracy on the slow devices' digits and on the others, means over seeds with their 95% intervals."""
    names = list(frame["method"].unique())
    fig, ax = plt.subplots(figsize=(8.5, 3.9), layout="constrained")
    for column, marker, colour, shift in (("8 and 9", "o", COLOURS[3], -0.12), ("the others", "s", COLOURS[0], 0.12)):
        for place, name in enumerate(names):
            values = frame[frame["method"] == name][column]
            low, high = plots.interval(values)
            mean, label = values.mean(), f"digits {column}" if column == "8 and 9" else column
            spread = [[mean - low], [high - mean]]
            label = None if place else label
            ax.errorbar(mean, place + shift, xerr=spread, fmt=marker, color=colour, capsize=3, label=label)
    ax.set(yticks=range(len(names)), yticklabels=names, xlabel="test accuracy after a minute, 95% interval")
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    ax.invert_yaxis()
    ax.legend(loc="lower left")
    return fig


def stale_picture(log: pd.DataFrame, staleness: np.ndarray) -> tuple[Figure, pd.DataFrame]:
    """How stale the answers of slow and fast devices are, and how often they come."""
    fig, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
    ax.plot(log["seconds"], staleness, "o", color=COLOURS[0], alpha=0.35, markersize=4)
    ax.set(xscale="log", xlabel="the device's mean seconds", ylabel="answers that came in between")
    ax.set_xticks(ticks := [0.2, 0.5, 1, 2, 5], [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    edges = [0, 0.5, 1, 2, np.inf]
    groups = pd.cut(log["seconds"], edges, labels=["below 0.5 s", "0.5 to 1 s", "1 to 2 s", "above 2 s"])
    table = pd.DataFrame({"answers": 1, "mean staleness": staleness}).groupby(groups.to_numpy(), sort=False)
    shown = table.agg({"answers": "sum", "mean staleness": "mean"}).reindex(groups.cat.categories)
    return fig, shown.round(1).T.rename_axis("devices of")
