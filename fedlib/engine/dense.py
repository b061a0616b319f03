"""Dense networks, many clients in one matrix product.

The weights of a cohort are stacked, (clients, weights), and every client takes its step at the same time: activations are
(clients, units, batch), so a layer of all clients is one batched product. Backpropagation is written out, it is three
lines a layer. Units come before the batch because skinny products run two to five times faster that way round.
"""

import numpy as np
import torch

from fedlib.engine.layout import Block
from fedlib.engine.products import product


def forward(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    """Activations of each layer for stacked weights (clients, weights) and samples (clients, batch, inputs + 1).

    The last entry holds the logits, (clients, classes, batch). The bias of the first layer meets the samples' ones.
    """
    activations = [product(blocks[0].view(weights), x.mT)]
    for block in blocks[1:]:
        rows = block.view(weights)
        activations[-1] = activations[-1].relu()
        activations.append(product(rows[:, :, :-1], activations[-1]).add(rows[:, :, -1:]))
    return activations


def backward(blocks: list[Block], weights, x, y, share):
    """From the last layer to the first: (layer, error (clients, outputs, batch), what it saw), for the weighted cross-entropy.

    The gradient of a layer is error times what it saw, summed over the batch. The caller may change a layer's weights as
    soon as it has received the layer: the error below is already computed.
    """
    *hidden, logits = forward(blocks, weights, x)
    error = torch.softmax(logits, dim=1)
    error.scatter_add_(1, y.unsqueeze(1), torch.full_like(share, -1.0).unsqueeze(1))
    error *= share.unsqueeze(1)
    for layer in range(len(blocks) - 1, 0, -1):
        seen = hidden[layer - 1]
        below = product(blocks[layer].view(weights)[:, :, :-1].mT, error)
        yield layer, error, seen
        error = below.mul_(seen > 0)
    yield 0, error, x.mT


def softmax_difference(blocks: list[Block], weights, reference: torch.Tensor, x: torch.Tensor, share) -> torch.Tensor:
    """Gradient at `weights` less that at `reference` on the same samples, for one linear layer: the labels cancel, so one
    product gives it."""
    (block,) = blocks
    here, there = (torch.softmax(product(block.view(at), x.mT), dim=1) for at in (weights, reference))
    error = here.sub_(there).mul_(share.unsqueeze(1))
    return product(error, x).flatten(1)


def flat_gradients(blocks: list[Block], weights, x, y, share) -> torch.Tensor:
    """Gradient of sum_b share_b * cross-entropy_b for each client, (clients, weights)."""
    flat = torch.empty_like(weights)
    for layer, error, seen in backward(blocks, weights, x, y, share):
        rows = blocks[layer].view(flat)
        if layer:
            rows[:, :, -1] = error.sum(2)
            rows = rows[:, :, :-1]
        np.matmul(error.numpy(), seen.mT.numpy(), out=rows.numpy())
    return flat


class Momentum:
    """SGD with momentum for a stack of clients, layer by layer while the gradient is in the cache."""

    def __init__(self, blocks: list[Block], weights: torch.Tensor, momentum: float, l2: float):
        self.blocks, self.momentum, self.l2 = blocks, momentum, l2
        self.velocity = torch.zeros_like(weights) if momentum else None
        inputs = [block.inputs + (layer == 0) for layer, block in enumerate(blocks)]
        self.gradient = [np.empty((len(weights), b.outputs, width), np.float32) for b, width in zip(blocks, inputs, strict=True)]

    def step(self, weights: torch.Tensor, x, y, share, rates: torch.Tensor | float) -> None:
        """One step of the first len(weights) clients, in place."""
        active = len(weights)
        for layer, error, seen in backward(self.blocks, weights, x, y, share):
            rows = self.blocks[layer].view(weights)
            velocity = None if self.velocity is None else self.blocks[layer].view(self.velocity[:active])
            gradient = torch.from_numpy(
                np.matmul(error.numpy(), seen.mT.numpy(), out=self.gradient[layer][:active])
            )
            if layer:
                self.descend(rows[:, :, -1], None if velocity is None else velocity[:, :, -1], error.sum(2), rates)
                rows, velocity = rows[:, :, :-1], None if velocity is None else velocity[:, :, :-1]
            self.descend(rows, velocity, gradient, rates)

    def descend(self, weights, velocity, gradient, rates: torch.Tensor | float) -> None:
        if self.l2:
            gradient.add_(weights, alpha=self.l2)
        if velocity is not None:
            gradient = velocity.mul_(self.momentum).add_(gradient)
        if isinstance(rates, float):
            weights.add_(gradient, alpha=-rates)
        else:
            weights.addcmul_(gradient, rates.view(-1, *[1] * (weights.ndim - 1)), value=-1)


def outputs(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (clients, batch, units) and logits (clients, batch, classes), for losses that look at them."""
    activations = forward(blocks, weights, x)
    seen = activations[-2].mT if len(activations) > 1 else x[:, :, :-1]
    return seen, activations[-1].mT


def logits(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Logits (classes, samples) of one model on a plain design matrix."""
    return forward(blocks, weights.unsqueeze(0), x.unsqueeze(0))[-1][0]
