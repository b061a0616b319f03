"""Lesson 3, correcting the client: the checks of its exercises."""

from collections.abc import Callable

import numpy as np
from scipy import stats

from fedlib.course import toy
from fedlib.course.exercise import exercise, require
from fedlib.course.lesson3.problem import CHALLENGE_RATES, STEPS
from fedlib.judging.statistics import estimate
from fedlib.problem.streams import generator


def _same(found, wanted, within: float = 1e-5) -> bool:
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() < within)


def _refuse(found, mistakes: list[tuple[list[float], str]], right: list[float], otherwise: str) -> None:
    """A hint for each known wrong result, and one for all others."""
    for wrong, hint in mistakes:
        require(not _same(found, wrong), hint)
    require(_same(found, right), f"{otherwise} You have {np.asarray(found).tolist()}.")


def _slope(loss: Callable[[np.ndarray], float], at: np.ndarray, axis: int, width: float = 1e-4) -> float:
    """The loss's slope along one axis, by a central difference."""
    step = width * np.eye(len(at))[axis]
    return float(loss(at + step) - loss(at - step)) / (2 * width)


def _alone(direction: toy.Direction) -> None:
    """During a round a client knows its own place and its own loss, and what was sent; it cannot ask the others."""
    clients, rng = toy.clients(), generator(5, "course check")
    sent = toy.Sent(*(rng.normal(size=shape) for shape in ((2,), (2,), (2,), (3, 2), (2,))))
    w = rng.normal(size=(3, 2))
    before = np.asarray(direction(clients.gradient, w.copy(), sent), dtype=float)
    require(before.shape == w.shape, f"Return one row per client, like w: shape {w.shape}, not {before.shape}.")
    for client in range(len(w)):
        others = np.arange(len(w)) != client
        elsewhere, moved = w.copy(), clients.minima.copy()
        elsewhere[others] += 1.0
        moved[others] += 1.0
        for gradient, places in (
            (clients.gradient, elsewhere),
            (toy.Toy(clients.curvatures, moved).gradient, w.copy()),
        ):
            after = np.asarray(direction(gradient, places, sent), dtype=float)
            require(
                _same(after[client], before[client]),
                f"Client {client + 1}'s step changes when only the other clients move or want something else. That "
                "would take an exchange at every step; within a round a client has only its own gradient and `sent`.",
            )


@exercise(
    "3.1",
    "The gradient with a spring",
    recipe="The spring's energy is mu/2 * |w - received|^2. What is its gradient, and what is it added to?",
)
def proximal_gradient(answer):
    gradient, w, received = np.array([1.0, -2.0]), np.array([2.0, 0.0]), np.array([1.0, 1.0])
    mistakes = [
        (
            [0.5, -1.5],
            "Your spring pushes the client away. Descending must lead back to `received`: think of the sign.",
        ),
        (
            [2.0, -3.0],
            "The half in mu/2 and the two from the square cancel: the pull is mu times the distance, not 2 mu.",
        ),
        (
            [1.25, -2.25],
            "The half in mu/2 and the two from the square cancel: the pull is mu times the distance, not mu/2.",
        ),
        ([1.25, -1.75], "You added the spring's energy. What is asked for is its gradient."),
        ([1.5, -1.5], "A square is left: the gradient of |w - received|^2 is linear in w."),
        ([0.5, -0.5], "That is the spring alone. The client still wants to descend its own loss: add `gradient`."),
        ([2.0, -2.0], "The spring is tied to the model that the client received, not to zero."),
    ]
    _refuse(
        answer(gradient, w, received, 0.5), mistakes, [1.5, -2.5], "With mu = 0.5, [1, -2] + 0.5 * ([2, 0] - [1, 1])."
    )
    found = answer(np.array([0.3, 0.1, -4.0]), np.array([1.0, 2.0, 3.0]), np.array([-1.0, 2.0, 5.0]), 2.0)
    require(
        _same(found, [4.3, 0.1, -8.0]),
        "It fits the first case only: use all four arguments, in any number of dimensions.",
    )
    rng = generator(1, "course check")
    for dimensions in (1, 5):
        gradient, w, received = rng.normal(size=(3, dimensions))
        mu = float(rng.uniform(0.1, 3))
        wanted = [
            _slope(lambda at: gradient @ at + mu / 2 * ((at - received) ** 2).sum(), w, axis)  # noqa: B023
            for axis in range(dimensions)
        ]
        require(_same(answer(gradient, w, received, mu), wanted, 1e-5), "It is not the slope of loss plus spring.")


