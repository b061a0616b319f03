"""FedACS and its rivals: the printed algorithms against readable ones, limiting cases, numbers worked out by hand."""

import numpy as np
import pytest
import readable_fedacs
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from played_rounds import after_rounds, assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again
from scipy import stats

from fedlib import data, engine
from fedlib.algorithms import REGISTRY, create
from fedlib.algorithms.cmfl import relevance
from fedlib.engine import gradients
from fedlib.problem import federation, layout, models, partition
from fedlib.problem.streams import generator
from fedlib.runs import store
from fedlib.runs.simulation import Progress, simulate
from fedlib.selection import bandit, skewness
from fedlib.selection import exp3 as rexp3
from fedlib.selection import utility as oort

pytestmark = pytest.mark.slow

SELECTORS = ["randomclients", "fedacs", "releasedfedacs", "oort", "cmfl", "releasedcmfl", "rexp3", "releasedrexp3"]
LOCAL = {"participation": 0.3, "batch": 8, "epochs": 2}


def method(name: str, **options):
    return create(name, **LOCAL | options)


def images(samples: int = 300, classes: int = 5, seed: int = 0) -> data.Dataset:
    """Small pictures: each class has its own pattern under noise."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(samples) % classes)
    patterns = rng.integers(0, 160, (classes, 16, 16, 3))
    pixels = (patterns[labels] + rng.integers(0, 90, (samples, 16, 16, 3))).astype(np.uint8)
    half = samples // 3
    arrays = {"x_train": pixels[half:], "y_train": labels[half:], "x_test": pixels[:half], "y_test": labels[:half]}
    return data.dataset.from_arrays("pictures", arrays, tuple("abcde"[:classes]), fingerprint="pictures")


@pytest.fixture(scope="module")
def pictures() -> federation.Federation:
    """Six clients with 30 pictures each, dominance 0 to 1, a LeNet."""
    dataset = images()
    alphas = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    parts = partition.dominance(dataset.y_train.numpy(), 6, alphas, 30, rng=np.random.default_rng(1))
    return federation.assemble(dataset, parts, models.build("lenet_tutorial", 5, (3, 16, 16)), seed=3)


@pytest.fixture(scope="module")
def skewed(make_dataset) -> federation.Federation:
    """Forty clients of 24 samples that overlap, alpha from 0 to 1, softmax regression."""
    dataset = make_dataset(samples=400)
    alphas = np.linspace(0, 1, 40)
    parts = partition.dominance(dataset.y_train.numpy(), 40, alphas, 24, rng=np.random.default_rng(0))
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    return federation.assemble(dataset, parts, network, seed=0)


# Skewness


def test_the_tutorial_network_has_62006_weights_of_which_850_are_in_the_last_layer():
    network = models.build("lenet_tutorial", 10, (3, 32, 32))
    last = layout.blocks(network)[-1]
    assert (layout.flatten(network).numel(), last.stop - last.start) == (62_006, 850)
    assert round(850 / (2 * 62_006), 4) == 0.0069


def test_last_layer_gradients_are_those_of_backpropagation_through_the_whole_network(pictures):
    clients = np.array([4, 0, 5])
    block = pictures.network.head
    whole = engine.client_gradients(pictures, pictures.start, clients)
    fast = engine.head_gradients(pictures, pictures.start, clients)
    assert float((fast - whole[:, block.start :]).abs().max()) < 1e-6


@pytest.mark.parametrize("kind", ["softmax", "dense"])
def test_last_layer_gradients_of_dense_networks_include_the_penalty(make_federation, kind):
    fed = make_federation(kind, l2=0.1)
    block = fed.network.head
    weights = fed.start + 0.3
    whole = engine.client_gradients(fed, weights, np.arange(fed.clients))
    fast = engine.head_gradients(fed, weights, np.arange(fed.clients))
    assert float((fast - whole[:, block.start :]).abs().max()) < 1e-5


def test_a_client_tells_the_same_whoever_else_is_asked_and_however_its_rows_are_cut(pictures, monkeypatch):
    together = engine.head_gradients(pictures, pictures.start, np.arange(6))
    alone = engine.head_gradients(pictures, pictures.start, np.array([3]))
    assert torch.equal(together[3], alone[0])
    monkeypatch.setattr(gradients, "ROWS", 7)
    cut = engine.head_gradients(pictures, pictures.start, np.array([3]))
    assert float((cut - alone).abs().max()) < 1e-7


def test_estimates_of_two_insights_by_hand():
    found = np.array([[3.0, 0.0], [0.0, 0.0]])
    # mean by size 1:3 is (0.75, 0); sqrt(1) * 2.25 and sqrt(3) * 0.75
    assert skewness.estimates(found, np.array([1.0, 3.0])) == pytest.approx([2.25, np.sqrt(3) * 0.75])


def test_the_released_estimate_adds_the_norms_of_weights_and_biases():
    """Two classes, two features and a bias each, equal sizes: the mean is half of the first client's insight."""
    insights = np.array([[6.0, 0, 0, 8.0, 0, 2.0], np.zeros(6)])
    # weights apart by (3, 0, 4, 0) and biases by (0, 1): 5 + 1, times 7 samples; jointly sqrt(26)
    assert skewness.estimates_of_parts(insights, np.array([7.0, 7.0]), 2) == pytest.approx([42, 42])
    assert skewness.estimates(insights, np.ones(2)) == pytest.approx([np.sqrt(26)] * 2)


