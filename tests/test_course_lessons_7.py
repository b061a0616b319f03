"""Lesson 7: the prices, plans and clocks it teaches with, checks that tell right answers from typical mistakes."""

from math import log, log2

import numpy as np
import pandas as pd
import pytest
import torch
from course_answers import right_answers, told, typical_mistakes

from fedlib import engine, wireless
from fedlib.course import clock, lesson7
from fedlib.course.lesson7 import sending_j
from fedlib.problem.streams import generator

pytestmark = pytest.mark.slow


# ---- Answers: one right, and mistakes with a part of the hint that each must get


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


def fair(w, models, sizes, steps, by_steps=None, far=None, weigh=True):
    """FedNova's average with room for mistakes."""
    here = steps > 0
    share = sizes[here] / sizes[here].sum() if weigh else np.full(here.sum(), 1 / here.sum())
    taken = steps[here] if by_steps is None else by_steps(steps[here])
    length = share @ steps[here] if far is None else far(share, steps[here])
    return w + length * (share[:, None] * (models[here] - w) / taken[:, None]).sum(0)


FAIR_MISTAKES = {
    "FedAvg": (lambda w, m, n, k: (n[:, None] * m).sum(0) / n.sum(), "that is FedAvg"),
    "one mean step": (lambda *a: fair(*a, far=lambda p, k: 5.0 if (k == 5).all() else 1.0), "one mean step"),
    "steps by head": (lambda *a: fair(*a, far=lambda p, k: k.mean()), "counts the clients by size, too"),
    "plain means": (lambda w, m, n, k: fair(w, m, n, k, weigh=bool((k == 5).all())), "one sample against three"),
    "the most industrious": (lambda *a: fair(*a, far=lambda p, k: k.max()), "not as many as the most industrious"),
    "weights by steps": (
        lambda w, m, n, k: ((n * k)[:, None] * m).sum(0) / (n * k).sum(),
        "who walks more would count even more",
    ),
    "divides by zero": (
        lambda w, m, n, k: (
            w + (n @ k / n.sum()) * ((n / n.sum())[:, None] * (m - w) / np.maximum(k, 0)[:, None]).sum(0)
        ),
        "leave it out before you divide",
    ),
    "counts the idle": (
        lambda w, m, n, k: (
            w + (n @ k / n.sum()) * ((n / n.sum())[:, None] * (m - w) / np.maximum(k, 1)[:, None]).sum(0)
        ),
        "Who did nothing must change nothing",
    ),
    "a number": (lambda *a: float(fair(*a)[0]), "an array like w"),
}


def between(begun, ended, after=np.greater, before=np.less):
    return np.array(
        [
            sum(after(end, start) and before(end, stop) for end in ended)
            for start, stop in zip(begun, ended, strict=True)
        ]
    )


STALE_MISTAKES = {
    "itself, too": (lambda b, e: between(b, e, before=np.less_equal), "does not make itself stale"),
    "known ones, too": (lambda b, e: between(b, e, after=np.greater_equal), "in its model already"),
    "begun in between": (
        lambda b, e: np.array([((b > s) & (b < t)).sum() for s, t in zip(b, e, strict=True)]),
        "2, 0, 1",
    ),
    "none": (lambda b, e: 0 * b, "two others came in"),
    "one number": (lambda b, e: between(b, e).mean(), "four counts"),
    "by heart": (lambda b, e: np.array([0, 2, 0, 1]), "in no particular order"),
}

CASES = [
    (lesson7.bill, bill, BILL_MISTAKES),
    (lesson7.best_share, best_share, SHARE_MISTAKES),
    (lesson7.fair_average, fair, FAIR_MISTAKES),
    (lesson7.staleness, between, STALE_MISTAKES),
    (lesson7.choice, GOOD_CHOICE, CHOICE_MISTAKES),
]


OTHER_FORMS = [
    (lesson7.best_share, lambda first, second: np.float32(best_share(first, second))),
    (lesson7.best_share, lambda first, second: np.arange(1, 1000)[int(1000 * best_share(first, second)) - 1] / 1000),
    (lesson7.choice, GOOD_CHOICE | {"rounds": np.int64(20), "deadline_s": np.float32(6)}),
    (lesson7.bill, lambda *given: None if bill(*given) is None else np.int64(bill(*given))),
    (lesson7.fair_average, lambda *given: torch.as_tensor(fair(*given))),
    (lesson7.staleness, lambda b, e: between(b, e).tolist()),
]


@right_answers(CASES, OTHER_FORMS)
def test_a_right_answer_passes(check, answer, capsys):
    assert told(check, answer, capsys) == f"✓ {check.number} {check.title}\n"


