"""Matrix products and square roots whose digits do not depend on the processor.

torch multiplies with MKL, which takes other kernels on Intel's processors than on AMD's even when told to stay with AVX2. NumPy
multiplies with OpenBLAS, which keeps to the kernels it is told (`numerics` names them), and is faster on the skinny matrices
of this field. Square roots likewise: torch asks MKL, which approximates; NumPy rounds correctly. (Exponentials and logarithms of
whole tensors have the same trouble in torch; `softmax` and `cross_entropy` have not.)
"""

import numpy as np
import torch


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b for matrices or stacks of matrices of equal length; autograd goes through."""
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _Product.apply(a, b)
    return torch.from_numpy(np.matmul(a.numpy(), b.numpy()))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context, a, b):
        context.save_for_backward(a, b)
        return torch.from_numpy(np.matmul(a.detach().numpy(), b.detach().numpy()))

    @staticmethod
    def backward(context, error):
        a, b = context.saved_tensors
        wanted = context.needs_input_grad
        error = error.detach()
        left = product(error, b.detach().mT) if wanted[0] else None
        return left, product(a.detach().mT, error) if wanted[1] else None


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x @ weight.T + bias, as `torch.nn.functional.linear`; autograd goes through."""
    return _Linear.apply(x, weight) + bias


class _Linear(torch.autograd.Function):
    """Apart from `_Product` only in that the gradient of the weights comes out laid out as the weights are."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        return product(x.detach(), weight.detach().mT)

    @staticmethod
    def backward(context, error):
        x, weight = (saved.detach() for saved in context.saved_tensors)
        wanted = context.needs_input_grad
        error = error.detach()
        return product(error, weight) if wanted[0] else None, product(error.mT, x) if wanted[1] else None


def weighted_sum(weights: torch.Tensor, stacked: torch.Tensor) -> torch.Tensor:
    """sum_i weights_i * stacked_i for vectors (n, size)."""
    return product(weights.unsqueeze(0), stacked)[0]


def root(x: torch.Tensor) -> torch.Tensor:
    """The square root of each element, correctly rounded."""
    return torch.from_numpy(np.sqrt(x.numpy()))


__all__ = ["linear", "product", "root", "weighted_sum"]
