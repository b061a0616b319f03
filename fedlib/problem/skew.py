"""How heterogeneous a partition is: numbers and pictures.

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

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.ticker import MaxNLocator, PercentFormatter

FEW_CLIENTS = 30  # up to here a picture shows each client by its number; beyond, clients are sorted into blocks
FEW_CLASSES = 10  # up to here classes have colours of their own; beyond, a scale


def class_counts(labels: np.ndarray, parts: Sequence[np.ndarray], classes: int) -> np.ndarray:
    """Samples per client and class, clients x classes."""
    labels = np.asarray(labels)
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(
            f"labels run from {labels.min()} to {labels.max()}, but classes={classes} allows 0 to {classes - 1}: "
            f"give classes={labels.max() + 1} or relabel"
        )
    return np.stack([np.bincount(labels[part], minlength=classes) for part in parts])


def entropy(counts: np.ndarray) -> np.ndarray:
    """Label entropy of every client as a share of the largest possible, ln C."""
    return _entropy_in_nats(counts) / np.log(max(counts.shape[1], 2))


def effective_classes(counts: np.ndarray) -> np.ndarray:
    """exp(entropy) of every client: the number of equally frequent classes with the same entropy."""
    return np.exp(_entropy_in_nats(counts))


def emd(counts: np.ndarray) -> np.ndarray:
    """sum_k |p_i(k) - p(k)| of every client."""
    return np.abs(_shares(counts) - _pooled(counts)).sum(axis=1)


def hellinger(counts: np.ndarray) -> np.ndarray:
    """Hellinger distance between p_i and p of every client."""
    return np.sqrt(((np.sqrt(_shares(counts)) - np.sqrt(_pooled(counts))) ** 2).sum(axis=1) / 2)


def quantity_gini(counts: np.ndarray) -> float:
    """Gini coefficient of the clients' sizes: 0 when all are equal."""
    sizes = np.sort(counts.sum(axis=1))
    clients = len(sizes)
    # sum_ij |n_i - n_j| = 2 sum_r (2r - K - 1) n_(r) over the sorted sizes, r = 1..K
    return float(((2 * np.arange(1, clients + 1) - clients - 1) * sizes).sum() / (clients * sizes.sum()))


def per_client(labels: np.ndarray, parts: Sequence[np.ndarray], classes: int) -> pd.DataFrame:
    """One row a client: its size and the measures of the module's table."""
    counts = class_counts(labels, parts, classes)
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


def summary(labels: np.ndarray, parts: Sequence[np.ndarray], classes: int) -> pd.DataFrame:
    """One row a measure: mean, min and max over the clients. The Gini coefficient is one number for all clients."""
    table = per_client(labels, parts, classes).agg(["mean", "min", "max"]).T
    table.loc["quantity_gini"] = quantity_gini(class_counts(labels, parts, classes))
    return table.rename_axis("measure")


def heatmap(counts: np.ndarray, ax: Axes | None = None) -> Axes:
    """Samples by client (across) and class (up) as colours; white means none.

    Few clients stand in their own order, with the numbers written in where there is room; many are sorted by their most
    frequent class, so that the split shows as blocks.
    """
    ax = ax or plt.subplots(figsize=(8, 3.6), layout="constrained")[1]
    clients, classes = counts.shape
    shown = counts[_order(counts)].T
    image = ax.imshow(
        # A class is a bundle of thin rows: the smoothing that squeezes clients into fewer pixels cannot blur classes.
        np.repeat(np.ma.masked_equal(shown, 0), 20, axis=0),
        extent=(-0.5, clients - 0.5, -0.5, classes - 0.5),
        aspect="auto",
        origin="lower",
        cmap=sns.color_palette("mako_r", as_cmap=True),
        norm=Normalize(0, max(shown.max(), 1)),
        interpolation="nearest" if clients <= FEW_CLIENTS else "antialiased",
        interpolation_stage="rgba",
    )
    ax.grid(False)
    ax.figure.colorbar(image, ax=ax, label="samples", pad=0.02)
    if clients <= FEW_CLIENTS:
        ax.vlines(np.arange(1, clients) - 0.5, -0.5, classes - 0.5, color="white", linewidth=2)
    if classes <= FEW_CLASSES:
        ax.hlines(np.arange(1, classes) - 0.5, -0.5, clients - 0.5, color="white", linewidth=2)
    if clients <= 12 and classes <= 12:
        _write_numbers(ax, shown)
    ax.set_ylabel("class")
    ax.yaxis.set_major_locator(MaxNLocator(min(classes, 10), integer=True))
    _label_clients(ax, clients)
    return ax


