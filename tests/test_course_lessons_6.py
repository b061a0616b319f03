"""Lesson 6: the valley, the prices and plans it teaches with, checks that tell right answers from typical mistakes."""

from math import log, log2

import numpy as np
import pandas as pd
import pytest
import torch

from fedlib import wireless
from fedlib.course import lesson6
from fedlib.course.lesson6 import Valley, sending_j
from fedlib.problem.streams import generator
from fedlib.runs import tuning

pytestmark = pytest.mark.slow


def told(check, answer, capsys) -> str:
    """What a check prints about an answer."""
    check(answer)
    return capsys.readouterr().out


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
}


def adam(w, m, v, delta, server_lr, beta1, beta2, tau):
    m = beta1 * m + (1 - beta1) * delta
    v = beta2 * v + (1 - beta2) * delta**2
    return w + server_lr * m / (v.sqrt() + tau), m, v


def adam_like(
    m=lambda m, d, b: b * m + (1 - b) * d,
    v=lambda v, d, b: b * v + (1 - b) * d**2,
    step=lambda m, v, t, *old: m / (v.sqrt() + t),
):
    """An Adam step of which one line is replaced."""

    def answer(w, old_m, old_v, delta, server_lr, beta1, beta2, tau):
        new_m, new_v = m(old_m, delta, beta1), v(old_v, delta, beta2)
        return w + server_lr * step(new_m, new_v, tau, old_m, old_v, beta1, beta2), new_m, new_v

    return answer


ADAM_MISTAKES = {
    "descends": (adam_like(step=lambda m, v, t, *old: -m / (v.sqrt() + t)), "Delta points downhill already"),
    "no root": (adam_like(step=lambda m, v, t, *old: m / (v + t)), "the root is missing"),
    "tau inside": (adam_like(step=lambda m, v, t, *old: m / (v + t).sqrt()), "outside the root"),
    "no square": (adam_like(v=lambda v, d, b: b * v + (1 - b) * d), "v remembers squares"),
    "betas swapped in m": (adam_like(m=lambda m, d, b: (1 - b) * m + b * d if b else d), "Yours are swapped"),
    "betas swapped in v": (
        adam_like(v=lambda v, d, b: (1 - b) * v + b * d**2 if b else d**2),
        "beta2 and 1 - beta2 are swapped",
    ),
    "FedAvgM's m": (adam_like(m=lambda m, d, b: b * m + d), "Adam's m is an average"),
    "old m": (
        adam_like(step=lambda m, v, t, om, ov, b1, b2: (om if b1 else m) / (v.sqrt() + t)),
        "Step with the new m",
    ),
    "old v": (adam_like(step=lambda m, v, t, om, ov, b1, b2: m / ((ov if b2 else v).sqrt() + t)), "root of the new v"),
    "bias correction": (
        adam_like(step=lambda m, v, t, om, ov, b1, b2: m / (1 - b1) / ((v / (1 - b2)).sqrt() + t)),
        "bias correction",
    ),
    "only w": (lambda *a: adam(*a)[0], "Return 3 things"),
    "fixed tau": (lambda w, m, v, d, lr, b1, b2, tau: adam(w, m, v, d, lr, b1, b2, 1.0), "part from the library's"),
}


def bill(
    accuracies, target, cost, patience, first=1, reached=lambda a, t: a >= t, lost=lambda row: 0, due=lambda row: 0
):
    """A bill with room for mistakes: where rounds begin, what reaching is, what a bad round leaves, when it is due."""
    row = 0
    for round, accuracy in enumerate(accuracies, first):
        row = row + 1 if reached(accuracy, target) else lost(row)
        if row == patience:
            return (round - due(row)) * cost
    return None


def last_window(accuracies, target, cost, patience):
    ends = range(patience, len(accuracies) + 1)
    return max((end * cost for end in ends if min(accuracies[end - patience : end]) >= target), default=None)


BILL_MISTAKES = {
    "counts from 0": (lambda *a: bill(*a, first=0), "one round is missing"),
    "above, not at least": (lambda *a: bill(*a, reached=lambda a, t: a > t), "at least the target"),
    "rounds only": (lambda a, t, c, p: bill(a, t, 1, p), "two rounds are 40 models. You returned 2"),
    "impatient": (lambda a, t, c, p: bill(a, t, c, 1), "one lucky round is not enough"),
    "due at the first": (lambda *a: bill(*a, due=lambda row: row - 1), "due at the end"),
    "never starts anew": (lambda *a: bill(*a, lost=lambda row: row), "starts the counting anew"),
    "the last window": (
        lambda a, t, c, p: bill(a, t, c, p) if p == 1 else last_window(a, t, c, p),
        "The first time counts",
    ),
    "never is 0": (lambda *a: bill(*a) or 0, "return None. 0 would look like a price"),
    "never is infinite": (lambda *a: bill(*a) or float("inf"), "return None"),
}


