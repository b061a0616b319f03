"""The minibatches of one step, and the functions of weights that they define."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from fedlib.engine import convolution, dense
from fedlib.engine.compiled.crop import crop_and_flip
from fedlib.problem import Federation

Loss = Callable[[torch.Tensor, torch.Tensor, "Batch"], torch.Tensor]  # of representation and logits, one per client


@dataclass(eq=False)
class Batch:
    """The minibatches of one step, one per client; the clients come first in all tensors.

    Samples are gathered when they are first asked for. (Methods, not closures: a closure would form a reference cycle
    and keep the samples alive for longer.)
    """

    federation: Federation
    rows: torch.Tensor  # which rows of the federation's x these are (clients, batch); padding repeats some row
    share: torch.Tensor  # weight of each sample in its client's mean, 0 for padding
    rate: torch.Tensor | float = 0.0  # the step size: one for all clients, or a column (clients, 1)
    draws: np.ndarray | None = None  # how each sample is cropped and flipped, (clients, batch, 3)
    losses: torch.Tensor = field(init=False)  # each client's value of the objective, once a gradient has been taken

    def __post_init__(self):
        self.losses = torch.full((len(self.rows),), torch.nan, dtype=torch.float64)

    @property
    def lengths(self) -> torch.Tensor:
        """Samples of each client, without padding."""
        return self.share.count_nonzero(1)

    @cached_property
    def stored(self) -> torch.Tensor:
        """Samples as the federation stores them, (clients, batch, ...), cropped and flipped if it says so."""
        rows = self.rows.flatten()
        draws = None if self.draws is None else self.draws.reshape(-1, 3)
        return gathered(self.federation, rows, draws).unflatten(0, self.rows.shape)

    @cached_property
    def x(self) -> torch.Tensor:
        """Samples as the network takes them, (clients, batch, ...)."""
        return self.federation.network.inputs(self.stored)

    @cached_property
    def y(self) -> torch.Tensor:
        """Labels (clients, batch)."""
        return self.federation.y[self.rows]

    def cross_entropy(self, logits: torch.Tensor) -> torch.Tensor:
        """Each client's mean cross-entropy, (clients,)."""
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.y.flatten(), reduction="none")
        return (losses.view_as(self.share) * self.share).sum(1)

    def outputs(self, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Representation and logits at any weights (clients, weights)."""
        network = self.federation.network
        if network.dense:
            return dense.outputs(network.blocks, at, self.x)
        pairs = [convolution.outputs(network.layers, *client) for client in zip(at, self.x, strict=True)]
        representations, logits = zip(*pairs, strict=True)
        return stacked(representations), stacked(logits)

    def gradient(self, at: torch.Tensor, loss: Loss | None = None) -> torch.Tensor:
        """The gradient of the clients' objectives on these minibatches at any weights (clients, weights).

        The objective is the mean cross-entropy, or `loss(representation, logits, batch)` (clients,), plus the l2 term.
        """
        if loss is None and self.federation.network.dense:
            return self._dense_gradient(at)
        gradients, self.losses = self._autograd(at, loss) if loss is not None else self._convolutional_gradient(at)
        return gradients.add_(at, alpha=self.federation.l2) if self.federation.l2 else gradients

    def difference(self, at: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        """gradient(at) - gradient(reference), cheaper."""
        federation, network = self.federation, self.federation.network
        if torch.equal(at, reference):
            return torch.zeros_like(at)
        if not network.dense or len(network.blocks) > 1:
            return self.gradient(at) - self.gradient(reference)
        x, rows = self._samples()
        return dense.softmax_difference(network.blocks, at, reference, x, rows, self.share, federation.l2)

    def _samples(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A design matrix and the rows of it that these minibatches take."""
        if self.draws is None:
            return self.federation.x, self.rows
        return self.stored.flatten(0, 1), torch.arange(self.rows.numel()).view_as(self.rows)

    def _dense_gradient(self, at: torch.Tensor) -> torch.Tensor:
        federation, (x, rows) = self.federation, self._samples()
        y = federation.y if self.draws is None else self.y.flatten()
        losses = self.losses.numpy()
        return dense.stacked_gradients(federation.network.blocks, at, x, y, rows, self.share, federation.l2, losses)

    def _convolutional_gradient(self, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        layers = self.federation.network.layers
        clients = zip(at, self.x, self.y, self.share, strict=True)
        return _joined([convolution.gradient(layers, *client) for client in clients])

    def _autograd(self, at: torch.Tensor, loss: Loss) -> tuple[torch.Tensor, torch.Tensor]:
        network = self.federation.network
        if not network.dense and len(at) == 1:

            def objective(representation: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
                return loss(representation.unsqueeze(0), logits.unsqueeze(0), self).sum()

            return _joined([convolution.objective_gradient(network.layers, at[0], self.x[0], objective)])
        with torch.enable_grad():
            leaf = at.detach().requires_grad_()
            values = loss(*self.outputs(leaf), self)
            return torch.autograd.grad(values.sum(), leaf)[0], values.detach().double()


def _joined(pairs: list[tuple[torch.Tensor, float]]) -> tuple[torch.Tensor, torch.Tensor]:
    gradients, values = zip(*pairs, strict=True)
    return stacked(gradients), torch.tensor(values, dtype=torch.float64)


def stacked(tensors: list[torch.Tensor] | tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Stacked, without a copy where there is only one."""
    return tensors[0].unsqueeze(0) if len(tensors) == 1 else torch.stack(list(tensors))


def gathered(federation: Federation, rows: torch.Tensor, draws: np.ndarray | None) -> torch.Tensor:
    """Rows of the federation's x, cropped and flipped as `draws` says."""
    augmentation = federation.augmentation
    if draws is None or augmentation is None:
        return federation.x.index_select(0, rows)
    x = federation.x.flatten(1)
    out = torch.empty(len(rows), x.shape[1], dtype=x.dtype)
    fill = augmentation.fill.to(x.dtype).numpy()
    crop_and_flip(x.numpy(), rows.numpy(), draws, augmentation.crop, fill, augmentation.shape, out.numpy())
    return out.view(len(rows), *federation.x.shape[1:])
