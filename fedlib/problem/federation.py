"""A federation: one data set dealt to clients, the network they train and the seed all draws derive from.

The samples of a client lie side by side in memory (unless clients share samples), so that a client's data is a slice
and no loader stands between the arrays and the matrix products.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature

import numpy as np
import torch
from torch import nn

from fedlib import data
from fedlib.problem import inputs, models, partition
from fedlib.problem.limits import Count, NonNegative, Part, Whole, bind, checked, validated
from fedlib.problem.network import Network
from fedlib.problem.streams import generator


@dataclass(frozen=True, eq=False)
class Federation:
    """Data, clients, network and seed. `rows[i]` are client i's rows of `x` and `y`."""

    x: torch.Tensor  # samples as `Network.store` keeps them
    y: torch.Tensor
    rows: tuple[torch.Tensor, ...]
    x_test: torch.Tensor
    y_test: torch.Tensor
    network: Network
    seed: int
    l2: float = 0.0  # the objective adds l2/2 * |w|^2
    augmentation: inputs.Augmentation | None = None  # of samples that clients train on
    fingerprint: str = ""  # of the partition: two people can see that they split alike
    poisoners: tuple[int, ...] = ()  # clients whose labels are all wrong
    test_clients: torch.Tensor | None = None  # whose sample each test sample is, where that is known
    held_out: tuple[torch.Tensor, torch.Tensor] | None = None  # samples and labels of writers that are no clients

    @property
    def clients(self) -> int:
        return len(self.rows)

    @property
    def classes(self) -> int:
        return self.network.classes

    @cached_property
    def sizes(self) -> torch.Tensor:
        """n_i, samples per client."""
        return torch.tensor([len(rows) for rows in self.rows], dtype=torch.float32)

    @cached_property
    def start(self) -> torch.Tensor:
        """The flat weights every method starts from: a function of the seed alone."""
        return self.network.start(self.seed)

    @cached_property
    def class_counts(self) -> torch.Tensor:
        """Samples of each class that each client holds, (clients, classes)."""
        return torch.stack([torch.bincount(self.y[rows], minlength=self.classes) for rows in self.rows]).float()

    @cached_property
    def offsets(self) -> list[int]:
        """Where each client's samples begin, if clients lie one after another; the last one is where they end."""
        return np.concatenate([[0], np.cumsum([len(rows) for rows in self.rows])]).tolist()

    @cached_property
    def contiguous(self) -> bool:
        """Whether the clients' samples lie one client after another."""
        return all(
            torch.equal(rows, torch.arange(first, first + len(rows)))
            for rows, first in zip(self.rows, self.offsets, strict=False)
        )

    def rows_of(self, clients: Sequence[int] | np.ndarray) -> torch.Tensor:
        """The rows of these clients, one client after another."""
        return torch.cat([self.rows[client] for client in clients])


def sample_shape(dataset: data.Dataset) -> tuple[int, ...]:
    """Shape of one sample as `models.build` wants it: channels first."""
    shape = tuple(dataset.x_train.shape[1:])
    return (shape[2], shape[0], shape[1]) if len(shape) == 3 else shape


def assemble(
    dataset: data.Dataset,
    parts: Sequence[np.ndarray],
    layers: nn.Sequential,
    seed: int,
    l2: float = 0.0,
    *,
    standardise: inputs.Standardise = None,
    crop: int = 0,
    flip: bool = False,
    start: models.StartRule = "default",
) -> Federation:
    """Lay the samples out client by client and prepare them for the network."""
    if empty := [client for client, part in enumerate(parts) if len(part) == 0]:
        raise ValueError(f"clients {empty} have no samples: leave them out, or deal so that every client gets some")
    images = dataset.x_train.unsqueeze(-1) if dataset.x_train.ndim == 3 else dataset.x_train
    scale = inputs.standard(images, standardise)
    network = Network(layers, scale, checked("start", start, models.StartRule))
    shape = tuple(images.shape[1:])
    x, y, rows = _laid_out(dataset, parts)
    return Federation(
        x=network.store(x, scale),
        y=y,
        rows=rows,
        x_test=network.store(dataset.x_test, scale),
        y_test=dataset.y_test,
        network=network,
        seed=seed,
        l2=l2,
        augmentation=inputs.augmentation(shape, crop, flip, network.dense, scale),
        fingerprint=partition.fingerprint(parts),
    )


