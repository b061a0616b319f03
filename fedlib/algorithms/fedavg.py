"""FedAvg (McMahan et al., 2017): clients train on their own data, the server averages the models by data size."""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import Algorithm, State, shares
from fedlib.algorithms.schedule import cosine
from fedlib.problem.federation import Federation


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Plain federated averaging; `steps` batches with replacement, or `epochs` passes over the client's data."""

    lr: float = 0.1
    batch: int = 16
    steps: int | None = None
    epochs: int | None = None
    momentum: float = 0.0
    final_lr: float | None = None  # the rate of the last round, reached on a cosine; None keeps `lr`
    rounds: int | None = None  # over how many rounds the rate falls; needed with `final_lr`, else without meaning

    def __post_init__(self):
        super().__post_init__()
        if (self.final_lr is None) != (self.rounds is None):
            raise ValueError("a falling rate needs both final_lr (its end) and rounds (when it gets there)")

    def rate(self, round: int) -> float:
        """eta_t, the clients' learning rate in a round."""
        return self.lr if self.final_lr is None else cosine(self.lr, self.final_lr, self.rounds, round)

    def work(self, round: int = 1) -> engine.Work:
        """What a client does in a round."""
        return engine.Work(
            lr=self.rate(round), batch=self.batch, steps=self.steps, epochs=self.epochs, momentum=self.momentum
        )

    def hooks(self, federation: Federation, received: torch.Tensor, clients: np.ndarray) -> dict:
        """What clients descend instead of the plain loss, in the words of `engine.train`: `direction`, `loss`, `pull`, `shift`."""
        return {}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, received = self.participants(federation, round), state["weights"]
        hooks = self.hooks(federation, received, clients)
        weights = engine.train_mean(
            federation, received, clients, self.work(round), round, shares(federation, clients), **hooks
        )
        return {"weights": weights}
