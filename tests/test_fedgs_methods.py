"""FedGS and the methods it is compared with: against readable loops, special cases and numbers worked out by hand."""

from dataclasses import dataclass, replace
from functools import partial
from math import exp, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from played_rounds import after_rounds, assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again
from played_rounds import assert_equal as assert_close
from readable_fedgs import (
    GatedHead,
    ReadableFedGS,
    ReadableFusion,
    SideBySide,
    WeightedMean,
    averaged,
    descend,
    fedmmd_round,
)
from torch.nn import functional

from fedlib import engine
from fedlib.algorithms import create
from fedlib.algorithms.cgau import Gate, extractor_of, gate_biases, pretrain, with_condition
from fedlib.algorithms.fedfusion import channels, halves
from fedlib.algorithms.fedmmd import WIDTHS, mmd
from fedlib.algorithms.fedopt import FedAdagrad, FedAdam, FedAvgM, FedYogi
from fedlib.algorithms.ida import inverse_distance, training_accuracy
from fedlib.data.dataset import from_arrays
from fedlib.engine import evaluation, readable, threads
from fedlib.problem import Network, federation, layout, models
from fedlib.problem.queues import SampleQueues

pytestmark = pytest.mark.slow

assert_equal = partial(assert_close, relative=2e-5)  # deep networks, several rounds

CLIENTS, WRITERS, CLASSES, SIDE = 11, 14, 4, 8
LOCAL = {"lr": 0.2, "batch": 7, "epochs": 2, "participation": 0.5}
FEDGS = {"factories": 3, "devices": 3, "presampled": 1, "batch": 6, "iterations": 4, "lr": 0.2}
GATED = {"units": 5, "pretrain_samples": 30, "pretrain_epochs": 3, "pretrain_batch": 9}
OPTIONS = {
    "fedgs": FEDGS,
    "ida": LOCAL,
    "ida_intrac": LOCAL,
    "ida_fedavg": LOCAL,
    "cgau": LOCAL | GATED,
    "fedmmd": LOCAL,
    "fedfusion_conv": LOCAL,
    "fedfusion_multi": LOCAL,
    "fedfusion_single": LOCAL,
    "fedopt": LOCAL,
    "fedavgm": LOCAL,
    "fedadagrad": LOCAL | {"server_lr": 0.02},
    "fedadam": LOCAL | {"server_lr": 0.02},
    "fedyogi": LOCAL | {"server_lr": 0.02},
}


