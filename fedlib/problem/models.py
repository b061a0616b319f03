"""The papers' networks, by name.

| name | paper | network |
|---|---|---|
| softmax | ACFMO, FCBAFL | one linear layer: softmax regression |
| mlp200 | FedSR (MNIST) | two hidden layers of 200: 199,210 weights on 784 inputs |
| cnn_fedsr | FedSR | valid 3x3 convolutions 32, 64, 64, two poolings, dense 64: 122,570 weights on CIFAR-10, 128,420 on CIFAR-100 |
| cnn_leaf | FedGS | LEAF's FEMNIST network, "same" 5x5 convolutions 32, 64, dense 2048: 6,603,710 weights |
| lenet_tutorial | FedACS | the network of PyTorch's CIFAR-10 tutorial: 62,006 weights |

Every network ends in the linear classifier ("head"); what comes before it is the representation. Pooling stands before the
rectifier: the maximum is monotone, so the result is the same and the rectifier touches a quarter of the values.
"""

from collections.abc import Callable

import torch
from torch import nn


def softmax(classes: int, shape: tuple[int, ...]) -> nn.Sequential:
    """Softmax regression on flattened inputs."""
    return nn.Sequential(nn.Flatten(), nn.Linear(_size(shape), classes))


def mlp200(classes: int, shape: tuple[int, ...]) -> nn.Sequential:
    """Two hidden layers of 200 units."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(_size(shape), 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, classes)
    )


def cnn_fedsr(classes: int, shape: tuple[int, ...]) -> nn.Sequential:
    """FedSR's network, decoded from its printed number of weights."""
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


def cnn_leaf(
    classes: int, shape: tuple[int, ...], width: int = 32, hidden: int = 2048, gain: float = 1.0
) -> nn.Sequential:
    """LEAF's FEMNIST network; `width` and `hidden` shrink it, `gain` widens its first weights (He's rule: 6^0.5)."""
    channels, height, depth = _image(shape)
    network = nn.Sequential(
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
    network.gain = gain
    return network


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


NETWORKS: dict[str, Callable[..., nn.Sequential]] = {
    network.__name__: network for network in (softmax, mlp200, cnn_fedsr, cnn_leaf, lenet_tutorial)
}


def build(name: str, classes: int, shape: tuple[int, ...], **options) -> nn.Sequential:
    """A network by name for samples of this shape: (features,), (height, width) or (channels, height, width)."""
    if name not in NETWORKS:
        raise ValueError(f"unknown network {name!r}; known: {', '.join(sorted(NETWORKS))}")
    return NETWORKS[name](classes, tuple(shape), **options)


def initialise(network: nn.Sequential, seed: int) -> None:
    """Draw the starting weights from their own stream; softmax regression starts at zero, where its loss is ln(classes)."""
    if sum(isinstance(layer, nn.Linear | nn.Conv2d) for layer in network) == 1:
        for weights in network.parameters():
            nn.init.zeros_(weights)
        return
    stream = torch.Generator().manual_seed(seed)
    for layer in network:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = layer.weight[0].numel() ** -0.5
            wide = bound * getattr(network, "gain", 1.0)
            nn.init.uniform_(layer.weight, -wide, wide, generator=stream)
            nn.init.uniform_(layer.bias, -bound, bound, generator=stream)


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) not in (2, 3):
        raise ValueError(
            f"a convolutional network needs images (height, width) or (channels, height, width), not {shape}"
        )
    return (1, *shape) if len(shape) == 2 else shape


def _valid(side: int) -> int:
    """The side left by a valid 3x3 convolution."""
    return side - 2
