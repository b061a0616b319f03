"""Dense networks under autograd: representation and logits of a stack of clients as one step on the tape.

A loss may be any function of the two. Autograd follows the loss back to them; from there on the gradient is written out
as in `dense`, straight into the flat layout. (Layer by layer, autograd would allocate a full gradient for every slice.)
"""

import numpy as np
import torch

from fedlib.engine import dense
from fedlib.engine.layout import Block
from fedlib.engine.products import product


def outputs(blocks: list[Block], weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`dense.outputs`, with a quick way back to the weights where a gradient is wanted."""
    if torch.is_grad_enabled() and weights.requires_grad:
        return _Outputs.apply(weights, x, blocks)
    return dense.outputs(blocks, weights, x)


class _Outputs(torch.autograd.Function):
    @staticmethod
    def forward(context, weights, x, blocks):
        *hidden, logits = dense.forward(blocks, weights.detach(), x)
        context.save_for_backward(weights, x, *hidden)
        context.blocks = blocks
        seen = hidden[-1].mT if hidden else x[:, :, :-1].clone()
        return seen, logits.mT

    @staticmethod
    def backward(context, seen_error, logits_error):
        weights, x, *hidden = (tensor.detach() for tensor in context.saved_tensors)
        blocks, flat, error = context.blocks, torch.empty_like(weights), logits_error.mT
        for layer in range(len(blocks) - 1, 0, -1):
            below = hidden[layer - 1]
            rows = blocks[layer].view(flat)
            rows[:, :, -1] = error.sum(2)
            np.matmul(error.numpy(), below.mT.numpy(), out=rows[:, :, :-1].numpy())
            error = product(blocks[layer].view(weights)[:, :, :-1].mT, error)
            if layer == len(blocks) - 1:
                error += seen_error.mT
            error.mul_(below > 0)
        np.matmul(error.numpy(), x.numpy(), out=blocks[0].view(flat).numpy())
        return flat, None, None
