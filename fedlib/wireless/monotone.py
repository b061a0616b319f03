"""Roots of many decreasing functions at once, each within its own bracket.

All three equations of the exact solvers (a delay met, a price met, the band used up) are monotone, and close to
straight lines on logarithmic scales. SciPy searches them elementwise and never leaves the bracket.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import elementwise

TOLERANCES = {"xatol": 1e-14, "xrtol": 1e-14, "fatol": 1e-15}  # x and f are logarithms, so these are relative errors


def decreasing_root(
    function: Callable[..., np.ndarray], low: np.ndarray, high: np.ndarray, parameters: tuple[np.ndarray, ...] = ()
) -> np.ndarray:
    """Where each decreasing function crosses zero; an end of the bracket where it does not cross.

    `function(x, *parameters)` must be elementwise: the search goes on with the elements that have not settled, so the
    answer for one element does not depend on its neighbours.
    """
    answer = elementwise.find_root(function, (low, high), args=parameters, tolerances=TOLERANCES)
    at_low, at_high = answer.f_bracket
    return np.where(at_high > 0, high, np.where(at_low < 0, low, answer.x))
