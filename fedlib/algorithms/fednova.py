"""FedNova (Wang, Liu, Liang, Joshi, Poor: "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization", NeurIPS 2020): clients may take unequally many steps, and yet none counts more for it.

FedAvg adds the clients' moves, so a client of twice as many steps pulls about twice as hard, and the rounds settle at
the minimum of another objective. FedNova divides every move by what its steps add up to, averages these directions by
data size and goes along them as far as FedAvg would:

    x <- x + tau_eff * sum_i p_i * (y_i - x) / |a_i|,   tau_eff = sum_i p_i * |a_i|

|a_i| is the number of steps tau_i, or with momentum the sum of all weights with which the gradients enter the move
(Section 4 of the paper). What differing curvatures do to equally many steps, FedNova leaves as it is.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, shares
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation


@dataclass(frozen=True)
class FedNova(FedAvg):
    """FedAvg with normalised averaging; equally many steps for all are FedAvg."""

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, x = self.participants(federation, round), state["weights"]
        trained = engine.train(federation, engine.Cohort(clients, x), self.work(round), round)
        average, a = shares(federation, clients), torch.as_tensor(self.effort(trained.steps), dtype=torch.float32)
        tau_eff = float((average * a).sum())
        return {"weights": x + tau_eff * engine.weighted_sum(average, (trained.weights - x) / a.unsqueeze(1))}

    def effort(self, steps: np.ndarray) -> np.ndarray:
        """|a_i|: a gradient counts 1 + rho + rho^2 + ... with momentum rho, for as many steps as follow it."""
        rho = self.momentum
        return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
