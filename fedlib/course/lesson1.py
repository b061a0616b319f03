"""Lesson 1, what heterogeneity is: its splits, pictures and sliders, and the checks of its exercises."""

from collections.abc import Callable
from dataclasses import dataclass

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib import data
from fedlib.course.exercise import exercise, require
from fedlib.data.known import CHARACTERS
from fedlib.problem import partition, skew
from fedlib.problem.streams import generator
from fedlib.report import plots, sliders

CLASSES = 10
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


@dataclass(frozen=True)
class Characters:
    """Characters written by hand: pictures (white on black), what they are, and who wrote them."""

    images: np.ndarray
    labels: np.ndarray
    writers: np.ndarray

    def pick(self, character: str, writer: int, count: int) -> np.ndarray:
        """The writer's first pictures of a character."""
        return self.images[(self.labels == CHARACTERS.index(character)) & (self.writers == writer)][:count]

    def who_wrote(self, characters: str, count: int) -> np.ndarray:
        """Writers with at least `count` pictures of each of the characters."""
        wanted = [CHARACTERS.index(character) for character in characters]
        table = np.zeros((self.writers.max() + 1, len(CHARACTERS)), int)
        np.add.at(table, (self.writers, self.labels), 1)
        return np.flatnonzero((table[:, wanted] >= count).all(axis=1))


def handwriting() -> Characters:
    """The data set `handwriting`, which comes with the workbook and needs no network."""
    loaded = data.load("handwriting")
    assert loaded.writer_train is not None  # it knows its writers
    return Characters(loaded.x_train.numpy(), loaded.y_train.numpy(), loaded.writer_train.numpy())


