"""Lesson 1, what heterogeneity is: maps of splits, pages of handwriting, and sliders."""

from collections.abc import Callable

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from fedlib.course.lesson1.problem import CLASSES, Characters
from fedlib.problem import partition, skew
from fedlib.problem.streams import generator
from fedlib.report import plots, sliders

MEASURES = ["effective_classes", "emd", "hellinger", "quantity_gini"]
SENTENCE = (
    "A client holds {effective_classes:.1f} digits (effective number), {emd:.2f} (EMD) away from everybody's mixture. "
    "Sizes differ by {quantity_gini:.2f} (Gini)."
)
# What the sliders of the lesson can split by: the name, how to split, and from where to where the dial goes
SPLITS: dict[str, Callable] = {
    "Dirichlet, a mixture for each client": partition.dirichlet_clients,
    "Dirichlet, each class over the clients": partition.dirichlet,
    "shards": partition.shards,
    "dominance": partition.dominance,
}


def numbers(splits: dict[str, list[np.ndarray]], labels: np.ndarray) -> pd.DataFrame:
    """The measures of each split, means over its clients."""
    means = {
        name: skew.summary(skew.class_counts(labels, parts, CLASSES)).loc[MEASURES, "mean"]
        for name, parts in splits.items()
    }
    return pd.DataFrame(means).T.round(2)


def maps(splits: dict[str, list[np.ndarray]], labels: np.ndarray) -> Figure:
    """Who holds what: one map a split, clients across, digits up."""
    fig, axes = plt.subplots(1, len(splits), figsize=(5 * len(splits), 3.8), layout="constrained")
    for ax, (name, parts) in zip(np.atleast_1d(axes), splits.items(), strict=True):
        _map(skew.class_counts(labels, parts, CLASSES), ax, name)
    return fig


def _map(counts: np.ndarray, ax: Axes, title: str) -> None:
    plots.heatmap(counts, ax=ax)
    ax.set(title=title, ylabel="digit")


def kinds(
    splits: dict[str, list[np.ndarray]], labels: np.ndarray, characters: Characters, writers: np.ndarray
) -> Figure:
    """The first picture: who holds what in each split, in one scale of colours, and a map of pictures."""
    counts = {name: skew.class_counts(labels, parts, CLASSES) for name, parts in splits.items()}
    most = max(table.max() for table in counts.values())
    fig, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for ax, (name, table) in zip(axes.flat, counts.items(), strict=False):
        look = {"cmap": "mako_r", "vmin": 0, "vmax": most, "cbar": False, "linewidths": 2, "fmt": "d", "annot": True}
        seaborn.heatmap(
            table.T[::-1],
            mask=table.T[::-1] == 0,
            ax=ax,
            yticklabels=[str(digit) for digit in reversed(range(CLASSES))],
            **look,
        )
        ax.set(title=name, xlabel="client", ylabel="digit")
        ax.tick_params(rotation=0, length=0)
        ax.grid(False)
    _gallery(characters, writers, axes.flat[-1])
    scale = ScalarMappable(Normalize(0, most), seaborn.color_palette("mako_r", as_cmap=True))
    fig.colorbar(scale, ax=axes, label="samples, one scale for all three maps", shrink=0.6)
    return fig


def _gallery(characters: Characters, writers: np.ndarray, ax: Axes) -> None:
    """One picture of each digit (up) by each writer (across)."""
    columns = [[characters.pick(str(digit), writer, 1)[0] for digit in reversed(range(CLASSES))] for writer in writers]
    page = np.hstack([np.vstack(column) for column in columns])
    ax.imshow(255 - page, cmap="gray", extent=(-0.5, len(writers) - 0.5, -0.5, CLASSES - 0.5), aspect="auto")
    ax.grid(False)
    ax.set(title="feature skew", xlabel="client", ylabel="digit", xticks=range(len(writers)), yticks=range(CLASSES))


def hands(characters: Characters, character: str, writers: np.ndarray, count: int) -> Figure:
    """The same character by several writers, a column each."""
    fig = plt.figure(figsize=(1.1 * len(writers), 1.2 * count), layout="constrained")
    _written(fig, characters, character, writers, count)
    return fig