def written_characters(seed: int = 0):
    """14 writers of small images: every class is a bright bar, writers have habits and amounts of their own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 40, 2 * WRITERS)
    writers = np.repeat(np.arange(2 * WRITERS) % WRITERS, sizes)
    habits = rng.dirichlet(np.full(CLASSES, 0.5), WRITERS)
    labels = np.array([rng.choice(CLASSES, p=habits[writer]) for writer in writers])
    images = rng.integers(0, 120, (len(labels), SIDE, SIDE))
    images[np.arange(len(labels)), 2 * labels] += 130
    train = np.arange(len(labels)) < sizes[:WRITERS].sum()
    parts = {"x": images.astype(np.uint8), "y": labels, "writer": writers}
    arrays = {f"{name}_train": values[train] for name, values in parts.items()}
    arrays |= {f"{name}_test": values[~train] for name, values in parts.items()}
    return from_arrays("written", arrays, tuple("abcd"), fingerprint="written")


@pytest.fixture
def deal(monkeypatch):
    """Federations of these writers, as `federate` makes them."""
    monkeypatch.setattr(federation.data, "load", lambda name: written_characters())

    def make(clients: int = CLIENTS, network: str = "cnn_leaf", **options) -> federation.Federation:
        if network == "cnn_leaf":
            options = {"network_options": {"width": 2, "hidden": 6}} | options
        return federation.federate("written", "by_writer", clients, network, **options)

    return make


def assert_same_model(name: str, options: dict, fed, reference: str = "fedavg", rounds: int = 3, **local) -> None:
    shared = LOCAL | local
    weights = after_rounds(create(reference, **shared), fed, rounds)["weights"]
    assert_equal(after_rounds(create(name, **shared, **options), fed, rounds)["weights"], weights)
    assert float((weights - fed.start).norm()) > 1e-2, "training must have moved the model"


# What all methods share


@pytest.mark.parametrize("name", OPTIONS)
def test_a_round_leaves_its_state_alone_and_comes_out_the_same_again(deal, name):
    fed, algorithm = deal(), create(name, **OPTIONS[name])
    assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again(algorithm, fed)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_method_learns_the_writers_characters(deal, name):
    patient = {"iterations": 20} if name == "fedgs" else {"participation": 1.0, "lr": 0.4}
    patient |= {"pretrain_epochs": 60} if name == "cgau" else {}
    fed, algorithm = deal(network_options={"width": 4, "hidden": 16}), create(name, **OPTIONS[name] | patient)
    before = algorithm.measure(fed, algorithm.init(fed))
    after = algorithm.measure(fed, after_rounds(algorithm, fed, 20))
    assert after["loss"] < before["loss"]
    assert after["accuracy"] > 0.9


# Federations of writers


def pixels(images: torch.Tensor) -> list[bytes]:
    return [image.numpy().tobytes() for image in images]


def test_clients_are_tested_on_their_own_characters_and_the_other_writers_are_held_out(deal):
    fed, dataset = deal(), written_characters()
    writer_of = dict(zip(pixels(dataset.x_train), dataset.writer_train.tolist(), strict=True))
    writers = [{writer_of[image] for image in pixels(fed.x[rows])} for rows in fed.rows]
    assert all(len(own) == 1 for own in writers)
    taking_part = [own.pop() for own in writers]
    assert len(set(taking_part)) == CLIENTS
    tested = torch.tensor([writer in taking_part for writer in dataset.writer_test.tolist()])
    assert torch.equal(fed.y_test, dataset.y_test[tested])
    assert torch.equal(fed.x_test[..., 0], dataset.x_test[tested])
    assert [taking_part[client] for client in fed.test_clients] == dataset.writer_test[tested].tolist()
    held_out = {writer_of[image] for image in pixels(fed.held_out[0])}
    assert held_out == set(range(WRITERS)) - set(taking_part)
    assert len(fed.held_out[1]) + len(fed.y) == len(dataset.y_train)


def test_a_part_of_the_test_set_keeps_its_writers(deal):
    whole, part = deal(), deal(test_samples=60)
    known, kept = (dict(zip(pixels(fed.x_test), fed.test_clients.tolist(), strict=True)) for fed in (whole, part))
    assert 0 < len(part.y_test) <= 60
    assert kept.items() <= known.items()


def test_without_a_writer_left_nobody_is_held_out(deal):
    fed = deal(WRITERS)
    assert len(fed.held_out[1]) == 0
    with pytest.raises(ValueError, match="fewer clients than there are writers"):
        create("cgau", **OPTIONS["cgau"]).init(fed)


def test_network_options_shrink_the_network(deal):
    small, large = (deal(network_options={"width": width, "hidden": 6}) for width in (2, 3))
    assert small.start.numel() == 2 * 26 + 4 * 51 + 6 * (4 * 4 + 1) + 4 * 7
    assert large.start.numel() == 3 * 26 + 6 * 76 + 6 * (6 * 4 + 1) + 4 * 7
    with pytest.raises(ValueError, match="depth"):
        deal(network_options={"depth": 2})


# SampleQueues


@pytest.mark.parametrize("batch", [1, 6, 50])
def test_a_stream_uses_every_sample_once_before_any_comes_again(deal, batch):
    fed, seen = deal(), np.zeros(0, dtype=int)
    streams, everyone = SampleQueues(fed, batch, np.zeros(CLIENTS, dtype=int)), np.arange(CLIENTS)
    for _ in range(12):
        seen = np.concatenate([seen, streams.rows.ravel()])
        streams.advance(everyone)
        uses = np.bincount(seen, minlength=len(fed.y))
        for rows in fed.rows:
            assert uses[rows].max() - uses[rows].min() <= 1
        assert uses.sum() == seen.size


def test_the_second_pass_has_another_order(deal):
    fed = deal()
    sizes = fed.sizes.int().numpy()
    first, second = (SampleQueues(fed, 1, number * sizes) for number in (0, 1))
    orders = [streams.order(3, number, sizes[3]).tolist() for number, streams in enumerate((first, second))]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(sizes[3]))
    assert orders[0] != orders[1]
    assert first.rows[3] == fed.rows[3][orders[0][0]]
    assert second.rows[3] == fed.rows[3][orders[1][0]]


def test_a_stream_counts_the_classes_of_the_next_batches(deal):
    fed = deal()
    streams = SampleQueues(fed, 6, np.arange(CLIENTS))
    streams.advance(np.array([0, 7]))
    for rows, counts in zip(streams.rows, streams.counts, strict=True):
        assert counts.tolist() == torch.bincount(fed.y[rows], minlength=CLASSES).tolist()
        assert counts.sum() == 6


def test_only_devices_that_used_their_batch_get_a_new_one_and_a_stream_can_be_resumed(deal):
    fed = deal()
    streams = SampleQueues(fed, 6, np.zeros(CLIENTS, dtype=int))
    before = streams.rows.copy()
    for devices in ([1, 4], [4, 5], [4], [4], [4]):
        streams.advance(np.array(devices))
    idle = [device for device in range(CLIENTS) if device not in (1, 4, 5)]
    assert (streams.rows[idle] == before[idle]).all()
    assert streams.taken.tolist() == [0, 1, 0, 0, 5, 1, 0, 0, 0, 0, 0]
    assert (SampleQueues(fed, 6, streams.taken).rows == streams.rows).all()


# FedGS


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"factories": 1, "devices": 9},
        {"presampled": 0},
        {"presampled": 3},
        {"batch": 45, "iterations": 2},
        {"devices": 4},
        {"presample_each": "round"},
    ],
    ids=[
        "uneven factories",
        "one factory",
        "nobody at random",
        "everybody at random",
        "batches above all data",
        "one factory is too small and takes all",
        "random devices stay for a round",
    ],
)
@pytest.mark.parametrize("network", ["cnn_leaf", "mlp200"])
def test_fedgs_equals_the_readable_algorithm(deal, network, options):
    fed, algorithm = deal(network=network, l2=0.01), create("fedgs", **FEDGS | options)
    slow, state = ReadableFedGS(algorithm, fed), algorithm.init(fed)
    for round in range(1, 4):
        state = algorithm.round(fed, state, round)
        slow.round(round)
        assert_equal(state["weights"], slow.weights)
        assert float(state["divergence"]) == pytest.approx(np.mean(slow.divergence), rel=1e-5)
    sizes = [min(algorithm.devices, len(group)) for group in slow.groups]
    assert int(state["taken"].sum()) == 3 * algorithm.iterations * sum(sizes)


def test_the_union_batch_step_is_the_mean_of_the_devices_own_steps(deal):
    fed = deal(l2=0.01)
    own = fed.start + 0.1
    batches = [rows[:5] for rows in fed.rows[:4]]
    steps = [own - 0.3 * readable.gradient(fed, own, rows)[0] for rows in batches]
    union = engine.step_on_rows(fed, own.unsqueeze(0), [torch.cat(batches)], lr=0.3)[0]
    assert_equal(union - own, torch.stack(steps).mean(0) - own)


def test_each_factory_selects_distinct_devices_of_its_own(deal):
    fed, algorithm = deal(), create("fedgs", **FEDGS)
    counts = SampleQueues(fed, 6, np.zeros(CLIENTS, dtype=int)).counts
    for t in range(20):
        chosen, divergences = algorithm.select(fed, counts, t)
        assert [len(set(own.tolist())) for own in chosen] == [3, 3, 3]
        groups = [{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10}]
        assert all(set(own.tolist()) <= group for own, group in zip(chosen, groups, strict=True))
        together = np.array([counts[own].sum(axis=0) for own in chosen])
        real = torch.bincount(fed.y).numpy() / len(fed.y)
        assert divergences == pytest.approx(np.linalg.norm(together / 18 - real, axis=1))


def test_every_device_gets_its_turn_because_some_are_drawn_at_random(deal):
    fed = deal()
    state = after_rounds(create("fedgs", **FEDGS | {"devices": 1, "iterations": 30}), fed, 1)
    assert int(state["taken"].min()) > 0


@pytest.mark.parametrize("sampler", ["gbp_cs", "best_swap"])
def test_selected_super_nodes_are_closer_to_the_real_distribution_than_random_ones(deal, sampler):
    fed, sizes = deal(), {"factories": 1, "devices": 5, "iterations": 30}
    chosen, random = (
        after_rounds(create("fedgs", **FEDGS | sizes | more), fed, 1)["divergence"]
        for more in ({"sampler": sampler, "presampled": 1}, {"presampled": 5})
    )
    assert float(chosen) < 0.8 * float(random)


def test_one_factory_that_takes_all_devices_makes_a_step_on_everything(deal):
    fed = deal()
    algorithm = create("fedgs", **FEDGS | {"factories": 1, "devices": CLIENTS, "iterations": 1})
    streams = SampleQueues(fed, 6, np.zeros(CLIENTS, dtype=int))
    expected = fed.start - 0.2 * readable.gradient(fed, fed.start, torch.as_tensor(streams.rows.ravel()))[0]
    assert_equal(after_rounds(algorithm, fed, 1)["weights"], expected)
    counts = streams.counts.sum(0)
    real = torch.bincount(fed.y).numpy()
    apart = np.linalg.norm(counts / counts.sum() - real / real.sum())
    assert float(after_rounds(algorithm, fed, 1)["divergence"]) == pytest.approx(apart, rel=1e-5)


def test_a_factory_with_fewer_devices_than_wanted_takes_all_of_them(deal):
    fed, algorithm = deal(), create("fedgs", **FEDGS | {"devices": 4})
    counts = SampleQueues(fed, 6, np.zeros(CLIENTS, dtype=int)).counts
    chosen, divergences = algorithm.select(fed, counts, 0)
    assert [sorted(own.tolist()) for own in chosen] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    real = torch.bincount(fed.y).numpy() / len(fed.y)
    assert divergences[2] == pytest.approx(np.linalg.norm(counts[8:].sum(axis=0) / 18 - real))


def test_the_random_devices_of_a_round_stay_where_the_released_code_keeps_them(deal):
    fed = deal()
    counts = SampleQueues(fed, 6, np.zeros(CLIENTS, dtype=int)).counts
    drawn = {
        each: [
            tuple(int(own[0]) for own in create("fedgs", **FEDGS | {"presample_each": each}).select(fed, counts, t)[0])
            for t in range(8)  # two rounds of four iterations
        ]
        for each in ("iteration", "round")
    }
    assert len(set(drawn["round"][:4])) == len(set(drawn["round"][4:])) == 1
    assert len(set(drawn["iteration"])) > 2


def test_fedgs_wants_a_device_in_every_factory(deal):
    with pytest.raises(ValueError, match="11 devices cannot fill 12 factories"):
        create("fedgs", **FEDGS | {"factories": 12}).init(deal())


# The FedOpt family


@pytest.mark.parametrize(("name", "options"), [("fedopt", {}), ("fedavgm", {"beta": 0.0})])
def test_a_server_that_takes_the_whole_change_is_fedavg(deal, name, options):
    assert_same_model(name, {"server_lr": 1.0} | options, deal())


def two_steps(method: type, **options) -> list[float]:
    """One weight that starts at 1; the clients' changes are 0.3 and then -0.1."""

    @dataclass(frozen=True)
    class Known(method):
        def change(self, fed, state, round):
            return torch.tensor([0.3 if round == 1 else -0.1])

    class Fed:
        start = torch.ones(1)

    states = [Known(**options).init(Fed)]
    for round in (1, 2):
        states.append(Known(**options).round(Fed, states[-1], round))
    return [float(state["weights"]) for state in states]


