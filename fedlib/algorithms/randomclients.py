"""FedAvg as the FedACS paper runs it (Wang, Zhu, Wang, Han: "Federated Analytics Informed Distributed Industrial IoT
Learning with Non-IID Data", Section VII): the baseline, and the base of the methods that choose clients in other ways.

The step size falls with every local epoch of the whole training. Beside the test scores it is recorded who is chosen:
how skewed they are and what reward, Eq. (16), they get.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, round_half_up, shares
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem.federation import Federation
from fedlib.selection import skewness


@dataclass(frozen=True)
class RandomClients(FedAvg):
    """kappa = participation * N clients a round, drawn evenly."""

    participation: float = 0.05
    batch: int = 50
    epochs: int | None = 5  # E
    decay: float = 0.9993  # of the step size, each local epoch; 1 keeps it
    watch: int = 0  # so many clients' rewards are recorded, from the first on, as if they took part; 0 none
    tally: bool = False  # record how often each client has taken part

    def __post_init__(self):
        super().__post_init__()
        if self.epochs is None or self.steps is not None:
            raise ValueError("the step size falls by local epochs: give epochs, not steps")
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay={self.decay} must lie in (0, 1]")
        if self.final_lr is not None:
            raise ValueError("the step size falls by `decay` here, not by a cosine: leave final_lr out")
        if self.watch < 0:
            raise ValueError(f"watch={self.watch} must be a number of clients, 0 or more")

    def rate(self, round: int) -> float:
        """The step size at the start of a round: where the last round left it."""
        return self.lr * self.decay ** (self.epochs * (round - 1))

    def work(self, round: int = 1) -> engine.Work:
        """What a client does in a round."""
        momentum, rate = self.momentum, self.rate(round)
        return engine.Work(lr=rate, batch=self.batch, epochs=self.epochs, momentum=momentum, decay=self.decay)

    def kappa(self, federation: Federation) -> int:
        """Clients a round."""
        return max(1, round_half_up(self.participation * federation.clients))

    def init(self, federation: Federation) -> State:
        nobody = torch.zeros(federation.clients, dtype=torch.int64)
        return super().init(federation) | {"round": torch.tensor(0), "times": nobody}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        """The participants of a round."""
        return self.participants(federation, round)

    def merge(self, federation: Federation, state: State, clients: np.ndarray, round: int) -> State:
        """What local training changes: the new model."""
        share = shares(federation, clients)
        work = self.work(round)
        return {"weights": engine.train_mean(federation, state["weights"], clients, work, round, share)}

    def learn(self, federation: Federation, state: State, clients: np.ndarray, round: int) -> State:
        """What a selector remembers of its participants; `state` is the one they were chosen in."""
        return {}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.choose(federation, state, round)
        times = state["times"].clone()
        times[torch.as_tensor(clients)] += 1
        learned = self.learn(federation, state, clients, round)
        return (
            state
            | self.merge(federation, state, clients, round)
            | learned
            | {"round": torch.tensor(round), "times": times}
        )

    def rewards(self, federation: Federation, state: State, clients: np.ndarray) -> np.ndarray:
        """R_i = -Q_i of a round's participants, Eq. (16), at the model they receive."""
        found = skewness.insights(federation, state["weights"], clients, self.lr)
        return -skewness.estimates(found, sizes(federation, clients))

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        """Scores of the model; `alpha` and `reward` are means over those who train it next, `poisoners` the share of
        all participations so far that fell to clients with wrong labels."""
        coming = self.choose(federation, state, int(state["round"]) + 1)
        found = super().measure(federation, state)
        found["alpha"] = float(skewness.true_alphas(federation)[coming].mean())
        found |= self.watched_rewards(federation, state, coming)
        times = state["times"].numpy()
        if federation.poisoners:
            found["poisoners"] = float(times[list(federation.poisoners)].sum() / max(1, times.sum()))
        if self.tally:
            found |= {f"times_{client}": float(count) for client, count in enumerate(times)}
        return found

    def watched_rewards(self, federation: Federation, state: State, coming: np.ndarray) -> dict[str, float]:
        """Mean reward of the coming participants; each watched client's, measured against the participants' mean."""
        watched = np.arange(min(self.watch, federation.clients))
        asked = np.concatenate([coming, np.setdiff1d(watched, coming)])
        found = skewness.insights(federation, state["weights"], asked, self.lr)
        mean = skewness.mean_insight(found[: len(coming)], sizes(federation, coming))
        rewards = -skewness.estimates(found, sizes(federation, asked), mean)
        of_client = dict(zip(asked.tolist(), rewards.tolist(), strict=True))
        own = {f"reward_{client}": of_client[client] for client in watched.tolist()}
        return {"reward": float(rewards[: len(coming)].mean())} | own


def sizes(federation: Federation, clients: np.ndarray) -> np.ndarray:
    """M_i of these clients."""
    return federation.sizes[torch.as_tensor(clients)].numpy().astype(np.float64)
