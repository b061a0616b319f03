"""Brute force (FedGS, Section VII-A): the lowest distance of all selections; C(33, 8) = 13,884,156 in the paper.

The selections are not visited one by one. The devices are split into two halves; a selection is a subset of the left
half with sum l and one of the right half with sum r. Then
d^2 = ||y||^2 + (||l||^2 - 2 l'y) + (||r||^2 - 2 r'y) + 2 l'r:
one number per subset and one matrix product for all pairs. The product is of whole numbers and exact.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fedlib.selection.matching import Selection, Watch, checked_single_group, distance

PAIRS = 2**18  # pairs of subsets scored at once: their two megabytes stay in the processor's cache
ROUNDING = 1e-12  # relative to the largest term: scores closer than this count as equal


class PairBlock(NamedTuple):
    """Pairs of a left and a right subset, and their scores."""

    left: np.ndarray  # one subset per row
    right: np.ndarray
    scores: np.ndarray  # (left, right): d^2 - ||y||^2 of each pair
    slack: float  # how far rounding may have moved a score

    def devices(self, i: int | np.integer, j: int | np.integer) -> np.ndarray:
        """The devices of left subset i and right subset j."""
        return np.concatenate([self.left[i], self.right[j]])


def brute(A: np.ndarray, y: np.ndarray, size: int, watch: Watch | None = None) -> Selection:
    """The best of all selections of one group; of equal ones the first, in the order described in `_blocks`."""
    A, y = checked_single_group(A, y, size)
    best, best_score = np.zeros(A.shape[-1], dtype=bool), np.inf
    distances: list[float] = []
    for block in _blocks(A, y, size):
        lowest = block.scores.min()
        if lowest < best_score - block.slack:
            i, j = np.unravel_index(np.argmax(block.scores <= lowest + block.slack), block.scores.shape)
            best, best_score = np.zeros(A.shape[-1], dtype=bool), lowest
            best[block.devices(i, j)] = True
            distances.append(float(distance(A, y, best)))
        if watch:
            watch(distances[-1])
    return Selection(best, np.minimum.accumulate(distances))


def _blocks(A: np.ndarray, y: np.ndarray, size: int) -> Iterator[PairBlock]:
    """All selections, block by block: those with most devices in the left half first, then in lexicographic order."""
    half, count = A.shape[-1] // 2, A.shape[-1]
    for left_size in range(min(size, half), max(0, size - (count - half)) - 1, -1):
        left, right = _subsets(0, half, left_size), _subsets(half, count, size - left_size)
        (left_sums, left_terms), (right_sums, right_terms) = _sums(A, y, left), _sums(A, y, right)
        doubled = 2 * right_sums.T
        slack = ROUNDING * (np.abs(left_terms).max() + np.abs(right_terms).max() + y @ y)
        for rows in np.array_split(np.arange(len(left)), -(-len(left) * len(right) // PAIRS)):
            scores = left_sums[rows] @ doubled
            scores += left_terms[rows, None]
            scores += right_terms
            yield PairBlock(left[rows], right, scores, slack)


def _subsets(start: int, stop: int, size: int) -> np.ndarray:
    """All subsets of `size` of the devices start ... stop - 1, one per row, in lexicographic order."""
    subsets = list(combinations(range(start, stop), size))
    return np.array(subsets, dtype=np.intp).reshape(len(subsets), size)


def _sums(A: np.ndarray, y: np.ndarray, subsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The summed counts s of each subset, and ||s||^2 - 2 s'y."""
    sums = A.T[subsets].sum(axis=1)
    return sums, (sums * (sums - 2 * y)).sum(axis=1)
