"""What a client does between two exchanges with the server, and the minibatches it sees.

Both the readable loop and the engine take their minibatches from here, so they see the same samples in the same order.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib.problem import Federation, generator
from fedlib.problem.limits import Count, Decay, NonNegative, Share, Whole, check_fields


@dataclass(frozen=True)
class Work:
    """Local stochastic gradient descent: `epochs` passes over a client's data, or `steps` batches drawn with
    replacement."""

    lr: NonNegative  # step size
    batch: Count | None  # samples per minibatch; None takes all of the client's in every step
    epochs: Count | None = None
    steps: Count | None = None
    momentum: Decay = 0.0  # 0 is plain SGD; the velocity starts at zero in every round
    decay: Share = 1.0  # the rate is multiplied by this after each epoch; 1 keeps it
    weight_decay: NonNegative = 0.0  # times the weights, added to every gradient
    epochs_done: Whole = 0  # passes made earlier in this round: a client visited again continues with the next order

    def __post_init__(self):
        check_fields(self)
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give either epochs (passes over the data) or steps (batches with replacement), not both")
        if self.epochs is None and self.epochs_done:
            raise ValueError("epochs_done counts passes over the data; batches with replacement have none")
        if self.batch is None and self.steps is None:
            raise ValueError("full batches (batch=None) are counted in steps, not in epochs")

    def width(self, federation: Federation) -> int:
        """Samples in the largest possible minibatch."""
        largest = int(federation.sizes.max())
        return largest if self.batch is None else self.batch if self.steps else min(self.batch, largest)

    def samples(self, sizes: torch.Tensor) -> int:
        """Samples that clients of these sizes process, all steps together."""
        if self.steps is not None:
            return self.steps * (int(sizes.sum()) if self.batch is None else len(sizes) * self.batch)
        return (self.epochs or 1) * int(sizes.sum())


def positions(size: int, work: Work, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Positions 0 ... size - 1 in all minibatches of one client, one minibatch after another, and their lengths; the
    last minibatch of an epoch may be short."""
    if work.batch is None:
        return np.tile(np.arange(size), work.steps or 0), np.full(work.steps or 0, size)
    if work.steps is not None:
        return stream.integers(0, size, (work.steps, work.batch)).ravel(), np.full(work.steps, work.batch)
    orders = [stream.permutation(size) for _ in range(work.epochs_done + (work.epochs or 0))][work.epochs_done :]
    starts = np.arange(0, size, work.batch)
    return np.concatenate(orders), np.tile(np.minimum(work.batch, size - starts), len(orders))


def client_positions(federation: Federation, client: int, work: Work, round: int) -> tuple[np.ndarray, np.ndarray]:
    """`positions` among one client's own samples, in one round."""
    stream = generator(federation.seed, "batches", round, int(client))
    return positions(len(federation.rows[client]), work, stream)


def client_minibatches(federation: Federation, client: int, work: Work, round: int) -> list[np.ndarray]:
    """The same, minibatch by minibatch."""
    flat, lengths = client_positions(federation, client, work, round)
    return np.split(flat, np.cumsum(lengths)[:-1])


def client_draws(federation: Federation, client: int, work: Work, round: int, count: int) -> np.ndarray:
    """How each of the `count` samples that one client sees in a round is cropped and flipped, in order."""
    assert federation.augmentation is not None
    stream = generator(federation.seed, "augmentation", round, int(client))
    earlier = work.epochs_done * len(federation.rows[client])
    return federation.augmentation.draw(stream, earlier + count)[earlier:]


