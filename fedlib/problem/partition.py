"""How samples are dealt to clients: pure functions, labels in, one array of sample indices per client out.

Each paper splits its data in its own way:

- FedSR (Section IV-C): `iid`; pathological `shards`; `dirichlet`, which splits every class over the clients.
- ACFMO (Section V-A): `dirichlet_clients`, where every client draws its own class proportions.
- FedACS (Definitions 1 to 5 and Section VII): `dominance` clients, and the environments `uniform_skew`,
  `inverse_pareto_skew`, `dirichlet_skew` and `few_class_skew`, in which clients differ in *how* skewed they are.
- FedGS: `by_writer`, the devices that the data came from.

Every index array is sorted. `iid`, `shards`, `dirichlet`, `dirichlet_clients` and `by_writer` give no sample to two
clients and leave none over (`by_writer`: unless only some of the writers are asked for). In the FedACS family every
client holds `samples` samples, and clients share some once a class is asked for more often than it has samples.

All chance comes from the `rng` passed in. Sorting is stable and counts are whole numbers throughout, so that a split
does not depend on the instruction set NumPy picks; `fingerprint` lets two people see that they split alike.

>>> labels = np.repeat(np.arange(10), 100)
>>> parts = shards(labels, 5, per_client=2, rng=np.random.default_rng(0))
>>> [len(part) for part in parts], fingerprint(parts) == fingerprint(parts[::-1])
([200, 200, 200, 200, 200], False)
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

REDRAWS = 500  # how often an unlucky draw (an empty client, a class nobody has) is repeated before giving up


def iid(labels: np.ndarray, clients: int, *, rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle and cut into equal parts (sizes differ by one at most)."""
    labels = _checked(labels, clients)
    return [np.sort(part) for part in np.array_split(rng.permutation(len(labels)), clients)]


def shards(labels: np.ndarray, clients: int, per_client: int, *, rng: np.random.Generator) -> list[np.ndarray]:
    """Pathological split: sort by label, cut into K*xi equal shards, deal xi = `per_client` of them to each client.

    Most clients then see xi classes; a shard that straddles a class boundary brings one more.
    """
    labels = _checked(labels, clients)
    _require(_is_count(per_client), f"per_client is {per_client!r}: give a whole number of shards, 1 or more")
    total = clients * per_client
    _require(
        total <= len(labels),
        f"{clients} clients x {per_client} shards = {total} shards, but there are only {len(labels)} samples: "
        "use fewer clients or fewer shards per client",
    )
    cut = np.array_split(_shuffled_by_class(labels, rng), total)
    dealt = rng.permutation(total).reshape(clients, per_client)
    return [np.sort(np.concatenate([cut[shard] for shard in hand])) for hand in dealt]


def dirichlet(
    labels: np.ndarray, clients: int, alpha: float, *, rng: np.random.Generator, min_size: int = 1
) -> list[np.ndarray]:
    """Split class i over the clients in the proportions p_i ~ Dir_K(alpha) (FedSR).

    alpha -> 0 gives every class to one client, alpha -> infinity approaches iid. Client sizes are uneven; the
    proportions are drawn again until every client has `min_size` samples.
    """
    labels = _checked(labels, clients)
    _require_concentration(alpha)
    _require(
        clients * min_size <= len(labels),
        f"{clients} clients of at least {min_size} samples need {clients * min_size}, "
        f"but there are only {len(labels)}: lower min_size or use fewer clients",
    )
    class_sizes = np.unique(labels, return_counts=True)[1]
    counts = _first_accepted(
        lambda: _split(class_sizes, rng.dirichlet(np.full(clients, alpha), size=len(class_sizes)), rng).T,
        lambda counts: counts.sum(axis=1).min() >= min_size,
        f"no draw gave each of {clients} clients at least {min_size} of {len(labels)} samples at alpha={alpha:g}: "
        "raise alpha, lower min_size (0 allows empty clients) or use fewer clients",
    )
    return _deal(labels, counts, rng)


