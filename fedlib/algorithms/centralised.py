"""Centralised training: stochastic gradient descent on all data in one place, the reference for the federated methods.

A round makes as many epochs over the pooled data as each device makes in a federated round, so all methods compute the
same amount. The partition matters only for the order in which samples are shuffled.
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
