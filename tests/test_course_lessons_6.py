"""Lesson 6: the valley, Adam's steps and the tries it teaches with; checks tell right answers from mistakes."""

import copy
from math import log

import numpy as np
import pandas as pd
import pytest
import torch
from course_answers import right_answers, told, typical_mistakes
from torch.nn import functional

from fedlib.course import lesson6
from fedlib.course.lesson6 import Valley
from fedlib.judging.statistics import estimate
from fedlib.runs import tuning

pytestmark = pytest.mark.slow


# ---- Answers: one right, and mistakes with a part of the hint that each must get


def momentum(w, m, models, sizes, server_lr, beta, weighted=True, sign=1, fresh=1.0):
    """FedAvgM with room for mistakes."""
    average = (sizes[:, None] * models).sum(0) / sizes.sum() if weighted else models.mean(0)
    m = beta * m + fresh * sign * (average - w)
    return w + server_lr * m, m


def in_place(w, m, models, sizes, server_lr, beta):
    new_w, new_m = momentum(w, m, models, sizes, server_lr, beta)
    m.copy_(new_m)
    return new_w, new_m


MOMENTUM_MISTAKES = {
    "plain mean": (lambda *a: momentum(*a, weighted=False), "Weigh the clients by their sizes"),
    "wrong way": (lambda *a: momentum(*a, sign=-1), "walks the other way"),
    "adds the average": (
        lambda w, m, x, n, lr, b: (w + lr * (n[:, None] * x).sum(0) / n.sum(), m),
        "added the whole average",
    ),
    "no memory back": (lambda *a: momentum(*a)[0], "Return 2 things, in this order: w, m"),
    "fading average": (lambda w, m, x, n, lr, b: momentum(w, m, x, n, lr, b, fresh=1 - b), "belongs to Adam"),
    "never fades": (lambda w, m, x, n, lr, b: momentum(w, m, x, n, lr, 1.0), "The old m should fade"),
    "rate in m": (lambda w, m, x, n, lr, b: momentum(w, m, x, n, 1.0, b, fresh=lr), "Keep the server's rate out of m"),
    "old m": (
        lambda w, m, x, n, lr, b: (
            w + (lr * m if m.any() else momentum(w, m, x, n, lr, b)[1]),
            momentum(w, m, x, n, lr, b)[1],
        ),
        "not along the old one",
    ),
    "no rate": (lambda w, m, x, n, lr, b: momentum(w, m, x, n, 1.0, b), "rate is missing"),
    "in place": (in_place, "in place"),
    "as handed in": (lambda *a: momentum(*a[:-1], a[-1], weighted=False, fresh=1 - a[-1]), "Weigh the clients"),
}


def lengths(delta, beta1, beta2, tau):
    """By running the recursion instead of solving it."""
    m, v, steps = 0.0, tau**2, []
    for _ in range(3000):
        m, v = beta1 * m + (1 - beta1) * delta, beta2 * v + (1 - beta2) * delta**2
        steps.append(m / (v**0.5 + tau))
    return steps[0], steps[-1]


def first_step(m=lambda d, b: (1 - b) * d, v=lambda d, b, t: b * t**2 + (1 - b) * d**2, under=lambda v, t: v**0.5 + t):
    """The first step with one part of it replaced; the settled one is right."""
    return lambda d, b1, b2, t: (m(d, b1) / under(v(d, b2, t), t), d / (d + t))


LENGTH_MISTAKES = {
    "v starts at zero": (first_step(v=lambda d, b, t: (1 - b) * d**2), "v does not begin at zero"),
    "bias corrected": (lambda d, b1, b2, t: (d / (d + t), d / (d + t)), "without bias correction"),
    "no tau below": (first_step(under=lambda v, t: v**0.5), "tau stands beside the root"),
    "Delta for m": (first_step(m=lambda d, b: d), "not Delta itself"),
    "no root": (first_step(under=lambda v, t: v + t), "Take the root"),
    "settled at one": (lambda *a: (lengths(*a)[0], 1.0), "only if tau is zero"),
    "tau inside": (lambda d, b1, b2, t: (lengths(d, b1, b2, t)[0], d / (d**2 + t**2) ** 0.5), "outside the root"),
    "m keeps its factor": (lambda d, b1, b2, t: (lengths(d, b1, b2, t)[0], (1 - b1) * d / (d + t)), "m settles where"),
    "one number": (lambda *a: lengths(*a)[1], "Return two numbers"),
    "by heart": (lambda *a: (0.3 / (1.08**0.5 + 1), 0.75), "the library's FedAdam steps"),
}


