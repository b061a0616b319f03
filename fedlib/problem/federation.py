"""A federation: one data set dealt to clients, the network they train and the seed all draws derive from.

The samples of a client lie side by side in memory (unless clients share samples), so that a client's data is a slice and
no loader stands between the arrays and the matrix products.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature

import numpy as np
import torch
from torch import nn

from fedlib import data
from fedlib.problem import layout, models, partition
from fedlib.problem.streams import generator


@dataclass(frozen=True, eq=False)
class Federation:
    """Data, clients, network and seed. `rows[i]` are client i's rows of `x` and `y`."""

    x: torch.Tensor
    y: torch.Tensor
    rows: tuple[torch.Tensor, ...]
    x_test: torch.Tensor
    y_test: torch.Tensor
    network: nn.Sequential
    classes: int
    seed: int
    l2: float = 0.0  # the objective adds l2/2 * |w|^2
    fingerprint: str = ""  # of the partition: two people can see that they split alike
    poisoners: tuple[int, ...] = ()  # clients whose labels are all wrong
    test_clients: torch.Tensor | None = None  # which client wrote each test sample, where clients are writers
    held_out: tuple[torch.Tensor, torch.Tensor] | None = None  # samples and labels of writers that are no clients

    @property
    def clients(self) -> int:
        return len(self.rows)

    @cached_property
    def sizes(self) -> torch.Tensor:
        """n_i, samples a client."""
        return torch.tensor([len(rows) for rows in self.rows], dtype=torch.float32)

    @cached_property
    def blocks(self) -> list[layout.Block]:
        """Where the layers of the network lie in a flat weight vector."""
        return layout.blocks(self.network)

    @cached_property
    def dense(self) -> bool:
        """Whether the network is of linear layers only."""
        return layout.is_dense(self.network)

    @cached_property
    def start(self) -> torch.Tensor:
        """The flat weights every method starts from: a function of the seed alone."""
        models.initialise(self.network, self.seed)
        return layout.flatten(self.network)

    @cached_property
    def nonzero(self) -> torch.Tensor:
        """n_i^j, how many samples of client i have a non-zero j-th input; the ones of the bias count too."""
        return torch.stack([(self.x[rows] != 0).sum(0) for rows in self.rows]).float()

    @cached_property
    def holders(self) -> torch.Tensor:
        """omega^j, how many clients have a sample with a non-zero j-th input."""
        return (self.nonzero > 0).sum(0)

    @cached_property
    def commonness(self) -> torch.Tensor:
        """n^j / n, the share of all samples with a non-zero j-th input."""
        return self.nonzero.sum(0) / self.sizes.sum()

    @cached_property
    def class_counts(self) -> torch.Tensor:
        """Samples of each class a client holds, (clients, classes)."""
        return torch.stack([torch.bincount(self.y[rows], minlength=self.classes) for rows in self.rows]).float()

    @cached_property
    def class_means(self) -> torch.Tensor:
        """Mean input of each class a client holds, (clients, classes, inputs); zero for classes it lacks."""
        sums = torch.zeros(self.clients, self.classes, self.x.shape[1])
        for own, rows in zip(sums, self.rows, strict=True):
            own.index_add_(0, self.y[rows], self.x[rows])
        return sums / self.class_counts.clamp(min=1).unsqueeze(2)

    def spans(self, clients: np.ndarray) -> list[slice] | None:
        """The rows of these clients as few contiguous slices, or None where clients share samples."""
        if not self.contiguous:
            return None
        spans: list[slice] = []
        for client in clients:
            first, last = self.offsets[client], self.offsets[client + 1]
            if spans and spans[-1].stop == first:
                spans[-1] = slice(spans[-1].start, last)
            else:
                spans.append(slice(first, last))
        return spans

    @cached_property
    def offsets(self) -> list[int]:
        return np.concatenate([[0], np.cumsum([len(rows) for rows in self.rows])]).tolist()

    @cached_property
    def contiguous(self) -> bool:
        return all(
            torch.equal(rows, torch.arange(first, first + len(rows)))
            for rows, first in zip(self.rows, self.offsets, strict=False)
        )


def inputs(x: torch.Tensor, network: nn.Sequential) -> torch.Tensor:
    """Samples as the engine wants them: a design matrix with a last column of ones for dense networks, bytes as floats in
    [0, 1]; for convolutional ones the images as they are, (height, width, channels)."""
    if layout.is_dense(network):
        flat = x.flatten(1)
        scaled = flat.float() / 255 if x.dtype == torch.uint8 else flat.float()
        return torch.cat([scaled, torch.ones(len(x), 1)], dim=1)
    return x.unsqueeze(-1) if x.ndim == 3 else x


def sample_shape(dataset: data.Dataset) -> tuple[int, ...]:
    """Shape of one sample as `models.build` wants it: channels first."""
    shape = tuple(dataset.x_train.shape[1:])
    return (shape[2], shape[0], shape[1]) if len(shape) == 3 else shape


def assemble(
    dataset: data.Dataset, parts: list[np.ndarray], network: nn.Sequential, seed: int, l2: float = 0.0
) -> Federation:
    """Lay the samples out client by client and prepare them for the network."""
    if empty := [client for client, part in enumerate(parts) if len(part) == 0]:
        raise ValueError(f"clients {empty} have no samples: leave them out, or deal so that every client gets some")
    indices = np.concatenate(parts)
    shared = len(np.unique(indices)) < len(indices)
    if shared:
        x, y, rows = dataset.x_train, dataset.y_train, [torch.as_tensor(part) for part in parts]
    else:
        order = torch.as_tensor(indices)
        x, y = dataset.x_train[order], dataset.y_train[order]
        rows = list(torch.arange(len(indices)).split([len(part) for part in parts]))
    return Federation(
        x=inputs(x, network),
        y=y,
        rows=tuple(rows),
        x_test=inputs(dataset.x_test, network),
        y_test=dataset.y_test,
        network=network,
        classes=len(dataset.classes),
        seed=seed,
        l2=l2,
        fingerprint=partition.fingerprint(parts),
    )


