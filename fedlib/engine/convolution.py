"""Convolutional networks: one client at a time on a thread of its own.

Grouped convolutions or vmap over clients gain nothing on a CPU. What helps is channels-last memory, pooling before the
ReLU (see `models`), both in one pass with the convolution (`compiled.convolution_loops`), flat weights, and one core
per client. The gradient of the cross-entropy is one compiled call for networks of the usual form
(`compiled.network_loops`); autograd computes all other gradients.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedlib.engine.compiled import convolution_loops as loops
from fedlib.engine.compiled import network_loops
from fedlib.engine.compiled.pixels import look_up
from fedlib.engine.exact import linear
from fedlib.problem import Network, layout

Parameters = tuple[torch.Tensor, torch.Tensor]  # weight and bias of a layer
Objective = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of representation and logits


def inputs(network: Network, stored: torch.Tensor) -> torch.Tensor:
    """`network.inputs`, digit for digit: bytes are looked up in a table, which is several times faster."""
    table = network.byte_inputs if stored.dtype == torch.uint8 else None
    if table is None:
        return network.inputs(stored)
    found = torch.empty(stored.shape)
    channels = table.shape[1]
    look_up(stored.reshape(-1, channels).numpy(), table.numpy(), found.view(-1, channels).numpy())
    return found.movedim(-1, -3)


def outputs(layers: nn.Sequential, weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (batch, units) and logits (batch, classes) of one model with flat weights; differentiable."""
    return _forward(layers, _parameters(layers, weights), x)


