"""Client drift: how the clients' models diverge while they train on their own data. Numbers and pictures.

In a round client i takes the server's model w to w_i. Its move is d_i = w_i - w; the server makes the move
d = sum_i n_i / n * d_i.

| measure | definition | range | all clients alike |
|---|---|---|---|
| length | the norm of d_i | 0 ... | the same |
| angle | between d_i and d, in degrees | 0 ... 180 | small |
| kept | norm of d / weighted mean norm of the d_i: what averaging leaves of the moves | 0 ... 1 | near 1 |
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from matplotlib.typing import ColorType

from fedlib import engine
from fedlib.problem.federation import Federation
from fedlib.report.plots import new_axes


@dataclass(frozen=True)
class Drift:
    """One round of local training: where the clients' models went, and what they know there."""

    length: np.ndarray  # of each client's move
    angle: np.ndarray  # between a client's move and the server's, degrees
    server_length: float
    kept: float
    recall: np.ndarray  # share of each class's test samples that a client's model gets right, clients x classes
    server_recall: np.ndarray  # the same of the average of these models
    before: float  # accuracy of the model they started from

    def table(self) -> pd.DataFrame:
        """One row: what the picture shows, in numbers."""
        return pd.DataFrame(
            {
                "mean angle": [self.angle.mean()],
                "kept": [self.kept],
                "accuracy before": [self.before],
                "accuracy of a client's model": [self.recall.mean()],
                "accuracy of their average": [self.server_recall.mean()],
            }
        )


def measure(federation: Federation, weights: torch.Tensor, work: engine.Work, round: int = 1) -> Drift:
    """Let every client train from `weights` and measure the moves. Accuracies are means over classes."""
    clients = np.arange(federation.clients)
    trained = engine.train(federation, engine.Cohort(clients, weights), work, round).weights
    shares = (federation.sizes / federation.sizes.sum()).double().numpy()
    moves = (trained - weights).double().numpy()
    server = (shares[:, None] * moves).sum(axis=0)
    length, server_length = np.sqrt((moves**2).sum(axis=1)), float(np.sqrt((server**2).sum()))
    along = (moves * server).sum(axis=1) / server_length
    average = weights + torch.as_tensor(server, dtype=weights.dtype)
    return Drift(
        length=length,
        angle=np.degrees(np.arccos(np.clip(along / length, -1, 1))),
        server_length=server_length,
        kept=server_length / float((shares * length).sum()),
        recall=np.stack([recall(federation, client_weights) for client_weights in trained]),
        server_recall=recall(federation, average),
        before=float(recall(federation, weights).mean()),
    )


def to_frame(drift: Drift) -> pd.DataFrame:
    """As a table that can be stored: one row per client, the last row for the server."""
    recalls = np.vstack([drift.recall, drift.server_recall])
    frame = pd.DataFrame(recalls, columns=[f"recall_{label}" for label in range(recalls.shape[1])])
    moves = {"length": [*drift.length, drift.server_length], "angle": [*drift.angle, 0.0]}
    return frame.assign(**moves, kept=drift.kept, before=drift.before)


def from_frame(frame: pd.DataFrame) -> Drift:
    """The inverse of `to_frame`."""
    recalls, length = frame.filter(like="recall_").to_numpy(), frame["length"].to_numpy()
    return Drift(
        length=length[:-1],
        angle=frame["angle"].to_numpy()[:-1],
        server_length=float(length[-1]),
        kept=float(frame["kept"].iloc[0]),
        recall=recalls[:-1],
        server_recall=recalls[-1],
        before=float(frame["before"].iloc[0]),
    )


def recall(federation: Federation, weights: torch.Tensor) -> np.ndarray:
    """Share of the test samples of each class that a model gets right."""

    def accuracy_on(label: int) -> float:
        chosen = federation.y_test == label
        x, y = federation.x_test[chosen], federation.y_test[chosen]
        return engine.evaluate(federation.network, weights, x, y)["accuracy"]

    return np.array([accuracy_on(label) for label in range(federation.classes)])


def arrows(drift: Drift, ax: Axes | None = None) -> Axes:
    """One arrow per client, as long as its move, at its true angle to the server's move, which points to the right.

    Whether an arrow leans up or down means nothing: they alternate, so that they do not hide each other.
    """
    ax = new_axes(5, 5) if ax is None else ax
    side = np.empty(len(drift.angle))
    side[np.argsort(drift.angle)] = np.where(np.arange(len(drift.angle)) % 2, -1, 1)
    x = drift.length * np.cos(np.radians(drift.angle))
    y = side * drift.length * np.sin(np.radians(drift.angle))
    for client, colour in enumerate(seaborn.color_palette("colorblind", len(x))):
        _arrow(ax, x[client], y[client], colour, 1.6)
    _arrow(ax, drift.server_length, 0.0, "black", 3)
    reach = 1.08 * drift.length.max()
    ax.set(xlim=(-0.25 * reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xlabel="along the average", ylabel="away from it")
    return ax


def _arrow(ax: Axes, x: float, y: float, colour: ColorType, width: float) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (x, y), (0, 0), arrowprops=look)


def knowledge(drift: Drift, ax: Axes | None = None) -> Axes:
    """What each client's model knows of each class after the round, and in the last column their average.

    Clients stand across and classes up, as in the map of what they hold.
    """
    ax = new_axes(6, 4) if ax is None else ax
    shown = np.vstack([drift.recall, drift.server_recall]).T
    clients, classes = drift.recall.shape
    look = {"cmap": seaborn.color_palette("mako_r", as_cmap=True), "vmin": 0, "vmax": 1, "aspect": "auto"}
    image = ax.imshow(shown, origin="lower", **look)
    ax.grid(False)
    ax.axvline(clients - 0.5, color="white", linewidth=6)
    ax.set(xlabel="client", ylabel="class", xticks=range(clients + 1), yticks=range(classes))
    ax.set_xticklabels([*map(str, range(clients)), "\naverage"])
    ax.tick_params(length=0)
    seaborn.despine(ax=ax, left=True, bottom=True)
    ax.figure.colorbar(image, ax=ax, label="got right", format=PercentFormatter(1), pad=0.02)
    return ax