def federate(
    data_set: str,
    partitioner: str,
    clients: int,
    network: str = "softmax",
    seed: int = 0,
    l2: float = 0.0,
    samples: int | None = None,
    test_samples: int | None = None,
    client_samples: int | None = None,
    poisoners: int = 0,
    network_options: dict | None = None,
    **options,
) -> Federation:
    """A federation from names: `federate("mnist_hog", "dirichlet_clients", 400, alpha=0.5)`.

    `samples` keeps a random part of the training set, `test_samples` one of the test set, the same for all methods of a
    seed; writers that are no clients are held out with all their samples. `network_options` change the network's size and
    start where they can be changed. `options` go to the partitioner, and so does `client_samples`, what each client of the
    FedACS environments holds. So many `poisoners`, drawn at random, have only wrong labels.
    """
    if partitioner not in partition.PARTITIONERS:
        raise ValueError(f"unknown partitioner {partitioner!r}; known: {', '.join(sorted(partition.PARTITIONERS))}")
    if client_samples is not None:
        options["samples"] = _accepted(client_samples, partitioner)
    dataset = data.load(data_set)
    keep = _subset(len(dataset.y_train), samples, seed, "samples")
    deal = partition.PARTITIONERS[partitioner]
    labels = (dataset.writer_train if partitioner == "by_writer" else dataset.y_train).numpy()[keep]
    parts = [keep[part] for part in deal(labels, clients, **options, rng=generator(seed, "partition"))]
    built = models.build(network, len(dataset.classes), sample_shape(dataset), **(network_options or {}))
    if test_samples is not None:
        shown = _subset(len(dataset.y_test), test_samples, seed, "test_samples")
        dataset = _tested_on(dataset, torch.as_tensor(shown))
    if partitioner == "by_writer":
        clients_of = dataset.writer_train[[part[0] for part in parts]]
        rest = np.flatnonzero(~np.isin(dataset.writer_train, clients_of))
        return _of_writers(dataset, parts, rest, built, seed, l2)
    dealt = assemble(dataset, parts, built, seed, l2)
    return poison(dealt, draw_poisoners(dealt, poisoners)) if poisoners else dealt


def _of_writers(
    dataset: data.Dataset, parts: list[np.ndarray], rest: np.ndarray, network: nn.Sequential, seed: int, l2: float
) -> Federation:
    """Clients are writers: they are tested on what they wrote themselves, the `rest` of the writers is held out."""
    client_of = torch.full((int(dataset.writer_train.max()) + 1,), -1)
    client_of[dataset.writer_train[[part[0] for part in parts]]] = torch.arange(len(parts))
    wrote = client_of[dataset.writer_test]
    dataset = _tested_on(dataset, wrote >= 0)
    return replace(
        assemble(dataset, parts, network, seed, l2),
        test_clients=wrote[wrote >= 0],
        held_out=(inputs(dataset.x_train[rest], network), dataset.y_train[rest]),
    )


def _tested_on(dataset: data.Dataset, rows: torch.Tensor) -> data.Dataset:
    """The data set with these test samples only."""
    writers = dataset.writer_test
    return replace(
        dataset,
        x_test=dataset.x_test[rows],
        y_test=dataset.y_test[rows],
        writer_test=None if writers is None else writers[rows],
    )


def _accepted(client_samples: int, partitioner: str) -> int:
    takers = [name for name, deal in partition.PARTITIONERS.items() if "samples" in signature(deal).parameters]
    if partitioner not in takers:
        raise ValueError(f"{partitioner} deals all samples; client_samples is for {', '.join(takers)}")
    return client_samples


def draw_poisoners(federation: Federation, poisoners: int) -> np.ndarray:
    if not 0 < poisoners <= federation.clients:
        raise ValueError(f"poisoners={poisoners} must lie between 0 and the {federation.clients} clients")
    return np.sort(generator(federation.seed, "poisoners").choice(federation.clients, poisoners, replace=False))


def poison(federation: Federation, poisoners: np.ndarray) -> Federation:
    """The federation with these clients' labels all wrong: every class is called by the next one's name.

    They get copies of their samples, so that clients that share some keep the right labels.
    """
    x, y, rows = [federation.x], [federation.y], list(federation.rows)
    first = len(federation.y)
    for client in poisoners:
        own = federation.rows[client]
        x.append(federation.x[own])
        y.append((federation.y[own] + 1) % federation.classes)
        rows[client] = torch.arange(first, first + len(own))
        first += len(own)
    wrong = tuple(int(client) for client in poisoners)
    return replace(federation, x=torch.cat(x), y=torch.cat(y), rows=tuple(rows), poisoners=wrong)


def _subset(size: int, wanted: int | None, seed: int, name: str) -> np.ndarray:
    if wanted is None:
        return np.arange(size)
    if not 0 < wanted <= size:
        raise ValueError(f"{name}={wanted} must lie between 1 and the {size} there are")
    return np.sort(generator(seed, name).choice(size, wanted, replace=False))
