"""Partitions: nothing lost, nothing dealt twice, the papers' proportions, and errors that say what to do."""

import doctest
import hashlib
import struct
from inspect import signature

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, stats

from fedlib.problem import partition
from fedlib.problem.partition import PARTITIONERS, fingerprint

LABELS = np.random.default_rng(7).permutation(np.repeat(np.arange(10), 500))
SPLITS = {  # every partitioner with the arguments a paper gives it
    "iid": {},
    "shards": {"per_client": 2},
    "dirichlet": {"alpha": 0.3},
    "dirichlet_clients": {"alpha": 0.5},
    "lognormal_labels": {"per_client": 3},
    "dominance": {"alphas": 0.5},
    "uniform_skew": {},
    "inverse_pareto_skew": {},
    "dirichlet_skew": {},
    "few_class_skew": {},
    "by_writer": {},
}
ENVIRONMENTS = ["dominance", "uniform_skew", "inverse_pareto_skew", "dirichlet_skew", "few_class_skew"]
KNOWN = {  # of 10 clients, seed 0
    "iid": "4824ab243a83f4bc",
    "shards": "97c3f3f03d760efe",
    "dirichlet": "619cc5e33fce6250",
    "dirichlet_clients": "1f0b0480e592249f",
    "lognormal_labels": "e02941a7da3a7ea4",
    "dominance": "94487302a83b48d9",
    "uniform_skew": "87eb1853b6a14b93",
    "inverse_pareto_skew": "a41cf87fd976ec84",
    "dirichlet_skew": "6ba42f917d6f4091",
    "few_class_skew": "9813d8816b9bf83f",
    "by_writer": "e25171d1cf2d324f",
}

label_arrays = hnp.arrays(np.int64, st.integers(1, 200), elements=st.integers(0, 12))
concentrations = st.floats(1e-3, 1e3)
seeds = st.integers(0, 2**32 - 1)
modest = settings(deadline=None, max_examples=60)


def generator(seed=0):
    return np.random.default_rng(seed)


def split(name, labels=LABELS, clients=10, seed=0, **changed):
    return PARTITIONERS[name](labels, clients, rng=generator(seed), **(SPLITS[name] | changed))


def counts(parts, labels=LABELS):
    return np.stack([np.bincount(labels[part], minlength=labels.max() + 1) for part in parts])


def assert_every_sample_dealt_once(parts, samples):
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(samples))


# Disjoint and complete


@modest
@given(label_arrays, st.data(), seeds)
def test_iid_deals_every_sample_once_in_equal_parts(labels, data, seed):
    clients = data.draw(st.integers(1, len(labels)))
    parts = partition.iid(labels, clients, rng=generator(seed))
    assert_every_sample_dealt_once(parts, len(labels))
    sizes = [len(part) for part in parts]
    assert len(sizes) == clients and max(sizes) - min(sizes) <= 1


