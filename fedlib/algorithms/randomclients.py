"""FedAvg as the FedACS paper runs it (Wang, Zhu, Wang, Han: "Federated Analytics Informed Distributed Industrial IoT
Learning with Non-IID Data", Section VII): the baseline, and the base of the methods that choose clients in other ways.

The step size falls with every local epoch of the whole training. Besides the test scores, the records say how skewed
the chosen clients are and what reward, Eq. (16), they get.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, sizes_of
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import Count, Share, Whole
from fedlib.selection import skewness


@dataclass(frozen=True)
class RandomClients(FedAvg):
    """kappa = participation * N clients per round, drawn uniformly."""

    hears_losses: ClassVar[bool] = False  # whether participants report the mean loss of their local training

    participation: Share = 0.05
    batch: Count | None = 50
    epochs: Count | None = 5  # E
    decay: Share = 0.9993  # of the step size, each local epoch; 1 keeps it
    watch: Whole = 0  # record the rewards of the first `watch` clients as if they took part
    tally: bool = False  # record how often each client has taken part

    def __post_init__(self):
        super().__post_init__()
        if self.epochs is None or self.steps is not None:
            raise ValueError("the step size falls by local epochs: give epochs, not steps")
        if self.final_lr is not None:
            raise ValueError("the step size falls by `decay` here, not by a cosine: leave final_lr out")

    def rate(self, round: int) -> float:
        """The step size at the start of a round: where the last round left it."""
        return self.lr * self.decay ** ((self.epochs or 0) * (round - 1))

    def work(self, round: int = 1) -> engine.Work:
        """What a client does in a round."""
        return replace(super().work(round), decay=self.decay)

    def init(self, federation: Federation) -> State:
        nobody = torch.zeros(federation.clients, dtype=torch.int64)
        return super().init(federation) | {"round": torch.tensor(0), "times": nobody}

    def choose(self, federation: Federation, state: State, round: int) -> np.ndarray:
        """The participants of a round."""
        return self.participants(federation, round)

    def merge(
        self, federation: Federation, state: State, clients: np.ndarray, round: int
    ) -> tuple[State, torch.Tensor]:
        """The part of the state that local training changes, and the clients' mean losses if `hears_losses`."""
        cohort = engine.Cohort(clients, state["weights"])
        trained = self.train_mean(federation, cohort, round, losses=self.hears_losses)
        return {"weights": trained.weights}, trained.losses

    def learn(
        self, federation: Federation, state: State, clients: np.ndarray, losses: torch.Tensor, round: int
    ) -> State:
        """What a selector remembers of its participants; `state` is the one they were chosen in."""
        return {}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.choose(federation, state, round)
        times = state["times"].clone()
        times[torch.as_tensor(clients)] += 1
        merged, losses = self.merge(federation, state, clients, round)
        learned = self.learn(federation, state, clients, losses, round)
        return state | merged | learned | {"round": torch.tensor(round), "times": times}

    def insights(self, federation: Federation, state: State, clients: np.ndarray) -> np.ndarray:
        """Delta w_i of a round's participants, Eq. (6), at the model they receive."""
        return skewness.insights(federation, state["weights"], clients, self.lr)

    def rewards(self, federation: Federation, state: State, clients: np.ndarray) -> np.ndarray:
        """R_i = -Q_i of a round's participants, Eq. (16)."""
        return -skewness.estimates(self.insights(federation, state, clients), sizes(federation, clients))

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        """Scores of the model; `alpha` and `reward` are means over those who train it next, `poisoners` is the share
        of clients with wrong labels among all participations so far."""
        coming = self.choose(federation, state, int(state["round"]) + 1)
        record = super().measure(federation, state)
        record["alpha"] = float(skewness.true_alphas(federation)[coming].mean())
        record |= self.watched_rewards(federation, state, coming)
        times = state["times"].numpy()
        if federation.poisoners:
            record["poisoners"] = float(times[list(federation.poisoners)].sum() / max(1, times.sum()))
        if self.tally:
            record |= {f"times_{client}": float(count) for client, count in enumerate(times)}
        return record

    def watched_rewards(self, federation: Federation, state: State, coming: np.ndarray) -> dict[str, float]:
        """Mean reward of the coming participants; each watched client's, measured against the participants' mean."""
        watched = np.arange(min(self.watch, federation.clients))
        asked = np.concatenate([coming, np.setdiff1d(watched, coming)])
        insights = skewness.insights(federation, state["weights"], asked, self.lr)
        mean = skewness.mean_insight(insights[: len(coming)], sizes(federation, coming))
        rewards = -skewness.estimates(insights, sizes(federation, asked), mean)
        of_client = dict(zip(asked.tolist(), rewards.tolist(), strict=True))
        watched_rewards = {f"reward_{client}": of_client[client] for client in watched.tolist()}
        return {"reward": float(rewards[: len(coming)].mean())} | watched_rewards


def sizes(federation: Federation, clients: np.ndarray) -> np.ndarray:
    """M_i of these clients."""
    return sizes_of(federation, clients).numpy().astype(np.float64)
