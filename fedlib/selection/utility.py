"""Oort's choice of participants by utility (Lai et al., OSDI 2021, Algorithm 1), without the parts that concern speed.

A client's utility is |B| * sqrt(mean squared loss) of its samples, plus a bonus that grows while it does not take part.
As in the authors' release, utilities are clipped at a high quantile and scaled to 0..1 before the bonus is added;
without scaling, the bonus would be negligible. Clients that took part too often are banned by the caller, because
outliers have high losses forever.
"""

import numpy as np


def scores(utility: np.ndarray, last_round: np.ndarray, round: int, clip: float) -> np.ndarray:
    """Scaled utility plus sqrt(0.1 ln(round) / last round), for clients that have taken part."""
    ascending = np.sort(utility)
    low, high = ascending[0], ascending[min(int(clip * len(ascending)), len(ascending) - 1)]
    scaled = (np.minimum(utility, high) - low) / max(high - low, 1e-12)
    return scaled + np.sqrt(0.1 * np.log(round) / last_round)


def exploit(scores: np.ndarray, size: int, cutoff: float, rng: np.random.Generator) -> np.ndarray:
    """Indices of `size` clients, drawn in proportion to their scores from those whose score is high enough: at least
    `cutoff` times the size-th best."""
    size = min(size, len(scores))
    if size == 0:
        return np.zeros(0, dtype=np.int64)
    threshold = cutoff * np.sort(scores)[-size]
    weights = np.where(scores >= threshold, np.maximum(scores, 1e-12), 0.0)
    return rng.choice(len(scores), size, replace=False, p=weights / weights.sum())


def exploration(round: int, first: float, decay: float, least: float) -> float:
    """epsilon, the share of a round's participants that are new: it decays from `first` down to `least`."""
    return max(first * decay ** (round - 1), least)