def test_the_rewards_of_a_round_equal_the_readable_ones(pictures):
    algorithm = method("fedacs", lr=0.05)
    clients = np.array([0, 2, 5])
    state = after_rounds(algorithm, pictures, 1)
    slow = readable_fedacs.rewards(pictures, state["weights"], clients.tolist(), lr=0.05)
    assert algorithm.rewards(pictures, state, clients) == pytest.approx([slow[0], slow[2], slow[5]], rel=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 1.0])
def test_true_alphas_read_the_alpha_of_dominance_clients_off_their_class_counts(make_dataset, alpha):
    dataset = make_dataset(samples=800)
    parts = partition.dominance(dataset.y_train.numpy(), 5, alpha, 160, rng=np.random.default_rng(0))
    fed = federation.assemble(dataset, parts, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4)), seed=0)
    assert skewness.true_alphas(fed) == pytest.approx([alpha] * 5, abs=1e-6)


def test_estimates_rank_clients_by_their_alpha(skewed):
    state = after_rounds(method("randomclients"), skewed, 3)
    found = skewness.insights(skewed, state["weights"], np.arange(40), 0.1)
    rank = stats.spearmanr(skewness.estimates(found, np.full(40, 24.0)), skewness.true_alphas(skewed))
    assert rank.statistic > 0.9


# The bandit


