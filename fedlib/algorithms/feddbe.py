"""FedDBE (Zhang et al., NeurIPS 2023): a bias memory per client absorbs what is peculiar to its data.

Client i classifies x + b_i. The memory b_i stays at the client. The method's other half, a mean regulariser, pulls the
client's mean representation *without* the memory towards the consensus of all clients, as in the authors' code: it acts
on the extractor, so with a frozen one (here HoG) it has no effect. The server model is evaluated without any memory.
"""

from dataclasses import dataclass

import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, replaced, require_softmax
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation


@dataclass(frozen=True)
class FedDBE(FedAvg):
    """FedAvg with a bias memory; with memories of zero it is FedAvg."""

    def init(self, federation: Federation) -> State:
        require_softmax(federation, "FedDBE")
        inputs = federation.x.shape[1] - 1
        return {"weights": federation.start.clone(), "memory": torch.zeros(federation.clients, inputs)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        chosen = torch.as_tensor(clients)

        def step(
            weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch
        ) -> tuple[torch.Tensor, engine.Memory]:
            gradient, slope = self.slopes(federation, weights, batch, memory["memory"])
            return gradient, {"memory": memory["memory"] - batch.rate * slope}

        cohort = engine.Cohort(clients, state["weights"], memory={"memory": state["memory"][chosen]})
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
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients of the head and of the memory, on x + b.

        W(x + b) + c = Wx + (c + Wb): so shifting the samples costs nothing, only the bias column changes by Wb.
        """
        rows = weights.unflatten(1, (federation.classes, -1))
        shifted = rows.clone()
        shifted[:, :, -1] += engine.product(rows[:, :, :-1], memory.unsqueeze(2)).squeeze(2)
        gradient = batch.gradient(shifted.flatten(1)).unflatten(1, (federation.classes, -1))
        gradient[:, :, -1] += federation.l2 * (rows[:, :, -1] - shifted[:, :, -1])  # the l2 term is of the weights
        error = gradient[:, :, -1] - federation.l2 * rows[:, :, -1]  # sum over samples of p - y
        gradient[:, :, :-1].addcmul_(error.unsqueeze(2), memory.unsqueeze(1))
        slope = engine.product(error.unsqueeze(1), rows[:, :, :-1]).squeeze(1)
        return gradient.flatten(1), slope