def test_fedavgm_by_hand():
    # m = 0.3, then 0.9 * 0.3 - 0.1 = 0.17
    assert two_steps(FedAvgM, server_lr=0.5, beta=0.9) == pytest.approx([1, 1.15, 1.15 + 0.085])


def test_fedadagrad_by_hand():
    # m = delta; v = 0.01 + 0.09 = 0.1, then 0.11
    steps = [0.2 * 0.3 / (sqrt(0.1) + 0.1), 0.2 * -0.1 / (sqrt(0.11) + 0.1)]
    assert two_steps(FedAdagrad, server_lr=0.2, tau=0.1) == pytest.approx([1, 1 + steps[0], 1 + sum(steps)])


def test_fedadam_by_hand():
    # m = 0.03, 0.017; v = 0.99 * 0.01 + 0.01 * 0.09 = 0.0108, then 0.99 * 0.0108 + 0.01 * 0.01 = 0.010792
    steps = [0.2 * 0.03 / (sqrt(0.0108) + 0.1), 0.2 * 0.017 / (sqrt(0.010792) + 0.1)]
    assert two_steps(FedAdam, server_lr=0.2, tau=0.1) == pytest.approx([1, 1 + steps[0], 1 + sum(steps)])


def test_fedyogi_by_hand():
    # v = 0.01 + 0.01 * 0.09 = 0.0109 as 0.01 < 0.09; then 0.0109 - 0.01 * 0.01 = 0.0108 as 0.0109 > 0.01
    steps = [0.2 * 0.03 / (sqrt(0.0109) + 0.1), 0.2 * 0.017 / (sqrt(0.0108) + 0.1)]
    assert two_steps(FedYogi, server_lr=0.2, tau=0.1) == pytest.approx([1, 1 + steps[0], 1 + sum(steps)])


