"""Centralised training: stochastic gradient descent on all data in one place, the yardstick of the federated methods.

A round is as many epochs over the pooled data as each device makes in the others, so all methods compute the same
amount. How the samples were dealt plays no part, but for the order in which they are shuffled.
"""

from dataclasses import dataclass, replace

import torch

from fedlib.algorithms.algorithm import State
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation


@dataclass(frozen=True)
class Centralised(FedAvg):
    """FedAvg with a single client that owns everything."""

    def round(self, federation: Federation, state: State, round: int) -> State:
        return super().round(pooled(federation), state, round)


def pooled(federation: Federation) -> Federation:
    """The same data, network and seed with one client."""
    return replace(federation, rows=(torch.cat(federation.rows).unique(),))
