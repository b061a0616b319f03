"""Each method against its equations: a readable loop, autograd, a reference solver or numbers worked out by hand."""

from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from played_rounds import after_rounds, assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again, assert_equal
from readable_acfmo import ReadableACFMO
from scipy.optimize import minimize
from torch.nn import functional

from fedlib import engine
from fedlib.algorithms import REGISTRY, create, fedpac
from fedlib.algorithms.acfmo import feature_counts, feature_scale
from fedlib.engine import readable, training
from fedlib.engine.minibatches import client_minibatches

LOCAL = {"lr": 0.3, "batch": 7, "steps": 4}
OPTIONS = {
    "acfmo": {"steps": 3, "batch": 5},
    "fedavg": LOCAL,
    "fedala": LOCAL,
    "feddbe": LOCAL,
    "fedpac": LOCAL,
    "fedgh": {},
    "serveradam": {},
}


def method(name: str, **options):
    return create(name, **{"participation": 0.4} | OPTIONS[name] | options)


# What all methods share


@pytest.mark.parametrize("name", OPTIONS)
def test_a_round_leaves_its_state_alone_and_comes_out_the_same_again(make_federation, name):
    fed, algorithm = make_federation(l2=0.01), method(name)
    assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again(algorithm, fed)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_method_learns_the_toy_problem(make_federation, name):
    fed, algorithm = make_federation(), method(name)
    before = algorithm.measure(fed, algorithm.init(fed))
    after = algorithm.measure(fed, after_rounds(algorithm, fed, 25))
    assert after["loss"] < before["loss"]
    assert after["accuracy"] > 0.6 > before["accuracy"]


def test_names_of_methods_are_lower_case_and_create_gives_the_class():
    assert set(OPTIONS) <= set(REGISTRY)
    for name, kind in REGISTRY.items():
        assert name == name.lower() == kind.__name__.lower()
    assert type(create("fedavg", steps=1)) is REGISTRY["fedavg"]


def test_an_unknown_method_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown algorithm 'FedAvg'; known: acfmo, .*fedala, fedavg, .*feddbe"):
        create("FedAvg")


def test_an_unknown_option_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="fedgh has no option momentum, rate; it has: participation, lr, steps"):
        create("fedgh", rate=1, momentum=0.9)


@pytest.mark.parametrize("participation", [0, -0.1, 1.01])
def test_participation_is_a_share(participation):
    with pytest.raises(ValueError, match=r"must be a number in \(0, 1\]"):
        create("fedavg", participation=participation)


def test_all_methods_of_a_seed_meet_the_same_participants(make_federation):
    fed = make_federation()
    for round in range(1, 6):
        drawn = [method(name).participants(fed, round).tolist() for name in OPTIONS]
        assert all(own == drawn[0] for own in drawn)


@given(clients=st.integers(1, 30), participation=st.floats(0.01, 1), round=st.integers(1, 50), seed=st.integers(0, 9))
@settings(deadline=None, max_examples=60)
def test_participants_are_sorted_distinct_and_as_many_as_asked(clients, participation, round, seed):
    class Few:
        pass

    fed = Few()
    fed.clients, fed.seed = clients, seed
    drawn = create("fedavg", participation=participation).participants(fed, round)
    assert len(drawn) == max(1, int(participation * clients + 0.5))
    assert (np.diff(drawn) > 0).all()
    assert drawn.min() >= 0
    assert drawn.max() < clients


def test_participants_change_with_round_and_seed_and_all_get_their_turn(make_federation):
    algorithm = method("fedavg", participation=0.2)
    drawn = [tuple(algorithm.participants(make_federation(seed=0), round)) for round in range(1, 101)]
    other = [tuple(algorithm.participants(make_federation(seed=1), round)) for round in range(1, 101)]
    assert len(set(drawn)) > 20
    assert drawn != other
    turns = np.bincount(np.concatenate(drawn), minlength=10)
    assert turns.min() > 5, "20 turns each on average"


# FedAvg


@pytest.mark.parametrize("work", [LOCAL, {"lr": 0.1, "batch": 16, "epochs": 2, "momentum": 0.9}])
@pytest.mark.parametrize("kind", ["softmax", "dense"])
def test_fedavg_equals_a_readable_loop(make_federation, kind, work):
    fed = make_federation(kind, l2=0.01)
    algorithm = create("fedavg", participation=0.4, **work)
    weights = fed.start.clone()
    for round in range(1, 5):
        participants = algorithm.participants(fed, round)
        total = sum(len(fed.rows[client]) for client in participants)
        average = torch.zeros_like(weights)
        for client in participants:
            local = readable.train(fed, engine.Cohort([client], weights), algorithm.work(), round).weights[0]
            average += len(fed.rows[client]) / total * local
        weights = average
    assert_equal(after_rounds(algorithm, fed, 4)["weights"], weights)


