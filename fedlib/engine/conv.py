"""Convolutional networks: one client at a time on a thread of its own, gradients by autograd.

Grouped convolutions or vmap over clients gain nothing on a processor. What helps is channels-last memory, pooling before the
rectifier (see `models`), flat weights, and one core for each client.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from fedlib.engine import layout
from fedlib.engine.products import linear


def images(x: torch.Tensor) -> torch.Tensor:
    """Stored samples (..., height, width, channels) as the network's input: channels first in name, last in memory."""
    return x.movedim(-1, -3).to(torch.float32).div_(255 if x.dtype == torch.uint8 else 1)


Layer = tuple[torch.Tensor, torch.Tensor]  # weight and bias


def outputs(network: nn.Sequential, weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (batch, units) and logits (batch, classes) of one model, flat weights (weights,); autograd goes through."""
    return _forward(network, _layers(network, weights), x)


def _layers(network: nn.Sequential, weights: torch.Tensor) -> list[Layer]:
    """Weight and bias of each layer as the layer takes them: kernels channels-last, matrices as views."""
    found = []
    for layer, block in zip(layout.layers(network), layout.blocks(network), strict=True):
        rows = block.view(weights)
        weight = rows[:, :-1]
        if isinstance(layer, nn.Conv2d):
            weight = weight.reshape(layer.weight.shape).contiguous(memory_format=torch.channels_last)
        found.append((weight, rows[:, -1]))
    return found


def _forward(network: nn.Sequential, own: list[Layer], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if len(x) == 1:  # torch hands a single picture to MKL, whose digits depend on the processor
        return tuple(found[:1] for found in _forward(network, own, torch.cat([x, x])))
    remaining, seen = iter(own), x
    for layer in network:
        if isinstance(layer, nn.Linear):
            seen, x = x, linear(x, *next(remaining))
        elif isinstance(layer, nn.Conv2d):
            seen, x = x, functional.conv2d(x, *next(remaining), layer.stride, layer.padding)
        else:
            x = layer(x)
    return seen, x


def gradient(network: nn.Sequential, weights: torch.Tensor, x, y, share) -> torch.Tensor:
    """Gradient of the weighted cross-entropy at flat weights (weights,)."""
    return objective_gradient(
        network, weights, x, lambda seen, logits: (functional.cross_entropy(logits, y, reduction="none") * share).sum()
    )


def objective_gradient(network: nn.Sequential, weights: torch.Tensor, x: torch.Tensor, objective: Callable) -> torch.Tensor:
    """Gradient of `objective(representation, logits)`. The layers are autograd's leaves, so it never handles the flat vector."""
    apart = torch.from_numpy(weights.numpy())  # other threads write to their own rows of the same stack; autograd would object
    with torch.enable_grad():
        own = [tuple(part.detach().requires_grad_() for part in layer) for layer in _layers(network, apart)]
        value = objective(*_forward(network, own, x))
        found = torch.autograd.grad(value, [part for layer in own for part in layer])
    flat = torch.empty_like(weights)
    for block, weight, bias in zip(layout.blocks(network), found[::2], found[1::2], strict=True):
        rows = block.view(flat)
        rows[:, :-1] = weight.flatten(1)
        rows[:, -1] = bias
    return flat
