"""FedSR and its rivals: against loops written from their papers, where they coincide, and what they send."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import played_rounds
import pytest
import readable_fedsr
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlib import data, engine
from fedlib.algorithms import clusters, create, fedsr, moon, ring
from fedlib.algorithms.cosine import cosine
from fedlib.engine import Work, convolution, dense, readable, threads
from fedlib.engine.minibatches import client_minibatches
from fedlib.judging import curves, ledger, transfers
from fedlib.problem import federation, layout, models

pytestmark = pytest.mark.slow

ROUNDS = 4
LOCAL = {"lr": 0.2, "final_lr": 0.05, "schedule": ROUNDS, "batch": 16, "momentum": 0.5}
OPTIONS = {
    "fedavg": {"epochs": 2},
    "fedprox": {"epochs": 2, "mu": 0.5},
    "moon": {"epochs": 2, "mu": 3.0},
    "hierfavg": {"epochs": 1, "iterations": 3, "cluster_size": 4},
    "ring": {"epochs": 2},
    "fedsr": {"epochs": 2, "passes": 2, "cluster_size": 4},
    "literalfedsr": {"epochs": 2, "passes": 2, "cluster_size": 4},
    "centralised": {"epochs": 2},
}


def method(name: str, **options):
    return create(name, **LOCAL | OPTIONS[name] | options)


def play(algorithm, fed, rounds: int = ROUNDS) -> torch.Tensor:
    state = algorithm.init(fed)
    for round in range(1, rounds + 1):
        state = algorithm.round(fed, state, round)
    return state["weights"]


def assert_same_way(fed, fast: torch.Tensor, slow: torch.Tensor, relative: float = 1e-4) -> None:
    """Both models went the same way from the start; the difference is measured against the way, not the weights."""
    way = (slow - fed.start).norm()
    assert way > 0.01, "the method must have moved"
    assert float((fast - slow).norm() / way) <= relative


def apart(fed, first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first - second).norm() / (second - fed.start).norm())


@pytest.fixture(scope="module")
def pictures():
    """Seven devices with 3 to 9 colour pictures each for the paper's CNN."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (40, 20, 20, 3), dtype=np.uint8), rng.integers(0, 4, 40)
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    dataset = data.dataset.from_arrays("pictures", arrays, tuple("0123"), fingerprint="pictures")
    parts = np.split(np.arange(40), [3, 10, 14, 20, 29, 35])
    return federation.assemble(dataset, parts, models.build("cnn_fedsr", 4, (3, 20, 20)), seed=0)


# Every method equals its readable loop


@pytest.mark.parametrize("participation", [1.0, 0.6])
@pytest.mark.parametrize("name", ["fedprox", "moon", "hierfavg", "ring", "fedsr", "literalfedsr", "centralised"])
def test_every_method_equals_a_loop_written_from_its_paper(make_federation, name, participation):
    fed = make_federation("dense", clients=11)
    assert fed.sizes.min() < LOCAL["batch"] < fed.sizes.max(), "devices must be ragged"
    algorithm = method(name, participation=participation)
    assert_same_way(fed, play(algorithm, fed), getattr(readable_fedsr, name)(fed, algorithm, ROUNDS))


@pytest.mark.parametrize("name", ["fedprox", "moon", "hierfavg", "fedsr"])
def test_convolutional_networks_equal_that_loop_too(pictures, name):
    algorithm = method(name, batch=4)
    assert_same_way(pictures, play(algorithm, pictures, 3), getattr(readable_fedsr, name)(pictures, algorithm, 3), 1e-3)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_round_leaves_its_state_alone_and_comes_out_the_same_again(make_federation, name):
    fed, algorithm = make_federation("dense"), method(name, participation=0.5)
    state = algorithm.round(fed, algorithm.init(fed), 1)
    before = {key: tensor.clone() for key, tensor in state.items()}
    first, again = algorithm.round(fed, state, 2), algorithm.round(fed, state, 2)
    for key, tensor in state.items():
        assert torch.equal(tensor, before[key]), f"round wrote into {key} of the state it was given"
        assert torch.equal(first[key], again[key])


@pytest.mark.parametrize("name", ["fedprox", "moon", "fedsr", "hierfavg"])
@pytest.mark.parametrize("kind", ["dense", "convolutional"])
def test_threads_change_no_digit(make_federation, pictures, monkeypatch, name, kind):
    fed = pictures if kind == "convolutional" else make_federation("dense")
    monkeypatch.setattr(threads, "THREAD_FLOPS", 1)
    found = []
    for count in ("1", "3"):
        monkeypatch.setenv("FEDLIB_THREADS", count)
        found.append(play(method(name, batch=4), fed, 2))
    assert torch.equal(*found)


