"""Dense networks, many clients in one matrix product.

The weights of a cohort are stacked, (clients, weights), and every client takes its step at the same time: activations are
(clients, units, batch), so a layer of all clients is one batched product. Backpropagation is written out, it is three
lines a layer. Units come before the batch because skinny products run two to five times faster that way round.
"""

import torch

from fedlib.engine.layout import Block


def forward(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    """Activations of each layer for stacked weights (clients, weights) and samples (clients, batch, inputs + 1).

    The last entry holds the logits, (clients, classes, batch). The bias of the first layer meets the samples' ones.
    """
    activations = [torch.bmm(blocks[0].view(weights), x.transpose(1, 2))]
    for block in blocks[1:]:
        rows = block.view(weights)
        hidden = activations[-1].relu_()
        activations.append(torch.baddbmm(rows[:, :, -1:], rows[:, :, :-1], hidden))
    return activations


def gradients(
    blocks: list[Block], weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, share: torch.Tensor
) -> list[torch.Tensor]:
    """Gradient of sum_b share_b * cross-entropy_b for each client, one (clients, outputs, inputs + 1) tensor a layer."""
    *hidden, logits = forward(blocks, weights, x)
    error = torch.softmax(logits, dim=1)
    error.scatter_add_(1, y.unsqueeze(1), torch.full_like(share, -1.0).unsqueeze(1))
    error *= share.unsqueeze(1)
    found = []
    for block, below in zip(reversed(blocks[1:]), reversed(hidden), strict=True):
        found.append(torch.cat([torch.bmm(error, below.transpose(1, 2)), error.sum(2, keepdim=True)], dim=2))
        error = torch.bmm(block.view(weights)[:, :, :-1].transpose(1, 2), error)
        error *= below > 0
    found.append(torch.bmm(error, x))
    return found[::-1]


def flat_gradients(blocks, weights, x, y, share) -> torch.Tensor:
    """The same gradients as flat vectors, (clients, weights)."""
    found = gradients(blocks, weights, x, y, share)
    return found[0].flatten(1) if len(found) == 1 else torch.cat([layer.flatten(1) for layer in found], dim=1)


def logits(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Logits (classes, samples) of one model on a plain design matrix."""
    return forward(blocks, weights.unsqueeze(0), x.unsqueeze(0))[-1][0]
