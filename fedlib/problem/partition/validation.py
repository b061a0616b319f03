"""What a partitioner accepts. Every error is a ValueError that names the argument and says what would be right."""

import sys
from collections.abc import Sequence

import numpy as np

MAX_CONCENTRATION = 1e300  # beyond this, the sums inside a Dirichlet draw overflow
MAX_SPREAD = 10  # beyond this, one client has nearly everything


def require(condition: bool, complaint: str) -> None:
    if not condition:
        raise ValueError(complaint)


def is_whole(value: object) -> bool:
    """Whether this is an integer; neither True nor 2.0 is."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether this is a real number; True and "2" are not, NaN is."""
    return is_whole(value) or isinstance(value, float | np.floating)


def check_count(name: str, value: int, unit: str, least: int = 1) -> None:
    require(
        is_whole(value) and value >= least,
        f"{name} is {value!r}: give a whole number of {unit}, {least} or more",
    )


def check_clients(clients: int) -> None:
    check_count("clients", clients, "clients")


def check_generator(rng: np.random.Generator) -> None:
    require(
        isinstance(rng, np.random.Generator),
        f"rng is {rng!r}: give a numpy.random.Generator, for example numpy.random.default_rng(0)",
    )


def check_concentration(alpha: float) -> None:
    require(
        is_number(alpha) and 0 < alpha <= MAX_CONCENTRATION,
        f"alpha is {alpha!r}: a Dirichlet concentration is positive and finite (large means even shares), "
        f"{MAX_CONCENTRATION:g} at most",
    )


def check_spread(spread: float) -> None:
    require(
        is_number(spread) and 0 <= spread <= MAX_SPREAD,
        f"spread is {spread!r}: the deviation of the logarithm of the shares is a number from 0 (even) to {MAX_SPREAD}",
    )


def check_pareto_shape(s: float) -> None:
    require(
        is_number(s) and 0 < s <= sys.float_info.max,
        f"s is {s!r}: the shape of the Pareto distribution is positive and finite (the paper has 2)",
    )


def check_beta_range(median: float, largest: float) -> None:
    require(
        is_number(median) and is_number(largest) and 0 < median < largest <= MAX_CONCENTRATION,
        f"median is {median!r} and largest {largest!r}: 0 < median < largest is needed, {MAX_CONCENTRATION:g} at most",
    )


def checked_labels(labels: np.ndarray, clients: int, rng: np.random.Generator, name: str = "labels") -> np.ndarray:
    """Labels as a one-dimensional array of whole numbers, enough of them for the clients."""
    labels = np.asarray(labels)
    require(
        labels.ndim == 1 and labels.dtype.kind in "iu",
        f"{name} are {labels.ndim}-dimensional of type {labels.dtype}: give a one-dimensional array of whole numbers",
    )
    require(len(labels) > 0, f"there are no samples: give at least one of {name}")
    check_clients(clients)
    require(
        clients <= len(labels),
        f"{clients} clients for {len(labels)} samples leaves clients empty: ask for {len(labels)} clients or fewer",
    )
    check_generator(rng)
    return labels


def checked_environment(
    labels: np.ndarray, clients: int, samples: int | None, rng: np.random.Generator
) -> tuple[np.ndarray, int, int]:
    """Labels, number of classes and samples per client; all classes 0..C-1 must occur, because clients ask for each."""
    labels = checked_labels(labels, clients if samples is None else 1, rng)
    check_clients(clients)
    samples = len(labels) // clients if samples is None else samples
    check_count("samples", samples, "samples per client")
    require(bool(labels.min() >= 0), f"label {labels.min()} is negative: number the classes from 0")
    classes = np.unique(labels)
    gaps = np.flatnonzero(classes != np.arange(len(classes)))
    require(
        len(gaps) == 0,
        f"class {gaps[:1].sum()} has no samples, so no client can hold it: "
        "add samples of it or number the classes without gaps",
    )
    return labels, len(classes), int(samples)


def checked_alphas(alphas: float | Sequence[float] | np.ndarray, clients: int) -> np.ndarray:
    """One alpha in [0, 1] for every client."""
    given = np.asarray(alphas, dtype=object)  # as objects, because an array of numbers would hide texts and booleans
    require(
        given.ndim == 0 or given.shape == (clients,),
        f"alphas have the shape {given.shape}: give one number, or one for each of the {clients} clients",
    )
    wrong = [alpha for alpha in given.flat if not (is_number(alpha) and 0 <= alpha <= 1)]
    require(not wrong, f"alphas contain {wrong[:1]}: every alpha must lie in [0, 1]")
    return np.broadcast_to(given.astype(np.float64), clients)
