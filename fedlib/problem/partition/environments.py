"""FedACS's environments, in which clients differ in how skewed they are (Definitions 1 to 5 and Section VII).

Every client holds the same number of samples. Clients share samples where more samples of a class are needed than there
are.
"""

from collections.abc import Sequence

import numpy as np

from fedlib.problem.partition.assignment import assign_overlapping, first_accepted, split
from fedlib.problem.partition.validation import (
    check_beta_range,
    check_clients,
    check_generator,
    check_pareto_shape,
    checked_alphas,
    checked_environment,
)


def dominance(
    labels: np.ndarray,
    clients: int,
    alphas: float | Sequence[float] | np.ndarray,
    samples: int | None = None,
    *,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """alpha-dominance clients (FedACS, Definition 1), each with its own alpha or all with the same.

    The share alpha of a client's data is its dominant class, the rest is spread evenly over all classes, including the
    dominant one: of 100 samples in 10 classes, alpha = 0.5 gives 55 and 9 x 5. The remainder of the division goes to
    random classes. Every class dominates equally many clients. Each client holds `samples` samples, by default an equal
    share of the data set. A client gets no sample twice unless it needs more of a class than there is.
    """
    labels, classes, samples = checked_environment(labels, clients, samples, rng)
    alphas = checked_alphas(alphas, clients)
    dominant_classes = _dominant_classes(clients, classes, rng)
    all_classes = [np.arange(classes)] * clients
    counts = _dominance_counts(alphas, samples, dominant_classes, all_classes, classes, rng)
    return assign_overlapping(labels, counts, rng)


def uniform_skew(
    labels: np.ndarray, clients: int, samples: int | None = None, *, rng: np.random.Generator
) -> list[np.ndarray]:
    """Uniform skewness environment (FedACS, Definition 3): `dominance` with `uniform_alphas`.

    The alphas are the first draw from `rng`: `uniform_alphas` with an equally seeded generator returns them.
    """
    return dominance(labels, clients, uniform_alphas(clients, rng=rng), samples, rng=rng)


def inverse_pareto_skew(
    labels: np.ndarray, clients: int, samples: int | None = None, s: float = 2.0, *, rng: np.random.Generator
) -> list[np.ndarray]:
    """Inverse Pareto skewness environment (FedACS, Definition 4): `dominance` with `inverse_pareto_alphas`.

    The alphas are the first draw from `rng`: `inverse_pareto_alphas` with an equally seeded generator returns them.
    """
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
    proportions are drawn again as long as no client holds some class.
    """
    labels, classes, samples = checked_environment(labels, clients, samples, rng)
    betas = dirichlet_betas(clients, median, largest, rng=rng)

    def draw_counts() -> np.ndarray:
        shares = np.stack([rng.dirichlet(np.full(classes, beta)) for beta in betas])
        return split(np.full(clients, samples), shares, rng)

    counts = first_accepted(draw_counts, _every_class_held, _failure(clients, samples, classes))
    return assign_overlapping(labels, counts, rng)


def few_class_skew(
    labels: np.ndarray, clients: int, samples: int | None = None, *, rng: np.random.Generator
) -> list[np.ndarray]:
    """Few-class skewness environment (FedACS, Section VII-A): uniform skewness, but a client has only x classes.

    x is uniform in 1..C, the dominant class is one of the x, and the rest is spread evenly over these x. The alphas are
    the first draw from `rng`, as in `uniform_skew`. The classes are drawn again as long as no client holds some class.
    """
    labels, classes, samples = checked_environment(labels, clients, samples, rng)
    alphas = uniform_alphas(clients, rng=rng)

    def draw_counts() -> np.ndarray:
        dominant_classes = _dominant_classes(clients, classes, rng)
        held_classes = [_random_classes(dominant, classes, rng) for dominant in dominant_classes]
        return _dominance_counts(alphas, samples, dominant_classes, held_classes, classes, rng)

    counts = first_accepted(draw_counts, _every_class_held, _failure(clients, samples, classes))
    return assign_overlapping(labels, counts, rng)


# How skewed each client is


def uniform_alphas(clients: int, *, rng: np.random.Generator) -> np.ndarray:
    """alpha ~ U[0, 1), one per client (FedACS, Definition 3)."""
    check_clients(clients)
    check_generator(rng)
    return rng.random(clients)


def inverse_pareto_alphas(clients: int, s: float = 2.0, *, rng: np.random.Generator) -> np.ndarray:
    """alpha = 2 - x with x Pareto of shape s truncated to [1, 2] (FedACS, Definition 4), by inverting its CDF."""
    check_clients(clients)
    check_pareto_shape(s)
    check_generator(rng)
    # Python's power, value by value: NumPy's array power may differ in the last digit between instruction sets.
    return np.array([2.0 - (1.0 - u * (1.0 - 2.0**-s)) ** (-1.0 / s) for u in rng.random(clients).tolist()])


def inverse_pareto_density(alpha: float | np.ndarray, s: float = 2.0) -> np.ndarray:
    """Density of alpha on [0, 1], s (2-alpha)^-(s+1) / (1-2^-s); the exponent -s in FedACS's Eq. (5) is a misprint."""
    check_pareto_shape(s)
    return s * (2.0 - np.asarray(alpha)) ** -(s + 1.0) / (1.0 - 2.0**-s)


def dirichlet_betas(clients: int, median: float = 0.2, largest: float = 3.0, *, rng: np.random.Generator) -> np.ndarray:
    """beta of each client (FedACS, Definition 5): half uniform in (0, x_med], half in (x_med, x_max], shuffled."""
    check_clients(clients)
    check_beta_range(median, largest)
    check_generator(rng)
    upper = rng.permutation(np.arange(clients) % 2 == 1)
    positive = 1.0 - rng.random(clients)  # uniform in (0, 1]
    return np.where(upper, median + (largest - median) * positive, median * positive)


# Class counts


def _dominance_counts(
    alphas: np.ndarray,
    samples: int,
    dominant_classes: np.ndarray,
    held_classes: Sequence[np.ndarray],
    classes: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Samples per client and class: alpha of them in the dominant class, the others spread over the classes held."""
    counts = np.zeros((len(alphas), classes), dtype=np.int64)
    for row, alpha, dominant, held in zip(counts, alphas, dominant_classes, held_classes, strict=True):
        dominating = int(np.rint(alpha * samples))
        per_class, remainder = divmod(samples - dominating, len(held))
        row[held] = per_class
        row[rng.permutation(held)[:remainder]] += 1
        row[dominant] += dominating
    return counts


def _dominant_classes(clients: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """A dominant class for every client, all classes equally often (up to one), in random order."""
    return rng.permutation(rng.permutation(classes)[np.arange(clients) % classes])


def _random_classes(dominant: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """x random classes that include `dominant`, x uniform in 1..classes."""
    others = rng.permutation(np.delete(np.arange(classes), dominant))
    return np.append(dominant, others[: rng.integers(classes)])


def _every_class_held(counts: np.ndarray) -> bool:
    return bool(counts.any(axis=0).all())


def _failure(clients: int, samples: int, classes: int) -> str:
    return (
        f"with {clients} clients of {samples} samples, some of the {classes} classes was held by nobody each time: "
        "use more clients or more samples per client"
    )