# IDA


@pytest.mark.parametrize("name", ["ida", "ida_intrac", "ida_fedavg"])
def test_ida_on_identical_clients_is_fedavg(make_federation, name):
    fed = make_federation("dense", parts=[np.arange(60)] * 5)
    assert_same_model(name, {}, fed, participation=1.0, batch=60, epochs=3)


def test_inverse_distances_by_hand():
    local = torch.tensor([[0.0, 0.0], [3.0, 1.0], [0.0, 2.0]])  # mean (1, 1): distances 2, 2, 2
    np.testing.assert_allclose(inverse_distance(local), [0.5, 0.5, 0.5], rtol=1e-6)
    local = torch.tensor([[0.0, 0.0], [0.0, 0.0], [4.0, 2.0], [0.0, 2.0]])  # mean (1, 1): distances 2, 2, 4, 2
    np.testing.assert_allclose(inverse_distance(local), [0.5, 0.5, 0.25, 0.5], rtol=1e-6)


def test_ida_and_its_variants_weigh_the_trained_models_by_hand(deal):
    fed, plain = deal(), create("ida", **LOCAL)
    clients = plain.participants(fed, 1)
    local = engine.train(fed, engine.Cohort(clients, fed.start), plain.work(), 1).weights
    mean = local.double().mean(0)
    accuracy = []
    for own, client in zip(local, clients, strict=True):
        layout.load(fed.network.layers, own)
        guesses = fed.network.layers(readable.network_input(fed, fed.rows[client])).argmax(1)
        accuracy.append(float((guesses == fed.y[fed.rows[client]]).double().mean()))
    factors = {"ida": 1, "ida_intrac": 1 / np.maximum(accuracy, 0.25), "ida_fedavg": fed.sizes[clients].numpy()}
    for name, factor in factors.items():
        alpha = factor / (local.double() - mean).abs().sum(1).numpy()
        expected = (torch.as_tensor(alpha / alpha.sum()).unsqueeze(1) * local).sum(0)
        assert_equal(after_rounds(create(name, **LOCAL), fed, 1)["weights"], expected, relative=1e-6)
    assert training_accuracy(fed, local, clients).tolist() == pytest.approx(accuracy)
    assert min(accuracy) < max(accuracy), "else the inverse accuracies would change nothing"


