"""FedALA (Zhang et al., AAAI 2023): each client mixes the received head with its own last one, element by element.

The mixing weights A_i in [0, 1] are learnt on the client's data before local training: w_i = last_i + A_i * (w -
last_i).
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, replaced
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import NonNegative, Whole


@dataclass(frozen=True)
class FedALA(FedAvg):
    """FedAvg from a mixed start; mixing weights held at one would be FedAvg."""

    mix_lr: NonNegative = 1.0  # eta, step of the mixing weights; 0 holds them at one, which is FedAvg
    mix_steps: Whole = 1  # gradient steps on the mixing weights per round

    def init(self, federation: Federation) -> State:
        weights = federation.start
        shape = (federation.clients, weights.numel())
        return {
            "weights": weights.clone(),
            "last": weights.expand(shape).clone(),
            "mix": torch.ones(shape),
            "seen": torch.zeros(federation.clients, dtype=torch.bool),
        }

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        chosen = torch.as_tensor(clients)
        received = state["weights"]
        last = torch.where(state["seen"][chosen].unsqueeze(1), state["last"][chosen], received)
        start, mix = self.blend(federation, clients, received - last, last, state["mix"][chosen])
        local = engine.train(federation, engine.Cohort(clients, start), self.work(round), round).weights
        return {
            "weights": mean_by_size(federation, clients, local),
            "last": replaced(state["last"], clients, local),
            "mix": replaced(state["mix"], clients, mix),
            "seen": replaced(state["seen"], clients, torch.ones(len(clients))),
        }

    def blend(
        self, federation: Federation, clients: np.ndarray, change: torch.Tensor, last: torch.Tensor, mix: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Learn A_i by gradient descent on the client's full data, clipped to [0, 1]; the start it gives, and A_i."""
        for _ in range(self.mix_steps):
            gradient = engine.client_gradients(federation, last + mix * change, clients)
            mix = (mix - self.mix_lr * gradient * change).clamp(0, 1)
        return last + mix * change, mix
