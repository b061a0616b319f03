"""Who takes part. FedGS: GBP-CS with its initialisers, the rival samplers of its Section VII, and our best-swap search.
FedACS: `skewness`, the dueling `bandit` and its rivals.

>>> import numpy as np
>>> A = np.array([[3, 0, 2, 1], [0, 3, 1, 2]])  # two classes, four devices
>>> gbp_cs(A, np.array([3.0, 3.0]), size=2).devices
array([0, 1])
"""

from fedlib.selection.bestswap import best_swap
from fedlib.selection.drawn import monte_carlo, random
from fedlib.selection.evolution import genetic
from fedlib.selection.exhaustive import brute
from fedlib.selection.gbpcs import gbp_cs
from fedlib.selection.problem import Selection, distance, real_distribution, target
from fedlib.selection.surrogate import bayesian

__all__ = [
    "Selection",
    "bayesian",
    "best_swap",
    "brute",
    "distance",
    "gbp_cs",
    "genetic",
    "monte_carlo",
    "random",
    "real_distribution",
    "target",
]
