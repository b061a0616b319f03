"""FedDBE (Zhang et al., NeurIPS 2023): a bias memory per client takes up what is peculiar to its data.

Client i classifies x + b_i. The memory b_i stays at the client; a mean regulariser pulls the client's mean representation
towards the consensus of all clients, so that the shared head sees alike data everywhere. With a frozen extractor the
regulariser acts on the memory alone. The server model is judged without any memory.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, require_softmax
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem.federation import Federation


@dataclass(frozen=True)
class FedDBE(FedAvg):
    """FedAvg with a bias memory; `pull = 0` and memories held at zero would be FedAvg."""

    pull: float = 1.0  # kappa, weight of the mean regulariser

    def init(self, federation: Federation) -> State:
        require_softmax(federation, "FedDBE")
        inputs = federation.x.shape[1] - 1
        return {"weights": federation.start.clone(), "memory": torch.zeros(federation.clients, inputs)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        chosen = torch.as_tensor(clients)
        memory = state["memory"][chosen]
        offset = offsets(federation)[chosen]

        def direction(weights: torch.Tensor, batch: engine.Batch) -> torch.Tensor:
            return self.descend(federation, weights, batch, memory, offset)

        local = engine.train(federation, state["weights"], clients, self.work(round), round, direction)
        memories = state["memory"].clone()
        memories[chosen] = memory
        return {"weights": mean_by_size(federation, clients, local), "memory": memories}

    def descend(self, federation, weights, batch, memory, offset) -> torch.Tensor:
        """The head's gradient on x + b; the memory takes its own step in place.

        W(x + b) + c = Wx + (c + Wb): so the shifted samples cost nothing, only the bias column moves by Wb.
        """
        own = batch.pick(memory)
        rows = weights.unflatten(1, (federation.classes, -1))
        shifted = rows.clone()
        shifted[:, :, -1] += engine.product(rows[:, :, :-1], own.unsqueeze(2)).squeeze(2)
        gradient = batch.gradient(shifted.flatten(1)).unflatten(1, (federation.classes, -1))
        gradient[:, :, -1] += federation.l2 * (
            rows[:, :, -1] - shifted[:, :, -1]
        )  # the l2 term is of the weights themselves
        error = gradient[:, :, -1] - federation.l2 * rows[:, :, -1]  # sum over samples of p - y
        gradient[:, :, :-1].addcmul_(error.unsqueeze(2), own.unsqueeze(1))
        memory_gradient = engine.product(error.unsqueeze(1), rows[:, :, :-1]).squeeze(1)
        memory_gradient += 2 * self.pull / own.shape[1] * (batch.pick(offset) + own)
        memory[batch.positions] = own - self.lr * memory_gradient
        return gradient.flatten(1)


@lru_cache(maxsize=1)
def offsets(federation: Federation) -> torch.Tensor:
    """Each client's mean representation less the consensus z-bar^g over all clients; exchanged once, before training."""
    weights = federation.class_counts / federation.sizes.unsqueeze(1)
    means = engine.product(weights.unsqueeze(1), federation.class_means[:, :, :-1]).squeeze(1)
    return means - mean_by_size(federation, np.arange(federation.clients), means)
