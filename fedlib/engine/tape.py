"""Dense networks under autograd: representation and logits of a stack of clients as one step on the tape.

A loss may be any function of the two. Autograd follows the loss back to them; from there on the gradient is written out,
straight into the flat layout. (Layer by layer, autograd would allocate a full gradient for every slice.)
"""

import torch

from fedlib.engine import dense
from fedlib.problem.layout import Block


def outputs(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`dense.outputs`, with a way back to the weights where a gradient is wanted."""
    if torch.is_grad_enabled() and weights.requires_grad:
        return _Outputs.apply(weights, x, blocks)
    return dense.outputs(blocks, weights, x)


class _Outputs(torch.autograd.Function):
    @staticmethod
    def forward(context, weights, x, blocks):
        context.once = dense.Pass(blocks, weights.detach(), x)
        return tuple(found.clone() for found in context.once.outputs())

    @staticmethod
    def backward(context, seen_error, logits_error):
        return context.once.gradient(seen_error.detach(), logits_error.detach()), None, None
