"""What a client can tell from one look at its data with the server's model: no step is taken.

The gradient of the last layer is error times representation, so one forward pass gives it and nothing is propagated
back through the layers below. A client is looked at alone: what comes out does not depend on who else is asked.
"""

import numpy as np
import torch
from torch.nn import functional

from fedlib.engine import conv, crew, dense
from fedlib.engine.products import product
from fedlib.problem import layout

ROWS = 1024  # samples a pass: their activations stay in the cache


@torch.no_grad()
def last_layer_gradients(federation, weights: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """Full-batch gradient of each client's objective for the last layer, (clients, outputs * (inputs + 1))."""
    block = layout.blocks(federation.network)[-1]
    found = crew.share_out(lambda client: _last_layer_gradient(federation, weights, client), clients)
    return torch.stack(found).flatten(1).add_(block.view(weights).flatten(), alpha=federation.l2)


def _last_layer_gradient(federation, weights: torch.Tensor, client: int) -> torch.Tensor:
    rows = federation.rows[client]
    total = 0.0
    for part in rows.split(ROWS):
        seen, logits = outputs(federation, weights, part)
        error = functional.softmax(logits, dim=1) - functional.one_hot(federation.y[part], federation.classes)
        total = total + torch.cat([product(error.mT, seen), error.sum(0).unsqueeze(1)], dim=1)
    return total / len(rows)


@torch.no_grad()
def mean_squared_losses(federation, weights: torch.Tensor, clients: np.ndarray) -> np.ndarray:
    """Mean of the squared cross-entropies of each client's samples, (clients,)."""
    return np.array(crew.share_out(lambda client: _mean_squared_loss(federation, weights, client), clients))


def _mean_squared_loss(federation, weights: torch.Tensor, client: int) -> float:
    rows = federation.rows[client]
    parts = [
        functional.cross_entropy(outputs(federation, weights, part)[1], federation.y[part], reduction="none")
        for part in rows.split(ROWS)
    ]
    return float(torch.cat(parts).double().square().mean())


def outputs(federation, weights: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (rows, units) and logits (rows, classes) of one model."""
    x = federation.x.index_select(0, rows)
    if not layout.is_dense(federation.network):
        return conv.outputs(federation.network, weights, conv.images(x))
    seen, logits = dense.outputs(layout.blocks(federation.network), weights.unsqueeze(0), x.unsqueeze(0))
    return seen[0], logits[0]
