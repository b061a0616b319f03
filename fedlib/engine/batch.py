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
    wants_losses: bool = False  # whether to keep the clients' cross-entropies at the first gradient's weights
    losses: torch.Tensor | None = field(default=None, init=False)

    def losses_seen(self) -> torch.Tensor:
        """Each client's mean cross-entropy at the weights where the first gradient was taken, (clients,)."""
        if self.losses is None:
            raise ValueError("losses were asked for, but this step takes no gradient of its batch: it sees no loss")
        return self.losses

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
        network = self.federation.network
        return self.stored if network.dense else convolution.inputs(network, self.stored)

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
        gradients = self._autograd(at, loss) if loss is not None else self._convolutional_gradient(at)
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

    def _keep(self, losses: torch.Tensor) -> None:
        if self.wants_losses and self.losses is None:
            self.losses = losses.detach().double()

    def _dense_gradient(self, at: torch.Tensor) -> torch.Tensor:
        federation, (x, rows) = self.federation, self._samples()
        y = federation.y if self.draws is None else self.y.flatten()
        losses = torch.empty(len(at) if self.wants_losses else 0, dtype=torch.float64)
        blocks, l2 = federation.network.blocks, federation.l2
        gradients = dense.stacked_gradients(blocks, at, x, y, rows, self.share, l2, losses.numpy())
        self._keep(losses)
        return gradients

    def _convolutional_gradient(self, at: torch.Tensor) -> torch.Tensor:
        layers = self.federation.network.layers
        clients = zip(at, self.x, self.y, self.share, strict=True)
        gradients, losses = zip(*[convolution.gradient(layers, *client) for client in clients], strict=True)
        self._keep(torch.tensor(losses, dtype=torch.float64))
        return stacked(gradients)

    def _autograd(self, at: torch.Tensor, loss: Loss) -> torch.Tensor:
        network = self.federation.network
        if not network.dense and len(at) == 1:

            def objective(representation: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
                return self._objective(representation.unsqueeze(0), logits.unsqueeze(0), loss)

            return convolution.objective_gradient(network.layers, at[0], self.x[0], objective)[0].unsqueeze(0)
        with torch.enable_grad():
            leaf = at.detach().requires_grad_()
            return torch.autograd.grad(self._objective(*self.outputs(leaf), loss), leaf)[0]

    def _objective(self, representation: torch.Tensor, logits: torch.Tensor, loss: Loss) -> torch.Tensor:
        if self.wants_losses:
            self._keep(self.cross_entropy(logits.detach()))
        return loss(representation, logits, self).sum()


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
