"""Rexp3 (Besbes, Gur, Zeevi, NeurIPS 2014) as FedACS's rival: the same rewards, but a bandit for rewards that drift.

`Rexp3` follows its own paper, extended to several plays per round. `ReleasedRexp3` is what the authors of FedACS
released: it never restarts, and takes rewards as they are, which are negative.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib.algorithms.algorithm import State
from fedlib.algorithms.randomclients import RandomClients, sizes
from fedlib.problem import Federation, generator
from fedlib.problem.limits import Count, Share
from fedlib.selection import exp3, skewness


@dataclass(frozen=True)
class Rexp3(RandomClients):
    """Exp3 with several plays per round that starts afresh every `restart` rounds."""

    restart: Count = 200  # Delta_T, rounds after which everything is forgotten
    gamma: Share | None = None  # share of blind exploration; None: the best for `restart` rounds, 1 chooses at random

    def init(self, federation: Federation) -> State:
        zeros = torch.zeros(federation.clients, dtype=torch.float64)
        span = torch.tensor([torch.inf, -torch.inf], dtype=torch.float64)
        return super().init(federation) | {"log_weights": zeros, "span": span}

    def exploring(self, federation: Federation) -> float:
        """gamma, the share of blind exploration."""
        best = exp3.exploration(federation.clients, self.kappa(federation), self.restart)
        return best if self.gamma is None else self.gamma

    def known(self, federation: Federation, state: State, round: int) -> State:
        """What is remembered at the start of a round: nothing after a restart."""
        return self.init(federation) if (round - 1) % self.restart == 0 else state

    def chances(self, federation: Federation, state: State, round: int) -> tuple[np.ndarray, np.ndarray]:
        """Each client's chance to take part, and who is capped."""
        log_weights = self.known(federation, state, round)["log_weights"].numpy()
        return exp3.probabilities(log_weights, self.kappa(federation), self.exploring(federation))

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        chances, _ = self.chances(federation, state, round)
        return exp3.dependent_rounding(chances, generator(federation.seed, "rexp3", round))

    def learn(
        self, federation: Federation, state: State, clients: np.ndarray, losses: torch.Tensor, round: int
    ) -> State:
        """Exp3 wants gains in 0..1: rewards are scaled by the span of all since the last restart."""
        chances, capped = self.chances(federation, state, round)
        known = self.known(federation, state, round)
        rewards = self.rewards(federation, state, clients)
        low, high = min(known["span"][0].item(), rewards.min()), max(known["span"][1].item(), rewards.max())
        gains = (rewards - low) / max(high - low, 1e-30)
        step = self.kappa(federation) * self.exploring(federation) / federation.clients
        moved = exp3.reinforce(known["log_weights"].numpy(), clients, gains, chances, capped, step)
        return {"log_weights": torch.as_tensor(moved), "span": torch.tensor([low, high], dtype=torch.float64)}


@dataclass(frozen=True)
class ReleasedRexp3(RandomClients):
    """Exp3's chances of one play, from which kappa clients are drawn without replacement; participants lose weight."""

    gamma: Share = 0.2  # share of blind exploration; 1 chooses at random
    reward_samples: Count | None = 2000  # M in every reward, as printed: Exp3's step depends on their scale; None: M_i

    def init(self, federation: Federation) -> State:
        return super().init(federation) | {"log_weights": torch.zeros(federation.clients, dtype=torch.float64)}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        rng = generator(federation.seed, "rexp3", round)
        chances = self.chances(federation, state)
        return np.sort(rng.choice(federation.clients, self.kappa(federation), replace=False, p=chances))

    def chances(self, federation: Federation, state: State) -> np.ndarray:
        """Each client's chance in a single draw."""
        return exp3.probabilities(state["log_weights"].numpy(), 1, self.gamma)[0]

    def rewards(self, federation: Federation, state: State, clients: np.ndarray) -> np.ndarray:
        """Rewards as the authors' code has them: M times a sum of two norms, negative."""
        insights, samples = self.insights(federation, state, clients), sizes(federation, clients)
        rewards = -skewness.estimates_of_parts(insights, samples, federation.classes)
        return rewards if self.reward_samples is None else rewards * (self.reward_samples / samples)

    def learn(
        self, federation: Federation, state: State, clients: np.ndarray, losses: torch.Tensor, round: int
    ) -> State:
        """w_i exp(gamma / N * reward / chance) for the participants."""
        log_weights, chances = state["log_weights"].numpy(), self.chances(federation, state)
        rewards, nobody = self.rewards(federation, state, clients), np.zeros(federation.clients, dtype=bool)
        moved = exp3.reinforce(log_weights, clients, rewards, chances, nobody, self.gamma / federation.clients)
        return {"log_weights": torch.as_tensor(moved - moved.max())}