# FedMMD


@pytest.mark.parametrize("network", ["cnn_leaf", "mlp200"])
def test_fedmmd_without_its_term_is_fedavg(deal, network):
    assert_same_model("fedmmd", {"gamma": 0.0}, deal(network=network))


def test_fedmmd_equals_the_readable_loop(deal):
    fed, algorithm = deal(), create("fedmmd", **LOCAL | {"gamma": 0.7})
    state = algorithm.init(fed)
    weights = state["weights"]
    for round in (1, 2):
        state, weights = algorithm.round(fed, state, round), fedmmd_round(fed, algorithm, weights, round)
        assert_equal(state["weights"], weights)
    plain = after_rounds(create("fedavg", **LOCAL), fed, 2)["weights"]
    assert float((plain - weights).norm() / weights.norm()) > 1e-3, "the term must matter in this comparison"


def test_a_discrepancy_by_hand():
    a, b, share = torch.zeros(1, 1, 2), torch.tensor([[[3.0, 4.0]]]), torch.ones(1, 1)
    expected = 2 * len(WIDTHS) - 2 * sum(exp(-25 / (2 * width)) for width in WIDTHS)
    assert float(mmd(a, b, share)) == pytest.approx(expected, rel=1e-6)


@given(batch=st.integers(1, 6), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_a_discrepancy_is_symmetric_and_zero_only_between_equals_and_padding_does_not_count(batch, seed):
    draw = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, 3, batch, 4, generator=draw)
    share = torch.full((3, batch), 1 / batch)
    assert mmd(a, a, share).abs().max() < 1e-5
    torch.testing.assert_close(mmd(a, b, share), mmd(b, a, share))
    assert mmd(a, b, share).min() > 0.1
    padded = [torch.cat([x, torch.full((3, 2, 4), 9.0)], dim=1) for x in (a, b)]
    torch.testing.assert_close(mmd(*padded, torch.cat([share, torch.zeros(3, 2)], dim=1)), mmd(a, b, share))