@modest
@given(label_arrays, st.data(), seeds)
def test_shards_deal_every_sample_once_and_each_shard_straddles_few_classes(labels, data, seed):
    clients = data.draw(st.integers(1, len(labels)))
    per_client = data.draw(st.integers(1, len(labels) // clients))
    parts = partition.shards(labels, clients, per_client, rng=generator(seed))
    assert_every_sample_dealt_once(parts, len(labels))
    # The shards cut the sorted labels, so all clients together meet each class once plus once per cut inside it.
    meetings = sum(len(np.unique(labels[part])) for part in parts)
    assert meetings <= clients * per_client + len(np.unique(labels)) - 1


@modest
@given(label_arrays, st.data(), concentrations, seeds)
def test_dirichlet_deals_every_sample_once(labels, data, alpha, seed):
    clients = data.draw(st.integers(1, 20))
    parts = partition.dirichlet(labels, min(clients, len(labels)), alpha, rng=generator(seed), min_size=0)
    assert len(parts) == min(clients, len(labels))
    assert_every_sample_dealt_once(parts, len(labels))


@modest
@given(label_arrays, st.data(), concentrations, seeds)
def test_dirichlet_clients_deal_every_sample_once_in_equal_sizes(labels, data, alpha, seed):
    clients = data.draw(st.integers(1, len(labels)))
    parts = partition.dirichlet_clients(labels, clients, alpha, rng=generator(seed))
    assert_every_sample_dealt_once(parts, len(labels))
    sizes = [len(part) for part in parts]
    assert len(sizes) == clients and max(sizes) - min(sizes) <= 1


@modest
@given(hnp.arrays(np.int64, st.integers(1, 200), elements=st.integers(-5, 40)), seeds)
def test_by_writer_gives_each_writer_one_client_and_deals_every_sample_once(writers, seed):
    parts = partition.by_writer(writers, rng=generator(seed))
    assert_every_sample_dealt_once(parts, len(writers))
    np.testing.assert_array_equal([writers[part[0]] for part in parts], np.unique(writers))
    assert all(len(np.unique(writers[part])) == 1 for part in parts)


@modest
@given(hnp.arrays(np.int64, st.integers(1, 200), elements=st.integers(0, 40)), st.data(), seeds)
def test_by_writer_draws_that_many_different_writers_and_all_their_samples(writers, data, seed):
    clients = data.draw(st.integers(1, len(np.unique(writers))))
    parts = partition.by_writer(writers, clients, rng=generator(seed))
    chosen = [writers[part[0]] for part in parts]
    assert len(set(chosen)) == clients
    for writer, part in zip(chosen, parts, strict=True):
        np.testing.assert_array_equal(part, np.flatnonzero(writers == writer))


@pytest.mark.parametrize("name", PARTITIONERS)
def test_index_arrays_are_sorted_int64_one_per_client(name):
    parts = split(name)
    assert len(parts) == 10
    assert all(part.dtype == np.int64 and (np.diff(part) >= 0).all() for part in parts)


# Chance


@pytest.mark.parametrize("name", PARTITIONERS)
@settings(deadline=None, max_examples=8)
@given(seed=seeds)
def test_equal_seeds_split_alike_and_other_seeds_differently(name, seed):
    first, again, other = (split(name, clients=5, seed=s) for s in (seed, seed, seed + 1))
    assert fingerprint(first) == fingerprint(again)
    assert name == "by_writer" or fingerprint(first) != fingerprint(other)


def test_by_writer_draws_differ_between_seeds():
    writers = np.arange(1000) // 5
    drawn = {fingerprint(partition.by_writer(writers, 20, rng=generator(seed))) for seed in range(10)}
    assert len(drawn) == 10


@pytest.mark.parametrize("name", PARTITIONERS)
def test_partitions_leave_labels_and_the_global_random_state_untouched(name):
    labels = LABELS.copy()
    before = np.random.get_state()[1].copy()  # noqa: NPY002  the global generator is what must stay untouched
    split(name, labels)
    np.testing.assert_array_equal(labels, LABELS)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_fingerprint_is_the_start_of_sha256_over_sizes_and_indices():
    # two clients, of 2 and 1 samples, then the samples, as little-endian 64-bit numbers
    expected = hashlib.sha256(struct.pack("<6q", 2, 2, 1, 0, 2, 1)).hexdigest()[:16]
    assert fingerprint([np.array([0, 2]), np.array([1])]) == expected


def test_fingerprint_sees_borders_order_and_nothing_else():
    parts = [np.array([0, 1]), np.array([2])]
    assert fingerprint(parts) == fingerprint([part.astype(np.int32) for part in parts])
    assert fingerprint(parts) != fingerprint([np.array([0]), np.array([1, 2])])
    assert fingerprint(parts) != fingerprint(parts[::-1])


def test_known_splits_keep_their_fingerprints():
    """Saved results rest on these splits: a change here changes every notebook."""
    assert {name: fingerprint(split(name)) for name in PARTITIONERS} == KNOWN


# The papers' proportions


def test_dirichlet_with_huge_alpha_approaches_iid():
    held = counts(partition.dirichlet(LABELS, 10, 1e8, rng=generator()))
    assert np.abs(held - 50).max() <= 1


@modest
@given(st.integers(1, 4), st.integers(1, 30), st.floats(0, 3), st.integers(0, 20), seeds)
def test_lognormal_labels_deal_every_sample_once_and_each_client_its_own_classes(per_client, more, spread, least, seed):
    clients = 10 + more
    parts = partition.lognormal_labels(LABELS, clients, per_client, rng=generator(seed), spread=spread, least=least)
    assert_every_sample_dealt_once(parts, len(LABELS))
    for client, held in enumerate(counts(parts)):
        classes = [(client * 10 // clients + step) % 10 for step in range(per_client)]
        assert set(np.flatnonzero(held)) <= set(classes) and held[classes].min() >= least


def test_lognormal_labels_without_spread_are_even_and_with_it_differ_by_orders_of_magnitude():
    even, spread = (
        np.array([len(part) for part in split("lognormal_labels", clients=100, spread=spread, least=1)])
        for spread in (0, 2.0)
    )
    assert even.max() - even.min() <= 3 and spread.max() > 20 * spread.min()


def test_lognormal_labels_that_cannot_be_dealt_are_an_error():
    with pytest.raises(ValueError, match="per_client is 11: there are only 10 classes"):
        split("lognormal_labels", per_client=11)
    with pytest.raises(ValueError, match="leave a class without a client"):
        split("lognormal_labels", clients=3)
    with pytest.raises(ValueError, match="need more than the 500 samples of the rarest class"):
        split("lognormal_labels", clients=100, least=20)


def test_dirichlet_clients_with_huge_alpha_approach_iid():
    held = counts(partition.dirichlet_clients(LABELS, 10, 1e8, rng=generator()))
    assert np.abs(held - 50).max() <= 2


def test_dirichlet_with_tiny_alpha_gives_each_class_to_one_client():
    held = counts(partition.dirichlet(LABELS, 10, 1e-3, rng=generator(), min_size=0))
    assert (held.max(axis=0) / held.sum(axis=0)).mean() > 0.95


def test_dirichlet_clients_with_tiny_alpha_hold_few_classes():
    held = counts(partition.dirichlet_clients(LABELS, 100, 1e-3, rng=generator()))
    assert (held.max(axis=1) / held.sum(axis=1)).mean() > 0.85


def test_dirichlet_shares_have_the_variance_of_the_distribution():
    # One client's share of a class is Beta(alpha, (K-1) alpha), of variance (K-1) / (K^2 (K alpha + 1)).
    shares = np.concatenate([counts(split("dirichlet", seed=seed, min_size=0)) / 500 for seed in range(60)])
    assert shares.mean() == pytest.approx(0.1)
    assert shares.var() == pytest.approx(9 / (100 * (10 * 0.3 + 1)), rel=0.05)


def test_dirichlet_clients_follow_their_own_proportions():
    labels = np.repeat(np.arange(10), 6000)
    rho = generator(3).dirichlet(np.full(10, 0.5), size=400)  # the first draw
    held = counts(partition.dirichlet_clients(labels, 400, 0.5, rng=generator(3)), labels) / 150
    misfit = np.abs(held - rho).sum(axis=1)
    assert misfit.mean() < 0.1  # rounding to whole samples alone costs about 0.03
    # Nobody is served last: the misfit does not grow along the clients.
    assert abs(stats.spearmanr(np.arange(400), misfit).statistic) < 0.15


def test_dirichlet_clients_fall_back_on_other_classes_when_theirs_is_exhausted():
    labels = np.array([0] * 90 + [1] * 10)
    held = counts(partition.dirichlet_clients(labels, 10, 1e-4, rng=generator(1)), labels)
    np.testing.assert_array_equal(held.sum(axis=1), 10)
    np.testing.assert_array_equal(held.sum(axis=0), [90, 10])


def test_dirichlet_draws_again_until_nobody_is_below_the_minimum():
    def smallest(min_size):
        return [min(map(len, split("dirichlet", seed=seed, alpha=0.05, min_size=min_size))) for seed in range(20)]

    assert min(smallest(0)) < 50 <= min(smallest(50))


def test_shards_aligned_with_classes_give_each_client_at_most_that_many_classes():
    for per_client in (1, 2, 4):
        parts = partition.shards(LABELS, 10, per_client, rng=generator(per_client))
        assert max(len(np.unique(LABELS[part])) for part in parts) <= per_client
        assert {len(part) for part in parts} == {500}


def test_half_dominance_of_a_hundred_samples_in_ten_classes_is_55_and_nine_fives():
    for part in partition.dominance(LABELS, 4, 0.5, samples=100, rng=generator()):
        assert sorted(np.bincount(LABELS[part], minlength=10)) == [5] * 9 + [55]


@modest
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 400), seeds)
def test_dominance_counts_follow_the_definition_up_to_rounding(alphas, samples, seed):
    parts = partition.dominance(LABELS, len(alphas), alphas, samples, rng=generator(seed))
    for alpha, held in zip(alphas, counts(parts), strict=True):
        assert held.sum() == samples
        others = np.sort(held)[:-1]
        assert others.max() - others.min() <= 1
        assert held.max() == pytest.approx(alpha * samples + (1 - alpha) * samples / 10, abs=1.5)


def test_dominance_lets_every_class_dominate_equally_many_clients():
    held = counts(partition.dominance(LABELS, 30, 0.8, samples=50, rng=generator()))
    np.testing.assert_array_equal(np.bincount(held.argmax(axis=1)), [3] * 10)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_clients_share_samples_only_when_a_class_is_overdrawn(name):
    parts = split(name, clients=20, samples=40)
    demand, uses = counts(parts).sum(axis=0), np.bincount(np.concatenate(parts), minlength=len(LABELS))
    for k in range(10):
        assert uses[k == LABELS].max() <= max(1, -(-demand[k] // 500) + 1)
        assert demand[k] > 500 or uses[k == LABELS].max() == 1


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_clients_that_hold_more_than_the_data_set_overlap_without_repeating_a_sample_themselves(name):
    parts = split(name, clients=60, samples=300)
    assert sum(map(len, parts)) == 60 * 300 > len(LABELS)
    assert all(len(np.unique(part)) == len(part) == 300 for part in parts)


def test_a_client_repeats_samples_only_when_it_wants_more_than_its_class_has():
    part = partition.dominance(LABELS, 1, 1.0, samples=1200, rng=generator())[0]
    uses = np.bincount(part, minlength=len(LABELS))[LABELS[part[0]] == LABELS]
    assert uses.sum() == 1200 and uses.min() >= 2


def test_samples_default_to_an_equal_share_of_the_data():
    assert {len(part) for name in ENVIRONMENTS for part in split(name, clients=20)} == {250}


def test_uniform_skew_is_dominance_with_the_alphas_an_equal_generator_draws():
    rng = generator(5)
    alphas = partition.uniform_alphas(20, rng=rng)
    by_hand = partition.dominance(LABELS, 20, alphas, 200, rng=rng)
    assert fingerprint(by_hand) == fingerprint(split("uniform_skew", clients=20, samples=200, seed=5))


def test_inverse_pareto_skew_is_dominance_with_the_alphas_an_equal_generator_draws():
    rng = generator(5)
    alphas = partition.inverse_pareto_alphas(20, 2.0, rng=rng)
    by_hand = partition.dominance(LABELS, 20, alphas, 200, rng=rng)
    assert fingerprint(by_hand) == fingerprint(split("inverse_pareto_skew", clients=20, samples=200, seed=5))


def test_few_class_skew_gives_one_to_all_classes_and_the_dominance_of_its_alphas():
    alphas = partition.uniform_alphas(400, rng=generator(2))
    held = counts(partition.few_class_skew(LABELS, 400, 100, rng=generator(2)))
    numbers = np.bincount((held > 0).sum(axis=1), minlength=11)
    assert numbers[0] == 0 and (numbers[1:] > 15).all()  # 40 each on average
    assert (held.max(axis=1) >= np.floor(alphas * 100)).all()


def test_dirichlet_betas_lie_half_below_and_half_above_the_median():
    betas = partition.dirichlet_betas(1000, rng=generator())
    low, high = betas[betas <= 0.2], betas[betas > 0.2]
    assert len(low) == len(high) == 500
    assert betas.min() > 0 and betas.max() <= 3
    assert stats.kstest(low / 0.2, "uniform").pvalue > 0.01
    assert stats.kstest((high - 0.2) / 2.8, "uniform").pvalue > 0.01
    assert (betas[:500] <= 0.2).sum() not in (0, 500)  # shuffled


def test_dirichlet_skew_makes_clients_of_small_beta_more_skewed():
    betas = partition.dirichlet_betas(200, rng=generator(4))
    held = counts(partition.dirichlet_skew(LABELS, 200, 200, rng=generator(4)))
    assert stats.spearmanr(betas, held.max(axis=1)).statistic < -0.8


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0, 5.0])
def test_inverse_pareto_density_integrates_to_one_and_the_printed_exponent_does_not(s):
    assert integrate.quad(partition.inverse_pareto_density, 0, 1, args=(s,))[0] == pytest.approx(1)
    printed = integrate.quad(lambda a: s * (2 - a) ** -s / (1 - 2**-s), 0, 1)[0]
    assert abs(printed - 1) > 0.05


@pytest.mark.parametrize("s", [0.5, 2.0, 5.0])
def test_inverse_pareto_alphas_follow_the_density(s):
    alphas = partition.inverse_pareto_alphas(4000, s, rng=generator(1))
    assert alphas.min() >= 0 and alphas.max() <= 1

    def below(a):  # P(alpha <= a) = P(x >= 2 - a) for x Pareto on [1, 2]
        return ((2 - a) ** -s - 2**-s) / (1 - 2**-s)

    assert below(0.3) == pytest.approx(integrate.quad(partition.inverse_pareto_density, 0, 0.3, args=(s,))[0])
    assert stats.kstest(alphas, below).pvalue > 0.01


def test_uniform_alphas_are_uniform():
    assert stats.kstest(partition.uniform_alphas(4000, rng=generator(1)), "uniform").pvalue > 0.01


# Errors

NO_NUMBERS = ["3", "many", np.nan, np.inf, -np.inf, True, -1, [2, 3], b"2", 1j, 10**400]
NO_COUNTS = [*NO_NUMBERS[:-1], 2.5, np.float64(2.5), 2.0]
NOT_LABELS = ["3", np.nan, True, -1, 2.5, None, ["a", "b"], [0.5, 1.5], [[0, 1], [1, 0]]]
WRONG = {  # for every argument of any partitioner, values that it must refuse
    "labels": NOT_LABELS,
    "writers": NOT_LABELS,
    "clients": NO_COUNTS,
    "per_client": [*NO_COUNTS, None],
    "min_size": [*NO_COUNTS, None],
    "samples": NO_COUNTS,
    "alpha": [*NO_NUMBERS, None, 0, 1e308],
    "alphas": [
        *NO_NUMBERS,
        None,
        1.5,
        ["0.5"] * 10,
        [True] * 10,
        [0.5] * 9 + [None],
        [0.5] * 9 + [np.nan],
        [[0.5] * 10],
    ],
    "spread": [*NO_NUMBERS, None, -0.1, 11],
    "least": [*NO_COUNTS, None],
    "s": [*NO_NUMBERS, None, 0],
    "median": [*NO_NUMBERS, None, 0, 3.0],
    "largest": [*NO_NUMBERS, None, 0, 0.2, 1e308],
    "rng": ["3", np.nan, True, -1, 2.5, None, 0],
}


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        pytest.param(name, argument, value, id=f"{name}-{argument}-{str(value)[:12]}")
        for name, deal in PARTITIONERS.items()
        for argument in signature(deal).parameters
        for value in WRONG[argument]
    ],
)
def test_an_impossible_argument_is_refused_by_name(name, argument, value):
    deal = PARTITIONERS[name]
    first = next(iter(signature(deal).parameters))
    arguments = {first: LABELS, "clients": 10, "rng": generator()} | SPLITS[name] | {argument: value}
    with pytest.raises(ValueError, match=rf"\b{argument}\b.*: "):
        deal(**arguments)


