"""Lesson 8, who loses and what leaks: clients that hold their digits upside down, and servers that look closely.

Forty clients have 60 digits to train on and 40 of their own to test with. Eight of them see everything upside down.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import torch
from torch import nn

from fedlib import data, engine
from fedlib.algorithms.algorithm import State, shares
from fedlib.algorithms.fedavg import FedAvg
from fedlib.judging.statistics import estimate
from fedlib.problem.federation import Federation, assemble, federate
from fedlib.problem.limits import NonNegative
from fedlib.runs.computations import computation

CLIENTS, TURNED, TRAINED_ON = 40, 8, 60
DIGITS = {
    "data_set": "mnist",
    "partitioner": "dirichlet_clients",
    "clients": CLIENTS,
    "alpha": 1.0,
    "network": "softmax",
    "samples": 100 * CLIENTS,
    "test_samples": 1000,
}
HIDDEN = 24
WORK = {"lr": 0.1, "batch": 10, "epochs": 2}
ROUNDS = 15
SEEDS = range(10)


@dataclass(frozen=True, eq=False)
class World:
    """A federation, each client's own test samples, and who holds the digits upside down."""

    federation: Federation
    tests: list[tuple[torch.Tensor, torch.Tensor]]
    turned: np.ndarray  # True for the clients that do


