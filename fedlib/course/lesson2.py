"""Lesson 2, client drift: its checks, its pictures of the toy federation, and its digits by writer."""

from dataclasses import replace
from functools import cache
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
import torch
from matplotlib.figure import Figure
from torch import nn

from fedlib import data, engine
from fedlib.algorithms import create
from fedlib.course import start, toy
from fedlib.course.exercise import exercise, require
from fedlib.problem import partition
from fedlib.problem.federation import Federation, assemble
from fedlib.problem.streams import generator
from fedlib.report import drift, sliders
from fedlib.runs.simulation import simulate

# --- checks ---


def _close(found, wanted, within: float = 1e-9) -> bool:
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() < within)


@exercise("2.1", "The walk of a client")
def walk(answer):
    require(
        answer is not None, "Put `start` into a list. Each step appends a point, made from the last one in the list."
    )
    found = answer(lambda w: 2 * (w - 3), np.array([1.0]), 0.25, 2)
    require(
        np.shape(found) == (3, 1),
        f"Two steps visit three points, the start is one: shape (3, 1), not {np.shape(found)}.",
    )
    require(_close(found[0], [1.0]), f"The walk begins at `start`, here 1. Yours begins at {float(found[0][0]):g}.")
    require(
        not _close(found[1], [0.0]),
        "Your walk goes uphill: the gradient points to where the loss grows, so subtract it.",
    )
    first = float(found[1][0])
    require(
        _close(first, 2.0), f"From 1 the gradient is -4: the first step ends at 1 + 0.25 * 4. Yours ends at {first:g}."
    )
    require(
        not _close(found[2], [3.0]),
        "Your second step uses the gradient at the start. Ask for it where the client stands.",
    )
    require(_close(found[2], [2.5]), f"The second step should end at 2.5, yours ends at {float(found[2][0]):g}.")
    begin = np.array([0.5, -1.0])
    found = answer(lambda w: np.array([1.0, 3.0]) * w, begin, 0.1, 6)
    require(
        _close(begin, [0.5, -1.0]), "Your function changes `start` itself (w -= ...). Make a new array: w = w - ..."
    )
    require(
        _close(found[-1], [0.5 * 0.9**6, -(0.7**6)]), "In two dimensions it goes wrong: keep arrays and do not round."
    )


@exercise("2.2", "One round of FedAvg")
def fedavg_round(answer):
    require(
        answer is not None, "Let every client walk from the same start. Then average the ends; whose end counts more?"
    )
    gradients = [lambda w: w, lambda w: 1.2 * (w - 4)]
    found = float(np.squeeze(answer(gradients, [1, 3], np.array([1.0]), 0.5, 1)))
    hint = "After one step the clients stand at 0.5 and 2.8; the second has three of four samples"
    require(not _close(found, 1.65), f"{hint}, so it counts three times as much. You took the plain mean.")
    require(not _close(found, 8.9), f"{hint}: divide by the sum of the sizes.")
    require(
        not _close(found, 2.075), f"{hint}. Every client starts from the server's model, not where another one stopped."
    )
    require(_close(found, 2.225), f"{hint}. Their average is 2.225, you have {found:g}.")
    found = float(np.squeeze(answer(gradients, [1, 3], np.array([1.0]), 0.5, 2)))
    require(
        not _close(found, 2.745625),
        "With two steps you average after each of them. The clients walk all their steps alone; "
        "the server averages once.",
    )
    require(
        _close(found, 2.7025), f"After two steps they stand at 0.25 and 3.52, which makes 2.7025; you have {found:g}."
    )


