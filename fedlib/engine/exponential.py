"""The exponential function for losses, with digits that do not depend on the processor.

torch hands exponentials of whole tensors to MKL, which approximates differently on Intel's and AMD's processors; NumPy
does not.
"""

import numpy as np
import torch


def exponential(x: torch.Tensor) -> torch.Tensor:
    """exp of each element; autograd goes through."""
    return _Exponential.apply(x)


class _Exponential(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        value = torch.from_numpy(np.exp(x.detach().numpy()))
        context.save_for_backward(value)
        return value

    @staticmethod
    def backward(context, error):
        return error * context.saved_tensors[0]
