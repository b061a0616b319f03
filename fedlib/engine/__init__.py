"""Local training of many clients at once, full gradients, evaluation: the arithmetic that all methods share.

An algorithm calls `train`, `gradients`, `union_gradient` and `evaluate` on flat weight vectors and does not know how they
are computed: dense networks train stacked (`dense`), convolutional ones client by client on threads (`conv`). `readable`
holds the loop that both must equal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch

from fedlib.engine import conv, crew, dense, layout
from fedlib.engine.products import product, root, weighted_sum
from fedlib.engine.work import Plan, Work, plan, widest_batch

torch.set_num_threads(1)  # sums do not depend on the number of cores; work is spread over clients and processes

CHUNK_BYTES = 8 * 2**20  # a cohort is trained in chunks whose weights and samples stay in the cache
THREAD_FLOPS = 5e7  # a step of a stacked chunk is shared out to threads when each gets at least this much
STACK_BYTES = 2**30  # averaging trains a cohort in parts whose models fit into this, however large the cohort
ROWS = 4096  # full-batch gradients and evaluation go through this many samples at a time

__all__ = [
    "Batch", "Work", "evaluate", "gradients", "layout", "product", "root", "step_on_rows", "train", "train_mean",
    "union_gradient", "weighted_sum",
]  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """What a direction or a loss may ask about the step at hand; the clients of the step come first in all tensors."""

    gradient: Callable[[torch.Tensor], torch.Tensor]  # these minibatches' gradients at any weights (clients, weights)
    difference: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # gradient(first) - gradient(second), cheaper
    outputs: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]  # representation and logits at any weights
    rows: torch.Tensor  # which rows of the federation's x these are (clients, batch); padding repeats some row
    y: torch.Tensor  # labels (clients, batch)
    share: torch.Tensor  # weight of each sample in its client's mean, 0 for padding
    positions: torch.Tensor  # which clients of the cohort take this step

    def pick(self, of_cohort: torch.Tensor) -> torch.Tensor:
        """The rows of a tensor (cohort, ...) that belong to the clients of this step."""
        return of_cohort[self.positions]

    def cross_entropy(self, logits: torch.Tensor) -> torch.Tensor:
        """Each client's mean cross-entropy, (clients,)."""
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.y.flatten(), reduction="none")
        return (losses.view_as(self.share) * self.share).sum(1)


Direction = Callable[[torch.Tensor, Batch], torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor, Batch], torch.Tensor]


@torch.no_grad()
def train(
    federation,
    start: torch.Tensor,
    clients: np.ndarray,
    work: Work,
    round: int,
    direction: Direction | None = None,
    loss: Loss | None = None,
) -> torch.Tensor:
    """Local training of a cohort from one start (weights,) or one each (clients, weights); the result is stacked.

    `direction(weights, batch)` may give what to descend instead of the minibatch gradients `batch.gradient(weights)`:
    proximal terms, control variates, anchors. `loss(representation, logits, batch)` may replace the clients' mean
    cross-entropy (clients,) by any other loss of these: contrastive terms, discrepancies. All tensors are stacked, the
    clients first; the objective's l2 term is always in.
    """
    clients = np.asarray(clients)
    trained = start.expand(len(clients), -1).clone()
    # One width for the whole cohort: padding changes how sums are cut up, and threads must not.
    stacked_width = widest_batch(federation, clients, work) if layout.is_dense(federation.network) else None

    def train_chunk(chunk: slice) -> None:
        width = stacked_width or widest_batch(federation, clients[chunk], work)
        prepared = plan(federation, clients[chunk], work, round, width)
        order = torch.as_tensor(prepared.order) + chunk.start
        stacked = trained[order]
        _descend(federation, stacked, prepared, order, work, direction, loss)
        trained[order] = stacked

    crew.share_out(train_chunk, _chunks(federation, clients, work))
    return trained


