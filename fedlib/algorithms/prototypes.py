"""Class prototypes: the mean input of each class that a client holds. With a frozen extractor they never change."""

import torch

from fedlib.problem import Federation


def class_means(federation: Federation) -> torch.Tensor:
    """Mean input of each class at each client, (clients, classes, inputs); zero for classes it lacks."""
    sums = torch.zeros(federation.clients, federation.classes, federation.x.shape[1])
    for client_sums, rows in zip(sums, federation.rows, strict=True):
        client_sums.index_add_(0, federation.y[rows], federation.x[rows])
    return sums / federation.class_counts.clamp(min=1).unsqueeze(2)