@pytest.mark.parametrize("alphas", [0, 1, np.float32(0.5), [0.5] * 10, (0, 1) * 5, np.linspace(0, 1, 10)])
def test_dominance_takes_numbers_of_every_kind(alphas):
    assert len(split("dominance", alphas=alphas)) == 10


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros((4, 2), dtype=int), "2-dimensional of type int64: give a one-dimensional array of whole numbers"),
        (np.zeros(4), "1-dimensional of type float64"),
        (np.zeros(4, dtype=bool), "of type bool"),
        (np.zeros(0, dtype=int), "no samples"),
    ],
)
def test_labels_must_be_a_flat_array_of_whole_numbers(name, labels, message):
    with pytest.raises(ValueError, match=message):
        split(name, labels, clients=2)


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("clients", [0, -3, 2.5, True])
def test_the_number_of_clients_must_be_a_positive_whole_number(name, clients):
    with pytest.raises(ValueError, match=f"clients is {clients}: give a whole number of clients, 1 or more"):
        split(name, clients=clients)


@pytest.mark.parametrize("name", [name for name in PARTITIONERS if name != "by_writer"])
def test_more_clients_than_samples_is_an_error(name):
    with pytest.raises(ValueError, match="11 clients for 10 samples leaves clients empty: ask for 10 clients or fewer"):
        split(name, np.arange(10), clients=11)


