"""The Bayesian sampler (FedGS, Section VII-A), through the library that the paper names, `bayesian-optimization`.

The library searches a box of real numbers. A point of [0, 1]^K stands for the selection of its L_sel largest
coordinates. As printed, 5 points are drawn and 25 explored.

To choose the next point, the library takes the best of 10,000 random points and then refines ten of them with numerical
gradients, which takes seconds in 33 dimensions. Only the order of a point's coordinates matters here, so by default we
skip the refinement.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedlib.selection.matching import Selection, Watch, checked_single_group, distance, largest

DRAWN, EXPLORED = 5, 25  # points, as printed
CANDIDATES, KAPPA = 10_000, 2.576  # the library's defaults


def bayesian(
    A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator, watch: Watch | None = None, polished: int = 0
) -> Selection:
    """The best of 30 selections of one group; `polished` points per step are refined (the library's default is 10)."""
    A, y = checked_single_group(A, y, size)
    names = [f"device {k:03d}" for k in range(A.shape[-1])]
    visited: list[tuple[float, np.ndarray]] = []  # distance and mask of each point

    def negative_distance(**point: float) -> float:
        mask = largest(np.array([point[name] for name in names]), size)
        visited.append((float(distance(A, y, mask)), mask))
        if watch:
            watch(min(visited, key=_distance)[0])
        return -visited[-1][0]

    _maximise(negative_distance, dict.fromkeys(names, (0.0, 1.0)), rng, polished)
    distances = np.minimum.accumulate([d for d, _ in visited])
    return Selection(min(visited, key=_distance)[1], distances)


def _maximise(
    objective: Callable[..., float], box: dict[str, tuple[float, float]], rng: np.random.Generator, polished: int
) -> None:
    """The library's loop with its default surrogate and its default rule, the upper confidence bound."""
    from bayes_opt import BayesianOptimization, acquisition  # imported here: it takes a second, and only this needs it

    class UpperConfidenceBound(acquisition.UpperConfidenceBound):
        def suggest(self, gp: Any, target_space: Any, **settings: Any) -> np.ndarray:
            settings |= {"n_random": CANDIDATES, "n_smart": polished}
            return super().suggest(gp, target_space, **settings)

    state = np.random.RandomState(rng.integers(2**32))
    options: dict[str, Any] = {"random_state": state, "verbose": 0, "allow_duplicate_points": True}
    BayesianOptimization(objective, box, UpperConfidenceBound(kappa=KAPPA), **options).maximize(DRAWN, EXPLORED)


def _distance(visit: tuple[float, np.ndarray]) -> float:
    return visit[0]
