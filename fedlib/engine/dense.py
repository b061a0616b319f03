"""Dense networks: stacked weights (clients, weights) in, stacked results out; the loops are in `compiled.network`.

Samples carry the column of ones that meets the biases, (..., inputs + 1).
"""

import numpy as np
import torch

from fedlib.engine.compiled import network
from fedlib.engine.work import Schedule, Work
from fedlib.problem.layout import Block


def descend(
    federation, weights: torch.Tensor, schedule: Schedule, work: Work, l2: float, shift: torch.Tensor | None
) -> None:
    """Local training of the schedule's clients, in place; each descends its gradient + l2 * weights + shift."""
    shift = weights[:0] if shift is None else shift
    network.descend(
        _table(federation.blocks),
        weights.numpy(),
        federation.x.numpy(),
        federation.y.numpy(),
        schedule.rows,
        schedule.first,
        schedule.last,
        schedule.spans,
        schedule.rates,
        np.float32(work.momentum),
        np.float32(l2),
        shift.numpy(),
    )


def gradients(
    blocks: list[Block], weights: torch.Tensor, x, y, rows: torch.Tensor, share, first, last, l2: float = 0.0
) -> torch.Tensor:
    """Gradient of sum_b share_b * cross-entropy_b + l2/2 * |w|^2 over rows[first[c] : last[c]] of x, for each client c."""
    out = torch.empty_like(weights)
    arrays = (tensor.numpy() for tensor in (weights, x, y, rows, share))
    network.gradients(_table(blocks), *arrays, first, last, np.float32(l2), out.numpy())
    return out


def stacked_gradients(
    blocks: list[Block], weights: torch.Tensor, x, y, rows: torch.Tensor, share: torch.Tensor, l2: float = 0.0
) -> torch.Tensor:
    """`gradients` for as many samples of each client: rows and share are (clients, batch)."""
    ends = np.arange(len(rows) + 1) * rows.shape[1]
    return gradients(blocks, weights, x, y, rows.flatten(), share.flatten(), ends[:-1], ends[1:], l2)


def softmax_difference(
    blocks: list[Block], weights, reference: torch.Tensor, x, rows, share, l2: float
) -> torch.Tensor:
    """Gradient at `weights` less that at `reference` on the same samples, for one linear layer."""
    out = torch.empty_like(weights)
    reference = reference[:1] if reference.stride(0) == 0 else reference.contiguous()
    arrays = (tensor.numpy() for tensor in (weights, reference, x, rows.contiguous(), share.contiguous()))
    network.softmax_differences(_table(blocks), *arrays, np.float32(l2), out.numpy())
    return out


def outputs(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (clients, batch, units) and logits (clients, batch, classes) of x (clients, batch, inputs + 1)."""
    return Pass(blocks, weights, x).outputs()


class Pass:
    """A forward pass that is remembered for the way back: for losses that look at representation and logits."""

    def __init__(self, blocks: list[Block], weights: torch.Tensor, x: torch.Tensor):
        self.table, self.weights, self.batch = _table(blocks), weights.contiguous().numpy(), x.shape[1]
        self.places = network.places(self.table, self.batch)
        self.rooms = np.zeros((len(weights), self.places[-1]), np.float32)
        network.forward(self.table, self.weights, x.contiguous().numpy(), self.places, self.rooms)

    def outputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Representation and logits, views."""
        layers, (_, classes, units) = len(self.table), self.table[-1]
        seen = self._at(self.places[layers - 1], units + 1)[:, :, :-1]
        return seen, self._at(self.places[2 * layers - 1], classes)

    def _at(self, place: int, width: int) -> torch.Tensor:
        part = self.rooms[:, place : place + self.batch * width]
        return torch.from_numpy(part).unflatten(1, (self.batch, width))

    def gradient(self, seen_error: torch.Tensor, logits_error: torch.Tensor) -> torch.Tensor:
        """The gradient (clients, weights) that belongs to derivatives by representation and logits. Uses the pass up."""
        out = torch.empty(self.weights.shape)
        errors = (error.contiguous().numpy() for error in (logits_error, seen_error))
        network.backward(self.table, self.weights, self.places, self.rooms, *errors, out.numpy())
        return out


def logits(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Logits (samples, classes) of one model (weights,) on a plain design matrix."""
    out = torch.empty(len(x), blocks[-1].outputs)
    network.logits(_table(blocks), weights.contiguous().numpy(), x.contiguous().numpy(), out.numpy())
    return out


def _table(blocks: list[Block]) -> np.ndarray:
    return np.array([(block.start, block.outputs, block.inputs) for block in blocks])
