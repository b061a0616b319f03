"""Arithmetic on tensors whose digits do not depend on the processor.

torch multiplies with MKL, which uses different kernels on Intel and AMD processors even when restricted to AVX2. NumPy
multiplies with OpenBLAS, which keeps to the kernels it is told (`numerics` names them) and is faster on the narrow
matrices of this field. The same holds for square roots, exponentials and logarithms of whole tensors: torch calls MKL,
which approximates; NumPy rounds alike everywhere. (torch's `softmax` and `cross_entropy` do not have this problem.)
"""

import numpy as np
import torch


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b for matrices or stacks of matrices of equal length; differentiable."""
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _Product.apply(a, b)  # type: ignore[return-value]
    return torch.from_numpy(np.matmul(a.numpy(), b.numpy()))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context, a, b):
        context.save_for_backward(a, b)
        return product(a.detach(), b.detach())

    @staticmethod
    def backward(context, error):
        a, b = (saved.detach() for saved in context.saved_tensors)
        wants_a, wants_b = context.needs_input_grad
        error = error.detach()
        return product(error, b.mT) if wants_a else None, product(a.mT, error) if wants_b else None


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x @ weight.T + bias, as `torch.nn.functional.linear`; differentiable."""
    return _Linear.apply(x, weight) + bias  # type: ignore[operator]


class _Linear(torch.autograd.Function):
    """As `_Product`, but the gradient of the weights has the memory layout of the weights."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        return product(x.detach(), weight.detach().mT)

    @staticmethod
    def backward(context, error):
        x, weight = (saved.detach() for saved in context.saved_tensors)
        wants_x, wants_weight = context.needs_input_grad
        error = error.detach()
        return product(error, weight) if wants_x else None, product(error.mT, x) if wants_weight else None


def weighted_sum(weights: torch.Tensor, stacked: torch.Tensor) -> torch.Tensor:
    """sum_i weights_i * stacked_i for vectors (n, size)."""
    return product(weights.unsqueeze(0), stacked)[0]


def root(x: torch.Tensor) -> torch.Tensor:
    """The square root of each element, correctly rounded."""
    return torch.from_numpy(np.sqrt(x.numpy()))


def exponential(x: torch.Tensor) -> torch.Tensor:
    """exp of each element; differentiable."""
    return _Exponential.apply(x)  # type: ignore[return-value]


class _Exponential(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        value = torch.from_numpy(np.exp(x.detach().numpy()))
        context.save_for_backward(value)
        return value

    @staticmethod
    def backward(context, error):
        return error * context.saved_tensors[0]
