"""FedDBE (Zhang et al., NeurIPS 2023): a bias memory per client takes up what is peculiar to its data.

Client i classifies x + b_i. The memory b_i stays at the client; a mean regulariser pulls the client's mean
representation towards the consensus of all clients, so that the shared head sees alike data everywhere. With a frozen
extractor the regulariser acts on the memory alone. The server model is judged without any memory.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, replaced, require_softmax
from fedlib.algorithms.fedavg import FedAvg
from fedlib.algorithms.prototypes import class_means
from fedlib.problem import Federation
from fedlib.problem.limits import NonNegative


@dataclass(frozen=True)
class FedDBE(FedAvg):
    """FedAvg with a bias memory; `pull = 0` and memories held at zero would be FedAvg."""

    pull: NonNegative = 1.0  # kappa, weight of the mean regulariser

    def init(self, federation: Federation) -> State:
        require_softmax(federation, "FedDBE")
        inputs = federation.x.shape[1] - 1
        memory = torch.zeros(federation.clients, inputs)
        return {"weights": federation.start.clone(), "memory": memory, "offset": mean_offsets(federation)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        chosen = torch.as_tensor(clients)
        client_memory = {name: state[name][chosen] for name in ("memory", "offset")}

        def step(
            weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch
        ) -> tuple[torch.Tensor, engine.Memory]:
            gradient, slope = self.slopes(federation, weights, batch, memory["memory"], memory["offset"])
            return gradient, {"memory": memory["memory"] - batch.rate * slope}

        cohort = engine.Cohort(clients, state["weights"], memory=client_memory)
        trained = engine.train(federation, cohort, self.work(round), round, step=step)
        return state | {
            "weights": mean_by_size(federation, clients, trained.weights),
            "memory": replaced(state["memory"], clients, trained.memory["memory"]),
        }

    def slopes(
        self,
        federation: Federation,
        weights: torch.Tensor,
        batch: engine.Batch,
        memory: torch.Tensor,
        offset: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients of the head and of the memory, on x + b.

        W(x + b) + c = Wx + (c + Wb): so the shifted samples cost nothing, only the bias column moves by Wb.
        """
        rows = weights.unflatten(1, (federation.classes, -1))
        shifted = rows.clone()
        shifted[:, :, -1] += engine.product(rows[:, :, :-1], memory.unsqueeze(2)).squeeze(2)
        gradient = batch.gradient(shifted.flatten(1)).unflatten(1, (federation.classes, -1))
        gradient[:, :, -1] += federation.l2 * (rows[:, :, -1] - shifted[:, :, -1])  # the l2 term is of the weights
        error = gradient[:, :, -1] - federation.l2 * rows[:, :, -1]  # sum over samples of p - y
        gradient[:, :, :-1].addcmul_(error.unsqueeze(2), memory.unsqueeze(1))
        slope = engine.product(error.unsqueeze(1), rows[:, :, :-1]).squeeze(1)
        slope += 2 * self.pull / memory.shape[1] * (offset + memory)
        return gradient.flatten(1), slope


def mean_offsets(federation: Federation) -> torch.Tensor:
    """Each client's mean representation less the consensus z-bar^g over all clients; exchanged once, before
    training."""
    class_shares = federation.class_counts / federation.sizes.unsqueeze(1)
    means = engine.product(class_shares.unsqueeze(1), class_means(federation)[:, :, :-1]).squeeze(1)
    return means - mean_by_size(federation, np.arange(federation.clients), means)
