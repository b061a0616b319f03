"""FCBAFL, the learning part (Qiu, Li, Li, Xiao: "FCBAFL: An Energy-Conserving Federated Learning Approach in Industrial
Internet of Things", KSII TIIS 18(9), 2024), Section 2.1. The energy part is `fedlib.wireless`. The method is FEDL's
(Dinh et al.: "Federated Learning Over Wireless Networks", IEEE/ACM ToN 29(1), 2021).

Device n does not descend its own loss F_n but a surrogate, equation (5), whose gradient is (6):

    grad L_n(w) = grad F_n(w) + eta * gbar - grad F_n(w_prev)

At w_prev the device's own gradient cancels and all devices start along eta * gbar, the last global gradient; later
steps follow each device's own curvature. With eta = 0 no direction is left: w_prev is already the minimum.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import Count, NonNegative


@dataclass(frozen=True)
class LocalDescent(FedAvg):
    """FedAvg as this paper runs it: Q_l iterations on minibatches or on all data of a device; F(w) is recorded."""

    batch: Count | None = 20  # samples per iteration; None is the full batch, infinity in the paper
    steps: Count | None = 20  # Q_l

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        return super().measure(federation, state) | {"train_loss": global_loss(federation, state["weights"])}


@dataclass(frozen=True)
class FCBAFL(LocalDescent):
    """The surrogate of equation (5); devices send model and gradient, equations (10) and (11)."""

    eta: NonNegative = 1.0  # weight of the global gradient; 0 leaves no direction

    def init(self, federation: Federation) -> State:
        """The paper starts from w^0 alone; here devices also send their gradients at w^0, or round 1 would be lost."""
        weights = federation.start.clone()
        gradient = engine.pooled_gradient(federation, weights, np.arange(federation.clients))
        return {"weights": weights, "gradient": gradient, "theta": torch.ones(2)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        weights, global_part = state["weights"], self.eta * state["gradient"]  # w^{t-1}, eta * gbar^{t-1}
        shift = global_part - engine.client_gradients(federation, weights, clients)  # (6) without grad F_n(w)
        cohort = engine.Cohort(clients, weights, correction=shift)
        local = engine.train(federation, cohort, self.work(round), round).weights  # w_n^t
        gradients = engine.client_gradients(federation, local, clients)  # grad F_n(w_n^t), at the device's own model
        return {
            "weights": mean_by_size(federation, clients, local),  # (10)
            "gradient": mean_by_size(federation, clients, gradients),  # (11)
            "theta": local_accuracy(gradients + shift, global_part),
        }

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        mean, largest = state["theta"].tolist()
        return super().measure(federation, state) | {"theta": mean, "theta_max": largest}


def local_accuracy(remaining: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """theta of (7), |grad L_n(w_n)| / |grad L_n(w_prev)|, mean and maximum over devices: 0 is solved, 1 no progress."""
    theta = engine.root((remaining**2).sum(1) / (first**2).sum().clamp(min=1e-30))
    return torch.stack([theta.mean(), theta.max()])


def global_loss(federation: Federation, weights: torch.Tensor) -> float:
    """F(w) of equation (2): mean cross-entropy of all devices' samples, plus l2/2 * |w|^2."""
    x, y = federation.x, federation.y
    if not federation.contiguous or federation.offsets[-1] != len(y):
        rows = federation.rows_of(range(federation.clients))
        x, y = x[rows], y[rows]
    return engine.mean_loss(federation.network, weights, x, y) + federation.l2 / 2 * float((weights**2).sum())
