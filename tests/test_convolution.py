"""Compiled convolutions against torch in double precision."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import fedlib  # noqa: F401  first: it pins numerics
from fedlib.engine import convolution
from fedlib.problem import Network, layout, models
from fedlib.problem.inputs import standard

pytestmark = pytest.mark.slow

CASES = [  # batch, height, width, channels, outputs, kernel, padding
    (1, 8, 8, 1, 1, 3, 0),
    (2, 9, 7, 3, 6, 3, 1),
    (3, 32, 32, 3, 32, 3, 0),
    (5, 15, 15, 32, 64, 3, 0),
    (5, 6, 6, 64, 64, 3, 0),
    (2, 28, 28, 1, 32, 5, 2),
    (3, 14, 14, 32, 64, 5, 2),
    (4, 14, 13, 6, 16, 5, 0),
    (3, 7, 11, 16, 3, 5, 1),
    (2, 5, 5, 16, 17, 5, 1),
    (4, 6, 9, 6, 9, 1, 0),
    (2, 7, 7, 3, 5, 2, 1),
]


def network(channels, outputs, kernel, padding, pools, rectifies) -> nn.Sequential:
    layers = [nn.Conv2d(channels, outputs, kernel, padding=padding)]
    return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pools else []), *([nn.ReLU()] if rectifies else []))


def drawn(*shape, seed=0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def close(computed: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(computed.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.detach().abs().max()))


@pytest.mark.parametrize("pools", [False, True])
@pytest.mark.parametrize("rectifies", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_torch(case, pools, rectifies):
    batch, height, width, channels, outputs, kernel, padding = case
    net = network(channels, outputs, kernel, padding, pools, rectifies)
    exact = network(channels, outputs, kernel, padding, pools, rectifies).double()
    exact.load_state_dict(net.state_dict())
    x = drawn(batch, height, width, channels).movedim(-1, 1).requires_grad_()
    x_double = x.detach().double().requires_grad_()
    flat = layout.flatten(net).requires_grad_()
    computed, expected = convolution.outputs(net, flat, x)[1], exact(x_double)
    assert computed.shape == expected.shape and close(computed, expected)
    error = drawn(*computed.shape, seed=1)
    grad_flat, grad_x = torch.autograd.grad(computed, [flat, x], error)
    expected.backward(error.double())
    assert close(grad_x, x_double.grad)
    assert close(grad_flat, layout.gradients(exact))


@pytest.mark.parametrize("case", CASES)
def test_a_sample_has_the_same_bytes_in_any_batch(case):
    _, height, width, channels, outputs, kernel, padding = case
    net = network(channels, outputs, kernel, padding, True, True)
    x, flat = drawn(7, height, width, channels).movedim(-1, 1), layout.flatten(net)
    computed = convolution.outputs(net, flat, x)[1]
    for count in (1, 2, 5):
        assert torch.equal(convolution.outputs(net, flat, x[:count])[1], computed[:count])


@pytest.mark.parametrize("case", [case for case in CASES if case[4] <= 8])
def test_few_outputs_give_the_digits_of_convolving_first_and_pooling_then(case):
    """Which outputs share a register changes no digit; biases are zero, for they are added after the pooling."""
    batch, height, width, channels, outputs, kernel, padding = case
    net, x = network(channels, outputs, kernel, padding, True, False), drawn(batch, height, width, channels)
    flat = layout.flatten(net)
    layout.blocks(net)[0].view(flat)[:, -1] = 0
    pooled = convolution.outputs(net, flat, x.movedim(-1, 1))[1]
    apart = convolution.outputs(nn.Sequential(net[0]), flat, x.movedim(-1, 1))[1]
    assert torch.equal(pooled, functional.max_pool2d(apart, 2))


def identity() -> tuple[nn.Sequential, torch.Tensor]:
    """A convolution that changes nothing, with pooling and rectifier, and its weights."""
    net = network(1, 1, 1, 0, True, True)
    return net, torch.tensor([1.0, 0.0])


def test_of_equal_values_in_a_square_the_first_gets_the_error():
    net, flat = identity()
    x = torch.ones(2, 1, 5, 5).requires_grad_()
    (grad_x,) = torch.autograd.grad(convolution.outputs(net, flat, x)[1].sum(), x)
    expected = torch.zeros(5, 5)
    expected[:4:2, :4:2] = 1
    assert torch.equal(grad_x[0, 0], expected)


def test_nan_goes_through_pooling_and_rectifier_and_so_does_its_error():
    net, flat = identity()
    x = -torch.rand(2, 1, 4, 4)
    x[0, 0, 1, 0] = torch.nan
    x = x.requires_grad_()
    computed = convolution.outputs(net, flat, x)[1]
    expected = functional.relu(functional.max_pool2d(x, 2))
    assert torch.equal(computed.isnan(), expected.isnan()) and int(computed.isnan().sum()) == 1
    (grad_x,) = torch.autograd.grad(computed.sum(), x)
    assert grad_x[0, 0, 1, 0] == 1 and int(grad_x.count_nonzero()) == 1


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(3, 4, 3, stride=2), nn.ReLU()],
        [nn.Conv2d(3, 4, 3, padding=(1, 0)), nn.ReLU()],
        [nn.Conv2d(3, 4, 3), nn.MaxPool2d(3), nn.ReLU()],
        [nn.Conv2d(3, 4, 3), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()],
        [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)],
        [nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.MaxPool2d(2)],
    ],
)
def test_other_layers_are_left_to_torch(layers):
    net, x = nn.Sequential(*layers), drawn(3, 3, 13, 13)
    computed = convolution.outputs(net, layout.flatten(net), x)[1]
    assert torch.allclose(computed, net(x), atol=1e-5)


def test_an_empty_batch_stays_empty():
    net = network(3, 4, 3, 0, True, True)
    assert convolution.outputs(net, layout.flatten(net), torch.empty(0, 3, 8, 8))[1].shape == (0, 4, 3, 3)


# ---------------------------------------------------------------- whole networks


def small(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers)


NETWORKS = {  # with samples (channels, height, width)
    "lenet_tutorial": (models.build("lenet_tutorial", 10, (3, 32, 32)), (3, 32, 32)),
    "cnn_leaf": (models.build("cnn_leaf", 62, (28, 28), width=8, hidden=16), (1, 28, 28)),
    "cnn_fedsr": (models.build("cnn_fedsr", 10, (1, 28, 28)), (1, 28, 28)),
    "one linear layer": (
        small(nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(75, 4)),
        (2, 11, 10),
    ),
    "no pooling": (
        small(nn.Conv2d(1, 17, 2), nn.ReLU(), nn.Flatten(), nn.Linear(340, 9), nn.ReLU(), nn.Linear(9, 2)),
        (1, 5, 6),
    ),
}
UNUSUAL = {
    "dense only": (small(nn.Flatten(), nn.Linear(36, 3)), (1, 6, 6)),
    "a stride": (small(nn.Conv2d(1, 2, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)), (1, 6, 6)),
    "another activation": (small(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3)), (1, 6, 6)),
    "another pooling": (small(nn.Conv2d(1, 2, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3)), (1, 6, 6)),
    "overlapping pooling": (small(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(18, 3)), (1, 6, 6)),
    "a ReLU before the dense layers": (
        small(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.ReLU(), nn.Linear(32, 3)),
        (1, 6, 6),
    ),
    "a ReLU at the end": (small(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 3), nn.ReLU()), (1, 6, 6)),
    "no ReLU between": (
        small(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 4), nn.Linear(4, 3)),
        (1, 6, 6),
    ),
}


@pytest.fixture(autouse=True)
def weights_of_the_same_seed():
    """Other weights may put a unit so close to zero that single and double precision differ in its sign."""
    for net, _ in [*NETWORKS.values(), *UNUSUAL.values()]:
        models.initialise(net, seed=0)


def expected_gradient(net: nn.Sequential, x, y, share) -> tuple[torch.Tensor, float]:
    """By torch, in double precision."""
    exact = copy.deepcopy(net).double()
    value = (functional.cross_entropy(exact(x.double()), y, reduction="none") * share.double()).sum()
    exact.zero_grad()
    value.backward()
    return layout.gradients(exact), value.item()


def minibatch(net: nn.Sequential, sample, count) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Samples, labels and weights of the samples."""
    rng = np.random.default_rng(count)
    x = torch.from_numpy(rng.standard_normal((count, *sample[1:], sample[0])).astype(np.float32)).movedim(-1, 1)
    y = torch.from_numpy(rng.integers(layout.layers(net)[-1].weight.shape[0], size=count))
    return x, y, torch.from_numpy(rng.random(count).astype(np.float32)) / count