def test_more_clients_than_writers_is_an_error():
    with pytest.raises(ValueError, match="11 clients, but there are only 10 writers: ask for 10 or fewer"):
        split("by_writer", clients=11)


def test_more_shards_than_samples_is_an_error():
    with pytest.raises(ValueError, match="5 clients x 3 shards = 15 shards, but there are only 10 samples"):
        split("shards", np.arange(10), clients=5, per_client=3)


@pytest.mark.parametrize("per_client", [0, 1.5])
def test_shards_per_client_must_be_a_positive_whole_number(per_client):
    with pytest.raises(ValueError, match=f"per_client is {per_client}: give a whole number of shards, 1 or more"):
        split("shards", per_client=per_client)


@pytest.mark.parametrize("name", ["dirichlet", "dirichlet_clients"])
@pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf])
def test_dirichlet_concentration_must_be_positive_and_finite(name, alpha):
    with pytest.raises(ValueError, match=f"alpha is {alpha}: a Dirichlet concentration is positive and finite"):
        split(name, alpha=alpha)


def test_a_minimum_size_beyond_the_data_is_an_error():
    with pytest.raises(ValueError, match="10 clients of at least 501 samples need 5010, but there are only 5000"):
        split("dirichlet", min_size=501)


def test_an_empty_client_that_no_draw_avoids_is_an_error_with_three_ways_out():
    with pytest.raises(ValueError, match="after 500 draws: .*raise alpha, lower min_size .* or use fewer clients"):
        split("dirichlet", clients=50, alpha=1e-3)