def stacked_bars(counts: np.ndarray, ax: Axes | None = None) -> Axes:
    """A bar a client, cut into its classes' shares; ordered like `heatmap`, so that the two can stand together."""
    ax = ax or plt.subplots(figsize=(8, 3.6), layout="constrained")[1]
    clients, classes = counts.shape
    tops = np.cumsum(np.nan_to_num(_shares(counts[_order(counts)])), axis=1).T
    edges = np.arange(clients + 1) - 0.5
    palette = _class_colours(classes)
    for k, top in enumerate(tops):
        base = tops[k - 1] if k else np.zeros(clients)
        ax.stairs(top, edges, baseline=base, fill=True, color=palette[k], linewidth=0, antialiased=False, label=str(k))
    if clients <= FEW_CLIENTS:
        ax.vlines(edges[1:-1], 0, 1, color=ax.get_facecolor(), linewidth=60 / clients)
    _explain_colours(ax, palette)
    ax.set(ylim=(0, 1), ylabel="share of the client's samples")
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    _label_clients(ax, clients)
    return ax


def _shares(counts: np.ndarray) -> np.ndarray:
    """p_i(k), clients x classes; NaN for a client without samples."""
    sizes = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, sizes, out=np.full(counts.shape, np.nan), where=sizes > 0)


def _pooled(counts: np.ndarray) -> np.ndarray:
    """p(k): the distribution of all clients' samples together."""
    total = counts.sum()
    if total == 0:
        raise ValueError("no client holds a sample, so there is no distribution to compare with: check the partition")
    return counts.sum(axis=0) / total


def _entropy_in_nats(counts: np.ndarray) -> np.ndarray:
    shares = _shares(counts)
    surprise = -np.log(shares, out=np.zeros(shares.shape), where=shares > 0)
    return (shares * surprise).sum(axis=1)


def _order(counts: np.ndarray) -> np.ndarray:
    """Few clients as they are; many by most frequent class, within it by its share from large to small."""
    if len(counts) <= FEW_CLIENTS:
        return np.arange(len(counts))
    return np.lexsort((-np.nan_to_num(_shares(counts)).max(axis=1), counts.argmax(axis=1)))


def _label_clients(ax: Axes, clients: int) -> None:
    few = clients <= FEW_CLIENTS
    ax.set_xlabel("client" if few else f"{clients} clients, sorted by most frequent class")
    ax.set_xlim(-0.5, clients - 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(clients if few else 8, integer=True, steps=[1, 2, 5, 10]))
    ax.tick_params(length=0)
    sns.despine(ax=ax, left=True, bottom=True)


def _write_numbers(ax: Axes, shown: np.ndarray) -> None:
    for (k, client), count in np.ndenumerate(shown):
        if count:
            colour = "white" if count > 0.35 * shown.max() else "black"
            ax.text(client, k, str(count), ha="center", va="center", color=colour, fontsize="small")


def _class_colours(classes: int) -> list:
    return sns.color_palette("colorblind" if classes <= FEW_CLASSES else "viridis", classes)


def _explain_colours(ax: Axes, palette: list) -> None:
    """A legend stacked like the bars, or a scale where there are too many classes to name."""
    if len(palette) <= FEW_CLASSES:
        ax.legend(title="class", reverse=True, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        return
    scale = plt.cm.ScalarMappable(Normalize(-0.5, len(palette) - 0.5), ListedColormap(palette))
    ax.figure.colorbar(scale, ax=ax, label="class", pad=0.02)
