"""CMFL (Wang, Wang, Li, ICDCS 2019) as FedACS's rival: random participants, but updates that point
elsewhere are dropped.

The relevance of an update is the share of weights whose sign agrees with that of the last global update.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size
from fedlib.algorithms.randomclients import RandomClients
from fedlib.problem import Federation
from fedlib.problem.limits import Fraction


@dataclass(frozen=True)
class CMFL(RandomClients):
    """`threshold` = 0 keeps every update: plain averaging."""

    threshold: Fraction = 0.5  # least relevance; two unrelated updates agree in half of the signs

    def init(self, federation: Federation) -> State:
        parts = {
            "update": torch.zeros_like(federation.start),
            "relevance": torch.tensor(torch.nan),
            "kept": torch.tensor(1.0),
        }
        return super().init(federation) | parts

    def merge(self, federation: Federation, state: State, clients: np.ndarray, round: int) -> State:
        """The mean of the relevant updates; where none is relevant the model and the last update stay."""
        cohort = engine.Cohort(clients, state["weights"])
        local = engine.train(federation, cohort, self.work(round), round).weights
        agree = relevance(local - state["weights"], state["update"])
        kept = agree >= self.threshold if round > 1 else torch.ones_like(agree, dtype=torch.bool)
        summary = {"relevance": agree.mean(), "kept": kept.float().mean()}
        if not kept.any():
            return summary
        weights = mean_by_size(federation, clients[kept.numpy()], local[kept])
        return summary | {"weights": weights, "update": weights - state["weights"]}

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        summary = {name: float(state[name]) for name in ("relevance", "kept")}
        return super().measure(federation, state) | summary


def relevance(updates: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """Share of weights in which each update has the sign of the last global update."""
    return (updates.sign() == last.sign()).float().mean(1)
