"""GBP-CS (FedGS, Section V-B, Algorithm 2): swap the selected and the unselected device with the steepest opposite
gradients.

The paper leaves two details open. Its text stops "when d no longer decreases", while Algorithm 2 goes on when d stays
the same. We stop on equality, because otherwise two equal devices could be swapped forever. At d = 0 the gradient is
undefined and no swap can help, so we stop there too.
"""

from collections.abc import Callable

import numpy as np

from fedlib.selection.matching import Selection, Watch, checked, distance, largest, scaled_gradient, target_products

RCOND = 1e-10  # singular values below this share of the largest count as zero
DECIMALS = (
    9  # the least-squares solution is rounded to these, so that rounding noise cannot decide between equal devices
)

Swap = Callable[
    [np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]
]  # (x, gradient) -> devices that enter and leave


def gbp_cs(
    A: np.ndarray,
    y: np.ndarray,
    size: int,
    init: str = "pinv",
    rng: np.random.Generator | None = None,
    watch: Watch | None = None,
) -> Selection:
    """Select `size` devices (columns of A) whose counts add up to about y; leading axes of A and y are groups.

    `init` is "pinv" (the paper's MPInv), "zero" or "random" (which needs `rng`). `watch` is called with each distance.
    """
    A, y = checked(A, y, size)
    if init not in INITIALISERS:
        raise ValueError(f"unknown init {init!r}; known: {', '.join(INITIALISERS)}")
    if init == "random" and rng is None:
        raise ValueError('init="random" needs rng, a numpy.random.Generator')
    return swap_until_worse(A, y, INITIALISERS[init](A, y, size, rng), steepest, watch)


def swap_until_worse(A: np.ndarray, y: np.ndarray, x: np.ndarray, swap: Swap, watch: Watch | None = None) -> Selection:
    """Lines 3 to 10 of Algorithm 2 in all groups at once: swap as long as the distance falls."""
    products, d = target_products(A, y), distance(A, y, x)
    distances = [d]
    searching = (d > 0) & x.any(axis=-1) & ~x.all(axis=-1)
    while searching.any():
        if watch:
            watch(d)
        enters, leaves = swap(x, scaled_gradient(A, products, x))  # (15), (16)
        swapped = x.copy()
        np.put_along_axis(swapped, enters[..., None], True, axis=-1)  # (17)
        np.put_along_axis(swapped, leaves[..., None], False, axis=-1)
        swapped_d = distance(A, y, swapped)
        better = searching & (swapped_d < d)
        x, d = np.where(better[..., None], swapped, x), np.where(better, swapped_d, d)
        searching = better & (d > 0)
        if better.any():
            distances.append(d)
    if watch:
        watch(d)
    return Selection(x, np.stack(distances, axis=-1))


def steepest(x: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(15) the unselected device of smallest gradient, (16) the selected one of largest; the first among equals."""
    return np.argmin(np.where(x, np.inf, gradient), axis=-1), np.argmax(np.where(x, gradient, -np.inf), axis=-1)


def pinv_start(A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """MPInv, Eq. (14): the largest values of the least-squares solution."""
    solution = np.matmul(np.linalg.pinv(A, rcond=RCOND), y[..., None])[..., 0]
    return largest(np.round(solution, DECIMALS), size)


def random_start(A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Any `size` devices, drawn group by group."""
    x = _nobody(A)
    for group in x.reshape(-1, A.shape[-1]):
        group[rng.permutation(len(group))[:size]] = True
    return x


def zero_start(A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """The warm-up: start from nobody and add the device with the smallest gradient, `size` times."""
    return warm_up(A, y, size)[0]


def warm_up(A: np.ndarray, y: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The selection after the warm-up, and the distance of nobody and after each added device, (..., size + 1)."""
    x, products = _nobody(A), target_products(A, y)
    distances = [distance(A, y, x)]
    for _ in range(size):
        enters = np.argmin(np.where(x, np.inf, scaled_gradient(A, products, x)), axis=-1)
        np.put_along_axis(x, enters[..., None], True, axis=-1)
        distances.append(distance(A, y, x))
    return x, np.stack(distances, axis=-1)


def growing_start(A: np.ndarray, y: np.ndarray, size: int, share: np.ndarray) -> np.ndarray:
    """The warm-up of the authors' released code: the target grows with the devices chosen so far.

    `share` is what one device should add, n * P_real. While j devices are missing the target is y - j * share: what
    those chosen so far should add up to, and not, as in Eq. (11), all of them.
    """
    x = _nobody(A)
    for missing in range(size, 0, -1):
        gradient = scaled_gradient(A, target_products(A, y - missing * share), x)
        enters = np.argmin(np.where(x, np.inf, gradient), axis=-1)
        np.put_along_axis(x, enters[..., None], True, axis=-1)
    return x


def _nobody(A: np.ndarray) -> np.ndarray:
    """A mask (..., K) in which no device is selected."""
    return np.zeros(A.shape[:-2] + A.shape[-1:], dtype=bool)


INITIALISERS: dict[str, Callable[..., np.ndarray]] = {"pinv": pinv_start, "zero": zero_start, "random": random_start}
