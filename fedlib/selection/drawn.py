"""Samplers that only draw (FedGS, Section VII-A): Random, and Monte Carlo, the best of a thousand draws."""

import numpy as np

from fedlib.selection.gbpcs import random_start
from fedlib.selection.problem import Selection, Watch, checked, distance, largest, one_group

DRAWS = 1000  # as printed
AT_ONCE = 100


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
    A, y = one_group(A, y, size)
    best, found = None, [np.inf]
    for _ in range(DRAWS // AT_ONCE):
        drawn = largest(rng.random((AT_ONCE, A.shape[-1])), size)
        distances = distance(A, y, drawn)
        lowest = int(np.argmin(distances))
        if distances[lowest] < found[-1]:
            best, found = drawn[lowest], [*found, distances[lowest]]
        if watch:
            watch(found[-1])
    return Selection(best, np.array(found[1:]))