@typical_mistakes(CASES)
def test_a_typical_mistake_gets_its_hint(check, answer, hint, capsys):
    line = told(check, answer, capsys)
    assert line.startswith(f"✗ {check.number}") and hint in line


# ---- What the lesson shows


def test_prices_count_vectors_and_passes():
    table = lesson7.price_list()
    assert table.loc["FedAvg"].tolist() == [1, 1, 4, 20]  # ten participants, one model down and one up
    assert table.loc["FedYogi"].tolist() == table.loc["FedAvg"].tolist()  # the server's memory is not sent
    assert table.loc["FCBAFL", "models sent"] == 40 and table.loc["ACFMO", "models sent"] == 50
    samples = lesson7.problem.PROBLEM["samples"] / lesson7.problem.PROBLEM["clients"]
    assert lesson7.problem.LOCAL["steps"] * lesson7.problem.LOCAL["batch"] / samples == lesson7.problem.AVERAGE.passes


def test_bills_multiply_rounds_with_prices_and_leave_the_unfinished_empty():
    def runs(method, *curves):
        return [
            {"method": method, "seed": seed, "round": round, "accuracy": accuracy}
            for seed, curve in enumerate(curves)
            for round, accuracy in enumerate(curve)
        ]

    frame = pd.DataFrame(runs("FedAvg", [0, 0.5, 0.9], [0, 0.2, 0.3, 0.4, 0.8]) + runs("ACFMO", [0, 0.9], [0, 0.1]))
    table = lesson7.bills(frame, 0.8)
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
    devices = wireless.draw_devices(lesson7.whole_cell(30, 0.5, 5), generator(0, "devices"))
    shares = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    ours = [sending_j(share, snr) for share, snr in zip(shares, devices.snr, strict=True)]
    assert np.allclose(wireless.transmit_energy_j(devices, shares), ours)


def test_no_hurry_saves_more_than_sharing_the_band_and_the_optimum_costs_least():
    plans, text = lesson7.three_plans(lesson7.whole_cell(30, 0.5, 100), 0)
    hurried, in_time, optimum = plans.sum(axis=1)
    assert optimum <= in_time < hurried
    assert hurried - in_time > 10 * (in_time - optimum)
    assert text.startswith("Equal shares make 0 of 100 devices late.")


def test_a_cell_without_a_plan_says_so():
    plans, text = lesson7.three_plans(lesson7.whole_cell(10, 0.5, 20), 0)
    assert np.isnan(plans.iloc[2]).any() and "The deadline cannot be met" in text


def test_the_longest_training_uses_up_a_budget():
    for method in ("FedAvg", "FCBAFL", "ACFMO"):
        deadline_s, rounds = lesson7.problem.longest_training(method)
        one_more = rounds + 1
        spent = lesson7.problem.joules(method, deadline_s)
        assert rounds * deadline_s <= lesson7.problem.TIME_S and rounds * spent <= lesson7.problem.ENERGY_J
        assert one_more * deadline_s > lesson7.problem.TIME_S or one_more * spent > lesson7.problem.ENERGY_J


def test_sliders_redraw_picture_and_sentence():
    box = lesson7.energy_explorer(deadline_s=30, radius_km=0.5, devices=20, seed=0)
    deadline, *_, answer, picture = box.children
    before, sentence = picture.value, answer.value
    deadline.value = 50
    assert bytes(picture.value) != bytes(before) and bytes(picture.value).startswith(b"\x89PNG")
    assert answer.value != sentence and "20 devices" in answer.value


# ---- The clock


def test_the_fastest_devices_go_to_the_lowest_scores():
    score = np.array([0.3, 0.9, 0.1, 0.5])
    seconds = clock.draw_devices(4, 0, slowest=score).seconds
    assert np.argsort(seconds).tolist() == np.argsort(score).tolist()
    assert sorted(seconds) == sorted(clock.draw_devices(4, 0).seconds)


def test_answers_have_the_stated_mean_and_some_never_come():
    devices = clock.TimedDevices(np.full(20_000, 2.0), seed=0)
    answers = devices.answers(1)
    assert np.isinf(answers).mean() == pytest.approx(clock.SILENT, abs=0.01)
    assert answers[np.isfinite(answers)].mean() == pytest.approx(2.0, rel=0.03)
    assert answers.min() >= 1.0  # half of the time is the device's own
    assert not np.array_equal(answers, devices.answers(2)) and np.array_equal(answers, devices.answers(1))


