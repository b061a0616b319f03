"""Lesson 7, the bill: the checks of its exercises."""

import re

import numpy as np

from fedlib.course.exercise import NotYet, exercise, number_in, require, whole_number_in
from fedlib.course.lesson7.problem import ENERGY_J, PRICES, TIME_S, joules, numbers_of, plan, sending_j
from fedlib.problem.streams import generator


@exercise(
    "7.1",
    "A bill that does not trust to luck",
    recipe=(
        "Walk through the rounds, counted from 1, with a counter of good rounds in a row; "
        "a round below the target sets it to 0."
    ),
)
def bill(answer):
    curve = [0.3, 0.8, 0.7, 0.6, 0.8, 0.85, 0.9, 0.6]
    found = answer(curve, 0.8, 20, 1)
    require(
        found != 20,
        "The first accuracy belongs to round 1, but Python counts it as 0: one round is missing on your bill.",
    )
    require(found != 120, "Reaching the target means at least the target: 0.8 is enough for 0.8.")
    told = (
        f"For {curve}, target 0.8, 20 models per round and patience 1, two rounds are 40 models. You returned {found}."
    )
    require(found == 40, told)
    patient = answer(curve, 0.8, 20, 3)
    require(patient != 40, "With patience 3 one lucky round is not enough: ask for three good rounds in a row.")
    require(
        patient != 100,
        "The bill is due at the end of the three rounds in a row: only then do you know that they were good.",
    )
    require(
        patient != 120,
        "In a row: a round below the target starts the counting anew. Yours also counts good rounds before it.",
    )
    require(
        patient == 140,
        f"With patience 3, rounds 5, 6 and 7 are the first in a row, so seven rounds are paid: 140. Not {patient}.",
    )
    never = answer([0.9, 0.1, 0.9], 0.5, 20, 2)
    require(
        never is None,
        f"A curve that never stays at the target has no bill: return None. {never} would look like a price.",
    )
    twice = [0.9, 0.9, 0.1, 0.9, 0.9]
    found = answer(twice, 0.5, 20, 2)
    require(found != 100, "The first time counts: two good rounds end in round 2, the later ones change nothing.")
    require(found == 40, f"For {twice}, target 0.5 and patience 2 the bill is 40, not {found}.")
    for seed in range(8):
        rng = generator(seed, "course check")
        curve, patience = rng.uniform(0, 1, 12).round(2).tolist(), int(rng.integers(1, 4))
        due = _first_end(np.array(curve) >= 0.5, patience)
        right, found = None if due is None else 7 * due, answer(curve, 0.5, 7, patience)
        told = f"For {curve}, target 0.5, cost 7 and patience {patience} the bill is {right}, you have {found}."
        require(found == right, told)


def _first_end(good: np.ndarray, patience: int) -> int | None:
    """The first round, counted from 1, that ends this many good rounds in a row."""
    ends = [end for end in range(patience, len(good) + 1) if good[end - patience : end].all()]
    return ends[0] if ends else None


@exercise(
    "7.2",
    "Splitting the band",
    recipe=(
        "Try many shares b between 0 and 1. The devices spend sending_j(b, first) + sending_j(1 - b, second); "
        "return the b with the least sum."
    ),
)
def best_share(answer):
    for first, second in ((50.0, 50.0), (1.5, 1e5), (300.0, 20.0)):
        found = answer(first, second)
        share = number_in(found)
        if share is None or not 0 < share < 1:
            raise NotYet(f"Return one number between 0 and 1, the first device's share. You returned {found}.")
        spent = {b: sending_j(b, first) + sending_j(1 - b, second) for b in (share, 1 - share, *_beside(share))}
        told = f"With snr {first:g} and {second:g} you give the first device {share:.3f}, for {spent[share]:.4f} J."
        mixed_up = spent[1 - share] < spent[share] * (1 - 1e-9)
        require(not mixed_up, f"{told} The other way round would be cheaper: have you mixed up the two devices?")
        cheaper = min(_beside(share), key=spent.__getitem__)
        missed = f"{told} A share of {cheaper:.3f} costs {spent[cheaper]:.4f} J. Try more shares, at least a hundred."
        require(spent[share] <= spent[cheaper], missed)


