"""A network as the engine trains it: its layers, where their weights lie in one flat vector, and how it stores and
reads samples."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from fedlib.problem import layout, models
from fedlib.problem.inputs import Standard, as_floats


@dataclass(frozen=True, eq=False)
class Network:
    """Layers, and how stored samples become their input."""

    layers: nn.Sequential
    standard: Standard | None = None  # how inputs are standardised: dense networks when stored, others when used
    start_rule: models.StartRule = "default"

    @cached_property
    def blocks(self) -> list[layout.Block]:
        """Where each layer lies in a flat weight vector."""
        return layout.blocks(self.layers)

    @cached_property
    def dense(self) -> bool:
        """Whether there are linear layers and ReLUs only."""
        return layout.is_dense(self.layers)

    @property
    def head(self) -> layout.Block:
        """The last layer: the classifier."""
        return self.blocks[-1]

    @property
    def classes(self) -> int:
        return self.head.outputs

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.blocks[-1].stop

    def start_bounds(self, layer: nn.Linear | nn.Conv2d) -> tuple[float, float]:
        """How far from zero the weights and biases of a layer start."""
        return models.bounds(layer, self.start_rule)

    def start(self, seed: int) -> torch.Tensor:
        """The flat weights that training starts from, a function of the seed alone."""
        models.initialise(self.layers, seed, self.start_rule)
        return layout.flatten(self.layers)

    def store(self, x: torch.Tensor) -> torch.Tensor:
        """Samples as the engine keeps them. Dense networks: a design matrix of standardised floats with a last column
        of ones. Others: images as they are, (height, width, channels)."""
        if not self.dense:
            return x.unsqueeze(-1) if x.ndim == 3 else x
        floats = as_floats(x.unsqueeze(-1) if x.ndim == 3 else x)
        flat = (floats if self.standard is None else self.standard.apply(floats)).flatten(1)
        return torch.cat([flat, torch.ones(len(x), 1)], dim=1)

    def inputs(self, stored: torch.Tensor) -> torch.Tensor:
        """Stored samples as the layers take them: images standardised, with channels first in shape, last in memory."""
        if self.dense:
            return stored
        floats = as_floats(stored)
        return (floats if self.standard is None else self.standard.apply(floats)).movedim(-1, -3)

    @cached_property
    def byte_inputs(self) -> torch.Tensor | None:
        """The input that each byte of each channel becomes, (256, channels); None if it depends on more than that."""
        first = self.layers[0]
        if not isinstance(first, nn.Conv2d) or (self.standard is not None and self.standard.mean.ndim != 1):
            return None
        floats = as_floats(torch.arange(256, dtype=torch.uint8).unsqueeze(1).expand(-1, first.in_channels))
        return floats if self.standard is None else self.standard.apply(floats)
