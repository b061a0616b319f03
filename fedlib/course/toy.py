"""The two-dimensional federation of lessons 2 and 3: three clients with quadratic losses, so that one sees every step.

Client i has F_i(w) = (w - m_i)' H_i (w - m_i) / 2: a valley with its lowest point at m_i, its shape the curvature H_i.
All clients hold equally much data, and the server wants the minimum of the mean of the F_i.
"""

from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

START = (-1.9, -1.6)  # where the server's model begins in all pictures
PLACES = np.array([[-1.7, 0.9], [1.5, 1.1], [0.4, -1.5]])  # the clients' minima
ANGLES = np.radians([0.0, 75.0, 45.0])  # how their valleys lie
STEEPNESS = np.array([[2.0, 0.5], [1.2, 0.2], [0.6, 0.2]])  # their curvature across and along the valley
COLOURS = seaborn.color_palette("colorblind")
MARKERS = "os^"
FRAME = (-2.6, 2.4, -2.3, 1.9)  # left, right, bottom, top of the pictures


@dataclass(frozen=True)
class Toy:
    """The clients' curvatures H_i (clients x 2 x 2) and minima m_i (clients x 2)."""

    curvatures: np.ndarray
    minima: np.ndarray

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Gradients of the clients' losses, one row per client: at one point for all, or at a row of `w` for each."""
        return np.einsum("cij,cj->ci", self.curvatures, w - self.minima)

    def loss(self, w: np.ndarray) -> np.ndarray:
        """The mean of the clients' losses at points (..., 2)."""
        away = np.asarray(w)[..., None, :] - self.minima
        return 0.5 * np.einsum("...ci,cij,...cj->...c", away, self.curvatures, away).mean(-1)

    @property
    def optimum(self) -> np.ndarray:
        """The minimum of the mean loss, where the clients' gradients cancel."""
        pulls = np.einsum("cij,cj->i", self.curvatures, self.minima)
        return np.linalg.solve(self.curvatures.sum(0), pulls)

    def distance(self, w: np.ndarray) -> np.ndarray:
        """How far points (..., 2) are from the optimum."""
        return np.sqrt(((w - self.optimum) ** 2).sum(-1))


def clients(apart: float = 1.0, bend: float = 1.0) -> Toy:
    """Three clients. `apart` = 0 puts their minima on one spot, `bend` = 0 gives all of them the same round bowl."""
    eigenvalues = STEEPNESS**bend
    turns = np.array([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in ANGLES])
    curvatures = np.einsum("cij,cj,ckj->cik", turns, eigenvalues, turns)
    middle = PLACES.mean(0)
    return Toy(curvatures, middle + apart * (PLACES - middle))


@dataclass(frozen=True)
class Sent:
    """What a client has at hand during a round, beside its own loss; the server sends it or the client remembers it."""

    model: np.ndarray  # w, where everybody starts
    gradient: np.ndarray  # mean of the clients' gradients at their own models of the last round
    anchor: np.ndarray  # mean of the clients' gradients at `model`; asking for it costs one more exchange
    own: np.ndarray  # each client's mean gradient along its last walk, one row per client
    common: np.ndarray  # the mean of `own` over the clients


Gradient = Callable[[np.ndarray], np.ndarray]
Direction = Callable[[Gradient, np.ndarray, Sent], np.ndarray]


def plain(gradient: Gradient, w: np.ndarray, sent: Sent) -> np.ndarray:
    """FedAvg: every client descends its own loss."""
    return gradient(w)


@dataclass(frozen=True)
class ClientWalks:
    """Where the clients walked in each round, (rounds, clients, steps + 1, 2), and the averages, (rounds + 1, 2)."""

    walks: np.ndarray
    averages: np.ndarray


@np.errstate(over="ignore", invalid="ignore")
def travel(
    toy: Toy, rounds: int, lr: float, steps: int, direction: Direction = plain, start: tuple[float, float] = START
) -> ClientWalks:
    """Rounds of local walks and averaging. `direction(gradient, w, sent)` says what the clients descend, one per row.

    Clients that run away to infinity are an answer, too, and no warning.
    """
    model = np.array(start, dtype=float)
    nothing = np.zeros_like(toy.minima)
    sent = Sent(model, toy.gradient(model).mean(0), toy.gradient(model).mean(0), nothing, nothing.mean(0))
    walks, averages = [], [model]
    for _ in range(rounds):
        walk, along = [np.tile(model, (len(toy.minima), 1))], nothing
        for _ in range(steps):
            along = along + toy.gradient(walk[-1]) / steps
            walk.append(walk[-1] - lr * np.asarray(direction(toy.gradient, walk[-1], sent)))
        model = walk[-1].mean(0)
        sent = Sent(model, toy.gradient(walk[-1]).mean(0), toy.gradient(model).mean(0), along, along.mean(0))
        walks.append(np.stack(walk, axis=1))
        averages.append(model)
    return ClientWalks(np.stack(walks), np.stack(averages))


