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
    "Where the spring rests",
    recipe="Set h (w_i - m) + mu (w_i - w) to zero: client i ends at w_i = (h m + mu w) / (h + mu). The mean of the "
    "w_i is w; bring all w to one side.",
)
def spring_rest(answer):
    case = "h = 1 and 2, m = 0 and 1, mu = 2"
    pair = np.array([1.0, 2.0]), np.array([0.0, 1.0])
    found = np.asarray(answer(*pair, 2.0), dtype=float)
    require(found.ndim == 0, f"Return one number, the server's weight, not {found}.")
    hints = {
        2 / 3: "that is the optimum, which takes an endlessly strong spring.",
        1 / 2: "that is the mean of the minima, which takes no spring at all.",
        4 / 7: "you weigh the minima by h + mu. How far does client i get on its way to m?",
        3 / 7: "a steep client gets farther than a flat one: h stands above the fraction line, too.",
        5 / 6: "you add up the ends: the server takes their mean, and w itself is in them.",
    }
    for wrong, hint in hints.items():
        require(abs(float(found) - wrong) > 1e-6, f"{case}: {hint}")
    require(abs(float(found) - 0.6) < 1e-6, f"{case}: the clients go 1/3 and 1/2 of their ways: 0.6, not {found:g}.")
    require(abs(float(answer(*pair, 0.0)) - 1 / 2) < 1e-6, "Without a spring every client ends at its own minimum.")
    require(abs(float(answer(*pair, 1e9)) - 2 / 3) < 1e-6, "With an endlessly strong spring it is the optimum, 2/3.")
    rng = generator(1, "course check")
    for clients in (2, 5):
        h, m, mu = rng.uniform(0.1, 3, clients), rng.normal(size=clients), float(rng.uniform(0.1, 4))
        w = float(answer(h, m, mu))
        left = h * (m - w) / (h + mu)  # how far each client goes from there
        require(abs(left.mean()) < 1e-8, f"{clients} clients, mu = {mu:.2f}: one more round still moves the server.")


@exercise(
    "3.2",
    "SCAFFOLD, repaired",
    recipe="Three places: the sign of c_i and c in the step; whose number of steps divides the way walked; and c, "
    "which has to become the mean of the new c_i.",
)
def scaffold_round(answer):
    curvatures, minima, steps = np.array([1.0, 2.0, 0.5]), np.array([0.0, 1.0, -2.0]), [1, 4, 2]
    seen: list[list[np.ndarray]] = []

    def slopes():
        seen[:] = [[] for _ in curvatures]

        def slope(client):
            def gradient(w):
                found = curvatures[client] * (np.asarray(w, dtype=float) - minima[client])
                seen[client].append(found)
                return found

            return gradient

        return [slope(client) for client in range(len(curvatures))]

    x, none = np.array([1.0]), np.zeros((3, 1))
    first = answer(slopes(), x, none[0], none, 0.1, steps)
    require(isinstance(first, tuple | list) and len(first) == 3, "Return three things: the new x, c and own.")
    require(np.array_equal(none, np.zeros((3, 1))), "You changed `own` in place. Make a new array.")
    require(x[0] == 1, "You changed x itself: after y = x, y -= ... changes both. Write y = y - ... instead.")
    took = [len(calls) for calls in seen]
    require(took == steps, f"The clients make {steps} steps, one gradient each. Yours asked for {took} gradients.")
    model, c, own = (np.asarray(part, dtype=float) for part in first)
    ends = minima + (1 - 0.1 * curvatures) ** np.array(steps) * (x - minima)
    require(_same(model, [ends.mean()]), "With c and all c_i zero a round is FedAvg's: the mean of the clients' ends.")
    require(own.shape == (3, 1), f"One row per client in own: shape (3, 1), not {own.shape}.")
    means = np.array([np.mean(calls, axis=0) for calls in seen])
    most = means * np.array(steps)[:, None] / max(steps)
    require(not _same(own, most), "Divide the way that a client walked by *its own* number of steps.")
    require(_same(own, means), "c_i is the mean of the client's own gradients along its walk. Yours is something else.")
    require(not _same(c, [0.0]), "c is still what it was: the server's c has to follow the clients' c_i.")
    require(_same(c, means.mean(0)), "c is the mean of the new c_i.")
    second = answer(slopes(), model, c, own, 0.1, [1, 1, 1])
    after = np.asarray(second[0], dtype=float)
    gradients = curvatures[:, None] * (model - minima[:, None])
    remembered = np.asarray(second[2], dtype=float)
    require(not _same(remembered, gradients + 2 * (own - c)), "The signs of c_i and c in the step are swapped.")
    require(_same(after, model - 0.1 * gradients.mean(0)), "With one step each the corrections cancel in the mean.")
    require(
        _same(remembered, gradients),
        "After one step c_i is the gradient there. Yours is not: subtract c_i and add c in the step, then take both "
        "back.",
    )
    _arrives(answer)