def dirichlet_clients(labels: np.ndarray, clients: int, alpha: float, *, rng: np.random.Generator) -> list[np.ndarray]:
    """Client i draws its class proportions rho_i ~ Dir(alpha) (ACFMO's xi) and fills equal sizes by them.

    The proportions ask for more of some classes than there is. So the deal goes in passes: every client asks for the
    samples it still misses by rho_i over the classes left; an overdrawn class is rationed at random among those who
    asked. Each pass ends the deal or empties a class, and what remains goes to clients that wanted other classes.
    Nobody is served first, so the misfit is spread over all clients instead of falling on the last ones.
    """
    labels = _checked(labels, clients)
    _require_concentration(alpha)
    stock = np.unique(labels, return_counts=True)[1]
    rho = rng.dirichlet(np.full(len(stock), alpha), size=clients)
    missing = rng.permutation(_even_sizes(len(labels), clients))
    counts = np.zeros(rho.shape, dtype=np.int64)
    while missing.any():
        granted = _rationed(_split(missing, _wishes(rho, stock), rng), stock, rng)
        counts += granted
        missing -= granted.sum(axis=1)
        stock -= granted.sum(axis=0)
    return _deal(labels, counts, rng)


def by_writer(writers: np.ndarray, clients: int | None = None, *, rng: np.random.Generator) -> list[np.ndarray]:
    """One client per writer (FedGS); the writer ids stand where the other functions take labels.

    Without `clients` all writers take part, in the order of their ids. With it, that many are drawn and stay in the
    order drawn: neighbouring ids may be alike, neighbouring clients are not.
    """
    writers = _checked(writers, 1)
    names, writer = np.unique(writers, return_inverse=True)
    if clients is None:
        return _by_owner(np.arange(len(writers)), writer, len(names))
    _require_clients(clients)
    _require(
        clients <= len(names),
        f"{clients} clients, but there are only {len(names)} writers: ask for {len(names)} or fewer",
    )
    client_of = np.full(len(names), -1)
    client_of[rng.permutation(len(names))[:clients]] = np.arange(clients)
    owner = client_of[writer]
    taken = np.flatnonzero(owner >= 0)
    return _by_owner(taken, owner[taken], clients)


