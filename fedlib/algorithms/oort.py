"""Oort (Lai et al., OSDI 2021) as FedACS's rival: clients with high training losses are chosen, pacing off."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from fedlib import engine
from fedlib.algorithms.algorithm import State
from fedlib.algorithms.randomclients import RandomClients, sizes
from fedlib.problem import Federation, generator
from fedlib.problem.limits import Count, Fraction
from fedlib.selection import utility as utilities


@dataclass(frozen=True)
class Oort(RandomClients):
    """Exploit by utility, explore unknown clients, ban those that took part too often."""

    cap: Count | None = 100  # a client that took part this often is banned; None bans nobody
    explore: Fraction = 0.9  # epsilon in the first round
    explore_decay: Fraction = 0.98
    explore_least: Fraction = 0.2
    cutoff: Fraction = 0.95  # c: who has this share of the last admitted score may be drawn too
    clip: Fraction = 0.95  # utilities are clipped at this quantile

    def init(self, federation: Federation) -> State:
        utility = torch.zeros(federation.clients, dtype=torch.float64)
        heard = torch.zeros(federation.clients, dtype=torch.int64)
        return super().init(federation) | {"utility": utility, "heard": heard}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        rng = generator(federation.seed, "oort", round)
        kappa, times, heard = self.kappa(federation), state["times"].numpy(), state["heard"].numpy()
        banned = times >= self.cap if self.cap is not None else np.zeros(len(times), dtype=bool)
        known, new = np.flatnonzero((heard > 0) & ~banned), np.flatnonzero(heard == 0)
        share = utilities.exploration(round, self.explore, self.explore_decay, self.explore_least)
        wanted = kappa - min(len(new), int(kappa * share))
        taken = self.exploit(state, known, wanted, round, rng)
        taken = np.concatenate([taken, rng.choice(new, min(len(new), kappa - len(taken)), replace=False)])
        # When bans leave too few, the others fill up: a round has kappa participants.
        rest = np.setdiff1d(np.arange(len(times)), taken)
        return np.sort(np.concatenate([taken, rng.choice(rest, kappa - len(taken), replace=False)]))

    def exploit(self, state: State, known: np.ndarray, wanted: int, round: int, rng: np.random.Generator) -> np.ndarray:
        if len(known) == 0:
            return known
        scores = utilities.scores(state["utility"].numpy()[known], state["heard"].numpy()[known], round, self.clip)
        return known[utilities.exploit(scores, wanted, self.cutoff, rng)]

    def learn(self, federation: Federation, state: State, clients: np.ndarray, round: int) -> State:
        """U(i) = |B_i| sqrt(mean squared loss), at the model the client receives."""
        utility, heard = state["utility"].clone(), state["heard"].clone()
        losses = mean_squared_losses(federation, state["weights"], clients)
        utility[torch.as_tensor(clients)] = torch.as_tensor(sizes(federation, clients) * np.sqrt(losses))
        heard[torch.as_tensor(clients)] = round
        return {"utility": utility, "heard": heard}


def mean_squared_losses(federation: Federation, weights: torch.Tensor, clients: np.ndarray) -> np.ndarray:
    """Mean of the squared cross-entropies of each client's samples, (clients,)."""

    def of_client(client: int) -> float:
        rows = federation.rows[client]
        logits = engine.logits_of(federation.network, weights, federation.x[rows])
        losses = functional.cross_entropy(logits, federation.y[rows], reduction="none")
        return float(losses.double().square().mean())

    return np.array([of_client(client) for client in clients])
