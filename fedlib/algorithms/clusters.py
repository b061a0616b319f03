"""The devices of each edge server: the clusters that FedSR connects into rings and HierFAVG averages."""

from collections.abc import Sequence

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import sizes_of
from fedlib.problem import Federation, generator


def clusters(federation: Federation, clients: np.ndarray, size: int, round: int) -> list[np.ndarray]:
    """The clients of a round dealt at random into clusters of `size`; the last cluster may be smaller.

    All methods of a seed have the same clusters, in the same order, so comparisons are paired.
    """
    order = generator(federation.seed, "clusters", round).permutation(clients)
    return [order[first : first + size] for first in range(0, len(order), size)]


def mean_by_cluster_size(federation: Federation, clusters: Sequence[np.ndarray], models: torch.Tensor) -> torch.Tensor:
    """sum_m |D_m| / |D| * w^m, equation (11) of FedSR: clusters are weighted by their devices' data."""
    sizes = torch.stack([sizes_of(federation, cluster).sum() for cluster in clusters])
    return engine.weighted_sum(sizes / sizes.sum(), models)


def require_epochs(method: str, epochs: int | None, steps: int | None) -> None:
    """Methods that visit a device several times per round count its work in passes over its data."""
    if epochs is None or steps is not None:
        raise ValueError(f"{method} works in epochs: give epochs of at least 1 and no steps")