def dominance(
    labels: np.ndarray,
    clients: int,
    alphas: float | Sequence[float],
    samples: int | None = None,
    *,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """alpha-dominance clients (FedACS, Definition 1), each with its own alpha or all with the same.

    The share alpha of a client's data is its dominant class, the rest is even over all classes, the dominant one
    included: of 100 samples in 10 classes, alpha = 0.5 gives 55 and 9 x 5. What does not divide evenly goes to classes
    at random. Every class dominates equally many clients. Each client holds `samples`, by default its even part of the
    data set. A client gets no sample twice unless it wants more of a class than there is.
    """
    labels, classes, samples = _checked_environment(labels, clients, samples)
    alphas = _checked_shares(alphas, clients)
    everything = [np.arange(classes)] * clients
    counts = _dominance_counts(alphas, samples, _dominant_classes(clients, classes, rng), everything, classes, rng)
    return _deal_overlapping(labels, counts, rng)


def uniform_skew(
    labels: np.ndarray, clients: int, samples: int | None = None, *, rng: np.random.Generator
) -> list[np.ndarray]:
    """Uniform skewness environment (FedACS, Definition 3): `dominance` with `uniform_alphas`.

    The alphas are the first draw from `rng`: `uniform_alphas` with an equally seeded generator returns them.
    """
    _require_clients(clients)
    return dominance(labels, clients, uniform_alphas(clients, rng=rng), samples, rng=rng)


def inverse_pareto_skew(
    labels: np.ndarray, clients: int, samples: int | None = None, s: float = 2.0, *, rng: np.random.Generator
) -> list[np.ndarray]:
    """Inverse Pareto skewness environment (FedACS, Definition 4): `dominance` with `inverse_pareto_alphas`.

    The alphas are the first draw from `rng`: `inverse_pareto_alphas` with an equally seeded generator returns them.
    """
    _require_clients(clients)
    return dominance(labels, clients, inverse_pareto_alphas(clients, s, rng=rng), samples, rng=rng)


def dirichlet_skew(
    labels: np.ndarray,
    clients: int,
    samples: int | None = None,
    median: float = 0.2,
    largest: float = 3.0,
    *,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Dirichlet skewness environment (FedACS, Definition 5): client i has class proportions x ~ Dir(beta_i), Eq. (4).

    The betas are the first draw from `rng`: `dirichlet_betas` with an equally seeded generator returns them. The
    proportions are drawn again while some class is held by nobody.
    """
    labels, classes, samples = _checked_environment(labels, clients, samples)
    betas = dirichlet_betas(clients, median, largest, rng=rng)

    def draw() -> np.ndarray:
        shares = np.stack([rng.dirichlet(np.full(classes, beta)) for beta in betas])
        return _split(np.full(clients, samples), shares, rng)

    return _deal_overlapping(labels, _first_accepted(draw, _every_class_held, _unheld(clients, samples, classes)), rng)


def few_class_skew(
    labels: np.ndarray, clients: int, samples: int | None = None, *, rng: np.random.Generator
) -> list[np.ndarray]:
    """Few-class skewness environment (FedACS, Section VII-A): uniform skewness, but a client has x classes only.

    x is uniform in 1..C, the dominant class is one of them, and the even rest is spread over these x. The alphas are
    the first draw from `rng`, as in `uniform_skew`. The classes are drawn again while some class is held by nobody.
    """
    labels, classes, samples = _checked_environment(labels, clients, samples)
    alphas = uniform_alphas(clients, rng=rng)

    def draw() -> np.ndarray:
        dominant = _dominant_classes(clients, classes, rng)
        held = [_some_classes(first, classes, rng) for first in dominant]
        return _dominance_counts(alphas, samples, dominant, held, classes, rng)

    return _deal_overlapping(labels, _first_accepted(draw, _every_class_held, _unheld(clients, samples, classes)), rng)


def uniform_alphas(clients: int, *, rng: np.random.Generator) -> np.ndarray:
    """alpha ~ U[0, 1), one per client (FedACS, Definition 3)."""
    return rng.random(clients)


def inverse_pareto_alphas(clients: int, s: float = 2.0, *, rng: np.random.Generator) -> np.ndarray:
    """alpha = 2 - x with x Pareto of shape s truncated to [1, 2] (FedACS, Definition 4), by inverting its CDF."""
    _require_shape(s)
    # Python's power, value by value: NumPy's array power may differ in the last digit between instruction sets.
    return np.array([2.0 - (1.0 - u * (1.0 - 2.0**-s)) ** (-1.0 / s) for u in rng.random(clients).tolist()])


def inverse_pareto_density(alpha: np.ndarray, s: float = 2.0) -> np.ndarray:
    """Density of alpha on [0, 1], s (2-alpha)^-(s+1) / (1-2^-s); the exponent -s in FedACS's Eq. (5) is a misprint."""
    _require_shape(s)
    return s * (2.0 - np.asarray(alpha)) ** -(s + 1.0) / (1.0 - 2.0**-s)


def dirichlet_betas(clients: int, median: float = 0.2, largest: float = 3.0, *, rng: np.random.Generator) -> np.ndarray:
    """beta of each client (FedACS, Definition 5): half uniform in (0, x_med], half in (x_med, x_max], shuffled."""
    _require(0 < median < largest, f"median is {median} and largest {largest}: 0 < median < largest is needed")
    upper = rng.permutation(np.arange(clients) % 2 == 1)
    from_zero = 1.0 - rng.random(clients)  # in (0, 1]
    return np.where(upper, median + (largest - median) * from_zero, median * from_zero)


def fingerprint(parts: Sequence[np.ndarray]) -> str:
    """16 hex digits of SHA-256 over the number of clients, their sizes and indices: equal for equal splits only."""
    header = [len(parts), *(len(part) for part in parts)]
    digest = hashlib.sha256(np.array(header, dtype="<i8").tobytes())
    for part in parts:
        digest.update(np.asarray(part).astype("<i8").tobytes())
    return digest.hexdigest()[:16]


PARTITIONERS: dict[str, Callable[..., list[np.ndarray]]] = {
    function.__name__: function
    for function in (
        iid,
        shards,
        dirichlet,
        dirichlet_clients,
        dominance,
        uniform_skew,
        inverse_pareto_skew,
        dirichlet_skew,
        few_class_skew,
        by_writer,
    )
}


# From counts (clients x classes) to indices


def _deal(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Deal every sample once: client i gets counts[i, k] random samples of the k-th class present."""
    clients, classes = counts.shape
    owner = np.repeat(np.tile(np.arange(clients), classes), counts.T.ravel())
    return _by_owner(_shuffled_by_class(labels, rng), owner, clients)


def _deal_overlapping(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Client i gets counts[i, k] samples of class k; clients share samples only where a class is overdrawn."""
    hands = [_hands(np.flatnonzero(labels == k), demand, rng) for k, demand in enumerate(counts.T)]
    return [np.sort(np.concatenate(own)) for own in zip(*hands, strict=True)]


def _hands(pool: np.ndarray, demand: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Deal a shuffled class from the top; shuffle it afresh when it runs out, so that all its samples serve alike."""
    deck = rng.permutation(pool)
    for wanted in demand:
        hand, deck = deck[:wanted], deck[wanted:]
        while len(hand) < wanted:
            fresh = rng.permutation(pool)
            # What the client already holds goes to the bottom: no sample twice before it has them all.
            fresh = fresh[np.argsort(np.isin(fresh, hand), kind="stable")]
            short = wanted - len(hand)
            hand, deck = np.concatenate([hand, fresh[:short]]), fresh[short:]
        yield hand


def _by_owner(indices: np.ndarray, owner: np.ndarray, clients: int) -> list[np.ndarray]:
    """Group `indices` by their owner, each group sorted."""
    ends = np.cumsum(np.bincount(owner, minlength=clients))
    return np.split(indices[np.lexsort((indices, owner))], ends[:-1])


def _shuffled_by_class(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All indices sorted by label, in random order within a label."""
    order = rng.permutation(len(labels))
    return order[np.argsort(labels[order], kind="stable")]


# Counts


def _split(totals: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whole numbers within one of totals[r] * shares[r], on average equal to it, each row adding up to totals[r].

    Systematic rounding: the running sum is rounded down after adding one random offset per row, then differenced.
    """
    offset = rng.random((len(totals), 1))
    cuts = np.floor(np.cumsum(shares, axis=1) * totals[:, None] + offset).astype(np.int64)
    cuts[:, -1] = totals
    return np.diff(np.minimum(cuts, totals[:, None]), axis=1, prepend=0)


def _even_sizes(total: int, clients: int) -> np.ndarray:
    """`clients` sizes adding up to `total`, different by one at most."""
    return total // clients + (np.arange(clients) < total % clients)


def _wishes(rho: np.ndarray, stock: np.ndarray) -> np.ndarray:
    """rho over the classes still in stock; who wanted none of these asks in proportion to what is left."""
    left = np.where(stock > 0, rho, 0.0)
    total = left.sum(axis=1, keepdims=True)
    # Far below one, a sum of proportions cannot be divided by without loss: such a client has no wish left.
    return np.where(total > 1e-12, left / np.maximum(total, 1e-12), stock / stock.sum())


def _rationed(wanted: np.ndarray, stock: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What is granted of `wanted` (clients x classes): all, or where a class is overdrawn a random lot of its stock."""
    granted = wanted.copy()
    for k in np.flatnonzero(wanted.sum(axis=0) > stock):
        granted[:, k] = rng.multivariate_hypergeometric(wanted[:, k], stock[k])
    return granted


def _dominance_counts(
    alphas: np.ndarray,
    samples: int,
    dominant: np.ndarray,
    held: Sequence[np.ndarray],
    classes: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Samples per client and class: alpha of them in the dominant class, the others even over the classes held."""
    counts = np.zeros((len(alphas), classes), dtype=np.int64)
    for row, alpha, first, own in zip(counts, alphas, dominant, held, strict=True):
        dominating = int(np.rint(alpha * samples))
        each, over = divmod(samples - dominating, len(own))
        row[own] = each
        row[rng.permutation(own)[:over]] += 1
        row[first] += dominating
    return counts


def _dominant_classes(clients: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """A dominant class for every client, all classes equally often (by one at most), in random order."""
    return rng.permutation(rng.permutation(classes)[np.arange(clients) % classes])


def _some_classes(first: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """x random classes with `first` among them, x uniform in 1..classes."""
    others = rng.permutation(np.delete(np.arange(classes), first))
    return np.append(first, others[: rng.integers(classes)])


def _every_class_held(counts: np.ndarray) -> bool:
    return bool(counts.any(axis=0).all())


def _first_accepted(draw: Callable[[], np.ndarray], accept: Callable[[np.ndarray], bool], failure: str) -> np.ndarray:
    """The first of at most REDRAWS draws that is accepted."""
    for _ in range(REDRAWS):
        drawn = draw()
        if accept(drawn):
            return drawn
    raise ValueError(f"gave up after {REDRAWS} draws: {failure}")


# What can be asked for


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise ValueError(complaint)


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1


def _require_clients(clients: int) -> None:
    _require(_is_count(clients), f"clients is {clients!r}: give a whole number of clients, 1 or more")


def _require_concentration(alpha: float) -> None:
    _require(
        0 < alpha < np.inf,
        f"alpha is {alpha}: a Dirichlet concentration is positive and finite (large means even shares)",
    )


def _require_shape(s: float) -> None:
    _require(0 < s < np.inf, f"s is {s}: the shape of the Pareto distribution is positive and finite (the paper has 2)")


def _checked(labels: np.ndarray, clients: int) -> np.ndarray:
    """Labels as a one-dimensional array of whole numbers, enough of them for the clients."""
    labels = np.asarray(labels)
    _require(
        labels.ndim == 1 and labels.dtype.kind in "iu",
        f"labels are {labels.ndim}-dimensional of type {labels.dtype}: give a one-dimensional array of whole numbers",
    )
    _require(len(labels) > 0, "there are no samples: give at least one label")
    _require_clients(clients)
    _require(
        clients <= len(labels),
        f"{clients} clients for {len(labels)} samples leaves clients empty: ask for {len(labels)} clients or fewer",
    )
    return labels


def _checked_environment(labels: np.ndarray, clients: int, samples: int | None) -> tuple[np.ndarray, int, int]:
    """Labels, number of classes and samples per client; all classes 0..C-1 must occur, since each is asked for."""
    labels = _checked(labels, clients if samples is None else 1)
    _require_clients(clients)
    samples = len(labels) // clients if samples is None else samples
    _require(_is_count(samples), f"samples is {samples!r}: give a whole number of samples per client, 1 or more")
    _require(labels.min() >= 0, f"label {labels.min()} is negative: number the classes from 0")
    absent = np.flatnonzero(np.bincount(labels) == 0)
    _require(
        len(absent) == 0,
        f"class {', '.join(map(str, absent))} has no samples, so no client can hold it: "
        "add samples of it or number the classes without gaps",
    )
    return labels, int(labels.max()) + 1, int(samples)


def _checked_shares(alphas: float | Sequence[float], clients: int) -> np.ndarray:
    """One alpha in [0, 1] for every client."""
    alphas = np.asarray(alphas, dtype=np.float64)
    _require(
        alphas.ndim == 0 or alphas.shape == (clients,),
        f"alphas have the shape {alphas.shape}: give one number, or one for each of the {clients} clients",
    )
    alphas = np.broadcast_to(alphas, clients)
    outside = alphas[~((alphas >= 0) & (alphas <= 1))]
    _require(len(outside) == 0, f"alpha {outside[:1]} is no share: every alpha must lie in [0, 1]")
    return alphas


def _unheld(clients: int, samples: int, classes: int) -> str:
    return (
        f"with {clients} clients of {samples} samples, some of the {classes} classes was held by nobody each time: "
        "use more clients or more samples per client"
    )
