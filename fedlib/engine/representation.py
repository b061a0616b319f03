"""What a network's last hidden layer makes of samples: for methods that compare the representations of two models.

A model that stays as it is during a round has one representation of each sample; computed once, it serves all epochs.
"""

import numpy as np
import torch

from fedlib.engine import crew
from fedlib.engine.insight import ROWS, outputs
from fedlib.problem import layout


@torch.no_grad()
def representations(federation, weights: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """What each client's model, shared (weights,) or own (clients, weights), makes of the client's samples.

    One row a row of the federation's `x`, (samples, units); zero where the sample belongs to none of these clients.
    """
    if not federation.contiguous:
        raise ValueError("clients share samples here, so a sample has no single representation: deal without overlap")
    models = weights.expand(len(clients), -1)
    units = layout.blocks(federation.network)[-1].inputs
    found = torch.zeros(len(federation.y), units)

    def fill(position: int) -> None:
        for rows in federation.rows[clients[position]].split(ROWS):
            found[rows] = outputs(federation, models[position], rows)[0]

    crew.share_out(fill, range(len(clients)))
    return found