def by_size(labels: np.ndarray, clients: int, factor: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Alike mixtures, unlike sizes: each client has `factor` times the samples of the one before."""
    sizes = factor ** np.arange(clients)
    cuts = np.round(np.cumsum(sizes)[:-1] / sizes.sum() * len(labels)).astype(int)
    return np.split(rng.permutation(len(labels)), cuts)


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
    """The first picture: who holds what in each split, and a map of the same form with a picture in each cell."""
    fig, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for ax, (name, parts) in zip(axes.flat, splits.items(), strict=False):
        _map(skew.class_counts(labels, parts, CLASSES), ax, name)
    _gallery(characters, writers, axes.flat[-1])
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


def lookalikes(characters: Characters, names: str, writers: np.ndarray) -> Figure:
    """Several characters, a row each, by several writers, a column each."""
    fig = plt.figure(figsize=(1.1 * len(writers), 1.1 * len(names)), layout="constrained")
    _written(fig, characters, names, writers, 1)
    return fig


def _written(fig: Figure, characters: Characters, names: str, writers: np.ndarray, count: int) -> None:
    axes = fig.subplots(len(names) * count, len(writers), squeeze=False)
    for column, writer in enumerate(writers):
        pictures = np.concatenate([characters.pick(name, writer, count) for name in names])
        for row, picture in enumerate(pictures):
            ax = axes[row, column]
            ax.imshow(255 - picture, cmap="gray", vmin=0, vmax=255)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            if column == 0 and row % count == 0:
                ax.set_ylabel(f"“{names[row // count]}”", rotation=0, labelpad=16, va="center")
        axes[-1, column].set_xlabel(f"writer {writer}", fontsize="small")


def fonts_apart(candidates: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Some of the writers, no two of whom share a font (four neighbours do)."""
    shuffled = generator(seed, "course writers").permutation(candidates)
    _, first = np.unique(shuffled // 4, return_index=True)
    return shuffled[np.sort(first)][:count]


def familiar_and_foreign(characters: Characters, writers: int, seed: int) -> pd.DataFrame:
    """How well the nearest of some writers' digits names new digits of the same writers, and of as many others."""
    chosen = fonts_apart(np.unique(characters.writers), 2 * writers, seed)
    known, others = (_digits(characters, who) for who in (chosen[:writers], chosen[writers:]))
    kept = generator(seed, "course split").permutation(len(known[1]))
    half = len(kept) // 2
    seen, new = ((known[0][rows], known[1][rows]) for rows in (kept[:half], kept[half:]))
    tests = {"the same writers, new digits": new, "other writers": others}
    rows = {name: [len(test[1]), nearest(seen, test)] for name, test in tests.items()}
    return pd.DataFrame(rows, index=["digits", "accuracy"]).T.astype({"digits": int}).round(2).rename_axis("tested on")


def _digits(characters: Characters, writers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.isin(characters.writers, writers) & (characters.labels < CLASSES)
    return characters.images[rows].reshape(rows.sum(), -1).astype(np.int64), characters.labels[rows]


def nearest(seen: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> float:
    """Share of the test samples whose nearest neighbour has their label. Whole numbers: no rounding anywhere."""
    distance = (seen[0] ** 2).sum(axis=1) - 2 * test[0] @ seen[0].T
    return float((seen[1][distance.argmin(axis=1)] == test[1]).mean())


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


@exercise("1.1", "From counts to shares")
def shares(answer):
    require(answer is not None, "divide every row by its own sum.")
    counts = np.array([[3, 1, 0], [2, 2, 4]])
    found = np.asarray(answer(counts))
    require(found.shape == (2, 3), f"two clients and three classes in, so two rows of three out, not {found.shape}.")
    require(
        np.allclose(found.sum(axis=1), 1),
        f"each row must add up to 1, yours add up to {_listed(found.sum(axis=1))}. "
        "Sum over the classes, axis=1, with keepdims=True.",
    )
    right = np.allclose(found[0], [3 / 4, 1 / 4, 0])
    require(right, f"a client with 3, 1 and 0 samples has 3/4, 1/4 and 0, not {_listed(found[0])}.")
    wide = generator(7, "course check").integers(1, 50, (4, 11))
    require(
        np.allclose(answer(wide) * wide.sum(axis=1)[:, None], wide), "four clients with eleven classes come out wrong."
    )


@exercise("1.2", "How many digits is a mixture worth?")
def effective(answer):
    require(answer is not None, "first the entropy, a sum over classes; then its exponential. Beware of log(0).")
    even = answer(np.full(4, 1 / 4))
    require(
        np.isscalar(even) or np.ndim(even) == 0, "one client has one effective number: return a number, not an array."
    )
    sign = "Mind the sign, and use the natural logarithm."
    require(np.isclose(even, 4), f"four even classes are worth 4, not {even:.3g}. {sign}")
    single = answer(np.array([0.0, 1.0, 0.0]))
    require(
        not np.isnan(single), "a class that a client lacks makes log(0) and then nan: leave out the shares that are 0."
    )
    require(np.isclose(single, 1), f"a client with one class only is worth 1, not {single:.3g}.")
    mixed = answer(np.array([0.5, 0.25, 0.25, 0]))
    require(np.isclose(mixed, np.sqrt(8)), f"shares 1/2, 1/4, 1/4 are worth the root of 8, 2.83, not {mixed:.3g}.")


@exercise("1.3", "Turn the dial to half of the digits")
def alpha_for_half(answer):
    require(answer is not None, "move the slider of alpha and read the effective number below it.")
    require(isinstance(answer, int | float) and answer > 0, f"alpha is a number above 0, not {answer!r}.")
    labels, held = np.repeat(np.arange(CLASSES), 200), []
    for seed in range(1, 6):
        parts = partition.dirichlet_clients(labels, 10, answer, rng=generator(seed, "course check"))
        held.append(skew.effective_classes(skew.class_counts(labels, parts, CLASSES)).mean())
    mean = np.mean(held)
    direction = "smaller" if mean > 5 else "larger"
    require(
        4.5 <= mean <= 5.5, f"over five other draws a client then holds {mean:.1f} digits. Try a {direction} alpha."
    )


@exercise("1.4", "Unlike sizes, alike mixtures")
def halves(answer):
    require(
        answer is not None, "shuffle all samples, then cut at 1/2, 3/4, 7/8, ...: numpy.split cuts at given places."
    )
    labels = np.repeat(np.arange(CLASSES), 80)  # sorted: whoever forgets to shuffle is found out
    parts = answer(labels, 4, np.random.default_rng(3))
    require(len(parts) == 4, f"four clients need four parts, not {len(parts)}.")
    everybody = np.sort(np.concatenate([np.asarray(part) for part in parts]))
    once = np.array_equal(everybody, np.arange(800))
    require(once, "every sample must go to exactly one client: some are missing or dealt twice.")
    sizes = [len(part) for part in parts]
    halved = np.allclose(sizes, [400, 200, 100, 100], atol=2)
    require(halved, f"of 800 samples the clients get 400, 200, 100, 100, not {_listed(sizes)}.")
    away = skew.emd(skew.class_counts(labels, parts, CLASSES))
    require(away[0] < 0.3, "the largest client sees other digits than the rest: shuffle before you cut.")
    again = answer(labels, 4, np.random.default_rng(4))
    require(
        not np.array_equal(again[0], parts[0]), "another rng must give another split: draw with the rng you are given."
    )


@exercise("1.5", "One number is not enough")
def indistinguishable(first, second):
    given = first is not None and second is not None
    require(given, "begin with four classes; give each client two of them, then something less pure.")
    first, second = np.asarray(first), np.asarray(second)
    for name, counts in (("first", first), ("second", second)):
        require(counts.ndim == 2 and counts.shape[0] > 1, f"{name}: a row for each client, a column for each class.")
        held = (counts >= 0).all() and (counts.sum(axis=1) > 0).all()
        require(held, f"{name}: counts are not negative, and each client holds something.")
    apart = abs(skew.emd(first).mean() - skew.emd(second).mean())
    require(skew.emd(first).mean() > 0.1, "the first federation is nearly iid: make it skewed.")
    require(apart < 0.005, f"the mean EMD of the two must agree to two digits, they are {apart:.3f} apart.")
    worth = abs(skew.effective_classes(first).mean() - skew.effective_classes(second).mean())
    sizes = abs(skew.quantity_gini(first) - skew.quantity_gini(second))
    require(
        worth > 0.2 or sizes > 0.1,
        "another measure must tell them apart. "
        f"Effective classes differ by {worth:.2f} (wanted: 0.2), Gini by {sizes:.2f} (0.1).",
    )


def _listed(values) -> str:
    return ", ".join(f"{value:.3g}" for value in values)
