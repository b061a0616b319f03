"""Samplers that only draw (FedGS, Section VII-A): Random, and Monte Carlo, the best of a thousand draws."""

import numpy as np

from fedlib.selection.gbpcs import random_start
from fedlib.selection.matching import Selection, Watch, checked, checked_single_group, distance, largest

DRAWS = 1000  # as printed
BATCH = 100  # draws that are scored together


def random(A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator, watch: Watch | None = None) -> Selection:
    """Any `size` devices of each group."""
    A, y = checked(A, y, size)
    x = random_start(A, y, size, rng)
    d = distance(A, y, x)
    if watch:
        watch(d)
    return Selection(x, d[..., None])


def monte_carlo(
    A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator, watch: Watch | None = None
) -> Selection:
    """The best of `DRAWS` random selections of one group, the first among equals."""
    A, y = checked_single_group(A, y, size)
    best, lowest_distances = np.zeros(A.shape[-1], dtype=bool), [np.inf]
    for _ in range(DRAWS // BATCH):
        masks = largest(rng.random((BATCH, A.shape[-1])), size)
        distances = distance(A, y, masks)
        lowest = int(np.argmin(distances))
        if distances[lowest] < lowest_distances[-1]:
            best = masks[lowest]
            lowest_distances.append(distances[lowest])
        if watch:
            watch(lowest_distances[-1])
    return Selection(best, np.array(lowest_distances[1:]))
