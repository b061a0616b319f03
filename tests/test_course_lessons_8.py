"""Lesson 8: who loses and what leaks, and checks that tell right answers from typical mistakes."""

import numpy as np
import pandas as pd
import pytest
import torch
from course_answers import right_answers, told, typical_mistakes

from fedlib.algorithms import REGISTRY
from fedlib.course import lesson8
from fedlib.course.lesson8 import problem

pytestmark = pytest.mark.slow


# ---- Answers: one right, and mistakes with a part of the hint that each must get


def three(right, total, tenth=lambda own: sorted(own)[: max(1, len(own) // 10)]):
    own = right / total
    return right.sum() / total.sum(), np.mean(own), np.mean(tenth(own))


THREE_MISTAKES = {
    "two numbers": (lambda r, t: three(r, t)[:2], "Return three numbers"),
    "percent": (lambda r, t: tuple(100 * each for each in three(r, t)), "not percent"),
    "changed places": (lambda r, t: (three(r, t)[1], three(r, t)[0], three(r, t)[2]), "changed places"),
    "clients twice": (lambda r, t: (three(r, t)[1], three(r, t)[1], three(r, t)[2]), "Of all samples"),
    "samples twice": (lambda r, t: (three(r, t)[0], three(r, t)[0], three(r, t)[2]), "divide first"),
    "the worst client": (lambda r, t: three(r, t, lambda own: [min(own)]), "single worst client"),
    "the best tenth": (lambda r, t: three(r, t, lambda own: sorted(own)[-max(1, len(own) // 10) :]), "other end"),
    "empty tenth": (lambda r, t: three(r, t, lambda own: sorted(own)[: len(own) // 10] or [0.0]), "take at least one"),
    "rounded up": (lambda r, t: three(r, t, lambda own: sorted(own)[: -(-len(own) // 10)]), "47 clients"),
}


def weights(losses, sizes, q):
    factor = sizes * np.power(losses, q)
    return factor / factor.sum()


WEIGHT_MISTAKES = {
    "FedAvg": (lambda F, n, q: n / n.sum(), "FedAvg's weights"),
    "no sizes": (lambda F, n, q: F**q / (F**q).sum(), "sizes are missing"),
    "q + 1": (lambda F, n, q: weights(F, n, q + 1), "differentiate"),
    "the wrong way": (lambda F, n, q: weights(F, n, -q), "must count more"),
    "q times F": (lambda F, n, q: n * q * F / (n * q * F).sum() if q else n / n.sum(), "not q times F_i"),
    "no sum": (lambda F, n, q: n * F**q, "add up to 1"),
    "one number": (lambda F, n, q: 1.0, "One weight per client"),
    "by heart": (lambda F, n, q: np.array([3 / 7, 4 / 7]), "With q = 0"),
}


def seen(W, b):
    unit = int(np.argmax(np.abs(b)))
    return W[unit] / b[unit]


def least_squares(W, b):
    """All units together: the x for which b x' fits W best."""
    return b @ W / (b @ b)


REVEAL_MISTAKES = {
    "a row": (lambda W, b: W[int(np.argmax(np.abs(b)))], "get rid of delta_j"),
    "size of the entry": (lambda W, b: W[int(np.argmax(np.abs(b)))] / np.abs(b).max(), "The sign is wrong"),
    "the first unit": (
        lambda W, b: np.divide(W[0], b[0], where=True, out=np.full(W.shape[1], np.nan)),
        "divide by zero",
    ),
    "all units": (lambda W, b: W / np.where(b == 0, 1, b)[:, None], "as many pixels as a row"),
    "any unit": (
        lambda W, b: W[np.flatnonzero(b)[np.abs(b[b != 0]).argmin()]] / b[b != 0][np.abs(b[b != 0]).argmin()],
        "farthest from zero",
    ),
    "the mean": (lambda W, b: W.mean(0), "The sample was"),
}


def masked(update, me, others, secret, round, sign=lambda me, other: 1 if me > other else -1, when=lambda round: round):
    return update + sum(sign(me, other) * secret(me, other, when(round)) for other in others)


def masked_in_place(update, me, others, secret, round):
    update += masked(update, me, others, secret, round) - update
    return update


MASK_MISTAKES = {
    "both add": (lambda *a: masked(*a, sign=lambda me, other: 1), "if both add it"),
    "the same in all rounds": (lambda *a: masked(*a, when=lambda round: 0), "use the secret of the round"),
    "no mask": (lambda update, *rest: update.copy(), "where is the mask"),
    "in place": (masked_in_place, "changes `update` itself"),
    "next neighbour only": (
        lambda u, me, others, s, r: masked(u, me, [o for o in others if abs(o - me) in (4, 5, 28, 37)], s, r),
        "Every pair of clients needs its own secret",
    ),
    "a number": (lambda u, *rest: float(u[0]), "as long as the update"),
}

NEEDS = {
    "FedAvg": "sum",
    "SCAFFOLD": "sum",
    "FedNova": "sum",
    "FedAdam": "sum",
    "q-fair": "sum",
    "FedSR": "single",
    "FedGS": "single",
    "FedACS": "single",
    "asynchronous": "single",
}
NEEDS_MISTAKES = {
    "a list": (list(NEEDS), "A dictionary with"),
    "one missing": ({name: need for name, need in NEEDS.items() if name != "FedGS"}, "A dictionary with"),
    "another word": (NEEDS | {"FedSR": "ring"}, "You have 'ring' for FedSR"),
    "all sums": (dict.fromkeys(NEEDS, "sum"), "4 of 9 are not right"),
    "all single": (dict.fromkeys(NEEDS, "single"), "5 of 9 are not right"),
    "FedNova": (NEEDS | {"FedNova": "single"}, "divide by its own steps"),
    "the ring": (NEEDS | {"FedSR": "sum"}, "as it is: there is no sum"),
}

CASES = [
    (lesson8.three_accuracies, three, THREE_MISTAKES),
    (lesson8.fair_weights, weights, WEIGHT_MISTAKES),
    (lesson8.reveal, seen, REVEAL_MISTAKES),
    (lesson8.mask, masked, MASK_MISTAKES),
    (lesson8.needs, NEEDS, NEEDS_MISTAKES),
]
OTHER_FORMS = [
    (lesson8.three_accuracies, lambda r, t: np.array(three(r, t))),
    (lesson8.three_accuracies, lambda r, t: [float(each) for each in three(np.float64(r), t)]),
    (lesson8.fair_weights, lambda F, n, q: torch.as_tensor(weights(F, n, q))),
    (lesson8.fair_weights, lambda F, n, q: [float(each) for each in weights(F, n, q)]),
    (lesson8.reveal, least_squares),
    (lesson8.mask, lambda *a: masked(*a, sign=lambda me, other: (-1) ** (me < other))),
    (lesson8.needs, {name: need.upper() for name, need in NEEDS.items()}),
]


@right_answers(CASES, OTHER_FORMS)
def test_a_right_answer_passes(check, answer, capsys):
    assert told(check, answer, capsys) == f"✓ {check.number} {check.title}\n"


@typical_mistakes(CASES)
def test_a_typical_mistake_gets_its_hint(check, answer, hint, capsys):
    line = told(check, answer, capsys)
    assert line.startswith(f"✗ {check.number}") and hint in line


# ---- What the lesson shows


def test_the_world_has_its_own_tests_and_eight_clients_upside_down():
    place = lesson8.world(0)
    assert place.federation.clients == 40 and place.turned.sum() == 8
    assert {len(rows) for rows in place.federation.rows} == {60} and {len(y) for _, y in place.tests} == {40}
    dealt = problem.federate(**problem.DIGITS, seed=0)
    first = place.federation.x[place.federation.rows[0][0], :-1].view(28, 28)
    assert torch.equal(first.flip(0, 1), dealt.x[dealt.rows[0][0], :-1].view(28, 28))
    upright = place.federation.x[place.federation.rows[20][0], :-1]
    assert torch.equal(upright, dealt.x[dealt.rows[20][0], :-1])


def test_a_fair_average_with_q_zero_is_fedavg_and_otherwise_is_the_exercises(make_federation):
    fed = make_federation(l2=0.0)
    work = {"lr": 0.2, "batch": 5, "steps": 3}
    state = {"weights": fed.start}
    plain = REGISTRY["fedavg"](**work).round(fed, state, 1)["weights"]
    assert torch.allclose(problem.FairAverage(q=0.0, **work).round(fed, state, 1)["weights"], plain, atol=1e-6)
    method, cohort = problem.FairAverage(q=2.0, **work), problem.engine.Cohort(np.arange(fed.clients), fed.start)
    trained = problem.engine.train(fed, cohort, method.work(1), 1, losses=True)
    share = torch.as_tensor(weights(trained.losses.numpy(), fed.sizes.numpy(), 2.0))
    found = method.round(fed, state, 1)["weights"].double()
    assert torch.allclose(found, share @ trained.weights.double(), atol=1e-5)
    assert "fairaverage" not in REGISTRY  # an illustration of the lesson, not a method of the workbook


def test_a_local_head_leaves_the_layers_below_as_they_are(monkeypatch):
    monkeypatch.setattr(problem, "EPOCHS_OWN", 1)
    place, common = lesson8.world(0), lesson8.world(0).federation.start
    monkeypatch.setattr(problem, "trained", lambda seed, q=0.0: common)
    head = place.federation.network.head.start
    models = problem.personal(0, "local head")
    assert torch.equal(models[:, :head], common[:head].expand(40, -1))
    assert not torch.equal(models[:, head:], common[head:].expand(40, -1))
    assert not torch.equal(problem.personal(0, "fine-tuned")[:, :head], common[:head].expand(40, -1))


def test_measures_and_paired_gains_by_hand():
    rows = [
        {
            "way": way,
            "seed": seed,
            "client": client,
            "turned": client == 0,
            "accuracy": base + 0.1 * client + 0.01 * seed,
        }
        for way, base in (("one", 0.2), ("two", 0.3))
        for seed in range(3)
        for client in range(4)
    ]
    frame = pd.DataFrame(rows)
    first = problem.by_seed(frame).loc["one", 0]
    assert first.tolist() == pytest.approx([35.0, 20.0, 40.0, 20.0])
    gains = problem.gains(frame, "one")
    assert gains.index.tolist() == ["two"] and gains.iloc[0].tolist() == ["10.0 ± 0.0"] * 4


def test_the_first_gradient_of_a_model_without_knowledge_tells_the_labels_exactly():
    place = lesson8.world(0)
    blank = torch.zeros_like(place.federation.start)  # all probabilities are one tenth
    rows = place.federation.rows[3].numpy()
    share = 0.1 - problem.head_bias(place, problem.gradient_of(place, blank, rows))
    counts = np.bincount(place.federation.y[torch.as_tensor(rows)], minlength=10)
    assert share == pytest.approx(counts / counts.sum(), abs=1e-6)


def test_one_sample_comes_back_from_its_gradient():
    place = lesson8.world(0)
    rows = place.federation.rows[20].numpy()[:1]
    picture = seen(*problem.first_layer(place, problem.gradient_of(place, place.federation.start, rows)))
    assert picture == pytest.approx(place.federation.x[rows[0], :-1].numpy(), abs=1e-4)
