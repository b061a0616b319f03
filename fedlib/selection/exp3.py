"""Exp3 with several plays per round: the bandit inside Rexp3 (Besbes, Gur, Zeevi, NeurIPS 2014), which restarts it.

Several different arms per round are drawn as in Exp3.M (Uchiya, Nakamura, Kudo, ALT 2010): each arm has exactly its own
probability. Weights are kept as logarithms.
"""

import numpy as np


def exploration(arms: int, plays: int, rounds: int) -> float:
    """The gamma with the best guarantee against an adversary over this many rounds."""
    return min(1.0, float(np.sqrt(arms * np.log(arms / plays) / ((np.e - 1) * plays * rounds))))


def probabilities(log_weights: np.ndarray, plays: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """The chance of each arm to be among the `plays` of a round, and which arms were capped to keep it at most 1."""
    arms = len(log_weights)
    if plays == arms:
        return np.ones(arms), np.zeros(arms, dtype=bool)
    weights = np.exp(log_weights - log_weights.max())
    # An arm with this share of all weights has a chance of exactly 1.
    largest_share = (1 / plays - gamma / arms) / (1 - gamma) if gamma < 1 else np.inf
    capped = np.zeros(arms, dtype=bool)
    while (exceeding := ~capped & (weights > largest_share * (1 + 1e-12) * weights.sum())).any():
        capped |= exceeding
        uncapped_sum = weights[~capped].sum()
        weights[capped] = largest_share * uncapped_sum / (1 - largest_share * capped.sum())
    return np.minimum(plays * ((1 - gamma) * weights / weights.sum() + gamma / arms), 1.0), capped


def dependent_rounding(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many arms as the chances add up to, arm i with probability chances[i].

    As long as two chances are fractions, probability is moved at random from one to the other until one of the two is 0
    or 1. The odds are such that the expected chances stay the same.
    """
    chances = chances.copy()
    fractional = [arm for arm in range(len(chances)) if 1e-9 < chances[arm] < 1 - 1e-9]
    while len(fractional) > 1:
        first, second = fractional[-1], fractional[-2]
        rise = min(1 - chances[first], chances[second])
        fall = min(chances[first], 1 - chances[second])
        step = rise if rng.random() * (rise + fall) < fall else -fall
        chances[first] += step
        chances[second] -= step
        fractional = fractional[:-2] + [arm for arm in (second, first) if 1e-9 < chances[arm] < 1 - 1e-9]
    return np.flatnonzero(chances > 0.5)


def reinforce(
    log_weights: np.ndarray, played: np.ndarray, gains: np.ndarray, chances: np.ndarray, capped: np.ndarray, step: float
) -> np.ndarray:
    """log w_i + step * gain / chance for the played arms that were not capped; gains lie in 0..1."""
    updated = log_weights.copy()
    updated[played] += np.where(capped[played], 0.0, step * gains / chances[played])
    return updated
