"""What layers with fixed weights make of samples, computed once: for methods that keep a frozen model beside the
trained one.

A received model that stays as it is during a round has one output for each sample, so several local epochs need it only
once.
"""

import numpy as np
import torch
from torch import nn

from fedlib.engine import conv, crew, dense
from fedlib.problem import layout

ROWS = 1024  # samples at a time


@torch.no_grad()
def outputs(layers: nn.Sequential, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The last layer's output for stored samples, one row a sample; `layers` may be the beginning of a network."""
    return torch.cat(crew.share_out(lambda part: _of_part(layers, weights, part), x.split(ROWS)))


@torch.no_grad()
def outputs_of_clients(federation, layers: nn.Sequential, weights: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """The outputs for all samples of these clients, one row a row of the federation's x; zero for other rows."""
    rows = torch.cat([federation.rows[client] for client in clients]).unique()
    found = outputs(layers, weights, federation.x[rows])
    of_all = torch.zeros(len(federation.y), *found.shape[1:])
    of_all[rows] = found
    return of_all


def _of_part(layers: nn.Sequential, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if layout.is_dense(layers):
        return dense.logits(layout.blocks(layers), weights, x)
    return conv.outputs(layers, weights, conv.images(x))[1]
