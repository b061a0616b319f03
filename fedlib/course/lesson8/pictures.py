"""Lesson 8, who loses and what leaks: clients one by one, and what a server can see."""

from collections.abc import Callable

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedlib.course.lesson8.problem import (
    WAYS,
    accuracies,
    by_seed,
    first_layer,
    gradient_of,
    guessed_labels,
    personal,
    trained,
    update_of,
    world,
)
from fedlib.report import plots, sliders

COLOURS = seaborn.color_palette("colorblind")


def samples(seed: int, each: int = 10) -> Figure:
    """Digits of two clients that hold them upside down and of two that do not."""
    place = world(seed)
    chosen = [0, 1, 20, 21]
    fig, ax = plt.subplots(figsize=(0.62 * each, 2.6), layout="constrained")
    rows = [place.federation.x[place.federation.rows[client][:each], :-1].view(-1, 28, 28) for client in chosen]
    ax.imshow(np.vstack([np.hstack(list(row.numpy())) for row in rows]), cmap="gray_r")
    ax.set(xticks=[], yticks=28 * np.arange(len(chosen)) + 14)
    ax.set_yticklabels([f"client {client}" for client in chosen])
    ax.grid(False)
    seaborn.despine(ax=ax, left=True, bottom=True)
    return fig


def one_by_one(seed: int) -> tuple[Figure, pd.DataFrame]:
    """Every client's accuracy with the server's model on its own test samples, sorted."""
    place = world(seed)
    scores = accuracies(place, trained(seed))
    order = np.argsort(scores, kind="stable")
    fig, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
    colours = [COLOURS[3] if place.turned[client] else COLOURS[0] for client in order]
    ax.bar(range(len(order)), scores[order], color=colours)
    ax.axhline(scores.mean(), color="black", linestyle="--", linewidth=1)
    ax.text(0, scores.mean(), " mean over clients", va="bottom", fontsize=9)
    for name, colour in (("upside-down clients", COLOURS[3]), ("upright clients", COLOURS[0])):
        ax.bar(0, 0, color=colour, label=name)
    ax.set(xlabel="clients, sorted", ylabel="accuracy on its own test digits", xticks=[], ylim=(0, 1))
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.legend(loc="upper left", bbox_to_anchor=(0, 1))
    groups = {"all": scores, "upright": scores[~place.turned], "upside down": scores[place.turned]}
    rows = {
        name: {"clients": len(part), "mean": part.mean(), "lowest": part.min(), "highest": part.max()}
        for name, part in groups.items()
    }
    return fig, pd.DataFrame(rows).T.astype({"clients": int}).round(2).rename_axis("accuracy of clients")


def measures_picture(frame: pd.DataFrame) -> Figure:
    """For each way the mean over clients, the worst tenth and both groups, with 95% intervals over seeds."""
    scores = by_seed(frame)
    fig, ax = plt.subplots(figsize=(8.5, 0.9 + 0.75 * frame["way"].nunique()), layout="constrained")
    ways = list(frame["way"].unique())
    for number, measure in enumerate(scores.columns):
        for place, way in enumerate(ways):
            values = scores.loc[way][measure]
            low, high = plots.interval(values)
            mean, spread = values.mean(), 0.16 * (number - 1.5)
            label = None if place else measure
            marker = "osv^"[number]
            error = [[mean - low], [high - mean]]
            ax.errorbar(mean, place + spread, xerr=error, fmt=marker, color=COLOURS[number], capsize=3, label=label)
    ax.set(yticks=range(len(ways)), yticklabels=ways, xlabel="accuracy in %, 95% interval over seeds", xlim=(0, 100))
    ax.invert_yaxis()
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return fig