@dataclass(frozen=True, eq=False)
class Minibatches:
    """The minibatches of some clients, one after another: step s takes rows[first[s] : last[s]] of x, with rates[s].

    Client c takes the steps spans[c] ... spans[c + 1] - 1. Where images are cropped and flipped, `draws` says how, for
    each entry of `rows`.
    """

    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray
    spans: np.ndarray
    rates: np.ndarray
    draws: np.ndarray | None = None

    @property
    def counts(self) -> np.ndarray:
        """Steps of each client."""
        return np.diff(self.spans)

    def stacked(self, steps: np.ndarray, width: int) -> tuple[np.ndarray, torch.Tensor]:
        """Some steps as one block (steps, width): where in `rows` their samples stand, and each sample's weight in its
        minibatch's mean. Short minibatches repeat their last sample with weight zero."""
        lengths = (self.last - self.first)[steps]
        column = np.arange(width)
        places = self.first[steps, None] + np.minimum(column, lengths[:, None] - 1)
        share = np.where(column < lengths[:, None], 1 / lengths[:, None], 0.0)
        return places, torch.from_numpy(share.astype(np.float32))


def draw(
    federation: Federation,
    clients: np.ndarray,
    work: Work,
    round: int,
    rates: torch.Tensor | None = None,
    limit: np.ndarray | None = None,
) -> Minibatches:
    """The minibatches of a round. `rates` are the clients' own step sizes, instead of `work.lr`; `limit` cuts each
    client's minibatches after this many."""
    drawn = [client_positions(federation, client, work, round) for client in clients]
    if limit is not None:
        drawn = [
            (flat[: lengths[:most].sum()], lengths[:most]) for (flat, lengths), most in zip(drawn, limit, strict=True)
        ]
    counts = np.array([len(lengths) for _, lengths in drawn], dtype=np.int64)
    spans = np.concatenate([[0], np.cumsum(counts)])
    step_rates = _rates(work, federation, clients, counts, rates)
    if work.batch is None and federation.augmentation is None:
        return _full_batches(federation, clients, counts, spans, step_rates)
    lengths = np.concatenate([lengths for _, lengths in drawn])
    last = np.cumsum(lengths)
    rows = [_rows(federation, client, flat) for client, (flat, _) in zip(clients, drawn, strict=True)]
    draws = _draws(federation, clients, work, round, rows) if federation.augmentation is not None else None
    return Minibatches(np.concatenate(rows), last - lengths, last, spans, step_rates, draws)


def _full_batches(
    federation: Federation, clients: np.ndarray, counts: np.ndarray, spans: np.ndarray, rates: np.ndarray
) -> Minibatches:
    """All rows of each client, listed once and used in every step."""
    rows = [federation.rows[client].numpy() for client in clients]
    last = np.cumsum([len(client_rows) for client_rows in rows])
    first = np.concatenate([[0], last[:-1]])
    return Minibatches(np.concatenate(rows), first.repeat(counts), last.repeat(counts), spans, rates)


def _rows(federation: Federation, client: int, flat: np.ndarray) -> np.ndarray:
    """A client's positions as rows of x."""
    if federation.contiguous:
        return flat + federation.offsets[client]
    return federation.rows[client].numpy()[flat]


def _draws(federation: Federation, clients: np.ndarray, work: Work, round: int, rows: list[np.ndarray]) -> np.ndarray:
    pairs = zip(clients, rows, strict=True)
    return np.concatenate([client_draws(federation, client, work, round, len(seen)) for client, seen in pairs])


def _rates(
    work: Work, federation: Federation, clients: np.ndarray, counts: np.ndarray, rates: torch.Tensor | None
) -> np.ndarray:
    """The rate of each step of clients that take this many steps."""
    start = np.float32(work.lr) if rates is None else rates.numpy().astype(np.float32)
    constant = np.broadcast_to(start, counts.shape).repeat(counts)
    if work.decay == 1.0:
        return constant
    sizes = [len(federation.rows[client]) for client in clients]
    epochs = np.concatenate([_epochs(work, size, count) for size, count in zip(sizes, counts, strict=True)])
    return (constant * work.decay ** (work.epochs_done + epochs)).astype(np.float32)


def _epochs(work: Work, size: int, count: int) -> np.ndarray:
    """Passes over the data completed before each step; batches with replacement make no passes."""
    per_epoch = count if work.epochs is None or work.batch is None else -(-size // work.batch)
    return np.arange(count) // max(1, per_epoch)