@given(clients=st.integers(1, 25), data=st.data(), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_the_pool_equals_algorithm_2_on_the_same_draws(clients, data, seed):
    size = data.draw(st.integers(1, clients))
    draws = np.random.default_rng(seed).beta(2, 3, (size, clients))
    assert bandit.picks(draws).tolist() == readable_fedacs.pool(clients, size, lambda pick, c: draws[pick, c])


def test_every_pick_of_the_pool_draws_afresh():
    """One draw for all picks would make the second pick the runner-up of the first; afresh it is half the time."""
    a, b = np.zeros(3), np.zeros(3)
    rng = generator(0, "test")
    draws = rng.beta(1, 1, (4000, 2, 3))
    pools = np.array([bandit.picks(own) for own in draws])
    second_best_taken = np.mean([own[0].argsort()[-2] == taken[1] for own, taken in zip(draws, pools, strict=True)])
    assert second_best_taken == pytest.approx(0.5, abs=0.03)  # not 1
    assert np.bincount(bandit.pool(a, b, 3, rng), minlength=3).tolist() == [1, 1, 1]


def test_clients_that_won_enter_the_pool_and_those_that_lost_do_not():
    a, b = np.array([30.0] * 4 + [0.0] * 16), np.array([0.0] * 4 + [30.0] * 16)
    assert sorted(bandit.pool(a, b, 4, generator(1, "test"))) == [0, 1, 2, 3]


def test_a_pool_as_large_as_the_round_is_the_round():
    a, b = np.arange(12.0) * 9, np.zeros(12) + 5
    chosen = bandit.select(a, b, 3, 3, generator(2, "test"))
    assert chosen.tolist() == sorted(bandit.pool(a, b, 3, generator(2, "test")))


def test_a_pool_of_all_clients_chooses_them_equally_often_whatever_the_bandit_knows():
    a, b = np.linspace(0, 50, 10), np.linspace(50, 0, 10)
    rng = generator(3, "test")
    counted = np.bincount(np.concatenate([bandit.select(a, b, 10, 3, rng) for _ in range(2000)]))
    assert stats.chisquare(counted).pvalue > 0.01


def as_history(past: list[dict[int, float]], clients: int) -> np.ndarray:
    """Rewards of past rounds, oldest first, as the bandit keeps them: (rounds, clients), newest first."""
    history = np.full((len(past), clients), bandit.SILENT)
    for row, rewards in zip(history, reversed(past), strict=True):
        row[list(rewards)] = list(rewards.values())
    return history


def test_of_several_remembered_rewards_the_newest_counts_as_printed_and_the_oldest_as_released():
    history = as_history([{0: -5.0, 1: -4.0}, {1: -3.0}], 3)
    assert bandit.remembered(history).tolist()[:2] == [-5, -3]
    assert bandit.remembered(history, oldest=True).tolist()[:2] == [-5, -4]
    assert bandit.remembered(history)[2] == bandit.SILENT
    assert (bandit.remembered(history[:0]) == bandit.SILENT).all()


rounds_of_rewards = st.lists(
    st.dictionaries(st.integers(0, 9), st.integers(-4, 0).map(float), min_size=1, max_size=6), min_size=1, max_size=9
)


@given(rounds=rounds_of_rewards, history=st.integers(0, 4))
@settings(deadline=None, max_examples=100)
def test_the_duels_equal_algorithm_3_over_many_rounds(rounds, history):
    a, b = np.zeros(10), np.zeros(10)
    slow_a, slow_b = dict.fromkeys(range(10), 0.0), dict.fromkeys(range(10), 0.0)
    for round, now in enumerate(rounds):
        past = rounds[max(0, round - history) : round]
        latest = bandit.remembered(as_history(past, 10))
        clients = np.array(sorted(now))
        latest[clients] = [now[client] for client in clients]
        a, b = bandit.duel(a, b, latest, clients, latest > bandit.SILENT, 0.2)
        slow_a, slow_b = readable_fedacs.update(slow_a, slow_b, now, past, 0.2)
    assert a == pytest.approx(list(slow_a.values()))
    assert b == pytest.approx(list(slow_b.values()))


def test_duels_of_three_participants_and_one_old_reward_by_hand():
    rewards = np.array([-1.0, -2.0, -2.0, -5.0, -0.5])  # client 4 is too old to count
    comparable = np.array([True, True, True, True, False])
    a, b = bandit.duel(np.zeros(5), np.zeros(5), rewards, np.array([0, 1, 2]), comparable, 0.2)
    assert a == pytest.approx([0.6, 0.2, 0.2, 0, 0])  # the tie of 1 and 2 gives nothing; 3 did not take part now
    assert b == pytest.approx([0, 0.2, 0.2, 0, 0])


def test_as_released_ties_with_others_are_lost():
    rewards, comparable = np.array([-1.0, -2.0, -2.0]), np.ones(3, dtype=bool)
    a, b = bandit.duel(np.zeros(3), np.zeros(3), rewards, np.arange(3), comparable, 0.2, ties_lose=True)
    assert a == pytest.approx([0.4, 0, 0])
    assert b == pytest.approx([0, 0.4, 0.4])  # one lost to client 0, one to the tie


# FedACS


def test_a_round_of_fedacs_is_algorithm_1(skewed):
    """Select, train, reward at the model the participants received, update: against the readable pieces."""
    algorithm = method("fedacs", history=1)
    state = after_rounds(algorithm, skewed, 2)
    chosen = algorithm.choose(skewed, state, 3)
    after = algorithm.round(skewed, state, 3)
    slow = readable_fedacs.rewards(skewed, state["weights"], chosen.tolist(), algorithm.lr)
    past = {i: reward for i, reward in enumerate(state["rewards"][0].tolist()) if reward > bandit.SILENT}
    a, b = (dict(enumerate(state[name].tolist())) for name in ("a", "b"))
    a, b = readable_fedacs.update(a, b, slow, [past], algorithm.eta)
    assert after["a"].tolist() == pytest.approx(list(a.values()))
    assert after["b"].tolist() == pytest.approx(list(b.values()))
    alone, _ = method("randomclients").merge(skewed, state, chosen, 3)
    assert torch.equal(after["weights"], alone["weights"])


def test_fedacs_locks_on_clients_with_little_skew(skewed):
    algorithm = method("fedacs", participation=0.1, tolerance=0.3)
    state = after_rounds(algorithm, skewed, 120)
    times = state["times"].numpy()
    assert times.sum() == 120 * 4
    assert times[:12].sum() > 2 * times[28:].sum()  # alphas rise with the client's number
    assert (
        stats.spearmanr(state["a"] / (state["a"] + state["b"]).clamp(min=1), skewness.true_alphas(skewed)).statistic
        < -0.6
    )


def test_after_the_early_stop_the_bandit_is_frozen_and_goes_on_choosing(skewed):
    algorithm, endless = method("fedacs", stop=3), method("fedacs")
    stopped, same = after_rounds(algorithm, skewed, 3), after_rounds(endless, skewed, 3)
    assert torch.equal(stopped["a"], same["a"])
    later = algorithm.round(skewed, stopped, 4)
    assert all(torch.equal(later[name], stopped[name]) for name in ("a", "b"))
    np.testing.assert_array_equal(later["rewards"], stopped["rewards"])
    assert not torch.equal(endless.round(skewed, same, 4)["a"], same["a"])
    assert torch.equal(later["weights"], endless.round(skewed, same, 4)["weights"])
    assert int(later["times"].sum()) == 4 * 12


def test_without_history_only_participants_of_the_round_are_met(skewed):
    state = after_rounds(method("fedacs", history=0), skewed, 1)
    later = method("fedacs", history=0).round(skewed, state, 2)
    gained = (later["a"] + later["b"] - state["a"] - state["b"]).sum()
    assert float(gained) == pytest.approx(0.2 * 12 * 11)


# Step sizes, states and records


def test_the_step_size_falls_over_the_local_epochs_of_the_whole_training():
    algorithm = create("randomclients", lr=0.1, decay=0.9993, epochs=5)
    assert algorithm.work(1).lr == 0.1
    assert algorithm.work(1).decay == 0.9993
    assert algorithm.work(1000).lr == pytest.approx(0.1 * 0.9993 ** (5 * 999))


def test_random_clients_without_decay_is_fedavg(make_federation):
    fed = make_federation()
    ours, plain = method("randomclients", decay=1.0), create("fedavg", **LOCAL)
    assert torch.equal(after_rounds(ours, fed, 3)["weights"], after_rounds(plain, fed, 3)["weights"])


@pytest.mark.parametrize("name", SELECTORS)
def test_a_round_leaves_its_state_alone_and_comes_out_the_same_again(skewed, name):
    algorithm = method(name)
    assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again(algorithm, skewed)


@pytest.mark.parametrize("name", SELECTORS)
def test_every_selector_takes_kappa_distinct_clients_and_counts_them(skewed, name):
    algorithm = method(name, participation=0.2)
    state = algorithm.init(skewed)
    for round in range(1, 16):
        chosen = algorithm.choose(skewed, state, round)
        assert len(chosen) == len(np.unique(chosen)) == 8
        assert (np.diff(chosen) > 0).all()
        before, state = state["times"], algorithm.round(skewed, state, round)
        assert torch.where(state["times"] > before)[0].tolist() == chosen.tolist()


@pytest.mark.parametrize("name", SELECTORS)
def test_a_run_that_was_stopped_goes_on_to_the_same_records(skewed, name):
    algorithm = method(name)
    whole = simulate(algorithm, skewed, 6, every=2)
    progress = Progress()
    simulate(algorithm, skewed, 4, every=2, progress=progress)
    assert simulate(algorithm, skewed, 6, every=2, progress=progress).equals(whole)


@pytest.mark.parametrize("name", SELECTORS)
def test_what_a_selector_knows_survives_a_checkpoint(skewed, name, tmp_path):
    algorithm = method(name)
    state = after_rounds(algorithm, skewed, 3)
    store.write_checkpoint(tmp_path / "checkpoint.npz", Progress(3, state, []))
    saved = store.read_checkpoint(tmp_path / "checkpoint.npz")[0].state
    one, other = algorithm.round(skewed, state, 4), algorithm.round(skewed, saved, 4)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_records_tell_alpha_and_reward_of_those_who_train_the_model_next(skewed):
    algorithm = method("randomclients")
    record = simulate(algorithm, skewed, 2).iloc[1]
    state = after_rounds(algorithm, skewed, 1)
    coming = algorithm.participants(skewed, 2)
    assert record["alpha"] == pytest.approx(skewness.true_alphas(skewed)[coming].mean())
    assert record["reward"] == pytest.approx(algorithm.rewards(skewed, state, coming).mean())


def test_watched_clients_are_rewarded_as_if_they_took_part(skewed):
    algorithm = method("randomclients", watch=40)
    state = after_rounds(algorithm, skewed, 1)
    record = algorithm.measure(skewed, state)
    coming = algorithm.participants(skewed, 2)
    own = algorithm.rewards(skewed, state, coming)
    assert [record[f"reward_{client}"] for client in coming] == pytest.approx(own.tolist())
    assert len([name for name in record if name.startswith("reward_")]) == 40
    truth = skewness.true_alphas(skewed)
    assert stats.spearmanr([record[f"reward_{client}"] for client in range(40)], truth).statistic < -0.8


def test_a_tally_tells_how_often_each_client_took_part(skewed):
    last = simulate(method("fedacs", tally=True), skewed, 3).iloc[-1]
    assert sum(last[f"times_{client}"] for client in range(40)) == 3 * 12


# Poisoners


def test_poisoners_have_only_wrong_labels_and_nobody_else_notices(skewed):
    wrong = federation.poison(skewed, np.array([0, 7]))
    assert wrong.poisoners == (0, 7)
    for client in range(40):
        x, y = wrong.x[wrong.rows[client]], wrong.y[wrong.rows[client]]
        right = skewed.y[skewed.rows[client]]
        assert torch.equal(x, skewed.x[skewed.rows[client]])
        assert torch.equal(y, (right + 1) % 4 if client in (0, 7) else right)
    assert skewness.true_alphas(wrong) == pytest.approx(skewness.true_alphas(skewed))


def test_fedacs_avoids_poisoners_and_oort_seeks_them(make_dataset):
    dataset = make_dataset(samples=1200)
    parts = partition.dominance(dataset.y_train.numpy(), 40, 0.0, 24, rng=np.random.default_rng(0))
    clean = federation.assemble(dataset, parts, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4)), seed=0)
    fed = federation.poison(clean, np.arange(8))
    share = {
        name: simulate(method(name, participation=0.1, **options), fed, 80, every=80).iloc[-1]["poisoners"]
        for name, options in {"randomclients": {}, "fedacs": {}, "oort": {"cap": None}}.items()
    }
    assert share["fedacs"] < 0.5 * share["randomclients"] < share["oort"]


