"""The readable loop: one client, one batch at a time, gradients by autograd. The engine must equal it.

It is also the baseline of the benchmark.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from fedlib.engine.minibatches import Work, client_draws, client_minibatches
from fedlib.engine.training import Cohort, Memory, Trained
from fedlib.problem import Federation, layout

Gradient = Callable[[torch.Tensor], torch.Tensor]


def network_input(federation: Federation, rows: torch.Tensor, draws: np.ndarray | None = None) -> torch.Tensor:
    """Samples as the network itself takes them: without the column of ones; bytes as floats, standardised."""
    stored = federation.x[rows]
    if draws is not None:
        stored = torch.stack([augmented(federation, *pair) for pair in zip(stored, draws, strict=True)])
    return stored[:, :-1] if federation.network.dense else federation.network.inputs(stored)


def augmented(federation: Federation, sample: torch.Tensor, draw: np.ndarray) -> torch.Tensor:
    """One stored sample, cropped out of a larger one with a border, and mirrored."""
    assert federation.augmentation is not None
    height, width, channels = federation.augmentation.shape
    crop, (down, right, mirrored) = federation.augmentation.crop, draw
    flat = sample.flatten()
    image = flat[: height * width * channels].view(height, width, channels)
    framed = federation.augmentation.fill.to(image.dtype).repeat(height + 2 * crop, width + 2 * crop, 1)
    framed[crop : crop + height, crop : crop + width] = image
    cropped = framed[down : down + height, right : right + width]
    shown = cropped.flip(1) if mirrored else cropped
    return torch.cat([shown.flatten(), flat[height * width * channels :]]).view(sample.shape)


def gradient(
    federation: Federation, weights: torch.Tensor, rows: torch.Tensor, draws: np.ndarray | None = None
) -> tuple[torch.Tensor, float]:
    """Gradient of the mean cross-entropy over these rows plus l2/2 * |w|^2, by autograd, and the cross-entropy."""
    layers = federation.network.layers
    layout.load(layers, weights)
    layers.zero_grad()
    loss = functional.cross_entropy(layers(network_input(federation, rows, draws)), federation.y[rows])
    loss.backward()
    return layout.gradients(layers) + federation.l2 * weights, float(loss.detach())


@dataclass(frozen=True)
class OneBatch:
    """The minibatch of one step of one client: the counterpart of `Batch`."""

    gradient: Gradient
    rate: float

    def difference(self, at: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        return self.gradient(at) - self.gradient(reference)


ReadableStep = Callable[[torch.Tensor, Memory, OneBatch], tuple[torch.Tensor, Memory]]


def train_one(
    federation: Federation,
    cohort: Cohort,
    position: int,
    work: Work,
    round: int,
    step: ReadableStep | None = None,
    proximal: float = 0.0,
) -> tuple[torch.Tensor, Memory, int, float]:
    """Local SGD of one client of a cohort: its weights, memory, number of steps and mean loss; `step` as in `train`,
    without the leading dimension."""
    client, start = int(cohort.clients[position]), cohort.weights[position]
    weights, velocity = start.clone(), torch.zeros_like(start)
    memory = {name: values[position].clone() for name, values in cohort.memory.items()}
    batches = client_minibatches(federation, client, work, round)
    per_epoch = max(1, len(batches) // (work.epochs or 1))
    taken = len(batches) if cohort.limit is None else min(len(batches), int(cohort.limit[position]))
    draws, losses = _draws(federation, client, work, round, batches), []
    for number in range(taken):
        rows = federation.rows[client][torch.as_tensor(batches[number])]
        value, loss = gradient(federation, weights, rows, draws[number])
        rate = float(work.lr if cohort.rates is None else cohort.rates[position])
        rate *= work.decay ** (work.epochs_done + number // per_epoch)
        update = value
        if step is not None:
            batch = OneBatch(lambda at, rows=rows, drawn=draws[number]: gradient(federation, at, rows, drawn)[0], rate)
            update, changed = step(weights, memory, batch)
            memory = memory | dict(changed)
        update = update + work.weight_decay * weights + proximal * (weights - start)
        if cohort.correction is not None:
            update = update + cohort.correction[position]
        velocity = work.momentum * velocity + update
        weights = weights - rate * velocity
        losses += [loss] * len(rows)
    return weights, memory, taken, float(np.mean(losses)) if losses else float("nan")


def _draws(federation: Federation, client: int, work: Work, round: int, batches) -> list[np.ndarray | None]:
    """How the samples of each minibatch are cropped and flipped."""
    if federation.augmentation is None:
        return [None] * len(batches)
    lengths = [len(batch) for batch in batches]
    draws = client_draws(federation, client, work, round, sum(lengths))
    return list(np.split(draws, np.cumsum(lengths)[:-1]))


def train(
    federation: Federation,
    cohort: Cohort,
    work: Work,
    round: int,
    *,
    step: ReadableStep | None = None,
    proximal: float = 0.0,
) -> Trained:
    """All clients of a cohort, one after another."""
    positions = range(len(cohort.clients))
    results = [train_one(federation, cohort, position, work, round, step, proximal) for position in positions]
    weights, memories, steps, losses = zip(*results, strict=True)
    memory = {name: torch.stack([values[name] for values in memories]) for name in cohort.memory}
    return Trained(torch.stack(weights), memory, np.array(steps), torch.tensor(losses, dtype=torch.float64))
