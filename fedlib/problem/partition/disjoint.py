"""Partitioners that give every sample to exactly one client: FedSR's, ACFMO's, FEDL's and FedGS's."""

import numpy as np

from fedlib.problem.partition.assignment import assign, first_accepted, group_by_owner, shuffled_by_class, split
from fedlib.problem.partition.validation import (
    check_clients,
    check_concentration,
    check_count,
    check_spread,
    checked_labels,
    require,
)


def iid(labels: np.ndarray, clients: int, *, rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle and cut into equal parts (sizes differ by one at most)."""
    labels = checked_labels(labels, clients, rng)
    return [np.sort(part) for part in np.array_split(rng.permutation(len(labels)), clients)]


def shards(labels: np.ndarray, clients: int, per_client: int, *, rng: np.random.Generator) -> list[np.ndarray]:
    """Pathological split: sort by label, cut into K*xi equal shards, deal xi = `per_client` of them to each client.

    Most clients then have xi classes; a shard that crosses a class boundary adds one more.
    """
    labels = checked_labels(labels, clients, rng)
    check_count("per_client", per_client, "shards")
    total = clients * per_client
    require(
        total <= len(labels),
        f"{clients} clients x {per_client} shards = {total} shards, but there are only {len(labels)} samples: "
        "use fewer clients or a smaller per_client",
    )
    all_shards = np.array_split(shuffled_by_class(labels, rng), total)
    shards_of_client = rng.permutation(total).reshape(clients, per_client)
    return [np.sort(np.concatenate([all_shards[shard] for shard in numbers])) for numbers in shards_of_client]


def dirichlet(
    labels: np.ndarray, clients: int, alpha: float, *, rng: np.random.Generator, min_size: int = 1
) -> list[np.ndarray]:
    """Split class i over the clients in the proportions p_i ~ Dir_K(alpha) (FedSR).

    alpha -> 0 gives every class to one client, alpha -> infinity approaches iid. Client sizes are uneven; the
    proportions are drawn again until every client has `min_size` samples.
    """
    labels = checked_labels(labels, clients, rng)
    check_concentration(alpha)
    check_count("min_size", min_size, "samples", least=0)
    require(
        clients * min_size <= len(labels),
        f"{clients} clients of at least {min_size} samples need {clients * min_size}, "
        f"but there are only {len(labels)}: lower min_size or use fewer clients",
    )
    class_sizes = np.unique(labels, return_counts=True)[1]
    counts = first_accepted(
        lambda: split(class_sizes, rng.dirichlet(np.full(clients, alpha), size=len(class_sizes)), rng).T,
        lambda counts: bool(counts.sum(axis=1).min() >= min_size),
        f"no draw gave each of {clients} clients at least {min_size} of {len(labels)} samples at alpha={alpha:g}: "
        "raise alpha, lower min_size (0 allows empty clients) or use fewer clients",
    )
    return assign(labels, counts, rng)


def dirichlet_clients(labels: np.ndarray, clients: int, alpha: float, *, rng: np.random.Generator) -> list[np.ndarray]:
    """Client i draws class proportions rho_i ~ Dir(alpha) (ACFMO's xi) and is filled by them; all sizes are equal.

    Together the clients ask for more samples of some classes than there are. So samples are dealt in passes. In each
    pass every client asks for the samples that it still needs, by rho_i over the classes that are left; if too many
    samples of a class are asked for, they are rationed at random. Each pass completes the clients or uses up a class,
    and what remains goes to clients that wanted other classes. No client is served first, so the deviation from rho is
    spread over all clients.
    """
    labels = checked_labels(labels, clients, rng)
    check_concentration(alpha)
    stock = np.unique(labels, return_counts=True)[1]
    rho = rng.dirichlet(np.full(len(stock), alpha), size=clients)
    missing = rng.permutation(_even_sizes(len(labels), clients))
    counts = np.zeros(rho.shape, dtype=np.int64)
    while missing.any():
        granted = _rationed(split(missing, _available_shares(rho, stock), rng), stock, rng)
        counts += granted
        missing -= granted.sum(axis=1)
        stock -= granted.sum(axis=0)
    return assign(labels, counts, rng)


def lognormal_labels(
    labels: np.ndarray,
    clients: int,
    per_client: int,
    *,
    rng: np.random.Generator,
    spread: float = 2.0,
    least: int = 10,
) -> list[np.ndarray]:
    """A client holds `per_client` neighbouring classes, cyclically, in log-normal amounts (FEDL's MNIST).

    The clients' first classes are spread evenly over all classes. Of each of its classes a client gets `least` samples;
    the rest of the class is divided in proportion to log-normal weights, exp(spread * z) with z standard normal, so
    that sizes differ by orders of magnitude.
    """
    labels = checked_labels(labels, clients, rng)
    check_count("per_client", per_client, "classes")
    check_count("least", least, "samples", least=0)
    check_spread(spread)
    stock = np.unique(labels, return_counts=True)[1]
    require(per_client <= len(stock), f"per_client is {per_client}: there are only {len(stock)} classes")
    first = np.arange(clients) * len(stock) // clients
    holds = (np.arange(len(stock)) - first[:, None]) % len(stock) < per_client
    held = holds.sum(axis=0)
    require(
        bool((held > 0).all() and (held * least <= stock).all()),
        f"{clients} clients with {per_client} classes each leave a class without a client, or need more than the "
        f"{stock.min()} samples of the rarest class: use another number of clients or a smaller least",
    )
    weights = np.where(holds, rng.lognormal(0.0, spread, holds.shape), 0.0).T
    shares = weights / weights.sum(axis=1, keepdims=True)
    return assign(labels, split(stock - held * least, shares, rng).T + least * holds, rng)


def by_writer(writers: np.ndarray, clients: int | None = None, *, rng: np.random.Generator) -> list[np.ndarray]:
    """One client per writer (FedGS); the writer ids take the place of the labels.

    Without `clients` all writers take part, in the order of their ids. With it, that many writers are drawn, and they
    stay in the order drawn: neighbouring ids may be alike, neighbouring clients are not.
    """
    writers = checked_labels(writers, 1, rng, name="writers")
    ids, writer = np.unique(writers, return_inverse=True)
    if clients is None:
        return group_by_owner(np.arange(len(writers)), writer, len(ids))
    check_clients(clients)
    require(
        clients <= len(ids),
        f"{clients} clients, but there are only {len(ids)} writers: ask for {len(ids)} or fewer",
    )
    client_of_writer = np.full(len(ids), -1)
    client_of_writer[rng.permutation(len(ids))[:clients]] = np.arange(clients)
    owner = client_of_writer[writer]
    samples = np.flatnonzero(owner >= 0)
    return group_by_owner(samples, owner[samples], clients)


def _even_sizes(total: int, clients: int) -> np.ndarray:
    """`clients` sizes that add up to `total` and differ by one at most."""
    return total // clients + (np.arange(clients) < total % clients)


def _available_shares(rho: np.ndarray, stock: np.ndarray) -> np.ndarray:
    """rho over the classes still in stock; a client that wanted none of these asks in proportion to the stock."""
    available = np.where(stock > 0, rho, 0.0)
    total = available.sum(axis=1, keepdims=True)
    # Dividing by a sum far below one would lose precision: such a client counts as wanting none of these classes.
    return np.where(total > 1e-12, available / np.maximum(total, 1e-12), stock / stock.sum())


def _rationed(wanted: np.ndarray, stock: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What is granted of `wanted` (clients x classes): all, or a random part where a class has too few samples."""
    granted = wanted.copy()
    for k in np.flatnonzero(wanted.sum(axis=0) > stock):
        granted[:, k] = rng.multivariate_hypergeometric(wanted[:, k], stock[k])
    return granted
