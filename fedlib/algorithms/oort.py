"""Oort (Lai et al., OSDI 2021) as FedACS's rival: clients with high training losses are chosen, pacing off."""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib.algorithms.algorithm import State
from fedlib.algorithms.randomclients import RandomClients, sizes
from fedlib.engine.insight import mean_squared_losses
from fedlib.problem.federation import Federation
from fedlib.problem.streams import generator
from fedlib.selection import utility as oort


@dataclass(frozen=True)
class Oort(RandomClients):
    """Exploit by utility, explore unknown clients, ban those that took part too often."""

    cap: int | None = 100  # a client that took part so often is banned; None bans nobody
    explore: float = 0.9  # epsilon in the first round
    explore_decay: float = 0.98
    explore_least: float = 0.2
    cutoff: float = 0.95  # c: who has this share of the last admitted score may be drawn too
    clip: float = 0.95  # utilities are clipped at this quantile

    def __post_init__(self):
        super().__post_init__()
        for name in ("explore", "explore_decay", "explore_least", "cutoff", "clip"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must lie in [0, 1]")
        if self.cap is not None and self.cap < 1:
            raise ValueError(f"cap={self.cap} must be at least 1, or None to ban nobody")

    def init(self, federation: Federation) -> State:
        utility = torch.zeros(federation.clients, dtype=torch.float64)
        heard = torch.zeros(federation.clients, dtype=torch.int64)
        return super().init(federation) | {"utility": utility, "heard": heard}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        rng = generator(federation.seed, "oort", round)
        kappa, times, heard = self.kappa(federation), state["times"].numpy(), state["heard"].numpy()
        banned = times >= self.cap if self.cap is not None else np.zeros(len(times), dtype=bool)
        known, new = np.flatnonzero((heard > 0) & ~banned), np.flatnonzero(heard == 0)
        share = oort.exploration(round, self.explore, self.explore_decay, self.explore_least)
        wanted = kappa - min(len(new), int(kappa * share))
        taken = self.exploit(state, known, wanted, round, rng)
        taken = np.concatenate([taken, rng.choice(new, min(len(new), kappa - len(taken)), replace=False)])
        # When bans leave too few, the others fill up: a round has kappa participants.
        rest = np.setdiff1d(np.arange(len(times)), taken)
        return np.sort(np.concatenate([taken, rng.choice(rest, kappa - len(taken), replace=False)]))

    def exploit(self, state: State, known: np.ndarray, wanted: int, round: int, rng: np.random.Generator) -> np.ndarray:
        if len(known) == 0:
            return known
        scores = oort.scores(state["utility"].numpy()[known], state["heard"].numpy()[known], round, self.clip)
        return known[oort.exploit(scores, wanted, self.cutoff, rng)]

    def learn(self, federation: Federation, state: State, clients: np.ndarray, round: int) -> State:
        """U(i) = |B_i| sqrt(mean squared loss), at the model the client receives."""
        utility, heard = state["utility"].clone(), state["heard"].clone()
        losses = mean_squared_losses(federation, state["weights"], clients)
        utility[torch.as_tensor(clients)] = torch.as_tensor(sizes(federation, clients) * np.sqrt(losses))
        heard[torch.as_tensor(clients)] = round
        return {"utility": utility, "heard": heard}
