"""The readable loop: one client, one batch at a time, gradients by autograd. The stacked engine must equal it.

It is also the baseline of the benchmark.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from fedlib.engine import layout
from fedlib.engine.work import Work, client_batches


def network_input(federation, rows: torch.Tensor) -> torch.Tensor:
    """Samples as the network itself takes them: without the column of ones, bytes as floats."""
    x = federation.x[rows]
    return x[:, :-1] if layout.is_dense(federation.network) else x.float() / 255


def gradient(federation, weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Gradient of the mean cross-entropy over these rows plus l2/2 * |w|^2, by autograd."""
    network = federation.network
    layout.load(network, weights)
    network.zero_grad()
    functional.cross_entropy(network(network_input(federation, rows)), federation.y[rows]).backward()
    return layout.gradients(network) + federation.l2 * weights


def train_one(
    federation, start: torch.Tensor, client: int, work: Work, round: int, correct: Callable | None = None
) -> torch.Tensor:
    """Local SGD of one client. `correct(gradient, weights, gradient_at)` may bend each step, see `engine.train`."""
    weights, velocity = start.clone(), torch.zeros_like(start)
    own = federation.rows[client]
    batches = client_batches(federation, client, work, round)
    per_epoch = len(batches) // (work.epochs or 1)
    for step, batch in enumerate(batches):
        rows = own[torch.as_tensor(batch)]
        step_gradient = gradient(federation, weights, rows)
        if correct is not None:
            step_gradient = correct(step_gradient, weights, lambda at, rows=rows: gradient(federation, at, rows))
        velocity = work.momentum * velocity + step_gradient
        weights = weights - work.lr * work.decay ** (step // per_epoch) * velocity
    return weights


def train(federation, start: torch.Tensor, clients: np.ndarray, work: Work, round: int) -> torch.Tensor:
    """All clients of a cohort, one after another."""
    return torch.stack([train_one(federation, start, client, work, round) for client in clients])