def test_a_loss_of_ones_own_trains_equal_devices_on_several_threads(make_federation, monkeypatch):
    """Equal devices need no sorting; their weights lie side by side while every thread differentiates its own."""
    fed = make_federation("dense", clients=16, parts=np.array_split(np.arange(240), 16))
    monkeypatch.setattr(threads, "THREAD_FLOPS", 1)
    found = []
    for count in ("1", "4"):
        monkeypatch.setenv("FEDLIB_THREADS", count)
        found.append(play(method("moon", epochs=20), fed, 2))
    assert torch.equal(*found)


def test_a_single_picture_takes_the_way_of_many(pictures):
    """torch would give it to MKL, whose digits depend on the processor."""
    rows = pictures.rows[1]
    x = pictures.network.inputs(pictures.x[rows])
    both = convolution.outputs(pictures.network.layers, pictures.start, x[:2])
    alone = convolution.outputs(pictures.network.layers, pictures.start, x[:1])
    assert all(torch.equal(one, two[:1]) for one, two in zip(alone, both, strict=True))
    with torch.profiler.profile() as told:
        convolution.gradient(pictures.network.layers, pictures.start, x[:1], pictures.y[rows[:1]], torch.ones(1))
    assert not [event.key for event in told.key_averages() if "slow_conv" in event.key]


# Limits in which methods coincide


def test_one_ring_of_all_devices_with_one_pass_is_ring_optimization(make_federation):
    fed = make_federation("dense")
    star_of_one_ring = method("fedsr", cluster_size=fed.clients, passes=1)
    assert_same_way(fed, play(star_of_one_ring, fed), play(method("ring"), fed), 1e-6)


def test_ring_optimization_keeps_its_order_when_asked(make_federation):
    fed = make_federation()
    fixed, drawn = method("ring", redraw=False), method("ring")
    assert all(fixed.ring(fed, round).tolist() == list(range(10)) for round in (1, 2, 3))
    assert len({tuple(drawn.ring(fed, round)) for round in range(1, 9)}) == 8
    assert apart(fed, play(fixed, fed), play(drawn, fed)) > 0.01


def test_to_the_letter_a_ring_of_one_device_makes_r_passes_because_its_last_work_is_lost(make_federation):
    """The device that would make pass R + 1 is the last one, too: nothing of that pass is returned."""
    fed = make_federation("dense")
    alone = {"cluster_size": 1, "passes": 2}
    assert torch.equal(play(method("literalfedsr", **alone), fed), play(method("fedsr", **alone), fed))
    assert apart(fed, play(method("literalfedsr"), fed), play(method("fedsr"), fed)) > 0.01


@pytest.mark.parametrize("kind", ["softmax", "dense"])
def test_rings_of_one_device_with_e_passes_are_fedavg_with_e_epochs_without_momentum(make_federation, kind):
    fed = make_federation(kind)
    rings = play(method("fedsr", cluster_size=1, passes=3, epochs=1, momentum=0.0), fed)
    assert_same_way(fed, rings, play(method("fedavg", epochs=3, momentum=0.0), fed))


def test_momentum_parts_them_because_every_visit_starts_with_none(make_federation):
    fed = make_federation("dense")
    rings = play(method("fedsr", cluster_size=1, passes=3, epochs=1), fed)
    assert apart(fed, rings, play(method("fedavg", epochs=3), fed)) > 0.01
    one_visit = play(method("fedsr", cluster_size=1, passes=1, epochs=3), fed)
    assert_same_way(fed, one_visit, play(method("fedavg", epochs=3), fed))


@pytest.mark.parametrize("name", ["fedprox", "moon"])
@pytest.mark.parametrize("kind", ["dense", "convolutional"])
def test_fedprox_and_moon_with_mu_zero_are_fedavg(make_federation, pictures, name, kind):
    fed = pictures if kind == "convolutional" else make_federation("dense")
    fedavg = play(method("fedavg", participation=0.6), fed)
    assert_same_way(fed, play(method(name, mu=0.0, participation=0.6), fed), fedavg)
    assert apart(fed, play(method(name, participation=0.6), fed), fedavg) > 1e-3