def test_policies_by_hand():
    invited, seconds = np.array([4, 5, 6, 7]), np.array([0.5, 2.0, np.inf, 1.0])
    everybody = clock.wait_for_all(invited, seconds)
    assert (everybody.seconds, everybody.clients.tolist()) == (clock.GIVE_UP, [4, 5, 7])
    limit = clock.deadline(1.0)(invited, seconds)
    assert (limit.seconds, limit.clients.tolist()) == (1.0, [4, 7])
    assert clock.deadline(9.0)(invited[:2], seconds[:2]).seconds == 2.0  # nobody to wait for
    first = clock.first_of(2)(invited, seconds)
    assert (first.seconds, first.clients.tolist()) == (1.0, [4, 7])
    part = clock.partial(1.0)(invited, seconds)
    assert (part.clients.tolist(), part.done.tolist()) == ([4, 5, 7], [1.0, 0.5, 1.0])


@pytest.fixture
def small_trial(make_federation):
    federation = make_federation(clients=6, l2=0.01)
    return clock.TimedFederation(federation, clock.draw_devices(6, 0), engine.Work(lr=0.2, batch=5, steps=6), invited=4)


def test_rounds_of_those_who_answer_in_full_are_fedavg(small_trial):
    clients, weights = np.array([0, 2, 5]), small_trial.federation.start
    done = clock.Answered(1.0, clients, np.ones(3))
    found = small_trial.averaged(weights, done, 3, normalised=False)
    trained = engine.train(small_trial.federation, engine.Cohort(clients, weights), small_trial.work, 3).weights
    sizes = small_trial.federation.sizes[torch.as_tensor(clients)]
    assert torch.allclose(found, (sizes[:, None] * trained).sum(0) / sizes.sum(), atol=1e-6)
    assert torch.allclose(small_trial.averaged(weights, done, 3, normalised=True), found, atol=1e-6)


def test_partial_work_is_the_average_of_the_exercise(small_trial):
    clients, weights, steps = np.array([1, 3, 4]), small_trial.federation.start, np.array([6, 3, 1])
    done = clock.Answered(1.0, clients, steps / 6)
    cohort = engine.Cohort(clients, weights, limit=steps)
    models = engine.train(small_trial.federation, cohort, small_trial.work, 2).weights.double().numpy()
    sizes = small_trial.federation.sizes[torch.as_tensor(clients)].double().numpy()
    wanted = fair(weights.double().numpy(), models, sizes, steps)
    assert np.allclose(small_trial.averaged(weights, done, 2, normalised=True), wanted, atol=1e-5)


def test_nobody_in_time_changes_nothing(small_trial):
    nobody = clock.Answered(1.0, np.array([], dtype=int), np.array([]))
    assert torch.equal(
        small_trial.averaged(small_trial.federation.start, nobody, 1, False), small_trial.federation.start
    )


def test_asynchronous_answers_are_used_in_the_order_in_which_they_end(small_trial):
    diary = small_trial.asynchronous(0.3, seconds=20.0)
    begun, ended, clients = (np.array(column) for column in zip(*diary.tasks, strict=True))
    assert (np.diff(ended) >= 0).all() and (ended > begun).all() and set(clients) <= set(range(6))
    at_work = [((begun <= now) & (ended > now)).sum() for now in np.linspace(1, 15, 30)]
    assert max(at_work) <= small_trial.invited
    again = small_trial.asynchronous(0.3, seconds=20.0)
    assert again.tasks == diary.tasks and np.array_equal(again.at(np.array([19.0])), diary.at(np.array([19.0])))


def test_a_diary_knows_the_model_of_every_moment(small_trial):
    diary = clock.Diary(small_trial)
    zeros, start = torch.zeros_like(small_trial.federation.start), small_trial.federation.start
    diary.note(0.0, zeros)
    diary.note(2.0, start)
    same = clock.Diary(small_trial)
    same.note(0.0, start)
    assert diary.at(np.array([0.0, 1.9]))[0] == diary.at(np.array([0.0, 1.9]))[1]
    assert diary.at(np.array([2.0, 5.0])).tolist() == [same.at(np.array([0.0]))[0]] * 2


def test_every_method_of_the_race_has_a_price_and_a_rate():
    assert set(lesson7.PRICES) == set(lesson7.problem.CHOSEN)


def test_a_minute_scores_every_digit_once():
    """Late digits and the others, weighted by how often they occur, are all digits; at second 0 nothing is learnt."""
    asked = lesson7.problem.minute.call("first 10 of 13", lesson7.problem.PROBLEM, 0, True, [0.0, 60.0])
    found, labels = asked.compute(), lesson7.problem.trial(0).federation.y_test
    late = float(torch.isin(labels, torch.tensor(lesson7.problem.LATE)).float().mean())
    assert np.allclose(late * found["8 and 9"] + (1 - late) * found["the others"], found["accuracy"])
    assert found["accuracy"].iloc[0] < 0.3 < 0.7 < found["accuracy"].iloc[1]
