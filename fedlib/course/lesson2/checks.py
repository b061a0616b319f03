"""Lesson 2, client drift: the checks of its exercises."""

import numpy as np

from fedlib.course import toy
from fedlib.course.exercise import exercise, require
from fedlib.course.lesson2.problem import LR, STEPS
from fedlib.problem.streams import generator


def _close(found, wanted, within: float = 1e-6) -> bool:
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() < within)


def _listed(values) -> str:
    return ", ".join(f"{value:.4f}" for value in np.atleast_1d(values))


@exercise(
    "2.1",
    "The walk of a client",
    recipe="Put `start` into a list. Each step appends a point, made from the last one in the list.",
)
def walk(answer):
    found = answer(lambda w: 2 * (w - 3), np.array([1.0]), 0.25, 2)
    require(
        np.shape(found) == (3, 1),
        f"Two steps visit three points, the start is one: shape (3, 1), not {np.shape(found)}.",
    )
    require(_close(found[0], [1.0]), f"The walk begins at `start`, here 1. Yours begins at {float(found[0][0]):g}.")
    require(
        not _close(found[1], [0.0]),
        "Your walk goes uphill: the gradient points to where the loss grows, so subtract it.",
    )
    first = float(found[1][0])
    require(
        _close(first, 2.0), f"From 1 the gradient is -4: the first step ends at 1 + 0.25 * 4. Yours ends at {first:g}."
    )
    require(
        not _close(found[2], [3.0]),
        "Your second step uses the gradient at the start. Ask for it where the client stands.",
    )
    require(_close(found[2], [2.5]), f"The second step should end at 2.5, yours ends at {float(found[2][0]):g}.")
    begin = np.array([0.5, -1.0])
    found = answer(lambda w: np.array([1.0, 3.0]) * w, begin, 0.1, 6)
    require(
        _close(begin, [0.5, -1.0]), "Your function changes `start` itself (w -= ...). Make a new array: w = w - ..."
    )
    require(
        _close(found[-1], [0.5 * 0.9**6, -(0.7**6)]), "In two dimensions it goes wrong: keep arrays and do not round."
    )
    rng = generator(2, "course check")
    for steps in (1, 4, 9):
        start, middle, lr = rng.normal(size=3), rng.normal(size=3), rng.uniform(0.05, 0.3)
        points = np.asarray(answer(lambda w, middle=middle: w - middle, start, lr, steps), dtype=float)
        require(points.shape == (steps + 1, 3), f"{steps} steps visit {steps + 1} points, yours are {len(points)}.")
        require(_close(points[1:], points[:-1] - lr * (points[:-1] - middle)), "It fits the first cases only.")


@exercise(
    "2.2",
    "One round of FedAvg",
    recipe="Let every client walk from the same start. Then average the ends; whose end counts more?",
)
def fedavg_round(answer):
    gradients = [lambda w: w, lambda w: 1.2 * (w - 4)]
    found = float(np.squeeze(answer(gradients, [1, 3], np.array([1.0]), 0.5, 1)))
    hint = "After one step the clients stand at 0.5 and 2.8; the second has three of four samples"
    require(not _close(found, 1.65), f"{hint}, so it counts three times as much. You took the plain mean.")
    require(not _close(found, 8.9), f"{hint}: divide by the sum of the sizes.")
    require(
        not _close(found, 2.075), f"{hint}. Every client starts from the server's model, not where another one stopped."
    )
    require(_close(found, 2.225), f"{hint}. Their average is 2.225, you have {found:g}.")
    found = float(np.squeeze(answer(gradients, [1, 3], np.array([1.0]), 0.5, 2)))
    require(
        not _close(found, 2.745625),
        "With two steps you average after each of them. The clients walk all their steps alone; "
        "the server averages once.",
    )
    require(
        _close(found, 2.7025), f"After two steps they stand at 0.25 and 3.52, which makes 2.7025; you have {found:g}."
    )
    rng = generator(3, "course check")
    for clients, steps in ((3, 5), (5, 2)):
        middles, sizes, start = rng.normal(size=(clients, 2)), rng.integers(1, 9, clients), rng.normal(size=2)
        gradients = [lambda w, middle=middle: w - middle for middle in middles]
        ends = middles + 0.9**steps * (start - middles)
        server = np.asarray(answer(gradients, sizes.tolist(), start, 0.1, steps), dtype=float)
        right = (sizes[:, None] * ends).sum(0) / sizes.sum()
        require(_close(server, right), f"{clients} clients, {steps} steps: {_listed(right)} not {_listed(server)}.")