def _arrives(answer: Callable) -> None:
    """On the toy, with unequal steps, the server ends at the optimum."""
    clients = toy.clients()
    gradients = [
        lambda w, H=H, m=m: H @ (np.asarray(w, dtype=float) - m)
        for H, m in zip(clients.curvatures, clients.minima, strict=True)
    ]
    x, own = np.array(toy.START), np.zeros_like(clients.minima)
    c = own.mean(0)
    for _ in range(300):
        x, c, own = (np.asarray(part, dtype=float) for part in answer(gradients, x, c, own, 0.1, [5, 20, 10]))
    far = float(clients.distance(x))
    require(np.isfinite(far) and far < 1e-3, f"On the toy with 5, 20 and 10 steps it ends {far:.3f} off the optimum.")


@exercise(
    "3.3",
    "FedDyn's round, solved exactly",
    recipe="The gradient of the client's problem is H (w - m) - g + alpha (w - theta). Collect w on the left: "
    "(H + alpha I) w = H m + g + alpha theta, and np.linalg.solve. The rest of the round is in the text.",
)
def feddyn_round(answer):
    pair = np.array([[[1.0]], [[2.0]]]), np.array([[0.0], [1.0]])
    memories, theta = np.zeros((2, 1)), np.array([1.0])
    found = answer(*pair, theta, memories, 1.0)
    require(isinstance(found, tuple | list) and len(found) == 2, "Return two things: the new theta and the memories.")
    require(not memories.any() and theta[0] == 1, "You changed the inputs in place. Make new arrays.")
    new, kept = (np.asarray(part, dtype=float) for part in found)
    require(
        new.shape == (1,) and kept.shape == (2, 1), f"Shapes (1,) and (2, 1), please, not {new.shape}, {kept.shape}."
    )
    case = "H = 1 and 2, m = 0 and 1, theta = 1, alpha = 1, empty memories: the clients end at 1/2 and 1"
    require(
        not _same(kept, [[-0.5], [0.0]]), f"{case}. The memory moves against the walk: minus alpha (theta_k - theta)."
    )
    require(_same(kept, [[0.5], [0.0]]), f"{case}, so the memories become 1/2 and 0. You have {kept.ravel().tolist()}.")
    hints = {
        0.75: "That is the mean of the ends. The server still subtracts h / alpha, h the mean of the new memories.",
        1.0: "The server subtracts h / alpha; you added it.",
        0.25: "h is the mean of the memories, not their sum.",
    }
    for wrong, hint in hints.items():
        require(not _same(new, [wrong]), f"{case}. {hint}")
    require(_same(new, [0.5]), f"{case}: theta becomes 3/4 - 1/4 = 1/2, not {new[0]:g}.")
    rng = generator(2, "course check")
    for clients, dimensions, alpha in ((3, 2, 0.5), (4, 3, 2.0)):
        roots = rng.normal(size=(clients, dimensions, dimensions))
        H, m = roots @ roots.transpose(0, 2, 1) + np.eye(dimensions), rng.normal(size=(clients, dimensions))
        theta, g = rng.normal(size=dimensions), rng.normal(size=(clients, dimensions))
        new, kept = (np.asarray(part, dtype=float) for part in answer(H, m, theta.copy(), g.copy(), alpha))
        ends = theta - (kept - g) / alpha  # by the rule of the memories
        slopes = np.einsum("cij,cj->ci", H, ends - m)
        require(
            np.allclose(kept, slopes, atol=1e-6),
            f"{clients} clients, {dimensions} weights: solved exactly, a memory becomes the client's gradient at its "
            "end. Yours does not: is the gradient of the whole problem zero there? (H m is a matrix product: H @ m.)",
        )
        require(_same(new, ends.mean(0) - kept.mean(0) / alpha, 1e-6), f"{clients} clients: theta is another.")


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
