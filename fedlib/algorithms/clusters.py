"""Which devices an edge server gathers: the clusters that FedSR connects into rings and HierFAVG averages."""

import numpy as np
import torch

from fedlib import engine
from fedlib.problem.federation import Federation
from fedlib.problem.streams import generator


def clusters(federation: Federation, clients: np.ndarray, size: int, round: int) -> list[np.ndarray]:
    """The clients of a round dealt at random into clusters of `size`; a rest that fills none is a smaller cluster.

    All methods of a seed meet the same clusters, in the same order, so comparisons are paired.
    """
    order = generator(federation.seed, "clusters", round).permutation(clients)
    return [order[first : first + size] for first in range(0, len(order), size)]


def mean_by_cluster_size(federation: Federation, found: list[np.ndarray], models: torch.Tensor) -> torch.Tensor:
    """sum_m |D_m| / |D| * w^m, equation (11) of FedSR: clusters weigh as much as their devices' data."""
    sizes = torch.stack([federation.sizes[torch.as_tensor(cluster)].sum() for cluster in found])
    return engine.weighted_sum(sizes / sizes.sum(), models)


def require_epochs(algorithm) -> None:
    """Methods that visit a device several times a round count its work in passes over its data."""
    if algorithm.epochs is None or algorithm.epochs < 1 or algorithm.steps is not None:
        raise ValueError(f"{type(algorithm).__name__} works in epochs: give epochs of at least 1 and no steps")


def require_counts(**counts: int) -> None:
    """Sizes and repetitions start at one."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}={count} must be at least 1")
