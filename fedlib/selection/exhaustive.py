"""Brute force (FedGS, Section VII-A): the distance of every possible selection, C(33, 8) = 13,884,156 of them, and
the least.

No selection is visited by itself. The devices are cut into two halves, and a selection is a subset of the left half
with sum l and one of the right half with sum r. Then d^2 = ||y||^2 + (||l||^2 - 2 l'y) + (||r||^2 - 2 r'y) + 2 l'r:
two numbers a subset and one matrix product for all pairs. The product is of whole numbers and exact.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from fedlib.selection.problem import Selection, Watch, distance, one_group

CELLS = 2**18  # pairs of subsets scored at once: two megabytes, which stay in the processor's cache
ROUNDING = 1e-12  # share of the largest term below which two distances count as equal


def brute(A: np.ndarray, y: np.ndarray, size: int, watch: Watch | None = None) -> Selection:
    """The best of all selections of one group; among equals one with most devices in the left half, the first."""
    A, y = one_group(A, y, size)
    best, score = None, np.inf
    found: list[float] = []
    for devices, scores, slack in _blocks(A, y, size):
        lowest = scores.min()
        if lowest < score - slack:
            one, two = np.unravel_index(np.argmax(scores <= lowest + slack), scores.shape)
            best, score = np.zeros(A.shape[-1], dtype=bool), lowest
            best[devices(one, two)] = True
            found.append(float(distance(A, y, best)))
        if watch:
            watch(found[-1])
    return Selection(best, np.minimum.accumulate(found))


def _blocks(A: np.ndarray, y: np.ndarray, size: int) -> Iterator[tuple]:
    """Blocks of pairs of subsets: who they are, d^2 - ||y||^2 of each pair, and how far these may be off."""
    half, count = A.shape[-1] // 2, A.shape[-1]
    for left in range(min(size, half), max(0, size - (count - half)) - 1, -1):
        one, two = _subsets(0, half, left), _subsets(half, count, size - left)
        (ones, own), (twos, other) = _sums(A, y, one), _sums(A, y, two)
        double, slack = 2 * twos.T, ROUNDING * (np.abs(own).max() + np.abs(other).max() + y @ y)
        for block in np.array_split(np.arange(len(one)), -(-len(one) * len(two) // CELLS)):
            scores = ones[block] @ double
            scores += own[block, None]
            scores += other
            yield lambda i, j, first=one[block], last=two: np.concatenate([first[i], last[j]]), scores, slack


def _subsets(start: int, stop: int, size: int) -> np.ndarray:
    """All subsets of `size` of the devices start ... stop - 1, one a row, in lexicographic order."""
    found = list(combinations(range(start, stop), size))
    return np.array(found, dtype=np.intp).reshape(len(found), size)


def _sums(A: np.ndarray, y: np.ndarray, subsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The summed counts s of each subset, and ||s||^2 - 2 s'y."""
    sums = A.T[subsets].sum(axis=1)
    return sums, (sums * (sums - 2 * y)).sum(axis=1)
