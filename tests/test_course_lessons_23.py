"""Lessons 2 and 3 of the course: the toy's resting places by hand, corrected steps in closed form, checks and hints."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from fedlib import engine
from fedlib.algorithms import REGISTRY
from fedlib.course import lesson2, lesson3, toy
from fedlib.report.show import png
from fedlib.runs import tuning

pytestmark = pytest.mark.slow

# Two clients in one dimension (the other stays at rest at 0): H = 1 and 2, m = 0 and 1.
PAIR = toy.Toy(np.array([np.diag([1.0, 1.0]), np.diag([2.0, 1.0])]), np.array([[0.0, 0.0], [1.0, 0.0]]))


# --- the toy ---


def test_the_optimum_is_where_the_gradients_cancel():
    assert PAIR.optimum == pytest.approx([2 / 3, 0])
    assert toy.clients().gradient(toy.clients().optimum).sum(0) == pytest.approx([0, 0], abs=1e-12)
    assert PAIR.loss(np.array([1.0, 0.0])) == pytest.approx(1 / 4)  # (1/2 + 0) / 2


def test_one_round_by_hand():
    # lr 1/2, two steps from 1: client 1 walks 1, 1/2, 1/4 and client 2 stays at 1.
    journey = toy.travel(PAIR, 1, 0.5, 2, start=(1.0, 0.0))
    assert journey.walks[0, :, :, 0] == pytest.approx(np.array([[1, 1 / 2, 1 / 4], [1, 1, 1]]))
    assert journey.averages[1] == pytest.approx([5 / 8, 0])


@pytest.mark.parametrize(("steps", "place"), [(1, 2 / 3), (2, 4 / 7), (60, 1 / 2)])
def test_the_closed_form_rests_where_the_walk_does(steps, place):
    assert toy.resting_place(PAIR, 0.5, steps)[0] == pytest.approx(place, abs=1e-8)


def test_clients_with_unequal_steps_rest_elsewhere_although_they_share_a_curvature():
    # H = 1 for both, m = 0 and 1: B = 1 - (1 - lr)^K weighs the clients, so w = B_2 / (B_1 + B_2).
    alike = toy.Toy(np.array([np.eye(2), np.eye(2)]), PAIR.minima)
    walked = 1 - 0.9 ** np.array([2, 20])
    assert toy.resting_place(alike, 0.1, np.array([2, 20]))[0] == pytest.approx(walked[1] / walked.sum())
    assert toy.resting_place(alike, 0.1, 20)[0] == pytest.approx(0.5)
    assert toy.resting_place(alike, 0.1, np.array([2, 20]), weights=1 / walked)[0] == pytest.approx(0.5)


@pytest.mark.parametrize(("steps", "place"), [(1, 2 / 3), (2, 4 / 7), (60, 1 / 2)])
def test_fedavg_rests_between_the_optimum_and_the_mean_of_the_minima(steps, place):
    assert toy.rest(PAIR, 0.5, steps)[0] == pytest.approx(place, abs=1e-8)


def test_drift_does_no_harm_where_the_curvature_or_the_minimum_is_common():
    for same in (toy.clients(apart=1, bend=0), toy.clients(apart=0, bend=1)):
        assert same.distance(toy.rest(same, 0.1, 20)) < 1e-6
    assert toy.clients().distance(toy.rest(toy.clients(), 0.1, 20)) > 0.5


def test_a_method_that_runs_away_has_no_resting_place():
    assert np.isnan(toy.rest(PAIR, 1.5, 20)).all()


# --- corrections ---


def test_the_spring_rests_where_its_closed_form_says():
    # With endless steps client i ends at (H m + mu w) / (H + mu): w = sum(H m / (H + mu)) / sum(H / (H + mu)); mu = 2.
    assert toy.rest(PAIR, 0.2, 200, lesson3.problem.fedprox(2.0))[0] == pytest.approx(
        (2 / 4) / (1 / 3 + 2 / 4), abs=1e-8
    )
    assert lesson3.problem.fedprox(0.0)(PAIR.gradient, np.ones((2, 2)), _sent()) == pytest.approx(
        PAIR.gradient(np.ones(2))
    )


def _sent(model=(1.0, 0.0)) -> toy.Sent:
    model, none = np.array(model), np.zeros((2, 2))
    anchor = PAIR.gradient(model).mean(0)
    return toy.Sent(model, anchor, anchor, none, none.mean(0))


def test_corrected_clients_set_off_in_one_direction():
    # At w = 1 the clients' gradients are 1 and 0, the mean is 1/2.
    sent, there = _sent(), np.array([[1.0, 0.0], [1.0, 0.0]])
    assert lesson3.problem.fcbafl(0.4)(PAIR.gradient, there, sent) == pytest.approx(np.array([[0.2, 0], [0.2, 0]]))
    assert lesson3.problem.anchored()(PAIR.gradient, there, sent) == pytest.approx(np.array([[0.5, 0], [0.5, 0]]))


def test_one_exact_step_of_a_surrogate_is_gradient_descent():
    for direction in (lesson3.problem.fcbafl(1.0), lesson3.problem.anchored()):
        moved = toy.travel(PAIR, 1, 0.5, 1, direction, start=(1.0, 0.0)).averages[1]
        assert moved == pytest.approx([1 - 0.5 * 0.5, 0])


def test_a_long_surrogate_walk_ends_where_the_closed_form_says():
    # The walk solves H_i (w_i - w) = -g: with g = 1/2 at w = 1 the clients end at 1/2 and 3/4.
    journey = toy.travel(PAIR, 1, 0.3, 300, lesson3.problem.anchored(), start=(1.0, 0.0))
    assert journey.walks[0, :, -1, 0] == pytest.approx([1 / 2, 3 / 4])


def test_control_variates_rest_at_the_optimum_and_the_spring_does_not():
    clients = toy.clients()
    rests = {
        name: clients.distance(toy.rest(clients, 0.1, 20, way)) for name, way in lesson3.problem.CORRECTIONS.items()
    }
    assert all(rests[name] < 1e-6 for name in ("SCAFFOLD", "FCBAFL, eta = 1", "ACFMO's local step"))
    assert 0.3 < rests["FedProx, mu = 1"] < rests["FedAvg"]


def test_scaffold_begins_as_fedavg_and_then_remembers_the_mean_gradient_of_its_walk():
    plain, scaffold = (
        toy.travel(PAIR, 2, 0.5, 2, way, start=(1.0, 0.0)) for way in (toy.plain, lesson3.problem.scaffold())
    )
    assert scaffold.averages[1] == pytest.approx(plain.averages[1])
    # Client 1 had the gradients 1 and 1/2 (mean 3/4), client 2 none; c = 3/8. From 5/8 the first directions are 5/8
    # and -3/4, minus own, plus common: 1/4 and -3/8.
    assert scaffold.walks[1, :, 1, 0] == pytest.approx([5 / 8 - 0.5 / 4, 5 / 8 + 0.5 * 3 / 8])


def test_acfmos_step_in_full_is_gradient_descent_with_one_step(make_federation):
    federation = make_federation(clients=5)
    method = lesson3.problem.AnchoredSteps(lr=0.1, batch=4, steps=1)
    after = method.round(federation, method.init(federation), 1)["weights"]
    anchor = engine.pooled_gradient(federation, federation.start, np.arange(5))
    assert torch.allclose(after, federation.start - 0.1 * anchor, atol=1e-6)
    assert "anchoredsteps" not in REGISTRY  # an illustration of the lesson, not a method of the workbook


def test_rates_are_tuned_on_held_out_training_samples_and_on_seeds_of_their_own(monkeypatch):
    asked = []

    def execute(runs):
        asked.extend(runs)
        rows = [run.label | {"seed": run.seed, "round": run.rounds, "accuracy": run.options["lr"]} for run in runs]
        return pd.DataFrame(rows)

    monkeypatch.setattr(lesson3.problem, "execute", execute)
    assert set(lesson3.tuned(2).idxmax(axis=1)) == {3.0}
    assert {run.federation["validation_share"] for run in asked} == {tuning.HELD_OUT}
    assert not any("test_samples" in run.federation for run in asked)
    assert {run.seed for run in asked} == set(lesson3.problem.TUNING_SEEDS) and min(lesson3.problem.TUNING_SEEDS) > 10


@pytest.mark.parametrize(("mu", "arrives"), [(17.5, True), (18.5, False)])
def test_a_spring_is_stable_as_long_as_rate_times_curvature_and_spring_stay_below_two(mu, arrives):
    # lr = 0.1 and a largest curvature of 2: 0.1 * (2 + mu) < 2 up to mu = 18
    place = toy.rest(toy.clients(), 0.1, 20, lesson3.problem.fedprox(mu))
    assert np.isfinite(place).all() == arrives


def test_noise_of_a_minibatch_by_hand():
    # Two samples with gradients 1 and 3 (inputs 1 and 1): a batch of 20 errs by sqrt(1 / 20).
    x, errors = np.ones((2, 1)), np.array([[1.0], [3.0]])
    assert lesson3.problem.rmse(errors, x, (x**2).sum(1)) == pytest.approx(20**-0.5)
    assert lesson3.problem.rmse(errors - errors, x, (x**2).sum(1)) == 0


# --- digits ---


def test_the_deals_share_samples_network_and_start():
    deals = {name: lesson2.digits(name) for name in lesson2.DEALS}
    first = deals["shuffled"]
    sums = sorted(first.x.sum(1).tolist())
    for federation in deals.values():
        assert federation.clients == first.clients == 24
        assert sorted(federation.x.sum(1).tolist()) == sums
        assert torch.equal(federation.start, first.start)
        assert torch.equal(federation.y_test, first.y_test)
    held = {name: (federation.class_counts > 0).sum(1).float().mean().item() for name, federation in deals.items()}
    assert held["one digit"] < held["two digits"] < 4 < held["by writer"]


def test_the_line_between_two_models_begins_and_ends_with_them():
    first, second = lesson2.digits("shuffled").start, torch.zeros_like(lesson2.digits("shuffled").start)
    places, losses = lesson2.between(first, second, points=3)
    assert places.tolist() == [0, 0.5, 1]
    assert losses[-1] == pytest.approx(np.log(10), abs=1e-4)  # a model of zeros knows nothing
    assert losses[0] == pytest.approx(lesson2.problem.test_loss_of(lesson2.digits("shuffled"), first))


# --- sliders ---


@pytest.mark.parametrize(("lesson", "slider", "value"), [(lesson2, 0, 1), (lesson3, 3, 0.3)])
def test_the_sliders_answer_with_another_picture_and_another_sentence(lesson, slider, value):
    *controls, answer, picture = lesson.explorer().children
    before = answer.value, bytes(picture.value)
    controls[slider].value = value
    assert answer.value != before[0]
    assert bytes(picture.value) != before[1]


def test_a_picture_of_clients_that_run_away_can_be_drawn():
    fig, far = lesson3.explored("FCBAFL (strength is eta)", 5.0, 100, 0.9)
    assert far > 100
    png(fig)


# --- checks: right answers ---


def walk(gradient, start, lr, steps):
    points = [np.asarray(start, dtype=float)]
    for _ in range(steps):
        points.append(points[-1] - lr * gradient(points[-1]))
    return np.stack(points)


def fedavg_round(gradients, sizes, start, lr, steps):
    ends = [walk(gradient, start, lr, steps)[-1] for gradient in gradients]
    return np.average(ends, axis=0, weights=sizes)


def fixed_point(
    curvatures, minima, lr, steps, power=np.linalg.matrix_power, weigh=lambda left: np.eye(len(left)) - left
):
    B = [weigh(power(np.eye(minima.shape[1]) - lr * H, steps)) for H in curvatures]
    return np.linalg.solve(sum(B), sum(b @ m for b, m in zip(B, minima, strict=True)))


def barrier(losses):
    return max(losses - np.linspace(losses[0], losses[-1], len(losses)))


def clients_of(curvatures, minima):
    return lambda: (np.array(curvatures), np.array(minima))


BOWL = [[1.0, 0.2], [0.2, 0.6]]


def turned(degrees):
    """One of several clients that a turn carries into each other."""
    a = np.radians(degrees)
    turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    return turn @ np.diag([2.0, 0.2]) @ turn.T, turn @ np.array([1.0, 0.4])


TURNED = [turned(degrees) for degrees in (0, 120, 240)]


def spring(h, m, mu):
    """Where the mean of (h m + mu w) / (h + mu) is w."""
    ends_without_w, share_of_w = h * m / (h + mu), mu / (h + mu)
    return ends_without_w.mean() / (1 - share_of_w.mean())


def scaffold(gradients, x, c, own, lr, steps, signs=(-1, 1), divisor=None, stale=False, many=None):
    """SCAFFOLD's round with room for mistakes."""
    ends, new = [], []
    for gradient, mine, taken in zip(gradients, own, steps, strict=True):
        y = x
        for _ in range(many or taken):
            y = y - lr * (gradient(y) + signs[0] * mine + signs[1] * c)
        new.append(mine - c + (x - y) / (lr * (divisor or taken)))
        ends.append(y)
    return np.mean(ends, axis=0), c if stale else np.mean(new, axis=0), np.array(new)


