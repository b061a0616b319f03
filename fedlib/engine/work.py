"""What a client does between two exchanges with the server, and the minibatches it sees.

Both the readable loop and the stacked engine take their minibatches from here, so they see the same samples in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedlib.problem.streams import generator


@dataclass(frozen=True)
class Work:
    """Local stochastic gradient descent: `epochs` passes over the client's data, or `steps` batches drawn with replacement."""

    lr: float | torch.Tensor  # one rate, or one for each client of the cohort
    batch: int | None  # samples a minibatch; None takes all of the client's in every step
    epochs: int | None = None
    steps: int | None = None
    momentum: float = 0.0  # 0 is plain SGD; the velocity starts at zero in every round
    decay: float = 1.0  # the rate is multiplied by this after each epoch; 1 keeps it
    epochs_done: int = 0  # passes made earlier in this round: a client visited again goes on with the next order

    def __post_init__(self):
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give either epochs (passes over the data) or steps (batches with replacement), not both")
        if self.epochs is None and self.epochs_done:
            raise ValueError("epochs_done counts passes over the data; batches with replacement have none")
        if self.batch is None and self.steps is None:
            raise ValueError("full batches (batch=None) are counted in steps, not in epochs")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"batch={self.batch} must be at least 1")


def batches(size: int, work: Work, stream: np.random.Generator) -> Sequence[np.ndarray]:
    """Positions 0..size-1 of each minibatch of one client, in order; the last batch of an epoch may be short."""
    if work.batch is None:
        return [np.arange(size)] * work.steps
    if work.steps is not None:
        return stream.integers(0, size, (work.steps, work.batch))
    epochs = [stream.permutation(size) for _ in range(work.epochs_done + work.epochs)][work.epochs_done :]
    return [order[first : first + work.batch] for order in epochs for first in range(0, size, work.batch)]


def client_batches(federation, client: int, work: Work, round: int) -> Sequence[np.ndarray]:
    """One client's minibatches of one round, as positions among its own samples."""
    stream = generator(federation.seed, "batches", round, int(client))
    return batches(len(federation.rows[client]), work, stream)


@dataclass(frozen=True)
class Schedule:
    """The minibatches of some clients, one after another: step s takes the rows[first[s] : last[s]] of x, with rates[s].

    Client c takes the steps spans[c] ... spans[c + 1] - 1.
    """

    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray
    spans: np.ndarray
    rates: np.ndarray


def schedule(federation, clients: np.ndarray, work: Work, round: int) -> Schedule:
    """Draw the minibatches of a round. `work.lr` holds one rate, or one for each of these clients."""
    if work.batch is None:
        return _full_batches(federation, clients, work)
    drawn = [client_batches(federation, client, work, round) for client in clients]
    counts = np.array([len(batches) for batches in drawn])
    lengths = np.concatenate([_lengths(batches) for batches in drawn])
    last = np.cumsum(lengths)
    rows = np.concatenate([_rows(federation, client, batches) for client, batches in zip(clients, drawn, strict=True)])
    spans = np.concatenate([[0], np.cumsum(counts)])
    return Schedule(rows, last - lengths, last, spans, _rates(work, counts))


def _full_batches(federation, clients: np.ndarray, work: Work) -> Schedule:
    """All rows of each client, named once and taken in every step."""
    own = [federation.rows[client].numpy() for client in clients]
    last = np.cumsum([len(rows) for rows in own])
    first = np.concatenate([[0], last[:-1]])
    counts = np.full(len(own), work.steps)
    spans = np.arange(len(own) + 1) * work.steps
    return Schedule(np.concatenate(own), first.repeat(counts), last.repeat(counts), spans, _rates(work, counts))


def _lengths(batches: Sequence[np.ndarray]) -> np.ndarray:
    if isinstance(batches, np.ndarray):
        return np.full(len(batches), batches.shape[1])
    return np.array([len(batch) for batch in batches])


def _rows(federation, client: int, batches: Sequence[np.ndarray]) -> np.ndarray:
    """A client's positions, batch after batch, as rows of x."""
    positions = batches.ravel() if isinstance(batches, np.ndarray) else np.concatenate(batches)
    if federation.contiguous:
        return positions + federation.offsets[client]
    return federation.rows[client].numpy()[positions]


def _rates(work: Work, counts: np.ndarray) -> np.ndarray:
    """The rate of each step of clients that take so many steps."""
    rates = np.broadcast_to(np.asarray(work.lr, dtype=np.float32), counts.shape).repeat(counts)
    if work.decay == 1.0:
        return rates
    epochs = np.concatenate([np.arange(count) // (count // (work.epochs or 1)) for count in counts])
    return (rates * work.decay ** (work.epochs_done + epochs)).astype(np.float32)


@dataclass(frozen=True)
class Plan:
    """The minibatches of a cohort, padded to a block: clients sorted by falling number of steps.

    `rows[s, c]` are the rows of x for step s of the c-th client in `order`; `share[s, c]` weighs its samples: 1/length, 0
    for padding. Only the first `active[s]` clients take step s. `epoch[s, c]` counts passes over the data.
    """

    rows: torch.Tensor
    share: torch.Tensor
    active: list[int]
    epoch: torch.Tensor
    order: np.ndarray


def widest_batch(federation, clients: np.ndarray, work: Work) -> int:
    """Samples in the largest minibatch of these clients."""
    largest = max(len(federation.rows[client]) for client in clients)
    return largest if work.batch is None else work.batch if work.steps else min(work.batch, largest)


def plan(federation, clients: np.ndarray, work: Work, round: int, width: int) -> Plan:
    """Draw the minibatches of all clients of a round and stack them, each padded to `width` samples."""
    drawn = [client_batches(federation, client, work, round) for client in clients]
    counts = np.array([len(batches) for batches in drawn])
    order = np.argsort(-counts, kind="stable")
    rows, share = _padded([drawn[position] for position in order], int(counts.max()), width)
    _to_rows(federation, clients[order], rows)
    active = (counts[None, :] > np.arange(counts.max())[:, None]).sum(1).tolist()
    per_epoch = counts[order] // (work.epochs or 1)
    epoch = work.epochs_done + np.arange(counts.max())[:, None] // per_epoch[None, :]
    return Plan(torch.as_tensor(rows), torch.as_tensor(share), active, torch.as_tensor(epoch), order)


def _padded(drawn: list[Sequence[np.ndarray]], steps: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and shares as (steps, clients, batch) blocks; whole epochs are copied at once, short batches one by one."""
    positions = np.zeros((steps, len(drawn), width), dtype=np.int64)
    share = np.zeros((steps, len(drawn), width), dtype=np.float32)
    for client, batches in enumerate(drawn):
        if isinstance(batches, np.ndarray) or len(batches[-1]) == width == len(batches[0]):
            positions[: len(batches), client] = batches
            share[: len(batches), client] = 1 / width
            continue
        for step, batch in enumerate(batches):
            positions[step, client, : len(batch)] = batch
            share[step, client, : len(batch)] = 1 / len(batch)
    return positions, share


def _to_rows(federation, clients: np.ndarray, positions: np.ndarray) -> None:
    """Turn positions among a client's samples into rows of x, in place."""
    if federation.contiguous:
        positions += np.asarray(federation.offsets)[clients][None, :, None]
        return
    for place, client in enumerate(clients):
        positions[:, place] = federation.rows[client].numpy()[positions[:, place]]
