"""Lesson 8, who loses and what leaks: the checks of its exercises."""

from collections.abc import Callable, Mapping

import numpy as np

from fedlib.course.exercise import exercise, require
from fedlib.problem.streams import generator


@exercise(
    "8.1",
    "Three accuracies",
    recipe="All: add up first, then divide. Clients: divide first, then the mean. Worst tenth: sort the clients' own "
    "accuracies and take the mean of the lowest tenth.",
)
def three_accuracies(answer):
    right, total = np.array([90, 5, 8, 2] + [8] * 16), np.array([100, 10, 10, 10] + [10] * 16)
    found = answer(right, total)
    require(np.shape(found) == (3,), "Return three numbers: of all samples, mean over clients, worst tenth.")
    pooled, mean, worst = (float(number) for number in found)
    require(max(pooled, mean, worst) <= 1, "Accuracies are shares between 0 and 1, not percent.")
    samples, clients = right.sum() / total.sum(), (right / total).mean()
    require(
        not (_near(pooled, clients) and _near(mean, samples)),
        "The first two have changed places: samples, then clients.",
    )
    require(_near(pooled, samples), f"Of all samples {right.sum()} of {total.sum()} are right, not {pooled:.3f}.")
    require(
        not _near(mean, samples),
        "The mean over clients gives the client with 10 samples as much weight as the one with 100: divide first.",
    )
    require(_near(mean, clients), f"The mean of the clients' own accuracies is {clients:.4f}, not {mean:.4f}.")
    require(not _near(worst, 0.2), "That is the single worst client. A tenth of 20 clients are two: their mean.")
    require(not _near(worst, 0.85), "These are the best two: the worst tenth is at the other end.")
    require(_near(worst, 0.35), f"The two worst of 20 clients have 0.2 and 0.5: mean 0.35, not {worst:.3f}.")
    few = [float(number) for number in answer(np.array([1, 4]), np.array([4, 4]))]
    require(_near(few[2], 0.25), "With fewer than ten clients the worst tenth is the worst client: take at least one.")
    rng = generator(11, "course check")
    for clients in (30, 47):
        total = rng.integers(5, 50, clients)
        right = rng.binomial(total, rng.uniform(0.2, 1, clients))
        own = np.partition(right / total, clients // 10)[: clients // 10]
        wanted = (right.sum() / total.sum(), (right / total).mean(), own.mean())
        found = np.asarray(answer(right, total), dtype=float)
        require(np.allclose(found, wanted), f"{clients} clients: {np.round(wanted, 3)}, not {np.round(found, 3)}.")


def _near(found: float, wanted: float) -> bool:
    return abs(found - wanted) < 1e-6


@exercise(
    "8.2",
    "Whose gradient counts how much",
    recipe="The chain rule: the gradient of F^(q+1) / (q+1) is F^q times the gradient of F. So client i's gradient has "
    "the factor n_i F_i^q; divide the factors by their sum.",
)
def fair_weights(answer):
    losses, sizes = np.array([1.0, 2.0]), np.array([3, 1])
    found = np.asarray(answer(losses, sizes, 2.0), dtype=float)
    require(found.shape == (2,), f"One weight per client, not {found.shape}.")
    mistakes = [
        ([3 / 4, 1 / 4], "These are FedAvg's weights: where does the loss enter?"),
        ([1 / 5, 4 / 5], "The sizes are missing: F_i^q counts for each of the n_i samples."),
        ([3 / 11, 8 / 11], "The power is q, not q + 1: differentiate."),
        ([12 / 13, 1 / 13], "A high loss must count more, not less."),
        ([6 / 10, 4 / 10], "F_i to the power of q, not q times F_i."),
    ]
    for wrong, hint in mistakes:
        require(not np.allclose(found, wrong, atol=1e-6), hint)
    require(abs(found.sum() - 1) < 1e-6, f"An average needs weights that add up to 1; yours add up to {found.sum():g}.")
    right = [3 / 7, 4 / 7]
    require(np.allclose(found, right, atol=1e-6), f"Losses 1 and 2, sizes 3 and 1, q = 2: 3/7 and 4/7, not {found}.")
    plain = np.asarray(answer(losses, sizes, 0.0), dtype=float)
    require(np.allclose(plain, [3 / 4, 1 / 4]), "With q = 0 it must be FedAvg: 3/4 and 1/4.")
    rng = generator(12, "course check")
    for clients, q in ((3, 1.0), (6, 0.5), (4, 5.0)):
        losses, sizes = rng.uniform(0.1, 3, clients), rng.integers(1, 20, clients)
        slope = _slopes(lambda values, sizes=sizes, q=q: (sizes * values ** (q + 1)).sum() / (q + 1), losses)
        found = np.asarray(answer(losses, sizes, q), dtype=float)
        fits = found.shape == slope.shape and np.allclose(found, slope / slope.sum(), atol=1e-5)
        require(fits, f"{clients} clients, q = {q}: the objective's slopes are {np.round(slope / slope.sum(), 3)}.")


def _slopes(objective: Callable[[np.ndarray], float], at: np.ndarray, width: float = 1e-5) -> np.ndarray:
    """How the objective changes with each loss, by central differences."""
    steps = width * np.eye(len(at))
    return np.array([(objective(at + step) - objective(at - step)) / (2 * width) for step in steps])


@exercise(
    "8.3",
    "A picture from a gradient",
    recipe="For one sample the gradient of row j is delta_j times x, and the bias's is delta_j alone. Divide the row "
    "by its bias entry; take the row whose entry is farthest from zero.",
)
def reveal(answer):
    x = np.array([0.5, 0.0, 2.0])
    delta = np.array([0.0, -0.2, 0.1])
    given = [np.outer(delta, x), delta.copy()]
    found = np.asarray(answer(*given), dtype=float)
    require(np.array_equal(given[1], delta), "Leave the inputs unchanged.")
    require(found.shape == (3,), f"The picture has as many pixels as a row: shape (3,), not {found.shape}.")
    require(np.isfinite(found).all(), "You divide by zero: a unit that the sample did not reach tells nothing.")
    require(
        not np.allclose(found, -0.2 * x), "That is a row of the gradient: delta_j x. How do you get rid of delta_j?"
    )
    require(not np.allclose(found, -x), "The sign is wrong: divide by the entry itself, not by its size.")
    require(np.allclose(found, x), f"The sample was {x.tolist()}, you have {np.round(found, 3).tolist()}.")
    rng = generator(13, "course check")
    for units, pixels in ((4, 6), (30, 12)):
        x, delta = rng.uniform(0, 1, pixels), rng.normal(size=units) * (rng.random(units) < 0.5)
        delta[-1] = 1.5
        noise = 1e-4 * rng.normal(size=(units, pixels))
        found = np.asarray(answer(np.outer(delta, x) + noise, delta), dtype=float)
        require(
            found.shape == x.shape and np.abs(found - x).max() < 1e-3,
            f"{units} units, a little rounding: take the unit whose bias gradient is farthest from zero.",
        )


@exercise(
    "8.4",
    "Masks that cancel",
    recipe="Of two clients one adds the pair's secret and the other subtracts it: let the smaller number add. Ask for "
    "the secret of this round, and work on a new array.",
)
def mask(answer):
    size = 4
    asked = []

    def secret(first, second, round):
        asked.append((first, second, round))
        low, high = sorted((int(first), int(second)))
        return 100 * generator(14, "pair", int(round), 100 * low + high).normal(size=size)

    rng = generator(15, "course check")
    updates = rng.normal(size=(4, size))
    numbers = [3, 7, 12, 40]
    sent = {}
    for round in (1, 2):
        for row, me in enumerate(numbers):
            given = updates[row].copy()
            others = [number for number in numbers if number != me]
            sent[round, me] = np.asarray(answer(given, me, others, secret, round), dtype=float)
            require(np.array_equal(given, updates[row]), "Your function changes `update` itself. Make a new array.")
            require(sent[round, me].shape == (size,), "A message is as long as the update.")
    far = min(np.abs(sent[1, me] - updates[row]).max() for row, me in enumerate(numbers))
    require(far > 1, "A message shows the update nearly as it is: where is the mask?")
    total = sum(sent[1, me] for me in numbers)
    require(
        np.allclose(total, updates.sum(0), atol=1e-6),
        "The masks do not cancel: the sum of all messages is not the sum of all updates. Two clients share a secret; "
        "if both add it, it counts twice.",
    )
    require(
        min(np.abs(sent[1, me] - sent[2, me]).max() for me in numbers) > 1,
        "In rounds 1 and 2 a client with the same update sends the same message. Whoever subtracts two messages sees "
        "how the update changed: use the secret of the round.",
    )
    pairs = {frozenset((int(a), int(b))) for a, b, _ in asked}
    require(len(pairs) == 6, "Every pair of clients needs its own secret; three of four clients could else unmask one.")
    require(
        np.allclose(sum(sent[2, me] for me in numbers), updates.sum(0), atol=1e-6), "In round 2 they do not cancel."
    )


METHODS: Mapping[str, tuple[str, str]] = {
    "FedAvg": ("sum", "It needs the sum of n_i w_i and the sum of n_i, nothing else."),
    "SCAFFOLD": (
        "sum",
        "Server and control variate both change by a sum over clients; c_i itself stays at the client.",
    ),
    "FedNova": ("sum", "A client can divide by its own steps; the server needs the sums of p_i d_i and of p_i tau_i."),
    "FedAdam": ("sum", "The server's memories are made from the average change."),
    "q-fair": (
        "sum",
        "A client can multiply its update by n_i F_i^q; the server needs that sum and the sum of factors.",
    ),
    "FedSR": ("single", "In a ring a device receives the model of the one before it, as it is: there is no sum."),
    "FedGS": ("single", "To choose a group the server needs every client's label histogram."),
    "FedACS": ("single", "It compares each participant's gradient of the last layer with the mean of all."),
    "asynchronous": ("single", "Each answer is used alone, as soon as it comes; there is nobody to hide behind."),
}


@exercise(
    "8.5",
    "Who can do without single updates (open)",
    recipe="Ask for each method: what does the server compute from what clients send? If it can be written as sums "
    "over the clients of a round, it is 'sum'. If one client's message is used or compared by itself, it is 'single'.",
)
def needs(answer):
    form = f"A dictionary with 'sum' or 'single' for {', '.join(METHODS)}."
    require(isinstance(answer, Mapping) and set(METHODS) <= set(answer), form)
    wrong = [name for name in METHODS if str(answer[name]).strip().lower() not in ("sum", "single")]
    require(not wrong, f"{form} You have {answer[wrong[0]]!r} for {wrong[0]}." if wrong else "")
    missed = [name for name, (right, _) in METHODS.items() if str(answer[name]).strip().lower() != right]
    told = f"{len(missed)} of {len(METHODS)} are not right, among them {missed[0]}." if missed else ""
    require(len(missed) < 3, f"{told} What does the server compute from what the clients send?")
    require(not missed, f"{told} {METHODS[missed[0]][1] if missed else ''}")
