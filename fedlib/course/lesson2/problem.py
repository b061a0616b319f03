"""Lesson 2, client drift: digits of 24 writers dealt in four ways, and what FedAvg makes of them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import torch
from torch import nn

from fedlib import data, engine
from fedlib.algorithms import create
from fedlib.course import start
from fedlib.problem import partition
from fedlib.problem.federation import Federation, assemble
from fedlib.problem.streams import generator
from fedlib.runs.computations import computation
from fedlib.runs.simulation import simulate

LR, STEPS, ROUNDS = 0.1, 20, 25  # of the pictures, before anybody moves a slider
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


def trained(rounds: int) -> torch.Tensor:
    """The server's model after some rounds of FedAvg on the shuffled clients."""
    return start.after(digits("shuffled"), rounds, **WORK, epochs=3)


PLANS = [(1, 8), (3, 8), (8, 8), (1, 24), (8, 3), (24, 1)]  # local epochs, rounds


def local_work(deals: list[str], seeds: range) -> pd.DataFrame:
    """Test accuracy at the end of FedAvg for all `PLANS`: one row a deal, seed and plan."""
    return _kept_ends(deals, list(seeds), data_set="handwriting")


@computation
def _kept_ends(deals: list[str], seeds: list[int], data_set: str) -> pd.DataFrame:
    """Computed once and kept; `data_set` names the data that `digits` needs."""
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