def test_poisoners_are_drawn_by_the_seed(skewed):
    drawn = federation.draw_poisoners(skewed, 5)
    assert len(np.unique(drawn)) == 5
    assert drawn.tolist() == federation.draw_poisoners(skewed, 5).tolist()
    with pytest.raises(ValueError, match="poisoners=41 must lie between 0 and the 40 clients"):
        federation.draw_poisoners(skewed, 41)


# Oort


def test_oort_scores_by_hand():
    found = oort.scores(np.array([1.0, 3.0]), np.array([1, 4]), round=5)
    assert found == pytest.approx([1 + np.sqrt(0.1 * np.log(5)), 3 + np.sqrt(0.1 * np.log(5) / 4)])


def test_oort_draws_from_the_pool_of_the_best_in_proportion_to_their_scores():
    scores = np.array([0.1, 3.0, 1.0, 0.9])
    drawn = [int(oort.exploit(scores, 2, 1, generator(0, "test", round))[0]) for round in range(2000)]
    assert np.bincount(drawn, minlength=4) / 2000 == pytest.approx([0, 0.75, 0.25, 0], abs=0.03)
    assert set(oort.exploit(scores, 2, 2, generator(0, "test"))) == {1, 2}


def test_oort_meets_everybody_once_first_and_bans_those_over_the_cap(skewed):
    algorithm = method("oort", participation=0.1, cap=5)
    state = after_rounds(algorithm, skewed, 10)
    assert state["times"].tolist() == [1] * 40
    for round in range(11, 45):
        chosen = algorithm.choose(skewed, state, round)
        assert (state["times"][torch.as_tensor(chosen)] < 5).all()
        state = algorithm.round(skewed, state, round)
    assert int(state["times"].max()) == 5


