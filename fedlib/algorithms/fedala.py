"""FedALA (Zhang et al., AAAI 2023): each client mixes the received head with its own last one, element by element.

The mixing weights A_i in [0, 1] are learnt on the client's data before local training: w_i = last_i + A_i * (w -
last_i). When a client takes part for the second time, it learns them until its loss settles (the first phase); after
that, one step per round. A step takes all of the client's samples (the authors' code: minibatches of a random 80%).
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, replaced
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import NonNegative, Positive, Whole

WINDOW = 10  # losses whose deviation says whether the first phase is over


@dataclass(frozen=True)
class FedALA(FedAvg):
    """FedAvg from a mixed start; with mixing weights of one it is FedAvg."""

    mix_lr: NonNegative = 1.0  # eta, step of the mixing weights; 0 holds them at one, which is FedAvg
    mix_steps: Whole = 1  # gradient steps on the mixing weights per round, after the first phase
    settled: Positive = 0.1  # the first phase ends when the last ten losses deviate by less
    first_steps: Whole = 100  # or after this many steps; 0 leaves the first phase out

    def init(self, federation: Federation) -> State:
        weights = federation.start
        shape, nobody = (federation.clients, weights.numel()), torch.zeros(federation.clients, dtype=torch.bool)
        return {
            "weights": weights.clone(),
            "last": weights.expand(shape).clone(),
            "mix": torch.ones(shape),
            "seen": nobody,  # who has taken part
            "returned": nobody.clone(),  # who has done so twice, and has finished the first phase
        }

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        chosen = torch.as_tensor(clients)
        received, seen = state["weights"], state["seen"][chosen]
        last = torch.where(seen.unsqueeze(1), state["last"][chosen], received)
        first = (seen & ~state["returned"][chosen]).numpy()
        mix = self.learn(federation, clients, received - last, last, state["mix"][chosen], first)
        start = last + mix * (received - last)
        local = engine.train(federation, engine.Cohort(clients, start), self.work(round), round).weights
        return {
            "weights": mean_by_size(federation, clients, local),
            "last": replaced(state["last"], clients, local),
            "mix": replaced(state["mix"], clients, mix),
            "seen": replaced(state["seen"], clients, torch.ones(len(clients))),
            "returned": replaced(state["returned"], clients, seen),
        }

    def learn(
        self,
        federation: Federation,
        clients: np.ndarray,
        change: torch.Tensor,
        last: torch.Tensor,
        mix: torch.Tensor,
        first: np.ndarray,
    ) -> torch.Tensor:
        """A_i of each client: the usual steps, or steps until the loss settles for those in their first phase."""
        mix = mix.clone()

        def step(rows: np.ndarray) -> None:
            gradient = engine.client_gradients(federation, last[rows] + mix[rows] * change[rows], clients[rows])
            mix[rows] = (mix[rows] - self.mix_lr * gradient * change[rows]).clamp(0, 1)

        for _ in range(self.mix_steps if not first.all() else 0):
            step(np.flatnonzero(~first))
        learning, losses = np.flatnonzero(first), np.zeros((self.first_steps, len(clients)))
        for number in range(self.first_steps):
            if not len(learning):
                break
            models = last[learning] + mix[learning] * change[learning]
            losses[number, learning] = client_losses(federation, models, clients[learning])
            step(learning)
            if number >= WINDOW:
                recent = losses[number + 1 - WINDOW : number + 1, learning]
                learning = learning[recent.std(0) >= self.settled]
        return mix


def client_losses(federation: Federation, models: torch.Tensor, clients: np.ndarray) -> list[float]:
    """The mean loss of each client's model on the client's own samples."""
    rows = [federation.rows[client] for client in clients]
    scores = engine.evaluate_each(federation.network, models, federation.x, federation.y, rows)
    return [score["loss"] for score in scores]
