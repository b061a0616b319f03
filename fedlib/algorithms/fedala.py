"""FedALA (Zhang et al., AAAI 2023): each client mixes the received head with its own last one, element by element.

The mixing weights A_i in [0, 1] are learnt on the client's data before local training: w_i = last_i + A_i * (w - last_i).
"""

from dataclasses import dataclass

import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem.federation import Federation


@dataclass(frozen=True)
class FedALA(FedAvg):
    """FedAvg from a mixed start; mixing weights held at one would be FedAvg."""

    mix_lr: float = 1.0  # eta, step of the mixing weights
    mix_steps: int = 1  # gradient steps on the mixing weights a round

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
        local = engine.train(federation, start, clients, self.work(round), round)
        new = {name: tensor.clone() for name, tensor in state.items()}
        new["weights"] = mean_by_size(federation, clients, local)
        new["last"][chosen], new["mix"][chosen], new["seen"][chosen] = local, mix, True
        return new

    def blend(self, federation, clients, change, last, mix) -> tuple[torch.Tensor, torch.Tensor]:
        """Learn A_i by gradient descent on the client's full data, clipped to [0, 1]; the start it gives, and A_i."""
        for _ in range(self.mix_steps):
            gradient = engine.gradients(federation, last + mix * change, clients)
            mix = (mix - self.mix_lr * gradient * change).clamp(0, 1)
        return last + mix * change, mix
