"""Lessons 4 and 5 of the course: costs of topologies, forgetting, selectors, their tournament, what the checks say."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from played_rounds import after_rounds

from fedlib import engine
from fedlib.algorithms import create
from fedlib.algorithms.ring import ring_optimization
from fedlib.course import lesson4, lesson5
from fedlib.runs.simulation import Progress, simulate

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_figure_left():
    yield
    plt.close("all")


def verdict(check, answer, capsys) -> str:
    check(answer)
    return capsys.readouterr().out


# Lesson 4


@pytest.mark.parametrize(
    ("name", "sent", "cost", "in_a_row"),
    [
        ("FedAvg", 2 * 12, 24 * 10, 3),
        ("HierFAVG", 2 * 3 + 2 * 3 * 12, 6 * 10 + 72, 3),  # three edge servers, three averages
        ("ring-optimization", 12, 12, 12 * 3),
        ("FedSR", 3 * (2 + 1 + 11 + 1), 3 * (2 * 10 + 1 + 11 + 1), 4 * 3),  # cloud, down, 3 passes of 4 less one, up
    ],
)
def test_a_round_costs_what_its_arrows_say(name, sent, cost, in_a_row):
    made = lesson4.method(name)
    assert (lesson4.problem.models_sent(made), lesson4.cost(made, 10), lesson4.problem.epochs_in_a_row(made)) == (
        sent,
        cost,
        in_a_row,
    )
    assert lesson4.cost(made, 1) == sent
    assert lesson4.round_of().loc[name].tolist() == [sent, cost, in_a_row]


@pytest.mark.parametrize(
    ("ring", "passes", "rounds"),
    [
        (4, 3, 10),
        (1, 3, 3),
        (12, 1, 10),
        (12, 10, 1),
        (2, 1, 7),
        (12, 11, 0),
    ],  # 99, 288, 33, 141, 138 a round; too slow
)
def test_a_design_runs_until_budget_or_patience_ends(ring, passes, rounds):
    assert lesson4.problem.affordable_rounds(lesson4.problem.design(ring, passes)) == rounds


def test_the_tug_of_war_ends_where_the_weights_of_its_devices_say():
    table = lesson4.tug_of_war(0.5, passes=2)[1]
    assert table["ring"].tolist() == [0, 2.12, 2.26]  # 1/8 + 2/4 + 3/2 = 2.125; then 2.125 / 16 more
    assert table["star"].tolist() == [0, 0.75, 1.12] and table["mean"].tolist() == [1.5] * 3


def test_a_journey_counts_the_visits_since_a_class_was_held():
    held = np.array([[1.0, 0.0, 0.0], [0.0, 0.95, 0.05], [0.5, 0.5, 0.0]])  # a twentieth is too little to count
    found = lesson4.problem.RingTour(np.zeros((4, 3)), held).ago
    np.testing.assert_array_equal(found, [[0, np.nan, np.nan], [1, 0, np.nan], [0, 0, np.nan]])


def test_a_journey_ends_with_the_model_of_the_ring(make_federation):
    fed, work = make_federation("dense"), engine.Work(lr=0.1, batch=8, epochs=2)
    ring = np.array([3, 0, 7])
    (model,) = ring_optimization(fed, fed.start, [ring], work, passes=1, round=1)
    found = lesson4.journey(fed, fed.start, ring, work)
    share = float((found.recall[-1] * torch.bincount(fed.y_test).numpy()).sum() / len(fed.y_test))
    assert share == pytest.approx(engine.evaluate(fed.network, model, fed.x_test, fed.y_test)["accuracy"])
    assert found.recall.shape == (4, 4) and found.held.sum(axis=1) == pytest.approx(1)


def test_the_price_slider_moves_the_costs_and_the_picture():
    rows = [(name, seed, round, round / 5) for name in lesson4.METHODS for seed in (0, 1) for round in range(4)]
    explorer = lesson4.price_explorer(
        pd.DataFrame(rows, columns=["method", "seed", "round", "accuracy"]), cloud_price=1
    )
    slider, words, picture = explorer.children
    before = bytes(picture.value)
    assert words.value == "A round costs: FedAvg 24, HierFAVG 78, ring-optimization 12, FedSR 45."
    slider.value = 10
    assert words.value == "A round costs: FedAvg 240, HierFAVG 132, ring-optimization 12, FedSR 99."
    assert bytes(picture.value).startswith(b"\x89PNG") and bytes(picture.value) != before


# Lesson 5


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "returned nothing"),
        ([1, 2], "returned 2 clients, but history.size = 3"),
        ([], "returned 0 clients"),
        ([1, 2, 2], "invited client 2 more than once"),
        ([1, 2, 10], "no client 10: history.clients = 10 are numbered 0 to 9"),
        ([-1, 2, 3], "no client -1"),
        ([1.0, 2.0, 3.0], "numbers of type float64"),
        (["a", "b", "c"], "whole numbers"),
        (np.arange(10) < 3, "np.flatnonzero"),
        ([[1, 2, 3]], r"shape \(1, 3\)"),
        (4, r"shape \(\)"),
    ],
)
def test_a_selector_that_answers_wrongly_is_told_what_is_wrong(answer, complaint):
    with pytest.raises(ValueError, match=complaint):
        lesson5.problem.checked_choice(answer, clients=10, size=3)


@pytest.mark.parametrize(
    "answer", [[5, 0, 3], (5, 0, 3), {5, 0, 3}, np.array([5, 0, 3]), np.array([5, 0, 3], np.uint8)]
)
def test_a_right_choice_comes_back_sorted(answer):
    assert lesson5.problem.checked_choice(answer, clients=10, size=3).tolist() == [0, 3, 5]


def test_a_group_marked_by_hand_is_compared_with_the_best_of_its_size(monkeypatch, make_federation):
    fed = make_federation(clients=6)
    monkeypatch.setattr(lesson5.problem, "world", lambda name, seed=0: fed)
    explorer = lesson5.by_hand(clients=6)
    (box, _), words = explorer.children[0].children, explorer.children[1]
    box.value = tuple(range(6))
    assert words.value == "Your 6 clients are 0.000 away from everybody's mixture; the best group of that size 0.000."
    box.value = ()
    assert words.value.startswith("Choose somebody")


WORK = {"lr": 0.1, "batch": 8, "epochs": 1}


def test_a_selector_that_invites_as_fedavg_does_trains_the_same_model(make_federation):
    fed = make_federation()
    fedavg = create("fedavg", participation=0.3, **WORK)
    invited = lesson5.problem.Invited(
        selector=lambda round, history, rng: fedavg.participants(fed, round), size=3, **WORK
    )
    assert torch.equal(after_rounds(invited, fed, 3)["weights"], after_rounds(fedavg, fed, 3)["weights"])


def test_the_history_tells_who_came_and_how_skewed_they_looked(make_federation):
    fed, seen = make_federation(), []

    def selector(round, history, rng):
        seen.append(history)
        history.counts[:] = 0  # its own copy: nobody else notices
        return [round, 7, 9]

    state = after_rounds(lesson5.problem.Invited(selector=selector, size=3, **WORK), fed, 3)
    assert [len(history.chosen) for history in seen] == [0, 1, 2] and seen[0].clients == 10
    assert [each.tolist() for each in seen[2].chosen] == [[1, 7, 9], [2, 7, 9]]
    assert all((rewards < 0).all() and rewards.shape == (3,) for rewards in seen[2].rewards)
    assert fed.class_counts.sum() == fed.sizes.sum() and state["chosen"].shape == (3, 3)


@pytest.mark.parametrize("name", list(lesson5.problem.ENTRANTS))
def test_every_entrant_answers_as_it_should_and_goes_on_where_it_was_interrupted(name, make_federation):
    fed = make_federation()
    method = lesson5.problem.Invited(selector=lesson5.problem.ENTRANTS[name], size=3, **WORK)
    stopped = Progress()
    simulate(method, fed, 2, progress=stopped, bar=False)
    resumed = simulate(method, fed, 4, progress=stopped, bar=False)
    assert resumed.equals(simulate(method, fed, 4, bar=False))


def test_groups_are_closer_to_everybody_than_random_ones(make_federation):
    counts = make_federation(clients=20, alpha=0.2, samples=800).class_counts.numpy().astype(int)
    history = lesson5.History(counts, 4, [], [])

    def mean_distance(selector) -> float:
        return np.mean(
            [
                lesson5.problem.mixture_distance(counts, selector(1, history, np.random.default_rng(k)))
                for k in range(20)
            ]
        )

    assert mean_distance(lesson5.greedy) < 0.6 * mean_distance(lesson5.at_random)


def test_duels_are_replayed_with_rewards_of_the_last_rounds():
    rounds = [[0, 1], [2, 3]], [[-1.0, -2.0], [-1.5, -9.0]]
    history = lesson5.History(np.ones((5, 2), int), 2, *[[np.array(row) for row in each] for each in rounds])
    won, lost = lesson5.problem.duels_so_far(history, step=1)
    assert won.tolist() == [1, 0, 2, 0, 0]  # 0 beats 1; then 2 beats 3 and the remembered 1
    assert lost.tolist() == [0, 1, 1, 3, 0]  # 2 loses to the remembered 0, 3 to everybody; nobody has met 4
    won, lost = lesson5.problem.duels_so_far(history, step=1, memory=0)
    assert (won.tolist(), lost.tolist()) == ([1, 0, 1, 0, 0], [0, 1, 0, 1, 0])


@pytest.fixture
def small_tournament(monkeypatch, make_federation):
    """Two tiny worlds, three rounds, two seeds."""
    made = {
        (name, seed): make_federation(alpha=alpha, seed=seed)
        for name, alpha in zip(lesson5.problem.WORLDS, (1.0, 0.2), strict=True)
        for seed in range(2)
    }
    monkeypatch.setattr(lesson5.problem, "world", lambda name, seed=0: made[name, seed])
    monkeypatch.setattr(lesson5.problem, "SEEDS", range(2))
    monkeypatch.setattr(lesson5.problem, "_kept_games", lesson5.problem._kept_games.function)
    for module in (lesson5.problem, lesson5.pictures):
        monkeypatch.setattr(module, "ROUNDS", 3)


def test_a_tournament_comes_out_the_same_again_and_treats_all_alike(small_tournament, capsys):
    table = lesson5.tournament(lesson5.at_random)[1]
    assert table.equals(lesson5.tournament(lesson5.at_random)[1])
    assert set(table.index) == {*lesson5.problem.ENTRANTS, "your selector"} and capsys.readouterr().out == ""
    assert table.loc["your selector"].tolist() == table.loc["random"].tolist()
    assert table["points"].is_monotonic_decreasing
    assert table.loc["always the mildest", "clients"] == 5


def unfilled(round, history, rng):
    raise NotImplementedError("your turn")


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (None, "Your selector is still to be written"),
        (..., "Your selector is still to be written"),
        (unfilled, "Your selector is still to be written"),
        (lambda round, history, rng: [0] * history.size, "ValueError: the selector invited client 0 more than once"),
        (lambda round, history, rng: history.chosen[0], "IndexError: list index out of range"),
    ],
    ids=["none", "dots", "stub", "twice", "broken"],
)
def test_a_tournament_without_a_working_entry_says_so_in_one_line(mine, told, small_tournament, capsys):
    table = lesson5.tournament(mine)[1]
    out = capsys.readouterr().out
    assert told in out and out.count("\n") == 1
    assert set(table.index) == set(lesson5.problem.ENTRANTS)


# The checks


def around(train, model, ring, passes):
    for device in list(ring) * passes:
        model = train(model, device)
    return model


def star(train, model, ring, passes):
    return sum(train(model, device) for device in ring) / len(ring)


def restarted(train, model, ring, passes):
    return [around(train, model, ring, 1) for _ in range(passes)][-1]


def first_reach(accuracies, target, cost):
    return next((round * cost for round, accuracy in enumerate(accuracies) if accuracy >= target), None)


def mixture(counts, group):
    return counts[group].sum(axis=0) / counts[group].sum()


def apart(counts, group):
    return np.sqrt(((mixture(counts, group) - mixture(counts, np.arange(len(counts)))) ** 2).sum())


def spread(alone, k):
    n = len(alone)
    return np.mean(alone**2) * (1 / k - 1 / n) * n / (n - 1)


def shares_averaged(counts, group, everybody=None):
    shares = counts / counts.sum(1, keepdims=True)
    return np.linalg.norm(shares[group].mean(0) - (shares.mean(0) if everybody is None else everybody))


def nearest(counts, group, others=None):
    others = [client for client in range(len(counts)) if client not in group] if others is None else others
    return min(others, key=lambda client: apart(counts, [*group, client]))


def duels(rewards):
    table = np.sign(rewards[:, None] - rewards[None, :])
    return (table > 0).sum(axis=1), (table < 0).sum(axis=1)


def at_random(round, history, rng):
    return rng.choice(history.clients, history.size, replace=False)


RIGHT = [
    (lesson4.arrows_of_rings, lambda devices, ring, passes: passes * devices + 3 * -(-devices // ring)),
    (lesson4.around_the_ring, around),
    (lesson4.cost_to_reach, first_reach),
    (
        lesson4.weights_of_devices,
        lambda rate, devices: [rate * (1 - rate) ** (devices - k - 1) for k in range(devices)],
    ),
    (lesson4.my_rings, {"cluster_size": 2, "passes": 4}),
    (lesson5.distance, apart),
    (lesson5.random_distance, spread),
    (lesson5.next_member, nearest),
    (lesson5.duels, duels),
    (lesson5.my_selector, at_random),
    (lesson4.my_rings, {"cluster_size": np.int64(2), "passes": np.int32(4)}),
    (lesson4.around_the_ring, lambda train, model, ring, passes: np.float32(around(train, model, ring, passes))),
    (lesson5.duels, lambda rewards: [part.astype(float) for part in duels(rewards)]),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    assert verdict(check, answer, capsys) == f"✓ {check.number} {check.title}\n"


def test_the_count_of_the_exercise_is_that_of_the_library():
    for devices, ring, passes in ((6, 3, 1), (20, 4, 5), (10, 4, 2), (5, 1, 1), (7, 7, 3)):
        sent = lesson4.problem.models_sent(lesson4.problem.design(ring, passes), devices)
        assert sent == RIGHT[0][1](devices, ring, passes)


SHRUNK = [0.0625, 0.125, 0.25]
EVERYBODY = [0.45, 0.2, 0.35]
WRONG = [
    (
        lesson4.arrows_of_rings,
        lambda k, q, r: r * k + 2 * -(-k // q),
        "edge server hands the model to the first device",
    ),
    (lesson4.arrows_of_rings, lambda k, q, r: r * k, "What do the servers send?"),
    (lesson4.arrows_of_rings, lambda k, q, r: r * k + 3 * k, "one a ring, not to every device"),
    (lesson4.arrows_of_rings, lambda k, q, r: r * k + 3 * (k // q), "so round up"),
    (lesson4.arrows_of_rings, lambda k, q, r: r * k + 4 * -(-k // q), "12 arrows, you have 14"),
    (lesson4.arrows_of_rings, lambda k, q, r: None, "end it with return"),
    (lesson4.around_the_ring, star, "that is the star"),
    (lesson4.around_the_ring, lambda train, model, ring, passes: around(train, model, ring[::-1], passes), "backwards"),
    (lesson4.around_the_ring, lambda train, model, ring, passes: model, "the model that you began with"),
    (lesson4.around_the_ring, lambda train, model, ring, passes: [train(model, d) for d in ring], "not a list"),
    (
        lesson4.around_the_ring,
        lambda train, model, ring, passes: [train(model, d) for d in ring][-1],
        "gets the start again",
    ),
    (
        lesson4.around_the_ring,
        lambda train, model, ring, passes: around(train, model, ring, 1),
        "visit all three devices twice",
    ),
    (lesson4.around_the_ring, restarted, "The second pass goes on with the model of the first"),
    (lesson4.cost_to_reach, lambda a, t, c: (first_reach(a, t, 1) or 0) * c + c, "begins with round 0"),
    (lesson4.cost_to_reach, lambda a, t, c: first_reach(a, t, 1), "Each round costs something"),
    (
        lesson4.cost_to_reach,
        lambda a, t, c: max(i for i, each in enumerate(a) if each >= t) * c,
        "The first time counts",
    ),
    (lesson4.cost_to_reach, lambda a, t, c: first_reach(a, t + 1e-6, c), "use >="),
    (lesson4.cost_to_reach, lambda a, t, c: first_reach(a, t, c) or None, "costs nothing"),
    (lesson4.cost_to_reach, lambda a, t, c: first_reach(a, t, c) or 0, "return None"),
    (lesson4.weights_of_devices, lambda rate, k: [0.5, 0.25, 0.125], "The other way round"),
    (lesson4.weights_of_devices, lambda rate, k: np.array([1, 2, 4]) / 7, "leave out the division"),
    (lesson4.weights_of_devices, lambda rate, k: (1 - rate) ** np.arange(k)[::-1], "enters with the factor `rate`"),
    (lesson4.weights_of_devices, lambda rate, k: SHRUNK, "LATER device only"),
    (lesson4.weights_of_devices, lambda rate, k: [0.125, 0.25, 0.5], "Six devices, six numbers"),  # learnt by heart
    (lesson4.weights_of_devices, lambda rate, k: 0.5 ** np.arange(k, 0, -1), "rate 0.2, six devices"),
    (lesson4.weights_of_devices, lambda rate, k: rate, "the shape ()"),
    (lesson4.my_rings, {"cluster_size": 4}, "a dictionary with cluster_size and passes"),
    (lesson4.my_rings, {"cluster_size": 4.0, "passes": 1}, "a whole number from 1 to 12"),
    (lesson4.my_rings, {"cluster_size": 0, "passes": 1}, "a whole number from 1 to 12"),
    (lesson4.my_rings, {"cluster_size": 12, "passes": 11}, "not even one fits"),
    (lesson4.my_rings, dict(lesson4.problem.SAMPLE_DESIGN), "Try others"),
    (lesson5.distance, lambda counts, group: shares_averaged(counts, group), "Pool the samples first"),
    (lesson5.distance, lambda counts, group: shares_averaged(counts, group, EVERYBODY), "Pool the samples first"),
    (
        lesson5.distance,
        lambda counts, group: shares_averaged(counts, group, 1 / counts.shape[1]) ** 2,
        "compare with an even mixture",
    ),
    (lesson5.random_distance, lambda alone, k: spread(alone, k) ** 0.5, "without the root"),
    (lesson5.random_distance, lambda alone, k: alone.mean() / k, "square first"),
    (lesson5.random_distance, lambda alone, k: (alone**2).mean(), "its distance is 0"),
    (lesson5.random_distance, lambda alone, k: (alone**2).mean() / k, "its distance is 0"),
    (
        lesson5.random_distance,
        lambda alone, k: (alone**2).mean() / k * (k < len(alone)),
        "clients that may come twice",
    ),
    (
        lesson5.random_distance,
        lambda alone, k: (alone**2).mean() * (len(alone) - k) / (len(alone) - 1),
        "Over all groups",
    ),
    (lesson5.random_distance, lambda alone, k: alone**2 / k, "One number"),
    (lesson5.distance, lambda counts, group: apart(counts, group) ** 2, "take the root"),
    (
        lesson5.distance,
        lambda counts, group: np.linalg.norm(mixture(counts, group) - 1 / 3),
        "compare with an even mixture",
    ),
    (lesson5.distance, lambda counts, group: np.abs(mixture(counts, group) - EVERYBODY).sum(), "absolute differences"),
    (lesson5.distance, lambda counts, group: mixture(counts, group) - EVERYBODY, "One number"),
    (lesson5.distance, lambda counts, group: 0.465**0.5, "All clients together"),  # learnt by heart
    (lesson5.next_member, lambda counts, group: nearest(counts, group, range(len(counts))), "in the group already"),
    (lesson5.next_member, lambda counts, group: nearest(counts, [], range(1, len(counts))), "What counts is the GROUP"),
    (
        lesson5.next_member,
        lambda counts, group: 2 if len(counts) == 4 else nearest(counts, [], [1, 2]),
        "Somebody else than client",
    ),
    (lesson5.next_member, lambda counts, group: [*group, 2], "Return one client's number"),
    (lesson5.duels, lambda r: duels(-r), "The other way round"),
    (lesson5.duels, lambda r: ((r[:, None] >= r).sum(1), (r[:, None] < r).sum(1)), "use >, not >="),
    (lesson5.duels, lambda r: duels(r)[0], "Return two arrays"),
    (lesson5.duels, lambda r: duels(r + 1e-9 * np.arange(len(r))), "win 3, 0, 2 and 0"),  # ties by position
    (lesson5.duels, lambda r: (duels(r)[0], len(r) - duels(r)[0]), "lose 0, 2, 1 and 2 duels"),
    (lesson5.my_selector, lambda round, history, rng: [0, 1, 2], "(7 clients, 2 to choose): the selector returned 3"),
    (lesson5.my_selector, lambda round, history, rng: rng.integers(0, 1, history.size), "more than once"),
    (
        lesson5.my_selector,
        lambda round, history, rng: np.arange(history.size) + history.clients,
        "there is no client 12",
    ),
    (
        lesson5.my_selector,
        lambda round, history, rng: np.random.permutation(history.clients)[: history.size],  # noqa: NPY002  a mistake
        "draw from `rng`",
    ),
    (lesson5.my_selector, lambda round, history, rng: history.chosen[-1], "IndexError"),
    (lesson5.my_selector, lambda round, history, rng: None, "returned nothing"),
]


@pytest.mark.parametrize(("check", "answer", "told"), WRONG)
def test_a_typical_mistake_gets_the_hint_made_for_it(check, answer, told, capsys):
    np.random.seed(0)  # noqa: NPY002  one of the mistakes is to draw from here
    out = verdict(check, answer, capsys)
    assert out.startswith(f"✗ {check.number} ") and told in out and out.count("\n") == 1
    assert not check.passed