# ACFMO


@pytest.mark.parametrize("variant", ["printed", "current", "unnormalised"])
@pytest.mark.parametrize(("beta1", "beta2"), [(0.9, 0.999), (0.0, 0.9)])
def test_acfmo_equals_the_readable_loop_over_several_rounds(make_federation, variant, beta1, beta2):
    fed = make_federation(clients=8, alpha=0.2, l2=0.01, samples=60, features=6, classes=3)
    assert (feature_counts(fed) == 0).any(), "some clients must lack some features"
    # A large local step makes the local work visible beside the central one.
    options = {"variant": variant, "beta1": beta1, "beta2": beta2, "steps": 3, "batch": 4, "lr": 9.0, "server_lr": 0.2}
    algorithm = create("acfmo", participation=0.5, **options)
    slow, state = ReadableACFMO(algorithm, fed), algorithm.init(fed)
    for round in range(1, 7):
        state = algorithm.round(fed, state, round)
        slow.round(algorithm.participants(fed, round), round)
        for fast, name in ((state["m"], "m"), (state["v"], "v"), (state["weights"], "w")):
            expected = torch.tensor(getattr(slow, name), dtype=torch.float64).flatten()
            if expected.any():
                assert_equal(fast, expected)
            else:
                assert not fast.any(), f"{name} must be zero after round {round}"


def test_the_local_work_of_acfmo_shows_in_that_comparison(make_federation):
    fed = make_federation(clients=8, alpha=0.2, l2=0.01, samples=60, features=6, classes=3)
    options = {"variant": "current", "batch": 4, "lr": 9.0, "server_lr": 0.2, "participation": 0.5}
    with_steps, without = (after_rounds(create("acfmo", steps=k, **options), fed, 3)["weights"] for k in (3, 0))
    assert float((with_steps - without).norm() / without.norm()) > 1e-3


def test_the_first_printed_round_changes_nothing_but_the_moments(make_federation):
    fed = make_federation(l2=0.01)
    printed, current = method("acfmo", variant="printed"), method("acfmo", variant="current")
    state = printed.round(fed, printed.init(fed), 1)
    assert torch.equal(state["weights"], fed.start)
    assert state["m"].any()
    assert state["v"].any()
    assert not torch.equal(printed.round(fed, state, 2)["weights"], fed.start)
    assert not torch.equal(current.round(fed, current.init(fed), 1)["weights"], fed.start)


def test_the_printed_rate_starts_at_zero_and_rises_to_its_limit():
    algorithm = create("acfmo")
    assert algorithm.rate(0) == 0
    assert algorithm.rate(1) == pytest.approx(0.02 * 0.1)
    assert algorithm.rate(2) == pytest.approx(0.02 * 0.1 * sqrt(1.999))
    assert algorithm.rate(10**6) == pytest.approx(0.02 * 0.1 * sqrt(1000))


def test_acfmo_without_local_steps_is_the_adam_recursion_by_hand(make_federation):
    """One client, one sample x = 2 of class 0, two classes: all four gradients are one number times (2, 1)."""
    fed = make_federation(parts=[np.array([0])], features=1, classes=2)
    fed.x[0, 0], fed.y[0] = 2.0, 0
    algorithm = create("acfmo", variant="current", steps=0, server_lr=0.5)
    first = algorithm.round(fed, algorithm.init(fed), 1)
    # w = 0, so p = 1/2 and g = (-1/2, 1/2) x (2, 1); m = 0.1 g, v = 0.001 g^2; alpha = 0.5 * 0.1 = 0.05
    feature = 0.05 * 0.1 * 1 / sqrt(0.001 * 1 + 1e-8)
    bias = 0.05 * 0.05 / sqrt(0.001 * 0.25 + 1e-8)
    assert feature == pytest.approx(0.15811309)
    assert bias == pytest.approx(0.15811072)
    np.testing.assert_allclose(first["weights"], [feature, bias, -feature, -bias], rtol=1e-6)
    # the logits are now +-(2 * feature + bias), so class 1 has p = 1 / (1 + e^{2 * 0.47433690})
    p = 1 / (1 + np.exp(2 * (2 * feature + bias)))
    m, v = 0.9 * 0.1 * 1 + 0.1 * 2 * p, 0.999 * 0.001 * 1 + 0.001 * (2 * p) ** 2
    m_bias, v_bias = 0.9 * 0.05 + 0.1 * p, 0.999 * 0.001 * 0.25 + 0.001 * p**2
    alpha = 0.05 * sqrt(1.999)
    feature, bias = feature + alpha * m / sqrt(v + 1e-8), bias + alpha * m_bias / sqrt(v_bias + 1e-8)
    second = algorithm.round(fed, first, 2)
    np.testing.assert_allclose(second["weights"], [feature, bias, -feature, -bias], rtol=1e-5)


