"""Best swap: our own search beside GBP-CS. It scores every possible swap and takes the best, until none helps.

Swapping j out and i in changes d^2 by ||a_i - a_j||^2 + 2 (g_i - g_j), where g = A'(Ax - y). GBP-CS looks only at the
second term and swaps the extremes of g. The first term says how different the two devices are; it comes from the Gram
matrix A'A for all pairs at once. So a step costs little more, and the search ends where no single swap helps.
"""

import numpy as np

from fedlib.selection.gbpcs import Swap, pinv_start, swap_until_worse
from fedlib.selection.matching import Selection, Watch, checked


def best_swap(A: np.ndarray, y: np.ndarray, size: int, watch: Watch | None = None) -> Selection:
    """Select `size` devices of each group: start as GBP-CS does and swap until no swap improves the selection."""
    A, y = checked(A, y, size)
    return swap_until_worse(A, y, pinv_start(A, y, size), best_pair(A), watch)


def best_pair(A: np.ndarray) -> Swap:
    """The rule of this search: swap the pair (enters, leaves) with the lowest score, the first among equals."""
    gram = np.matmul(np.swapaxes(A, -1, -2), A)
    squares = np.diagonal(gram, axis1=-2, axis2=-1)
    differences = squares[..., :, None] + squares[..., None, :] - 2 * gram  # ||a_i - a_j||^2

    def swap(x: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = differences + 2 * (gradient[..., :, None] - gradient[..., None, :])
        scores[x[..., :, None] | ~x[..., None, :]] = np.inf  # i must be unselected and j selected
        lowest = np.argmin(scores.reshape(*scores.shape[:-2], -1), axis=-1)
        return np.divmod(lowest, scores.shape[-1])

    return swap