NAMES = {"0": "digit zero", "O": "capital o", "1": "digit one", "l": "small L", "I": "capital i"}


def lookalikes(
    characters: Characters, groups: tuple[str, ...], writers: np.ndarray, seed: int
) -> tuple[Figure, pd.DataFrame]:
    """A row per group of characters that look alike, each cell one of them at random; and what they truly are."""
    rng = generator(seed, "look-alikes")
    drawn = {f"row {row}": rng.permuted(_repeated(group, len(writers))) for row, group in enumerate(groups, 1)}
    shape = {"figsize": (1.1 * len(writers), 1.5 * len(groups)), "layout": "constrained", "squeeze": False}
    fig, axes = plt.subplots(len(groups), len(writers), **shape)
    for line, (row, names) in zip(axes, drawn.items(), strict=True):
        for ax, name, writer in zip(line, names, writers, strict=True):
            _picture(ax, characters.pick(str(name), writer, 1)[0])
        line[0].set_ylabel(row, rotation=0, labelpad=24, va="center")
    for number, ax in enumerate(axes[-1], 1):
        ax.set_xlabel(str(number))
    truth = pd.DataFrame(drawn, index=range(1, len(writers) + 1)).T
    return fig, truth.map(NAMES.__getitem__).rename_axis("what they are")


def _repeated(group: str, count: int) -> np.ndarray:
    """The group's characters in turn, `count` in all."""
    return np.array(list(group * count)[:count])


def _picture(ax: Axes, image: np.ndarray) -> None:
    """Black on white, without a frame."""
    ax.imshow(255 - image, cmap="gray", vmin=0, vmax=255)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def _written(fig: Figure, characters: Characters, names: str, writers: np.ndarray, count: int) -> None:
    axes = fig.subplots(len(names) * count, len(writers), squeeze=False)
    for column, writer in enumerate(writers):
        pictures = np.concatenate([characters.pick(name, writer, count) for name in names])
        for row, picture in enumerate(pictures):
            ax = axes[row, column]
            _picture(ax, picture)
            if column == 0 and row % count == 0:
                ax.set_ylabel(f"“{names[row // count]}”", rotation=0, labelpad=16, va="center")
        axes[-1, column].set_xlabel(f"writer {writer}", fontsize="small")


def explored(split: str, dial: float, labels: np.ndarray, clients: int, seed: int) -> tuple[Figure, pd.Series]:
    """One split: its map and its numbers."""
    parts = SPLITS[split](labels, clients, dial, rng=generator(seed, "partition"))
    fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
    _map(skew.class_counts(labels, parts, CLASSES), ax, f"{split}, {dial:.3g}")
    return fig, numbers({split: parts}, labels).iloc[0]


def explorer(labels: np.ndarray, clients: int, seed: int) -> ipywidgets.VBox:
    """Choose a split and turn its dial."""
    split = ipywidgets.Dropdown(options=list(SPLITS), description="split by", layout={"width": "28rem"})
    alpha = ipywidgets.FloatLogSlider(1, min=-1.5, max=2, step=0.25, description="alpha", readout_format=".3g")
    per_client = ipywidgets.IntSlider(2, min=1, max=10, description="shards each")
    dominant = ipywidgets.FloatSlider(0.5, min=0, max=1, step=0.05, description="dominance")
    count = ipywidgets.IntSlider(clients, min=2, max=50, description="clients")
    dials = dict(zip(SPLITS, (alpha, alpha, per_client, dominant), strict=True))

    def draw(split: str, clients: int, **_: float) -> tuple[Figure | None, str]:
        for dial in dials.values():
            dial.layout.display = "" if dial is dials[split] else "none"
        try:
            fig, found = explored(split, dials[split].value, labels, clients, seed)
        except ValueError as impossible:  # such a split does not exist: say why
            return None, str(impossible)
        return fig, SENTENCE.format(**found)

    return sliders.explorer(draw, split=split, alpha=alpha, per_client=per_client, dominant=dominant, clients=count)
