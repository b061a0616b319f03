"""Outputs of frozen models on the clients' samples, for methods that keep a frozen model beside the trained one.

A frozen model's output for a sample never changes, so several local epochs need it only once: it is computed before
training and looked up by row. Cropped and flipped samples differ from step to step; for these it is computed each time.
"""

from collections.abc import Callable

import numpy as np
import torch

from fedlib.engine import threads
from fedlib.engine.batch import Batch
from fedlib.engine.evaluation import ROWS, logits_of, outputs
from fedlib.problem import Federation, Network


@torch.no_grad()
def frozen_outputs(
    federation: Federation, network: Network, weights: torch.Tensor, clients: np.ndarray
) -> Callable[[Batch], torch.Tensor]:
    """The last layer's output of one shared model for the samples of a batch, (clients, batch, ...); `network` may be
    the beginning of the federation's."""
    if federation.augmentation is not None:

        def compute(batch: Batch) -> torch.Tensor:
            return logits_of(network, weights, batch.stored.flatten(0, 1)).unflatten(0, batch.rows.shape)

        return compute
    rows = federation.rows_of(clients).unique()
    table = _table(federation, rows, logits_of(network, weights, federation.x[rows]))
    return lambda batch: table[batch.rows]


@torch.no_grad()
def frozen_representations(
    federation: Federation, models: torch.Tensor, clients: np.ndarray
) -> Callable[[Batch, torch.Tensor], torch.Tensor]:
    """Representations of a batch's samples by each client's frozen model (clients, weights): (clients, batch, units).

    The function that is returned takes the batch and the frozen models of the batch's clients.
    """
    if federation.augmentation is not None or not federation.contiguous:
        return _representations_of_batch
    table = torch.zeros(len(federation.y), federation.network.head.inputs)

    def fill(position: int) -> None:
        for rows in federation.rows[clients[position]].split(ROWS):
            table[rows] = outputs(federation.network, models[position], federation.x.index_select(0, rows))[0]

    threads.share_out(fill, range(len(clients)))
    return lambda batch, models: table[batch.rows]


@torch.no_grad()
def _representations_of_batch(batch: Batch, models: torch.Tensor) -> torch.Tensor:
    return batch.outputs(models)[0]


def _table(federation: Federation, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One row for each row of the federation's x; zero where nothing was computed."""
    table = torch.zeros(len(federation.y), *values.shape[1:])
    table[rows] = values
    return table
