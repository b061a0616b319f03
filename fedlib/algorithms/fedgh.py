"""FedGH (Yi et al., ACM Multimedia 2023): the server trains a shared head on the clients' class prototypes.

A prototype is the mean representation of one class at one client. With a frozen extractor (here HoG) the prototypes never change, and
the head that clients receive is the only thing that learns.
"""

from dataclasses import dataclass

import torch

from fedlib.algorithms.algorithm import Algorithm, State, require_softmax
from fedlib.engine import dense
from fedlib.problem import layout
from fedlib.problem.federation import Federation


@dataclass(frozen=True)
class FedGH(Algorithm):
    """`steps` full-batch gradient steps of the server's head on this round's prototypes."""

    lr: float = 0.1
    steps: int = 10

    def init(self, federation: Federation) -> State:
        require_softmax(federation, "FedGH")
        return super().init(federation)

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = torch.as_tensor(self.participants(federation, round))
        held = federation.class_counts[clients] > 0
        prototypes, labels = federation.class_means[clients][held], held.nonzero()[:, 1]
        rows = torch.arange(len(labels)).unsqueeze(0)
        share = torch.full(rows.shape, 1 / len(labels))
        weights = state["weights"].unsqueeze(0)
        blocks = layout.blocks(federation.network)
        for _ in range(self.steps):
            gradient = dense.stacked_gradients(blocks, weights, prototypes, labels, rows, share, federation.l2)
            weights = weights - self.lr * gradient
        return {"weights": weights[0]}
