"""Selection of devices: GBP-CS against Algorithm 2 written out in loops, every sampler against exhaustive search."""

import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlib import selection
from fedlib.selection import exhaustive
from fedlib.selection.bestswap import best_pair
from fedlib.selection.gbpcs import INITIALISERS, growing_start, random_start, steepest, swap_until_worse
from fedlib.selection.matching import largest, scaled_gradient, target_products

MANY = settings(deadline=None, max_examples=40)
TINY = 1e-9


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def draw_problem(seed: int, classes: int = 6, devices: int = 9, size: int = 4, batch: int = 8):
    """Skewed batches of whole numbers, a few of them alike, and a target that is not whole."""
    chance = rng(seed)
    real = chance.dirichlet(np.ones(classes))
    A = np.stack([chance.multinomial(batch, chance.dirichlet(0.5 * np.ones(classes))) for _ in range(devices)], axis=1)
    A[:, chance.integers(devices)] = A[:, chance.integers(devices)]
    return A, selection.target(real, batch * (size + 1), chance.multinomial(batch, real)), size


problems = st.builds(
    lambda seed, classes, devices, share: draw_problem(seed, classes, devices, round(share * devices)),
    st.integers(0, 10**6),
    st.integers(1, 8),
    st.integers(1, 9),
    st.floats(0, 1),
)

SAMPLERS = {
    "random": lambda A, y, size: selection.random(A, y, size, rng()),
    "monte carlo": lambda A, y, size: selection.monte_carlo(A, y, size, rng()),
    "genetic": lambda A, y, size: selection.genetic(A, y, size, rng()),
    "pinv": selection.gbp_cs,
    "zero": lambda A, y, size: selection.gbp_cs(A, y, size, "zero"),
    "random start": lambda A, y, size: selection.gbp_cs(A, y, size, "random", rng()),
    "best swap": selection.best_swap,
    "brute": selection.brute,
}
SEARCHES = ["pinv", "zero", "random start", "best swap"]
WITHOUT_CHANCE = ["pinv", "zero", "best swap", "brute"]
FAST = [name for name in SAMPLERS if name != "genetic"]


# The readable reference


def readable_distance(A, y, chosen: set) -> float:
    return float(np.sqrt(sum((sum(A[f, k] for k in chosen) - y[f]) ** 2 for f in range(len(y)))))


def readable_gradient(A, y, chosen: set) -> list[float]:
    """The derivative of d = ||Ax - y|| for each x(i), before division by d."""
    residual = [sum(A[f, k] for k in chosen) - y[f] for f in range(len(y))]
    return [round(float(sum(A[f, i] * residual[f] for f in range(len(y)))), 9) for i in range(A.shape[1])]


def readable_gbp_cs(A, y, chosen: set) -> tuple[set, list[float]]:
    """Algorithm 2 from line 3 on, with the stop on equality."""
    distances = [readable_distance(A, y, chosen)]
    outside = set(range(A.shape[1])) - chosen
    while chosen and outside and distances[-1] > 0:
        g = readable_gradient(A, y, chosen)
        enters = min(sorted(outside), key=lambda i: g[i])  # (15)
        leaves = max(sorted(chosen), key=lambda i: g[i])  # (16)
        swapped = chosen - {leaves} | {enters}  # (17)
        d = readable_distance(A, y, swapped)
        if d >= distances[-1]:
            break
        chosen, outside = swapped, outside - {enters} | {leaves}
        distances.append(d)
    return chosen, distances


def readable_start(A, y, size: int, init: str) -> set:
    if init == "random":
        return set(rng().permutation(A.shape[1])[:size].tolist())
    if init == "pinv":
        solution = [round(value, 9) for value in np.linalg.lstsq(A.astype(float), y, rcond=1e-10)[0].tolist()]
        return set(sorted(range(A.shape[1]), key=lambda i: -solution[i])[:size])
    chosen: set = set()
    for _ in range(size):
        g = readable_gradient(A, y, chosen)
        chosen.add(min((i for i in range(A.shape[1]) if i not in chosen), key=lambda i: g[i]))
    return chosen


