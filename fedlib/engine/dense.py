"""Dense networks, many clients in one matrix product.

The weights of a cohort are stacked, (clients, weights), and every client takes its step at the same time: activations are
(clients, units, batch), so a layer of all clients is one batched product. Units come before the batch because skinny products run two to five times faster that way round.
"""

import numpy as np
import torch

from fedlib.engine.layout import Block
from fedlib.engine.products import product


class Room:
    """Room for one minibatch of each of a stack of clients: taken once, so that a step writes where the cache still is.

    Hidden layers (clients, units + 1, batch) end in a row of ones, which meets the bias of the next layer as the samples'
    ones meet that of the first.
    """

    def __init__(self, blocks: list[Block], clients: int, batch: int):
        self.blocks = blocks
        self.hidden = [np.ones((clients, block.outputs + 1, batch), np.float32) for block in blocks[:-1]]
        self.logits = np.empty((clients, blocks[-1].outputs, batch), np.float32)
        self.errors = [np.empty((clients, block.outputs, batch), np.float32) for block in blocks[:-1]]
        self.awake = [np.empty(error.shape, bool) for error in self.errors]

    def forward(self, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Logits (clients, classes, batch) for stacked weights (clients, weights) and samples (clients, batch, inputs + 1)."""
        flat, seen = weights.numpy(), x.numpy().transpose(0, 2, 1)
        for block, room in zip(self.blocks, self.hidden, strict=False):
            passed = room[: len(flat)]
            np.matmul(block.view(flat), seen, out=passed[:, :-1])
            seen = np.maximum(passed, 0, out=passed)
        return torch.from_numpy(np.matmul(self.blocks[-1].view(flat), seen, out=self.logits[: len(flat)]))

    def backward(self, weights: torch.Tensor, x, error: torch.Tensor, out: torch.Tensor, seen_error=None) -> torch.Tensor:
        """The gradient (clients, weights) that belongs to derivatives by the logits (clients, classes, batch) of the last
        `forward`, and by the representation (clients, units, batch) where a loss looks at that too."""
        clients, flat, found, error = len(weights), weights.numpy(), out.numpy(), error.numpy()
        for layer in range(len(self.blocks) - 1, 0, -1):
            block, seen = self.blocks[layer], self.hidden[layer - 1][:clients]
            np.matmul(error, seen.transpose(0, 2, 1), out=block.view(found))
            below, awake = self.errors[layer - 1][:clients], self.awake[layer - 1][:clients]
            np.matmul(block.view(flat)[:, :, :-1].transpose(0, 2, 1), error, out=below)
            if seen_error is not None and layer == len(self.blocks) - 1:
                below += seen_error.numpy()
            error = np.multiply(below, np.greater(seen[:, :-1], 0, out=awake), out=below)
        np.matmul(error, x.numpy(), out=self.blocks[0].view(found))
        return out

    def gradients(self, weights: torch.Tensor, x, y, share, out: torch.Tensor) -> torch.Tensor:
        """Gradient of sum_b share_b * cross-entropy_b for each client, (clients, weights)."""
        return self.backward(weights, x, _output_error(self.forward(weights, x), y, share), out)


def _output_error(logits: torch.Tensor, y: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """share_b * (softmax - one-hot): the derivative of the weighted cross-entropy by the logits."""
    weight = share.unsqueeze(1)
    return torch.softmax(logits, dim=1).mul_(weight).scatter_add_(1, y.unsqueeze(1), -weight)


def flat_gradients(blocks: list[Block], weights, x, y, share) -> torch.Tensor:
    """`Room.gradients` for one occasion."""
    return Room(blocks, *x.shape[:2]).gradients(weights, x, y, share, out=torch.empty_like(weights))


def softmax_difference(blocks: list[Block], weights, reference: torch.Tensor, x: torch.Tensor, share) -> torch.Tensor:
    """Gradient at `weights` less that at `reference` on the same samples, for one linear layer: the labels cancel, so one
    product gives it."""
    (block,) = blocks
    here, there = (torch.softmax(product(block.view(at), x.mT), dim=1) for at in (weights, reference))
    error = here.sub_(there).mul_(share.unsqueeze(1))
    return product(error, x).flatten(1)


def outputs(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (clients, batch, units) and logits (clients, batch, classes), for losses that look at them; autograd
    goes through."""
    first, *others = (block.view(weights) for block in blocks)
    seen, passed = x[:, :, :-1].mT, product(first, x.mT)
    for rows in others:
        seen = passed.relu()
        passed = product(rows[:, :, :-1], seen) + rows[:, :, -1:]
    return seen.mT, passed.mT


def logits(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Logits (classes, samples) of one model on a plain design matrix."""
    return Room(blocks, 1, len(x)).forward(weights.unsqueeze(0), x.unsqueeze(0))[0]