def test_hierfavg_with_one_edge_iteration_is_fedavg(make_federation):
    fed = make_federation("dense")
    one = play(method("hierfavg", epochs=2, iterations=1, participation=0.6), fed)
    assert_same_way(fed, one, play(method("fedavg", participation=0.6), fed))
    assert apart(fed, play(method("hierfavg", participation=0.6), fed), one) > 0.01


def test_hierfavg_with_devices_as_their_own_edges_is_fedavg_without_momentum(make_federation):
    fed = make_federation("dense")
    alone = play(method("hierfavg", cluster_size=1, momentum=0.0), fed)
    assert_same_way(fed, alone, play(method("fedavg", epochs=3, momentum=0.0), fed))


def test_a_strong_spring_holds_the_clients_at_the_server_model(make_federation):
    fed = make_federation("dense")
    moved = [float((play(method("fedprox", mu=mu, momentum=0.0), fed, 1) - fed.start).norm()) for mu in (0, 1, 4)]
    assert moved[0] > 1.1 * moved[1] > 1.2 * moved[2] > 0


def test_centralised_training_is_fedavg_with_a_single_client(make_federation):
    dealt = make_federation("dense")
    heap = make_federation("dense", parts=[np.arange(240)])
    heap = replace(heap, x=dealt.x, y=dealt.y)
    assert torch.equal(play(method("centralised"), dealt), play(method("fedavg"), heap))


# Rings


def test_rings_advance_side_by_side(make_federation, monkeypatch):
    """Ten devices in rings of 4, 4 and 2: each pass calls the engine four times, not ten."""
    fed, calls, train = make_federation(), [], engine.train

    def counted(federation, cohort, *others):
        calls.append(cohort.clients.tolist())
        return train(federation, cohort, *others)

    monkeypatch.setattr(engine, "train", counted)
    algorithm = method("fedsr", passes=2)
    play(algorithm, fed, 1)
    rings = algorithm.rings(fed, 1)
    assert [len(each) for each in rings] == [4, 4, 2]
    one_pass = [[each[k] for each in rings if k < len(each)] for k in range(4)]
    assert calls == one_pass * 2


def test_a_device_meets_its_samples_in_a_new_order_at_every_visit(make_federation):
    fed = make_federation()
    whole = client_minibatches(fed, 3, Work(lr=0.1, batch=4, epochs=3), 5)
    visits = [client_minibatches(fed, 3, Work(lr=0.1, batch=4, epochs=1, epochs_done=done), 5) for done in range(3)]
    assert [batch.tolist() for batch in whole] == [batch.tolist() for visit in visits for batch in visit]
    assert visits[0][0].tolist() != visits[1][0].tolist()


@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 9), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_clusters_hold_every_device_once_and_are_as_large_as_asked(devices, size, round, seed):
    class Few:
        pass

    fed = Few()
    fed.seed = seed
    found = clusters.clusters(fed, np.arange(devices), size, round)
    assert sorted(np.concatenate(found)) == list(range(devices))
    assert all(len(each) == size for each in found[:-1])
    assert 1 <= len(found[-1]) <= size


@pytest.mark.parametrize(
    ("devices", "participation", "size", "expected"),
    [(20, 1.0, 4, [4] * 5), (100, 0.2, 4, [4] * 5), (100, 0.4, 4, [4] * 10), (50, 1.0, 15, [15, 15, 15, 5])],
    ids=["Table II", "Table IV, 0.2", "Table IV, 0.4", "Fig. 10, 0.3"],
)
def test_the_papers_rings(make_federation, devices, participation, size, expected):
    fed = make_federation(parts=np.array_split(np.arange(240), devices))
    algorithm = fedsr.FedSR(participation=participation, cluster_size=size)
    rings = [algorithm.rings(fed, round) for round in (1, 2)]
    assert [len(each) for each in rings[0]] == expected
    assert not np.array_equal(np.concatenate(rings[0]), np.concatenate(rings[1])), "rings are drawn afresh each round"
    drawn = sorted(np.concatenate(rings[0]))
    assert drawn == algorithm.participants(fed, 1).tolist()


def test_hierfavg_meets_the_clusters_of_fedsr(make_federation):
    fed = make_federation()
    for edge, ring_of_edge in zip(method("hierfavg").edges(fed, 3), method("fedsr").rings(fed, 3), strict=True):
        assert edge.tolist() == ring_of_edge.tolist()


