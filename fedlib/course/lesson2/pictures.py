"""Lesson 2, client drift: the toy federation, drift on digits, lines between models."""

from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib import engine
from fedlib.course import toy
from fedlib.course.lesson2.problem import LR, ROUNDS, STEPS, WORK, between, digits, pairs, ten, test_loss_of
from fedlib.problem.federation import Federation
from fedlib.report import drift, sliders


def explored(steps: int, lr: float, apart: float, bend: float) -> tuple[Figure, pd.DataFrame]:
    """FedAvg on the toy with these settings: the picture, and how far the server is from the optimum."""
    clients = toy.clients(apart, bend)
    journey = toy.travel(clients, ROUNDS, lr, steps)
    far = clients.distance(journey.averages)
    numbers = {f"round {round}": [far[round]] for round in (0, 1, 5, ROUNDS)}
    fig = toy.picture(clients, journey, f"{steps} local step{'s' if steps > 1 else ''}, learning rate {lr:g}")
    return fig, pd.DataFrame(numbers, index=["distance to the optimum"])


def explorer() -> ipywidgets.VBox:
    """Sliders above `explored`."""

    def draw(**values: Any) -> tuple[Figure, str]:
        fig, table = explored(**values)
        return fig, f"After {ROUNDS} rounds the server is {table.iloc[0, -1]:.3f} away from the optimum."

    return sliders.explorer(
        draw,
        steps=ipywidgets.IntSlider(STEPS, min=1, max=100, description="local steps"),
        lr=ipywidgets.FloatSlider(LR, min=0.01, max=0.9, step=0.01, description="lr"),
        apart=ipywidgets.FloatSlider(1.0, min=0, max=1, step=0.05, description="minima apart"),
        bend=ipywidgets.FloatSlider(1.0, min=0, max=1.2, step=0.05, description="curvature"),
    )


def resting_places(rates: list[float], steps: list[int]) -> tuple[Figure, pd.DataFrame]:
    """Where FedAvg rests, found by running it until nothing moves: on the map, and as a distance to the optimum."""
    clients = toy.clients()
    places = {lr: np.stack([toy.rest(clients, lr, many) for many in steps]) for lr in rates}
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for number, (lr, points) in enumerate(places.items()):
        look = {"color": toy.COLOURS[number], "marker": toy.MARKERS[number], "markersize": 5, "label": f"lr {lr:g}"}
        left.plot(*points.T, linewidth=0.8, **look)
        right.plot(steps, clients.distance(points), **look)
    left.plot(*clients.optimum, "*", color=toy.COLOURS[3], markersize=17, label="the optimum")
    left.plot(*clients.minima.mean(0), "X", color="black", markersize=10, label="mean of the minima")
    left.set(xlabel="first weight", ylabel="second weight", title="where FedAvg rests", aspect="equal")
    left.margins(0.12)
    right.axhline(clients.distance(clients.minima.mean(0)), color="black", linestyle=":", linewidth=1)
    right.set(xscale="log", xlabel="local steps", ylabel="distance to the optimum", title="how far away that is")
    right.set_xticks(steps, steps)
    right.minorticks_off()
    left.legend(fontsize=9)
    table = {f"lr {lr:g}": clients.distance(points) for lr, points in places.items()}
    return fig, pd.DataFrame(table, index=pd.Index(steps, name="local steps")).T.round(3)


def samples(federation: Federation, clients: int, each: int) -> Figure:
    """Some digits of the first clients, one row per client."""
    rows = [federation.x[federation.rows[client][:each], :-1].view(-1, 28, 28) for client in range(clients)]
    mosaic = torch.cat([torch.cat(list(row), dim=1) for row in rows])
    fig, ax = plt.subplots(figsize=(0.6 * each, 0.62 * clients), layout="constrained")
    ax.imshow(mosaic, cmap="gray_r")
    ax.set(xticks=[], yticks=28 * np.arange(clients) + 14)
    ax.set_yticklabels([f"client {client}" for client in range(clients)])
    ax.grid(False)
    seaborn.despine(ax=ax, left=True, bottom=True)
    return fig


def drifts(model: torch.Tensor, deals: list[str], epochs: int) -> tuple[Figure, pd.DataFrame]:
    """Ten clients of each deal train `model` once: where they go, and what their models know then."""
    found = {name: drift.measure(ten(digits(name)), model, engine.Work(**WORK, epochs=epochs)) for name in deals}
    table = pd.concat({name: each.table().iloc[0] for name, each in found.items()}, axis=1)
    by_chance = pd.DataFrame(dict.fromkeys(deals, 1 / np.sqrt(10)), index=["kept by ten unrelated moves"])
    return _drift_picture(found), pd.concat([table.iloc[:2], by_chance, table.iloc[2:]]).round(2)