@pytest.mark.parametrize("alphas", [-0.1, 1.1, np.nan, [0.5] * 9 + [2.0]])
def test_dominance_shares_must_lie_between_zero_and_one(alphas):
    with pytest.raises(ValueError, match=r"every alpha must lie in \[0, 1\]"):
        split("dominance", alphas=alphas)


def test_dominance_needs_one_alpha_or_one_per_client():
    with pytest.raises(ValueError, match="give one number, or one for each of the 10 clients"):
        split("dominance", alphas=[0.1, 0.2])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_class_without_samples_is_an_error_where_every_class_is_dealt(name):
    with pytest.raises(ValueError, match="class 3 has no samples, so no client can hold it"):
        split(name, LABELS[LABELS != 3])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_negative_classes_are_an_error_where_every_class_is_dealt(name):
    with pytest.raises(ValueError, match="label -1 is negative: number the classes from 0"):
        split(name, LABELS - 1)


@pytest.mark.parametrize("name", ["dirichlet_skew", "few_class_skew"])
def test_an_environment_in_which_some_class_is_always_held_by_nobody_is_an_error(name):
    with pytest.raises(ValueError, match="2 clients of 3 samples, some of the 10 classes was held by nobody each time"):
        split(name, clients=2, samples=3)


@pytest.mark.parametrize("name", ["dirichlet_skew", "few_class_skew"])
@settings(deadline=None, max_examples=15)
@given(seed=seeds)
def test_drawn_environments_leave_no_class_without_a_client(name, seed):
    assert counts(split(name, clients=8, samples=60, seed=seed)).sum(axis=0).min() > 0


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("samples", [0, -1, 2.5])
def test_samples_per_client_must_be_a_positive_whole_number(name, samples):
    with pytest.raises(ValueError, match=f"samples is {samples}: give a whole number of samples per client, 1 or more"):
        split(name, samples=samples)


@pytest.mark.parametrize("s", [0, -2.0, np.nan])
def test_pareto_shape_must_be_positive(s):
    for ask in (lambda: split("inverse_pareto_skew", s=s), lambda: partition.inverse_pareto_density(0.5, s)):
        with pytest.raises(ValueError, match=f"s is {s}: the shape of the Pareto distribution is positive"):
            ask()


def test_beta_layers_must_be_in_order():
    with pytest.raises(ValueError, match="median is 3 and largest 0.2: 0 < median < largest is needed"):
        split("dirichlet_skew", median=3, largest=0.2)


def test_the_module_example_is_true():
    assert doctest.testmod(partition).failed == 0
