"""How skewed a client's classes are: what FedACS estimates from gradients (Section V), and the truth beside it."""

import numpy as np
import torch

from fedlib.engine import head_gradients
from fedlib.problem import Federation


def insights(federation: Federation, weights: torch.Tensor, clients: np.ndarray, lr: float) -> np.ndarray:
    """Delta w_i of Eq. (6) for the last layer: lr times one full-batch gradient at the server's model; (clients, K)."""
    return lr * head_gradients(federation, weights, clients).numpy().astype(np.float64)


def estimates(insights: np.ndarray, sizes: np.ndarray, mean: np.ndarray | None = None) -> np.ndarray:
    """Q_i = sqrt(M_i) * |Delta w_i - mean|, Eq. (13); the mean is these clients' by size, Eq. (14), unless given."""
    mean = mean_insight(insights, sizes) if mean is None else mean
    return np.sqrt(sizes * ((insights - mean) ** 2).sum(axis=1))


def mean_insight(insights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Delta w bar, Eq. (14)."""
    return (insights * (sizes / sizes.sum())[:, None]).sum(axis=0)


def true_alphas(federation: Federation) -> np.ndarray:
    """alpha of each client, read off its class counts: the total variation distance of its class shares to even ones,
    divided by the largest possible, 1 - 1/C.

    For an alpha-dominance client (Definition 1) this is alpha, up to the rounding of counts; for any other client it
    says which alpha is as far from even. Renaming classes does not change it.
    """
    counts = federation.class_counts.numpy().astype(np.float64)
    classes = counts.shape[1]
    away = np.abs(counts / counts.sum(axis=1, keepdims=True) - 1 / classes).sum(axis=1) / 2
    return away / (1 - 1 / classes)
