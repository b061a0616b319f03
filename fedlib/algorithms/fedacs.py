"""FedACS (Wang, Zhu, Wang, Han: "Federated Analytics Informed Distributed Industrial IoT Learning with Non-IID Data"),
Algorithm 1: FedAvg whose participants a dueling bandit chooses, rewarded for gradients close to the mean gradient.

`FedACS` is the printed method; `ReleasedFedACS` differs in the three points in which the authors' code differs.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedlib.algorithms.algorithm import State, round_half_up
from fedlib.algorithms.randomclients import RandomClients, sizes
from fedlib.problem import Federation, generator
from fedlib.problem.limits import Positive, Share, Whole
from fedlib.selection import bandit, skewness


@dataclass(frozen=True)
class FedACS(RandomClients):
    """`tolerance` = kappa/N keeps the kappa best clients only, 1 chooses at random."""

    oldest_counts: ClassVar[bool] = False  # which of several remembered rewards of a client counts
    ties_lose: ClassVar[bool] = False

    tolerance: Share = 0.4  # lambda, size of the pool of desirable clients as a share of all
    eta: Positive = 0.2  # step of the bandit: what a won or lost duel adds
    history: Whole = 5  # rounds for which a reward stays comparable; 0 compares within a round only
    stop: Whole | None = None  # last round with insights (early stop); None never stops

    def __post_init__(self):
        super().__post_init__()
        if self.tolerance < self.participation:
            raise ValueError(
                f"tolerance={self.tolerance} must lie between participation={self.participation} and 1: "
                "participants are drawn from a pool of that share"
            )

    def init(self, federation: Federation) -> State:
        zeros = torch.zeros(federation.clients, dtype=torch.float64)
        history = torch.full((self.history, federation.clients), bandit.SILENT, dtype=torch.float64)
        return super().init(federation) | {"a": zeros, "b": zeros.clone(), "rewards": history}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        """Algorithm 2."""
        kappa = self.kappa(federation)
        pool = max(kappa, round_half_up(self.tolerance * federation.clients))
        rng = generator(federation.seed, "bandit", round)
        return bandit.select(state["a"].numpy(), state["b"].numpy(), pool, kappa, rng)

    def learn(
        self, federation: Federation, state: State, clients: np.ndarray, losses: torch.Tensor, round: int
    ) -> State:
        """Algorithm 3, until the early stop."""
        if self.stop is not None and round > self.stop:
            return {}
        history = state["rewards"].numpy()  # R^<h>, the newest round first
        rewards = bandit.remembered(history, self.oldest_counts)
        rewards[clients] = self.rewards(federation, state, clients)  # R^<all>
        a, b = state["a"].numpy(), state["b"].numpy()
        a, b = bandit.duel(a, b, rewards, clients, rewards > bandit.SILENT, self.eta, self.ties_lose)
        now = np.full((1, federation.clients), bandit.SILENT)
        now[0, clients] = rewards[clients]
        learned = {"a": a, "b": b, "rewards": np.concatenate([now, history])[: self.history]}
        return {name: torch.as_tensor(values) for name, values in learned.items()}


@dataclass(frozen=True)
class ReleasedFedACS(FedACS):
    """As in the authors' code: a tie is lost, of several remembered rewards the oldest counts, norms are added."""

    oldest_counts: ClassVar[bool] = True
    ties_lose: ClassVar[bool] = True

    def rewards(self, federation: Federation, state: State, clients: np.ndarray) -> np.ndarray:
        insights = self.insights(federation, state, clients)
        return -skewness.estimates_of_parts(insights, sizes(federation, clients), federation.classes)
