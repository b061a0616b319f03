"""Convolutional networks: one client at a time on a thread of its own, gradients by autograd.

Grouped convolutions or vmap over clients gain nothing on a processor. What helps is channels-last memory, pooling before the
rectifier (see `models`) and both in one pass with the convolution (`compiled.convolution`), flat weights, and one core for
each client.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedlib.engine.compiled import convolution
from fedlib.engine.products import linear
from fedlib.problem import layout


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
    for layer, *following in _passes(network):
        if isinstance(layer, nn.Linear):
            seen, x = x, linear(x, *next(remaining))
        elif isinstance(layer, nn.Conv2d):
            seen, x = x, _convolve(layer, x, *next(remaining), following)
        else:
            x = layer(x)
    return seen, x


# ---------------------------------------------------------------- a convolution with what follows it


def _passes(network: nn.Sequential) -> list[list[nn.Module]]:
    """The layers one by one, but a convolution together with a pooling and a rectifier behind it."""
    found = []
    for layer in network:
        last = found[-1] if found else [None]
        pools = _halves(layer) and len(last) == 1
        rectifies = isinstance(layer, nn.ReLU) and not isinstance(last[-1], nn.ReLU)
        if isinstance(last[0], nn.Conv2d) and (pools or rectifies):
            last.append(layer)
        else:
            found.append([layer])
    return found


def _halves(layer: nn.Module) -> bool:
    """Whether this is the usual pooling: the maximum of squares of 2 x 2."""
    if not isinstance(layer, nn.MaxPool2d) or layer.ceil_mode or layer.return_indices:
        return False
    square = layer.kernel_size in (2, (2, 2)) and layer.stride in (2, (2, 2))
    return square and layer.padding in (0, (0, 0)) and layer.dilation in (1, (1, 1))


def _convolve(layer: nn.Conv2d, x, weight, bias, following: list[nn.Module]) -> torch.Tensor:
    """The convolution and what follows it, compiled where it has the usual form."""
    pools, rectifies = (any(isinstance(one, kind) for one in following) for kind in (nn.MaxPool2d, nn.ReLU))
    if _is_usual(layer, x, pools):
        return _Convolution.apply(x, weight, bias, layer.padding[0], pools, rectifies)
    x = functional.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)
    for one in following:
        x = one(x)
    return x


def _is_usual(layer: nn.Conv2d, x: torch.Tensor, pools: bool) -> bool:
    if x.dtype != torch.float32 or layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        return False
    left = [side + 2 * layer.padding[0] - size + 1 for side, size in zip(x.shape[2:], layer.kernel_size, strict=True)]
    enough = min(left) >= (2 if pools else 1)
    return enough and layer.stride == layer.dilation == (1, 1) and layer.padding[0] == layer.padding[1]


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, bias, padding, pools, rectifies):
        x, weight = _channels_last(x), _channels_last(weight)
        context.form = convolution.form(x.shape[1:], weight.shape, padding, pools, rectifies)
        out, which = convolution.forward(context.form, x, weight, np.ascontiguousarray(bias.detach()))
        context.saved = x, weight, out, which
        return _channels_first(out)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, error):
        wants_x = context.needs_input_grad[0]
        by_weight, by_bias, by_x = convolution.backward(context.form, *context.saved, _channels_last(error), wants_x)
        found = _channels_first(by_x) if wants_x else None, _channels_first(by_weight), torch.from_numpy(by_bias)
        return *found, None, None, None


def _channels_last(x: torch.Tensor) -> np.ndarray:
    """(n, channels, height, width) as (n, height, width, channels), copied only if it does not lie like that."""
    return np.ascontiguousarray(x.detach().permute(0, 2, 3, 1).numpy())


def _channels_first(x: np.ndarray) -> torch.Tensor:
    """The inverse, without a copy."""
    return torch.from_numpy(x).permute(0, 3, 1, 2)


def gradient(network: nn.Sequential, weights: torch.Tensor, x, y, share) -> torch.Tensor:
    """Gradient of the weighted cross-entropy at flat weights (weights,)."""
    return objective_gradient(
        network, weights, x, lambda seen, logits: (functional.cross_entropy(logits, y, reduction="none") * share).sum()
    )


def objective_gradient(
    network: nn.Sequential, weights: torch.Tensor, x: torch.Tensor, objective: Callable
) -> torch.Tensor:
    """Gradient of `objective(representation, logits)`. The layers are autograd's leaves, so it never handles the flat vector."""
    apart = torch.from_numpy(
        weights.numpy()
    )  # other threads write to their own rows of the same stack; autograd would object
    with torch.enable_grad():
        own = [tuple(part.detach().requires_grad_() for part in layer) for layer in _layers(network, apart)]
        value = objective(*_forward(network, own, x))
        found = torch.autograd.grad(value, [part for layer in own for part in layer])
    flat = torch.empty_like(weights)
    for block, weight, bias in zip(layout.blocks(network), found[::2], found[1::2], strict=True):
        rows = block.view(flat)
        rows[:, :-1].view(weight.shape).copy_(weight)
        rows[:, -1] = bias
    return flat