@exercise("2.3", "Where FedAvg comes to rest")
def fixed_point(answer):
    require(
        answer is not None,
        "Make every client's B_i first (np.linalg.matrix_power). Then bring all w to one side: "
        "np.linalg.solve does the rest.",
    )
    one = np.array([[[1.0]], [[2.0]]]), np.array([[0.0], [1.0]])
    found = np.asarray(answer(*one, 0.5, 2), dtype=float)
    case = "H = 1 and 2, m = 0 and 1, lr = 0.5, two steps"
    require(found.shape == (1,), f"Return one point, an array as long as a minimum: shape (1,), not {found.shape}.")
    require(
        not _close(found, [2 / 3]),
        f"{case}: 2/3 is the optimum. FedAvg stops elsewhere; where do the local steps enter?",
    )
    require(
        not _close(found, [1 / 2]), f"{case}: 1/2 is the mean of the minima, which needs endlessly many local steps."
    )
    require(not _close(found, [0.0]), f"{case}: you weigh by what is left, (I - lr H)^steps. Weigh by what was walked.")
    require(_close(found, [4 / 7]), f"{case}: B = 3/4 and 1, so w = 1 / (7/4). You have {found[0]:g}.")
    crowd = toy.Toy(
        np.array([[[1.0, 0.6], [0.6, 1.0]], [[0.3, -0.1], [-0.1, 2.0]]]), np.array([[1.0, -2.0], [0.0, 3.0]])
    )
    place = np.asarray(answer(crowd.curvatures, crowd.minima, 0.2, 7), dtype=float)
    require(place.shape == (2,), f"In two dimensions the point has two entries, yours has shape {place.shape}.")
    moved = toy.travel(crowd, 1, 0.2, 7, start=tuple(place)).averages[1] - place
    require(
        np.abs(moved).max() < 1e-8,
        "With full matrices one more round of FedAvg still moves your point. A matrix to a power is "
        "np.linalg.matrix_power, not **, and B_i @ m_i is a matrix product.",
    )


@exercise("2.4", "The hill between two models")
def barrier(answer):
    require(
        answer is not None, "Draw a straight line from the first loss to the last. How far above it do the losses rise?"
    )
    cases = {
        (1.0, 3.0, 1.0): (2.0, "From 1 over 3 to 1 the hill is 2 high"),
        (1.0, 3.0, 3.0): (1.0, "From 1 to 3 the straight line is at 2 halfway; a loss of 3 there is 1 above it"),
        (4.0, 1.0, 0.5, 2.0): (0.0, "In a valley the largest excess is that of the ends, 0"),
        (0.0, 0.0, 6.0, 2.0, 4.0): (
            4.0,
            "The hill need not lie in the middle: at the third of five points the line is at 2",
        ),
    }
    for losses, (wanted, why) in cases.items():
        found = float(answer(np.array(losses)))
        require(abs(found - wanted) < 1e-9, f"{why}. For {list(losses)} you have {found:g}.")


@exercise("2.5", "Different, and yet no harm")
def harmless(answer):
    require(
        answer is not None,
        "Return curvatures (n x 2 x 2) and minima (n x 2). The sliders of this lesson help to find some.",
    )
    curvatures, minima = (np.asarray(part, dtype=float) for part in answer())
    clients = len(minima)
    require(
        clients >= 2 and minima.shape == (clients, 2) and curvatures.shape == (clients, 2, 2),
        "Two or more clients in two dimensions, please: shapes (n, 2, 2) and (n, 2), "
        f"not {curvatures.shape} and {minima.shape}.",
    )
    require(np.allclose(curvatures, curvatures.transpose(0, 2, 1)), "A curvature is a symmetric matrix.")
    steepest = np.linalg.eigvalsh(curvatures)
    require(steepest.min() > 0, "Every client's loss must be a valley: all eigenvalues of its curvature positive.")
    require(
        steepest.max() < 20,
        "Walks with lr = 0.1 run away where the curvature is above 20: make your valleys less steep.",
    )
    farthest = max(float(np.hypot(*(a - b))) for a in minima for b in minima)
    require(farthest >= 1, f"Your minima are at most {farthest:.2f} apart; two of them should be at least 1 apart.")
    yours = toy.Toy(curvatures, minima)
    far = float(yours.distance(toy.rest(yours, LR, STEPS)))
    require(
        far < 0.01, f"FedAvg with lr = {LR} and {STEPS} steps rests {far:.2f} off the optimum. What must clients share?"
    )


# --- the toy ---

LR, STEPS, ROUNDS = 0.1, 20, 25  # of the pictures, before anybody moves a slider


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


# --- digits by writer ---

