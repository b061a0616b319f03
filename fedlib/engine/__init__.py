"""Local training of many clients at once, full gradients, evaluation: the arithmetic that all methods share.

An algorithm calls `train`, `gradients`, `union_gradient` and `evaluate` on flat weight vectors and does not know how they
are computed: dense networks in compiled loops (`dense`), convolutional ones by autograd (`conv`), clients side by side on
threads. `readable` holds the loop that both must equal.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedlib.engine import conv, crew, dense, tape
from fedlib.engine.products import product, root, weighted_sum
from fedlib.engine.representation import representations
from fedlib.engine.work import Plan, Work, plan, schedule, widest_batch
from fedlib.problem import layout

if TYPE_CHECKING:
    from fedlib.problem.federation import Federation  # which imports this module

torch.set_num_threads(1)  # sums do not depend on the number of cores; work is spread over clients and processes

CHUNK_BYTES = (
    8 * 2**20
)  # a cohort is trained in chunks whose weights and samples stay in the cache, also of two processes
THREAD_FLOPS = 5e7  # work is shared out to threads when each gets at least this much
STACK_BYTES = 2**30  # averaging trains a cohort in parts whose models fit into this, however large the cohort
ROWS = 1024  # full-batch gradients and evaluation go through this many samples at a time

__all__ = [
    "Batch",
    "Work",
    "evaluate",
    "gradients",
    "layout",
    "product",
    "representations",
    "root",
    "step_on_rows",
    "train",
    "train_mean",
    "union_gradient",
    "weighted_sum",
]


Direction = Callable[[torch.Tensor, "Batch"], torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor, "Batch"], torch.Tensor]


@dataclass(eq=False)
class Batch:
    """The minibatches of one step, and the functions of weights that they define; its clients come first in all tensors.

    Samples are gathered when they are first asked for. (Methods, not closures: what holds itself is freed late.)
    """

    federation: "Federation"
    rows: torch.Tensor  # which rows of the federation's x these are (clients, batch); padding repeats some row
    share: torch.Tensor  # weight of each sample in its client's mean, 0 for padding
    positions: torch.Tensor  # which clients of the cohort take this step
    loss: Loss | None = None  # instead of the mean cross-entropy

    @cached_property
    def x(self) -> torch.Tensor:
        """Samples (clients, batch, ...), images as floats."""
        x = self.federation.x.index_select(0, self.rows.flatten()).unflatten(0, self.rows.shape)
        return x if self.federation.dense else conv.images(x)

    @cached_property
    def y(self) -> torch.Tensor:
        """Labels (clients, batch)."""
        return self.federation.y[self.rows]

    def pick(self, of_cohort: torch.Tensor) -> torch.Tensor:
        """The rows of a tensor (cohort, ...) that belong to the clients of this step."""
        return of_cohort.index_select(0, self.positions)

    def cross_entropy(self, logits: torch.Tensor) -> torch.Tensor:
        """Each client's mean cross-entropy, (clients,)."""
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.y.flatten(), reduction="none")
        return (losses.view_as(self.share) * self.share).sum(1)

    def outputs(self, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Representation and logits at any weights (clients, weights)."""
        if self.federation.dense:
            return tape.outputs(self.federation.blocks, at, self.x)
        network = self.federation.network
        found = [conv.outputs(network, own, images) for own, images in zip(at, self.x, strict=True)]
        seen, logits = zip(*found, strict=True)
        return _stack(seen), _stack(logits)

    def gradient(self, at: torch.Tensor) -> torch.Tensor:
        """These minibatches' gradients at any weights (clients, weights)."""
        federation = self.federation
        if self.loss is not None:
            found = self._autograd(at)
        elif federation.dense:
            x, y = federation.x, federation.y
            return dense.stacked_gradients(federation.blocks, at, x, y, self.rows, self.share, federation.l2)
        else:
            each = zip(at, self.x, self.y, self.share, strict=True)
            found = _stack([conv.gradient(federation.network, *one) for one in each])
        return found.add_(at, alpha=federation.l2) if federation.l2 else found

    def difference(self, at: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        """gradient(at) - gradient(reference), cheaper."""
        federation = self.federation
        if torch.equal(at, reference):
            return torch.zeros_like(at)
        if self.loss is not None or not federation.dense or len(federation.blocks) > 1:
            return self.gradient(at) - self.gradient(reference)
        return dense.softmax_difference(
            federation.blocks, at, reference, federation.x, self.rows, self.share, federation.l2
        )

    def _autograd(self, at: torch.Tensor) -> torch.Tensor:
        if not self.federation.dense and len(at) == 1:
            return conv.objective_gradient(self.federation.network, at[0], self.x[0], self._loss_of_one).unsqueeze(0)
        with torch.enable_grad():
            leaf = at.detach().requires_grad_()
            return torch.autograd.grad(self.loss(*self.outputs(leaf), self).sum(), leaf)[0]

    def _loss_of_one(self, seen: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        return self.loss(seen.unsqueeze(0), logits.unsqueeze(0), self).sum()


@torch.no_grad()
def train(
    federation,
    start: torch.Tensor,
    clients: np.ndarray,
    work: Work,
    round: int,
    direction: Direction | None = None,
    loss: Loss | None = None,
    pull: float = 0.0,
    shift: torch.Tensor | None = None,
) -> torch.Tensor:
    """Local training of a cohort from one start (weights,) or one each (clients, weights); the result is stacked.

    Clients descend the gradients of their minibatches, with four ways to change that. `pull` * weights and `shift`, the
    same (weights,) or one each (clients, weights), are added to every gradient: proximal terms and control variates.
    `direction(weights, batch)` gives what to descend instead of `batch.gradient(weights)`, whatever it is. `loss(
    representation, logits, batch)` replaces the clients' mean cross-entropy (clients,) by any other loss of these:
    contrastive terms, discrepancies. All tensors are stacked, the clients first; the objective's l2 term is always in.
    """
    clients = np.asarray(clients)
    starts = start.expand(len(clients), -1)
    shift = shift if shift is None or shift.ndim == 2 else shift.unsqueeze(0)
    if federation.dense and not direction and not loss:
        return _train_compiled(federation, starts, clients, work, round, pull, shift)
    descended = _added(direction, pull, shift) if pull or shift is not None else direction
    return _train_stacked(federation, starts, clients, work, round, descended, loss)


def _train_compiled(
    federation, starts: torch.Tensor, clients: np.ndarray, work: Work, round: int, pull, shift
) -> torch.Tensor:
    trained = torch.empty(starts.shape)

    def train_part(part: slice) -> None:
        trained[part] = starts[part]
        lr = work.lr[part] if isinstance(work.lr, torch.Tensor) else work.lr
        prepared = schedule(federation, clients[part], replace(work, lr=lr), round)
        own_shift = shift if shift is None or len(shift) == 1 else shift[part]
        dense.descend(federation, trained[part], prepared, work, federation.l2 + pull, own_shift)

    passes = work.epochs or (work.steps if work.batch is None else 0)
    samples = passes * int(federation.sizes[torch.as_tensor(clients)].sum()) or len(clients) * work.steps * work.batch
    crew.share_out(train_part, _parts(len(clients), 6 * federation.start.numel() * samples))
    return trained


def _parts(count: int, flops: float) -> list[slice]:
    """Clients in parts for the threads: several for each thread where there is enough to do, so that none waits long."""
    threads = crew.threads()
    parts = 1 if threads == 1 else min(count, int(flops // THREAD_FLOPS)) or 1
    return _slices(count, parts)


def _slices(count: int, parts: int) -> list[slice]:
    ends = [count * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]


def _added(direction: Direction | None, pull: float, shift: torch.Tensor | None) -> Direction:
    """The direction that `pull` and `shift` make of another."""

    def added(weights: torch.Tensor, batch: Batch) -> torch.Tensor:
        found = direction(weights, batch) if direction else batch.gradient(weights)
        found = found.add(weights, alpha=pull)
        return found if shift is None else found.add_(shift if len(shift) == 1 else batch.pick(shift))

    return added


def _train_stacked(
    federation, starts: torch.Tensor, clients: np.ndarray, work: Work, round: int, direction, loss
) -> torch.Tensor:
    trained = starts.clone(memory_format=torch.contiguous_format)
    # One width for the whole cohort: padding changes how a loss is summed up, and threads must not.
    stacked_width = widest_batch(federation, clients, work) if federation.dense else None

    def train_chunk(chunk: slice) -> None:
        width = stacked_width or widest_batch(federation, clients[chunk], work)
        prepared = plan(federation, clients[chunk], work, round, width)
        order = torch.as_tensor(prepared.order) + chunk.start
        # Equal clients need no sorting, so no copies; but autograd wants weights that no other thread writes beside.
        in_place = loss is None and bool((prepared.order[1:] > prepared.order[:-1]).all())
        stacked = trained[chunk] if in_place else trained[order]
        _descend(federation, stacked, prepared, order, work, direction, loss)
        if not in_place:
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
    **hooks,
) -> torch.Tensor:
    """sum_i shares_i * w_i of the clients trained from one start, in bounded memory: the step of plain averaging.

    `hooks` as in `train`; they see parts of the cohort, so `batch.pick` has no meaning for them, nor has one shift a client.
    """
    clients = np.asarray(clients)
    width = max(1, STACK_BYTES // (4 * start.numel()))
    parts = [slice(first, first + width) for first in range(0, len(clients), width)]
    trained = (train(federation, start, clients[part], work, round, **hooks) for part in parts)
    means = (weighted_sum(shares[part], models) for part, models in zip(parts, trained, strict=True))
    return reduce(torch.add, means)


def _chunks(federation, clients: np.ndarray, work: Work) -> list[slice]:
    """One client a chunk for convolutional networks; stacked ones as wide as memory allows and threads can use."""
    count = len(clients)
    if federation.dense:
        weights, batch = federation.start.numel(), work.batch or widest_batch(federation, clients, work)
        width = max(1, CHUNK_BYTES // (4 * (2 * weights + 2 * batch * federation.x[0].numel())))
        useful = min(crew.threads(), int(len(clients) * 6 * weights * batch // THREAD_FLOPS)) or 1
        count = min(count, -(-count // (width * useful)) * useful)  # each thread gets as many chunks as the others
    return _slices(len(clients), count)


def _descend(
    federation, weights: torch.Tensor, prepared: Plan, order: torch.Tensor, work: Work, direction, loss
) -> None:
    """All steps of one chunk, in place. `weights` are in the plan's order."""
    velocity = torch.zeros_like(weights) if work.momentum else None
    rates_of = _rates(work, prepared, order)
    for step, active in enumerate(prepared.active):
        now = weights[:active]
        rows, share = _without_padding(federation, prepared.rows[step, :active], prepared.share[step, :active])
        batch = Batch(federation, rows, share, order[:active], loss)
        update = direction(now, batch) if direction else batch.gradient(now)
        if velocity is not None:
            update = torch.add(update, velocity[:active], alpha=work.momentum, out=velocity[:active])
        rates = rates_of(step)
        if isinstance(rates, float):
            now.sub_(update, alpha=rates)
        else:
            now.addcmul_(update, rates[:active], value=-1)


def _without_padding(federation, rows: torch.Tensor, share: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Convolutional clients are trained one by one, so padding would be waste."""
    length = rows.shape[1] if federation.dense else int(share.count_nonzero())
    return rows[:, :length], share[:, :length]


def _rates(work: Work, prepared: Plan, clients: torch.Tensor) -> Callable[[int], torch.Tensor | float]:
    """The step sizes of each step: one number where all clients share it, else a column, one each."""
    shared = not isinstance(work.lr, torch.Tensor)
    if shared and work.decay == 1.0:
        return lambda step: float(work.lr)
    base = torch.full((len(clients), 1), work.lr) if shared else work.lr[clients].unsqueeze(1)
    if work.decay == 1.0:
        return lambda step: base
    return lambda step: base * (work.decay ** prepared.epoch[step]).float().unsqueeze(1)


def _stack(found: list[torch.Tensor]) -> torch.Tensor:
    """Stacked, without a copy where there is only one."""
    return found[0].unsqueeze(0) if len(found) == 1 else torch.stack(found)


@torch.no_grad()
def step_on_rows(federation, weights: torch.Tensor, rows: list[torch.Tensor], lr: float) -> torch.Tensor:
    """One SGD step of each model (models, weights) on its own rows of x.

    Devices that start from one model, take one step each and are averaged by batch size make exactly this step on the
    union of their batches, at a fraction of the cost.
    """

    stepped = torch.empty_like(weights)

    def step(model: int) -> None:
        own, chosen = weights[model], rows[model].unsqueeze(0)
        share = torch.full(chosen.shape, 1 / chosen.numel())
        batch = Batch(federation, chosen, share, torch.zeros(1, dtype=torch.int64))
        torch.sub(own, batch.gradient(own.unsqueeze(0))[0], alpha=lr, out=stepped[model])

    crew.share_out(step, range(len(weights)))
    return stepped


@torch.no_grad()
def union_gradient(federation, weights: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """Gradient of the clients' pooled objective, sum_i n_i / n * grad f_i(w): the average a server would form."""
    rows = torch.cat([federation.rows[client] for client in clients])
    total = sum(_sum_gradient(federation, weights, part) for part in rows.split(ROWS))
    samples = float(federation.sizes[torch.as_tensor(clients)].sum())
    return total / samples + federation.l2 * weights


@torch.no_grad()
def gradients(federation, weights: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """Full-batch gradient of each client's own objective at shared (weights,) or own (clients, weights); stacked."""
    each = weights.expand(len(clients), -1)
    if not federation.dense:
        return torch.stack(
            [union_gradient(federation, own, [client]) for own, client in zip(each, clients, strict=True)]
        )
    sizes = federation.sizes[torch.as_tensor(clients)].numpy().astype(np.int64)
    last = np.cumsum(sizes)
    rows = torch.cat([federation.rows[client] for client in clients])
    share = torch.from_numpy((1 / sizes).astype(np.float32).repeat(sizes))
    return dense.gradients(
        federation.blocks, each.contiguous(), federation.x, federation.y, rows, share, last - sizes, last, federation.l2
    )


def _sum_gradient(federation, weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    share = torch.ones(len(rows))
    if federation.dense:
        x, y, one = federation.x, federation.y, weights.unsqueeze(0)
        return dense.stacked_gradients(federation.blocks, one, x, y, rows.unsqueeze(0), share.unsqueeze(0))[0]
    images = conv.images(federation.x.index_select(0, rows))
    return conv.gradient(federation.network, weights, images, federation.y[rows], share)


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
    if federation.dense:
        logits = dense.logits(federation.blocks, weights, x)
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
