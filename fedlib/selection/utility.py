"""Oort's choice of participants (Lai et al., OSDI 2021) as the authors of FedACS run it, without the terms for speed.

A client's utility is the mean loss that it saw when it last trained. Its score is the utility plus a bonus that grows
while the client does not take part. Participants are drawn from the pool of clients with the highest scores, with
probabilities in proportion to the scores. The caller (`algorithms.oort`) lets every client take part once at first, and
excludes clients that took part too often.
"""

import numpy as np


def scores(utility: np.ndarray, last_round: np.ndarray, round: int) -> np.ndarray:
    """The score of each client: utility + sqrt(0.1 ln(round) / last_round).

    `last_round` is the round in which a client last took part, counted from 1; clients that never did have no score.
    """
    return utility + np.sqrt(0.1 * np.log(round) / last_round)


def exploit(scores: np.ndarray, pool: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of `size` clients, drawn in proportion to their scores from the `pool` clients with the best ones."""
    best = np.argsort(-scores, kind="stable")[:pool]
    weights = np.maximum(scores[best], 1e-12)
    return rng.choice(best, min(size, len(best)), replace=False, p=weights / weights.sum())
