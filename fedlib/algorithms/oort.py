"""Oort (Lai et al., OSDI 2021) as FedACS's rival: clients that saw high losses while they trained are chosen again.

This is what the authors of FedACS released: every client takes part once; then participants are drawn from a pool of
the clients with the highest utility, and clients that took part too often are banned. In Oort's own paper the utility
is |B| sqrt(mean squared loss), clipped, and exploration is mixed with exploitation; pacing by speed plays no role here.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedlib.algorithms.algorithm import State, replaced, round_half_up
from fedlib.algorithms.randomclients import RandomClients
from fedlib.problem import Federation, generator
from fedlib.problem.limits import Count, Share
from fedlib.selection import utility as utilities


@dataclass(frozen=True)
class Oort(RandomClients):
    """`pool` = 1 without a cap draws from all clients in proportion to their utility."""

    hears_losses: ClassVar[bool] = True

    pool: Share = 0.2  # the share of all clients, those with the highest utility, from which participants are drawn
    cap: Count | None = 100  # a client that took part this often is banned; None bans nobody

    def init(self, federation: Federation) -> State:
        utility = torch.zeros(federation.clients, dtype=torch.float64)
        heard = torch.zeros(federation.clients, dtype=torch.int64)
        return super().init(federation) | {"utility": utility, "heard": heard}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        rng = generator(federation.seed, "oort", round)
        kappa, heard = self.kappa(federation), state["heard"].numpy()
        new = np.flatnonzero(heard == 0)
        taken = (
            rng.choice(new, min(len(new), kappa), replace=False)
            if len(new)
            else self.exploit(federation, state, round, rng)
        )
        # If the remaining new clients, or those not banned, are too few for a round, random others are added.
        rest = np.setdiff1d(np.arange(federation.clients), taken)
        return np.sort(np.concatenate([taken, rng.choice(rest, kappa - len(taken), replace=False)]))

    def exploit(self, federation: Federation, state: State, round: int, rng: np.random.Generator) -> np.ndarray:
        """Participants from the pool of the best who are not banned."""
        kappa, times = self.kappa(federation), state["times"].numpy()
        allowed = np.flatnonzero(times < self.cap) if self.cap is not None else np.arange(federation.clients)
        if len(allowed) == 0:
            return allowed
        pool = max(kappa, round_half_up(self.pool * federation.clients))
        scores = utilities.scores(state["utility"].numpy()[allowed], state["heard"].numpy()[allowed], round)
        return allowed[utilities.exploit(scores, pool, kappa, rng)]

    def learn(
        self, federation: Federation, state: State, clients: np.ndarray, losses: torch.Tensor, round: int
    ) -> State:
        """U(i): the mean loss that the client saw in this round's local training."""
        rounds = torch.full((len(clients),), round)
        return {
            "utility": replaced(state["utility"], clients, losses),
            "heard": replaced(state["heard"], clients, rounds),
        }