def train_mean(
    federation,
    start: torch.Tensor,
    clients: np.ndarray,
    work: Work,
    round: int,
    shares: torch.Tensor,
    direction: Direction | None = None,
    loss: Loss | None = None,
) -> torch.Tensor:
    """sum_i shares_i * w_i of the clients trained from one start, in bounded memory: the step of plain averaging.

    `direction` and `loss` as in `train`; they see parts of the cohort, so `batch.pick` has no meaning for them.
    """
    clients = np.asarray(clients)
    width = max(1, STACK_BYTES // (4 * start.numel()))
    parts = [slice(first, first + width) for first in range(0, len(clients), width)]
    trained = (train(federation, start, clients[part], work, round, direction, loss) for part in parts)
    means = (weighted_sum(shares[part], models) for part, models in zip(parts, trained, strict=True))
    return reduce(torch.add, means)


def _chunks(federation, clients: np.ndarray, work: Work) -> list[slice]:
    """One client a chunk for convolutional networks; stacked ones as wide as memory allows and threads can use."""
    width = 1
    if layout.is_dense(federation.network):
        weights = federation.start.numel()
        width = max(1, CHUNK_BYTES // (4 * (2 * weights + 2 * work.batch * federation.x[0].numel())))
        useful = int(len(clients) * 6 * weights * work.batch // THREAD_FLOPS)
        width = min(width, -(-len(clients) // max(1, min(crew.threads(), useful))))
    return [slice(first, min(first + width, len(clients))) for first in range(0, len(clients), width)]


def _descend(federation, weights: torch.Tensor, prepared: Plan, order: torch.Tensor, work: Work, direction, loss) -> None:
    """All steps of one chunk, in place. `weights` are in the plan's order."""
    stacked = layout.is_dense(federation.network) and not direction and not loss
    blocks = layout.blocks(federation.network)
    fast = dense.Momentum(blocks, weights, work.momentum, federation.l2) if stacked else None
    velocity = torch.zeros_like(weights) if work.momentum and not stacked else None
    for step, active in enumerate(prepared.active):
        now, rates = weights[:active], _rates(work, prepared, step, order[:active])
        rows, share = prepared.rows[step, :active], prepared.share[step, :active]
        if stacked:
            fast.step(now, *_gather(federation, rows), share, rates)
            continue
        batch = _batch(federation, rows, share, order[:active], loss)
        update = direction(now, batch) if direction else batch.gradient(now)
        if velocity is not None:
            update = velocity[:active].mul_(work.momentum).add_(update)
        now.sub_(update.mul(rates) if isinstance(rates, float) else update * rates.unsqueeze(1))


def _rates(work: Work, prepared: Plan, step: int, clients: torch.Tensor) -> torch.Tensor | float:
    """The step sizes at hand: one number where all clients share it, else one each."""
    shared = not isinstance(work.lr, torch.Tensor)
    if shared and work.decay == 1.0:
        return float(work.lr)
    base = torch.full((len(clients),), work.lr) if shared else work.lr[clients]
    return base * (work.decay ** prepared.epoch[step, : len(clients)]).float()


def _batch(federation, rows: torch.Tensor, share: torch.Tensor, positions: torch.Tensor, loss: Loss | None) -> Batch:
    """The minibatches of one step with the functions of weights that they define."""
    x, y = _gather(federation, rows)
    network, blocks = federation.network, layout.blocks(federation.network)

    def outputs(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if layout.is_dense(network):
            return dense.outputs(blocks, at, x)
        seen, logits = zip(*[conv.outputs(network, own, images) for own, images in zip(at, x, strict=True)], strict=True)
        return torch.stack(seen), torch.stack(logits)

    def gradient(at: torch.Tensor) -> torch.Tensor:
        if loss is None and layout.is_dense(network):
            found = dense.flat_gradients(blocks, at, x, y, share)
        elif loss is None:
            found = torch.stack([conv.gradient(network, *each) for each in zip(at, x, y, share, strict=True)])
        else:
            found = _autograd(at)
        return found.add_(at, alpha=federation.l2) if federation.l2 else found

    def difference(at: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        if loss is not None or not layout.is_dense(network) or len(blocks) > 1:
            return gradient(at) - gradient(reference)
        found = dense.softmax_difference(blocks, at, reference, x, share)
        return found.add_(at - reference, alpha=federation.l2) if federation.l2 else found

    def _autograd(at: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            leaf = at.detach().requires_grad_()
            return torch.autograd.grad(loss(*outputs(leaf), batch).sum(), leaf)[0]

    batch = Batch(gradient, difference, outputs, rows, y, share, positions)
    return batch


def _gather(federation, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples and labels of these rows, in the shape of `rows`; images as floats."""
    flat = rows.flatten()
    x = federation.x.index_select(0, flat).unflatten(0, rows.shape)
    return x if layout.is_dense(federation.network) else conv.images(x), federation.y[flat].view(rows.shape)


@torch.no_grad()
def step_on_rows(federation, weights: torch.Tensor, rows: list[torch.Tensor], lr: float) -> torch.Tensor:
    """One SGD step of each model (models, weights) on its own rows of x.

    Devices that start from one model, take one step each and are averaged by batch size make exactly this step on the
    union of their batches, at a fraction of the cost.
    """

    def step(model: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        own, chosen = model
        share = torch.full((1, len(chosen)), 1 / len(chosen))
        batch = _batch(federation, chosen.unsqueeze(0), share, torch.zeros(1, dtype=torch.int64), None)
        return own - lr * batch.gradient(own.unsqueeze(0))[0]

    return torch.stack(crew.share_out(step, zip(weights, rows, strict=True)))


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
    x, y = federation.x[rows], federation.y[rows]
    share = torch.ones(len(y))
    if layout.is_dense(federation.network):
        blocks = layout.blocks(federation.network)
        return dense.flat_gradients(blocks, weights.unsqueeze(0), x.unsqueeze(0), y.unsqueeze(0), share.unsqueeze(0))[0]
    return conv.gradient(federation.network, weights, conv.images(x), y, share)


@torch.no_grad()
def evaluate(federation, weights: torch.Tensor) -> dict[str, float]:
    """Loss and the papers' scores of one model on the full test set."""
    parts = range(0, len(federation.y_test), ROWS)
    found = crew.share_out(lambda first: _evaluate_rows(federation, weights, slice(first, first + ROWS)), parts)
    loss, counts = sum(loss for loss, _ in found), sum(counts for _, counts in found)
    return {"loss": loss / len(federation.y_test), **scores_of(counts)}


def _evaluate_rows(federation, weights: torch.Tensor, rows: slice) -> tuple[float, torch.Tensor]:
    """Summed loss and the confusion matrix (true class x predicted class) on some rows of the test set."""
    x, y = federation.x_test[rows], federation.y_test[rows]
    if layout.is_dense(federation.network):
        logits = dense.logits(layout.blocks(federation.network), weights, x).T
    else:
        logits = conv.outputs(federation.network, weights, conv.images(x))[1]
    loss = float(torch.nn.functional.cross_entropy(logits, y, reduction="sum"))
    pairs = y * federation.classes + logits.argmax(1)
    counts = torch.bincount(pairs, minlength=federation.classes**2)
    return loss, counts.view(federation.classes, federation.classes)


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