@MANY
@given(problem=problems, init=st.sampled_from(sorted(INITIALISERS)))
def test_gbp_cs_is_algorithm_2(problem, init):
    A, y, size = problem
    chosen, distances = readable_gbp_cs(A, y, readable_start(A, y, size, init))
    selected = selection.gbp_cs(A, y, size, init, rng())
    assert set(selected.devices.tolist()) == chosen
    assert selected.distances == pytest.approx(distances, abs=TINY)


BY_HAND = np.array([[4.0, 0, 2, 0], [0, 4, 2, 1]]), np.array([4.0, 5.0])


def test_the_warm_up_by_hand():
    # Slopes at nobody: -A'y = (-16, -20, -18, -5). Device 1 joins: Ax = (0, 4), slopes (-16, ., -10, -1). Then device 0
    # joins: Ax = (4, 4).
    x, distances = selection.warm_up(*BY_HAND, 2)
    assert x.tolist() == [True, True, False, False]
    assert distances == pytest.approx([41**0.5, 17**0.5, 1])


def test_a_target_that_grows_with_the_devices_chosen_by_hand():
    # One device, whose share is (0, 3): the target while it is missing is (4, 2), slopes (-16, -8, -12, -2): device 0.
    # Eq. (11) asks for (4, 5) from the beginning, and device 1 has the steepest slope.
    assert growing_start(*BY_HAND, 1, np.array([0.0, 3.0])).tolist() == [True, False, False, False]
    assert selection.warm_up(*BY_HAND, 1)[0].tolist() == [False, True, False, False]


@MANY
@given(problem=problems)
def test_a_target_that_grows_by_nothing_is_the_printed_warm_up(problem):
    A, y, size = problem
    A = A.astype(float)
    assert np.array_equal(growing_start(A, y, size, np.zeros(len(y))), selection.warm_up(A, y, size)[0])


def test_one_swap_by_hand():
    # From {2, 3}: Ax = (2, 3), d^2 = 8, slopes (-8, -8, -8, -2). GBP-CS wants device 0 for 3: Ax = (6, 2), d^2 = 13:
    # it stops.
    start = np.array([False, False, True, True])
    assert swap_until_worse(*BY_HAND, start, steepest).distances == pytest.approx([8**0.5])
    # The best swap is device 1 for 3: Ax = (2, 6), d^2 = 5; then 0 for 2: Ax = (4, 4), d^2 = 1, the best of all.
    selected = swap_until_worse(*BY_HAND, start, best_pair(BY_HAND[0]))
    assert selected.devices.tolist() == [0, 1]
    assert selected.distances == pytest.approx([8**0.5, 5**0.5, 1])


# What every sampler promises


@pytest.mark.parametrize("name", FAST)
@MANY
@given(problem=problems)
def test_exactly_size_devices_are_selected_and_the_distance_is_theirs(name, problem):
    A, y, size = problem
    selected = SAMPLERS[name](A, y, size)
    assert selected.mask.shape == (A.shape[1],) and selected.mask.sum() == size == len(selected.devices)
    assert selected.distance == pytest.approx(readable_distance(A, y, set(selected.devices.tolist())), abs=TINY)


@pytest.mark.parametrize("name", FAST)
@MANY
@given(problem=problems)
def test_brute_force_is_never_beaten(name, problem):
    A, y, size = problem
    assert selection.brute(A, y, size).distance <= SAMPLERS[name](A, y, size).distance + TINY


@pytest.mark.parametrize("seed", range(5))
def test_the_genetic_sampler_keeps_the_size_and_does_not_beat_brute_force(seed):
    A, y, size = draw_problem(seed)
    selected = selection.genetic(A, y, size, rng(seed))
    assert selected.mask.sum() == size and len(selected.distances) == 101
    assert selected.distance == selection.distance(A, y, selected.mask) >= selection.brute(A, y, size).distance - TINY


