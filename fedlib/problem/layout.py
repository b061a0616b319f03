"""How a network's weights lie in one flat vector.

Each linear or convolutional layer is a block of (outputs) x (inputs + 1): one row per output, the bias in the last
column. So the bias is the weight of a feature that is always one, and server arithmetic is arithmetic on vectors. The
inputs of a convolution are input channels x kernel height x kernel width.
"""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Block:
    """Where one layer lies: flat[start : start + outputs * (inputs + 1)]."""

    start: int
    outputs: int
    inputs: int

    @property
    def stop(self) -> int:
        return self.start + self.outputs * (self.inputs + 1)

    def view(self, flat: torch.Tensor) -> torch.Tensor:
        """This layer's part of flat vectors (..., weights) as (..., outputs, inputs + 1), if possible a view."""
        return flat[..., self.start : self.stop].reshape(*flat.shape[:-1], self.outputs, self.inputs + 1)


def layers(network: nn.Sequential) -> list[nn.Linear | nn.Conv2d]:
    """The layers that have weights, in order."""
    return [layer for layer in network if isinstance(layer, nn.Linear | nn.Conv2d)]


def blocks(network: nn.Sequential) -> list[Block]:
    """One block for each layer with weights, in order.

    From shapes alone. Threads ask for it, too, and two that record an operation on the same parameter for autograd can
    lock each other out for ever: one holds torch's lock and waits for Python's, the other the other way round.
    """
    blocks: list[Block] = []
    for layer in layers(network):
        start = blocks[-1].stop if blocks else 0
        outputs = layer.weight.shape[0]
        blocks.append(Block(start, outputs, layer.weight.numel() // outputs))
    return blocks


def is_dense(network: nn.Sequential) -> bool:
    """Whether there are only linear layers, ReLUs and Flatten: the engine trains such networks for many clients at
    once."""
    return all(isinstance(layer, nn.Flatten | nn.Linear | nn.ReLU) for layer in network)


def flatten(network: nn.Sequential) -> torch.Tensor:
    """The network's weights as one flat vector."""
    return _joined([(layer.weight, _bias(layer)) for layer in layers(network)]).detach()


def load(network: nn.Sequential, flat: torch.Tensor) -> None:
    """Write a flat vector into the network."""
    with torch.no_grad():
        for layer, block in zip(layers(network), blocks(network), strict=True):
            rows = block.view(flat)
            layer.weight.copy_(rows[:, :-1].reshape(layer.weight.shape))
            _bias(layer).copy_(rows[:, -1])


def gradients(network: nn.Sequential) -> torch.Tensor:
    """The accumulated gradients as one flat vector, laid out like `flatten`, after a backward pass through all layers:
    a layer without a gradient would be left out."""
    pairs = [(layer.weight.grad, _bias(layer).grad) for layer in layers(network)]
    return _joined([(weight, bias) for weight, bias in pairs if weight is not None and bias is not None])


def _bias(layer: nn.Linear | nn.Conv2d) -> torch.Tensor:
    if layer.bias is None:
        raise ValueError(f"{layer} has no bias: every layer needs one, it is the last column of its block")
    return layer.bias


def _joined(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Weights and biases of all layers, each layer row by row with the bias last."""
    return torch.cat([torch.cat([weight.flatten(1), bias[:, None]], dim=1).flatten() for weight, bias in pairs])