def _beside(share: float) -> tuple[float, float]:
    """Shares a little smaller and a little larger: energy is convex, so the best share beats both."""
    return max(share - 0.02, share / 2), min(share + 0.02, (1 + share) / 2)


@exercise(
    "7.3",
    "An average of unequal work",
    recipe="Leave out who did nothing. A client's mean step is (model - w) / steps. Average the mean steps by size, "
    "and go along it as many steps as the clients took on average, by size again.",
)
def fair_average(answer):
    w, models = np.array([0.0]), np.array([[1.0], [2.0]])
    equal = np.asarray(answer(w, models, np.array([1, 3]), np.array([5, 5])), dtype=float)
    require(equal.shape == (1,), f"Return the server's new model, an array like w: shape (1,), not {equal.shape}.")
    require(_near(equal, 1.75), f"With equal steps it must be FedAvg: (1 + 3 * 2) / 4 = 1.75, not {equal[0]:g}.")
    found = np.asarray(answer(w, models, np.array([1, 3]), np.array([1, 4])), dtype=float)
    case = "Clients at 1 (one step, one sample) and 2 (four steps, three samples), server at 0"
    hints = {
        1.75: "that is FedAvg: the client of four steps pulls with all of them.",
        0.625: "that is one mean step. The clients took several: how many on average?",
        1.5625: "the average number of steps counts the clients by size, too.",
        1.875: "mean steps are averaged by size: one sample against three.",
        2.5: "go as many steps as the clients took on average, not as many as the most industrious one.",
        1.923076923: "weighing models by steps makes it worse: who walks more would count even more.",
    }
    for wrong, hint in hints.items():
        require(not _near(found, wrong), f"{case}: {hint}")
    right = (1 / 4 * 1 + 3 / 4 * 2 / 4) * (1 / 4 * 1 + 3 / 4 * 4)
    require(
        _near(found, right), f"{case}: the mean steps are 1 and 1/2. You have {found[0]:g}, it should be {right:g}."
    )
    idle = np.asarray(answer(w, np.array([[1.0], [2.0], [0.0]]), np.array([1, 3, 9]), np.array([1, 4, 0])), dtype=float)
    require(np.isfinite(idle).all(), "A client that got nothing done has no mean step: leave it out before you divide.")
    require(_near(idle, right), "Who did nothing must change nothing: leave it out of both averages.")
    rng = generator(9, "course check")
    for clients, weights in ((3, 2), (6, 4)):
        gradient, start = rng.normal(size=weights), rng.normal(size=weights)
        sizes, steps = rng.integers(1, 9, clients), rng.integers(1, 9, clients)
        same = start - 0.1 * steps[:, None] * gradient  # all clients descend one slope
        found = np.asarray(answer(start, same, sizes, steps), dtype=float)
        wanted = start - 0.1 * (sizes @ steps) / sizes.sum() * gradient
        require(
            np.allclose(found, wanted),
            "If all clients take the same steps, only in different numbers, go on along them.",
        )
        bent = start + steps[:, None] * rng.normal(size=(clients, weights))
        direction = (sizes[:, None] * (bent - start) / steps[:, None]).sum(0) / sizes.sum()
        found = np.asarray(answer(start, bent, sizes, steps), dtype=float)
        require(np.allclose(found, start + (sizes @ steps) / sizes.sum() * direction), f"{clients} clients: elsewhere.")


def _near(found: np.ndarray, value: float) -> bool:
    return found.shape == (1,) and abs(float(found[0]) - value) < 1e-6