def test_the_exponential_is_torchs_and_autograd_goes_through():
    x = torch.linspace(-4, 3, 12, dtype=torch.float64).view(3, 4).requires_grad_()
    torch.testing.assert_close(engine.exponential(x), torch.exp(x))
    assert torch.autograd.gradcheck(engine.exponential, (x,))


# FedFusion


@pytest.mark.parametrize("name", ["fedfusion_multi", "fedfusion_single"])
def test_fusion_with_all_weight_on_the_local_features_is_fedavg(deal, name):
    """A server that keeps lambda at zero and one local step: lambda has no time to move."""
    assert_same_model(name, {"keep": 1.0}, deal(), epochs=None, steps=1, batch=40, lr=0.5)


def test_a_convolution_that_passes_the_local_features_on_is_fedavg(deal):
    fed, algorithm = deal(), create("fedfusion_conv", **LOCAL | {"epochs": None, "steps": 1})
    width = channels(fed.network)
    passing = torch.cat([torch.zeros(width, width), torch.eye(width), torch.zeros(width, 1)], dim=1).flatten()
    fused = algorithm.round(fed, {"weights": fed.start, "operator": passing}, 1)["weights"]
    assert_equal(fused, after_rounds(create("fedavg", **LOCAL | {"epochs": None, "steps": 1}), fed, 1)["weights"])


def module_for(name: str, operator: torch.Tensor, width: int):
    return SideBySide(operator.view(width, -1)) if name == "fedfusion_conv" else WeightedMean(operator)


def weights_of(module) -> torch.Tensor:
    if isinstance(module, SideBySide):
        return layout.flatten(torch.nn.Sequential(module.layer))
    return module.weights.detach().flatten()


@pytest.mark.parametrize("name", ["fedfusion_conv", "fedfusion_multi", "fedfusion_single"])
def test_fedfusion_equals_modules_trained_by_autograd(deal, name):
    fed, algorithm = deal(), create(name, **LOCAL)
    width, state = channels(fed.network), algorithm.init(fed)
    for round in (1, 2):
        operators = []

        def train_client(client, batches, state=state, operators=operators):
            both = ReadableFusion(fed, state["weights"], module_for(name, state["operator"], width))
            trained = both.train(batches, algorithm.lr)
            operators.append(len(fed.rows[client]) * weights_of(both.operator))
            return trained

        weights = averaged(fed, algorithm, round, train_client)
        mean = sum(operators) / fed.sizes[algorithm.participants(fed, round)].sum()
        expected = algorithm.keep * state["operator"] + (1 - algorithm.keep) * mean
        state = algorithm.round(fed, state, round)
        assert_equal(state["weights"], weights)
        assert_equal(state["operator"], expected)
        assert algorithm.keep == (0 if name == "fedfusion_conv" else 0.9)


