"""Lesson 3, correcting the client: walks, resting places and noise."""

from collections.abc import Callable
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib.course import toy
from fedlib.course.lesson3.problem import CORRECTIONS, LR, ROUNDS, STEPS, anchored, fcbafl, fedprox, scaffold
from fedlib.report import plots, sliders


def gallery() -> tuple[Figure, pd.DataFrame]:
    """A panel a correction with the first round's walks and all averages; the last panel has all distances."""
    clients = toy.clients()
    fig, axes = plt.subplots(2, 3, figsize=(13, 8.4), layout="constrained")
    rows = {}
    for number, (name, direction) in enumerate(CORRECTIONS.items()):
        journey = toy.travel(clients, ROUNDS, LR, STEPS, direction)
        far = clients.distance(journey.averages)
        toy.draw(axes.flat[number], clients, journey).set_title(name)
        axes.flat[-1].plot(np.maximum(far, 1e-4), marker="osv^D"[number], markersize=4, linewidth=1.2, label=name)
        rows[name] = {f"round {round}": far[round] for round in (1, 2, 5, 10, ROUNDS)}
    toy.far_axis(axes.flat[-1]).set(xlabel="communication round", title="who arrives, and when?", ylim=(0.7e-4, 6))
    axes.flat[-1].legend(fontsize=8)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return fig, pd.DataFrame(rows).T.rename_axis("distance to the optimum").round(3)


def springs(strengths: list[float]) -> tuple[Figure, pd.DataFrame]:
    """FedProx for several mu: where it rests, and how many rounds it needs to get near that place."""
    clients = toy.clients()
    rows = []
    for mu in strengths:
        place = toy.rest(clients, LR, STEPS, fedprox(mu))
        far = np.sqrt(((toy.travel(clients, 400, LR, STEPS, fedprox(mu)).averages - place) ** 2).sum(-1))
        rows.append((mu, float(clients.distance(place)), int((far > 0.05).sum())))
    table = pd.DataFrame(rows, columns=["mu", "rests at a distance of", "rounds to get there"])
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.plot(strengths, table["rests at a distance of"], "o-", color=toy.COLOURS[0])
    left.set(xlabel="mu", ylabel="distance to the optimum", title="where it rests", ylim=(0, None))
    right.plot(strengths, table["rounds to get there"], "s-", color=toy.COLOURS[1])
    right.set(xlabel="mu", ylabel="rounds", title="how long that takes", ylim=(0, None))
    return fig, table.set_index("mu").T.round(2)


RUNS_AWAY = 10.0  # a server this far from the optimum does not come back


def endurance(steps: list[int], lr: float, rounds: int = 60) -> tuple[Figure, pd.DataFrame]:
    """How far from the optimum each correction is after many rounds, over the number of local steps."""
    clients = toy.clients()
    shown = CORRECTIONS | {"FCBAFL, eta = 0.2": fcbafl(0.2)}
    table = {
        name: [float(clients.distance(toy.travel(clients, rounds, lr, many, way).averages[-1])) for many in steps]
        for name, way in shown.items()
    }
    numbers = pd.DataFrame(table, index=pd.Index(steps, name="local steps")).T
    words = numbers.map(lambda far: "arrives" if far < 0.001 else f"{far:.3f}" if far < RUNS_AWAY else "runs away")
    fig, ax = plt.subplots(figsize=(8.5, 3.6), layout="constrained")
    shade = np.log10(numbers.clip(1e-3, RUNS_AWAY))
    seaborn.heatmap(shade, annot=words, fmt="", cmap="rocket_r", vmin=-3, vmax=1.3, cbar=False, linewidths=2, ax=ax)
    ax.set(xlabel="local steps", ylabel="", title=f"distance to the optimum after {rounds} rounds")
    ax.tick_params(rotation=0, length=0)
    return fig, words


