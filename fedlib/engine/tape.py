"""Dense networks under autograd: representation and logits of a stack of clients as one step on the tape.

A loss may be any function of the two. Autograd follows the loss back to them; from there on the gradient is written out
as in `dense`, straight into the flat layout. (Layer by layer, autograd would allocate a full gradient for every slice.)
"""

import torch

from fedlib.engine import dense
from fedlib.engine.layout import Block


def outputs(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`dense.outputs`, with a quick way back to the weights where a gradient is wanted."""
    if torch.is_grad_enabled() and weights.requires_grad:
        return _Outputs.apply(weights, x, blocks)
    return dense.outputs(blocks, weights, x)


class _Outputs(torch.autograd.Function):
    @staticmethod
    def forward(context, weights, x, blocks):
        context.save_for_backward(weights, x)
        context.room = room = dense.Room(blocks, *x.shape[:2])
        logits = room.forward(weights.detach(), x)
        seen = torch.from_numpy(room.hidden[-1][:, :-1]).mT if room.hidden else x[:, :, :-1]
        return seen.clone(), logits.mT

    @staticmethod
    def backward(context, seen_error, logits_error):
        weights, x = (tensor.detach() for tensor in context.saved_tensors)
        flat = context.room.backward(weights, x, logits_error.mT, torch.empty_like(weights), seen_error.mT)
        return flat, None, None