def fedavg(model, clients, rounds, epochs, lr, batch, seed, **mistakes):
    """FedAvg in plain PyTorch, with room for mistakes."""
    draws = torch.Generator().manual_seed(seed)
    server = model if "no copy" in mistakes else copy.deepcopy(model)
    for _ in range(rounds):
        ends = []
        for x, y in clients:
            local = server if "one model" in mistakes else copy.deepcopy(server)
            for _ in range(epochs):
                order = torch.randperm(len(y), generator=draws) if "in order" not in mistakes else torch.arange(len(y))
                if "with replacement" in mistakes and batch < len(y):
                    order = torch.randint(len(y), (len(y),), generator=draws)
                for chosen in order.split(len(y) if "full" in mistakes else batch):
                    loss = functional.cross_entropy(local(x[chosen]), y[chosen], reduction=mistakes.get("loss", "mean"))
                    gradients = torch.autograd.grad(loss, list(local.parameters()))
                    with torch.no_grad():
                        for weight, gradient in zip(local.parameters(), gradients, strict=True):
                            weight -= lr * gradient
            ends.append([weight.detach().clone() for weight in local.parameters()])
        sizes = np.array([1 if "plain" in mistakes else len(y) for _, y in clients])
        with torch.no_grad():
            for place, weight in enumerate(server.parameters()):
                parts = [share * end[place] for share, end in zip(sizes / sizes.sum(), ends, strict=True)]
                weight.copy_(ends[-1][place] if "last" in mistakes else sum(parts))
    return server


def mistaken(**mistakes):
    return lambda *given: fedavg(*given, **mistakes)


FEDAVG_MISTAKES = {
    "plain mean": (mistaken(plain=1), "You took the plain mean"),
    "the last client": (mistaken(last=1), "You return the last client's model"),
    "a ring": (mistaken(**{"one model": 1}), "do all clients start from the same model"),
    "sum of losses": (mistaken(loss="sum"), "the mean loss of the batch"),
    "no copy": (mistaken(**{"no copy": 1}), "Work on a copy"),
    "one round": (lambda m, c, r, *rest: fedavg(m, c, 1, *rest), "do not end where the library's FedAvg ends"),
    "one epoch": (lambda m, c, r, e, *rest: fedavg(m, c, r, 1, *rest), "do not end where the library's FedAvg ends"),
    "full batches": (mistaken(full=1), "batches of 3, 3, 2, 3, 3, 2"),
    "never shuffled": (mistaken(**{"in order": 1}), "Shuffle the samples anew"),
    "with replacement": (mistaken(**{"with replacement": 1}), "takes some twice"),
    "untouched": (lambda model, *rest: copy.deepcopy(model), "has not moved"),
    "weights only": (lambda *given: fedavg(*given).state_dict(), "an nn.Module"),
}


def cannot_tell(scores, kept=lambda low, high: low <= 0 <= high, best=None):
    winner = max(scores, key=best or (lambda rate: scores[rate].mean()))
    intervals = {rate: estimate(scores[rate] - scores[winner]).interval() for rate in scores if rate != winner}
    return {winner, *(rate for rate, ends in intervals.items() if kept(*ends))}


def overlapping(scores):
    """Whose own interval overlaps with that of the best: seeds are not paired."""
    ends = {rate: estimate(values).interval() for rate, values in scores.items()}
    best = max(scores, key=lambda rate: scores[rate].mean())
    return [rate for rate in scores if ends[rate][1] >= ends[best][0]]


UNDECIDED_MISTAKES = {
    "without the best": (lambda scores: cannot_tell(scores) - {1.0}, "cannot be told from itself"),
    "the best only": (lambda scores: [max(scores, key=lambda rate: scores[rate].mean())], "Keep it"),
    "unpaired": (overlapping, "Compare seed by seed"),
    "within a point": (
        lambda scores: [
            rate for rate in scores if scores[rate].mean() > max(v.mean() for v in scores.values()) - 0.015
        ],
        "only 0.1, 0.3 and 1.0 remain",
    ),
    "by heart": (lambda scores: [0.1, 0.3, 1.0], "cannot be told apart"),
}


def momentum_server(w, memory, delta, round, beta=0.9, rate=0.3, patience=15):
    m = beta * memory.get("m", 0) + delta
    return w + rate * min(1, patience / round) * m, {"m": m}


def adam_server(w, memory, delta, round):
    m, v = 0.9 * memory.get("m", 0) + 0.1 * delta, 0.99 * memory.get("v", 1e-6) + 0.01 * delta**2
    return w + 0.3 * m / (v**0.5 + 1e-3), {"m": m, "v": v}


SERVER_MISTAKES = {
    "FedAvg": (lambda w, memory, delta, round: (w + delta, memory), "not above 1 beyond doubt"),
    "FedAvgM": (lambda *a: momentum_server(*a, rate=0.1, patience=1e9), "not above 1 beyond doubt"),
    "smaller steps": (lambda w, memory, delta, round: (w + 0.3 * delta, memory), "not above 1 beyond doubt"),
    "too bold": (lambda *a: momentum_server(*a, rate=30.0, patience=1e9), "runs away"),
    "no memory back": (lambda w, memory, delta, round: w + delta, "Return (w, memory)"),
    "one weight": (lambda w, memory, delta, round: ((w + delta)[:1], memory), "two weights"),
}

CASES = [
    (lesson6.momentum_step, momentum, MOMENTUM_MISTAKES),
    (lesson6.adam_lengths, lengths, LENGTH_MISTAKES),
    (lesson6.my_fedavg, fedavg, FEDAVG_MISTAKES),
    (lesson6.undecided, cannot_tell, UNDECIDED_MISTAKES),
    (lesson6.my_server, momentum_server, SERVER_MISTAKES),
]


