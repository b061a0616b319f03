"""How skewed a client's classes are: what FedACS estimates from gradients (Section V), and the true value."""

import numpy as np
import torch

from fedlib.engine import head_gradients
from fedlib.problem import Federation


def insights(federation: Federation, weights: torch.Tensor, clients: np.ndarray, lr: float) -> np.ndarray:
    """Delta w_i of Eq. (6), for the last layer: lr times one full-batch gradient at the server's model.

    One row per client, one column per weight of the last layer.
    """
    return lr * head_gradients(federation, weights, clients).numpy().astype(np.float64)


def estimates(insights: np.ndarray, sizes: np.ndarray, mean: np.ndarray | None = None) -> np.ndarray:
    """Q_i = sqrt(M_i) * |Delta w_i - mean|, Eq. (13); `mean` is the `mean_insight` of these clients unless given."""
    mean = mean_insight(insights, sizes) if mean is None else mean
    return np.sqrt(sizes * ((insights - mean) ** 2).sum(axis=1))


def estimates_of_parts(insights: np.ndarray, sizes: np.ndarray, classes: int) -> np.ndarray:
    """Q_i as in the authors' code: M_i times the sum of two distances to the mean, of the weights and of the biases."""
    apart = (insights - mean_insight(insights, sizes)).reshape(len(insights), classes, -1)
    weights, biases = apart[:, :, :-1].reshape(len(apart), -1), apart[:, :, -1]
    return sizes * (np.linalg.norm(weights, axis=1) + np.linalg.norm(biases, axis=1))


def mean_insight(insights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Delta w bar, Eq. (14): the mean of the insights, weighted by the clients' numbers of samples."""
    return (insights * (sizes / sizes.sum())[:, None]).sum(axis=0)


def true_alphas(federation: Federation) -> np.ndarray:
    """alpha of each client, computed from its class counts."""
    return alphas_of(federation.class_counts.numpy().astype(np.float64))


def alphas_of(counts: np.ndarray) -> np.ndarray:
    """alpha of clients with these class counts, (clients, classes): the total variation distance between a client's
    class shares and equal shares, divided by the largest possible distance, 1 - 1/C.

    For an alpha-dominance client (Definition 1) this is alpha, up to the rounding of counts. For any other client it is
    the alpha of a dominance client at the same distance. Renaming classes does not change it.
    """
    classes = counts.shape[1]
    distances = np.abs(counts / counts.sum(axis=1, keepdims=True) - 1 / classes).sum(axis=1) / 2
    return distances / (1 - 1 / classes)
