"""FlexSelfSparring, the dueling bandit of FedACS (Section VI-C, Algorithms 2 and 3).

Each client has a Beta distribution. A participant gains eta in A for every reward that its own reward beats, and eta in
B for every reward that beats its own. The other reward may be of this round or a few rounds old. All functions take
arrays with one entry per client.
"""

import numpy as np

SILENT = -np.inf  # in place of a reward: the client has reported none


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


def remembered(history: np.ndarray, oldest: bool = False) -> np.ndarray:
    """The reward of each client that counts among the remembered ones, `SILENT` where there is none.

    `history` is (rounds, clients), the newest round first, `SILENT` where a client did not take part. Algorithm 3 takes
    a client's newest reward, the authors' code its `oldest`.
    """
    ordered = np.vstack([history[::-1] if oldest else history, np.full(history.shape[1], SILENT)])
    first = np.argmax(ordered > SILENT, axis=0)
    return ordered[first, np.arange(ordered.shape[1])]


def duel(
    a: np.ndarray,
    b: np.ndarray,
    rewards: np.ndarray,
    participants: np.ndarray,
    comparable: np.ndarray,
    eta: float,
    ties_lose: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 3: A and B after each participant has met all clients with a comparable reward.

    `rewards` holds each client's reward that counts; `comparable` marks who has one (R^<all>: of this round or the
    history). As printed a tie changes nothing, so it does no harm that a client also meets itself; in the authors' code
    a tie with another client is lost.
    """
    participant_rewards, opponent_rewards = rewards[participants][:, None], rewards[comparable][None, :]
    won = (participant_rewards > opponent_rewards).sum(axis=1)
    lost = (participant_rewards < opponent_rewards).sum(axis=1)
    if ties_lose:
        lost = opponent_rewards.shape[1] - won - 1  # all others, without the client itself
    a, b = a.copy(), b.copy()
    a[participants] += eta * won
    b[participants] += eta * lost
    return a, b
