"""The engine against the readable loop and against autograd; scores against confusion matrices worked out by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.nn import functional

from fedlib import engine
from fedlib.engine import Work, conv, dense, readable
from fedlib.engine.work import batches, client_batches
from fedlib.problem import federation, layout, models, partition

BATCH = 16
KINDS = ("softmax", "dense")
WORKS = {
    "one epoch": Work(lr=0.2, batch=BATCH, epochs=1),
    "epochs with momentum": Work(lr=0.1, batch=BATCH, epochs=3, momentum=0.9),
    "epochs with decay": Work(lr=0.3, batch=5, epochs=3, decay=0.5),
    "steps": Work(lr=0.2, batch=7, steps=6),
    "steps with momentum": Work(lr=0.1, batch=BATCH, steps=9, momentum=0.5, decay=0.9),
    "a batch above all clients": Work(lr=0.2, batch=1000, epochs=2),
    "a batch of one": Work(lr=0.05, batch=1, epochs=1),
}


def assert_equal(fast: torch.Tensor, slow: torch.Tensor, relative: float = 1e-5) -> None:
    """Row by row, the difference is small beside the vector itself."""
    assert fast.shape == slow.shape
    error = (fast - slow).norm(dim=-1) / slow.norm(dim=-1).clamp(min=1e-12)
    assert float(error.max()) <= relative, f"relative difference {float(error.max()):.2e}"


def spread_weights(fed, seed: int = 0) -> torch.Tensor:
    """Weights away from zero, where no gradient vanishes by symmetry."""
    return fed.start + 0.3 * torch.randn(fed.start.shape, generator=torch.Generator().manual_seed(seed))


def rounds_of(train, fed, clients, work, direction=None, rounds=3) -> torch.Tensor:
    """Several rounds, each client continuing from its own result: differences would add up."""
    weights = spread_weights(fed).expand(len(clients), -1)
    for round in range(1, rounds + 1):
        weights = train(fed, weights, clients, work, round, direction)
    return weights


# Stacked training equals the readable loop


@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_stacked_training_equals_the_readable_loop_on_ragged_clients(make_federation, kind, work, l2):
    fed = make_federation(kind, l2=l2)
    clients = np.arange(fed.clients)
    assert fed.sizes.min() < BATCH < fed.sizes.max()
    fast, slow = (rounds_of(train, fed, clients, work) for train in (engine.train, readable.train))
    assert_equal(fast, slow)
    assert float((slow - spread_weights(fed)).norm(dim=1).min()) > 0.05, "training must have moved every client"


@pytest.mark.parametrize("kind", KINDS)
def test_each_client_may_have_its_own_rate(make_federation, kind):
    fed = make_federation(kind)
    clients = np.array([7, 2, 5, 0])
    work = Work(lr=torch.tensor([0.4, 0.1, 0.0, 0.2]), batch=6, epochs=2, decay=0.7)
    fast, slow = (rounds_of(train, fed, clients, work) for train in (engine.train, readable.train))
    assert_equal(fast, slow)
    assert torch.equal(fast[2], spread_weights(fed)), "the client with rate 0 stays where it is"


@pytest.mark.parametrize("kind", KINDS)
def test_each_client_may_start_elsewhere(make_federation, kind):
    fed = make_federation(kind)
    clients = np.array([1, 4, 9])
    starts = torch.stack([spread_weights(fed, seed) for seed in (1, 2, 3)])
    work = Work(lr=0.1, batch=BATCH, epochs=2, momentum=0.9)
    before = starts.clone()
    assert_equal(engine.train(fed, starts, clients, work, 1), readable.train(fed, starts, clients, work, 1))
    assert torch.equal(starts, before), "training must not write into its starting points"


def proximal(start):
    return lambda weights, batch: batch.gradient(weights) + 0.4 * (weights - start)


def anchored(start, anchors):
    def direction(weights, batch):
        return batch.gradient(weights) - batch.gradient(start.expand_as(weights)) + batch.pick(anchors)

    return direction


@pytest.mark.parametrize("work", [WORKS["epochs with momentum"], WORKS["steps"]], ids=["epochs", "steps"])
@pytest.mark.parametrize("kind", KINDS)
def test_proximal_directions_equal_the_readable_loop(make_federation, kind, work):
    fed = make_federation(kind, l2=0.01)
    direction = proximal(spread_weights(fed))
    fast, slow = (rounds_of(train, fed, np.arange(10), work, direction) for train in (engine.train, readable.train))
    assert_equal(fast, slow)


@pytest.mark.parametrize("work", [WORKS["epochs with momentum"], WORKS["steps"]], ids=["epochs", "steps"])
@pytest.mark.parametrize("kind", KINDS)
def test_anchored_directions_equal_the_readable_loop_and_pick_the_right_client(make_federation, kind, work):
    fed = make_federation(kind, l2=0.01)
    clients = np.array([8, 3, 0, 6])
    anchors = engine.gradients(fed, spread_weights(fed), clients)
    direction = anchored(spread_weights(fed), anchors)
    fast, slow = (rounds_of(train, fed, clients, work, direction) for train in (engine.train, readable.train))
    assert_equal(fast, slow)


@pytest.mark.parametrize("own", [False, True], ids=["one for all", "one each"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_and_a_shift_are_terms_of_every_gradient(make_federation, kind, own):
    fed, clients = make_federation(kind, l2=0.01), np.array([8, 3, 0, 6])
    work = WORKS["epochs with momentum"]
    shift = engine.gradients(fed, spread_weights(fed), clients)
    shift = shift if own else shift[0]

    def direction(weights, batch):
        return batch.gradient(weights) + 0.4 * weights + (batch.pick(shift) if own else shift)

    fast = engine.train(fed, spread_weights(fed), clients, work, 1, pull=0.4, shift=shift)
    assert_equal(fast, readable.train(fed, spread_weights(fed), clients, work, 1, direction))


@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_and_a_shift_come_on_top_of_a_direction(make_federation, kind):
    fed, clients, work = make_federation(kind), np.array([1, 4]), WORKS["steps"]
    start, half = spread_weights(fed), 0.5 * spread_weights(fed)
    both = engine.train(fed, start, clients, work, 1, lambda weights, batch: 2 * weights, pull=1.0, shift=half)
    assert_equal(both, engine.train(fed, start, clients, work, 1, lambda weights, batch: 3 * weights + half))


@pytest.mark.parametrize("kind", KINDS)
def test_full_batches_equal_the_readable_loop(make_federation, kind):
    fed, clients = make_federation(kind, l2=0.01), np.array([8, 3, 0, 6])
    work = Work(lr=torch.tensor([0.4, 0.1, 0.0, 0.2]), batch=None, steps=4, momentum=0.5)
    assert_equal(engine.train(fed, fed.start, clients, work, 1), readable.train(fed, fed.start, clients, work, 1))


def test_full_batches_are_counted_in_steps():
    with pytest.raises(ValueError, match="full batches .* are counted in steps"):
        Work(lr=0.1, batch=None, epochs=2)


@pytest.mark.parametrize("bytes_allowed", [1, 6000])
@pytest.mark.parametrize("kind", KINDS)
def test_training_in_chunks_changes_nothing(make_federation, monkeypatch, kind, bytes_allowed):
    fed = make_federation(kind, l2=0.01)
    clients = np.array([9, 0, 4, 5, 2])
    anchors = engine.gradients(fed, spread_weights(fed), clients)
    work = Work(lr=torch.linspace(0.05, 0.3, 5), batch=BATCH, epochs=2, momentum=0.5)
    arguments = (fed, clients, work, anchored(spread_weights(fed), anchors))
    whole = rounds_of(engine.train, *arguments)
    monkeypatch.setattr(engine, "CHUNK_BYTES", bytes_allowed)
    assert len(engine._chunks(fed, clients, work)) > 1
    assert torch.equal(rounds_of(engine.train, *arguments), whole)


@pytest.mark.parametrize("batch", [5, 40, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_no_bit(make_federation, monkeypatch, kind, batch):
    """Some chunks then hold only clients below the batch size, whose minibatches need less padding."""
    fed = make_federation(kind, l2=0.01)
    work = Work(lr=0.1, batch=batch, epochs=3, momentum=0.5)
    trained = {}
    for threads in (1, 2, 10):
        monkeypatch.setenv("FEDLIB_THREADS", str(threads))
        monkeypatch.setattr(engine, "THREAD_FLOPS", 1)
        assert len(engine._chunks(fed, np.arange(10), work)) == threads
        trained[threads] = rounds_of(engine.train, fed, np.arange(10), work)
    assert torch.equal(trained[1], trained[2])
    assert torch.equal(trained[1], trained[10])


def test_a_clients_training_does_not_depend_on_its_company_or_its_place(make_federation):
    fed = make_federation("dense")
    work = WORKS["epochs with momentum"]
    together = engine.train(fed, fed.start, np.arange(fed.clients), work, 1)
    backwards = engine.train(fed, fed.start, np.arange(fed.clients)[::-1].copy(), work, 1).flip(0)
    alone = torch.cat([engine.train(fed, fed.start, np.array([client]), work, 1) for client in range(fed.clients)])
    assert_equal(backwards, together, relative=1e-6)
    assert_equal(alone, together, relative=1e-6)


def test_rounds_draw_different_batches(make_federation):
    fed = make_federation()
    first, second = (engine.train(fed, fed.start, np.arange(3), WORKS["steps"], round) for round in (1, 2))
    assert not torch.allclose(first, second)


# Losses of one's own, convolutional networks, steps on chosen rows


def test_the_usual_loss_written_as_a_loss_of_ones_own_changes_nothing(make_federation):
    fed, clients, work = make_federation("dense", l2=0.02), np.arange(10), WORKS["epochs with momentum"]
    usual = engine.train(fed, fed.start, clients, work, 1)
    own = engine.train(fed, fed.start, clients, work, 1, loss=lambda seen, logits, batch: batch.cross_entropy(logits))
    assert_equal(own, usual)


def test_a_loss_sees_the_representation_and_ignores_padding(make_federation):
    """One full batch an epoch: the step is the gradient of cross-entropy plus the mean square of what the head sees."""
    fed, work = make_federation("dense"), Work(lr=0.5, batch=1000, epochs=1)

    def loss(seen, logits, batch):
        return batch.cross_entropy(logits) + (seen.square().sum(2) * batch.share).sum(1)

    trained = engine.train(fed, fed.start, np.array([0, 4]), work, 1, loss=loss)
    for client, found in zip((0, 4), trained, strict=True):
        layout.load(fed.network, fed.start)
        fed.network.zero_grad()
        seen = fed.network[:-1](fed.x[fed.rows[client], :-1])
        value = functional.cross_entropy(fed.network[-1](seen), fed.y[fed.rows[client]]) + seen.square().sum(1).mean()
        value.backward()
        assert_equal(found, fed.start - 0.5 * layout.gradients(fed.network))


@pytest.fixture(scope="module")
def picture_federation():
    """Four clients of 3 to 9 colour pictures for the smallest convolutional network."""
    rng = np.random.default_rng(0)
    pictures = torch.as_tensor(rng.integers(0, 256, (31, 32, 32, 3), dtype=np.uint8))
    labels = torch.as_tensor(rng.integers(0, 10, 31))
    names = tuple("0123456789")
    dataset = federation.data.Dataset("pictures", pictures, labels, pictures, labels, names, None, None, "pictures")
    parts = np.split(np.arange(25), [3, 10, 16])
    return federation.assemble(dataset, parts, models.build("lenet_tutorial", 10, (3, 32, 32)), seed=0, l2=0.01)


@pytest.mark.parametrize("name", ["epochs with momentum", "steps", "epochs with decay"])
def test_convolutional_training_equals_the_readable_loop(picture_federation, name):
    fed, clients = picture_federation, np.array([2, 0, 3])
    direction = proximal(fed.start) if name == "steps" else None
    fast, slow = (train(fed, fed.start, clients, WORKS[name], 1, direction) for train in (engine.train, readable.train))
    assert_equal(fast - fed.start, slow - fed.start, relative=1e-4)


def test_convolutional_gradients_and_scores_equal_the_network_itself(picture_federation):
    fed = picture_federation
    pooled = torch.cat([fed.rows[1], fed.rows[3]])
    assert_equal(engine.union_gradient(fed, fed.start, np.array([1, 3])), readable.gradient(fed, fed.start, pooled))
    layout.load(fed.network, fed.start)
    with torch.no_grad():
        expected = functional.cross_entropy(fed.network(conv.images(fed.x_test)), fed.y_test)
    assert engine.evaluate(fed, fed.start)["loss"] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_on_rows_is_one_step_on_those_rows(make_federation, kind):
    fed = make_federation(kind, l2=0.02)
    starts = torch.stack([spread_weights(fed, seed) for seed in (1, 2)])
    rows = [torch.tensor([5, 1, 77]), torch.arange(30)]
    expected = [own - 0.3 * readable.gradient(fed, own, chosen) for own, chosen in zip(starts, rows, strict=True)]
    assert_equal(engine.step_on_rows(fed, starts, rows, 0.3), torch.stack(expected))


# Clients that share samples


def overlapping(samples: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [np.sort(rng.choice(samples, size, replace=False)) for size in (3, 90, 17, 60, 40)]


@pytest.mark.parametrize("kind", KINDS)
def test_clients_that_share_samples_train_like_the_readable_loop(make_federation, kind):
    fed = make_federation(kind, l2=0.02, parts=overlapping(240))
    assert not fed.contiguous
    for work in (WORKS["epochs with momentum"], WORKS["steps"]):
        fast, slow = (rounds_of(train, fed, np.arange(5), work) for train in (engine.train, readable.train))
        assert_equal(fast, slow)


@pytest.mark.parametrize("parts", [None, overlapping(240)], ids=["own samples", "shared samples"])
@pytest.mark.parametrize("rows", [11, 4096])
@pytest.mark.parametrize("kind", KINDS)
def test_union_gradient_equals_autograd_on_the_pooled_data(make_federation, monkeypatch, kind, rows, parts):
    monkeypatch.setattr(engine, "ROWS", rows)
    fed = make_federation(kind, l2=0.03, parts=parts)
    weights = spread_weights(fed)
    for clients in ([0], [1, 2, 3], [4, 0, 2], list(range(fed.clients))):
        pooled = torch.cat([fed.rows[client] for client in clients])
        found = engine.union_gradient(fed, weights, np.array(clients))
        assert_equal(found, readable.gradient(fed, weights, pooled))
        each = engine.gradients(fed, weights, np.array(clients)).double()
        sizes = torch.tensor([len(fed.rows[client]) for client in clients], dtype=torch.float64)
        assert_equal(found.double(), (sizes / sizes.sum()) @ each)


def test_gradients_are_taken_at_each_clients_own_weights(make_federation):
    fed = make_federation("dense", l2=0.03)
    clients = np.array([3, 8])
    own = torch.stack([spread_weights(fed, seed) for seed in (1, 2)])
    expected = [readable.gradient(fed, at, fed.rows[client]) for at, client in zip(own, clients, strict=True)]
    assert_equal(engine.gradients(fed, own, clients), torch.stack(expected))


def test_shared_samples_are_found_even_where_first_and_last_rows_look_contiguous(make_federation):
    # Client 0 begins at row 0 and ends at row 2 as a block of three would, but holds row 3 in place of row 1.
    fed = make_federation(parts=[np.array([0, 3, 2]), np.array([3, 4])])
    weights = spread_weights(fed)
    found = engine.union_gradient(fed, weights, np.array([0]))
    assert_equal(found, readable.gradient(fed, weights, torch.tensor([0, 3, 2])))


def test_a_client_is_a_slice_unless_clients_share_samples(make_federation):
    fed = make_federation()
    sizes = [len(rows) for rows in fed.rows]
    assert fed.contiguous
    assert fed.spans(np.array([0, 1])) == [slice(0, sizes[0] + sizes[1])]
    assert [span.stop - span.start for span in fed.spans(np.array([4, 2]))] == [sizes[4], sizes[2]]
    assert make_federation(parts=overlapping(240)).spans(np.array([0])) is None


# Minibatches


@given(size=st.integers(1, 50), batch=st.integers(1, 60), epochs=st.integers(1, 4), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_an_epoch_sees_every_sample_once_in_full_batches_but_the_last(size, batch, epochs, seed):
    drawn = batches(size, Work(lr=1, batch=batch, epochs=epochs), np.random.default_rng(seed))
    per_epoch = -(-size // batch)
    assert len(drawn) == epochs * per_epoch
    for epoch in range(epochs):
        own = drawn[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(np.concatenate(own).tolist()) == list(range(size))
        assert all(len(one) == batch for one in own[:-1])


@given(size=st.integers(1, 50), batch=st.integers(1, 60), steps=st.integers(1, 9), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_steps_draw_full_batches_with_replacement(size, batch, steps, seed):
    drawn = np.array(batches(size, Work(lr=1, batch=batch, steps=steps), np.random.default_rng(seed)))
    assert drawn.shape == (steps, batch)
    assert drawn.min() >= 0
    assert drawn.max() < size


def test_batches_depend_on_seed_round_and_client_alone(make_federation):
    work = WORKS["steps"]
    fed = make_federation()
    again = make_federation()
    drawn = np.array(client_batches(fed, 3, work, 2))
    np.testing.assert_array_equal(drawn, client_batches(again, 3, work, 2))
    other = make_federation(parts=[np.arange(24) + 24 * i for i in range(10)], seed=1)
    same_size = make_federation(parts=[np.arange(24) + 24 * i for i in range(10)])
    assert not np.array_equal(client_batches(same_size, 3, work, 2), client_batches(same_size, 4, work, 2))
    assert not np.array_equal(client_batches(same_size, 3, work, 2), client_batches(same_size, 3, work, 1))
    assert not np.array_equal(client_batches(same_size, 3, work, 2), client_batches(other, 3, work, 2))


@pytest.mark.parametrize("amount", [{}, {"epochs": 1, "steps": 1}])
def test_work_is_either_epochs_or_steps(amount):
    with pytest.raises(ValueError, match="give either epochs .* or steps"):
        Work(lr=0.1, batch=4, **amount)


def test_a_batch_has_at_least_one_sample():
    with pytest.raises(ValueError, match="batch=0 must be at least 1"):
        Work(lr=0.1, batch=0, steps=1)


# Evaluation


def certain_federation(predicted: list[int], true: list[int], scale: float):
    """Test samples are unit vectors and the weights a scaled identity, so the predictions are `predicted`."""
    eye = torch.eye(3)
    y = torch.tensor([0, 1, 2])
    dataset = federation.data.Dataset(
        "unit", eye, y, eye[predicted], torch.tensor(true), ("a", "b", "c"), None, None, "unit"
    )
    fed = federation.assemble(dataset, [np.arange(3)], models.build("softmax", 3, (3,)), seed=0)
    weights = torch.cat([scale * eye, torch.zeros(3, 1)], dim=1).flatten()
    return fed, weights


@pytest.mark.parametrize("rows", [2, 4096])
def test_evaluation_by_hand(monkeypatch, rows):
    monkeypatch.setattr(engine, "ROWS", rows)
    # confusion, true x predicted: [[3, 1, 0], [2, 2, 0], [0, 1, 0]]
    fed, weights = certain_federation([0, 0, 0, 1, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1, 2], scale=2.0)
    scores = engine.evaluate(fed, weights)
    assert scores["accuracy"] == pytest.approx(5 / 9)
    assert scores["macro_precision"] == pytest.approx((3 / 5 + 2 / 4 + 0) / 3)  # c is never predicted
    assert scores["micro_recall"] == pytest.approx(5 / 9)
    assert scores["micro_f1"] == pytest.approx(5 / 9)
    log_sum = np.log(np.exp(2) + 2)  # logits are (2, 0, 0) in some order
    assert scores["loss"] == pytest.approx((5 * (log_sum - 2) + 4 * log_sum) / 9, rel=1e-6)


def test_a_model_of_zeros_has_the_loss_of_guessing(make_federation):
    fed = make_federation()
    assert engine.evaluate(fed, torch.zeros_like(fed.start))["loss"] == pytest.approx(np.log(4), rel=1e-6)


def test_all_wrong_scores_zero_without_dividing_by_zero():
    scores = engine.scores_of(torch.tensor([[0, 4], [3, 0]]))
    assert scores == {"accuracy": 0, "macro_precision": 0, "micro_recall": 0, "micro_f1": 0}


def test_evaluation_equals_the_network_itself(make_federation):
    fed = make_federation("dense")
    weights = spread_weights(fed)
    layout.load(fed.network, weights)
    with torch.no_grad():
        logits = fed.network(fed.x_test[:, :-1])
    scores = engine.evaluate(fed, weights)
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


# Networks and their flat weights

PRINTED_WEIGHTS = [
    ("mlp200", 10, (28, 28), 199_210),
    ("cnn_fedsr", 10, (3, 32, 32), 122_570),
    ("cnn_fedsr", 100, (3, 32, 32), 128_420),
    ("cnn_leaf", 62, (28, 28), 6_603_710),
    ("lenet_tutorial", 10, (3, 32, 32), 62_006),
]
EVERY_NETWORK = [*PRINTED_WEIGHTS, ("softmax", 10, (576,), 5_770)]


def sample(shape: tuple[int, ...], count: int = 2) -> torch.Tensor:
    shape = (1, *shape) if len(shape) == 2 else shape
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("name", "classes", "shape", "weights"), EVERY_NETWORK)
def test_networks_have_the_printed_number_of_weights_and_take_their_samples(name, classes, shape, weights):
    network = models.build(name, classes, shape)
    assert sum(tensor.numel() for tensor in network.parameters()) == weights
    assert network(sample(shape)).shape == (2, classes)


@pytest.mark.parametrize(("name", "classes", "shape", "weights"), EVERY_NETWORK)
def test_flat_weights_survive_the_way_into_the_network_and_back(name, classes, shape, weights):
    network = models.build(name, classes, shape)
    flat = torch.randn(weights, generator=torch.Generator().manual_seed(0))
    layout.load(network, flat)
    assert torch.equal(layout.flatten(network), flat)
    assert layout.blocks(network)[-1].stop == weights
    for layer, block in zip(layout.layers(network), layout.blocks(network), strict=True):
        rows = block.view(flat)
        assert torch.equal(rows[:, -1], layer.bias), "the bias is the last column"
        assert torch.equal(rows[:, :-1], layer.weight.flatten(1))


def test_the_last_layer_of_every_network_is_the_classifier():
    for name, classes, shape, _ in EVERY_NETWORK:
        head = models.build(name, classes, shape)[-1]
        assert isinstance(head, torch.nn.Linear)
        assert head.out_features == classes


def test_gradients_lie_flat_as_the_weights_do():
    network = models.build("lenet_tutorial", 10, (3, 32, 32))
    flat = layout.flatten(network)
    functional.cross_entropy(network(sample((3, 32, 32))), torch.tensor([1, 2])).backward()
    found = layout.gradients(network)
    with torch.no_grad():
        for layer in layout.layers(network):
            layer.weight -= 0.1 * layer.weight.grad
            layer.bias -= 0.1 * layer.bias.grad
    torch.testing.assert_close(layout.flatten(network), flat - 0.1 * found)


def test_dense_logits_equal_the_network_itself():
    network = models.build("mlp200", 10, (28, 28))
    flat = layout.flatten(network)
    images = sample((28, 28), 5)
    with torch.no_grad():
        expected = network(images)
    design = torch.cat([images.flatten(1), torch.ones(5, 1)], dim=1)
    torch.testing.assert_close(dense.logits(layout.blocks(network), flat, design), expected, rtol=1e-5, atol=1e-6)


def test_an_unknown_network_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="'resnet'; known: cnn_fedsr, cnn_leaf, lenet_tutorial, mlp200, softmax"):
        models.build("resnet", 10, (28, 28))


def test_a_convolutional_network_wants_images():
    with pytest.raises(ValueError, match=r"needs images .* not \(576,\)"):
        models.build("cnn_leaf", 10, (576,))


def test_the_start_depends_on_the_seed_alone(make_federation):
    fed, again, other = make_federation("dense"), make_federation("dense"), make_federation("dense", seed=1)
    readable.gradient(again, torch.ones_like(again.start), again.rows[0])  # leaves its weights in the network
    fresh = federation.Federation(**{name: getattr(again, name) for name in again.__dataclass_fields__})
    assert torch.equal(fed.start, fresh.start)
    assert not torch.equal(fed.start, other.start)
    assert torch.equal(make_federation("softmax").start, torch.zeros(4 * 13))


# The federation


def test_counts_of_features_and_classes_equal_plain_loops(make_federation):
    fed = make_federation()
    for client, rows in enumerate(fed.rows):
        for feature in range(fed.x.shape[1]):
            count = sum(1 for row in rows if fed.x[row, feature] != 0)
            assert fed.nonzero[client, feature] == count
        for label in range(fed.classes):
            own = [row for row in rows if fed.y[row] == label]
            assert fed.class_counts[client, label] == len(own)
            mean = torch.stack([fed.x[row] for row in own]).mean(0) if own else torch.zeros(fed.x.shape[1])
            torch.testing.assert_close(fed.class_means[client, label], mean)
    assert (fed.nonzero == 0).any(), "some client must lack some feature"


def test_laying_samples_out_client_by_client_keeps_each_sample_with_its_label(make_dataset, make_federation):
    dataset = make_dataset()
    parts = partition.shards(dataset.y_train.numpy(), 8, 2, rng=np.random.default_rng(0))
    fed = make_federation(parts=parts)
    for part, rows in zip(parts, fed.rows, strict=True):
        assert torch.equal(fed.x[rows, :-1], dataset.x_train[part])
        assert torch.equal(fed.y[rows], dataset.y_train[part])
    assert (fed.x[:, -1] == 1).all()
    assert fed.fingerprint == partition.fingerprint(parts)


def test_bytes_become_shares_and_images_channels_first():
    dense_network, convolutions = models.build("mlp200", 10, (2, 2)), models.build("lenet_tutorial", 10, (3, 32, 32))
    grey = torch.tensor([[[0, 51], [102, 255]]], dtype=torch.uint8)
    torch.testing.assert_close(federation.inputs(grey, dense_network), torch.tensor([[0, 0.2, 0.4, 1, 1]]))
    colour = torch.arange(32 * 32 * 3).reshape(1, 32, 32, 3).to(torch.uint8)
    seen = conv.images(federation.inputs(colour, convolutions))
    torch.testing.assert_close(seen[0, 2], colour[0, :, :, 2] / 255)
    assert conv.images(federation.inputs(grey, convolutions)).shape == (1, 1, 2, 2)


def test_an_unknown_partitioner_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown partitioner 'random'; known: by_writer, dirichlet, .*shards"):
        federation.federate("mnist", "random", 10)


def test_a_client_without_samples_is_an_error(make_federation):
    with pytest.raises(ValueError, match=r"clients \[1, 3\] have no samples: leave them out"):
        make_federation(
            parts=[np.arange(3), np.array([], dtype=np.int64), np.arange(3, 9), np.array([], dtype=np.int64)]
        )


def test_averaging_in_parts_that_fit_into_memory_gives_the_same_mean(make_federation, monkeypatch):
    fed = make_federation("dense")
    clients, work = np.arange(fed.clients), Work(lr=0.1, batch=8, epochs=1, momentum=0.5)
    shares = fed.sizes / fed.sizes.sum()
    whole = engine.train_mean(fed, fed.start, clients, work, 1, shares)
    monkeypatch.setattr(engine, "STACK_BYTES", 3 * 4 * fed.start.numel())  # three models at a time
    torch.testing.assert_close(engine.train_mean(fed, fed.start, clients, work, 1, shares), whole, rtol=1e-5, atol=1e-7)
    stacked = readable.train(fed, fed.start, clients, work, 1)
    torch.testing.assert_close(whole, (shares.unsqueeze(1) * stacked).sum(0), rtol=1e-4, atol=1e-6)
