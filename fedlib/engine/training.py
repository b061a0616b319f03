"""Local training of many clients at once, and the plain average of their models.

A client's training depends on nothing but the client: everything that belongs to it travels in a `Cohort`, so splitting
a cohort over threads or into parts that fit into memory can never misassign it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import torch

from fedlib.engine import dense, threads
from fedlib.engine.batch import Batch, gathered
from fedlib.engine.exact import weighted_sum
from fedlib.engine.minibatches import Minibatches, Work, draw
from fedlib.problem import Federation

# Clients are stacked in chunks whose weights and samples stay in the cache, even if two processes share it.
CHUNK_BYTES = 8 * 2**20
STACK_BYTES = 2**30  # averaging trains a cohort in parts whose models fit into this, however large the cohort

Memory = Mapping[str, torch.Tensor]
Step = Callable[[torch.Tensor, Memory, Batch], tuple[torch.Tensor, Memory]]


@dataclass(frozen=True, eq=False)
class Cohort:
    """Clients that train side by side, and all that belongs to each of them: row i of everything is client i's.

    A single vector where rows are expected is shared by all clients.
    """

    clients: np.ndarray
    weights: torch.Tensor  # where each client starts, (clients, weights)
    rates: torch.Tensor | None = None  # own step sizes instead of the work's, (clients,)
    limit: np.ndarray | None = None  # take at most this many minibatches, (clients,); stragglers
    correction: torch.Tensor | None = None  # added to every gradient, (clients, weights): control variates
    memory: Memory = field(default_factory=dict)  # what a step reads and changes, (clients, ...) each

    def __post_init__(self):
        object.__setattr__(self, "clients", np.asarray(self.clients))
        count = len(self.clients)
        object.__setattr__(self, "weights", _rows(self.weights, count))
        if self.correction is not None:
            object.__setattr__(self, "correction", _rows(self.correction, count))
        given = {"weights": self.weights, "rates": self.rates, "limit": self.limit, "correction": self.correction}
        for name, values in (given | dict(self.memory)).items():
            if values is not None and len(values) != count:
                raise ValueError(
                    f"{name} has {len(values)} rows, but there are {count} clients: give one row per client"
                )
        if self.rates is not None and not bool((torch.isfinite(self.rates) & (self.rates >= 0)).all()):
            raise ValueError(f"rates={self.rates.tolist()} must be finite and not negative")
        if self.limit is not None and (np.asarray(self.limit) < 0).any():
            raise ValueError(f"limit={np.asarray(self.limit).tolist()} must be numbers of minibatches, 0 or more")

    def part(self, chosen: slice | np.ndarray) -> "Cohort":
        """Some of the clients, with all that belongs to them."""
        return Cohort(
            self.clients[chosen],
            self.weights[chosen],
            None if self.rates is None else self.rates[chosen],
            None if self.limit is None else self.limit[chosen],
            None if self.correction is None else self.correction[chosen],
            {name: values[chosen] for name, values in self.memory.items()},
        )


def _rows(vectors: torch.Tensor, count: int) -> torch.Tensor:
    return vectors.expand(count, -1) if vectors.ndim == 1 else vectors


@dataclass(frozen=True, eq=False)
class Trained:
    """The result of training a cohort, one row per client."""

    weights: torch.Tensor
    memory: Memory
    steps: np.ndarray  # minibatches taken
    losses: torch.Tensor  # mean loss over the samples seen while training, float64; NaN unless asked for


@torch.no_grad()
def train(
    federation: Federation,
    cohort: Cohort,
    work: Work,
    round: int,
    *,
    step: Step | None = None,
    proximal: float = 0.0,
    losses: bool = False,
) -> Trained:
    """Local training of a cohort.

    Clients descend the gradients of their minibatches, plus the cohort's `correction` and `proximal` * (weights -
    start). `step(weights, memory, batch)` replaces the gradient by any direction: it gets the stacked weights and
    memory of the clients that take the step and returns the direction to descend and the memory that it changes.
    `losses` asks for the mean loss that each client sees while training.
    """
    if federation.network.dense and step is None:
        return _train_compiled(federation, cohort, work, round, proximal, losses)
    return _train_stepwise(federation, cohort, work, round, step or _plain_step, proximal, losses)


def _plain_step(weights: torch.Tensor, memory: Memory, batch: Batch) -> tuple[torch.Tensor, Memory]:
    return batch.gradient(weights), {}


def _shift(cohort: Cohort, proximal: float) -> torch.Tensor | None:
    """What is added to every gradient besides multiples of the weights; a single row if it is the same for all."""
    if not proximal:
        return None if cohort.correction is None else _compact(cohort.correction)
    pulled = -proximal * _compact(cohort.weights)
    return pulled if cohort.correction is None else cohort.correction + pulled


def _compact(rows: torch.Tensor) -> torch.Tensor:
    """One row where all are the same by construction."""
    return rows if rows.stride(0) else rows[:1]


# ---------------------------------------------------------------- dense networks, compiled loops


def _train_compiled(
    federation: Federation, cohort: Cohort, work: Work, round: int, proximal: float, losses: bool
) -> Trained:
    count = len(cohort.clients)
    trained = torch.empty(cohort.weights.shape)
    steps, seen = np.zeros(count, dtype=np.int64), torch.full((count,), torch.nan, dtype=torch.float64)

    def train_part(chosen: slice) -> None:
        part = cohort.part(chosen)
        minibatches = draw(federation, part.clients, work, round, part.rates, part.limit)
        trained[chosen], steps[chosen] = part.weights, minibatches.counts
        l2 = federation.l2 + work.weight_decay + proximal
        part_losses = seen[chosen].numpy() if losses else dense.NO_LOSSES
        x, y, arrays = _compiled_arrays(federation, minibatches)
        blocks, shift = federation.network.blocks, _shift(part, proximal)
        dense.descend(blocks, trained[chosen], x, y, arrays, work.momentum, l2, shift, part_losses)

    flops = 6 * federation.network.size * work.samples(federation.sizes[torch.as_tensor(cohort.clients)])
    threads.share_out(train_part, threads.parts(count, flops))
    return Trained(trained, cohort.memory, steps, seen)


def _compiled_arrays(federation: Federation, minibatches: Minibatches) -> tuple[torch.Tensor, torch.Tensor, tuple]:
    """Samples, labels and minibatches; cropped and flipped samples are made first, one after another."""
    rows, rest = minibatches.rows, (minibatches.first, minibatches.last, minibatches.spans, minibatches.rates)
    if minibatches.draws is None:
        return federation.x, federation.y, (rows, *rest)
    chosen = torch.from_numpy(rows)
    x, y = gathered(federation, chosen, minibatches.draws), federation.y[chosen]
    return x, y, (np.arange(len(rows)), *rest)


# ---------------------------------------------------------------- any network, any direction, step by step


def _train_stepwise(
    federation: Federation, cohort: Cohort, work: Work, round: int, step: Step, proximal: float, losses: bool
) -> Trained:
    count = len(cohort.clients)
    weights, steps = torch.empty(cohort.weights.shape), np.zeros(count, dtype=np.int64)
    seen = torch.full((count,), torch.nan, dtype=torch.float64)

    def train_chunk(chosen: slice) -> tuple[torch.Tensor, Memory]:
        part = cohort.part(chosen)
        minibatches = draw(federation, part.clients, work, round, part.rates, part.limit)
        order = np.argsort(-minibatches.counts, kind="stable")  # those that take more steps first
        rows = torch.as_tensor(order) + chosen.start
        ordered = part if (np.diff(order) > 0).all() else part.part(order)
        trained = _descend(federation, ordered, minibatches, order, work, step, proximal, losses)
        weights[rows], seen[rows] = trained.weights, trained.losses
        steps[chosen] = minibatches.counts
        return rows, trained.memory

    changes = threads.share_out(train_chunk, chunks(federation, count, work))
    return Trained(weights, _remembered(cohort.memory, changes), steps, seen)


def _remembered(memory: Memory, changes: list[tuple[torch.Tensor, Memory]]) -> Memory:
    """The memory with what the chunks changed; what no step changed is not copied."""
    after = dict(memory)
    for name in {name for _, changed in changes for name in changed}:
        after[name] = memory[name].clone()
        for rows, changed in changes:
            if name in changed:
                after[name][rows] = changed[name]
    return after


def chunks(federation: Federation, count: int, work: Work) -> list[slice]:
    """One client per chunk for convolutional networks; stacked ones as wide as memory allows and threads can use."""
    if not federation.network.dense:
        return threads.slices(count, count)
    weights, batch = federation.network.size, work.width(federation)
    width = max(1, CHUNK_BYTES // (4 * (2 * weights + 2 * batch * federation.x[0].numel())))
    useful = min(threads.threads(), int(count * 6 * weights * batch // threads.THREAD_FLOPS)) or 1
    wanted = -(-count // (width * useful)) * useful  # each thread gets as many chunks as the others
    return threads.slices(count, min(count, wanted))


def _descend(
    federation: Federation,
    cohort: Cohort,
    minibatches: Minibatches,
    order: np.ndarray,
    work: Work,
    step: Step,
    proximal: float,
    wants_losses: bool,
) -> Trained:
    """All steps of one chunk, whose clients come in `order`; the memory that is returned is what the steps changed."""
    weights = cohort.weights.clone(memory_format=torch.contiguous_format)
    memory, changed = dict(cohort.memory), {}
    velocity = torch.zeros_like(weights) if work.momentum else None
    pull, shift = work.weight_decay + proximal, _shift(cohort, proximal)
    losses, samples = torch.zeros(len(order), dtype=torch.float64), torch.zeros(len(order), dtype=torch.float64)
    first_steps, counts = minibatches.spans[:-1][order], minibatches.counts[order]
    one_rate = cohort.rates is None and work.decay == 1.0
    for number in range(int(counts.max(initial=0))):
        active = int((counts > number).sum())
        now, remembered = weights[:active], {name: values[:active] for name, values in memory.items()}
        batch = _batch(federation, minibatches, first_steps[:active] + number, work, one_rate, wants_losses)
        update, new_memory = step(now, remembered, batch)
        if pull:
            update = update.add(now, alpha=pull)
        if shift is not None:
            update = update + (shift if len(shift) == 1 else shift[:active])
        if velocity is not None:
            update = torch.add(update, velocity[:active], alpha=work.momentum, out=velocity[:active])
        for name, values in new_memory.items():
            if name not in changed:
                memory[name] = changed[name] = memory[name].clone()
            changed[name][:active] = values
        _move(now, update, batch.rate)
        if wants_losses:
            losses[:active] += batch.losses_seen() * batch.lengths
            samples[:active] += batch.lengths
    return Trained(weights, changed, counts, losses / samples)


def _move(weights: torch.Tensor, update: torch.Tensor, rate: torch.Tensor | float) -> None:
    if isinstance(rate, float):
        weights.sub_(update, alpha=rate)
    else:
        weights.addcmul_(update, rate, value=-1)  # type: ignore[arg-type]


def _batch(
    federation: Federation,
    minibatches: Minibatches,
    steps: np.ndarray,
    work: Work,
    one_rate: bool,
    wants_losses: bool,
) -> Batch:
    """The minibatches of these steps. The padded width of stacked ones, and whether the rate is one number or a column,
    change how sums are rounded; so neither may depend on which other clients are in the chunk."""
    network = federation.network
    width = work.width(federation) if network.dense else int((minibatches.last - minibatches.first)[steps].max())
    places, share = minibatches.stacked(steps, width)
    draws = None if minibatches.draws is None else minibatches.draws[places]
    rates = minibatches.rates[steps]
    rate = float(rates[0]) if one_rate else torch.from_numpy(rates).unsqueeze(1)
    return Batch(federation, torch.from_numpy(minibatches.rows[places]), share, rate, draws, wants_losses)


# ---------------------------------------------------------------- averages


@dataclass(frozen=True, eq=False)
class Averaged:
    """The average of a cohort's models, and the other results of its clients."""

    weights: torch.Tensor  # (weights,)
    memory: Memory  # this and the rest as in `Trained`
    steps: np.ndarray
    losses: torch.Tensor