def curves(frame: pd.DataFrame) -> Figure:
    """One panel per rival of FedAvg: means over seeds with their 95% intervals, FedAvg dashed."""
    rivals = [name for name in frame["method"].unique() if name != "FedAvg"]
    shape = {"figsize": (10.5, 6.4), "sharex": True, "sharey": True, "layout": "constrained"}
    fig, axes = plt.subplots(2, -(-len(rivals) // 2), **shape)
    for ax, name, colour in zip(axes.flat, rivals, toy.COLOURS[1:], strict=False):
        _band(ax, frame, "FedAvg", "0.35", "--")
        _band(ax, frame, name, colour, "-")
        ax.set(title=name, ylim=(0.5, 0.95), xlim=(0, frame["round"].max()))
        ax.legend(loc="lower right", fontsize=9)
    for ax in axes[:, 0]:
        ax.set_ylabel("test accuracy")
        ax.yaxis.set_major_formatter(PercentFormatter(1))
    for ax in axes[-1]:
        ax.set_xlabel("round")
    return fig


def _band(ax: Axes, frame: pd.DataFrame, name: str, colour: Any, dash: str) -> None:
    """The mean over seeds and its 95% interval, round by round."""
    look = {"color": colour, "linestyle": dash, "linewidth": 1.8}
    plots.band(ax, frame[frame["method"] == name], "accuracy", name, look, spread=plots.interval)


def gains_picture(gains: dict[str, tuple[float, float, float]]) -> Figure:
    """Mean gains over FedAvg with their intervals, in points; zero is no gain."""
    fig, ax = plt.subplots(figsize=(7.5, 0.8 + 0.5 * len(gains)), layout="constrained")
    for place, (mean, low, high) in enumerate(gains.values()):
        ax.errorbar(
            100 * mean, place, xerr=[[100 * (mean - low)], [100 * (high - mean)]], fmt="o", capsize=4, color="C0"
        )
    ax.axvline(0, color="black", linewidth=1)
    ax.set(yticks=range(len(gains)), yticklabels=list(gains), xlabel="gain over FedAvg in points, 95% interval")
    ax.invert_yaxis()
    return fig


CHOICES: dict[str, Callable[[float], toy.Direction]] = {
    "FedAvg": lambda strength: toy.plain,
    "FedProx (strength is mu)": fedprox,
    "SCAFFOLD": lambda strength: scaffold(),
    "FCBAFL (strength is eta)": fcbafl,
    "ACFMO's local step": lambda strength: anchored(),
}


def explored(method: str, strength: float, steps: int, lr: float) -> tuple[Figure, float]:
    """One correction on the toy: the picture, and the distance to the optimum after the last round."""
    clients = toy.clients()
    journey = toy.travel(clients, ROUNDS, lr, steps, CHOICES[method](strength))
    shown = toy.ClientWalks(
        *(np.nan_to_num(np.clip(part, -1e3, 1e3), nan=1e3) for part in (journey.walks, journey.averages))
    )
    return toy.picture(clients, shown, method.split(" (")[0]), float(clients.distance(shown.averages[-1]))


def explorer() -> ipywidgets.VBox:
    """A menu of corrections with sliders, above the picture that follows."""

    def draw(**values) -> tuple[Figure, str]:
        fig, far = explored(**values)
        return fig, f"After {ROUNDS} rounds the server is {far:.3f} away from the optimum."

    return sliders.explorer(
        draw,
        method=ipywidgets.Dropdown(options=list(CHOICES), value="FCBAFL (strength is eta)", description="method"),
        strength=ipywidgets.FloatSlider(1.0, min=0, max=5, step=0.1, description="strength"),
        steps=ipywidgets.IntSlider(STEPS, min=1, max=100, description="local steps"),
        lr=ipywidgets.FloatSlider(LR, min=0.01, max=0.9, step=0.01, description="lr"),
    )


def yours(name: str, direction: toy.Direction, lr: float = LR) -> tuple[Figure, pd.DataFrame]:
    """The toy with a student's direction, and its distances beside those of FedAvg."""
    clients = toy.clients()
    ways = {"FedAvg": toy.plain, name: direction}
    journeys = {way: toy.travel(clients, ROUNDS, lr, STEPS, each) for way, each in ways.items()}
    rows = {
        way: {f"round {round}": clients.distance(journey.averages)[round] for round in (1, 5, ROUNDS)}
        for way, journey in journeys.items()
    }
    return toy.picture(clients, journeys[name], name), pd.DataFrame(rows).T.rename_axis(
        "distance to the optimum"
    ).round(3)


def noise_picture(frame: pd.DataFrame) -> Figure:
    fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
    ax.plot(frame.index, frame["plain"], "o-", markersize=4, label="the minibatch's gradient")
    ax.plot(frame.index, frame["controlled"], "s-", markersize=4, label="minus the same minibatch's at the start")
    ax.set(xlabel="local step", ylabel="noise of the direction", ylim=(0, None))
    ax.legend()
    return fig


def unequal(scaffold_round: Callable, steps: tuple[int, ...], rounds: int = 40) -> tuple[Figure, pd.DataFrame]:
    """Clients with unequal numbers of steps: FedAvg's distance to the optimum, and that of a student's SCAFFOLD."""
    clients = toy.clients()
    gradients = [
        lambda w, H=H, m=m: H @ (w - m) for H, m in zip(clients.curvatures, clients.minima, strict=True)
    ]  # of each client alone
    x, own, plain = np.array(toy.START), np.zeros_like(clients.minima), np.array(toy.START)
    c, ways = own.mean(0), {"FedAvg": [plain], "your SCAFFOLD": [x]}
    for _ in range(rounds):
        x, c, own = scaffold_round(gradients, x, c, own, LR, list(steps))
        plain = np.mean([_walk(gradient, plain, many) for gradient, many in zip(gradients, steps, strict=True)], axis=0)
        ways["FedAvg"].append(plain)
        ways["your SCAFFOLD"].append(np.asarray(x))
    return _distances({name: np.array(places) for name, places in ways.items()}, clients)


def _walk(gradient: Callable[[np.ndarray], np.ndarray], start: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        start = start - LR * gradient(start)
    return start


def dynamic(feddyn_round: Callable, alphas: list[float]) -> tuple[Figure, pd.DataFrame]:
    """A student's FedDyn on the toy for several alpha, beside FedProx with endless local steps."""
    clients = toy.clients()
    ways = {"FedProx, mu = 0.5": toy.travel(clients, ROUNDS, LR, 500, fedprox(0.5)).averages}
    for alpha in alphas:
        theta, memories = np.array(toy.START), np.zeros_like(clients.minima)
        places = [theta]
        for _ in range(ROUNDS):
            theta, memories = feddyn_round(clients.curvatures, clients.minima, theta, memories, alpha)
            places.append(np.asarray(theta))
        ways[f"your FedDyn, alpha = {alpha:g}"] = np.array(places)
    return _distances(ways, clients)


def _distances(ways: dict[str, np.ndarray], clients: toy.Toy) -> tuple[Figure, pd.DataFrame]:
    """How far each way is from the optimum, round by round."""
    fig, ax = plt.subplots(figsize=(7.5, 3.9), layout="constrained")
    rows = {}
    for number, (name, places) in enumerate(ways.items()):
        far = clients.distance(places)
        ax.plot(np.maximum(far, 1e-4), marker="osv^"[number], markersize=4, linewidth=1.2, label=name)
        rows[name] = {f"round {round}": far[round] for round in (1, 5, 10, len(far) - 1)}
    toy.far_axis(ax).set(xlabel="communication round", ylim=(0.7e-4, 20))
    ax.legend(fontsize=9)
    return fig, pd.DataFrame(rows).T.rename_axis("distance to the optimum").round(3)