def best_share(first, second, tries=1000):
    shares = [step / tries for step in range(1, tries)]
    return min(shares, key=lambda b: sending_j(b, first) + sending_j(1 - b, second))


SHARE_MISTAKES = {
    "always halves": (lambda first, second: 0.5, "Try more shares"),
    "the second's share": (lambda first, second: 1 - best_share(first, second), "mixed up the two devices"),
    "by signal": (lambda first, second: first / (first + second), "mixed up the two devices"),
    "too few tries": (lambda first, second: best_share(first, second, tries=4), "Try more shares"),
    "percent": (lambda first, second: 100 * best_share(first, second), "between 0 and 1"),
    "both shares": (lambda first, second: (0.5, 0.5), "Return one number"),
}

GOOD_CHOICE = {
    "method": "FedAdam",
    "rounds": 20,
    "deadline_s": 6,
    "reason": "A round of FedAdam is one of the cheapest; FCBAFL sends 40 models in each, twice as many as this one.",
}
CHOICE_MISTAKES = {
    "no dictionary": ("FedAdam", "dictionary with the keys method, rounds, deadline_s, reason"),
    "a key is missing": ({"method": "FedAdam", "rounds": 20}, "dictionary with the keys"),
    "unknown method": (GOOD_CHOICE | {"method": "fedadam"}, "It has: FedAvg, FedAvgM"),
    "half a round": (GOOD_CHOICE | {"rounds": 9.5}, "whole number above 0; yours is 9.5"),
    "no deadline": (GOOD_CHOICE | {"deadline_s": 0}, "seconds above 0"),
    "too short": (
        GOOD_CHOICE | {"method": "ACFMO", "deadline_s": 6},
        "too short for a round of ACFMO. The deadline cannot be met",
    ),
    "too long": (GOOD_CHOICE | {"rounds": 21}, "21 rounds of 6 s take 126 s; you have 120 s"),
    "too dear": (GOOD_CHOICE | {"rounds": 20, "deadline_s": 4}, "you have 150 J"),
    "hardly used": (GOOD_CHOICE | {"rounds": 3}, "More rounds?"),
    "no reason": (GOOD_CHOICE | {"reason": "best"}, "yours are 1"),
    "any words": (
        GOOD_CHOICE | {"reason": "one two three four five six seven eight nine ten eleven twelve"},
        "Compare FedAdam with another method",
    ),
    "one word often": (GOOD_CHOICE | {"reason": "FedAvg 20 " * 12}, "dozen different words"),
    "no number of the rival": (
        GOOD_CHOICE
        | {"reason": "FedAdam had the best curve of all in our race, clearly better than FCBAFL, in 3 ways."},
        "Give a number for FCBAFL",
    ),
}

CASES = [
    (lesson6.momentum_step, momentum, MOMENTUM_MISTAKES),
    (lesson6.adam_step, adam, ADAM_MISTAKES),
    (lesson6.bill, bill, BILL_MISTAKES),
    (lesson6.best_share, best_share, SHARE_MISTAKES),
    (lesson6.choice, GOOD_CHOICE, CHOICE_MISTAKES),
]


OTHER_LIBRARIES = [
    (lesson6.best_share, lambda first, second: np.float32(best_share(first, second))),
    (lesson6.best_share, lambda first, second: np.arange(1, 1000)[int(1000 * best_share(first, second)) - 1] / 1000),
    (lesson6.choice, GOOD_CHOICE | {"rounds": np.int64(20), "deadline_s": np.float32(6)}),
    (lesson6.bill, lambda *given: None if bill(*given) is None else np.int64(bill(*given))),
]


@pytest.mark.parametrize(
    ("check", "answer"),
    [pytest.param(check, right, id=check.number) for check, right, _ in CASES]
    + [pytest.param(*case, id=f"{case[0].number} NumPy") for case in OTHER_LIBRARIES],
)
def test_a_right_answer_passes(check, answer, capsys):
    assert told(check, answer, capsys) == f"✓ {check.number} {check.title}\n"