@pytest.mark.slow
def test_the_bayesian_sampler_looks_at_thirty_selections_and_does_not_beat_brute_force():
    A, y, size = draw_problem(3)
    selected = selection.bayesian(A, y, size, rng())
    assert selected.mask.sum() == size and len(selected.distances) == 30
    assert selected.distance == selection.distance(A, y, selected.mask) >= selection.brute(A, y, size).distance - TINY
    assert np.array_equal(selected.distances, selection.bayesian(A, y, size, rng()).distances)


@pytest.mark.parametrize("name", SEARCHES)
@MANY
@given(problem=problems)
def test_the_distance_falls_with_every_swap(name, problem):
    distances = SAMPLERS[name](*problem).distances
    assert (np.diff(distances) < 0).all()


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_whoever_watches_hears_distances_that_never_rise_and_end_at_the_result(name):
    A, y, size = draw_problem(1)
    heard: list[float] = []
    watching = {"watch": lambda d: heard.append(float(d))}
    selected = {
        "random": lambda: selection.random(A, y, size, rng(), **watching),
        "monte carlo": lambda: selection.monte_carlo(A, y, size, rng(), **watching),
        "genetic": lambda: selection.genetic(A, y, size, rng(), **watching),
        "pinv": lambda: selection.gbp_cs(A, y, size, **watching),
        "zero": lambda: selection.gbp_cs(A, y, size, "zero", **watching),
        "random start": lambda: selection.gbp_cs(A, y, size, "random", rng(), **watching),
        "best swap": lambda: selection.best_swap(A, y, size, **watching),
        "brute": lambda: selection.brute(A, y, size, **watching),
    }[name]()
    assert heard[-1] == selected.distance and (np.diff(heard) <= 0).all()


# Brute force


@MANY
@given(problem=problems)
def test_brute_force_finds_what_a_plain_loop_over_all_subsets_finds(problem):
    A, y, size = problem
    least = min(readable_distance(A, y, set(chosen)) for chosen in combinations(range(A.shape[1]), size))
    assert selection.brute(A, y, size).distance == pytest.approx(least, abs=TINY)


def test_brute_force_scores_every_subset_once(monkeypatch):
    monkeypatch.setattr(exhaustive, "PAIRS", 50)
    A, y, size = draw_problem(2, devices=11, size=5)
    scored = {}
    for block in exhaustive._blocks(A.astype(float), y, size):
        for (i, j), score in np.ndenumerate(block.scores):
            chosen = tuple(block.devices(i, j).tolist())
            assert chosen not in scored
            scored[chosen] = score + y @ y
    assert set(scored) == set(combinations(range(11), size))
    for chosen, score in scored.items():
        assert score == pytest.approx(readable_distance(A, y, chosen) ** 2, abs=1e-8)


# Swaps


@MANY
@given(problem=problems)
def test_after_the_best_swap_search_no_single_swap_helps(problem):
    A, y, size = problem
    selected = selection.best_swap(A, y, size)
    chosen = set(selected.devices.tolist())
    for leaves in chosen:
        for enters in set(range(A.shape[1])) - chosen:
            assert readable_distance(A, y, chosen - {leaves} | {enters}) >= selected.distance - TINY


def test_the_best_swap_is_the_pair_that_lowers_the_distance_most():
    A, y, size = draw_problem(5)
    x = largest(rng(5).random(A.shape[1]), size)
    enters, leaves = best_pair(A.astype(float))(x, scaled_gradient(A, target_products(A, y), x))
    chosen = set(np.flatnonzero(x).tolist())
    least = min(
        readable_distance(A, y, chosen - {j} | {i}) for i in range(A.shape[1]) if i not in chosen for j in chosen
    )
    assert readable_distance(A, y, chosen - {int(leaves)} | {int(enters)}) == pytest.approx(least)


