"""Rexp3 (Besbes, Gur, Zeevi, NeurIPS 2014) with several plays a round: Exp3 that forgets all it knows now and then.

Several different arms a round are drawn as in Exp3.M (Uchiya, Nakamura, Kudo, ALT 2010): each with its own probability,
exactly. Weights are kept as logarithms.
"""

import numpy as np


def exploration(arms: int, plays: int, rounds: int) -> float:
    """gamma that is best against an adversary over this many rounds."""
    return min(1.0, float(np.sqrt(arms * np.log(arms / plays) / ((np.e - 1) * plays * rounds))))


def probabilities(log_weights: np.ndarray, plays: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Chance of each arm to be among the `plays` of a round, and which arms were capped so that none exceeds 1."""
    arms = len(log_weights)
    if plays == arms:
        return np.ones(arms), np.zeros(arms, dtype=bool)
    weights = np.exp(log_weights - log_weights.max())
    # The largest share an arm may have so that its chance is at most 1.
    share = (1 / plays - gamma / arms) / (1 - gamma) if gamma < 1 else np.inf
    capped = np.zeros(arms, dtype=bool)
    while (over := ~capped & (weights > share * (1 + 1e-12) * weights.sum())).any():
        capped |= over
        rest = weights[~capped].sum()
        weights[capped] = share * rest / (1 - share * capped.sum())
    return np.minimum(plays * ((1 - gamma) * weights / weights.sum() + gamma / arms), 1.0), capped


def dependent_rounding(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many arms as the chances add up to, arm i with probability chances[i]: two fractions are shifted against each
    other, by chance and fairly, until one of them is 0 or 1."""
    chances = chances.copy()
    open_ = [arm for arm in range(len(chances)) if 1e-9 < chances[arm] < 1 - 1e-9]
    while len(open_) > 1:
        first, second = open_[-1], open_[-2]
        up = min(1 - chances[first], chances[second])
        down = min(chances[first], 1 - chances[second])
        step = up if rng.random() * (up + down) < down else -down
        chances[first] += step
        chances[second] -= step
        open_ = open_[:-2] + [arm for arm in (second, first) if 1e-9 < chances[arm] < 1 - 1e-9]
    return np.flatnonzero(chances > 0.5)


def reinforce(
    log_weights: np.ndarray, played: np.ndarray, gains: np.ndarray, chances: np.ndarray, capped: np.ndarray, step: float
) -> np.ndarray:
    """log w_i + step * gain / chance of the played arms that were not capped; gains in 0..1."""
    moved = log_weights.copy()
    moved[played] += np.where(capped[played], 0.0, step * gains / chances[played])
    return moved