def test_oort_fills_a_round_when_new_clients_or_bans_leave_too_few(skewed):
    state = after_rounds(method("oort", cap=1), skewed, 6)
    assert int(state["times"].sum()) == 6 * 12
    assert (state["times"] > 0).all()


def test_oort_remembers_the_mean_loss_of_local_training(skewed):
    algorithm = method("oort")
    state = algorithm.round(skewed, algorithm.init(skewed), 1)
    took = torch.where(state["heard"] == 1)[0].numpy()
    seen = engine.readable.train(skewed, engine.Cohort(took, skewed.start), algorithm.work(1), 1).losses
    assert state["utility"][took].tolist() == pytest.approx(seen.tolist(), rel=1e-4)
    assert float(state["utility"].sum()) == pytest.approx(float(seen.sum()), rel=1e-4)


def test_oorts_utility_falls_with_skew_at_a_trained_model():
    """A client with few classes soon fits them: in training it sees low losses."""
    dataset = images(samples=1500)
    parts = partition.dominance(dataset.y_train.numpy(), 20, np.linspace(0, 1, 20), 40, rng=np.random.default_rng(1))
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
    fed = federation.assemble(dataset, parts, network, seed=3)
    state = after_rounds(method("randomclients", lr=0.05), fed, 5)
    _, losses = method("oort", lr=0.05).merge(fed, state, np.arange(20), 6)
    assert method("randomclients").measure(fed, state)["accuracy"] > 0.8
    assert stats.spearmanr(losses, skewness.true_alphas(fed)).statistic < -0.8