def test_the_warm_up_adds_one_device_at_a_time():
    A, y, size = draw_problem(4)
    x, distances = selection.warm_up(A.astype(float), y, size)
    assert x.sum() == size and len(distances) == size + 1
    assert distances[0] == pytest.approx(np.linalg.norm(y)) and distances[-1] == selection.distance(A, y, x)


def test_monte_carlo_is_the_best_of_a_thousand_draws():
    A, y, size = draw_problem(6, classes=20, devices=30, size=8)
    chance = rng(1)
    drawn = np.concatenate([largest(chance.random((100, 30)), size) for _ in range(10)])
    assert selection.monte_carlo(A, y, size, rng(1)).distance == selection.distance(A, y, drawn).min()


# Many groups at once


@pytest.mark.parametrize("name", SEARCHES)
def test_a_batch_of_groups_gives_what_they_give_one_by_one(name):
    pairs = [draw_problem(seed, classes=12, devices=20, size=6) for seed in range(30)]
    A, y = np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])
    if name == "random start":
        chance = rng(3)
        alone = [selection.gbp_cs(*pair, "random", chance) for pair in pairs]
        together = selection.gbp_cs(A, y, 6, "random", rng(3))
    else:
        alone, together = [SAMPLERS[name](*pair) for pair in pairs], SAMPLERS[name](A, y, 6)
    for group, single in enumerate(alone):
        assert np.array_equal(together.mask[group], single.mask)
        steps = len(single.distances)
        assert np.array_equal(together.distances[group, :steps], single.distances)
        assert (together.distances[group, steps:] == single.distance).all()
    assert np.array_equal(together.devices, [single.devices for single in alone])


def test_groups_may_lie_on_several_axes():
    A, y = (np.stack([part] * 6).reshape(2, 3, *part.shape) for part in draw_problem(0)[:2])
    assert selection.gbp_cs(A, y, 4).mask.shape == (2, 3, 9)
    assert selection.best_swap(A, y, 4).devices.shape == (2, 3, 4)


# Ties and degenerate inputs


@pytest.mark.parametrize("name", WITHOUT_CHANCE)
def test_among_equal_devices_the_first_are_taken(name):
    A = np.tile(np.array([[3], [1], [2]]), (1, 13))
    assert SAMPLERS[name](A, A[:, 0] * 5 / 3, 5).devices.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", SEARCHES)
def test_equal_devices_are_not_swapped_forever(name):
    A = np.array([[2, 2, 2, 2], [0, 0, 0, 0]])
    assert len(SAMPLERS[name](A, np.array([1.0, 1.0]), 2).distances) == 1


def test_equal_columns_have_equal_slopes_wherever_they_stand():
    A, y, size = draw_problem(7, classes=62, devices=33, size=8, batch=32)
    A[:, [0, 5, 17, 31, 32]] = A[:, [2]]
    x = largest(rng(7).random(33), size)
    assert len(set(scaled_gradient(A, target_products(A, y), x)[[0, 2, 5, 17, 31, 32]])) == 1


@pytest.mark.parametrize("name", FAST)
def test_devices_without_data_can_be_selected(name):
    selected = SAMPLERS[name](np.zeros((3, 7)), np.array([1.0, 2.0, 2.0]), 3)
    assert selected.mask.sum() == 3 and selected.distance == 3


@pytest.mark.parametrize("name", WITHOUT_CHANCE)
def test_a_useless_device_is_left_out_when_it_can_be(name):
    A = np.array([[0, 5, 0, 0, 0], [0, 0, 5, 0, 0], [0, 0, 0, 5, 0]])
    selected = SAMPLERS[name](A, np.array([5.0, 5.0, 5.0]), 3)
    assert selected.devices.tolist() == [1, 2, 3] and selected.distance == 0


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("size", [0, 9])
def test_nobody_or_everybody_leaves_no_choice(name, size):
    A, y, _ = draw_problem(8)
    selected = SAMPLERS[name](A, y, size)
    assert selected.mask.sum() == size and selected.devices.shape == (size,)
    assert selected.distance == selection.distance(A, y, np.full(9, size == 9))


