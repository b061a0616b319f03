"""The selectors without the training: many rounds of choosing and learning at one fixed model.

All clients' insights are computed once, at the model that every run starts from or at another one. What a selector then
sees in a round is exactly what it would see in a federation whose model does not move: the rewards still depend on who
else takes part, but they do not drift.
"""

from dataclasses import asdict

import numpy as np
import pandas as pd
import torch

from fedlib import engine
from fedlib.algorithms.randomclients import RandomClients, sizes
from fedlib.problem.federation import Federation, federate
from fedlib.selection import skewness


def rehearse(
    method: RandomClients, federation: Federation, rounds: int, weights: torch.Tensor | None = None
) -> np.ndarray:
    """Who takes part, (rounds, kappa); at the starting model, or at given weights."""
    weights = federation.start if weights is None else weights
    method = _with_fixed_rewards(method, federation, weights)
    state, chosen = method.init(federation) | {"weights": weights}, []
    for round in range(1, rounds + 1):
        clients = method.choose(federation, state, round)
        learned = method.learn(federation, state, clients, round)
        times = state["times"] + torch.as_tensor(np.bincount(clients, minlength=federation.clients))
        state = state | learned | {"times": times}
        chosen.append(clients)
    return np.stack(chosen)


def _with_fixed_rewards(method: RandomClients, federation: Federation, weights: torch.Tensor) -> RandomClients:
    """The same method, whose rewards are looked up instead of computed from data in every round."""
    everyone = np.arange(federation.clients)
    insights = skewness.insights(federation, weights, everyone, method.lr)
    samples = sizes(federation, everyone)

    def rewards(self, federation, state, clients):
        return -skewness.estimates(insights[clients], samples[clients])

    return type(type(method).__name__, (type(method),), {"rewards": rewards})(**asdict(method))


def trained(data_set: str, network: str, images: int, epochs: int, seed: int) -> tuple[torch.Tensor, float]:
    """A model that knows something: trained on so many images in one place; its weights and its test accuracy."""
    whole = federate(data_set, "iid", 1, network=network, samples=images, seed=seed)
    work = engine.Work(lr=0.1, batch=50, epochs=epochs)
    weights = engine.train(whole, whole.start, np.array([0]), work, 1)[0]
    return weights, engine.evaluate(whole, weights)["accuracy"]


def shares(
    methods: dict[str, RandomClients],
    conditions: dict[str, tuple[Federation, torch.Tensor]],
    clients: tuple[int, ...],
    rounds: int,
) -> pd.DataFrame:
    """Share of the participations in the second half of a rehearsal that fell to these clients.

    A condition is a federation and the weights it stands still at. Each method rehearses under each of them.
    """
    rows = []
    for selector, method in methods.items():
        for condition, (federation, weights) in conditions.items():
            late = rehearse(method, federation, rounds, weights)[rounds // 2 :]
            rows.append((selector, condition, float(np.isin(late, clients).mean())))
    return pd.DataFrame(rows, columns=["selector", "condition", "share"])


def tally(chosen: np.ndarray, alphas: np.ndarray, every: int) -> pd.DataFrame:
    """Times each client took part up to each `every`-th round, laid out as `scores.tallies` does."""
    place = np.argsort(np.argsort(alphas, kind="stable")) + 1
    parts = [
        pd.DataFrame(
            {
                "round": last,
                "client": np.arange(len(alphas)),
                "times": np.bincount(chosen[:last].ravel(), minlength=len(alphas)),
                "alpha": alphas,
                "place": place,
            }
        )
        for last in range(0, len(chosen) + 1, every)
    ]
    return pd.concat(parts, ignore_index=True)