# CMFL


def test_relevance_is_the_share_of_equal_signs():
    updates = torch.tensor([[1.0, -2.0, 0.0, 3.0], [-1.0, 2.0, 1.0, -3.0]])
    assert relevance(updates, torch.tensor([0.1, -0.1, 0.0, -1.0])).tolist() == [0.75, 0.25]


@pytest.mark.parametrize("name", ["cmfl", "releasedcmfl"])
def test_cmfl_that_keeps_everything_is_random_clients(skewed, name):
    ours = after_rounds(method(name, threshold=0.0), skewed, 3)
    plain = after_rounds(method("randomclients"), skewed, 3)
    assert float((ours["weights"] - plain["weights"]).abs().max()) < 1e-6
    assert float(ours["kept"]) == 1


def test_cmfl_drops_the_irrelevant_and_keeps_the_model_when_all_are(skewed):
    state = after_rounds(method("cmfl"), skewed, 1)
    relevant = float(method("cmfl", threshold=0.0).round(skewed, state, 2)["relevance"])
    turned = state | {"update": -state["update"]}  # updates now agree in few signs
    against = float(method("cmfl", threshold=0.0).round(skewed, turned, 2)["relevance"])
    assert against < 0.5 < relevant
    some = method("cmfl", threshold=against * 2**0.5).round(skewed, turned, 2)
    assert 0 < float(some["kept"]) < 1
    assert not torch.equal(some["weights"], turned["weights"])
    none = method("cmfl", threshold=1.0).round(skewed, turned, 2)
    assert float(none["kept"]) == 0
    assert torch.equal(none["weights"], turned["weights"])
    assert torch.equal(none["update"], turned["update"])