@exercise(
    "3.2",
    "The surrogate's gradient",
    recipe="Three terms, two of them the client's own gradient. At `received` these two must cancel.",
)
def surrogate_gradient(answer):

    def gradient(w):
        return np.array([2.0, 1.0]) * w + np.array([-2.0, 3.0])

    w, received, everybody = np.array([2.0, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 1.0])
    mistakes = [
        ([2.5, 3.5], "The client's own gradient at `received` is still in. Subtract it, so that all set off alike."),
        ([0.5, 7.5], "You add the own gradient at `received`. It must be subtracted."),
        ([2.5, 0.0], "eta weighs the global gradient alone, not the whole sum."),
        ([5.0, 0.0], "eta is missing: it weighs the global gradient."),
        ([3.5, -1.5], "Mind the sign: the global gradient is added; descending then goes against it."),
        ([-3.5, 1.5], "The two own gradients have changed places: here minus there."),
        ([4.0, -1.0], "Without the global gradient nobody knows where to go: at `received` nothing is left."),
    ]
    right = "The own gradient is [2, 3] here and [-2, 4] at `received`; with eta = 0.5 that makes [4.5, -0.5]."
    _refuse(answer(gradient, w, received, everybody, 0.5), mistakes, [4.5, -0.5], right)
    at_start = answer(gradient, received, received, np.array([3.0, -1.0]), 0.2)
    require(
        _same(at_start, [0.6, -0.2]),
        "At `received` only eta times the global gradient is left. Do you use all arguments?",
    )
    rng = generator(2, "course check")
    for dimensions in (1, 4):
        curvature, here, there, everybody = rng.normal(size=(4, dimensions))
        found = answer(lambda w, curvature=curvature: curvature * w, here, there, everybody, 0.3)
        require(_same(found - 0.3 * everybody, curvature * (here - there)), "It fits the first case only.")


@exercise(
    "3.3",
    "A step of ACFMO's client",
    recipe="You need the minibatch's gradient at two places. What is scaled, and what is added unscaled?",
)
def controlled_step(answer):

    def batch_gradient(w):
        return 2 * w + 5

    w, begin, anchor, scale = np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([1.0, -1.0]), np.array([1.0, 0.5])
    mistakes = [
        ([0.7, 1.9], "`scale` is missing, Eq. (12): it multiplies the difference, entry by entry."),
        (
            [0.7, 1.95],
            "`scale` belongs to the difference of the two gradients only; the anchor is added as it is, Eq. (14).",
        ),
        ([1.3, 2.0], "You go uphill: subtract lr times the direction."),
        ([0.8, 1.9], "The anchor is missing: without it no client knows the common direction."),
        ([1.1, 2.2], "The difference has the wrong sign: the gradient here minus the gradient at `start`."),
        (
            [0.2, 1.65],
            "Subtract the same minibatch's gradient at `start`: what is noise in one is noise in the other, too.",
        ),
        ([3.0, 0.0], "That is the direction. Return the client's next model, w - lr * direction."),
    ]
    right = "Difference [2, 2], scaled [2, 1], with the anchor [3, 0]; with lr = 0.1 the step ends at [0.7, 2]."
    _refuse(answer(batch_gradient, w, begin, anchor, scale, 0.1), mistakes, [0.7, 2.0], right)
    noisy = answer(lambda w: 1e3 * np.ones(3) + w, np.ones(3), np.ones(3), np.array([1.0, 0.0, -2.0]), np.ones(3), 0.5)
    require(_same(noisy, [0.5, 1.0, 2.0]), "At `start` every minibatch must give the same step: the anchor's.")
    rng = generator(3, "course check")
    for dimensions in (1, 6):
        w, begin, anchor, scale = rng.uniform(0.5, 2, (4, dimensions))
        found = answer(lambda w: 3 * w - 1, w, begin, anchor, scale, 0.2)
        require(_same((w - found) / 0.2 - anchor, 3 * scale * (w - begin)), "It fits the first cases only.")


