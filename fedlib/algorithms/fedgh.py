"""FedGH (Yi et al., ACM Multimedia 2023): the server trains a shared head on the clients' class prototypes.

A prototype is the mean representation of one class at one client. With a frozen extractor (here HoG) the prototypes
never change, and the head that clients receive is the only thing that learns.
"""

from dataclasses import dataclass

import torch

from fedlib import engine
from fedlib.algorithms.algorithm import Algorithm, State, require_softmax
from fedlib.algorithms.prototypes import class_means
from fedlib.problem import Federation
from fedlib.problem.limits import Count, Positive


@dataclass(frozen=True)
class FedGH(Algorithm):
    """`steps` full-batch gradient steps of the server's head on this round's prototypes."""

    lr: Positive = 0.1
    steps: Count = 10

    def init(self, federation: Federation) -> State:
        require_softmax(federation, "FedGH")
        return super().init(federation) | {"prototypes": class_means(federation)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = torch.as_tensor(self.participants(federation, round))
        held = federation.class_counts[clients] > 0
        prototypes, labels = state["prototypes"][clients][held], held.nonzero()[:, 1]
        weights = state["weights"]
        for _ in range(self.steps):
            gradient = engine.mean_gradient(federation.network, weights, prototypes, labels, federation.l2)
            weights = weights - self.lr * gradient
        return state | {"weights": weights}