def test_rings_weigh_as_much_as_their_data(make_federation):
    """Rings with 30 + 10, 20 and 180 of 240 samples: equation (11) by hand."""
    fed = make_federation(parts=np.split(np.arange(240), [30, 40, 60]))
    found = [np.array([0, 1]), np.array([2]), np.array([3])]
    mean = clusters.mean_by_cluster_size(fed, found, torch.tensor([[6.0, 0.0], [0.0, 12.0], [0.0, 4.0]]))
    np.testing.assert_allclose(mean, [6 * 40 / 240, (12 * 20 + 4 * 180) / 240], rtol=1e-6)


def test_a_ring_hands_on_the_model_and_nothing_else(make_federation):
    """Two rings at once are what each would be alone."""
    fed, work = make_federation("dense"), method("fedsr").work(1)
    rings = [np.array([3, 1, 4]), np.array([5, 9])]
    together = ring.ring_optimization(fed, fed.start, rings, work, 2, 1)
    for own, alone in zip(together, rings, strict=True):
        assert_same_way(fed, own, ring.ring_optimization(fed, fed.start, [alone], work, 2, 1)[0], 1e-5)


def test_short_rings_stand_behind_long_ones(make_federation):
    fed = make_federation()
    with pytest.raises(ValueError, match=r"rings of \[1, 2\] devices: the longest must come first"):
        ring.ring_optimization(fed, fed.start, [np.array([5]), np.array([3, 1])], method("fedsr").work(1), 2, 1)


# MOON's contrast


@given(st.integers(0, 10**6), st.floats(0.1, 2))
@settings(deadline=None, max_examples=40)
def test_the_slope_of_the_contrast_is_that_of_the_printed_loss(seed, temperature):
    stream = torch.Generator().manual_seed(seed)
    z, z_glob, z_prev = torch.randn(3, 5, 7, generator=stream, dtype=torch.float64)
    z.requires_grad_()
    loss = readable_fedsr.contrast(z, z_glob, z_prev, temperature).sum()
    (expected,) = torch.autograd.grad(loss, z)
    found = moon.contrast_slope(z.detach(), moon.unit(z_glob), moon.unit(z_prev), temperature)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)


def test_the_contrast_is_silent_while_the_last_model_is_the_servers_and_for_dead_representations():
    z, other = torch.tensor([[1.0, 2.0, 0.5]]), moon.unit(torch.tensor([[0.3, 0.1, 2.0]]))
    assert not moon.contrast_slope(z, other, other, 0.5).any()
    dead = moon.contrast_slope(torch.zeros(1, 3), other, moon.unit(z), 0.5)
    assert dead.isfinite().all()


def test_moon_remembers_each_devices_own_last_model(make_federation):
    fed, algorithm = make_federation("dense"), method("moon", participation=0.4)
    first = algorithm.round(fed, algorithm.init(fed), 1)
    took_part = algorithm.participants(fed, 1)
    others = np.setdiff1d(np.arange(10), took_part)
    assert all(torch.equal(first["previous"][device], fed.start) for device in others)
    pairs = [(float(fed.sizes[device]), first["previous"][device]) for device in took_part]
    torch.testing.assert_close(readable_fedsr.average(pairs), first["weights"], rtol=1e-5, atol=1e-6)
    fedavg = method("fedavg", participation=0.4)
    assert_same_way(fed, first["weights"], play(fedavg, fed, 1), 1e-5)  # the first contrast is silent


@pytest.mark.parametrize("kind", ["softmax", "dense", "convolutional"])
def test_representations_are_what_the_classifier_sees(make_federation, pictures, kind):
    fed = pictures if kind == "convolutional" else make_federation(kind)
    own = fed.start + 0.1 * torch.randn(2, fed.start.numel(), generator=torch.Generator().manual_seed(1))
    lookup = engine.frozen_representations(fed, own, np.array([4, 1]))
    for weights, device in zip(own, (4, 1), strict=True):
        rows = fed.rows[device]
        batch = engine.Batch(fed, rows.unsqueeze(0), torch.full((1, len(rows)), 1 / len(rows)))
        seen, _ = readable_fedsr.network_with(fed, weights, rows)
        looked_up = lookup(batch, weights.unsqueeze(0))[0]
        torch.testing.assert_close(looked_up, seen.detach(), rtol=1e-4, atol=1e-5)


def test_devices_that_share_samples_see_each_with_their_own_last_model(make_federation):
    fed = make_federation("dense", parts=[np.arange(20), np.arange(10, 30)])
    algorithm = method("moon", participation=1.0)
    fast, slow = play(algorithm, fed, 3), readable_fedsr.moon(fed, algorithm, 3)
    assert_same_way(fed, fast, slow, 1e-4)