@pytest.mark.parametrize(("beta1", "beta2"), [(0.9, 0.999), (0.3, 0.99), (0.0, 0.9)])
def test_with_unnormalised_moments_the_central_step_is_adams_without_the_correction_of_the_first(
    make_federation, beta1, beta2
):
    """alpha m / sqrt(v / (1 - beta2^r)) with running means m and v; only the epsilon stands elsewhere."""
    fed = make_federation(l2=0.01)
    algorithm = method("acfmo", variant="unnormalised", steps=0, beta1=beta1, beta2=beta2, epsilon=1e-20)
    weights, m, v = fed.start.double(), 0.0, 0.0
    for round in range(1, 6):
        pooled = torch.cat([fed.rows[client] for client in algorithm.participants(fed, round)])
        gradient = readable.gradient(fed, weights.float(), pooled)[0].double()
        m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient**2
        weights = weights - 0.02 * m / (v / (1 - beta2**round)).sqrt().clamp(min=1e-30)
    assert_equal(after_rounds(algorithm, fed, 5)["weights"], weights)


@pytest.mark.parametrize(("beta1", "beta2"), [(0.9, 0.999), (0.6, 0.99)])
def test_normalised_moments_step_farther_by_a_factor_of_the_decay_rates_alone(make_federation, beta1, beta2):
    fed = make_federation(l2=0.01)
    options = {"steps": 0, "beta1": beta1, "beta2": beta2, "epsilon": 1e-20}
    moved = [
        after_rounds(method("acfmo", variant=variant, **options), fed, 1)["weights"] - fed.start
        for variant in ("current", "unnormalised")
    ]
    assert_equal(moved[0], moved[1] * (1 - beta1) / sqrt(1 - beta2))


def test_feature_scale_by_hand(make_federation):
    fed = make_federation(parts=[np.array([0, 1]), np.array([2, 3, 4])], features=3, classes=2)
    fed.x[:, :3] = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 5, 0], [2, 0, 0], [2, 0, 0]])
    # feature 0: n^j = 4 of 5; client 0 has it in 2 of 2, client 1 in 2 of 3. Feature 1: 1 of 5, client 1 in 1 of 3.
    expected = [[0.8, 0, 0, 1], [0.8 * 3 / 2, 0.2 * 3, 0, 1]]
    np.testing.assert_allclose(feature_scale(fed, feature_counts(fed), np.array([0, 1])), expected, rtol=1e-6)


def test_an_unknown_variant_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="variant='adam' must be one of 'printed', 'current', 'unnormalised'"):
        create("acfmo", variant="adam")


# Plain Adam at the server


def test_server_adam_equals_torchs_adam_on_the_pooled_gradient(make_federation):
    fed = make_federation(l2=0.01)
    algorithm = method("serveradam", lr=0.05, beta1=0.8, beta2=0.95)
    weights = torch.nn.Parameter(fed.start.clone())
    optimiser = torch.optim.Adam([weights], lr=0.05, betas=(0.8, 0.95), eps=1e-8)
    for round in range(1, 9):
        pooled = torch.cat([fed.rows[client] for client in algorithm.participants(fed, round)])
        weights.grad = readable.gradient(fed, weights.detach(), pooled)[0]
        optimiser.step()
    assert_equal(after_rounds(algorithm, fed, 8)["weights"], weights.detach())


# FedALA