def test_cmfl_compares_with_the_last_global_update(skewed):
    algorithm = method("cmfl", threshold=0.0)
    before = after_rounds(algorithm, skewed, 1)
    after = algorithm.round(skewed, before, 2)
    assert float((after["update"] - (after["weights"] - before["weights"])).abs().max()) == 0


def test_cmfls_own_threshold_falls_with_the_square_root_of_the_rounds():
    agree = torch.tensor([0.35, 0.45])
    assert method("cmfl").keep(agree, 1).tolist() == [True, True]  # there is nothing to compare with
    assert method("cmfl").keep(agree, 4).tolist() == [False, True]  # 0.8 / 2
    assert method("cmfl").keep(agree, 9).tolist() == [True, True]


def test_released_cmfl_compares_with_the_mean_of_the_round_and_keeps_at_least_the_best():
    algorithm = method("releasedcmfl")
    assert algorithm.keep(torch.tensor([0.6, 0.71, 0.75]), 5).tolist() == [False, True, True]
    assert algorithm.keep(torch.tensor([0.6, 0.65, 0.5]), 5).tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["cmfl", "releasedcmfl"])
def test_cmfl_lets_updates_through_and_learns(skewed, name):
    records = simulate(method(name), skewed, 10, every=1)
    assert np.isnan(records["kept"].iloc[0])  # before the first round nothing was kept or dropped
    assert records["kept"].iloc[1:].mean() > 2 / method(name).kappa(skewed), (
        "more than the best one, which always counts"
    )
    plain = simulate(method("randomclients"), skewed, 10, every=10)
    assert records["loss"].iloc[-1] < (records["loss"].iloc[0] + plain["loss"].iloc[-1]) / 2


# Rexp3


@given(logs=st.lists(st.floats(0, 40), min_size=2, max_size=12), plays=st.integers(1, 12), gamma=st.floats(0.01, 1))
@settings(deadline=None, max_examples=100)
def test_chances_add_up_to_the_plays_and_none_exceeds_one(logs, plays, gamma):
    plays = min(plays, len(logs))
    chances, capped = rexp3.probabilities(np.array(logs), plays, gamma)
    assert chances.sum() == pytest.approx(plays)
    assert chances.max() <= 1 + 1e-9
    assert chances.min() >= gamma * plays / len(logs) - 1e-9
    assert (chances[capped] > 1 - 1e-6).all()
    assert (np.diff(chances[np.argsort(logs)]) >= -1e-9).all()


def test_one_play_is_the_mixture_of_exp3():
    chances, capped = rexp3.probabilities(np.log([1.0, 3.0]), 1, 0.5)
    assert chances == pytest.approx([0.5 * 0.25 + 0.25, 0.5 * 0.75 + 0.25])
    assert not capped.any()


def test_dependent_rounding_takes_each_arm_with_its_chance():
    chances = np.array([0.1, 0.9, 0.5, 1.0, 0.25, 0.25])
    rng = generator(0, "test")
    drawn = [rexp3.dependent_rounding(chances, rng) for _ in range(4000)]
    assert {len(own) for own in drawn} == {3}
    assert np.bincount(np.concatenate(drawn), minlength=6) / 4000 == pytest.approx(chances, abs=0.03)