@exercise(
    "3.4",
    "Does it help? A gain with its uncertainty",
    recipe="Subtract seed by seed first. Then the mean of the gains, their deviation (ddof=1) over the root of n, and "
    "that times Student's t on either side of the mean.",
)
def paired_gain(answer):
    ours, rival = np.array([0.90, 0.80, 0.85, 0.70]), np.array([0.85, 0.79, 0.82, 0.67])
    found = answer(ours, rival)
    require(np.shape(found) == (3,), "Return three numbers: the mean gain, and the two ends of its 95% interval.")
    mean, low, high = (float(number) for number in found)
    require(not abs(mean + 0.03) < 1e-6, "A gain is ours minus the rival's.")
    require(abs(mean - 0.03) < 1e-6, f"The gains are 0.05, 0.01, 0.03 and 0.03: mean 0.03, you have {mean:g}.")
    require(low < mean < high, f"An interval lies around the mean, the lower end first. Yours is {low:g} to {high:g}.")
    require(abs(low + high - 2 * mean) < 1e-6, "The interval lies evenly around the mean.")
    half, t = (high - low) / 2, float(stats.t.ppf(0.975, 3))
    spread = float(np.std([0.05, 0.01, 0.03, 0.03], ddof=1))
    mistakes = {
        float(np.sqrt((ours.var(ddof=1) + rival.var(ddof=1)) / 4)): (
            "You treat the two as unrelated. Both saw the same seeds: subtract first."
        ),
        spread: "That is the spread of one gain. A mean of four is surer: think of a root.",
        spread * 3**0.5 / 4: "Few seeds: divide the squares by n - 1, not by n (ddof=1).",
    }
    for error, hint in mistakes.items():
        require(min(abs(half - factor * error) for factor in (1, 1.96, 2, t)) > 1e-6, hint)
    require(
        min(abs(half - factor * spread / 2) for factor in (1, 1.96, 2)) > 1e-4,
        "Four seeds do not know their own spread well: the factor is Student's t with n - 1 degrees of freedom, 3.18 "
        "here, not 1, 1.96 or 2.",
    )
    one_sided = float(stats.t.ppf(0.95, 3)) * spread / 2
    require(abs(half - one_sided) > 1e-6, "95% in the middle leave 2.5% on either side: stats.t.ppf(0.975, ...).")
    right = t * spread / 2
    require(abs(half - right) < 1e-6, f"Half of the interval is {right:.4f} wide, yours {half:.4f}.")
    rng = generator(3, "course check")
    for seeds in (3, 7, 10):
        ours, rival = rng.normal(0.8, 0.05, (2, seeds))
        wanted = estimate(ours - rival).interval()
        found = np.asarray(answer(ours, rival), dtype=float)
        require(_same(found[1:], wanted, 1e-6), f"It fits four seeds and not {seeds}: let the formula count the seeds.")


@exercise(
    "3.5",
    "Your own correction",
    recipe="Begin with gradient(w). What in it is the client's own, and what could stand for everybody's?",
)
def my_direction(answer):
    _alone(answer)
    hidden = toy.Toy(toy.clients(1.0, 0.9).curvatures[::-1], toy.PLACES + np.array([0.3, -0.2]))
    for clients, which in ((toy.clients(), "the picture's clients"), (hidden, "other clients")):
        for lr in CHALLENGE_RATES:
            far = float(clients.distance(toy.travel(clients, 60, lr, STEPS, answer).averages[-1]))
            here = f"With lr = {lr} on {which}"
            require(np.isfinite(far) and far < 10, f"{here} your clients run away. Make the correction gentler.")
            require(far < 0.05, f"{here} the server is still {far:.2f} away after 60 rounds; below 0.05 is asked for.")