@pytest.mark.parametrize("network", ["mlp200", "lenet_tutorial"])
def test_frozen_models_see_the_cropped_samples_of_the_step(network):
    """With crops, MOON's representations are those of the cropped pictures; without a contrast it is FedAvg."""
    fed = played_rounds.pictures(network, crop=3, flip=True)
    local = {"lr": 0.02, "batch": 4, "epochs": 2}
    fedavg, silent, moon = (
        play(create(name, **options, **local), fed, 2)
        for name, options in (("fedavg", {}), ("moon", {"mu": 0}), ("moon", {"mu": 5.0}))
    )
    assert_same_way(fed, silent, fedavg, 1e-4)
    assert not torch.allclose(moon, fedavg, rtol=1e-3)
    batch = engine.Batch(fed, fed.rows[1].unsqueeze(0), torch.ones(1, 7) / 7, draws=np.full((1, 7, 3), 1))
    lookup = engine.frozen_representations(fed, fed.start.unsqueeze(0), np.array([1]))
    cropped = readable.network_input(fed, fed.rows[1], np.full((7, 3), 1))
    layout.load(fed.network.layers, fed.start)
    seen = fed.network.layers[:-1](cropped).detach()
    torch.testing.assert_close(lookup(batch, fed.start.unsqueeze(0))[0], seen, rtol=1e-4, atol=1e-5)


def outputs_by_autograd(blocks, weights, x):
    """Representation and logits, product by product; samples and hidden layers carry a column of ones."""
    *hidden, last = (block.view(weights) for block in blocks)
    for matrix in hidden:
        above = (x @ matrix.mT).relu()
        x = torch.cat([above, torch.ones_like(above[:, :, :1])], dim=2)
    return x[:, :, :-1], x @ last.mT


@pytest.mark.parametrize("kind", ["softmax", "dense"])
def test_the_quick_way_back_from_a_loss_is_autograds(make_federation, kind):
    """A loss of representation and logits alike; the plain way goes through every product by autograd."""
    fed = make_federation(kind)
    blocks, x = fed.network.blocks, fed.x[:12].unflatten(0, (3, 4))
    weights = torch.randn(3, fed.start.numel(), generator=torch.Generator().manual_seed(2)).requires_grad_()
    slopes = []
    for outputs in (dense.outputs, outputs_by_autograd):
        seen, logits = outputs(blocks, weights, x)
        slopes.append(torch.autograd.grad((logits.square() * seen.sum(2, keepdim=True)).sum(), weights)[0])
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-4)


# The learning rate


@given(st.integers(2, 600), st.floats(1e-3, 1), st.floats(1e-6, 1e-3))
@settings(deadline=None, max_examples=60)
def test_the_cosine_falls_from_the_first_rate_to_the_last(rounds, first, last):
    rates = [cosine(first, last, rounds, round) for round in range(1, rounds + 1)]
    assert rates[0] == pytest.approx(first)
    assert rates[-1] == last
    assert all(earlier >= later for earlier, later in pairwise(rates))


def test_the_papers_schedule_ends_at_one_hundred_thousandth():
    algorithm = create("fedsr", lr=0.01, final_lr=1e-5, schedule=500)
    assert algorithm.rate(500) == algorithm.work(500).lr == 1e-5
    assert algorithm.rate(1) == 0.01
    # round 126 of 500 is a quarter of the way and a little: cos(pi 125/499) = 0.7060...
    assert algorithm.rate(126) == pytest.approx(1e-5 + 0.00999 * (1 + np.cos(np.pi * 125 / 499)) / 2)
    assert create("fedsr", lr=0.01, final_lr=1e-5, schedule=3).rate(2) == pytest.approx(0.005005)


@pytest.mark.parametrize("name", [*OPTIONS, "fedala", "fedpac"])
def test_every_method_takes_the_rate_of_its_round(make_federation, name):
    """A rate that ends at zero leaves the last round without effect on the server's model."""
    fed = make_federation("dense" if name in OPTIONS else "softmax")
    options = LOCAL | {"final_lr": 0.0, "schedule": 2} | OPTIONS.get(name, {"epochs": 1})
    algorithm = create(name, **options | ({"mix_lr": 0.0} if name == "fedala" else {}))
    state = algorithm.round(fed, algorithm.init(fed), 1)
    assert (state["weights"] - fed.start).norm() > 0.01
    again = algorithm.round(fed, state, 2)["weights"]
    if name != "fedpac":  # its server mixes heads anew in every round
        torch.testing.assert_close(again, state["weights"], rtol=1e-5, atol=1e-6)


