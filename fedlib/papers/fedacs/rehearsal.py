"""The selectors without the training: a thousand rounds of choosing and learning at one fixed model.

All clients' insights are computed once, at the model that every run starts from. What a selector then sees in a round is
exactly what it would see in a federation whose model does not move: the rewards still depend on who else takes part, but
they do not drift.
"""

from dataclasses import asdict

import numpy as np
import pandas as pd

from fedlib.algorithms.randomclients import RandomClients, sizes
from fedlib.federation import Federation
from fedlib.selection import skewness


def rehearse(method: RandomClients, federation: Federation, rounds: int) -> np.ndarray:
    """Who takes part, (rounds, kappa)."""
    method = _with_fixed_rewards(method, federation)
    state, chosen = method.init(federation), []
    for round in range(1, rounds + 1):
        clients = method.choose(federation, state, round)
        state = state | method.learn(federation, state, clients, round)
        chosen.append(clients)
    return np.stack(chosen)


def _with_fixed_rewards(method: RandomClients, federation: Federation) -> RandomClients:
    """The same method, whose rewards are looked up instead of computed from data in every round."""
    everyone = np.arange(federation.clients)
    insights = skewness.insights(federation, federation.start, everyone, method.lr)
    samples = sizes(federation, everyone)

    def rewards(self, federation, state, clients):
        return -skewness.estimates(insights[clients], samples[clients])

    return type(type(method).__name__, (type(method),), {"rewards": rewards})(**asdict(method))


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