def test_fedala_with_its_mixing_weights_held_at_one_is_fedavg(make_federation):
    fed = make_federation("dense", l2=0.01)
    fedavg = after_rounds(method("fedavg"), fed, 6)["weights"]
    assert_equal(after_rounds(method("fedala", mix_lr=0.0), fed, 6)["weights"], fedavg)
    assert_equal(after_rounds(method("fedala", mix_steps=0, first_steps=0), fed, 6)["weights"], fedavg)
    assert not torch.allclose(after_rounds(method("fedala", mix_lr=50.0), fed, 6)["weights"], fedavg, rtol=1e-3)


def objective(fed, weights, client) -> torch.Tensor:
    """A client's own objective for autograd; softmax regression."""
    rows = fed.rows[client]
    logits = fed.x[rows] @ weights.view(fed.classes, -1).T
    return functional.cross_entropy(logits, fed.y[rows]) + fed.l2 / 2 * weights.square().sum()


def test_fedala_learns_its_mixing_weights_like_autograd(make_federation):
    fed, algorithm = make_federation(l2=0.01), method("fedala", participation=1.0, mix_lr=20.0, mix_steps=2)
    state = after_rounds(algorithm, fed, 2)
    clients = np.arange(fed.clients)
    change = state["weights"] - state["last"]
    mix = algorithm.learn(fed, clients, change, state["last"], state["mix"], np.zeros(fed.clients, dtype=bool))
    for client in clients:
        own = state["mix"][client]
        for _ in range(2):
            own = own.detach().requires_grad_()
            (slope,) = torch.autograd.grad(objective(fed, state["last"][client] + own * change[client], client), own)
            own = (own - 20.0 * slope).clamp(0, 1)
        torch.testing.assert_close(mix[client], own.detach(), rtol=1e-4, atol=1e-5)
    assert ((mix > 0) & (mix < 1)).any(), "some weights must lie inside the bounds"


@pytest.mark.parametrize(("settled", "first_steps"), [(0.1, 100), (1e-3, 100), (1e-3, 15)])
def test_fedala_learns_until_the_loss_settles_when_a_client_returns(make_federation, settled, first_steps):
    """At least eleven steps, then until the last ten losses deviate by less than `settled`: client by client."""
    options = {"mix_lr": 5.0, "settled": settled, "first_steps": first_steps}
    fed, algorithm = make_federation(l2=0.01), method("fedala", participation=1.0, **options)
    state = after_rounds(algorithm, fed, 1)
    change, taken = state["weights"] - state["last"], set()
    mix = algorithm.learn(
        fed, np.arange(fed.clients), change, state["last"], state["mix"], np.ones(fed.clients, dtype=bool)
    )
    for client in range(fed.clients):
        own, losses = state["mix"][client], []
        while len(losses) < first_steps and not (len(losses) > 10 and np.std(losses[-10:]) < settled):
            own = own.detach().requires_grad_()
            weights = state["last"][client] + own * change[client]
            (slope,) = torch.autograd.grad(objective(fed, weights, client), own)
            losses.append((objective(fed, weights, client) - fed.l2 / 2 * weights.square().sum()).item())
            own = (own - 5.0 * slope).clamp(0, 1)
        taken.add(len(losses))
        torch.testing.assert_close(mix[client], own.detach(), rtol=1e-4, atol=1e-5)
    assert min(taken) >= 11 and max(taken) <= first_steps
    assert settled > 0.01 or len(taken) > 1 or taken == {first_steps}, "clients must settle at different times"


def test_fedalas_first_phase_comes_with_a_clients_second_round(make_federation):
    fed = make_federation(l2=0.01)
    algorithm = method("fedala", participation=0.5, mix_lr=5.0)
    state, rounds_of = algorithm.init(fed), np.zeros(fed.clients)
    for round in range(1, 6):
        state = algorithm.round(fed, state, round)
        rounds_of[algorithm.participants(fed, round)] += 1
        assert state["seen"].numpy().tolist() == (rounds_of >= 1).tolist()
        assert state["returned"].numpy().tolist() == (rounds_of >= 2).tolist()
        assert (state["mix"][rounds_of < 2] == 1).all()


def test_fedala_keeps_the_models_of_those_who_did_not_take_part(make_federation):
    fed, algorithm = make_federation(), method("fedala")
    state = after_rounds(algorithm, fed, 1)
    took_part = set(algorithm.participants(fed, 1).tolist())
    assert set(state["seen"].nonzero().flatten().tolist()) == took_part
    for client in set(range(fed.clients)) - took_part:
        assert torch.equal(state["last"][client], fed.start)


# FedDBE