def test_a_perfect_start_ends_the_search():
    A = rng(9).integers(0, 9, (6, 5))
    y = A[:, [1, 3]].sum(axis=1).astype(float)
    selected = selection.gbp_cs(A, y, 2)
    assert selected.devices.tolist() == [1, 3] and selected.distances.tolist() == [0.0]


@pytest.mark.parametrize(
    ("A", "y", "size", "complaint"),
    [
        (np.ones((2, 3)), np.ones(2), 4, "cannot select 4 of 3"),
        (np.ones((2, 3)), np.ones(2), -1, "cannot select -1 of 3"),
        (np.ones((2, 3)), np.ones(2), 1.5, "size is 1.5: give a whole number"),
        (np.ones((2, 3)), np.ones(2), "1", "size is '1': give a whole number"),
        (np.ones((2, 3)), np.ones(2), True, "size is True: give a whole number"),
        (np.ones((2, 3)), np.ones(3), 1, "y has shape"),
        (np.ones(3), np.ones(3), 1, "A has shape"),
        (np.ones((2, 0)), np.ones(2), 0, "A has shape"),
        (np.full((2, 3), np.nan), np.ones(2), 1, "finite"),
    ],
)
def test_what_does_not_fit_is_refused(A, y, size, complaint):
    for sampler in (selection.gbp_cs, selection.best_swap, selection.brute):
        with pytest.raises(ValueError, match=complaint):
            sampler(A, y, size)


def test_an_unknown_start_and_a_random_one_without_chance_are_refused():
    A, y, size = draw_problem(0)
    with pytest.raises(ValueError, match="unknown init 'ones'; known: pinv, zero, random"):
        selection.gbp_cs(A, y, size, "ones")
    with pytest.raises(ValueError, match="needs rng"):
        selection.gbp_cs(A, y, size, "random")


def test_samplers_of_one_group_say_so():
    A, y = np.ones((2, 3, 4)), np.ones((2, 3))
    for sampler in (selection.brute, lambda *problem: selection.monte_carlo(*problem, rng())):
        with pytest.raises(ValueError, match="one group at a time"):
            sampler(A, y, 1)


# Chance


def test_the_genetic_sampler_gives_pythons_random_numbers_back():
    A, y, size = draw_problem(0)
    random.seed(5)
    expected = random.Random(5).random()
    first = selection.genetic(A, y, size, rng(2))
    assert random.random() == expected
    assert np.array_equal(first.distances, selection.genetic(A, y, size, rng(2)).distances)


def test_a_random_start_gives_every_device_the_same_chance():
    A = np.zeros((4000, 1, 5))
    share = random_start(A, None, 2, rng(1)).mean(axis=0)
    assert share == pytest.approx(np.full(5, 0.4), abs=0.03)


# The problem itself


def test_the_real_distribution_weighs_devices_by_their_data():
    counts = np.array([[30, 10], [0, 60]])
    assert selection.real_distribution(counts).tolist() == [0.3, 0.7]


def test_the_target_is_what_the_presampled_devices_lack():
    assert selection.target(np.array([0.3, 0.7]), 20, np.array([4, 1])).tolist() == [2.0, 13.0]


def test_the_distance_over_the_samples_is_the_divergence_of_the_super_node():
    A, y, size = draw_problem(0)
    x = selection.gbp_cs(A, y, size)
    total = 8 * (size + 1)
    chance = rng(0)
    real = chance.dirichlet(np.ones(6))
    presampled = selection.target(real, total, y)  # b = nL P_real - y
    super_node = (A[:, x.mask].sum(axis=1) + presampled) / total
    assert np.linalg.norm(super_node - real) == pytest.approx(x.distance / total)