@pytest.mark.parametrize("name", ["fedfusion_conv", "fedfusion_multi", "fedfusion_single"])
def test_the_server_model_of_fedfusion_is_scored_as_two_equal_streams(deal, name):
    fed, algorithm = deal(), create(name, **LOCAL)
    state = after_rounds(algorithm, fed, 3)
    both = ReadableFusion(fed, state["weights"], module_for(name, state["operator"], channels(fed.network)))
    logits = both.logits(fed.network.inputs(fed.x_test))
    measured = algorithm.measure(fed, state)
    assert measured["loss"] == pytest.approx(float(functional.cross_entropy(logits, fed.y_test).detach()), rel=1e-5)
    assert measured["accuracy"] == pytest.approx(float((logits.argmax(1) == fed.y_test).double().mean()))


@pytest.mark.parametrize("name", ["fedfusion_conv", "fedfusion_multi", "fedfusion_single"])
def test_fusion_of_feature_maps_needs_feature_maps(deal, name):
    with pytest.raises(ValueError, match="needs a convolutional network"):
        create(name).init(deal(network="mlp200"))


def test_the_halves_of_a_network_make_up_the_whole():
    network = Network(models.build("cnn_leaf", 62, (28, 28), width=4, hidden=9))
    extractor, classifier = halves(network)
    assert [*extractor, *classifier] == [*network.layers]
    assert channels(network) == 8


# CGAU


def test_a_gate_is_tanh_times_sigmoid():
    x = torch.linspace(-6, 6, 40).view(4, 10)
    torch.testing.assert_close(Gate()(x), torch.tanh(x[:, :5]) * torch.sigmoid(x[:, 5:]))


@pytest.mark.parametrize("layers", [1, 2])
def test_conditions_are_added_to_the_biases_of_the_gated_layers(deal, layers):
    head = create("cgau", **LOCAL | GATED | {"layers": layers}).head_network(deal())
    biases = gate_biases(head)
    assert len(biases) == layers * 2 * 5
    numbers = torch.arange(1.0, len(biases) + 1)
    layout.load(head.layers, with_condition(torch.zeros(head.size), biases, numbers))
    *gated, last = layout.layers(head.layers)
    assert torch.cat([layer.bias for layer in gated]).tolist() == list(range(1, len(biases) + 1))
    assert not any(layer.weight.any() for layer in gated)
    assert not last.bias.any()


@pytest.mark.parametrize("layers", [1, 2])
def test_cgau_equals_autograd_on_the_gated_formula(deal, layers):
    fed, algorithm = deal(), create("cgau", **LOCAL | GATED | {"layers": layers})
    state, head_network = algorithm.init(fed), algorithm.head_network(fed)
    features = engine.logits_of(extractor_of(fed.network), state["extractor"], fed.x)
    for round in (1, 2, 3):
        expected = state["conditions"].clone()

        def train_client(client, batches, state=state, expected=expected):
            layout.load(head_network.layers, state["weights"])
            head = GatedHead(layout.layers(head_network.layers), state["conditions"][client])
            for rows in batches:
                loss = functional.cross_entropy(head(features[rows]), fed.y[rows])
                descend(list(head.parameters()), loss, algorithm.lr)
            expected[client] = torch.cat([part.detach() for part in head.conditions])
            return layout.flatten(head_network.layers)

        weights = averaged(fed, algorithm, round, train_client)
        state = algorithm.round(fed, state, round)
        assert_equal(state["weights"], weights)
        assert_equal(state["conditions"], expected)


def test_conditions_stay_with_their_clients(deal):
    fed, algorithm = deal(), create("cgau", **LOCAL | GATED)
    state = after_rounds(algorithm, fed, 1)
    moved = state["conditions"].abs().sum(1).nonzero().flatten()
    assert moved.tolist() == algorithm.participants(fed, 1).tolist()


def test_a_client_is_judged_with_its_own_condition_on_its_own_samples(deal):
    fed, algorithm = deal(), create("cgau", **LOCAL | GATED)
    head, state = algorithm.head_network(fed), algorithm.init(fed)
    x = engine.logits_of(extractor_of(fed.network), state["extractor"], fed.x_test)[:, None, None, :]
    alone = engine.evaluate(head, state["weights"], x, fed.y_test)
    assert algorithm.measure(fed, state) == pytest.approx(alone)
    state["conditions"][4] = 3.0
    fourth = fed.test_clients == 4
    judged = with_condition(state["weights"], gate_biases(head), state["conditions"][4])
    models = {True: judged, False: state["weights"]}
    scores = {
        side: engine.evaluate(head, models[side], x[fourth == side], fed.y_test[fourth == side]) for side in models
    }
    for score in ("loss", "accuracy"):
        expected = sum(int((fourth == side).sum()) * scores[side][score] for side in models) / len(fourth)
        assert algorithm.measure(fed, state)[score] == pytest.approx(expected)
    assert algorithm.measure(fed, state)["loss"] != pytest.approx(alone["loss"])