def readable_feddbe(fed, algorithm, rounds: int) -> tuple[torch.Tensor, torch.Tensor]:
    """W and b by autograd on the shifted samples themselves, one client and one batch at a time."""
    weights, memory = fed.start.clone(), torch.zeros(fed.clients, fed.x.shape[1] - 1)
    for round in range(1, rounds + 1):
        clients, trained = algorithm.participants(fed, round), []
        for client in clients:
            w, b = weights.clone(), memory[client].clone()
            for positions in client_minibatches(fed, client, algorithm.work(), round):
                rows = fed.rows[client][torch.as_tensor(positions)]
                w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
                head = w.view(fed.classes, -1)
                logits = (fed.x[rows, :-1] + b) @ head[:, :-1].T + head[:, -1]
                loss = functional.cross_entropy(logits, fed.y[rows]) + fed.l2 / 2 * w.square().sum()
                w_slope, b_slope = torch.autograd.grad(loss, (w, b))
                w, b = w - algorithm.lr * w_slope, b - algorithm.lr * b_slope
            memory[client] = b.detach()
            trained.append(len(fed.rows[client]) * w.detach())
        weights = torch.stack(trained).sum(0) / sum(len(fed.rows[client]) for client in clients)
    return weights, memory


@pytest.mark.parametrize("chunk_bytes", [1, 2**28])
def test_feddbe_equals_autograd_on_the_shifted_samples(make_federation, monkeypatch, chunk_bytes):
    monkeypatch.setattr(training, "CHUNK_BYTES", chunk_bytes)
    fed, algorithm = make_federation(l2=0.02), method("feddbe")
    weights, memory = readable_feddbe(fed, algorithm, 4)
    state = after_rounds(algorithm, fed, 4)
    assert_equal(state["weights"], weights)
    assert_equal(state["memory"], memory)
    assert memory.norm() > 0.05


# FedPAC


def best_combination(gram: np.ndarray, variance: np.ndarray, own: int) -> tuple[np.ndarray, callable]:
    """The programme of one client by SciPy's SLSQP, and its objective."""
    curvature = gram + np.diag(variance)

    def value(a):
        return a @ curvature @ a - 2 * a @ gram[own] + gram[own, own]

    size = len(gram)
    found = minimize(
        lambda a: value(a) / value(np.full(size, 1 / size)),
        np.full(size, 1 / size),
        jac=lambda a: 2 * (curvature @ a - gram[own]) / value(np.full(size, 1 / size)),
        bounds=[(0, 1)] * size,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(size)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return found.x, value


def random_programme(clients: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner products of class statistics without what they have in common, and the clients' variances."""
    rng = np.random.default_rng(seed)
    statistics = rng.normal(size=(clients, 15)) / 4
    statistics -= statistics.mean(0)
    return statistics @ statistics.T, noise * rng.uniform(0.1, 1, clients)


@pytest.mark.parametrize(("clients", "noise"), [(2, 2.0), (4, 2.0), (6, 2.0), (12, 0.2), (80, 0.01)])
@pytest.mark.parametrize("seed", [0, 1])
def test_combinations_of_heads_reach_the_optimum_of_slsqp(clients, noise, seed):
    gram, variance = random_programme(clients, noise, seed)
    programme = torch.tensor(gram).float(), torch.tensor(variance).float()
    largest = fedpac.largest_eigenvalue(programme[0])
    few = fedpac.FedPAC().iterations
    tight, usual, default = (fedpac.combine(*programme, largest, iterations) for iterations in (500, 200, few))
    for own in range(min(clients, 3)):
        best, value = best_combination(gram, variance, own)
        gain = value(np.eye(clients)[own]) - value(best)  # over the client's own head alone
        assert value(tight[own].double().numpy()) - value(best) <= 1e-3 * gain
        assert value(usual[own].double().numpy()) - value(best) <= 0.05 * gain, "the default settings must come close"
        if noise > 0.1:
            assert value(default[own].double().numpy()) - value(best) <= 0.05 * gain
        if clients <= 12:
            np.testing.assert_allclose(tight[own], best, atol=2e-3)


def test_a_client_without_company_keeps_its_own_head():
    torch.testing.assert_close(fedpac.combine(torch.tensor([[4.0]]), torch.tensor([0.5]), 4.0, 15), torch.ones(1, 1))


def test_alike_clients_share_their_heads_by_the_inverse_of_their_variance():
    mixing = fedpac.combine(torch.ones(3, 3), torch.tensor([1.0, 2.0, 4.0]), 3.0, 200)
    torch.testing.assert_close(mixing, torch.tensor([[4, 2, 1]] * 3) / 7, rtol=1e-3, atol=1e-3)


points = hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 8)), elements=st.floats(-50, 50))