def _laid_out(
    dataset: data.Dataset, parts: Sequence[np.ndarray]
) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
    """Samples, labels and each client's rows; one client after another unless clients share samples."""
    indices = np.concatenate(parts)
    if len(np.unique(indices)) < len(indices):
        return dataset.x_train, dataset.y_train, tuple(torch.as_tensor(part) for part in parts)
    order = torch.as_tensor(indices)
    rows = torch.arange(len(indices)).split([len(part) for part in parts])
    return dataset.x_train[order], dataset.y_train[order], tuple(rows)


@validated
def federate(
    data_set: str,
    partitioner: str,
    clients: Count,
    network: str = "softmax",
    seed: Whole = 0,
    l2: NonNegative = 0.0,
    samples: Count | None = None,
    test_samples: Count | None = None,
    test_share: Part | None = None,
    validation_share: Part | None = None,
    client_samples: Count | None = None,
    poisoners: Whole = 0,
    standardise: inputs.Standardise = None,
    crop: Whole = 0,
    flip: bool = False,
    network_options: dict | None = None,
    **options,
) -> Federation:
    """A federation from names: `federate("mnist_hog", "dirichlet_clients", 400, alpha=0.5)`.

    | argument | meaning |
    |---|---|
    | samples, test_samples | a random part of the training and of the test set, the same for all methods of a seed |
    | test_share | every client keeps this share of its samples for testing; the data set's own test set is not used |
    | validation_share | this share of the training set is dealt to nobody and takes the test set's place, for tuning |
    | client_samples | what each client of the FedACS environments holds |
    | poisoners | this many clients, drawn at random, have only wrong labels |
    | standardise | inputs with mean 0 and deviation 1 per "channel" or per "feature", or by given [means, deviations] |
    | crop, flip | while training, images are shifted by up to `crop` pixels and mirrored, by chance |
    | network_options | size of the network where it can be changed; `start` names the rule of its first weights |
    | options | the partitioner's |

    Writers that are no clients are held out with all their samples.
    """
    dataset = _validating(data.load(data_set), validation_share, seed)
    parts = _dealt(dataset, partitioner, clients, samples, client_samples, seed, options)
    sized = dict(network_options or {})
    shaping = {"standardise": standardise, "crop": crop, "flip": flip, "start": sized.pop("start", "default")}
    layers = models.build(network, len(dataset.classes), sample_shape(dataset), **sized)
    writers = _writers_of(dataset, parts) if partitioner == "by_writer" else None
    if test_share is not None:
        dataset, parts, test_clients = _split_by_client(dataset, parts, test_share, seed)
    else:
        dataset, test_clients = _tested_as_given(dataset, writers, test_samples, seed)
    federation = assemble(dataset, parts, layers, seed, l2, **shaping)
    federation = replace(
        federation, test_clients=test_clients, held_out=_held_out(dataset, writers, federation.network)
    )
    return poison(federation, draw_poisoners(federation, poisoners)) if poisoners else federation


def _dealt(
    dataset: data.Dataset,
    partitioner: str,
    clients: int,
    samples: int | None,
    client_samples: int | None,
    seed: int,
    options: dict,
) -> list[np.ndarray]:
    """Each client's indices into the training set."""
    if partitioner not in partition.PARTITIONERS:
        raise ValueError(f"unknown partitioner {partitioner!r}; known: {', '.join(sorted(partition.PARTITIONERS))}")
    if client_samples is not None:
        options = options | {"samples": _accepted(client_samples, partitioner)}
    kept = _subset(len(dataset.y_train), samples, seed, "samples")
    labels = _known_writers(dataset) if partitioner == "by_writer" else dataset.y_train
    deal = partition.PARTITIONERS[partitioner]
    call = bind(deal, (labels.numpy()[kept], clients), options | {"rng": generator(seed, "partition")})
    return [kept[part] for part in deal(*call.args, **call.kwargs)]


def _accepted(client_samples: int, partitioner: str) -> int:
    takers = [name for name, deal in partition.PARTITIONERS.items() if "samples" in signature(deal).parameters]
    if partitioner not in takers:
        raise ValueError(f"{partitioner} deals all samples; client_samples is for {', '.join(takers)}")
    return client_samples


def _known_writers(dataset: data.Dataset) -> torch.Tensor:
    if dataset.writer_train is None or dataset.writer_test is None:
        raise ValueError(
            f"by_writer needs a data set that names its writers (femnist, handwriting), not {dataset.name}"
        )
    return dataset.writer_train