def who_gains(seed: int, way: str = "fine-tuned") -> tuple[Figure, pd.DataFrame]:
    """Each client's accuracy with the common model and with one of its own."""
    place = world(seed)
    before, after = accuracies(place, trained(seed)), accuracies(place, personal(seed, way))
    fig, ax = plt.subplots(figsize=(5, 4.6), layout="constrained")
    for turned, name, marker, colour in ((False, "upright", "o", COLOURS[0]), (True, "upside down", "^", COLOURS[3])):
        chosen = place.turned == turned
        ax.plot(before[chosen], after[chosen], marker, color=colour, label=name, alpha=0.8)
    ax.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=":")
    ax.set(xlabel="with the common model", ylabel=f"own model: {way}", xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
    ax.legend(loc="lower right")
    rows = {
        name: {"gain": int((after > before)[chosen].sum()), "lose": int((after < before)[chosen].sum()),
               "the same": int((after == before)[chosen].sum())}
        for name, chosen in (("upright", ~place.turned), ("upside down", place.turned))
    }  # fmt: skip
    return fig, pd.DataFrame(rows).T.rename_axis("clients that")


def explorer(seed: int) -> ipywidgets.VBox:
    """A menu of ways to get a model of one's own."""

    def draw(way: str) -> tuple[Figure, str]:
        fig, table = who_gains(seed, way)
        return fig, f"{table['gain'].sum()} clients gain, {table['lose'].sum()} lose."

    return sliders.explorer(
        draw, way=ipywidgets.Dropdown(options=[way for way in WAYS if way != WAYS[1]], description="model")
    )


def labels_picture(seed: int, clients: list[int]) -> tuple[Figure, pd.DataFrame]:
    """Class shares of some clients, true and guessed from the first gradient that they send."""
    place = world(seed)
    fig, axes = plt.subplots(1, len(clients), figsize=(2.9 * len(clients), 2.9), sharey=True, layout="constrained")
    rows = {}
    for ax, client in zip(axes, clients, strict=True):
        true, guess = guessed_labels(place, client)
        ax.bar(np.arange(10) - 0.2, true, 0.4, color="0.6", label="true")
        ax.bar(np.arange(10) + 0.2, guess, 0.4, color=COLOURS[1], label="guessed")
        ax.set(title=f"client {client}", xlabel="digit", xticks=range(10))
        ax.grid(False, axis="x")
        rows |= {(f"client {client}", "true"): true, (f"client {client}", "guessed"): guess}
    axes[0].set_ylabel("share of its samples")
    axes[0].legend(fontsize=8)
    return fig, pd.DataFrame(rows).T.round(2)


def leaks_picture(seed: int, reveal: Callable[[np.ndarray, np.ndarray], np.ndarray], batches: list[int]) -> Figure:
    """What a student's `reveal` reads from gradients of ever more samples, from an update and from a sum of ten."""
    place = world(seed)
    federation, client = place.federation, 20
    own = federation.rows[client].numpy()
    shown = {"a sample of client 20": federation.x[own[0], :-1].numpy()}
    for many in batches:
        weight, bias = first_layer(place, gradient_of(place, federation.start, own[:many]))
        shown[f"gradient of\n{many} sample{'s' if many > 1 else ''}"] = reveal(weight, bias)
    shown["its update after\n2 epochs, 60 samples"] = reveal(*first_layer(place, update_of(place, client)))
    ten = [update_of(place, other) for other in range(20, 30)]
    shown["sum of the\nupdates of ten"] = reveal(*first_layer(place, ten[0] + sum(ten[1:])))
    fig, axes = plt.subplots(1, len(shown), figsize=(1.75 * len(shown), 2.3), layout="constrained")
    for ax, (name, pixels) in zip(axes, shown.items(), strict=True):
        picture = np.asarray(pixels, dtype=float).reshape(28, 28)
        ax.imshow(np.clip(picture, *np.quantile(picture, [0.005, 0.995])), cmap="gray_r")
        ax.set_title(name, fontsize=9)
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
    return fig


def leaks_table(seed: int, reveal: Callable[[np.ndarray, np.ndarray], np.ndarray], batches: list[int]) -> pd.DataFrame:
    """How alike the revealed picture and the nearest sample behind the gradient are: their correlation."""
    place = world(seed)
    federation = place.federation
    rows = {}
    for many in batches:
        best = []
        for client in range(40):
            own = federation.rows[client].numpy()[:many]
            weight, bias = first_layer(place, gradient_of(place, federation.start, own))
            seen = np.asarray(reveal(weight, bias), dtype=float).ravel()
            best.append(max(np.corrcoef(seen, federation.x[row, :-1].numpy())[0, 1] for row in own))
        rows[f"{many}"] = {"mean over 40 clients": np.mean(best), "largest": np.max(best)}
    return pd.DataFrame(rows).round(2).rename_axis("correlation with the nearest sample; samples in the gradient:")


def masks_picture(update: np.ndarray, masked: np.ndarray, summed: np.ndarray, right: np.ndarray) -> Figure:
    """One client's update, what it sends instead, and the sum of all messages beside the sum of all updates."""
    fig, axes = plt.subplots(1, 3, figsize=(11, 2.8), layout="constrained")
    shown = {"one client's update": update, "what it sends": masked}
    for ax, (name, values), colour in zip(axes, shown.items(), (COLOURS[0], COLOURS[3]), strict=False):
        ax.plot(values, color=colour, linewidth=0.8)
        ax.set(title=name, xlabel="weight")
    axes[2].plot(right, summed, ".", color=COLOURS[2])
    axes[2].set(title="sum of all messages", xlabel="sum of all updates")
    return fig
