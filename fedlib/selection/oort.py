"""Oort's choice of participants (Lai et al., OSDI 2021, Algorithm 1) without the parts that concern speed: no pacing.

A client's utility is |B| * sqrt(mean squared loss) of its samples, plus a bonus for clients not heard of for long. As
in the authors' release utilities are clipped at a high quantile and scaled to 0..1 before the bonus is added, else it
would vanish beside them. Clients that took part too often are banned: outliers have high losses for ever.
"""

import numpy as np


def scores(utility: np.ndarray, last: np.ndarray, round: int, clip: float) -> np.ndarray:
    """Scaled utility plus sqrt(0.1 ln(round) / last round heard of), for clients that were heard of."""
    ordered = np.sort(utility)
    low, high = ordered[0], ordered[min(int(clip * len(ordered)), len(ordered) - 1)]
    scaled = (np.minimum(utility, high) - low) / max(high - low, 1e-12)
    return scaled + np.sqrt(0.1 * np.log(round) / last)


def exploit(scores: np.ndarray, size: int, cutoff: float, rng: np.random.Generator) -> np.ndarray:
    """Positions of `size` clients, drawn by score from those with at least `cutoff` times the size-th best score."""
    size = min(size, len(scores))
    if size == 0:
        return np.zeros(0, dtype=np.int64)
    bar = cutoff * np.sort(scores)[-size]
    chance = np.where(scores >= bar, np.maximum(scores, 1e-12), 0.0)
    return rng.choice(len(scores), size, replace=False, p=chance / chance.sum())


def exploration(round: int, first: float, decay: float, least: float) -> float:
    """epsilon, the share of a round's participants that are new."""
    return max(first * decay ** (round - 1), least)
