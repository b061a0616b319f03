"""SCAFFOLD (Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: "SCAFFOLD: Stochastic Controlled Averaging for Federated
Learning", ICML 2020), Algorithm 1 with option II.

Every client keeps a control variate c_i, about its own gradient, and the server keeps their mean c. A client descends

    g_i(y) - c_i + c

so that all set off along the common gradient. Afterwards c_i becomes the mean gradient along the walk, which the
client's end already tells: c_i - c + (x - y_i) / (K_i * lr) for a walk of K_i steps. The paper weighs all clients
alike; here clients count by data size, as everywhere in this library, so that c is the gradient of the global loss.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, replaced, shares
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import Positive


@dataclass(frozen=True)
class SCAFFOLD(FedAvg):
    """FedAvg with control variates; controls held at zero (and server_lr = 1) are FedAvg."""

    server_lr: Positive = 1.0  # eta_g; 1 takes over the clients' average

    def __post_init__(self):
        super().__post_init__()
        if self.momentum:
            raise ValueError(f"momentum={self.momentum}: SCAFFOLD reads gradients off plain steps; use momentum=0")

    def init(self, federation: Federation) -> State:
        zeros = torch.zeros_like(federation.start)
        return super().init(federation) | {"control": zeros, "controls": zeros.repeat(federation.clients, 1)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        x, c, c_i = state["weights"], state["control"], state["controls"][torch.as_tensor(clients)]
        cohort = engine.Cohort(clients, x, correction=c - c_i)
        trained = engine.train(federation, cohort, self.work(round), round)
        walked = self.rate(round) * torch.as_tensor(trained.steps, dtype=torch.float32).unsqueeze(1)  # K_i * lr
        gradients = c_i - c + (x - trained.weights) / walked  # c_i^+, the mean along the walk
        change = mean_by_size(federation, clients, trained.weights) - x
        known = shares(federation, np.arange(federation.clients))[torch.as_tensor(clients)]  # n_i of all clients' n
        return {
            "weights": x + self.server_lr * change,
            "control": c + engine.weighted_sum(known, gradients - c_i),  # c stays the mean of all c_i
            "controls": replaced(state["controls"], clients, gradients),
        }