@pytest.mark.parametrize("count", [1, 2, 31, 64, 65, 150])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_of_a_whole_network_in_one_call_is_that_of_torch(name, count):
    net, sample = NETWORKS[name]
    assert convolution.usual_network(net, sample) is not None
    x, y, share = minibatch(net, sample, count)
    computed, loss = convolution.gradient(net, layout.flatten(net), x, y, share)
    expected, value = expected_gradient(net, x, y, share)
    assert close(computed, expected) and loss == pytest.approx(value, rel=1e-5)


class Untouched(TorchDispatchMode):
    """No operation may take a parameter of the network itself."""

    def __init__(self, net: nn.Sequential):
        super().__init__()
        self.places = {parameter.data_ptr() for parameter in net.parameters()}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        taken = [one for one in args if isinstance(one, torch.Tensor) and one.data_ptr() in self.places]
        assert not taken, f"{function} takes a parameter of the network"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", [*NETWORKS, *UNUSUAL])
def test_threads_that_share_a_network_leave_its_own_parameters_alone(name):
    """Two threads that record operations on the same parameter can lock each other out for ever; weights travel as flat
    vectors, and of the layers only shapes are read."""
    net, sample = (NETWORKS | UNUSUAL)[name]
    net = copy.deepcopy(net)  # whose form is not known yet
    weights = layout.flatten(net)
    x, y, share = minibatch(net, sample, 7)
    with Untouched(net):
        assert layout.blocks(net)[-1].stop == len(weights)
        convolution.gradient(net, weights, x, y, share)
        convolution.forward(net, weights, x)
        convolution.objective_gradient(net, weights, x, lambda representation, logits: logits.sum())
    with pytest.raises(AssertionError, match="takes a parameter"), Untouched(net):
        layout.flatten(net)


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_network_of_another_form_is_left_to_autograd(name):
    net, sample = UNUSUAL[name]
    assert convolution.usual_network(net, sample) is None
    x, y, share = minibatch(net, sample, 7)
    computed, loss = convolution.gradient(net, layout.flatten(net), x, y, share)
    expected, value = expected_gradient(net, x, y, share)
    assert close(computed, expected) and loss == pytest.approx(value, rel=1e-5)