def changed_places(*given):
    x, c, own = scaffold(*given)
    return x, own, c


def in_place(gradients, x, c, own, lr, steps):
    x, c, own[:] = scaffold(gradients, x, c, own.copy(), lr, steps)
    own += 1e-9
    return x, c, own


def same_array(gradients, x, c, own, lr, steps):
    """`y = x` names the array of x; `-=` then moves it."""
    y = x
    for _ in range(steps[0]):
        y -= lr * gradients[0](y)
    return scaffold(gradients, x, c, own, lr, [0, *steps[1:]])


def dynamic(H, m, theta, g, alpha, remember=-1, correct=-1, sent=lambda g: g.mean(0)):
    """FedDyn's round with room for mistakes."""
    eye = np.eye(len(theta))
    ends = np.stack(
        [np.linalg.inv(h + alpha * eye) @ (h @ a + b + alpha * theta) for h, a, b in zip(H, m, g, strict=True)]
    )
    g = g + remember * alpha * (ends - theta)
    return ends.mean(0) + correct * sent(g) / alpha, g


def half_solved(H, m, theta, g, alpha):
    """Forgets the memory in the client's problem."""
    return dynamic(H, m, theta, 0 * g, alpha)[0], g + dynamic(H, m, theta, 0 * g, alpha)[1]


