"""The Bayesian sampler (FedGS, Section VII-A), through the library that the paper names, `bayesian-optimization`.

The library searches a box of real numbers. A point of [0, 1]^K stands for the selection of its L_sel largest
coordinates; 5 points are drawn and 25 explored, as printed.

To choose the next point, the library takes the best of 10,000 random ones and then polishes ten of them with
numerical gradients, which takes seconds in 33 dimensions. Only the order of a point's coordinates matters here, so by
default we leave the polishing out.
"""

import numpy as np

from fedlib.selection.problem import Selection, Watch, distance, largest, one_group

DRAWN, EXPLORED = 5, 25  # as printed
CANDIDATES, KAPPA = 10_000, 2.576  # the library's defaults


def bayesian(
    A: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator, watch: Watch | None = None, polished: int = 0
) -> Selection:
    """The best of 30 selections of one group; `polished` points a step are refined (10 is the library's default)."""
    A, y = one_group(A, y, size)
    names = [f"device {k:03d}" for k in range(A.shape[-1])]
    visited: list[tuple[float, np.ndarray]] = []

    def closeness(**point: float) -> float:
        mask = largest(np.array([point[name] for name in names]), size)
        visited.append((float(distance(A, y, mask)), mask))
        if watch:
            watch(min(visited, key=_distance)[0])
        return -visited[-1][0]

    _maximise(closeness, dict.fromkeys(names, (0.0, 1.0)), rng, polished)
    distances = np.minimum.accumulate([d for d, _ in visited])
    return Selection(min(visited, key=_distance)[1], distances)


def _maximise(closeness, box: dict[str, tuple[float, float]], rng: np.random.Generator, polished: int) -> None:
    """The library's loop with its default surrogate and its default rule, the upper confidence bound."""
    from bayes_opt import BayesianOptimization, acquisition  # takes a second, and only this sampler needs it

    class Bound(acquisition.UpperConfidenceBound):
        def suggest(self, gp, target_space, **settings):
            return super().suggest(gp, target_space, **(settings | {"n_random": CANDIDATES, "n_smart": polished}))

    state = np.random.RandomState(rng.integers(2**32))
    options = {"random_state": state, "verbose": 0, "allow_duplicate_points": True}
    BayesianOptimization(closeness, box, Bound(kappa=KAPPA), **options).maximize(DRAWN, EXPLORED)


def _distance(visit: tuple[float, np.ndarray]) -> float:
    return visit[0]
