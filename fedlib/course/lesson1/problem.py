"""Lesson 1, what heterogeneity is: handwritten characters, a split by size, and what a hand costs a model."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedlib import data
from fedlib.data.known import CHARACTERS
from fedlib.problem.streams import generator

CLASSES = 10


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
