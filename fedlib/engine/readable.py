"""The readable loop: one client, one batch at a time, gradients by autograd. The stacked engine must equal it.

It is also the baseline of the benchmark.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from fedlib.engine import conv
from fedlib.engine.work import Work, client_batches
from fedlib.problem import layout


def network_input(federation, rows: torch.Tensor) -> torch.Tensor:
    """Samples as the network itself takes them: without the column of ones, bytes as floats."""
    x = federation.x[rows]
    return x[:, :-1] if layout.is_dense(federation.network) else conv.images(x)


def gradient(federation, weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Gradient of the mean cross-entropy over these rows plus l2/2 * |w|^2, by autograd."""
    network = federation.network
    layout.load(network, weights)
    network.zero_grad()
    functional.cross_entropy(network(network_input(federation, rows)), federation.y[rows]).backward()
    return layout.gradients(network) + federation.l2 * weights


@dataclass(frozen=True)
class OneBatch:
    """The step at hand, for one client: the counterpart of `engine.Batch`."""

    gradient: Callable[[torch.Tensor], torch.Tensor]
    position: int  # of the client in the cohort

    def difference(self, at: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        return self.gradient(at) - self.gradient(reference)

    def pick(self, of_cohort: torch.Tensor) -> torch.Tensor:
        return of_cohort[self.position]


def train_one(
    federation, start: torch.Tensor, client: int, work: Work, round: int, direction=None, position: int = 0
) -> torch.Tensor:
    """Local SGD of one client; `direction(weights, batch)` as in `engine.train`, without the leading dimension."""
    weights, velocity = start.clone(), torch.zeros_like(start)
    own = federation.rows[client]
    rate = work.lr[position] if isinstance(work.lr, torch.Tensor) else work.lr
    batches = client_batches(federation, client, work, round)
    per_epoch = len(batches) // (work.epochs or 1)
    for step, positions in enumerate(batches):
        rows = own[torch.as_tensor(positions)]
        batch = OneBatch(lambda at, rows=rows: gradient(federation, at, rows), position)
        update = direction(weights, batch) if direction else batch.gradient(weights)
        velocity = work.momentum * velocity + update
        weights = weights - rate * work.decay ** (work.epochs_done + step // per_epoch) * velocity
    return weights


def train(federation, start: torch.Tensor, clients: np.ndarray, work: Work, round: int, direction=None) -> torch.Tensor:
    """All clients of a cohort, one after another, from one start or one each."""
    starts = start.expand(len(clients), -1)
    return torch.stack(
        [
            train_one(federation, starts[position], client, work, round, direction, position)
            for position, client in enumerate(clients)
        ]
    )
