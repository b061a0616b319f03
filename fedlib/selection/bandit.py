"""FlexSelfSparring, the dueling bandit of FedACS (Section VI-C, Algorithms 2 and 3).

Each client has a Beta distribution. A participant whose reward beats another's gains eta in A, one that is beaten gains
eta in B, whether the other's reward is of this round or a few rounds old. All functions are over arrays of all clients.
"""

import numpy as np


def pool(a: np.ndarray, b: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """S', lines 1-10 of Algorithm 2: `size` = lambda * N picks, each the best of fresh Beta draws of all who are left.

    Line 5 prints the pick's index i at A and B where the client's, c, is meant. Draws of clients that are already in
    the pool are made and left out, which changes no distribution.
    """
    draws = rng.beta(a + 1, b + 1, size=(size, len(a)))
    return picks(draws)


def picks(draws: np.ndarray) -> np.ndarray:
    """For each row in turn the column with the largest draw that no earlier row has taken."""
    left = np.ones(draws.shape[1], dtype=bool)
    taken = []
    for row in draws:
        taken.append(int(np.argmax(np.where(left, row, -1.0))))
        left[taken[-1]] = False
    return np.array(taken)


def select(a: np.ndarray, b: np.ndarray, size: int, kappa: int, rng: np.random.Generator) -> np.ndarray:
    """S of Algorithm 2: kappa clients drawn evenly from the pool, in order of their numbers."""
    return np.sort(rng.choice(pool(a, b, size, rng), kappa, replace=False))


def duel(
    a: np.ndarray, b: np.ndarray, rewards: np.ndarray, participants: np.ndarray, comparable: np.ndarray, eta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 3: A and B after each participant has met all clients with a comparable reward.

    `rewards` holds each client's latest reward, `comparable` says whose counts (R^<all>: of this round or the history).
    Ties change nothing, so a client that meets itself changes nothing either.
    """
    own, others = rewards[participants][:, None], rewards[comparable][None, :]
    a, b = a.copy(), b.copy()
    a[participants] += eta * (own > others).sum(axis=1)
    b[participants] += eta * (own < others).sum(axis=1)
    return a, b
