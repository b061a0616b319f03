"""Dense networks: stacked weights (clients, weights) in, stacked results out; the loops are in `compiled.dense_loops`.

Samples have a last column of ones, which multiplies the biases, (..., inputs + 1). A loss may be any function of
representation and logits: autograd differentiates it by these two, and from there on the gradient is computed by hand,
straight into the flat layout. (Layer by layer, autograd would allocate a full gradient for every slice.)
"""

import numpy as np
import torch

from fedlib.engine.compiled import dense_loops as loops
from fedlib.problem import Block

NO_LOSSES = np.zeros(0)


def descend(
    blocks: list[Block],
    weights: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    minibatches: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    momentum: float,
    l2: float,
    shift: torch.Tensor | None,
    losses: np.ndarray = NO_LOSSES,
) -> None:
    """Local training of some clients, in place; each descends its gradient + l2 * weights + shift.

    `minibatches` are rows, first, last, spans and rates as in `Minibatches`.
    """
    added = weights[:0] if shift is None else shift
    arrays = (weights.numpy(), x.numpy(), y.numpy(), *minibatches)
    loops.descend(_table(blocks), *arrays, np.float32(momentum), np.float32(l2), added.numpy(), losses)


def gradients(
    blocks: list[Block],
    weights: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    rows: torch.Tensor,
    share: torch.Tensor,
    first: np.ndarray,
    last: np.ndarray,
    l2: float = 0.0,
    losses: np.ndarray = NO_LOSSES,
) -> torch.Tensor:
    """Gradient of sum_b share_b * cross-entropy_b + l2/2 * |w|^2 over rows[first[c] : last[c]] of x, for each client
    c."""
    out = torch.empty(weights.shape)
    arrays = (tensor.contiguous().numpy() for tensor in (weights, x, y, rows, share))
    loops.gradients(_table(blocks), *arrays, first, last, np.float32(l2), out.numpy(), losses)
    return out


def stacked_gradients(
    blocks: list[Block],
    weights: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    rows: torch.Tensor,
    share: torch.Tensor,
    l2: float = 0.0,
    losses: np.ndarray = NO_LOSSES,
) -> torch.Tensor:
    """`gradients` where all clients have the same number of samples: rows and share are (clients, batch)."""
    ends = np.arange(len(rows) + 1) * rows.shape[1]
    return gradients(blocks, weights, x, y, rows.flatten(), share.flatten(), ends[:-1], ends[1:], l2, losses)


def softmax_difference(
    blocks: list[Block],
    weights: torch.Tensor,
    reference: torch.Tensor,
    x: torch.Tensor,
    rows: torch.Tensor,
    share: torch.Tensor,
    l2: float,
) -> torch.Tensor:
    """Gradient at `weights` minus that at `reference` on the same samples, for one linear layer."""
    out = torch.empty(weights.shape)
    reference = reference[:1] if reference.stride(0) == 0 else reference
    arrays = (tensor.contiguous().numpy() for tensor in (weights, reference, x, rows, share))
    loops.softmax_differences(_table(blocks), *arrays, np.float32(l2), out.numpy())
    return out


def outputs(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (clients, batch, units) and logits (clients, batch, classes) of x (clients, batch, inputs + 1);
    differentiable by the weights."""
    if torch.is_grad_enabled() and weights.requires_grad:
        return _Outputs.apply(weights, x, blocks)  # type: ignore[return-value]
    return ForwardPass(blocks, weights, x).outputs()


class _Outputs(torch.autograd.Function):
    @staticmethod
    def forward(context, weights, x, blocks):
        context.passed = ForwardPass(blocks, weights.detach(), x)
        return tuple(tensor.clone() for tensor in context.passed.outputs())

    @staticmethod
    def backward(context, representation_error, logits_error):
        return context.passed.gradient(representation_error.detach(), logits_error.detach()), None, None


class ForwardPass:
    """A forward pass whose values are kept for the backward pass."""

    def __init__(self, blocks: list[Block], weights: torch.Tensor, x: torch.Tensor):
        self.table, self.weights, self.batch = _table(blocks), weights.contiguous().numpy(), x.shape[1]
        self.offsets = loops.scratch_layout(self.table, self.batch)
        self.scratches = np.zeros((len(weights), self.offsets[-1]), np.float32)
        loops.forward(self.table, self.weights, x.contiguous().numpy(), self.offsets, self.scratches)

    def outputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Representation and logits, views."""
        layers, (_, classes, units) = len(self.table), self.table[-1]
        representation = self._at(self.offsets[layers - 1], units + 1)[:, :, :-1]
        return representation, self._at(self.offsets[2 * layers - 1], classes)

    def _at(self, offset: int, width: int) -> torch.Tensor:
        part = self.scratches[:, offset : offset + self.batch * width]
        return torch.from_numpy(part).unflatten(1, (self.batch, width))

    def gradient(self, representation_error: torch.Tensor, logits_error: torch.Tensor) -> torch.Tensor:
        """The gradient (clients, weights) for derivatives by representation and logits. Overwrites the kept values."""
        out = torch.empty(self.weights.shape)
        errors = (error.contiguous().numpy() for error in (logits_error, representation_error))
        loops.backward(self.table, self.weights, self.offsets, self.scratches, *errors, out.numpy())
        return out


def logits(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Logits (samples, classes) of one model (weights,) on a plain design matrix."""
    out = torch.empty(len(x), blocks[-1].outputs)
    loops.logits(_table(blocks), weights.contiguous().numpy(), x.contiguous().numpy(), out.numpy())
    return out


def _table(blocks: list[Block]) -> np.ndarray:
    return np.array([(block.start, block.outputs, block.inputs) for block in blocks])