def test_exploration_is_the_rate_against_an_adversary():
    assert rexp3.exploration(200, 10, 200) == pytest.approx(np.sqrt(200 * np.log(20) / ((np.e - 1) * 10 * 200)))
    assert rexp3.exploration(200, 10, 1) == 1


def test_rexp3_forgets_at_each_restart(skewed):
    algorithm = method("rexp3", restart=3)
    state = after_rounds(algorithm, skewed, 3)
    assert float(state["log_weights"].max()) > 0
    chances, _ = algorithm.chances(skewed, state, 4)
    assert chances == pytest.approx([12 / 40] * 40)
    after = algorithm.round(skewed, state, 4)
    assert int((after["log_weights"] > 0).sum()) <= 12


def test_rexp3_of_pure_exploration_ignores_its_weights(skewed):
    algorithm = method("rexp3", gamma=1.0)
    state = after_rounds(algorithm, skewed, 4)
    assert algorithm.chances(skewed, state, 5)[0] == pytest.approx([12 / 40] * 40)


def test_rexp3_prefers_rewarded_clients_where_rewards_stay_as_they_are(skewed):
    state = after_rounds(method("rexp3", participation=0.1, restart=150, lr=1e-5), skewed, 150)
    assert stats.spearmanr(state["log_weights"], skewness.true_alphas(skewed)).statistic < -0.3


def test_released_rexp3_takes_weight_from_whoever_takes_part_by_reward_over_chance(skewed):
    algorithm = method("releasedrexp3", participation=0.1)
    state = algorithm.init(skewed)
    assert algorithm.chances(skewed, state) == pytest.approx([1 / 40] * 40)
    chosen = algorithm.choose(skewed, state, 1)
    rewards = algorithm.rewards(skewed, state, chosen)
    after = algorithm.round(skewed, state, 1)["log_weights"].numpy()
    assert after[chosen] == pytest.approx(0.2 / 40 * rewards * 40)
    assert (rewards < 0).all() and np.delete(after, chosen) == pytest.approx(0)


def test_released_rexp3s_rewards_are_on_the_printed_scale_however_many_samples_a_client_has(skewed):
    everyone = np.arange(skewed.clients)
    printed, own = (method("releasedrexp3", reward_samples=samples) for samples in (2000, None))
    state, sizes = own.init(skewed), skewed.sizes.numpy().astype(float)
    ratio = printed.rewards(skewed, state, everyone) / own.rewards(skewed, state, everyone)
    assert ratio == pytest.approx(2000 / sizes)
    assert method("releasedrexp3").reward_samples == 2000


# Errors


def test_all_selectors_are_registered_under_their_lower_case_names():
    assert set(SELECTORS) <= set(REGISTRY)


# Federations of the paper


def test_clients_may_hold_more_than_the_data_set_and_share_its_rows(make_dataset):
    dataset = make_dataset(samples=300)
    parts = partition.uniform_skew(dataset.y_train.numpy(), 20, 60, rng=np.random.default_rng(0))
    fed = federation.assemble(dataset, parts, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4)), seed=0)
    assert sum(len(rows) for rows in fed.rows) == 1200
    assert len(fed.x) == 300
    assert not fed.contiguous
    assert method("fedacs").round(fed, method("fedacs").init(fed), 1)["weights"].isfinite().all()


def test_federate_gives_each_client_its_samples_and_its_poisoners():
    fed = federation.federate(
        "handwriting", "uniform_skew", 5, network="softmax", client_samples=40, poisoners=2, samples=2000
    )
    assert {len(rows) for rows in fed.rows} == {40}
    assert len(fed.poisoners) == 2


def test_client_samples_need_a_partitioner_that_takes_them():
    with pytest.raises(ValueError, match=r"iid deals all samples; client_samples is for dominance, .*uniform_skew"):
        federation.federate("handwriting", "iid", 5, client_samples=40)