def _drift_picture(found: dict[str, drift.Drift]) -> Figure:
    """A column per deal, in common scales: the clients' moves above, what their models know below."""
    fig, axes = plt.subplots(
        2, len(found), figsize=(4 * len(found), 7), sharex="row", sharey="row", layout="constrained"
    )
    reach = 1.1 * max((each.length * np.cos(np.radians(each.angle))).max() for each in found.values())
    height = 1.1 * max((each.length * np.sin(np.radians(each.angle))).max() for each in found.values())
    for (above, below), (name, each) in zip(axes.T, found.items(), strict=True):
        for length, angle in zip(each.length, np.radians(each.angle), strict=True):
            _move(above, length * np.cos(angle), length * np.sin(angle), toy.COLOURS[0], 1.3)
        _move(above, each.server_length, 0.0, "black", 3)
        above.set(title=f"{name}: {each.kept:.2f} kept", xlim=(-0.1, reach), ylim=(-0.06, height), aspect="equal")
        above.set_xlabel("along the average (black)")
        rows = np.vstack([each.recall, np.full(10, np.nan), each.server_recall])
        image = below.imshow(rows, cmap="mako_r", vmin=0, vmax=1, aspect="auto")
        below.set(xlabel="digit", xticks=range(10), yticks=[*range(10), 11])
        below.set_yticklabels([*map(str, range(10)), "average"])
        below.tick_params(length=0)
        below.grid(False)
    axes[0, 0].set_ylabel("away from it")
    axes[1, 0].set_ylabel("client")
    fig.colorbar(image, ax=axes[1], label="test digits got right", format=PercentFormatter(1))
    return fig


def _move(ax: Axes, x: float, y: float, colour: Any, width: float) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (x, y), (0, 0), arrowprops=look)


def unequal_steps(steps: tuple[int, ...], rates: list[float]) -> pd.DataFrame:
    """Clients with one curvature and unequal numbers of local steps: how far from the optimum FedAvg rests.

    The last column divides every client's move by its number of steps, as FedNova does.
    """
    clients, many = toy.clients(apart=1, bend=0), np.array(steps)
    rows = {}
    for lr in rates:
        places = {
            f"{STEPS} steps each": toy.resting_place(clients, lr, STEPS),
            f"{', '.join(map(str, steps))} steps": toy.resting_place(clients, lr, many),
            "the same, divided by steps": toy.resting_place(clients, lr, many, weights=1 / many),
        }
        rows[f"lr {lr:g}"] = {name: float(clients.distance(place)) for name, place in places.items()}
    return pd.DataFrame(rows).T.rename_axis("distance of the fixed point to the optimum").round(3)


def budgets(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Two ways to spend: 8 exchanges whatever the clients do, or 24 passes however often they exchange."""
    passes = frame[frame["rounds"] * frame["epochs"] == 24].sort_values("epochs", kind="stable")
    return {
        "8 rounds, more and more local work": frame[frame["rounds"] == 8],
        "24 local passes, fewer and fewer rounds": passes,
    }


def work_picture(frame: pd.DataFrame) -> Figure:
    """Accuracy over local epochs, a line a way of dealing, for both budgets."""
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    order = list(frame["clients"].unique())
    for ax, (title, part) in zip(axes, budgets(frame).items(), strict=True):
        seaborn.lineplot(
            part,
            x="epochs",
            y="accuracy",
            hue="clients",
            style="clients",
            hue_order=order,
            style_order=order,
            markers=["o", "s", "^", "D"],
            dashes=False,
            errorbar="sd",
            ax=ax,
        )
        ax.set(title=title, xscale="log", xlabel="local epochs per round", ylabel="test accuracy")
        ax.set_xticks(shown := sorted(part["epochs"].unique()), shown)
        ax.minorticks_off()
    axes[1].get_legend().remove()
    return fig


def line_picture(model: torch.Tensor, epochs: int) -> tuple[Figure, pd.DataFrame]:
    """The test loss along the line between two models, and at the average of all ten, beside that of their start."""
    federation = digits("shuffled")
    before = test_loss_of(federation, model)
    chosen = pairs(model, epochs)
    fig, axes = plt.subplots(1, len(chosen), figsize=(3.4 * len(chosen), 3.8), sharey=True, layout="constrained")
    rows = {}
    for ax, (title, (first, second, average)) in zip(axes, chosen.items(), strict=True):
        places, losses = between(first, second)
        ax.plot(places, losses, color=toy.COLOURS[0], label="on the line between two")
        ax.plot([0, 0.5, 1], losses[[0, len(places) // 2, -1]], "o", color=toy.COLOURS[0])
        rows[title] = {"first": losses[0], "halfway": losses[len(places) // 2], "second": losses[-1]}
        if average is not None:
            after = test_loss_of(federation, average)
            ax.axhline(before, color="black", linestyle=":", label="the model all started from")
            ax.plot(0.5, after, "D", color=toy.COLOURS[3], markersize=8, label="average of all ten")
            rows[title] |= {"average of all ten": after, "start": before}
        ax.set(title=title.replace(", ", ",\n"), xlabel="from one model to the other", xticks=[0, 0.5, 1])
    axes[0].set(ylabel="test loss")
    axes[-2].legend(fontsize=8, loc="upper center")
    table = pd.DataFrame(rows).T.rename_axis("test loss")
    return fig, table.map(lambda loss: "" if np.isnan(loss) else f"{loss:.2f}")