def test_a_schedule_says_where_it_ends():
    with pytest.raises(ValueError, match="round 11 lies outside the schedule of 10 rounds"):
        create("fedavg", epochs=1, final_lr=1e-5, schedule=10).rate(11)
    for half in ({"final_lr": 1e-5}, {"schedule": 10}):
        with pytest.raises(ValueError, match="needs both final_lr"):
            create("fedavg", epochs=1, **half)


# Networks and transfers


@pytest.mark.parametrize(
    ("name", "classes", "shape", "printed"),
    [
        ("mlp200", 10, (28, 28), 199_210),
        ("cnn_fedsr", 100, (3, 32, 32), 128_420),
        ("cnn_fedsr", 10, (3, 32, 32), 122_570),
    ],
)
def test_networks_have_exactly_the_printed_number_of_weights(name, classes, shape, printed):
    network = models.build(name, classes, shape)
    assert sum(weights.numel() for weights in network.parameters()) == printed == layout.flatten(network).numel()


NAMES = ("FedAvg", "FedProx", "MOON", "HierFAVG", "ring-optimization", "FedSR")
PAPER = {label: label.removesuffix("-optimization").lower() for label in NAMES}


def test_the_printed_table_iii_divides_into_whole_rounds_of_the_topology():
    paper = ledger.load("fedsr")
    printed = {}
    for id in ("fedsr/table3", "fedsr/table3-ring", "fedsr/table3-fedsr"):
        (block,) = paper.entry(id).blocks
        printed |= block.printed
    assert set(printed) == set(PAPER)
    for label, costs in printed.items():
        per_round = transfers.per_round(create(PAPER[label]), devices=20)
        rounds = [cost / per_round for cost in costs if cost is not None]
        assert all(count == int(count) and 1 <= count <= 500 for count in rounds), f"{label}: {rounds}"


def test_transfers_of_a_round_by_hand():
    expected = {"fedavg": 2 * 20, "ring": 20, "hierfavg": 5 * 20 + 2 * 5, "fedsr": 5 * 20 + 2 * 5}
    assert {name: transfers.per_round(create(name), 20) for name in expected} == expected
    # with the edge servers' own sendings: one to each device an iteration, one to the first device of each ring
    assert transfers.per_round(create("hierfavg"), 20, edge_broadcasts=True) == 110 + 5 * 20
    assert transfers.per_round(create("fedsr"), 20, edge_broadcasts=True) == 110 + 5


def test_transfers_follow_participation_and_ragged_rings():
    assert transfers.per_round(create("fedavg", participation=0.2), 100) == 40
    assert transfers.per_round(create("fedsr", participation=0.4), 100) == 5 * 40 + 2 * 10
    assert transfers.per_round(create("fedsr", cluster_size=15, passes=2), 50) == 2 * 50 + 2 * 4


@pytest.mark.parametrize("name", transfers.TOPOLOGY)
def test_every_model_that_arrives_somewhere_in_between_is_sent_on(name):
    """Edge servers and devices pass on what they get, and the cloud gets back what it sent."""
    hops = transfers.hops(create(name), 20)
    for place in ("edge", "device", "cloud"):
        sent, received = (sum(hop[side] == place for hop in hops) for side in (0, 1))
        assert sent == received
    assert (("device", "device") in hops) == (name in ("ring", "fedsr"))


def test_rounds_to_a_target_end_where_it_is_first_reached_and_never_is_one_more_than_there_were():
    records = pd.DataFrame({"round": [0, 1, 2, 3, 4], "accuracy": [0.1, 0.5, 0.72, 0.69, 0.8]})
    assert curves.rounds_to(records, 0.7) == (2, True)
    assert curves.rounds_to(records, 0.9) == (5, False)


def test_a_method_without_topology_is_answered_with_those_that_have_one():
    with pytest.raises(ValueError, match="no topology is known for centralised; known: fedavg, fedprox, moon"):
        transfers.per_round(create("centralised"), 20)


def test_passes_already_made_have_no_meaning_for_batches_with_replacement():
    with pytest.raises(ValueError, match="epochs_done counts passes"):
        Work(lr=0.1, batch=4, steps=3, epochs_done=1)