def train_mean(
    federation: Federation,
    cohort: Cohort,
    work: Work,
    round: int,
    shares: torch.Tensor,
    *,
    step: Step | None = None,
    proximal: float = 0.0,
    losses: bool = False,
) -> Averaged:
    """sum_i shares_i * w_i of the trained clients, in bounded memory."""
    width = max(1, STACK_BYTES // (4 * cohort.weights.shape[1]))
    parts = [slice(first, first + width) for first in range(0, len(cohort.clients), width)]
    options = {"step": step, "proximal": proximal, "losses": losses}
    means, rest = [], []
    for part in parts:
        trained = train(federation, cohort if len(parts) == 1 else cohort.part(part), work, round, **options)
        means.append(weighted_sum(shares[part], trained.weights))
        rest.append(replace(trained, weights=trained.weights[:0]))  # frees the models themselves
    memory = {name: torch.cat([trained.memory[name] for trained in rest]) for name in cohort.memory}
    steps, seen = np.concatenate([trained.steps for trained in rest]), torch.cat([trained.losses for trained in rest])
    return Averaged(reduce(torch.add, means), memory, steps, seen)


@torch.no_grad()
def step_on_rows(
    federation: Federation,
    weights: torch.Tensor,
    rows: Sequence[torch.Tensor],
    lr: float,
    draws: Sequence[np.ndarray] | None = None,
) -> torch.Tensor:
    """One SGD step of each model (models, weights) on its own rows of x, cropped and flipped as its `draws` say.

    Devices that start from one model, take one step each and are averaged by batch size make exactly this step on the
    union of their batches, at a fraction of the cost.
    """
    stepped = torch.empty_like(weights)

    def step(model: int) -> None:
        chosen = rows[model].unsqueeze(0)
        share = torch.full(chosen.shape, 1 / chosen.numel())
        batch = Batch(federation, chosen, share, draws=None if draws is None else draws[model][None])
        gradient = batch.gradient(weights[model].unsqueeze(0))[0]
        torch.sub(weights[model], gradient, alpha=lr, out=stepped[model])

    threads.share_out(step, range(len(weights)))
    return stepped
