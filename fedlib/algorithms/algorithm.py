"""What every method is: hyper-parameters, a first state, and a step from one state to the next.

A state is plain data, names to tensors, so that a run can be stopped, saved and resumed at any round. A method knows
nothing about processes, files or plots. A new method is one file beside this one with one frozen dataclass derived from
`Algorithm`. The type of each hyper-parameter states its limits (`problem.limits`), which are checked here, once, for
all methods.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.problem import Federation, generator
from fedlib.problem.limits import Share, check_fields

State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Algorithm:
    """Base of all methods. `participation` is the share of clients that take part in a round."""

    participation: Share = 1.0

    def __post_init__(self):
        check_fields(self)

    def init(self, federation: Federation) -> State:
        """The state before the first round; `weights` is the server's model."""
        return {"weights": federation.start.clone()}

    def round(self, federation: Federation, state: State, round: int) -> State:
        """The state after round `round`, counted from 1."""
        raise NotImplementedError

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        """What is recorded of a state: the server model's scores on the test set."""
        return scores_on_test_set(federation, state["weights"])

    def participants(self, federation: Federation, round: int) -> np.ndarray:
        """S^r, the clients of a round: drawn uniformly, alike for all methods of a seed, so comparisons are paired."""
        stream = generator(federation.seed, "participants", round)
        return np.sort(stream.choice(federation.clients, self.kappa(federation), replace=False))

    def kappa(self, federation: Federation) -> int:
        """How many clients take part in a round."""
        return max(1, round_half_up(self.participation * federation.clients))

    def require_rounds(self, rounds: int) -> None:
        """Raise an error if a run of this many rounds would fail later."""


def round_half_up(value: float) -> int:
    return int(value + 0.5)


def scores_on_test_set(federation: Federation, weights: torch.Tensor) -> dict[str, float]:
    """Loss and scores of a model on the federation's test set."""
    return engine.evaluate(federation.network, weights, federation.x_test, federation.y_test)


def sizes_of(federation: Federation, clients: np.ndarray) -> torch.Tensor:
    """n_i of these clients."""
    return federation.sizes[torch.as_tensor(clients)]


def shares(federation: Federation, clients: np.ndarray) -> torch.Tensor:
    """n_i / n over these clients: the weights of an average by data size."""
    sizes = sizes_of(federation, clients)
    return sizes / sizes.sum()


def mean_by_size(federation: Federation, clients: np.ndarray, stacked: torch.Tensor) -> torch.Tensor:
    """sum_i n_i / n * w_i."""
    return engine.weighted_sum(shares(federation, clients), stacked)


def replaced(all_clients: torch.Tensor, clients: np.ndarray, rows: torch.Tensor) -> torch.Tensor:
    """A copy of the rows of all clients with those of some replaced: memory that lasts over rounds."""
    kept = all_clients.clone()
    kept[torch.as_tensor(clients)] = rows.to(kept.dtype)
    return kept


def require_softmax(federation: Federation, method: str) -> None:
    """Refuse other networks: some methods are written for one linear layer on fixed features."""
    if len(federation.network.blocks) != 1:
        raise ValueError(f"{method} is written for softmax regression on fixed features; use network='softmax'")
