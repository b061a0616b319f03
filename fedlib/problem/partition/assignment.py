"""From shares to class counts, and from class counts (clients x classes) to sample indices."""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

MAX_DRAWS = 500  # how often an unlucky draw (an empty client, a class that nobody has) is repeated before giving up


def fingerprint(parts: Sequence[np.ndarray]) -> str:
    """16 hex digits of SHA-256 over the number of clients, their sizes and indices: equal for equal splits only."""
    header = [len(parts), *(len(part) for part in parts)]
    digest = hashlib.sha256(np.array(header, dtype="<i8").tobytes())
    for part in parts:
        digest.update(np.asarray(part).astype("<i8").tobytes())
    return digest.hexdigest()[:16]


# Counts


def split(totals: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whole numbers within one of totals[r] * shares[r], on average equal to it; row r adds up to totals[r].

    Systematic rounding: the running sum is rounded down after adding one random offset per row, then differenced.
    """
    offset = rng.random((len(totals), 1))
    ends = np.floor(np.cumsum(shares, axis=1) * totals[:, None] + offset).astype(np.int64)
    ends[:, -1] = totals
    return np.diff(np.minimum(ends, totals[:, None]), axis=1, prepend=0)


def first_accepted(draw: Callable[[], np.ndarray], accept: Callable[[np.ndarray], bool], failure: str) -> np.ndarray:
    """The first of at most MAX_DRAWS draws that is accepted."""
    for _ in range(MAX_DRAWS):
        counts = draw()
        if accept(counts):
            return counts
    raise ValueError(f"gave up after {MAX_DRAWS} draws: {failure}")


# Indices


def assign(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Every sample to one client: client i gets counts[i, k] random samples of the k-th class that occurs."""
    clients, classes = counts.shape
    owner = np.repeat(np.tile(np.arange(clients), classes), counts.T.ravel())
    return group_by_owner(shuffled_by_class(labels, rng), owner, clients)


def assign_overlapping(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Client i gets counts[i, k] samples of class k; clients share samples only where a class has too few."""
    by_class = [_deal_class(np.flatnonzero(labels == k), demand, rng) for k, demand in enumerate(counts.T)]
    return [np.sort(np.concatenate(client_samples)) for client_samples in zip(*by_class, strict=True)]


def _deal_class(pool: np.ndarray, demand: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Deal the samples of one class like shuffled cards, client by client; reshuffle all of them when they run out."""
    deck = rng.permutation(pool)
    for wanted in demand:
        hand, deck = deck[:wanted], deck[wanted:]
        while len(hand) < wanted:
            deck = rng.permutation(pool)
            # Samples that the client already holds go to the bottom: it gets none twice before it has them all.
            deck = deck[np.argsort(np.isin(deck, hand), kind="stable")]
            missing = wanted - len(hand)
            hand, deck = np.concatenate([hand, deck[:missing]]), deck[missing:]
        yield hand


def group_by_owner(indices: np.ndarray, owner: np.ndarray, clients: int) -> list[np.ndarray]:
    """The indices of each owner, sorted."""
    ends = np.cumsum(np.bincount(owner, minlength=clients))
    return np.split(indices[np.lexsort((indices, owner))], ends[:-1])


def shuffled_by_class(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All indices sorted by label, in random order within a label."""
    order = rng.permutation(len(labels))
    return order[np.argsort(labels[order], kind="stable")]
