"""The papers' networks, by name.

| name | paper | network |
|---|---|---|
| softmax | ACFMO, FCBAFL | one linear layer: softmax regression |
| mlp200 | FedSR (MNIST) | two hidden layers of 200: 199,210 weights on 784 inputs |
| cnn_fedsr | FedSR | valid 3x3 convolutions 32, 64, 64, two poolings, dense 64: 122,570 weights on CIFAR-10 |
| cnn_leaf | FedGS | LEAF's FEMNIST network, "same" 5x5 convolutions 32, 64, dense 2048: 6,603,710 weights |
| lenet_tutorial | FedACS | the network of PyTorch's CIFAR-10 tutorial: 62,006 weights |

Every network ends in the linear classifier ("head"); its input is the representation. Pooling comes before the ReLU:
both are monotone, so the result is the same and the ReLU touches a quarter of the values.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn

from fedlib.problem import layout
from fedlib.problem.limits import Count, bind, checked


def softmax(classes: int, shape: tuple[int, ...]) -> nn.Sequential:
    """Softmax regression on flattened inputs."""
    return nn.Sequential(nn.Flatten(), nn.Linear(_size(shape), classes))


def mlp200(classes: int, shape: tuple[int, ...]) -> nn.Sequential:
    """Two hidden layers of 200 units."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(_size(shape), 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, classes)
    )


def cnn_fedsr(classes: int, shape: tuple[int, ...]) -> nn.Sequential:
    """FedSR's network, derived from its printed number of weights."""
    channels, height, width = _image(shape)
    side = _valid(_valid(_valid(height) // 2) // 2), _valid(_valid(_valid(width) // 2) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * side[0] * side[1], 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def cnn_leaf(classes: int, shape: tuple[int, ...], width: int = 32, hidden: int = 2048) -> nn.Sequential:
    """LEAF's FEMNIST network; `width` and `hidden` shrink it."""
    channels, height, depth = _image(shape)
    return nn.Sequential(
        nn.Conv2d(channels, width, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * (height // 4) * (depth // 4), hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def lenet_tutorial(classes: int, shape: tuple[int, ...]) -> nn.Sequential:
    """The small LeNet of PyTorch's CIFAR-10 tutorial."""
    channels, height, width = _image(shape)
    side = (((height - 4) // 2) - 4) // 2, (((width - 4) // 2) - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * side[0] * side[1], 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


StartRule = Literal["default", "he", "xavier"]

NETWORKS: dict[str, Callable[..., nn.Sequential]] = {
    network.__name__: network for network in (softmax, mlp200, cnn_fedsr, cnn_leaf, lenet_tutorial)
}


def require_possible(name: str, options: dict) -> None:
    """Refuse an unknown network, and options that it does not take."""
    if name not in NETWORKS:
        raise ValueError(f"unknown network {name!r}; known: {', '.join(sorted(NETWORKS))}")
    bind(NETWORKS[name], (1, (1,)), options)
    for option, value in options.items():
        checked(option, value, Count)


def build(name: str, classes: int, shape: tuple[int, ...], **options) -> nn.Sequential:
    """A network by name for samples of this shape: (features,), (height, width) or (channels, height, width)."""
    require_possible(name, options)
    return NETWORKS[name](classes, tuple(shape), **options)


def initialise(network: nn.Sequential, seed: int, rule: StartRule = "default") -> None:
    """Draw the initial weights from a stream of their own; softmax regression starts at zero, where its loss is
    ln(classes).

    | rule | weights, uniform in +- | biases |
    |---|---|---|
    | default | fan_in^-0.5, as PyTorch's layers | fan_in^-0.5 |
    | he | (6 / fan_in)^0.5 | fan_in^-0.5 |
    | xavier | (6 / (fan_in + fan_out))^0.5 | zero |
    """
    layers = layout.layers(network)
    stream = torch.Generator().manual_seed(seed)
    for layer in layers:
        weight_bound, bias_bound = bounds(layer, rule) if len(layers) > 1 else (0.0, 0.0)
        nn.init.uniform_(layer.weight, -weight_bound, weight_bound, generator=stream)
        if layer.bias is not None:
            nn.init.uniform_(layer.bias, -bias_bound, bias_bound, generator=stream)


def bounds(layer: nn.Linear | nn.Conv2d, rule: StartRule) -> tuple[float, float]:
    """How far from zero weights and biases may start."""
    fan_in = layer.weight[0].numel()
    fan_out = layer.weight[:, 0].numel()
    usual = fan_in**-0.5
    if rule == "default":
        return usual, usual
    if rule == "he":
        return usual * 6**0.5, usual
    return (6 / (fan_in + fan_out)) ** 0.5, 0.0


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) not in (2, 3):
        raise ValueError(
            f"a convolutional network needs images (height, width) or (channels, height, width), not {shape}"
        )
    channels, height, width = (1, *shape) if len(shape) == 2 else shape
    return channels, height, width


def _valid(side: int) -> int:
    """The side left by a valid 3x3 convolution."""
    return side - 2