def test_the_extractor_learns_from_held_out_devices_alone(deal):
    fed, work = deal(), engine.Work(lr=0.1, batch=9, epochs=3)
    strange = replace(fed, y=torch.zeros_like(fed.y), x=torch.zeros_like(fed.x))
    x, y = fed.held_out
    assert torch.equal(pretrain(fed, work, len(y)), pretrain(strange, work, len(y)))
    heap = replace(fed, x=x, y=y, rows=(torch.arange(len(y)),))
    pooled = readable.train(heap, engine.Cohort([0], fed.start), work, 0).weights[0]
    extractor = pretrain(fed, work, len(y))
    assert_equal(extractor, pooled[: extractor_of(fed.network).size])
    layout.load(fed.network.layers, pooled)
    maps = halves(fed.network)[0](fed.network.inputs(fed.x_test))
    expected = maps.flatten(1).detach()
    features = engine.logits_of(extractor_of(fed.network), extractor, fed.x_test)
    torch.testing.assert_close(features, expected, rtol=1e-3, atol=1e-4)


def test_the_extractor_learns_from_as_many_samples_as_stated_and_from_no_others(deal):
    fed, work = deal(), engine.Work(lr=0.1, batch=9, epochs=3)
    x, y = fed.held_out
    few = pretrain(fed, work, 12)
    assert not torch.equal(few, pretrain(fed, work, 30))
    unused = [
        row
        for row in range(len(y))
        if torch.equal(few, pretrain(replace(fed, held_out=(blackened(x, row), y)), work, 12))
    ]
    assert len(unused) == len(y) - 12
    with pytest.raises(ValueError, match=f"pretrain_samples=500, but the held-out devices have {len(y)}"):
        pretrain(fed, work, 500)


def blackened(images: torch.Tensor, row: int) -> torch.Tensor:
    changed = images.clone()
    changed[row] = 255
    return changed


def test_the_gated_head_starts_by_the_rule_of_the_network(deal):
    fed = deal(network_options={"width": 2, "hidden": 6, "start": "xavier"})
    head = create("cgau", **LOCAL | GATED).head_network(fed)
    weights = head.start(0)
    assert not weights[gate_biases(head)].any()  # Xavier's biases are zero
    assert weights[: head.blocks[0].stop].abs().max() <= (6 / (16 + 10)) ** 0.5, "4 maps of 2 x 2 in, 10 out"


def test_cgau_needs_a_convolutional_extractor(deal):
    with pytest.raises(ValueError, match="convolutional extractor"):
        create("cgau").init(deal(network="mlp200"))


def test_personal_scores_of_one_shared_model_are_its_scores(deal):
    fed = deal()
    weights = fed.start + 0.05
    shared = engine.evaluate(fed.network, weights, fed.x_test, fed.y_test)
    arguments = (fed.network, lambda client: weights, fed.x_test, fed.y_test, fed.test_clients)
    assert engine.evaluate_personal(*arguments) == pytest.approx(shared)


@pytest.mark.parametrize("name", ["fedmmd", "fedfusion_conv", "cgau"])
def test_frozen_models_see_cropped_samples_and_share_no_thread_with_those_who_wait(deal, monkeypatch, name):
    """With crops the frozen model's outputs are computed inside a step, which itself runs on a thread."""
    monkeypatch.setattr(evaluation, "ROWS", 4)
    monkeypatch.setattr(threads, "THREAD_FLOPS", 1)
    fed, plain = deal(crop=2, flip=True), deal()
    weights = {}
    for count in ("1", "3"):
        monkeypatch.setenv("FEDLIB_THREADS", count)
        weights[count] = after_rounds(create(name, **OPTIONS[name]), fed, 2)["weights"]
    assert torch.equal(weights["1"], weights["3"])
    assert not torch.allclose(weights["1"], after_rounds(create(name, **OPTIONS[name]), plain, 2)["weights"])