def forward(layers: nn.Sequential, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The output of some layers for an input; differentiable."""
    return outputs(layers, weights, x)[1]


def _parameters(layers: nn.Sequential, weights: torch.Tensor) -> list[Parameters]:
    """Weight and bias of each layer as the layer takes them: kernels channels-last, matrices as views."""
    parameters = []
    for layer, block in zip(layout.layers(layers), layout.blocks(layers), strict=True):
        rows = block.view(weights)
        weight = rows[:, :-1]
        if isinstance(layer, nn.Conv2d):
            weight = weight.reshape(layer.weight.shape).contiguous(memory_format=torch.channels_last)
        parameters.append((weight, rows[:, -1]))
    return parameters


def _forward(layers: nn.Sequential, parameters: list[Parameters], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if len(x) == 1:  # torch hands a single picture to MKL, whose digits depend on the processor
        representation, logits = _forward(layers, parameters, torch.cat([x, x]))
        return representation[:1], logits[:1]
    remaining, representation = iter(parameters), x
    for layer, *following in _passes(layers):
        if isinstance(layer, nn.Linear):
            representation, x = x, linear(x, *next(remaining))
        elif isinstance(layer, nn.Conv2d):
            representation, x = x, _convolve(layer, x, *next(remaining), following)
        else:
            x = layer(x)
    return representation, x


# ---------------------------------------------------------------- a convolution with what follows it


def _passes(layers: nn.Sequential) -> list[list[nn.Module]]:
    """The layers one by one, but a convolution together with the pooling and the ReLU that follow it."""
    passes: list[list[nn.Module]] = []
    for layer in layers:
        last = passes[-1] if passes else []
        pools = _halves(layer) and len(last) == 1
        rectifies = isinstance(layer, nn.ReLU) and not (last and isinstance(last[-1], nn.ReLU))
        if last and isinstance(last[0], nn.Conv2d) and (pools or rectifies):
            last.append(layer)
        else:
            passes.append([layer])
    return passes


def _halves(layer: nn.Module) -> bool:
    """Whether this is the usual pooling: the maximum of squares of 2 x 2."""
    if not isinstance(layer, nn.MaxPool2d) or layer.ceil_mode or layer.return_indices:
        return False
    square = layer.kernel_size in (2, (2, 2)) and layer.stride in (2, (2, 2))
    return square and layer.padding in (0, (0, 0)) and layer.dilation in (1, (1, 1))


def _convolve(
    layer: nn.Conv2d, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, following: list[nn.Module]
) -> torch.Tensor:
    """The convolution and what follows it, compiled where it has the usual form."""
    pools, rectifies = _follows(following)
    if _is_usual(layer, x, pools):
        return _Convolution.apply(x, weight, bias, layer.padding[0], pools, rectifies)  # type: ignore[return-value]
    x = functional.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)
    for module in following:
        x = module(x)
    return x


def _follows(following: list[nn.Module]) -> tuple[bool, bool]:
    """Whether a pooling and whether a ReLU follow a convolution."""
    return any(map(_halves, following)), any(isinstance(module, nn.ReLU) for module in following)


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
        context.form = loops.form(x.shape[1:], weight.shape, padding, pools, rectifies)
        out, which = loops.forward(context.form, x, weight, np.ascontiguousarray(bias.detach()))
        context.saved = x, weight, out, which
        return _channels_first(out)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, error):
        wants_x = context.needs_input_grad[0]
        by_weight, by_bias, by_x = loops.backward(context.form, *context.saved, _channels_last(error), wants_x)
        x_error = _channels_first(by_x) if wants_x else None
        return x_error, _channels_first(by_weight), torch.from_numpy(by_bias), None, None, None


def _channels_last(x: torch.Tensor) -> np.ndarray:
    """(n, channels, height, width) as (n, height, width, channels), copied only if memory is laid out differently."""
    return np.ascontiguousarray(x.detach().permute(0, 2, 3, 1).numpy())


def _channels_first(x: np.ndarray) -> torch.Tensor:
    """The inverse, without a copy."""
    return torch.from_numpy(x).permute(0, 3, 1, 2)


# ---------------------------------------------------------------- whole networks


class UsualNetwork(NamedTuple):
    """Convolutions, each with its pooling and ReLU, then dense layers with a ReLU between them: compiled as a whole."""

    forms: tuple[loops.Form, ...]
    starts: np.ndarray  # where each convolution begins in the flat weights
    blocks: np.ndarray  # start, outputs and inputs of each dense layer


@lru_cache(maxsize=16)
def usual_network(layers: nn.Sequential, sample: tuple[int, int, int]) -> UsualNetwork | None:
    """The network's form for samples (channels, height, width), or None if autograd has to differentiate it."""
    passes = _passes(layers)
    convolutions = list(takewhile(lambda each: isinstance(each[0], nn.Conv2d), passes))
    forms, x = [], torch.empty(1, *sample)
    for convolution, *following in convolutions:
        assert isinstance(convolution, nn.Conv2d)
        pools, rectifies = _follows(following)
        if not _is_usual(convolution, x, pools):
            return None
        maps, channels, height, width = convolution.weight.shape
        kernels = (maps, height, width, channels)
        forms.append(loops.form(tuple(x[0].movedim(0, -1).shape), kernels, convolution.padding[0], pools, rectifies))
        x = torch.empty(1, forms[-1].outputs, forms[-1].rows, forms[-1].columns)
    if not forms or not _are_dense([layer for layer, *_ in passes[len(forms) :]]):
        return None
    table = np.array([(block.start, block.outputs, block.inputs) for block in layout.blocks(layers)])
    return UsualNetwork(tuple(forms), table[: len(forms), 0].copy(), table[len(forms) :].copy())


def _are_dense(layers: list[nn.Module]) -> bool:
    """Whether these are a Flatten, then linear layers with a ReLU between any two."""
    wanted = [nn.Flatten, *[nn.Linear, nn.ReLU] * (len(layers) // 2)][: len(layers)]
    return len(layers) % 2 == 0 and [type(layer) for layer in layers] == wanted


def gradient(
    layers: nn.Sequential, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, share: torch.Tensor
) -> tuple[torch.Tensor, float]:
    """Gradient of the weighted cross-entropy at flat weights (weights,), and the cross-entropy itself."""
    usual = usual_network(layers, tuple(x.shape[1:]))
    if usual is not None:
        out = torch.empty(weights.shape)
        flat, labels, shares = (tensor.contiguous().numpy() for tensor in (weights, y, share))
        return out, network_loops.gradient(*usual, flat, _channels_last(x), labels, shares, out.numpy())

    def cross_entropy(representation: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        return (functional.cross_entropy(logits, y, reduction="none") * share).sum()

    return objective_gradient(layers, weights, x, cross_entropy)


def objective_gradient(
    layers: nn.Sequential, weights: torch.Tensor, x: torch.Tensor, objective: Objective
) -> tuple[torch.Tensor, float]:
    """Gradient and value of `objective(representation, logits)`. The layers are autograd's leaves, so it never handles
    the flat vector."""
    with torch.enable_grad():
        parameters = [
            (weight.detach().requires_grad_(), bias.detach().requires_grad_())
            for weight, bias in _parameters(layers, weights.detach())
        ]
        value = objective(*_forward(layers, parameters, x))
        gradients = torch.autograd.grad(value, [tensor for layer in parameters for tensor in layer])
    flat = torch.empty(weights.shape)
    for block, weight, bias in zip(layout.blocks(layers), gradients[::2], gradients[1::2], strict=True):
        rows = block.view(flat)
        rows[:, :-1].view(weight.shape).copy_(weight)
        rows[:, -1] = bias
    return flat, float(value.detach())