def rest(toy: Toy, lr: float, steps: int, direction: Direction = plain, longest: int = 5000) -> np.ndarray:
    """Where the averages come to rest: travel until nothing moves any more."""
    model, block = np.array(START, dtype=float), 100
    for _ in range(longest // block):
        averages = travel(toy, block, lr, steps, direction, tuple(model)).averages
        if not np.abs(averages[-1]).max() < 1e6:
            return np.full(2, np.nan)  # it runs away
        model = averages[-1]
        if np.abs(averages[-1] - averages[-2]).max() < 1e-10:
            break
    return model


def resting_place(toy: Toy, lr: float, steps: int | np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The fixed point of FedAvg in closed form, however flat the valleys: sum_i p_i B_i (m_i - w) = 0.

    B_i = I - (I - lr H_i)^K_i, by the eigenvalues of H_i. The numbers of steps K_i may differ between clients, and so
    may the weights p_i of the average.
    """
    values, vectors = np.linalg.eigh(toy.curvatures)
    step, many = np.broadcast_arrays(lr * values, np.reshape(steps, (-1, 1)))
    small = np.where(step < 0.5, step, 0.0)
    walked = np.where(step < 0.5, -np.expm1(many * np.log1p(-small)), 1 - (1 - step) ** many)
    pull = np.einsum("cij,cj,ckj->cik", vectors, walked, vectors)
    pull = pull if weights is None else pull * np.reshape(weights, (-1, 1, 1))
    return np.linalg.solve(pull.sum(0), np.einsum("cij,cj->i", pull, toy.minima))


def draw(ax: Axes, toy: Toy, journey: ClientWalks, round: int = 1) -> Axes:
    """The clients' walks in one round, all averages, and the optimum, on the height lines of the mean loss."""
    left, right, bottom, top = FRAME
    grid = np.stack(np.meshgrid(np.linspace(left, right, 90), np.linspace(bottom, top, 90)), axis=-1)
    ax.contour(*np.moveaxis(grid, -1, 0), toy.loss(grid), levels=9, colors="0.85", linewidths=0.8)
    for client, walk in enumerate(journey.walks[round - 1]):
        look = {"color": COLOURS[client], "marker": MARKERS[client]}
        ax.plot(*walk.T, markersize=3.5, linewidth=1.2, label=f"client {client + 1} in round {round}", **look)
        own = f"its own minimum, client {client + 1}"
        hollow = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.8, "linestyle": "none"}
        ax.plot(*toy.minima[client], label=own, **hollow, **look)
    ax.plot(*journey.averages.T, "D-", color="black", markersize=4, linewidth=0.9, label="the server, round by round")
    ax.plot(*toy.optimum, "*", color=COLOURS[3], markersize=17, markeredgecolor="white", label="the optimum", zorder=5)
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel="first weight", ylabel="second weight")
    ax.grid(False)
    return ax


def far_axis(ax: Axes, label: str = "distance to the optimum") -> Axes:
    """Distances on a logarithmic axis."""
    ax.set(yscale="log", ylabel=label)
    ax.yaxis.set_major_locator(LogLocator(10, numticks=6))
    ax.yaxis.set_minor_formatter(NullFormatter())
    return ax


def picture(toy: Toy, journey: ClientWalks, title: str = "") -> Figure:
    """The first round, and how far the averages are from the optimum after each round."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", width_ratios=[1.25, 1])
    draw(left, toy, journey).set_title(title)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=9)
    far = toy.distance(journey.averages)
    right.plot(far, "D-", color="black", markersize=4, label="the server")
    right.axhline(0, color=COLOURS[3], linestyle="--", linewidth=1.5, label="the optimum")
    end = f"{far[-1]:.2f}" if far[-1] < 100 else "far"
    right.set(xlabel="communication round", ylabel="distance to the optimum", ylim=(-0.1, 3))
    right.set_title(f"after {len(far) - 1} rounds: {end} away")
    right.legend(loc="upper right")
    return fig
