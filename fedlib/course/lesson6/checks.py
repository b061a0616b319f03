"""Lesson 6, the server's step and the bill: the checks of its exercises."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedlib.course.exercise import NotYet, exercise, number_in, require, whole_number_in
from fedlib.course.lesson6.problem import (
    ENERGY_J,
    PRICES,
    TIME_S,
    Valley,
    joules,
    numbers_of,
    plan,
    sending_j,
    walk,
    walk_with,
)
from fedlib.problem.streams import generator


def _same(found, right) -> bool:
    found, right = torch.as_tensor(found, dtype=torch.float64), torch.as_tensor(right, dtype=torch.float64)
    return found.shape == right.shape and torch.allclose(found, right, rtol=1e-5, atol=1e-6)


def _expect(what: str, found, right: list[float], mistakes: Mapping[str, Sequence[float]]) -> None:
    """The value must be right; a known mistake gets its own hint."""
    for hint, wrong in mistakes.items():
        require(not _same(found, wrong), hint)
    require(_same(found, right), f"{what} should be {right}, yours is {_plain(found)}.")


def _plain(value):
    return [round(each, 4) for each in value.tolist()] if isinstance(value, torch.Tensor) else value


def _vectors(*rows: Sequence[float] | Sequence[Sequence[float]]) -> list[torch.Tensor]:
    return [torch.tensor(row, dtype=torch.float64) for row in rows]


def _untouched(before: list[torch.Tensor], after: list[torch.Tensor]) -> None:
    kept = all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    require(kept, "The step changed its inputs in place (+= or mul_). Make new tensors: the caller needs the old ones.")


def _parts(answer, names: str) -> None:
    wanted = names.count(",") + 1
    fits = isinstance(answer, tuple | list) and len(answer) == wanted
    require(
        fits, f"Return {wanted} things, in this order: {names}. The server needs its memory again in the next round."
    )


@exercise(
    "6.1",
    "A server with momentum",
    recipe="Average the models by size and subtract w: that is Delta. Then m = beta m + Delta, and w follows m.",
)
def momentum_step(answer):
    w, models, sizes, still, m = _vectors([1, 2], [[3, 2], [1, 6]], [1, 3], [0, 0], [2, -2])
    before = [each.clone() for each in (w, m, models)]
    step = answer(w, still, models, sizes, 1.0, 0.0)
    _parts(step, "w, m")
    _expect(
        "With beta = 0 and rate 1 this is FedAvg: from w = [1, 2] and models [3, 2], [1, 6] of sizes 1 and 3, "
        "the new w",
        step[0],
        [1.5, 5.0],
        {
            "Weigh the clients by their sizes: one has 1 sample, the other 3.": [2, 4],
            "Delta points to where the clients went, so the server adds it. Yours walks the other way.": [0.5, -1],
            "Delta is the average minus w; it seems that you added the whole average to w.": [2.5, 7],
        },
    )
    new_w, new_m = answer(w, m, models, sizes, 0.1, 0.5)
    _expect(
        "With m = [2, -2], beta = 0.5 and Delta = [0.5, 3], the new m",
        new_m,
        [1.5, 2.0],
        {
            "FedAvgM adds the whole Delta to beta m. The factor (1 - beta) belongs to Adam's first moment.": [
                1.25,
                0.5,
            ],
            "The old m should fade: multiply it by beta.": [2.5, 1.0],
            "Keep the server's rate out of m; it scales the step of w only.": [1.05, -0.7],
        },
    )
    _expect(
        "With rate 0.1 and new m = [1.5, 2], the new w",
        new_w,
        [1.15, 2.2],
        {
            "Step along the new m, not along the old one: this round's clients would not be heard.": [1.2, 1.8],
            "The server's rate is missing in the step of w.": [2.5, 4.0],
        },
    )
    _untouched(before, [w, m, models])
    draws = torch.Generator().manual_seed(1)
    for clients, weights in ((5, 3), (2, 7)):
        w, m = torch.rand(2, weights, generator=draws, dtype=torch.float64)
        models = torch.rand(clients, weights, generator=draws, dtype=torch.float64)
        sizes = torch.randint(1, 9, (clients,), generator=draws).double()
        new_w, new_m = answer(w, m, models, sizes, 0.3, 0.8)
        balanced = _same(sizes @ (models - w - (new_m - 0.8 * m)), torch.zeros(weights))  # m - beta m is Delta
        require(balanced and _same(new_w - w, 0.3 * new_m), f"{clients} clients, {weights} weights: another step.")


@exercise(
    "6.2",
    "A server with Adam",
    recipe=(
        "Three lines: m keeps beta1 of itself and takes (1 - beta1) of Delta; v the same with beta2 and Delta squared; "
        "then w."
    ),
)
def adam_step(answer):
    w, still, delta = _vectors([10, 10], [0, 0], [3, -1])
    first = answer(w, still, still, delta, 1.0, 0.0, 0.0, 1.0)
    _parts(first, "w, m, v")
    squares = {"v remembers squares: use delta ** 2.": [3, -1]}
    _expect("Without memory (both betas 0) and with Delta = [3, -1], v", first[2], [9.0, 1.0], squares)
    _expect(
        "With m = [3, -1], v = [9, 1], tau = 1 and rate 1, the new w",
        first[0],
        [10.75, 9.5],
        {
            "Delta points downhill already: add the step. (A gradient would be subtracted.)": [9.25, 10.5],
            "Divide by the root of v, plus tau; the root is missing.": [10.3, 9.5],
            "tau stands outside the root here: sqrt(v) + tau.": [10 + 3 / 10**0.5, 10 - 1 / 2**0.5],
        },
    )
    w, m, v, delta = _vectors([1, 1], [6, 0], [29, 61], [2, -4])
    before = [each.clone() for each in (w, m, v, delta)]
    new_w, new_m, new_v = answer(w, m, v, delta, 12.0, 0.75, 0.2, 1.0)
    _expect(
        "With m = [6, 0], Delta = [2, -4] and beta1 = 0.75, the new m",
        new_m,
        [5.0, -1.0],
        {
            "beta1 is the share of the old m that stays; 1 - beta1 is what Delta gets. Yours are swapped.": [3, -3],
            "Adam's m is an average: Delta enters with the factor (1 - beta1).": [6.5, -4],
        },
    )
    swapped = {"beta2 and 1 - beta2 are swapped.": [24, 52]}
    _expect("With v = [29, 61], Delta = [2, -4] and beta2 = 0.2, the new v", new_v, [9.0, 25.0], swapped)
    corrected = [1 + 240 / ((9 / 0.8) ** 0.5 + 1), 1 - 48 / ((25 / 0.8) ** 0.5 + 1)]
    _expect(
        "With new m = [5, -1], new v = [9, 25], tau = 1 and rate 12, the new w",
        new_w,
        [16.0, -1.0],
        {
            "Step with the new m; yours uses the old one.": [19, 1],
            "Divide by the root of the new v; yours uses the old one.": [
                1 + 60 / (29**0.5 + 1),
                1 - 12 / (61**0.5 + 1),
            ],
            "FedAdam leaves Adam's bias correction out: no division by 1 - beta.": corrected,
        },
    )
    _untouched(before, [w, m, v, delta])
    options = {"server_lr": 0.3, "beta1": 0.9, "beta2": 0.99, "tau": 0.001}
    same = _same(walk_with(answer, Valley(), 10, **options), walk("fedadam", Valley(), 10, **options))
    require(
        same,
        "Single steps are right, but ten rounds in the valley part from the library's FedAdam. Is every argument used?",
    )


@exercise(
    "6.3",
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
    told = f"For {curve}, target 0.8, 20 models a round and patience 1, two rounds are 40 models. You returned {found}."
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
    "6.4",
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
    "6.5",
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