OTHER_FORMS = [
    (lesson6.adam_lengths, lambda *given: np.array(lengths(*given))),
    (lesson6.undecided, lambda scores: np.array(sorted(cannot_tell(scores)), dtype=np.float64)),
    (lesson6.my_server, adam_server),
    (lesson6.my_server, lambda w, *rest: (np.asarray(momentum_server(w, *rest)[0]), momentum_server(w, *rest)[1])),
]


@right_answers(CASES, OTHER_FORMS)
def test_a_right_answer_passes(check, answer, capsys):
    assert told(check, answer, capsys) == f"✓ {check.number} {check.title}\n"


@typical_mistakes(CASES)
def test_a_typical_mistake_gets_its_hint(check, answer, hint, capsys):
    line = told(check, answer, capsys)
    assert line.startswith(f"✗ {check.number}") and hint in line


# ---- What the lesson shows


def test_in_the_valley_fedavgm_without_memory_is_fedavg():
    plain = lesson6.walk("fedopt", Valley(), 12)
    assert np.allclose(lesson6.walk("fedavgm", Valley(), 12, beta=0.0), plain, atol=1e-12)
    assert not np.allclose(lesson6.walk("fedavgm", Valley(), 12, beta=0.5), plain, atol=0.1)


def test_momentum_at_the_matched_rate_goes_as_far_as_fedavg_in_the_long_run():
    # Clients that always move by the same step: after many rounds both servers make that step.
    paths = lesson6.three_servers(Valley(present=10, lr=1e-6), 200, beta=0.9, server_lr=0.3)
    plain, momentum, _ = (np.diff(path, axis=0)[-1] for path in paths.values())
    assert momentum == pytest.approx(plain, rel=1e-3)


def test_turning_the_valley_turns_the_ways_of_fedavg_and_fedavgm_but_not_of_fedadam():
    straight, turned = Valley(), Valley(angle=30)
    for method, alike in (("fedopt", True), ("fedavgm", True), ("fedadam", False)):
        expected = lesson6.walk(method, straight, 10) @ turned.turn.T
        assert np.allclose(lesson6.walk(method, turned, 10), expected, atol=1e-9) == alike


def test_clients_of_the_valley_take_plain_gradient_steps():
    valley = Valley(angle=20, present=10)
    w = torch.tensor([1.0, -2.0], dtype=torch.float64)
    for client, model in enumerate(valley.models(w, 1)):
        by_hand = w.numpy()
        for _ in range(valley.steps):
            by_hand = by_hand - valley.lr * valley.curvature @ (by_hand - valley.minima[client])
        assert np.allclose(model, by_hand)


def test_the_lowest_point_of_the_valley_is_best_for_all_clients_together():
    valley = Valley(angle=50)
    gradient = sum(valley.curvature @ (0 - minimum) for minimum in valley.minima)
    assert np.allclose(gradient, 0) and valley.loss(np.zeros(2)) == 0
    assert valley.loss(valley.turn @ [1.0, 0.0]) == pytest.approx(0.5)  # steep: 1 * 1^2 / 2
    assert valley.loss(valley.turn @ [0.0, 1.0]) == pytest.approx(0.01)  # flat: 0.02 * 1^2 / 2


def test_adams_steps_are_those_of_the_recursion_by_hand():
    # m = 0.1 * 2, v = 0.99 * 1 + 0.01 * 4: the first step is m / (sqrt(v) + 1).
    steps = lesson6.problem.steady_steps(2.0, 400, 0.9, 0.99, 1.0)
    assert steps[0] == pytest.approx(0.2 / (1.03**0.5 + 1))
    assert steps[-1] == pytest.approx(2 / 3, rel=0.02) and steps.max() > steps[-1]


def test_a_students_server_walks_as_the_librarys():
    plain = lesson6.walk_with(lambda w, memory, delta, round: (w + delta, memory), Valley(angle=20), 8)
    assert np.allclose(plain, lesson6.walk("fedopt", Valley(angle=20), 8))


def test_every_method_gets_nine_tries_and_may_tune_its_clients_rate():
    for server in lesson6.problem.SERVERS.values():
        assert "lr" in server.grid and len(tuning.points(server.grid)) == 9


def test_tuning_sees_no_test_sample_and_no_seed_of_the_race(monkeypatch):
    asked = []
    monkeypatch.setattr(tuning.study, "execute", lambda runs: asked.extend(runs) or scored(runs))
    tuned = lesson6.tune(rounds=2)
    assert {run.federation["validation_share"] for run in asked} == {tuning.HELD_OUT}
    assert not any("test_samples" in run.federation for run in asked)
    race = lesson6.race(tuned.best, 2, range(10))
    assert not {run.seed for run in asked} & {run.seed for run in race}
    assert all(run.federation == lesson6.problem.PROBLEM for run in race)


def scored(runs):
    """As if the accuracy were highest in the middle of every grid."""
    return pd.DataFrame(
        [run.label | {"seed": run.seed, "round": run.rounds, "accuracy": -abs(log(run.options["lr"]))} for run in runs]
    )
