"""Client selection: who takes part in a round.

Matching class counts (FedGS): choose `size` devices (columns of A) whose class counts add up to about y.

    gbp_cs      the paper's search; `warm_up` makes its start "zero"
    best_swap   our variant: it tries all swaps of two devices
    brute       the best of all selections
    random, monte_carlo, genetic, bayesian   the paper's other baselines; these need an `rng`
    real_distribution, target                how to make y
    Selection, distance                      what a search returns, and what it minimises

Bandits and scores (FedACS and its baselines), one module each:

    skewness    how skewed a client's classes are, estimated from gradients: `insights`, `estimates`, `true_alphas`
    bandit      FedACS's dueling bandit: `select`, `duel`
    exp3        several plays per round of an adversarial bandit, for Rexp3: `probabilities`, `reinforce`
    utility     Oort's scores: `scores`, `exploit`

>>> import numpy as np
>>> A = np.array([[3, 0, 2, 1], [0, 3, 1, 2]])  # two classes, four devices
>>> gbp_cs(A, np.array([3.0, 3.0]), size=2).devices
array([0, 1])
"""

from fedlib.selection import bandit, exp3, skewness, utility
from fedlib.selection.bestswap import best_swap
from fedlib.selection.evolution import genetic
from fedlib.selection.exhaustive import brute
from fedlib.selection.gbpcs import gbp_cs, warm_up
from fedlib.selection.matching import Selection, distance, real_distribution, target
from fedlib.selection.randomdraws import monte_carlo, random
from fedlib.selection.surrogate import bayesian

__all__ = [
    "Selection",
    "bandit",
    "bayesian",
    "best_swap",
    "brute",
    "distance",
    "exp3",
    "gbp_cs",
    "genetic",
    "monte_carlo",
    "random",
    "real_distribution",
    "skewness",
    "target",
    "utility",
    "warm_up",
]