def test_samples_that_do_not_count_and_no_samples_have_no_gradient():
    net, sample = NETWORKS["cnn_leaf"]
    x, y, share = minibatch(net, sample, 9)
    share[5:] = 0
    flat = layout.flatten(net)
    whole, part = convolution.gradient(net, flat, x, y, share), convolution.gradient(net, flat, x[:5], y[:5], share[:5])
    assert close(whole[0], part[0].double()) and whole[1] == pytest.approx(part[1], rel=1e-6)
    nothing, loss = convolution.gradient(net, flat, x[:0], y[:0], share[:0])
    assert loss == 0 and not nothing.any()


@pytest.mark.parametrize("standardise", [None, "channel", "feature", [[0.5, 0.4, 0.3], [0.2, 0.1, 0.3]]])
def test_inputs_looked_up_in_a_table_are_those_of_the_network_digit_for_digit(standardise):
    stored = torch.from_numpy(np.random.default_rng(0).integers(256, size=(4, 5, 32, 32, 3), dtype=np.uint8))
    net = Network(NETWORKS["lenet_tutorial"][0], standard(stored.flatten(0, 1), standardise))
    assert (net.byte_inputs is None) == (standardise == "feature")
    looked_up, expected = convolution.inputs(net, stored), net.inputs(stored)
    assert looked_up.shape == expected.shape and torch.equal(looked_up, expected)
    assert torch.equal(convolution.inputs(net, stored.float()), net.inputs(stored.float()))
