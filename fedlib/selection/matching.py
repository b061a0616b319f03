"""Matching class counts (FedGS, Section V-A): which L_sel devices of a factory have, together, the classes of all data?

A has one column per device: how many samples of each class its next batch has. y is what the selected batches should
add up to, Eq. (11). A selection is a 0-1 vector x with L_sel ones, and its distance is d = ||Ax - y||, Eq. (10).

Every function handles many groups of devices at once: A is (..., F, K) and y is (..., F), for F classes and K devices.
Counts are whole numbers, so Ax is exact in float64. A distance therefore depends on the selection alone, not on the
steps that led to it or on the processor.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Watch = Callable[[np.ndarray | float], None]  # called with the lowest distance so far after each step of a search


@dataclass(frozen=True, eq=False)
class Selection:
    """The selected devices, and the distance after each step; groups that stop early repeat their last distance."""

    mask: np.ndarray  # (..., K) bool, the paper's x
    distances: np.ndarray  # (..., steps + 1): d_1, d_2, ... never rising

    @property
    def distance(self) -> np.ndarray:
        """d of the selection."""
        return self.distances[..., -1]

    @property
    def devices(self) -> np.ndarray:
        """Columns of the selected devices in ascending order, (..., L_sel)."""
        size = int(self.mask.reshape(-1, self.mask.shape[-1])[0].sum())
        return np.nonzero(self.mask)[-1].reshape(*self.mask.shape[:-1], size)


def real_distribution(counts: np.ndarray) -> np.ndarray:
    """P_real, Eq. (2): the class shares of all devices' data; `counts` is (..., F) for any number of devices."""
    class_totals = np.asarray(counts, dtype=np.float64).reshape(-1, np.shape(counts)[-1]).sum(axis=0)
    return class_totals / class_totals.sum()


def target(real: np.ndarray, samples: float, presampled: np.ndarray) -> np.ndarray:
    """y, Eq. (11): the class counts of `samples` = nL samples of the real distribution, minus the pre-sampled b."""
    return samples * np.asarray(real) - presampled


def distance(A: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d = ||Ax - y||, Eq. (10), of each group."""
    residual = _times(A, x) - y
    return np.sqrt(np.sum(residual * residual, axis=-1))


def scaled_gradient(A: np.ndarray, products: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A'(Ax - y), which is d times the gradient of d; `products` = A'y. The factor 1/d > 0 changes no comparison.

    A'(Ax) is a whole number and exact in any order of summation, so equal columns have equal gradients.
    """
    return _times(np.swapaxes(A, -1, -2), _times(A, x)) - products


def target_products(A: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A'y. All columns are summed in the same order, so equal columns get equal numbers; BLAS does not promise this."""
    return np.sum(A * y[..., :, None], axis=-2)


def _times(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.matmul(matrix, x[..., None].astype(np.float64))[..., 0]


def checked(A: np.ndarray, y: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A and y as float64, or a ValueError that says what does not fit."""
    A, y = np.ascontiguousarray(A, dtype=np.float64), np.ascontiguousarray(y, dtype=np.float64)
    if A.ndim < 2 or A.shape[-1] == 0 or A.shape[-2] == 0:
        raise ValueError(f"A has shape {A.shape}: give classes x devices, at least one of each, groups first")
    if y.shape != A.shape[:-1]:
        raise ValueError(f"y has shape {y.shape}, but A of shape {A.shape} needs {A.shape[:-1]}")
    if not (np.isfinite(A).all() and np.isfinite(y).all()):
        raise ValueError("A and y must be finite numbers")
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise ValueError(f"size is {size!r}: give a whole number of devices")
    if not 0 <= size <= A.shape[-1]:
        raise ValueError(f"cannot select {size} of {A.shape[-1]} devices")
    return A, y


def checked_single_group(A: np.ndarray, y: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """As `checked`, for samplers that handle one group at a time."""
    A, y = checked(A, y, size)
    if A.ndim != 2:
        raise ValueError(f"A has shape {A.shape}: this sampler takes one group at a time, classes x devices")
    return A, y


def largest(values: np.ndarray, size: int) -> np.ndarray:
    """T_L of Eq. (14): a mask of the `size` largest values of each group; among equal values the lowest index wins."""
    order = np.argsort(-values, axis=-1, kind="stable")[..., :size]
    mask = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(mask, order, True, axis=-1)
    return mask
