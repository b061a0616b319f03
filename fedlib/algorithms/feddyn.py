"""FedDyn (Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama: "Federated Learning Based on Dynamic
Regularization", ICLR 2021), Algorithm 1.

Client k descends a loss whose regulariser changes from round to round, and remembers a gradient g_k:

    L_k(w) - <g_k, w> + alpha/2 * |w - theta|^2,   then   g_k <- g_k - alpha * (theta_k - theta)

Solved exactly, that makes g_k the client's gradient at its own end theta_k. The server keeps h, the mean of all g_k,
and sends mean_k(theta_k) - h / alpha. Nothing moves any more only where all g_k are gradients at theta and cancel: at
a stationary point of the global loss. The paper weighs all clients alike; here they count by data size.
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
class FedDyn(FedAvg):
    """FedAvg with dynamic regularisation; memories held at zero are FedProx with mu = alpha."""

    alpha: Positive = 0.1  # strength of the regulariser; also how slowly the memories follow

    def init(self, federation: Federation) -> State:
        zeros = torch.zeros_like(federation.start)
        return super().init(federation) | {"h": zeros, "gradients": zeros.repeat(federation.clients, 1)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, theta = self.participants(federation, round), state["weights"]
        g = state["gradients"][torch.as_tensor(clients)]
        cohort = engine.Cohort(clients, theta, correction=-g)
        local = engine.train(federation, cohort, self.work(round), round, proximal=self.alpha).weights  # theta_k
        learnt = -self.alpha * (local - theta)
        known = shares(federation, np.arange(federation.clients))[torch.as_tensor(clients)]  # n_k of all clients' n
        h = state["h"] + engine.weighted_sum(known, learnt)  # h stays the mean of all g_k
        return {
            "weights": mean_by_size(federation, clients, local) - h / self.alpha,
            "h": h,
            "gradients": replaced(state["gradients"], clients, g + learnt),
        }
