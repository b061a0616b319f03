"""Scores against confusion matrices worked out by hand; gradients of all samples against autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from played_rounds import assert_equal, pictures, spread_weights
from torch.nn import functional

from fedlib import engine
from fedlib.data.dataset import Dataset
from fedlib.engine import evaluation, gradients, readable
from fedlib.problem import federation, layout, models

KINDS = ("softmax", "dense")


def scores_on_test_set(fed, weights):
    return engine.evaluate(fed.network, weights, fed.x_test, fed.y_test)


# Evaluation


def certain_federation(predicted: list[int], true: list[int], scale: float):
    """Test samples are unit vectors and the weights a scaled identity, so the predictions are `predicted`."""
    eye = torch.eye(3)
    y = torch.tensor([0, 1, 2])
    dataset = Dataset("unit", eye, y, eye[predicted], torch.tensor(true), ("a", "b", "c"), None, None, "unit")
    fed = federation.assemble(dataset, [np.arange(3)], models.build("softmax", 3, (3,)), seed=0)
    weights = torch.cat([scale * eye, torch.zeros(3, 1)], dim=1).flatten()
    return fed, weights


@pytest.mark.parametrize("rows", [2, 4096])
def test_evaluation_by_hand(monkeypatch, rows):
    monkeypatch.setattr(evaluation, "ROWS", rows)
    # confusion, true x predicted: [[3, 1, 0], [2, 2, 0], [0, 1, 0]]
    fed, weights = certain_federation([0, 0, 0, 1, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1, 2], scale=2.0)
    scores = scores_on_test_set(fed, weights)
    assert scores["accuracy"] == pytest.approx(5 / 9)
    assert scores["macro_precision"] == pytest.approx((3 / 5 + 2 / 4 + 0) / 3)  # c is never predicted
    assert scores["micro_recall"] == pytest.approx(5 / 9)
    assert scores["micro_f1"] == pytest.approx(5 / 9)
    log_sum = np.log(np.exp(2) + 2)  # logits are (2, 0, 0) in some order
    assert scores["loss"] == pytest.approx((5 * (log_sum - 2) + 4 * log_sum) / 9, rel=1e-6)


def test_a_model_of_zeros_has_the_loss_of_guessing(make_federation):
    fed = make_federation()
    assert scores_on_test_set(fed, torch.zeros_like(fed.start))["loss"] == pytest.approx(np.log(4), rel=1e-6)


def test_all_wrong_scores_zero_without_dividing_by_zero():
    scores = engine.scores_of(torch.tensor([[0, 4], [3, 0]]))
    assert scores == {"accuracy": 0, "macro_precision": 0, "micro_recall": 0, "micro_f1": 0}


def test_evaluation_equals_the_network_itself(make_federation):
    fed = make_federation("dense")
    weights = spread_weights(fed)
    layout.load(fed.network.layers, weights)
    with torch.no_grad():
        logits = fed.network.layers(fed.x_test[:, :-1])
    scores = scores_on_test_set(fed, weights)
    assert scores["loss"] == pytest.approx(float(functional.cross_entropy(logits, fed.y_test)), rel=1e-5)
    assert scores["accuracy"] == pytest.approx(float((logits.argmax(1) == fed.y_test).float().mean()))


confusions = hnp.arrays(np.int64, st.integers(2, 6).map(lambda n: (n, n)), elements=st.integers(0, 40)).filter(
    lambda counts: counts.sum() > 0
)


@given(confusions)
@settings(deadline=None, max_examples=80)
def test_with_one_label_a_sample_micro_scores_equal_the_accuracy(counts):
    scores = engine.scores_of(torch.as_tensor(counts))
    assert scores["micro_recall"] == pytest.approx(scores["accuracy"], abs=1e-12)
    assert scores["micro_f1"] == pytest.approx(scores["accuracy"], abs=1e-12)
    assert 0 <= scores["macro_precision"] <= 1


@given(confusions, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=40)
def test_scores_do_not_depend_on_the_names_of_the_classes(counts, random):
    order = list(range(len(counts)))
    random.shuffle(order)
    renamed = engine.scores_of(torch.as_tensor(counts[np.ix_(order, order)]))
    assert renamed == pytest.approx(engine.scores_of(torch.as_tensor(counts)))


# Gradients of all samples


def overlapping(samples: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [np.sort(rng.choice(samples, size, replace=False)) for size in (3, 90, 17, 60, 40)]


@pytest.mark.parametrize("parts", [None, overlapping(240)], ids=["own samples", "shared samples"])
@pytest.mark.parametrize("rows", [11, 4096])
@pytest.mark.parametrize("kind", KINDS)
def test_pooled_gradient_equals_autograd_on_the_pooled_data(make_federation, monkeypatch, kind, rows, parts):
    monkeypatch.setattr(gradients, "ROWS", rows)
    fed = make_federation(kind, l2=0.03, parts=parts)
    weights = spread_weights(fed)
    for clients in ([0], [1, 2, 3], [4, 0, 2], list(range(fed.clients))):
        pooled = torch.cat([fed.rows[client] for client in clients])
        found = engine.pooled_gradient(fed, weights, np.array(clients))
        assert_equal(found, readable.gradient(fed, weights, pooled)[0])
        each = engine.client_gradients(fed, weights, np.array(clients)).double()
        sizes = torch.tensor([len(fed.rows[client]) for client in clients], dtype=torch.float64)
        assert_equal(found.double(), (sizes / sizes.sum()) @ each)


def test_gradients_are_taken_at_each_clients_own_weights(make_federation):
    fed = make_federation("dense", l2=0.03)
    clients = np.array([3, 8])
    own = torch.stack([spread_weights(fed, seed) for seed in (1, 2)])
    expected = [readable.gradient(fed, at, fed.rows[client])[0] for at, client in zip(own, clients, strict=True)]
    assert_equal(engine.client_gradients(fed, own, clients), torch.stack(expected))


def test_shared_samples_are_found_even_where_first_and_last_rows_look_contiguous(make_federation):
    # Client 0 begins at row 0 and ends at row 2 as a block of three would, but holds row 3 in place of row 1.
    fed = make_federation(parts=[np.array([0, 3, 2]), np.array([3, 4])])
    weights = spread_weights(fed)
    found = engine.pooled_gradient(fed, weights, np.array([0]))
    assert_equal(found, readable.gradient(fed, weights, torch.tensor([0, 3, 2]))[0])


def test_a_client_is_a_slice_unless_clients_share_samples(make_federation):
    fed = make_federation()
    assert fed.contiguous
    assert fed.rows_of([0, 1]).tolist() == list(range(fed.offsets[2]))
    assert not make_federation(parts=overlapping(240)).contiguous


def test_convolutional_gradients_and_scores_equal_the_network_itself():
    fed = pictures(standardise="channel")
    pooled = torch.cat([fed.rows[1], fed.rows[3]])
    expected = readable.gradient(fed, fed.start, pooled)[0]
    assert_equal(engine.pooled_gradient(fed, fed.start, np.array([1, 3])), expected)
    layout.load(fed.network.layers, fed.start)
    with torch.no_grad():
        loss = functional.cross_entropy(fed.network.layers(fed.network.inputs(fed.x_test)), fed.y_test)
    assert scores_on_test_set(fed, fed.start)["loss"] == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_the_last_layer_is_the_end_of_the_whole_gradient(make_federation, kind):
    fed = make_federation(kind, l2=0.02)
    clients, weights = np.array([4, 0, 7]), spread_weights(fed)
    whole = engine.client_gradients(fed, weights, clients)
    assert_equal(engine.head_gradients(fed, weights, clients), whole[:, fed.network.head.start :])


def test_a_gradient_on_any_samples_needs_no_federation(make_federation):
    fed = make_federation("dense")
    weights = spread_weights(fed)
    found = engine.mean_gradient(fed.network, weights, fed.x_test, fed.y_test, l2=0.1)
    layers = fed.network.layers
    layout.load(layers, weights)
    layers.zero_grad()
    functional.cross_entropy(layers(fed.x_test[:, :-1]), fed.y_test).backward()
    assert_equal(found, layout.gradients(layers) + 0.1 * weights)


def test_personal_models_are_judged_on_their_own_samples(make_federation):
    fed = make_federation()
    owners = torch.arange(len(fed.y_test)) % 2
    model = {0: spread_weights(fed, 1), 1: spread_weights(fed, 2)}
    whole = engine.evaluate_personal(fed.network, model.get, fed.x_test, fed.y_test, owners)
    rows = [torch.nonzero(owners == client).flatten() for client in (0, 1)]
    models = torch.stack([model[0], model[1]])
    parts = engine.evaluate_each(fed.network, models, fed.x_test, fed.y_test, rows)
    assert whole["accuracy"] == pytest.approx(np.mean([part["accuracy"] for part in parts]))
    assert whole["loss"] == pytest.approx(np.mean([part["loss"] for part in parts]))
    alone = engine.evaluate(fed.network, model[1], fed.x_test[rows[1]], fed.y_test[rows[1]])
    assert parts[1] == pytest.approx(alone)
