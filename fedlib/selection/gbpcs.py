"""GBP-CS (FedGS, Section V-B, Algorithm 2): swap the selected and the unselected device with the steepest opposite
gradients.

Two details the paper leaves open. It stops "when d no longer decreases", while its Algorithm 2 goes on when d stays
the same; we stop on equality, or two equal devices could be swapped for ever. At d = 0 there is no gradient and
nothing to gain: stop.
"""

from collections.abc import Callable

import numpy as np

from fedlib.selection.problem import Selection, Watch, against, checked, distance, largest, slope

RCOND = 1e-10  # singular values below this share of the largest count as zero
DECIMALS = 9  # of the least-squares solution: rounding noise beyond them must not decide between equal devices

Swap = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # (x, slope) -> indices to set and to clear


def gbp_cs(
    A: np.ndarray,
    y: np.ndarray,
    size: int,
    init: str = "pinv",
    rng: np.random.Generator | None = None,
    watch: Watch | None = None,
) -> Selection:
    """Select `size` devices (columns of A) whose counts come close to y; for one group or, with leading axes, for many.

    `init` is "pinv" (the paper's MPInv), "zero" or "random" (which needs `rng`). `watch` hears every new distance.
    """
    A, y = checked(A, y, size)
    if init not in INITIALISERS:
        raise ValueError(f"unknown init {init!r}; known: {', '.join(INITIALISERS)}")
    if init == "random" and rng is None:
        raise ValueError('init="random" needs rng, a numpy.random.Generator')
    return swap_until_worse(A, y, INITIALISERS[init](A, y, size, rng), steepest, watch)


def swap_until_worse(A: np.ndarray, y: np.ndarray, x: np.ndarray, swap: Swap, watch: Watch | None = None) -> Selection:
    """Lines 3 to 10 of Algorithm 2 in every group at once: swap as long as the distance falls."""
    c, d = against(A, y), distance(A, y, x)
    distances = [d]
    searching = (d > 0) & x.any(axis=-1) & ~x.all(axis=-1)
    while searching.any():
        if watch:
            watch(d)
        enters, leaves = swap(x, slope(A, c, x))  # (15), (16)
        swapped = x.copy()
        np.put_along_axis(swapped, enters[..., None], True, axis=-1)  # (17)
        np.put_along_axis(swapped, leaves[..., None], False, axis=-1)
        found = distance(A, y, swapped)
        better = searching & (found < d)
        x, d = np.where(better[..., None], swapped, x), np.where(better, found, d)
        searching = better & (d > 0)
        if better.any():
            distances.append(d)
    if watch:
        watch(d)
    return Selection(x, np.stack(distances, axis=-1))


def steepest(x: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(15) the unselected device of smallest gradient, (16) the selected one of largest; the first among equals."""
    return np.argmin(np.where(x, np.inf, slope), axis=-1), np.argmax(np.where(x, slope, -np.inf), axis=-1)


def pinv_start(A: np.ndarray, y: np.ndarray, size: int, rng=None) -> np.ndarray:
    """MPInv, Eq. (14): the largest values of the least-squares solution."""
    solution = np.matmul(np.linalg.pinv(A, rcond=RCOND), y[..., None])[..., 0]
    return largest(np.round(solution, DECIMALS), size)


def random_start(A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Any `size` devices, drawn group by group."""
    x = np.zeros(A.shape[:-2] + A.shape[-1:], dtype=bool)
    for group in x.reshape(-1, x.shape[-1]):
        group[rng.permutation(len(group))[:size]] = True
    return x


def zero_start(A: np.ndarray, y: np.ndarray, size: int, rng=None) -> np.ndarray:
    """The warm-up: from nobody, `size` times the device with the smallest gradient."""
    return warm_up(A, y, size)[0]


def warm_up(A: np.ndarray, y: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The selection after the warm-up and the distances on the way, that of nobody first, (..., size + 1)."""
    x, c = np.zeros(A.shape[:-2] + A.shape[-1:], dtype=bool), against(A, y)
    distances = [distance(A, y, x)]
    for _ in range(size):
        first = np.argmin(np.where(x, np.inf, slope(A, c, x)), axis=-1)
        np.put_along_axis(x, first[..., None], True, axis=-1)
        distances.append(distance(A, y, x))
    return x, np.stack(distances, axis=-1)


INITIALISERS = {"pinv": pinv_start, "zero": zero_start, "random": random_start}