@cache
def world(seed: int) -> World:
    """The first eight clients hold their digits upside down, to train on and to test with."""
    dealt = federate(**DIGITS, seed=seed)
    turned = np.arange(CLIENTS) < TURNED
    pictures = dealt.x[:, :-1].clone()
    for client in np.flatnonzero(turned):
        rows = dealt.rows[client]
        pictures[rows] = pictures[rows].flip(1)  # all pixels in reverse order: half a turn
    own = [rows.numpy() for rows in dealt.rows]
    dataset = data.Dataset(
        "mnist, partly upside down",
        pictures,
        dealt.y,
        dealt.x_test[:, :-1],
        dealt.y_test,
        tuple("0123456789"),
        None,
        None,
        "",
    )
    layers = nn.Sequential(nn.Flatten(), nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    federation = assemble(dataset, [rows[:TRAINED_ON] for rows in own], layers, seed)
    tests = [(federation.network.store(pictures[rows[TRAINED_ON:]]), dealt.y[rows[TRAINED_ON:]]) for rows in own]
    return World(federation, tests, turned)


@dataclass(frozen=True)
class FairAverage(FedAvg):
    """FedAvg that listens more to clients whose loss is high: they count n_i * F_i^q.

    That is the direction in which sum_i n_i F_i^(q+1) falls, the objective of q-FFL (Li, Sanjabi, Beirami, Smith,
    ICLR 2020); their q-FedAvg also adapts the length of the step, which we leave as it is.
    """

    q: NonNegative = 0.0  # 0 is FedAvg

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        cohort = engine.Cohort(clients, state["weights"])
        trained = engine.train(federation, cohort, self.work(round), round, losses=True)
        weight = shares(federation, clients) * trained.losses.float() ** self.q
        return {"weights": engine.weighted_sum(weight / weight.sum(), trained.weights)}


@cache
def trained(seed: int, q: float = 0.0) -> torch.Tensor:
    """The server's model after all rounds."""
    method, federation = FairAverage(q=q, **WORK), world(seed).federation
    state = method.init(federation)
    for round in range(1, ROUNDS + 1):
        state = method.round(federation, state, round)
    return state["weights"]


def accuracies(place: World, models: torch.Tensor) -> np.ndarray:
    """Accuracy of every client on its own test samples: with one model for all, or with a row of its own."""
    rows = models.expand(len(place.tests), -1)
    scores = []
    for model, (x, y) in zip(rows, place.tests, strict=True):
        scores.append(float((engine.logits_of(place.federation.network, model, x).argmax(1) == y).float().mean()))
    return np.array(scores)


def worst_tenth(scores: np.ndarray) -> float:
    """The mean over the tenth of the clients that are served worst."""
    return float(np.sort(scores)[: max(1, len(scores) // 10)].mean())


EPOCHS_OWN = 10  # of fine-tuning, at the clients' rate


def personal(seed: int, way: str) -> torch.Tensor:
    """A model per client: trained alone from the start, fine-tuned from the server's, or with a head of its own."""
    federation, clients = world(seed).federation, np.arange(CLIENTS)
    start = federation.start if way == "alone" else trained(seed)
    epochs = EPOCHS_OWN + (ROUNDS * WORK["epochs"] if way == "alone" else 0)
    work = engine.Work(lr=WORK["lr"], batch=WORK["batch"], epochs=epochs)
    step = _head_only(federation) if way == "local head" else None
    return engine.train(federation, engine.Cohort(clients, start), work, ROUNDS + 1, step=step).weights


def _head_only(federation: Federation):
    """Steps that leave all layers but the last as they are."""
    first = federation.network.head.start

    def step(weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch) -> tuple[torch.Tensor, engine.Memory]:
        gradient = batch.gradient(weights)
        gradient[:, :first] = 0
        return gradient, {}

    return step


WAYS = ("alone", "one model for all", "fine-tuned", "local head")


def personalised(seeds: Sequence[int] = SEEDS) -> pd.DataFrame:
    """Accuracy of every client on every seed, for each way to get a model."""
    return _kept_scores(list(WAYS), list(seeds), DIGITS)


def fairer(strengths: Sequence[float], seeds: Sequence[int] = SEEDS) -> pd.DataFrame:
    """The same for averages that listen more to those who are served badly."""
    return _kept_scores([f"q = {q:g}" for q in strengths], list(seeds), DIGITS)


@computation
def _kept_scores(ways: list[str], seeds: list[int], federation: dict) -> pd.DataFrame:
    """Computed once and kept; `federation` names the data that `world` needs."""
    rows = []
    for seed in seeds:
        for way in ways:
            scores = accuracies(world(seed), model_of(seed, way))
            rows += [
                {"way": way, "seed": seed, "client": client, "turned": bool(turned), "accuracy": score}
                for client, (turned, score) in enumerate(zip(world(seed).turned, scores, strict=True))
            ]
    return pd.DataFrame(rows)


def model_of(seed: int, way: str) -> torch.Tensor:
    """The model that a client gets, one for all or one each: one of the `WAYS`, or "q = 2" for a fairer average."""
    if way.startswith("q = "):
        return trained(seed, float(way.removeprefix("q = ")))
    return trained(seed) if way == "one model for all" else personal(seed, way)


MEASURES = {
    "mean over clients": lambda runs: runs["accuracy"].mean(),
    "worst tenth": lambda runs: worst_tenth(runs["accuracy"].to_numpy()),
    "upright clients": lambda runs: runs[~runs["turned"]]["accuracy"].mean(),
    "upside-down clients": lambda runs: runs[runs["turned"]]["accuracy"].mean(),
}


def by_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """Each measure for every way and seed, in percent."""
    groups = frame.groupby(["way", "seed"], sort=False)
    return pd.DataFrame({name: 100 * groups.apply(measure) for name, measure in MEASURES.items()})


def served(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds with half of their 95% intervals."""
    return by_seed(frame).groupby("way", sort=False).agg(_with_interval).rename_axis("accuracy, %")


def gains(frame: pd.DataFrame, rival: str) -> pd.DataFrame:
    """Paired differences to one way, with half of their 95% intervals."""
    scores = by_seed(frame)
    differences = scores - scores.loc[rival].reindex(scores.index, level="seed")
    ways = [way for way in frame["way"].unique() if way != rival]
    return differences.loc[ways].groupby("way", sort=False).agg(_with_interval).rename_axis(f"points over {rival}")


def _with_interval(values: pd.Series) -> str:
    found = estimate(values.to_numpy())
    low, _ = found.interval() or (found.mean, found.mean)
    return f"{found.mean:.1f} ± {found.mean - low:.1f}"


# ---------------------------------------------------------------- what leaks


def first_layer(place: World, gradient: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The parts of a flat gradient that belong to the first layer's weights (hidden x pixels) and biases (hidden)."""
    block = place.federation.network.blocks[0]
    rows = block.view(gradient)
    return rows[:, :-1].numpy().astype(float), rows[:, -1].numpy().astype(float)


def head_bias(place: World, vector: torch.Tensor) -> np.ndarray:
    """The biases of the last layer in a flat vector."""
    return place.federation.network.head.view(vector)[:, -1].numpy().astype(float)


def gradient_of(place: World, weights: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
    """The gradient of the mean loss on some rows of the federation's samples."""
    chosen = torch.as_tensor(rows)
    return engine.mean_gradient(
        place.federation.network, weights, place.federation.x[chosen], place.federation.y[chosen]
    )


def guessed_labels(place: World, client: int, epochs: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Class shares of a client: true, and guessed from its first gradient, or from its model after some epochs.

    The head's bias gradient is the mean of (probability - label), and at the start all probabilities are about 1/10.
    """
    federation = place.federation
    counts = federation.class_counts[client].numpy()
    if epochs == 0:
        slope = head_bias(place, gradient_of(place, federation.start, federation.rows[client].numpy()))
    else:
        work = engine.Work(lr=WORK["lr"], batch=WORK["batch"], epochs=epochs)
        after = engine.train(federation, engine.Cohort(np.array([client]), federation.start), work, 1)
        slope = head_bias(place, federation.start - after.weights[0])
        slope = slope / max(slope.max() * 10, 1e-9)  # the largest possible value of an absent class is 1/10
    share = np.clip(0.1 - slope, 0, None)
    return counts / counts.sum(), share / share.sum()


def label_guesses(seed: int, epochs: Sequence[int]) -> pd.DataFrame:
    """How well the guessed shares fit, over all clients: mean overlap with the true ones (1 is exact)."""
    place = world(seed)
    rows = {}
    for many in epochs:
        pairs = [guessed_labels(place, client, many) for client in range(CLIENTS)]
        overlap = [np.minimum(true, guess).sum() for true, guess in pairs]
        hits = [true.argmax() == guess.argmax() for true, guess in pairs]
        name = "its first gradient" if many == 0 else f"its model after {many} epoch{'s' if many > 1 else ''}"
        rows[name] = {"overlap": np.mean(overlap), "largest class found": np.mean(hits)}
    chance = [np.minimum(true, 0.1).sum() for true, _ in pairs]
    rows["nothing (even shares)"] = {"overlap": np.mean(chance), "largest class found": 0.1}
    return pd.DataFrame(rows).T.rename_axis("guessed from").round(2)


def update_of(place: World, client: int) -> torch.Tensor:
    """What a client sends after a round from the start: its model's change."""
    federation = place.federation
    work = engine.Work(**WORK)
    return (
        engine.train(federation, engine.Cohort(np.array([client]), federation.start), work, 1).weights[0]
        - federation.start
    )
