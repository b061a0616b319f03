"""CMFL (Wang, Wang, Li, ICDCS 2019) as FedACS's rival: random participants, but updates that point in other directions
are dropped.

The relevance of an update is the share of weights whose sign agrees with a reference. In CMFL's own paper the reference
is the last global update, and the threshold falls over the rounds; the authors of FedACS compare with the mean of the
round's updates, at a fixed threshold.
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
    """As in its own paper; `threshold` = 0 keeps every update: plain averaging."""

    threshold: Fraction = 0.8  # v_0: in round t an update is kept if its relevance is at least v_0 / sqrt(t)

    def init(self, federation: Federation) -> State:
        parts = {
            "update": torch.zeros_like(federation.start),
            "relevance": torch.tensor(torch.nan),
            "kept": torch.tensor(torch.nan),
        }
        return super().init(federation) | parts

    def merge(
        self, federation: Federation, state: State, clients: np.ndarray, round: int
    ) -> tuple[State, torch.Tensor]:
        """The mean of the relevant updates; if none is relevant, the model and the last update stay."""
        trained = engine.train(federation, engine.Cohort(clients, state["weights"]), self.work(round), round)
        agree = relevance(trained.weights - state["weights"], self.reference(federation, state, clients, trained))
        kept = self.keep(agree, round)
        summary = {"relevance": agree.mean(), "kept": kept.float().mean()}
        if not kept.any():
            return summary, trained.losses
        weights = mean_by_size(federation, clients[kept.numpy()], trained.weights[kept])
        return summary | {"weights": weights, "update": weights - state["weights"]}, trained.losses

    def reference(
        self, federation: Federation, state: State, clients: np.ndarray, trained: engine.Trained
    ) -> torch.Tensor:
        """What updates are compared with: the last global update."""
        return state["update"]

    def keep(self, agree: torch.Tensor, round: int) -> torch.Tensor:
        """Which updates are relevant enough; in the first round, without anything to compare with, all."""
        return agree >= self.threshold / round**0.5 if round > 1 else torch.ones_like(agree, dtype=torch.bool)

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        summary = {name: float(state[name]) for name in ("relevance", "kept")}
        return super().measure(federation, state) | summary


@dataclass(frozen=True)
class ReleasedCMFL(CMFL):
    """As the authors of FedACS released it: compared with this round's mean update; the best one always counts."""

    threshold: Fraction = 0.7  # least relevance

    def reference(
        self, federation: Federation, state: State, clients: np.ndarray, trained: engine.Trained
    ) -> torch.Tensor:
        return mean_by_size(federation, clients, trained.weights) - state["weights"]

    def keep(self, agree: torch.Tensor, round: int) -> torch.Tensor:
        kept = agree >= self.threshold
        return kept if kept.any() else agree == agree.max()


def relevance(updates: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Share of weights in which each update has the sign of the reference."""
    return (updates.sign() == reference.sign()).float().mean(1)
