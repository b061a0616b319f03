"""FedMMD (Yao, Huang, Sun: "Two-stream federated learning", VCIP 2018): the outputs of the local model for the client's
samples are kept close to those of the received one.

A client descends cross-entropy + gamma * MMD^2 between the outputs of the trained and of the received, fixed model. The
discrepancy is measured with a sum of Gaussian kernels of many widths, as in the authors' own implementation. Theirs has
six more, from 1e-6 to 0.1: one step of SGD changes the outputs by more than these widths, so rounding would decide.
"""

from dataclasses import dataclass

import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import NonNegative

WIDTHS = (1, 5, 10, 15, 20, 25, 30, 35, 100, 1e3, 1e4, 1e5, 1e6)  # sigma^2


@dataclass(frozen=True)
class FedMMD(FedAvg):
    """FedAvg with a discrepancy term."""

    gamma: NonNegative = 0.1  # weight of the discrepancy; 0 is FedAvg

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, received = self.participants(federation, round), state["weights"]
        received_logits = engine.frozen_outputs(federation, federation.network, received, clients)

        def loss(representation: torch.Tensor, logits: torch.Tensor, batch: engine.Batch) -> torch.Tensor:
            return batch.cross_entropy(logits) + self.gamma * mmd(logits, received_logits(batch), batch.share)

        def step(
            weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch
        ) -> tuple[torch.Tensor, engine.Memory]:
            return batch.gradient(weights, loss), {}

        return {"weights": self.train_mean(federation, engine.Cohort(clients, received), round, step=step).weights}


def mmd(a: torch.Tensor, b: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """MMD^2 of samples a and b (clients, batch, features) with weights `share` (clients, batch); one number per client.

    E k(a, a') + E k(b, b') - 2 E k(a, b)
    """
    pairs = share.unsqueeze(2) * share.unsqueeze(1)
    return (pairs * (kernel(a, a) + kernel(b, b) - 2 * kernel(a, b))).sum((1, 2))


def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """sum over sigma of exp(-|a_i - b_j|^2 / (2 sigma^2)) for all pairs, (clients, batch, batch).

    Subtract before squaring: |a|^2 + |b|^2 - 2ab would lose the small distances that matter to the narrow kernels.
    """
    squares = (a.unsqueeze(2) - b.unsqueeze(1)).square().sum(3)
    scales = torch.tensor([-0.5 / width for width in WIDTHS])
    return engine.exponential(squares.unsqueeze(3) * scales).sum(3)