@pytest.mark.parametrize(
    ("check", "answer", "hint"),
    [
        pytest.param(check, *mistake, id=f"{check.number} {name}")
        for check, _, mistakes in CASES
        for name, mistake in mistakes.items()
    ],
)
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


def test_prices_count_vectors_and_passes():
    table = lesson6.price_list()
    assert table.loc["FedAvg"].tolist() == [1, 1, 4, 20]  # ten participants, one model down and one up
    assert table.loc["FedYogi"].tolist() == table.loc["FedAvg"].tolist()  # the server's memory is not sent
    assert table.loc["FCBAFL", "models sent"] == 40 and table.loc["ACFMO", "models sent"] == 50
    samples = lesson6.problem.PROBLEM["samples"] / lesson6.problem.PROBLEM["clients"]
    assert lesson6.problem.LOCAL["steps"] * lesson6.problem.LOCAL["batch"] / samples == lesson6.problem.AVERAGE.passes


def test_bills_multiply_rounds_with_prices_and_leave_the_unfinished_empty():
    def runs(method, *curves):
        return [
            {"method": method, "seed": seed, "round": round, "accuracy": accuracy}
            for seed, curve in enumerate(curves)
            for round, accuracy in enumerate(curve)
        ]

    frame = pd.DataFrame(runs("FedAvg", [0, 0.5, 0.9], [0, 0.2, 0.3, 0.4, 0.8]) + runs("ACFMO", [0, 0.9], [0, 0.1]))
    table = lesson6.bills(frame, 0.8)
    fedavg = table.loc["FedAvg"]
    assert fedavg[["rounds", "models sent", "seeds that arrive"]].tolist() == [
        3,
        60,
        2,
    ]  # rounds 2 and 4, 20 models each
    assert fedavg[["low", "high"]].tolist() == pytest.approx([3 - 12.706, 3 + 12.706], abs=0.06)  # t of one degree
    assert table.loc["ACFMO"].drop("seeds that arrive").isna().all() and table.loc["ACFMO", "seeds that arrive"] == 1
    assert table.index.name == "to reach 80%"


def test_the_energy_of_sending_by_hand():
    # Half of 1 MHz at snr/b = 3: log2(4) = 2 bits a second and hertz, 1 Mbit/s, half a second at half a watt.
    assert sending_j(0.5, 1.5) == pytest.approx(0.25)
    assert sending_j(0.25, 1.75, bits=3e5) == pytest.approx(0.5 * 3e5 / 7.5e5)
    assert sending_j(0.5, 1.5) != pytest.approx(0.25 * log2(4) / log(4))


def test_the_formula_of_the_lesson_is_that_of_the_library():
    devices = wireless.draw_devices(lesson6.whole_cell(30, 0.5, 5), generator(0, "devices"))
    shares = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    ours = [sending_j(share, snr) for share, snr in zip(shares, devices.snr, strict=True)]
    assert np.allclose(wireless.transmit_energy_j(devices, shares), ours)


def test_no_hurry_saves_more_than_sharing_the_band_and_the_optimum_costs_least():
    plans, text = lesson6.three_plans(lesson6.whole_cell(30, 0.5, 100), 0)
    hurried, in_time, optimum = plans.sum(axis=1)
    assert optimum <= in_time < hurried
    assert hurried - in_time > 10 * (in_time - optimum)
    assert text.startswith("Equal shares make 0 of 100 devices late.")


def test_a_cell_without_a_plan_says_so():
    plans, text = lesson6.three_plans(lesson6.whole_cell(10, 0.5, 20), 0)
    assert np.isnan(plans.iloc[2]).any() and "The deadline cannot be met" in text


def test_the_longest_training_uses_up_a_budget():
    for method in ("FedAvg", "FCBAFL", "ACFMO"):
        deadline_s, rounds = lesson6.problem.longest_training(method)
        one_more = rounds + 1
        spent = lesson6.problem.joules(method, deadline_s)
        assert rounds * deadline_s <= lesson6.problem.TIME_S and rounds * spent <= lesson6.problem.ENERGY_J
        assert one_more * deadline_s > lesson6.problem.TIME_S or one_more * spent > lesson6.problem.ENERGY_J


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


def test_sliders_redraw_picture_and_sentence():
    box = lesson6.energy_explorer(deadline_s=30, radius_km=0.5, devices=20, seed=0)
    deadline, *_, answer, picture = box.children
    before, sentence = picture.value, answer.value
    deadline.value = 50
    assert bytes(picture.value) != bytes(before) and bytes(picture.value).startswith(b"\x89PNG")
    assert answer.value != sentence and "20 devices" in answer.value
