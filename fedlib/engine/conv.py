"""Convolutional networks: one client at a time on a thread of its own, gradients by autograd.

Grouped convolutions or vmap over clients gain nothing on a processor. What helps is channels-last memory, pooling before the
rectifier (see `models`), flat weights, and one core for each client.
"""

import torch
from torch import nn
from torch.nn import functional

from fedlib.engine import layout
from fedlib.engine.products import linear


def images(x: torch.Tensor) -> torch.Tensor:
    """Stored samples (..., height, width, channels) as the network's input: channels first in name, last in memory."""
    return x.movedim(-1, -3).to(torch.float32).div_(255 if x.dtype == torch.uint8 else 1)


def outputs(network: nn.Sequential, weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (batch, units) and logits (batch, classes) of one model, flat weights (weights,)."""
    blocks = layout.blocks(network)
    parts = iter(weights.split([block.stop - block.start for block in blocks]))
    seen = x
    for layer in network:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            rows = next(parts).view(layer.weight.shape[0], -1)
            seen, x = x, _apply(layer, rows, x)
        else:
            x = layer(x)
    return seen, x


def _apply(layer: nn.Linear | nn.Conv2d, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    weight, bias = rows[:, :-1], rows[:, -1]
    if isinstance(layer, nn.Linear):
        return linear(x, weight, bias)
    kernel = weight.reshape(layer.weight.shape).contiguous(memory_format=torch.channels_last)
    return functional.conv2d(x, kernel, bias, layer.stride, layer.padding)


def gradient(network: nn.Sequential, weights: torch.Tensor, x, y, share, loss=None) -> torch.Tensor:
    """Gradient of the weighted cross-entropy, or of `loss(representation, logits)`, at flat weights (weights,)."""
    with torch.enable_grad():
        leaf = weights.detach().requires_grad_()
        seen, logits = outputs(network, leaf, x)
        value = loss(seen, logits) if loss else (functional.cross_entropy(logits, y, reduction="none") * share).sum()
        return torch.autograd.grad(value, leaf)[0]
