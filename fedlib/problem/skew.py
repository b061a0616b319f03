"""How heterogeneous a partition is, in numbers. `fedlib.report.plots` draws the same counts.

Client i holds the classes in proportions p_i; p is the distribution of all clients' samples pooled, P_real of FedGS's
Eq. (2). All logarithms are natural.

| measure | definition | range | iid |
|---|---|---|---|
| entropy | -sum_k p_i(k) ln p_i(k) / ln C, for C classes | 0 ... 1 | 1 when p is even |
| effective_classes | exp(-sum_k p_i(k) ln p_i(k)): that many even classes | 1 ... C | C when p is even |
| emd | sum_k abs(p_i(k) - p(k)): the earth mover's distance as Zhao et al. (2018) use it for labels | 0 ... 2 | 0 |
| hellinger | sqrt(sum_k (sqrt p_i(k) - sqrt p(k))^2 / 2) | 0 ... 1 | 0 |
| quantity_gini | sum_ij abs(n_i - n_j) / (2 K sum_i n_i), of the K clients' sizes n_i | 0 ... 1 - 1/K | 0 |

The transport cost with distance 1 between any two classes is half of `emd`. A client without samples has no p_i: its
measures are NaN, and means leave it out.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def class_counts(labels: np.ndarray, parts: Sequence[np.ndarray], classes: int) -> np.ndarray:
    """Samples per client and class, clients x classes."""
    labels = np.asarray(labels)
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(
            f"labels run from {labels.min()} to {labels.max()}, but classes={classes} allows 0 to {classes - 1}: "
            f"give classes={labels.max() + 1} or relabel"
        )
    return np.stack([np.bincount(labels[part], minlength=classes) for part in parts])


def class_shares(counts: np.ndarray) -> np.ndarray:
    """p_i(k), clients x classes; NaN for a client without samples."""
    sizes = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, sizes, out=np.full(counts.shape, np.nan), where=sizes > 0)


def entropy(counts: np.ndarray) -> np.ndarray:
    """Label entropy of every client as a share of the largest possible, ln C."""
    return _entropy_in_nats(counts) / np.log(max(counts.shape[1], 2))


def effective_classes(counts: np.ndarray) -> np.ndarray:
    """exp(entropy) of every client: the number of equally frequent classes with the same entropy."""
    return np.exp(_entropy_in_nats(counts))


def emd(counts: np.ndarray) -> np.ndarray:
    """sum_k |p_i(k) - p(k)| of every client."""
    return np.abs(class_shares(counts) - _pooled(counts)).sum(axis=1)


def hellinger(counts: np.ndarray) -> np.ndarray:
    """Hellinger distance between p_i and p of every client."""
    return np.sqrt(((np.sqrt(class_shares(counts)) - np.sqrt(_pooled(counts))) ** 2).sum(axis=1) / 2)


def quantity_gini(counts: np.ndarray) -> float:
    """Gini coefficient of the clients' sizes: 0 when all are equal."""
    sizes = np.sort(counts.sum(axis=1))
    clients = len(sizes)
    # sum_ij |n_i - n_j| = 2 sum_r (2r - K - 1) n_(r) over the sorted sizes, r = 1..K
    return float(((2 * np.arange(1, clients + 1) - clients - 1) * sizes).sum() / (clients * sizes.sum()))


def per_client(counts: np.ndarray) -> pd.DataFrame:
    """One row per client: its size and the measures of the module's table."""
    return pd.DataFrame(
        {
            "samples": counts.sum(axis=1),
            "entropy": entropy(counts),
            "effective_classes": effective_classes(counts),
            "emd": emd(counts),
            "hellinger": hellinger(counts),
        },
        index=pd.RangeIndex(len(counts), name="client"),
    )


def summary(counts: np.ndarray) -> pd.DataFrame:
    """One row per measure: mean, min and max over the clients. The Gini coefficient is one number for all clients."""
    table = per_client(counts).agg(["mean", "min", "max"]).T
    table.loc["quantity_gini"] = quantity_gini(counts)
    return table.rename_axis("measure")


def _pooled(counts: np.ndarray) -> np.ndarray:
    """p(k): the distribution of all clients' samples together."""
    total = counts.sum()
    if total == 0:
        raise ValueError("no client holds a sample, so there is no distribution to compare with: check the partition")
    return counts.sum(axis=0) / total


def _entropy_in_nats(counts: np.ndarray) -> np.ndarray:
    p = class_shares(counts)
    surprise = -np.log(p, out=np.zeros(p.shape), where=p > 0)
    return (p * surprise).sum(axis=1)
