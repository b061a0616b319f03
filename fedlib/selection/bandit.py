"""FlexSelfSparring, the dueling bandit of FedACS (Section VI-C, Algorithms 2 and 3).

Each client has a Beta distribution. A participant gains eta in A for every reward that its own reward beats, and eta in
B for every reward that beats its own. The other reward may be of this round or a few rounds old. All functions take
arrays with one entry per client.
"""

import numpy as np


def pool(a: np.ndarray, b: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """S', lines 1-10 of Algorithm 2: `size` = lambda * N picks, each the best of fresh Beta draws of all who are left.

    Line 5 prints the pick's index i at A and B where the client's index c is meant. Clients that are already in the
    pool draw too, and their draws are ignored; this changes no distribution.
    """
    draws = rng.beta(a + 1, b + 1, size=(size, len(a)))
    return picks(draws)


def picks(draws: np.ndarray) -> np.ndarray:
    """For each row in turn, the column with the largest draw among the columns that no earlier row has picked."""
    available = np.ones(draws.shape[1], dtype=bool)
    picked = []
    for row in draws:
        picked.append(int(np.argmax(np.where(available, row, -1.0))))
        available[picked[-1]] = False
    return np.array(picked)


def select(a: np.ndarray, b: np.ndarray, size: int, kappa: int, rng: np.random.Generator) -> np.ndarray:
    """S of Algorithm 2: kappa clients drawn uniformly from a pool of `size`, in ascending order."""
    return np.sort(rng.choice(pool(a, b, size, rng), kappa, replace=False))


def duel(
    a: np.ndarray, b: np.ndarray, rewards: np.ndarray, participants: np.ndarray, comparable: np.ndarray, eta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 3: A and B after each participant has met all clients with a comparable reward.

    `rewards` holds each client's latest reward; `comparable` marks the rewards that count (R^<all>: of this round or
    the history). Ties change nothing, so it does no harm that a client also meets itself.
    """
    participant_rewards, opponent_rewards = rewards[participants][:, None], rewards[comparable][None, :]
    a, b = a.copy(), b.copy()
    a[participants] += eta * (participant_rewards > opponent_rewards).sum(axis=1)
    b[participants] += eta * (participant_rewards < opponent_rewards).sum(axis=1)
    return a, b
