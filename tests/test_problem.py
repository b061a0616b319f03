"""Networks and their flat weights; how a federation lays out, standardises and splits its samples."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from played_rounds import pictures
from torch.nn import functional

from fedlib.algorithms.acfmo import feature_counts
from fedlib.algorithms.prototypes import class_means
from fedlib.data.dataset import from_arrays
from fedlib.engine import dense, readable
from fedlib.problem import Network, federate, federation, layout, models, partition

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


@pytest.mark.parametrize(("rule", "bound", "bias"), [("default", 1, 1), ("he", 6**0.5, 1), ("xavier", None, 0)])
def test_first_weights_fill_the_range_of_their_rule(rule, bound, bias):
    layers = models.build("cnn_leaf", 10, (28, 28), width=4, hidden=64)
    models.initialise(layers, 0, rule)
    for layer in layout.layers(layers):
        fan_in, fan_out = layer.weight[0].numel(), layer.weight[:, 0].numel()
        widest = (6 / (fan_in + fan_out)) ** 0.5 if bound is None else bound * fan_in**-0.5
        assert 0.9 * widest < float(layer.weight.detach().abs().max()) <= widest * (1 + 1e-6)
        assert float(layer.bias.detach().abs().max()) <= bias * fan_in**-0.5 * (1 + 1e-6)


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
    counts, means = feature_counts(fed), class_means(fed)
    for client, rows in enumerate(fed.rows):
        for feature in range(fed.x.shape[1]):
            count = sum(1 for row in rows if fed.x[row, feature] != 0)
            assert counts[client, feature] == count
        for label in range(fed.classes):
            held = [row for row in rows if fed.y[row] == label]
            assert fed.class_counts[client, label] == len(held)
            mean = torch.stack([fed.x[row] for row in held]).mean(0) if held else torch.zeros(fed.x.shape[1])
            torch.testing.assert_close(means[client, label], mean)
    assert (counts == 0).any(), "some client must lack some feature"


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
    dense_network = Network(models.build("mlp200", 10, (2, 2)))
    convolutions = Network(models.build("lenet_tutorial", 10, (3, 32, 32)))
    grey = torch.tensor([[[0, 51], [102, 255]]], dtype=torch.uint8)
    torch.testing.assert_close(dense_network.store(grey), torch.tensor([[0, 0.2, 0.4, 1, 1]]))
    colour = torch.arange(32 * 32 * 3).reshape(1, 32, 32, 3).to(torch.uint8)
    seen = convolutions.inputs(convolutions.store(colour))
    torch.testing.assert_close(seen[0, 2], colour[0, :, :, 2] / 255)
    assert convolutions.inputs(convolutions.store(grey)).shape == (1, 1, 2, 2)


# Standardised inputs


@pytest.mark.parametrize("network", ["lenet_tutorial", "mlp200"])
def test_standardising_by_channel_gives_every_channel_mean_zero_and_deviation_one(network):
    fed = pictures(network, standardise="channel")
    images = pictures().network.inputs(torch.cat([pictures().x, pictures().x_test]))
    trained_on = images[:25]
    mean, deviation = trained_on.mean((0, 2, 3)), trained_on.std((0, 2, 3), unbiased=False)
    expected = (images - mean[:, None, None]) / deviation[:, None, None]
    seen = fed.network.inputs(torch.cat([fed.x, fed.x_test]))
    seen = seen[:, :-1].view(-1, 32, 32, 3).movedim(-1, 1) if fed.network.dense else seen
    torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-4)


def test_standardising_by_feature_leaves_constant_features_at_zero(make_dataset):
    arrays = {name: getattr(make_dataset(), name).numpy().copy() for name in ("x_train", "y_train", "x_test", "y_test")}
    arrays["x_train"][:, 3] = arrays["x_test"][:, 3] = 7.0
    dataset = from_arrays("constant", arrays, tuple("0123"), fingerprint="constant")
    layers, parts = models.build("softmax", 4, (12,)), [np.arange(240)]
    fed = federation.assemble(dataset, parts, layers, seed=0, standardise="feature")
    rest = [feature for feature in range(12) if feature != 3]
    torch.testing.assert_close(fed.x[:, rest].mean(0), torch.zeros(11), rtol=0, atol=1e-5)
    torch.testing.assert_close(fed.x[:, rest].std(0, unbiased=False), torch.ones(11), rtol=1e-4, atol=0)
    assert (fed.x[:, 3] == 0).all() and (fed.x[:, -1] == 1).all()


def test_standardising_by_given_numbers_is_that_arithmetic():
    mean, deviation = [0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]
    fed, plain = pictures(standardise=[mean, deviation]), pictures()
    shift, scale = (torch.tensor(values)[:, None, None] for values in (mean, deviation))
    expected = (plain.network.inputs(plain.x) - shift) / scale
    torch.testing.assert_close(fed.network.inputs(fed.x), expected)


@pytest.mark.parametrize(
    "wrong", [[[0.5], [1, 1, 1]], [[0, 0, 0], [1, 0, 1]], [[0, 0, 0], [1, float("nan"), 1]], ["a", "b"], [1, 2, 3]]
)
def test_impossible_statistics_are_answered_with_what_would_be_right(wrong):
    with pytest.raises(ValueError, match="must be 'channel', 'feature' or .means, deviations. .* 3 channels"):
        pictures(standardise=wrong)


def test_cropping_is_for_images_and_goes_with_standardising_by_channel(make_dataset):
    layers = models.build("softmax", 4, (12,))
    with pytest.raises(ValueError, match="crop=2 and flip=False are for images"):
        federation.assemble(make_dataset(), [np.arange(240)], layers, seed=0, crop=2)
    with pytest.raises(ValueError, match="standardise by 'channel' with them"):
        pictures(standardise="feature", flip=True)
    with pytest.raises(ValueError, match="crop=32 must be smaller than an image's side, 32 pixels"):
        pictures(crop=32)


# Splits of each client's samples


@given(share=st.floats(0.01, 0.99), seed=st.integers(0, 20))
@settings(deadline=None, max_examples=12)
def test_every_client_trains_on_one_part_of_its_samples_and_is_tested_on_the_rest(share, seed):
    options = {"samples": 500, "alpha": 0.5, "seed": seed}
    whole = federate("mnist", "dirichlet", 8, **options)
    fed = federate("mnist", "dirichlet", 8, **options, test_share=share)
    for client in range(8):
        tested, trained = fed.x_test[fed.test_clients == client], fed.x[fed.rows[client]]
        assert len(tested) + len(trained) == len(whole.rows[client])
        assert len(tested) == np.clip(round(share * len(whole.rows[client])), 1, len(whole.rows[client]) - 1)
        together, expected = torch.cat([tested, trained]), whole.x[whole.rows[client]]
        assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, expected.tolist()))


@pytest.mark.parametrize("partitioner", ["uniform_skew", "inverse_pareto_skew"])
def test_nobody_trains_on_what_somebody_tests_on_where_clients_share_samples(partitioner):
    fed = federate("mnist", partitioner, 10, client_samples=100, test_share=0.2, seed=1)
    tested = {row.tobytes() for row in fed.x_test.numpy()}
    assert not tested & {row.tobytes() for row in fed.x[torch.cat(fed.rows)].numpy()}
    assert len(fed.y_test) >= 150 and len(fed.test_clients) == len(fed.y_test)


def test_tuning_under_a_split_by_client_sees_no_test_sample():
    options = {"samples": 400, "seed": 2, "test_share": 0.25}
    final, tuning = federate("mnist", "iid", 4, **options), federate("mnist", "iid", 4, **options, validation_share=0.2)
    rows = {name: {row.tobytes() for row in x.numpy()} for name, x in (("test", final.x_test), ("train", final.x))}
    held_out, trained = ({row.tobytes() for row in x.numpy()} for x in (tuning.x_test, tuning.x))
    assert held_out | trained == rows["train"] and not held_out & trained and not held_out & rows["test"]


def test_a_client_with_a_single_sample_trains_on_it_and_holds_nothing_back():
    options = {"samples": 60, "seed": 0, "alpha": 0.1}
    whole = federate("mnist", "dirichlet", 20, **options)
    tuning = federate("mnist", "dirichlet", 20, **options, validation_share=0.2)
    single = [client for client, rows in enumerate(whole.rows) if len(rows) == 1]
    assert single and all(len(tuning.rows[client]) == 1 for client in single)
    assert not set(single) & set(tuning.test_clients.tolist())
    assert len(tuning.y_test) + len(tuning.y) == 60
    with pytest.raises(ValueError, match="too few samples of their own to train and test"):
        federate("mnist", "dirichlet", 20, **options, test_share=0.2)


def test_a_part_of_the_test_set_makes_no_sense_where_clients_test_on_their_own_samples():
    with pytest.raises(ValueError, match="not with test_share or validation_share"):
        federate("mnist", "iid", 4, test_samples=10, test_share=0.2)


def test_validation_samples_come_from_the_training_set_and_reach_no_client():
    fed = federate("mnist", "iid", 4, validation_share=0.1, seed=3)
    assert len(fed.y_test) == 6000 and sum(len(rows) for rows in fed.rows) == 54000
    keys = {row.tobytes() for row in fed.x_test.numpy()}
    assert not keys & {row.tobytes() for row in fed.x.numpy()}
    assert len(federate("mnist", "iid", 4).y_test) == 10000


def test_an_unknown_partitioner_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown partitioner 'random'; known: by_writer, dirichlet, .*shards"):
        federation.federate("mnist", "random", 10)


def test_a_client_without_samples_is_an_error(make_federation):
    with pytest.raises(ValueError, match=r"clients \[1, 3\] have no samples: leave them out"):
        make_federation(
            parts=[np.arange(3), np.array([], dtype=np.int64), np.arange(3, 9), np.array([], dtype=np.int64)]
        )
