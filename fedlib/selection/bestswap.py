"""Best swap: our own search beside GBP-CS. It scores every possible swap and takes the best, until none helps.

Swapping j out and i in changes d^2 by ||a_i - a_j||^2 + 2 (s_i - s_j), s = A'(Ax - y). GBP-CS looks at the second
term only and swaps the extremes of s; the first term, how different the two devices are, comes from the Gram matrix
A'A for all pairs at once. So a step costs little more, and the search ends where no single swap helps.
"""

import numpy as np

from fedlib.selection.gbpcs import Swap, pinv_start, swap_until_worse
from fedlib.selection.problem import Selection, Watch, checked


def best_swap(A: np.ndarray, y: np.ndarray, size: int, watch: Watch | None = None) -> Selection:
    """Select `size` devices of each group, from the start of GBP-CS to a selection that no swap improves."""
    A, y = checked(A, y, size)
    return swap_until_worse(A, y, pinv_start(A, y, size), best_of_all(A), watch)


def best_of_all(A: np.ndarray) -> Swap:
    """The rule: the pair (enters, leaves) with the lowest score, the first among equals."""
    gram = np.matmul(np.swapaxes(A, -1, -2), A)
    squares = np.diagonal(gram, axis1=-2, axis2=-1)
    apart = squares[..., :, None] + squares[..., None, :] - 2 * gram  # ||a_i - a_j||^2

    def swap(x: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        score = apart + 2 * (slope[..., :, None] - slope[..., None, :])
        score[x[..., :, None] | ~x[..., None, :]] = np.inf  # i must be out and j in
        flat = np.argmin(score.reshape(*score.shape[:-2], -1), axis=-1)
        return np.divmod(flat, score.shape[-1])

    return swap
