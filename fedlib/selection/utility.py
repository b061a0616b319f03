"""Oort's choice of participants (Lai et al., OSDI 2021) as the authors of FedACS run it, without the terms for speed.

A client's utility is the mean loss that it saw while it trained, plus a bonus that grows while it does not take part.
The best clients form a pool, from which participants are drawn in proportion to their scores. Clients that took part
too often are banned by the caller.
"""

import numpy as np


def scores(utility: np.ndarray, last_round: np.ndarray, round: int) -> np.ndarray:
    """Utility plus sqrt(0.1 ln(round) / last round), for clients that have taken part."""
    return utility + np.sqrt(0.1 * np.log(round) / last_round)


def exploit(scores: np.ndarray, pool: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of `size` clients, drawn in proportion to their scores from the `pool` clients with the best ones."""
    best = np.argsort(-scores, kind="stable")[:pool]
    weights = np.maximum(scores[best], 1e-12)
    return rng.choice(best, min(size, len(best)), replace=False, p=weights / weights.sum())
