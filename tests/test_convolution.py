"""Compiled convolutions against torch in double precision."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fedlib  # noqa: F401  first: it pins numerics
from fedlib.engine import convolution
from fedlib.problem import layout

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