@given(points, st.integers(0, 99))
@settings(deadline=None, max_examples=80)
def test_projection_gives_the_nearest_point_of_the_simplex(raw, seed):
    nearest = fedpac.project_to_simplex(torch.as_tensor(raw)).numpy()
    assert (nearest >= 0).all()
    np.testing.assert_allclose(nearest.sum(1), 1, atol=1e-9)
    others = np.random.default_rng(seed).dirichlet(np.ones(raw.shape[1]), size=20)
    corners = np.eye(raw.shape[1])
    for point, own in zip(raw, nearest, strict=True):
        rivals = np.linalg.norm(np.concatenate([others, corners]) - point, axis=1)
        assert np.linalg.norm(own - point) <= rivals.min() + 1e-9
    np.testing.assert_allclose(fedpac.project_to_simplex(torch.as_tensor(nearest)), nearest, atol=1e-9)


def test_feddbes_memory_steps_with_the_rate_of_its_round(make_federation):
    fed, algorithm = make_federation(), method("feddbe", final_lr=0.0, schedule=2)
    first = algorithm.round(fed, algorithm.init(fed), 1)
    second = algorithm.round(fed, first, 2)
    assert first["memory"].any()
    assert torch.equal(second["memory"], first["memory"]), "in the last round the rate is zero"


def test_class_statistics_equal_plain_loops(make_federation):
    fed = make_federation()
    gram, variance, bound = fedpac.class_statistics(fed).values()
    statistics, expected = [], []
    for rows in fed.rows:
        x, y = fed.x[rows, :-1].double().numpy(), fed.y[rows].numpy()
        h = np.zeros((fed.classes, x.shape[1]))
        for label in set(y.tolist()):
            h[label] = x[y == label].sum(0) / len(x)
        shares = np.stack([np.where(y[:, None] == label, x, 0) for label in range(fed.classes)], axis=1)
        statistics.append(h.ravel())
        expected.append(shares.reshape(len(x), -1).var(axis=0).sum() / len(x))  # of the mean that h is
    statistics = np.array(statistics) - np.mean(statistics, axis=0)
    assert bound == pytest.approx(np.linalg.norm(statistics, 2) ** 2, rel=1e-4)
    np.testing.assert_allclose(gram, statistics @ statistics.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance, expected, rtol=1e-3, atol=1e-5)


def test_fedpac_server_model_is_the_mean_of_the_combined_heads(make_federation):
    fed, algorithm = make_federation(l2=0.01), method("fedpac")
    state = algorithm.round(fed, algorithm.init(fed), 1)
    clients = algorithm.participants(fed, 1)
    local = readable.train(fed, engine.Cohort(clients, fed.start), algorithm.work(), 1).weights
    chosen = torch.as_tensor(clients)
    mixing = algorithm.combination(algorithm.init(fed), chosen)
    heads = torch.stack([sum(share * head for share, head in zip(row, local, strict=True)) for row in mixing])
    assert_equal(state["heads"][chosen].flatten(), heads.flatten())
    sizes = fed.sizes[chosen]
    assert_equal(state["weights"], (sizes / sizes.sum()) @ heads)


# FedGH


def test_fedgh_equals_logistic_regression_on_the_prototypes(make_federation):
    fed, algorithm = make_federation(l2=0.05, alpha=0.2), method("fedgh", lr=0.4, steps=6)
    weights = fed.start.clone()
    for round in range(1, 4):
        prototypes, labels = [], []
        for client in algorithm.participants(fed, round):
            rows = fed.rows[client]
            for label in fed.y[rows].unique():
                prototypes.append(fed.x[rows[fed.y[rows] == label]].mean(0))
                labels.append(label)
        prototypes, labels = torch.stack(prototypes), torch.stack(labels)
        for _ in range(6):
            weights = weights.detach().requires_grad_()
            loss = functional.cross_entropy(prototypes @ weights.view(fed.classes, -1).T, labels)
            (slope,) = torch.autograd.grad(loss + fed.l2 / 2 * weights.square().sum(), weights)
            weights = (weights - 0.4 * slope).detach()
    assert_equal(after_rounds(algorithm, fed, 3)["weights"], weights)
    assert not (fed.class_counts > 0).all(), "some clients must lack a class"
