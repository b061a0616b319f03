"""Local training of many clients at once, full gradients, evaluation: the arithmetic that all methods share.

An algorithm calls `train`, `gradients`, `union_gradient` and `evaluate` on flat weight vectors and does not know how they
are computed. `readable` holds the loop that they must equal.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from fedlib.engine import dense, layout
from fedlib.engine.work import Plan, Work, plan

torch.set_num_threads(1)  # sums do not depend on the number of cores; work is spread over processes

CHUNK_BYTES = 256 * 2**20  # a cohort is trained in chunks whose weights and samples stay below this
ROWS = 4096  # full-batch gradients and evaluation go through this many samples at a time, which stay in cache

__all__ = ["Batch", "Work", "evaluate", "gradients", "layout", "train", "union_gradient"]


@dataclass(frozen=True)
class Batch:
    """What a direction may ask about the step at hand."""

    gradient: Callable[[torch.Tensor], torch.Tensor]  # the same minibatches' gradients at other weights (clients, weights)
    positions: torch.Tensor  # which clients of the cohort take this step

    def pick(self, of_cohort: torch.Tensor) -> torch.Tensor:
        """The rows of a tensor (cohort, ...) that belong to the clients of this step."""
        return of_cohort[self.positions]


Direction = Callable[[torch.Tensor, Batch], torch.Tensor]


@torch.no_grad()
def train(
    federation,
    start: torch.Tensor,
    clients: np.ndarray,
    work: Work,
    round: int,
    direction: Direction | None = None,
) -> torch.Tensor:
    """Local training of a cohort from one start (weights,) or one each (clients, weights); the result is stacked.

    `direction(weights, batch)` may give what to descend instead of the minibatch gradients `batch.gradient(weights)`:
    proximal terms, control variates, anchors. All are stacked, (clients, weights); the objective's l2 term is in.
    """
    clients = np.asarray(clients)
    trained = start.expand(len(clients), -1).clone()
    for chunk in _chunks(federation, clients, work):
        prepared = plan(federation, clients[chunk], work, round)
        order = torch.as_tensor(prepared.order) + chunk.start
        stacked = trained[order]
        _descend(federation, stacked, prepared, order, work, direction)
        trained[order] = stacked
    return trained


def _chunks(federation, clients: np.ndarray, work: Work) -> list[slice]:
    per_client = 4 * (2 * federation.start.numel() + 2 * work.batch * federation.x[0].numel())
    width = max(1, CHUNK_BYTES // per_client)
    return [slice(first, min(first + width, len(clients))) for first in range(0, len(clients), width)]


def _descend(federation, weights: torch.Tensor, prepared: Plan, order: torch.Tensor, work: Work, direction) -> None:
    """All steps of one chunk, in place. `weights` are in the plan's order."""
    blocks = layout.blocks(federation.network)
    velocity = torch.zeros_like(weights) if work.momentum else None
    rates = work.lr[order] if isinstance(work.lr, torch.Tensor) else torch.full((len(order),), work.lr)
    for step, active in enumerate(prepared.active):
        x, y = _gather(federation, prepared.rows[step, :active])
        share, now = prepared.share[step, :active], weights[:active]

        def gradient(at, x=x, y=y, share=share):
            found = dense.flat_gradients(blocks, at, x, y, share)
            return found.add_(at, alpha=federation.l2) if federation.l2 else found

        update = direction(now, Batch(gradient, order[:active])) if direction else gradient(now)
        if velocity is not None:
            update = velocity[:active].mul_(work.momentum).add_(update)
        decayed = rates[:active] * work.decay ** prepared.epoch[step, :active]
        now.addcmul_(update, decayed.unsqueeze(1).float(), value=-1)


def _gather(federation, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    flat = rows.flatten()
    return federation.x.index_select(0, flat).unflatten(0, rows.shape), federation.y[flat].unflatten(0, rows.shape)


@torch.no_grad()
def union_gradient(federation, weights: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """Gradient of the clients' pooled objective, sum_i n_i / n * grad f_i(w): the average a server would form."""
    total = sum(_sum_gradient(federation, weights, rows) for rows in _row_chunks(federation, clients))
    samples = float(federation.sizes[torch.as_tensor(clients)].sum())
    return total / samples + federation.l2 * weights


@torch.no_grad()
def gradients(federation, weights: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """Full-batch gradient of each client's own objective at shared (weights,) or own (clients, weights); stacked."""
    each = weights.expand(len(clients), -1)
    return torch.stack([union_gradient(federation, own, [client]) for own, client in zip(each, clients, strict=True)])


def _row_chunks(federation, clients: np.ndarray):
    spans = federation.spans(clients)
    if spans is None:
        rows = torch.cat([federation.rows[client] for client in clients])
        yield from rows.split(ROWS)
        return
    for span in spans:
        for first in range(span.start, span.stop, ROWS):
            yield slice(first, min(first + ROWS, span.stop))


def _sum_gradient(federation, weights: torch.Tensor, rows) -> torch.Tensor:
    x, y = federation.x[rows].unsqueeze(0), federation.y[rows].unsqueeze(0)
    blocks = layout.blocks(federation.network)
    return dense.flat_gradients(blocks, weights.unsqueeze(0), x, y, torch.ones_like(y, dtype=torch.float32))[0]


@torch.no_grad()
def evaluate(federation, weights: torch.Tensor) -> dict[str, float]:
    """Loss and the papers' scores of one model on the full test set."""
    counts = torch.zeros(federation.classes, federation.classes, dtype=torch.int64)  # true class x predicted class
    loss = 0.0
    blocks = layout.blocks(federation.network)
    for first in range(0, len(federation.y_test), ROWS):
        x, y = federation.x_test[first : first + ROWS], federation.y_test[first : first + ROWS]
        scores = dense.logits(blocks, weights, x)
        loss += float(torch.nn.functional.cross_entropy(scores.T, y, reduction="sum"))
        pairs = y * federation.classes + scores.argmax(0)
        counts += torch.bincount(pairs, minlength=counts.numel()).view_as(counts)
    return {"loss": loss / len(federation.y_test), **scores_of(counts)}


def scores_of(counts: torch.Tensor) -> dict[str, float]:
    """Accuracy and averaged precision, recall and F1 from a confusion matrix (true x predicted).

    A class that is never predicted has precision 0. Micro averages pool the counts of all classes first; with one label
    a sample, every wrong answer is one false positive and one false negative, so all three equal the accuracy.
    """
    hits = counts.diagonal().double()
    predicted, true = counts.sum(0).double(), counts.sum(1).double()
    false_positives, false_negatives = (predicted - hits).sum(), (true - hits).sum()
    recall = hits.sum() / (hits.sum() + false_negatives)
    precision = hits.sum() / (hits.sum() + false_positives)
    return {
        "accuracy": float(hits.sum() / counts.sum()),
        "macro_precision": float((hits / predicted.clamp(min=1)).mean()),
        "micro_recall": float(recall),
        "micro_f1": float(2 * precision * recall / (precision + recall).clamp(min=1e-300)),
    }
