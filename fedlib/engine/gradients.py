"""Full-batch gradients: of each client, of their union, and of the last layer alone."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from fedlib.engine import convolution, dense, threads
from fedlib.engine.evaluation import ROWS, outputs
from fedlib.engine.exact import product
from fedlib.problem import Federation, Network

Clients = Sequence[int] | np.ndarray


@torch.no_grad()
def mean_gradient(
    network: Network, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, l2: float = 0.0
) -> torch.Tensor:
    """Gradient of the mean cross-entropy over stored samples, plus l2 * weights."""
    return _mean_gradient(network, weights, x, y, torch.arange(len(y)), l2)


@torch.no_grad()
def pooled_gradient(federation: Federation, weights: torch.Tensor, clients: Clients) -> torch.Tensor:
    """Gradient of the clients' pooled objective, sum_i n_i / n * grad f_i(w): the average a server would form."""
    rows = federation.rows_of(clients)
    return _mean_gradient(federation.network, weights, federation.x, federation.y, rows, federation.l2)


def _mean_gradient(
    network: Network, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor, l2: float
) -> torch.Tensor:
    parts = [_summed_gradient(network, weights, x, y, part) for part in rows.split(ROWS)]
    return sum(parts[1:], parts[0]) / float(len(rows)) + l2 * weights


def _summed_gradient(
    network: Network, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor
) -> torch.Tensor:
    share = torch.ones(len(rows))
    if network.dense:
        model = weights.unsqueeze(0)
        return dense.stacked_gradients(network.blocks, model, x, y, rows.unsqueeze(0), share.unsqueeze(0))[0]
    images = convolution.inputs(network, x.index_select(0, rows))
    return convolution.gradient(network.layers, weights, images, y[rows], share)[0]


@torch.no_grad()
def client_gradients(federation: Federation, weights: torch.Tensor, clients: Clients) -> torch.Tensor:
    """Full-batch gradient of each client's own objective, at shared weights (weights,) or at one model per client
    (clients, weights); stacked."""
    models = weights.expand(len(clients), -1)
    if not federation.network.dense:
        pairs = zip(models, clients, strict=True)
        return torch.stack([pooled_gradient(federation, model, [int(client)]) for model, client in pairs])
    sizes = federation.sizes[torch.as_tensor(clients)].numpy().astype(np.int64)
    last = np.cumsum(sizes)
    rows = federation.rows_of(clients)
    share = torch.from_numpy((1 / sizes).astype(np.float32).repeat(sizes))
    blocks, x, y = federation.network.blocks, federation.x, federation.y
    return dense.gradients(blocks, models, x, y, rows, share, last - sizes, last, federation.l2)


@torch.no_grad()
def head_gradients(federation: Federation, weights: torch.Tensor, clients: Clients) -> torch.Tensor:
    """Full-batch gradient of each client's objective for the last layer, (clients, outputs * (inputs + 1)).

    It is error times representation, so one forward pass gives it and nothing is propagated back through the layers
    below. Each client is computed alone: its gradient does not depend on the other clients.
    """
    head = federation.network.head.view(weights).flatten()
    gradients = threads.share_out(lambda client: _head_gradient(federation, weights, client), clients)
    return torch.stack(gradients).flatten(1).add_(head, alpha=federation.l2)


def _head_gradient(federation: Federation, weights: torch.Tensor, client: int) -> torch.Tensor:
    rows = federation.rows[client]
    total = torch.zeros(federation.network.head.outputs, federation.network.head.inputs + 1)
    for part in rows.split(ROWS):
        representation, logits = outputs(federation.network, weights, federation.x.index_select(0, part))
        error = functional.softmax(logits, dim=1) - functional.one_hot(federation.y[part], federation.classes)
        total = total + torch.cat([product(error.mT, representation), error.sum(0).unsqueeze(1)], dim=1)
    return total / len(rows)