def interval_of_gain(ours, rival, factor=None, ddof=1, n=None):
    """Mean and 95% interval of the paired gain, with room for mistakes."""
    gains = np.asarray(ours) - np.asarray(rival)
    factor = factor or stats.t.ppf(0.975, len(gains) - 1)
    half = factor * gains.std(ddof=ddof) / (n or len(gains)) ** 0.5
    return gains.mean(), gains.mean() - half, gains.mean() + half


def unpaired(ours, rival):
    half = stats.t.ppf(0.975, 3) * np.hypot(ours.std(ddof=1), rival.std(ddof=1)) / 2
    return (ours - rival).mean(), (ours - rival).mean() - half, (ours - rival).mean() + half


def asks_everybody(gradient, w, sent):
    """Communicates at every step: all clients follow the mean gradient at their mean place."""
    everywhere = np.tile(w.mean(0), (len(w), 1))
    return np.tile(gradient(everywhere).mean(0), (len(w), 1))


def asks_everybody_where_it_stands(gradient, w, sent):
    """Communicates at every step: each client asks all others for their gradients at its own place."""
    return np.stack([gradient(np.tile(row, (len(w), 1))).mean(0) for row in w])


RIGHT = [
    (lesson2.walk, walk),
    (lesson2.fedavg_round, fedavg_round),
    (lesson2.fixed_point, fixed_point),
    (lesson2.barrier, barrier),
    (lesson2.harmless, clients_of([BOWL] * 2, [[0, 0], [3, 1]])),
    (lesson2.harmless, clients_of([client[0] for client in TURNED], [client[1] for client in TURNED])),
    (lesson3.spring_rest, spring),
    (lesson3.scaffold_round, scaffold),
    (lesson3.feddyn_round, dynamic),
    (lesson2.harmless, clients_of([np.diag([1e-3, 4e-3]), np.diag([2e-3, 1e-3])], [[0, 0], [3, 1]])),
    (lesson2.harmless, clients_of([1e-6 * np.eye(2), 2e-6 * np.eye(2)], [[0, 0], [3, 1]])),
    (lesson3.paired_gain, interval_of_gain),
    (lesson3.paired_gain, lambda a, b: [np.float32(x) for x in interval_of_gain(a, b)]),
    (lesson2.walk, lambda g, s, lr, k: walk(g, s, lr, k).astype(np.float32)),
    (lesson2.barrier, lambda losses: np.float32(barrier(losses))),
    (lesson2.fixed_point, lambda *given: fixed_point(*given).astype(np.float32)),
    (lesson3.spring_rest, lambda h, m, mu: np.array(spring(h, m, mu))),
    (lesson3.scaffold_round, lambda *given: [part.tolist() for part in scaffold(*given)]),
    (lesson3.feddyn_round, lambda *given: list(dynamic(*given))),
    (lesson3.my_direction, lambda g, w, s: g(w) - s.own + s.common),
    (lesson3.my_direction, lambda g, w, s: g(w) - g(s.model) + 0.5 * s.gradient),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    check(answer)
    assert capsys.readouterr().out == f"✓ {check.number} {check.title}\n"


# --- checks: typical mistakes and what they are told ---


def changes_its_start(gradient, start, lr, steps):
    points = [start.copy()]
    for _ in range(steps):
        start -= lr * gradient(start)
        points.append(start.copy())
    return np.stack(points)


def one_after_the_other(gradients, sizes, start, lr, steps):
    ends = []
    for gradient in gradients:
        start = walk(gradient, start, lr, steps)[-1]
        ends.append(start)
    return np.average(ends, axis=0, weights=sizes)


def average_after_each_step(gradients, sizes, start, lr, steps):
    for _ in range(steps):
        start = fedavg_round(gradients, sizes, start, lr, 1)
    return start


WRONG = [
    (lesson2.walk, lambda g, s, lr, k: walk(g, s, lr, k)[-1:], "three points"),
    (lesson2.walk, lambda g, s, lr, k: walk(g, walk(g, s, lr, 1)[-1], lr, k), "begins at"),
    (lesson2.walk, lambda g, s, lr, k: walk(g, s, -lr, k), "uphill"),
    (lesson2.walk, lambda g, s, lr, k: np.stack([s - lr * n * g(s) for n in range(k + 1)]), "gradient at the start"),
    (lesson2.walk, lambda g, s, lr, k: walk(g, s, 2 * lr, k), "first step ends"),
    (lesson2.walk, changes_its_start, "changes `start` itself"),
    (lesson2.walk, lambda g, s, lr, k: walk(g, s, lr, k).round(2), "do not round"),
    (lesson2.fedavg_round, lambda g, n, s, lr, k: fedavg_round(g, [1, 1], s, lr, k), "plain mean"),
    (lesson2.fedavg_round, lambda g, n, s, lr, k: 4 * fedavg_round(g, n, s, lr, k), "sum of the sizes"),
    (lesson2.fedavg_round, one_after_the_other, "not where another one stopped"),
    (lesson2.fedavg_round, average_after_each_step, "averages once"),
    (lesson2.fixed_point, lambda H, m, lr, k: fixed_point(H, m, lr, 1), "is the optimum"),
    (lesson2.fixed_point, lambda H, m, lr, k: m.mean(0), "mean of the minima"),
    (
        lesson2.fixed_point,
        lambda H, m, lr, k: fixed_point(H, m, lr, k, weigh=lambda left: left + 1e-15),
        "what was walked",
    ),
    (lesson2.fixed_point, lambda H, m, lr, k: fixed_point(H, m, lr, k, power=np.power), "matrix_power"),
    (lesson2.fixed_point, lambda H, m, lr, k: fixed_point(H, m, lr, k)[0], "shape (1,)"),
    (lesson2.barrier, lambda losses: max(losses), "2 high"),
    (lesson2.barrier, lambda losses: max(losses) - losses[0], "halfway"),
    (lesson2.barrier, lambda losses: losses[len(losses) // 2] - (losses[0] + losses[-1]) / 2, "valley"),
    (
        lesson2.barrier,
        lambda losses: max(
            0, losses[len(losses) // 2] - np.interp(len(losses) // 2, [0, len(losses) - 1], losses[[0, -1]])
        ),
        "Look at all points",
    ),
    (lesson2.barrier, lambda losses: max(0, losses[len(losses) // 2] - max(losses[0], losses[-1])), "halfway"),
    (lesson2.harmless, clients_of([BOWL] * 2, [[0, 0], [0.1, 0]]), "at least 1 apart"),
    (lesson2.harmless, clients_of([BOWL, np.diag([0.1, 3.0])], [[0, 0], [2, 1]]), "What must clients share"),
    (lesson2.harmless, clients_of([np.diag([1.0, -1.0])] * 2, [[0, 0], [2, 1]]), "must be a valley"),
    (lesson2.harmless, clients_of(BOWL, [[0, 0], [2, 1]]), "shapes"),
    (lesson3.spring_rest, lambda h, m, mu: (h * m).sum() / h.sum(), "is the optimum"),
    (lesson3.spring_rest, lambda h, m, mu: m.mean(), "mean of the minima"),
    (lesson3.spring_rest, lambda h, m, mu: ((h + mu) * m).sum() / (h + mu).sum(), "weigh the minima by h + mu"),
    (lesson3.spring_rest, lambda h, m, mu: (m / (h + mu)).sum() / (1 / (h + mu)).sum(), "above the fraction line"),
    (lesson3.spring_rest, lambda h, m, mu: h * m / (h + mu), "Return one number"),
    (lesson3.spring_rest, lambda h, m, mu: 0.6, "Without a spring"),  # learnt by heart
    (lesson3.spring_rest, lambda h, m, mu: spring(h, m, 2.0 * (mu > 0)), "endlessly strong"),
    (
        lesson3.scaffold_round,
        lambda *given: scaffold(*given, signs=(1, -1)),
        "signs of c_i and c in the step are swapped",
    ),
    (
        lesson3.scaffold_round,
        lambda g, x, c, own, lr, k: scaffold(g, x, c, own, lr, k, divisor=max(k)),
        "*its own* number",
    ),
    (lesson3.scaffold_round, lambda *given: scaffold(*given, stale=True), "c is still what it was"),
    (lesson3.scaffold_round, lambda *given: scaffold(*given)[:2], "Return three things"),
    (
        lesson3.scaffold_round,
        lambda g, x, c, own, lr, k: scaffold(g, x, c, own, lr, k, many=max(k)),
        "one gradient each",
    ),
    (lesson3.scaffold_round, in_place, "in place"),
    (lesson3.scaffold_round, same_array, "You changed x itself"),
    (lesson3.scaffold_round, changed_places, "One row per client"),
    (lesson3.scaffold_round, lambda *given: scaffold(*given, signs=(0, 0)), "subtract c_i and add c in the step"),
    (lesson3.feddyn_round, lambda *given: dynamic(*given)[0], "Return two things"),
    (lesson3.feddyn_round, lambda *given: dynamic(*given, remember=1), "moves against the walk"),
    (lesson3.feddyn_round, lambda *given: dynamic(*given, correct=0), "still subtracts h / alpha"),
    (lesson3.feddyn_round, lambda *given: dynamic(*given, correct=1), "you added it"),
    (lesson3.feddyn_round, lambda *given: dynamic(*given, sent=lambda g: g.sum(0)), "not their sum"),
    (lesson3.feddyn_round, half_solved, "gradient at its end"),
    (lesson3.feddyn_round, lambda H, m, t, g, a: dynamic(H * np.eye(len(t)), m, t, g, a), "gradient at its end"),
    (lesson3.paired_gain, lambda a, b: (a - b).mean(), "three numbers"),
    (lesson3.paired_gain, lambda a, b: interval_of_gain(b, a), "minus the rival's"),
    (lesson3.paired_gain, lambda a, b: (*interval_of_gain(a, b)[::2], 0.0), "lower end first"),
    (lesson3.paired_gain, unpaired, "unrelated"),
    (lesson3.paired_gain, lambda a, b: interval_of_gain(a, b, n=1), "spread of one gain"),
    (lesson3.paired_gain, lambda a, b: interval_of_gain(a, b, ddof=0), "ddof=1"),
    (lesson3.paired_gain, lambda a, b: interval_of_gain(a, b, factor=1.96), "Student's t"),
    (lesson3.paired_gain, lambda a, b: interval_of_gain(a, b, factor=stats.t.ppf(0.95, 3)), "0.975"),
    (lesson3.paired_gain, lambda a, b: interval_of_gain(a, b, n=4), "not 3"),  # the root of four seeds written as 2
    (lesson3.my_direction, asks_everybody, "an exchange at every step"),
    (lesson3.my_direction, asks_everybody_where_it_stands, "an exchange at every step"),
    (lesson3.my_direction, lambda g, w, s: g(w).mean(0), "one row per client"),
    (lesson3.my_direction, lambda g, w, s: g(w), "still"),
    (lesson3.my_direction, lesson3.problem.fedprox(1.0), "still"),
    (lesson3.my_direction, lesson3.problem.fcbafl(1.0), "lr = 0.3"),
    (lesson3.my_direction, lambda g, w, s: s.anchor + 0 * w, "run away"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_gets_the_hint_it_needs(check, answer, hint, capsys):
    check(answer)
    said = capsys.readouterr().out
    assert said.startswith(f"✗ {check.number}") and hint in said
