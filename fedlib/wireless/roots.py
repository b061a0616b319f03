"""Roots of many decreasing functions at once, each within its own bracket.

All three equations of the exact solvers (a delay met, a price met, the band used up) are monotone and close to
straight lines on logarithmic scales. Ridders' method, a bisection that also guesses, needs a handful of steps there
and never leaves the bracket.
"""

from collections.abc import Callable

import numpy as np

STEPS = 80  # bisection alone would need about fifty
TOLERANCE = 1e-14  # on a logarithm, hence relative


def decreasing_root(function: Callable, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where each decreasing function crosses zero; an end of the bracket where it does not cross.

    A root is frozen once it has settled, so the answer for one element does not depend on its neighbours.
    """
    low, high = np.broadcast_arrays(low, high)
    at_low, at_high = function(low), function(high)
    low, high = np.where(at_high > 0, high, low), np.where(at_low < 0, low, high)
    root = (low + high) / 2
    settled = ~(high > low)
    for _ in range(STEPS):
        middle = (low + high) / 2
        at_middle = function(middle)
        guess = _ridders(low, middle, at_low, at_middle, at_high)
        at_guess = function(guess)
        step = np.abs(guess - root)
        root = np.where(settled, root, guess)
        settled |= ~(step > TOLERANCE * np.maximum(1, np.abs(root)))
        if np.all(settled):
            break
        for point, value in ((middle, at_middle), (guess, at_guess)):
            low, at_low, high, at_high = _tighten(low, at_low, high, at_high, point, value)
    return root


def _ridders(low, middle, at_low, at_middle, at_high):
    """Straighten the function by an exponential factor through three points, then take the secant's root."""
    spread = np.sqrt(np.maximum(at_middle * at_middle - at_low * at_high, 0))
    flat = ~(spread > 0)  # nothing to divide by: the middle is the root already
    return middle + (middle - low) * np.where(flat, 0, at_middle / np.where(flat, 1, spread))


def _tighten(low, at_low, high, at_high, point, value):
    """Move the end of the bracket that has the point's sign to the point."""
    left, right = (value >= 0) & (point > low), (value < 0) & (point < high)
    low, at_low = np.where(left, point, low), np.where(left, value, at_low)
    return low, at_low, np.where(right, point, high), np.where(right, value, at_high)