DEALS = {
    "shuffled": lambda digits, writers, clients, rng: partition.iid(digits, clients, rng=rng),
    "by writer": lambda digits, writers, clients, rng: partition.by_writer(writers, rng=rng),
    "two digits": lambda digits, writers, clients, rng: partition.shards(digits, clients, 2, rng=rng),
    "one digit": lambda digits, writers, clients, rng: partition.shards(digits, clients, 1, rng=rng),
}
EVERY = 15  # every 15th writer is a client: 24 of 360
HIDDEN = 32  # units of the network's hidden layer
WORK = {"lr": 0.1, "batch": 20}


@cache
def digits(deal: str, seed: int = 0) -> Federation:
    """The digits of 24 writers, dealt to 24 clients in one of four ways; the test digits are of all writers.

    The same samples, the same network and the same start in all four: only who holds what differs.
    """
    dataset = data.load("handwriting")
    assert dataset.writer_train is not None  # it knows its writers
    keep = np.flatnonzero((dataset.y_train < 10).numpy() & (dataset.writer_train % EVERY == 0).numpy())
    labels, writers = dataset.y_train.numpy()[keep], dataset.writer_train.numpy()[keep]
    clients = len(np.unique(writers))
    parts = DEALS[deal](labels, writers, clients, rng=generator(seed, "partition"))
    shown = dataset.y_test < 10
    dataset = replace(dataset, x_test=dataset.x_test[shown], y_test=dataset.y_test[shown], classes=dataset.classes[:10])
    pixels = dataset.x_train[0].numel()
    network = nn.Sequential(nn.Flatten(), nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    return assemble(dataset, [keep[part] for part in parts], network, seed)


def ten(federation: Federation) -> Federation:
    """The first ten clients only, so that one can draw them all."""
    return replace(federation, rows=federation.rows[:10])


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
    return start.drifts(found), table.round(2)


def trained(rounds: int) -> torch.Tensor:
    """The server's model after some rounds of FedAvg on the shuffled clients."""
    return start.after(digits("shuffled"), rounds, **WORK, epochs=3)


PLANS = [(1, 8), (3, 8), (8, 8), (1, 24), (8, 3), (24, 1)]  # local epochs, rounds


def local_work(deals: list[str], seeds: range) -> pd.DataFrame:
    """Test accuracy at the end of FedAvg for all `PLANS`: one row a deal, seed and plan."""
    rows = []
    for deal in deals:
        for seed in seeds:
            for epochs, rounds in PLANS:
                method = create("fedavg", **WORK, epochs=epochs)
                end = simulate(method, digits(deal, seed), rounds, every=rounds, bar=False).iloc[-1]
                rows.append(
                    {"clients": deal, "seed": seed, "epochs": epochs, "rounds": rounds, "accuracy": end["accuracy"]}
                )
    return pd.DataFrame(rows)


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
        ax.set(title=title, xscale="log", xlabel="local epochs a round", ylabel="test accuracy")
        ax.set_xticks(shown := sorted(part["epochs"].unique()), shown)
        ax.minorticks_off()
    axes[1].get_legend().remove()
    return fig


def test_loss_of(federation: Federation, weights: torch.Tensor) -> float:
    return engine.mean_loss(federation.network, weights, federation.x_test, federation.y_test)


def between(first: torch.Tensor, second: torch.Tensor, points: int = 21) -> tuple[np.ndarray, np.ndarray]:
    """Positions from 0 to 1 on the line between two models, and the test loss at each."""
    federation = digits("shuffled")
    places = np.linspace(0, 1, points)
    losses = [test_loss_of(federation, torch.lerp(first, second, float(place))) for place in places]
    return places, np.array(losses)


def pairs(model: torch.Tensor, epochs: int) -> dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
    """Pairs of models to walk between; where ten clients started from `model`, also the average of all ten."""
    found: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = {}
    for deal in ("shuffled", "two digits", "one digit"):
        cohort = engine.Cohort(np.arange(10), model)
        models = engine.train(ten(digits(deal)), cohort, engine.Work(**WORK, epochs=epochs), 1).weights
        found[f"two clients, {deal}"] = models[0], models[1], models.mean(0)
    first, second = [start.after(replace(ten(digits("shuffled")), seed=seed), 5, **WORK, epochs=5) for seed in (0, 1)]
    return found | {"shuffled, two different starts": (first, second, None)}


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
