"""IDA, inverse distance aggregation (Yeganeh et al., MICCAI workshops 2020): models far from the average count less.

alpha_k = 1/Z * |w_avg - w_k|^-1, with the plain mean w_avg of the participants' models, the l1 norm, and Z such that
the alphas add up to one. Two variants multiply alpha_k by a second factor before they are normalised.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, sizes_of
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation

EPSILON = 1e-6  # keeps the inverse finite; clients that are all alike get equal weights


@dataclass(frozen=True)
class IDA(FedAvg):
    """FedAvg with another mean. On identical models it is FedAvg with equal shares."""

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        cohort = engine.Cohort(clients, state["weights"])
        local = engine.train(federation, cohort, self.work(round), round).weights
        alpha = inverse_distance(local) * self.factor(federation, local, clients)
        return {"weights": engine.weighted_sum((alpha / alpha.sum()).float(), local)}

    def factor(self, federation: Federation, local: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
        return torch.ones(len(clients), dtype=torch.float64)


@dataclass(frozen=True)
class IDA_INTRAC(IDA):
    """IDA times the inverse training accuracy: clients that have not learnt their data yet count more."""

    def factor(self, federation: Federation, local: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
        chance = 1 / federation.classes  # the smallest accuracy that counts, so that no inverse explodes
        return 1 / training_accuracy(federation, local, clients).clamp(min=chance)


@dataclass(frozen=True)
class IDA_FedAvg(IDA):
    """IDA times n_k: distance and data size."""

    def factor(self, federation: Federation, local: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
        return sizes_of(federation, clients).double()


def inverse_distance(local: torch.Tensor) -> torch.Tensor:
    """1 / |w_avg - w_k|, in float64; models are visited one by one to save memory."""
    mean = engine.weighted_sum(torch.full((len(local),), 1 / len(local)), local)
    distances = torch.stack([(mean - model).abs().sum(dtype=torch.float64) for model in local])
    return 1 / (distances + EPSILON)


def training_accuracy(federation: Federation, models: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """Accuracy of each client's model (clients, weights) on the client's own training samples."""
    rows = [federation.rows[client] for client in clients]
    scores = engine.evaluate_each(federation.network, models, federation.x, federation.y, rows)
    return torch.tensor([client_scores["accuracy"] for client_scores in scores], dtype=torch.float64)