@exercise(
    "2.3",
    "Where FedAvg comes to rest",
    recipe=(
        "Make every client's B_i first (np.linalg.matrix_power). Then bring all w to one side: "
        "np.linalg.solve does the rest."
    ),
)
def fixed_point(answer):
    one = np.array([[[1.0]], [[2.0]]]), np.array([[0.0], [1.0]])
    found = np.asarray(answer(*one, 0.5, 2), dtype=float)
    case = "H = 1 and 2, m = 0 and 1, lr = 0.5, two steps"
    require(found.shape == (1,), f"Return one point, an array as long as a minimum: shape (1,), not {found.shape}.")
    require(
        not _close(found, [2 / 3]),
        f"{case}: 2/3 is the optimum. FedAvg stops elsewhere; where do the local steps enter?",
    )
    require(
        not _close(found, [1 / 2]), f"{case}: 1/2 is the mean of the minima, which needs endlessly many local steps."
    )
    require(not _close(found, [0.0]), f"{case}: you weigh by what is left, (I - lr H)^steps. Weigh by what was walked.")
    require(_close(found, [4 / 7]), f"{case}: B = 3/4 and 1, so w = 1 / (7/4). You have {found[0]:g}.")
    crowd = toy.Toy(
        np.array([[[1.0, 0.6], [0.6, 1.0]], [[0.3, -0.1], [-0.1, 2.0]]]), np.array([[1.0, -2.0], [0.0, 3.0]])
    )
    place = np.asarray(answer(crowd.curvatures, crowd.minima, 0.2, 7), dtype=float)
    require(place.shape == (2,), f"In two dimensions the point has two entries, yours has shape {place.shape}.")
    moved = toy.travel(crowd, 1, 0.2, 7, start=tuple(place)).averages[1] - place
    require(
        np.abs(moved).max() < 1e-6,
        "With full matrices one more round of FedAvg still moves your point. A matrix to a power is "
        "np.linalg.matrix_power, not **, and B_i @ m_i is a matrix product.",
    )
    rng = generator(4, "course check")
    for clients, dimensions, steps in ((4, 3, 5), (2, 2, 30)):
        roots = rng.normal(size=(clients, dimensions, dimensions))
        more = toy.Toy(roots @ roots.transpose(0, 2, 1) + np.eye(dimensions), rng.normal(size=(clients, dimensions)))
        place = np.asarray(answer(more.curvatures, more.minima, 0.05, steps), dtype=float)
        moved = toy.travel(more, 1, 0.05, steps, start=tuple(place)).averages[1] - place
        require(np.abs(moved).max() < 1e-6, f"{clients} clients in {dimensions} dimensions: one more round moves it.")


@exercise(
    "2.4",
    "The hill between two models",
    recipe="Draw a straight line from the first loss to the last. How far above it do the losses rise?",
)
def barrier(answer):
    cases = {
        (1.0, 3.0, 1.0): (2.0, "From 1 over 3 to 1 the hill is 2 high"),
        (1.0, 3.0, 3.0): (1.0, "From 1 to 3 the straight line is at 2 halfway; a loss of 3 there is 1 above it"),
        (4.0, 1.0, 0.5, 2.0): (0.0, "In a valley the largest excess is that of the ends, 0"),
        (0.0, 0.0, 6.0, 2.0, 4.0): (
            4.0,
            "The hill need not lie in the middle: at the third of five points the line is at 2",
        ),
    }
    for losses, (wanted, why) in cases.items():
        found = float(answer(np.array(losses)))
        require(abs(found - wanted) < 1e-6, f"{why}. For {list(losses)} you have {found:g}.")
    for points in (5, 8, 12):
        losses = generator(points, "course check").uniform(0, 4, points).round(2)
        straight = np.interp(np.arange(points), [0, points - 1], losses[[0, -1]])
        highest = int(np.argmax(losses - straight))
        wanted, found = float((losses - straight)[highest]), float(answer(losses.copy()))
        require(
            abs(found - wanted) < 1e-6,
            f"Here the hill is at point {highest} of 0 to {points - 1}, not in the middle. Look at all points: "
            f"for {losses.tolist()} it is {wanted:.3f} high, you have {found:.3f}.",
        )


@exercise(
    "2.5",
    "Different, and yet no harm",
    recipe="Return curvatures (n x 2 x 2) and minima (n x 2). The sliders of this lesson help to find some.",
)
def harmless(answer):
    curvatures, minima = (np.asarray(part, dtype=float) for part in answer())
    clients = len(minima)
    require(
        clients >= 2 and minima.shape == (clients, 2) and curvatures.shape == (clients, 2, 2),
        "Two or more clients in two dimensions, please: shapes (n, 2, 2) and (n, 2), "
        f"not {curvatures.shape} and {minima.shape}.",
    )
    require(np.allclose(curvatures, curvatures.transpose(0, 2, 1)), "A curvature is a symmetric matrix.")
    steepest = np.linalg.eigvalsh(curvatures)
    require(steepest.min() > 0, "Every client's loss must be a valley: all eigenvalues of its curvature positive.")
    require(
        steepest.max() < 20,
        "Walks with lr = 0.1 run away where the curvature is above 20: make your valleys less steep.",
    )
    farthest = max(float(np.hypot(*(a - b))) for a in minima for b in minima)
    require(farthest >= 1, f"Your minima are at most {farthest:.2f} apart; two of them should be at least 1 apart.")
    yours = toy.Toy(curvatures, minima)
    far = float(yours.distance(toy.resting_place(yours, LR, STEPS)))
    require(
        far < 0.01, f"FedAvg with lr = {LR} and {STEPS} steps rests {far:.2f} off the optimum. What must clients share?"
    )
