"""Outputs of a model on samples, and its scores. These functions take weights and samples, not a federation."""

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from fedlib.engine import convolution, dense, threads
from fedlib.problem import Network

ROWS = 1024  # samples at a time: their activations stay in the cache


@torch.no_grad()
def outputs(network: Network, weights: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Representation (samples, units) and logits (samples, classes) of one model for stored samples."""
    if not network.dense:
        return convolution.outputs(network.layers, weights, convolution.inputs(network, x))
    representation, logits = dense.outputs(network.blocks, weights.unsqueeze(0), x.unsqueeze(0))
    return representation[0], logits[0]


@torch.no_grad()
def logits_of(network: Network, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Logits (samples, classes) of one model for stored samples, on all threads."""
    return torch.cat(threads.share_out(lambda part: _logits(network, weights, part), x.split(ROWS)))


def _logits(network: Network, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if network.dense:
        return dense.logits(network.blocks, weights, x)
    return convolution.outputs(network.layers, weights, convolution.inputs(network, x))[1]


@torch.no_grad()
def mean_loss(network: Network, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> float:
    """Mean cross-entropy of one model on these samples."""
    return _scored(network, weights, x, y)[0] / len(y)


@torch.no_grad()
def evaluate(network: Network, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """Loss and the papers' scores of one model on stored samples x with labels y."""
    loss, confusion = _scored(network, weights, x, y)
    return {"loss": loss / len(y), **scores_of(confusion)}


def _scored(network: Network, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Summed loss and the confusion matrix."""
    parts = list(zip(x.split(ROWS), y.split(ROWS), strict=True))
    pairs = threads.share_out(lambda part: _scored_part(network, weights, *part), parts)
    return _added_up(pairs)


def _added_up(pairs: list[tuple[float, torch.Tensor]]) -> tuple[float, torch.Tensor]:
    """Losses and confusion matrices of several parts, together."""
    return sum(loss for loss, _ in pairs), torch.stack([confusion for _, confusion in pairs]).sum(0)


def _scored_part(
    network: Network, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor
) -> tuple[float, torch.Tensor]:
    logits = _logits(network, weights, x)
    loss = float(functional.cross_entropy(logits, y, reduction="sum"))
    pairs = y * network.classes + logits.argmax(1)
    counts = torch.bincount(pairs, minlength=network.classes**2)
    return loss, counts.view(network.classes, network.classes)


@torch.no_grad()
def evaluate_each(
    network: Network, models: torch.Tensor, x: torch.Tensor, y: torch.Tensor, rows: Sequence[torch.Tensor]
) -> list[dict[str, float]]:
    """As `evaluate` for several models, each on rows of its own."""

    def judge(pair: tuple[torch.Tensor, torch.Tensor]) -> dict[str, float]:
        weights, chosen = pair
        loss, confusion = _scored_part(network, weights, x[chosen], y[chosen])
        return {"loss": loss / len(chosen), **scores_of(confusion)}

    return threads.share_out(judge, zip(models, rows, strict=True))


@torch.no_grad()
def evaluate_personal(
    network: Network,
    model_of: Callable[[int], torch.Tensor],
    x: torch.Tensor,
    y: torch.Tensor,
    owners: torch.Tensor,
) -> dict[str, float]:
    """As `evaluate`, but every sample is judged by the model of the client that owns it."""

    def judge(client: int) -> tuple[float, torch.Tensor]:
        owned = owners == client
        return _scored_part(network, model_of(client), x[owned], y[owned])

    loss, confusion = _added_up(threads.share_out(judge, owners.unique().tolist()))
    return {"loss": loss / len(y), **scores_of(confusion)}


def scores_of(confusion: torch.Tensor) -> dict[str, float]:
    """Accuracy and averaged precision, recall and F1 from a confusion matrix (true x predicted).

    A class that is never predicted has precision 0. Micro averages pool the counts of all classes first; with one label
    per sample, every wrong answer is one false positive and one false negative, so all three equal the accuracy.
    """
    hits = confusion.diagonal().double()
    predicted, true = confusion.sum(0).double(), confusion.sum(1).double()
    false_positives, false_negatives = (predicted - hits).sum(), (true - hits).sum()
    recall = hits.sum() / (hits.sum() + false_negatives)
    precision = hits.sum() / (hits.sum() + false_positives)
    return {
        "accuracy": float(hits.sum() / confusion.sum()),
        "macro_precision": float((hits / predicted.clamp(min=1)).mean()),
        "micro_recall": float(recall),
        "micro_f1": float(2 * precision * recall / (precision + recall).clamp(min=1e-300)),
    }