@exercise(
    "7.4",
    "How old an answer is",
    recipe="For every answer count the answers that ended after it was begun and before it ended. Those that ended in "
    "the very moment when it was begun are in its model already.",
)
def staleness(answer):
    begun, ended = np.array([0.0, 0.0, 1.0, 3.0]), np.array([1.0, 4.0, 3.0, 6.0])
    given = [begun.copy(), ended.copy()]
    found = np.asarray(answer(*given), dtype=float)
    require(found.shape == (4,), f"Four answers, four counts. Yours have the shape {found.shape}.")
    require(
        all(np.array_equal(a, b) for a, b in zip(given, (begun, ended), strict=True)), "Leave the inputs unchanged."
    )
    hints = {
        (1, 3, 1, 2): "An answer does not make itself stale: do not count it.",
        (
            0,
            2,
            1,
            2,
        ): "What ended in the very moment when an answer was begun is in its model already: it does not count.",
        (0, 3, 1, 1): "Count answers that have come in, not those that were begun in the meantime.",
        (0, 0, 0, 0): "The second answer was at work from 0 to 4; two others came in in that time.",
    }
    for wrong, hint in hints.items():
        require(found.tolist() != list(wrong), hint)
    require(
        found.tolist() == [0, 2, 0, 1],
        f"For begun {begun.tolist()}, ended {ended.tolist()}: 0, 2, 0, 1, not {found.tolist()}.",
    )
    rng = generator(10, "course check")
    for tasks in (5, 40):
        begun = rng.uniform(0, 10, tasks)
        ended = begun + rng.exponential(3, tasks)
        order = np.sort(ended)
        wanted = np.searchsorted(order, ended) - np.searchsorted(order, begun, side="right")
        found = np.asarray(answer(begun, ended), dtype=float)
        require(
            np.array_equal(found, wanted),
            f"{tasks} answers in no particular order: {wanted.tolist()[:5]} ... is right.",
        )


@exercise(
    "7.5",
    "Under a budget (open)",
    recipe="Take the table of joules: for each method, rounds = the smaller of 120 s / deadline and 150 J / joules. "
    "Choose by that and by the race, and say in `reason` what a rival would have got.",
)
def choice(answer):
    keys = ("method", "rounds", "deadline_s", "reason")
    form = f"The choice is a dictionary with the keys {', '.join(keys)}. Start from the price list."
    require(isinstance(answer, dict) and set(keys) <= answer.keys(), form)
    method, rounds, deadline_s, reason = (answer[key] for key in keys)
    require(method in PRICES, f"{method!r} is not on the price list. It has: {', '.join(PRICES)}.")
    whole, seconds_each = whole_number_in(rounds), number_in(deadline_s)
    require(whole is not None and whole > 0, f"rounds must be a whole number above 0; yours is {rounds!r}.")
    if seconds_each is None or seconds_each <= 0:
        raise NotYet(f"deadline_s is a number of seconds above 0; yours is {deadline_s!r}.")
    deadline_s = seconds_each
    reach = plan(method, deadline_s).feasibility
    require(reach.feasible, f"{deadline_s:g} s are too short for a round of {method}. {reach.explain()}")
    seconds, spent = rounds * deadline_s, rounds * joules(method, deadline_s)
    require(seconds <= TIME_S, f"{rounds} rounds of {deadline_s:g} s take {seconds:g} s; you have {TIME_S:g} s.")
    require(
        spent <= ENERGY_J,
        f"{rounds} rounds of {method} at {deadline_s:g} s cost {spent:.0f} J; you have {ENERGY_J:g} J.",
    )
    left = f"You use {seconds:g} of {TIME_S:g} s and {spent:.0f} of {ENERGY_J:g} J: half of both is left. More rounds?"
    require(max(seconds / TIME_S, spent / ENERGY_J) > 0.5, left)
    _argued(method, str(reason))


def _argued(method: str, reason: str) -> None:
    """A reason compares the choice with another method, by a number of the lesson; whether it convinces, people say."""
    words = {word.lower() for word in re.findall(r"[A-Za-z]{2,}", reason)}
    require(len(words) >= 12, f"Argue with at least a dozen different words; yours are {len(words)}.")
    rivals = [name for name in PRICES if name != method and re.search(rf"\b{name}\b", reason)]
    require(rivals, f"Compare {method} with another method of the price list, by its name.")
    told = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", reason)}
    known = {name: numbers_of(name) for name in rivals}
    require(
        any(told & numbers for numbers in known.values()),
        f"Give a number for {rivals[0]}: its models sent or passes per round, the joules of a round from the table, or "
        "the rounds that the budgets allow it.",
    )
