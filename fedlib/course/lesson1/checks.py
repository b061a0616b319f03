"""Lesson 1, what heterogeneity is: the checks of its exercises."""

import numpy as np

from fedlib.course.exercise import NotYet, exercise, number_in, require
from fedlib.course.lesson1.problem import CLASSES
from fedlib.problem import partition, skew
from fedlib.problem.streams import generator


@exercise("1.1", "From counts to shares", recipe="Divide every row by its own sum.")
def shares(answer):
    counts = np.array([[3, 1, 0], [2, 2, 4]])
    found = np.asarray(answer(counts))
    require(found.shape == (2, 3), f"two clients and three classes in, so two rows of three out, not {found.shape}.")
    require(
        np.allclose(found.sum(axis=1), 1),
        f"each row must add up to 1, yours add up to {_listed(found.sum(axis=1))}. "
        "Sum over the classes, axis=1, with keepdims=True.",
    )
    right = np.allclose(found[0], [3 / 4, 1 / 4, 0])
    require(right, f"a client with 3, 1 and 0 samples has 3/4, 1/4 and 0, not {_listed(found[0])}.")
    wide = generator(7, "course check").integers(1, 50, (4, 11))
    require(
        np.allclose(answer(wide) * wide.sum(axis=1)[:, None], wide), "four clients with eleven classes come out wrong."
    )


@exercise(
    "1.2",
    "How many digits is a mixture worth?",
    recipe="First the entropy, a sum over classes; then its exponential. Beware of log(0).",
)
def effective(answer):
    even = answer(np.full(4, 1 / 4))
    require(
        np.isscalar(even) or np.ndim(even) == 0, "one client has one effective number: return a number, not an array."
    )
    sign = "Mind the sign, and use the natural logarithm."
    require(np.isclose(even, 4), f"four even classes are worth 4, not {even:.3g}. {sign}")
    single = answer(np.array([0.0, 1.0, 0.0]))
    require(
        not np.isnan(single), "a class that a client lacks makes log(0) and then nan: leave out the shares that are 0."
    )
    require(np.isclose(single, 1), f"a client with one class only is worth 1, not {single:.3g}.")
    mixed = answer(np.array([0.5, 0.25, 0.25, 0]))
    require(np.isclose(mixed, np.sqrt(8)), f"shares 1/2, 1/4, 1/4 are worth the root of 8, 2.83, not {mixed:.3g}.")
    for counts in generator(8, "course check").integers(0, 9, (5, 7)):
        right, yours = skew.effective_classes(counts[None])[0], answer(counts / counts.sum())
        require(np.isclose(yours, right), f"counts {counts.tolist()} are worth {right:.3f} classes, not {yours:.3f}.")


@exercise(
    "1.3",
    "Turn the dial to half of the digits",
    recipe="Move the slider of alpha and read the effective number below it.",
    answers=("alpha",),
)
def alpha_for_half(answer):
    alpha = number_in(answer)
    if alpha is None or alpha <= 0:
        raise NotYet(f"alpha is a number above 0, not {answer!r}.")
    labels, held = np.repeat(np.arange(CLASSES), 200), []
    for seed in range(1, 6):
        parts = partition.dirichlet_clients(labels, 10, alpha, rng=generator(seed, "course check"))
        held.append(skew.effective_classes(skew.class_counts(labels, parts, CLASSES)).mean())
    mean = np.mean(held)
    direction = "smaller" if mean > 5 else "larger"
    require(
        4.5 <= mean <= 5.5, f"over five other draws a client then holds {mean:.1f} digits. Try a {direction} alpha."
    )


@exercise(
    "1.4",
    "Unlike sizes, alike mixtures",
    recipe="Shuffle all samples, then cut at 1/2, 3/4, 7/8, ...: numpy.split cuts at given places.",
)
def halves(answer):
    for clients, samples in ((4, 800), (3, 400), (6, 640)):
        _check_halves(answer, clients, np.repeat(np.arange(CLASSES), samples // CLASSES))
    labels = np.repeat(np.arange(CLASSES), 20)
    first, again, other = (answer(labels, 3, np.random.default_rng(seed))[0] for seed in (3, 3, 4))
    require(
        np.array_equal(first, again),
        "two equal generators gave two different splits: draw from the rng you are given, not from np.random.",
    )
    require(not np.array_equal(first, other), "another rng must give another split: draw with the rng you are given.")


def _check_halves(answer, clients: int, labels: np.ndarray) -> None:
    """Sizes, completeness and mixtures of one split; the labels are sorted, so whoever forgets to shuffle is found."""
    samples = len(labels)
    parts = answer(labels, clients, np.random.default_rng(3))
    require(len(parts) == clients, f"{clients} clients need {clients} parts, not {len(parts)}.")
    everybody = np.sort(np.concatenate([np.asarray(part) for part in parts]))
    once = np.array_equal(everybody, np.arange(samples))
    require(once, "every sample must go to exactly one client: some are missing or dealt twice.")
    sizes = [len(part) for part in parts]
    wanted = [samples // 2**client for client in range(1, clients)]
    wanted.append(wanted[-1])
    halved = np.allclose(sizes, wanted, atol=2)
    require(halved, f"of {samples} samples {clients} clients get {_listed(wanted)}, not {_listed(sizes)}.")
    away = skew.emd(skew.class_counts(labels, parts, CLASSES))
    require(away[0] < 0.3, "the largest client sees other digits than the rest: shuffle before you cut.")


@exercise(
    "1.5",
    "One number is not enough",
    recipe="Begin with four classes; give each client two of them, then something less pure.",
    answers=("first", "second"),
)
def indistinguishable(first, second):
    first, second = np.asarray(first), np.asarray(second)
    for name, counts in (("first", first), ("second", second)):
        require(counts.ndim == 2 and counts.shape[0] > 1, f"{name}: a row for each client, a column for each class.")
        held = (counts >= 0).all() and (counts.sum(axis=1) > 0).all()
        require(held, f"{name}: counts are not negative, and each client holds something.")
    apart = abs(skew.emd(first).mean() - skew.emd(second).mean())
    require(skew.emd(first).mean() > 0.1, "the first federation is nearly iid: make it skewed.")
    require(apart < 0.005, f"the mean EMD of the two must agree to two digits, they are {apart:.3f} apart.")
    worth = abs(skew.effective_classes(first).mean() - skew.effective_classes(second).mean())
    sizes = abs(skew.quantity_gini(first) - skew.quantity_gini(second))
    require(
        worth > 0.2 or sizes > 0.1,
        "another measure must tell them apart. "
        f"Effective classes differ by {worth:.2f} (wanted: 0.2), Gini by {sizes:.2f} (0.1).",
    )


def _listed(values) -> str:
    return ", ".join(f"{value:.3g}" for value in values)