def _writers_of(dataset: data.Dataset, parts: list[np.ndarray]) -> torch.Tensor:
    """The writer that each client is."""
    return _known_writers(dataset)[[int(part[0]) for part in parts]]


def _subset(size: int, wanted: int | None, seed: int, name: str) -> np.ndarray:
    """Indices of a random part, the same for all methods of a seed."""
    if wanted is None:
        return np.arange(size)
    if wanted > size:
        raise ValueError(f"{name}={wanted} must lie between 1 and the {size} there are")
    return np.sort(generator(seed, name).choice(size, wanted, replace=False))


def _validating(dataset: data.Dataset, share: float | None, seed: int) -> data.Dataset:
    """The data set with a random share of its training samples as test samples."""
    if share is None:
        return dataset
    size = len(dataset.y_train)
    kept_back = _subset(size, min(max(1, round(share * size)), size - 1), seed, "validation")
    rest = np.setdiff1d(np.arange(size), kept_back)
    return _trained_on(_tested_on_training_samples(dataset, kept_back), rest)


def _trained_on(dataset: data.Dataset, indices: np.ndarray) -> data.Dataset:
    writers = dataset.writer_train
    return replace(
        dataset,
        x_train=dataset.x_train[indices],
        y_train=dataset.y_train[indices],
        writer_train=None if writers is None else writers[indices],
    )


def _tested_on_training_samples(dataset: data.Dataset, indices: np.ndarray) -> data.Dataset:
    writers = dataset.writer_train
    return replace(
        dataset,
        x_test=dataset.x_train[indices],
        y_test=dataset.y_train[indices],
        writer_test=None if writers is None else writers[indices],
    )


def _split_by_client(
    dataset: data.Dataset, parts: list[np.ndarray], share: float, seed: int
) -> tuple[data.Dataset, list[np.ndarray], torch.Tensor]:
    """Every client keeps a random share of its samples for testing, at least one; whose they are is known."""
    if small := [client for client, part in enumerate(parts) if len(part) < 2]:
        raise ValueError(f"test_share={share}: clients {small} have one sample only and cannot train and test")
    training, testing = [], []
    for client, part in enumerate(parts):
        order = generator(seed, "split", 0, client).permutation(part)
        count = min(max(1, round(share * len(part))), len(part) - 1)
        testing.append(np.sort(order[:count]))
        training.append(np.sort(order[count:]))
    owners = torch.arange(len(parts)).repeat_interleave(torch.tensor([len(part) for part in testing]))
    return _tested_on_training_samples(dataset, np.concatenate(testing)), training, owners


def _tested_as_given(
    dataset: data.Dataset, writers: torch.Tensor | None, test_samples: int | None, seed: int
) -> tuple[data.Dataset, torch.Tensor | None]:
    """The data set's own test samples, or some of them; where clients are writers, those that the clients wrote."""
    kept = torch.as_tensor(_subset(len(dataset.y_test), test_samples, seed, "test_samples"))
    if writers is None or dataset.writer_test is None:
        return _tested_on(dataset, kept), None
    client_of = torch.full((int(max(writers.max(), dataset.writer_test.max())) + 1,), -1)
    client_of[writers] = torch.arange(len(writers))
    owners = client_of[dataset.writer_test[kept]]
    return _tested_on(dataset, kept[owners >= 0]), owners[owners >= 0]


def _tested_on(dataset: data.Dataset, rows: torch.Tensor) -> data.Dataset:
    """The data set with these test samples only."""
    if len(rows) == len(dataset.y_test):
        return dataset
    return replace(dataset, x_test=dataset.x_test[rows], y_test=dataset.y_test[rows])


def _held_out(
    dataset: data.Dataset, writers: torch.Tensor | None, network: Network
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Training samples and labels of the writers that are no clients."""
    if writers is None or dataset.writer_train is None:
        return None
    rest = torch.isin(dataset.writer_train, writers, invert=True)
    return network.store(dataset.x_train[rest], network.standard), dataset.y_train[rest]


def draw_poisoners(federation: Federation, poisoners: int) -> np.ndarray:
    """Which clients have wrong labels."""
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
        client_rows = federation.rows[client]
        x.append(federation.x[client_rows])
        y.append((federation.y[client_rows] + 1) % federation.classes)
        rows[client] = torch.arange(first, first + len(client_rows))
        first += len(client_rows)
    wrong = tuple(int(client) for client in poisoners)
    return replace(federation, x=torch.cat(x), y=torch.cat(y), rows=tuple(rows), poisoners=wrong)
