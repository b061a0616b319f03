"""FedACS (Wang, Zhu, Wang, Han: "Federated Analytics Informed Distributed Industrial IoT Learning with Non-IID Data"),
Algorithm 1: FedAvg whose participants a dueling bandit chooses, rewarded for gradients close to the mean gradient.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib.algorithms.algorithm import State, round_half_up
from fedlib.algorithms.randomclients import RandomClients
from fedlib.problem import Federation, generator
from fedlib.problem.limits import Positive, Share, Whole
from fedlib.selection import bandit


@dataclass(frozen=True)
class FedACS(RandomClients):
    """`tolerance` = kappa/N keeps the kappa best clients only, 1 chooses at random."""

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
        heard = torch.full((federation.clients,), -1, dtype=torch.int64)
        return super().init(federation) | {"a": zeros, "b": zeros.clone(), "rewards": zeros.clone(), "heard": heard}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        """Algorithm 2."""
        kappa = self.kappa(federation)
        pool = max(kappa, round_half_up(self.tolerance * federation.clients))
        rng = generator(federation.seed, "bandit", round)
        return bandit.select(state["a"].numpy(), state["b"].numpy(), pool, kappa, rng)

    def learn(self, federation: Federation, state: State, clients: np.ndarray, round: int) -> State:
        """Algorithm 3, until the early stop."""
        if self.stop is not None and round > self.stop:
            return {}
        rewards, heard = state["rewards"].numpy().copy(), state["heard"].numpy().copy()
        rewards[clients], heard[clients] = self.rewards(federation, state, clients), round
        comparable = (heard > 0) & (heard >= round - self.history)
        a, b = bandit.duel(state["a"].numpy(), state["b"].numpy(), rewards, clients, comparable, self.eta)
        learned = {"a": a, "b": b, "rewards": rewards, "heard": heard}
        return {name: torch.as_tensor(values) for name, values in learned.items()}
