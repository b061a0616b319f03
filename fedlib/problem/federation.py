"""A federation: one data set dealt to clients, the network they train and the seed all draws derive from.

The samples of a client lie side by side in memory (unless clients share samples), so that a client's data is a slice
and no loader stands between the arrays and the matrix products.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import nn

from fedlib import data
from fedlib.problem import inputs, models, partition
from fedlib.problem.limits import Count, NonNegative, Part, Seed, Whole, bind, checked, checked_arguments, validated
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
    fingerprint: str = ""  # of the partition: two people can check that they split the data alike
    poisoners: tuple[int, ...] = ()  # clients whose labels are all wrong
    test_clients: torch.Tensor | None = None  # the client that each test sample belongs to, where that is known
    held_out: tuple[torch.Tensor, torch.Tensor] | None = None  # samples and labels of writers who are not clients

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
    if len(dataset.y_test) == 0:
        raise ValueError("no test samples are left: keep more of them")
    images = dataset.x_train.unsqueeze(-1) if dataset.x_train.ndim == 3 else dataset.x_train
    scale = inputs.standard(images[np.unique(np.concatenate(parts))], standardise) if standardise is not None else None
    network = Network(layers, scale, checked("start", start, models.StartRule))
    augmentation = inputs.augmentation(tuple(images.shape[1:]), crop, flip, network.dense, scale)
    x, y, rows = _laid_out(dataset, parts)
    return Federation(
        x=network.store(x),
        y=y,
        rows=rows,
        x_test=network.store(dataset.x_test),
        y_test=dataset.y_test,
        network=network,
        seed=seed,
        l2=l2,
        augmentation=augmentation,
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
    seed: Seed = 0,
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
    | validation_share | this share of each client's training samples replaces the test set, for tuning |
    | client_samples | samples per client in the FedACS environments |
    | poisoners | this many clients, drawn at random, have only wrong labels |
    | standardise | inputs with mean 0 and deviation 1 per "channel" or per "feature", or by given [means, deviations] |
    | crop, flip | in minibatches, images are shifted by up to `crop` pixels and mirrored, at random |
    | network_options | size of the network where it can be changed; `start` names the rule for its initial weights |
    | options | the partitioner's |

    Training samples of writers who are not clients are held out. Statistics and full-batch gradients take images as
    they are, without crop and flip. Impossible arguments are refused before data are loaded.
    """
    _require_possible(locals())
    dataset = data.load(data_set)
    parts = _dealt(dataset, partitioner, clients, samples, client_samples, seed, options)
    writers = _writers_of(dataset, parts) if partitioner == "by_writer" else None
    dataset, test_clients = _tested_as_given(dataset, writers, test_samples, seed)
    for name, share in (("split", test_share), ("validation", validation_share)):
        if share is not None:
            dataset, parts, test_clients = _split_by_client(dataset, parts, share, seed, name)
    sized = dict(network_options or {})
    shaping = {"standardise": standardise, "crop": crop, "flip": flip, "start": sized.pop("start", "default")}
    layers = models.build(network, len(dataset.classes), sample_shape(dataset), **sized)
    federation = assemble(dataset, parts, layers, seed, l2, **shaping)
    federation = replace(
        federation, test_clients=test_clients, held_out=_held_out(dataset, writers, federation.network)
    )
    return poison(federation, draw_poisoners(federation, poisoners)) if poisoners else federation


def check_federation(arguments: dict[str, Any]) -> None:
    """Refuse arguments of `federate` that are impossible for any data."""
    bound = checked_arguments(federate, (), arguments)
    bound.apply_defaults()
    _require_possible(bound.arguments)


def _require_possible(given: dict[str, Any]) -> None:
    """Refuse unknown names, options that the partitioner or the network does not take, and contradictions."""
    partitioner, clients = given["partitioner"], given["clients"]
    if partitioner not in partition.PARTITIONERS:
        raise ValueError(f"unknown partitioner {partitioner!r}; known: {', '.join(sorted(partition.PARTITIONERS))}")
    options = _with_samples(given["options"], given["client_samples"], partitioner)
    bind(partition.PARTITIONERS[partitioner], (None, clients), options | {"rng": None})
    sizes = {name: value for name, value in (given["network_options"] or {}).items() if name != "start"}
    models.require_possible(given["network"], sizes)
    if given["poisoners"] > clients:
        raise ValueError(f"poisoners={given['poisoners']} must lie between 0 and the {clients} clients")
    if given["test_samples"] is not None and (given["test_share"] or given["validation_share"]):
        raise ValueError(
            "test_samples is a part of the data set's own test set: not with test_share or validation_share"
        )


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
    kept = _subset(len(dataset.y_train), samples, seed, "samples")
    labels = _known_writers(dataset) if partitioner == "by_writer" else dataset.y_train
    deal = partition.PARTITIONERS[partitioner]
    options = _with_samples(options, client_samples, partitioner)
    return [kept[part] for part in deal(labels.numpy()[kept], clients, **options, rng=generator(seed, "partition"))]


def _with_samples(options: dict, client_samples: int | None, partitioner: str) -> dict:
    """The partitioner's options, with the number of samples per client if it takes that."""
    if client_samples is None:
        return options
    takers = [name for name, deal in partition.PARTITIONERS.items() if "samples" in signature(deal).parameters]
    if partitioner not in takers:
        raise ValueError(f"{partitioner} deals all samples; client_samples is for {', '.join(takers)}")
    return options | {"samples": client_samples}


def _known_writers(dataset: data.Dataset) -> torch.Tensor:
    if dataset.writer_train is None or dataset.writer_test is None:
        raise ValueError(
            f"by_writer needs a data set that names its writers (femnist, handwriting), not {dataset.name}"
        )
    return dataset.writer_train


def _writers_of(dataset: data.Dataset, parts: list[np.ndarray]) -> torch.Tensor:
    """The writer of each client."""
    return _known_writers(dataset)[[int(part[0]) for part in parts]]


def _subset(size: int, wanted: int | None, seed: int, name: str) -> np.ndarray:
    """Indices of a random part, the same for all methods of a seed."""
    if wanted is None:
        return np.arange(size)
    if wanted > size:
        raise ValueError(f"{name}={wanted} must lie between 1 and the {size} there are")
    return np.sort(generator(seed, name).choice(size, wanted, replace=False))


def _split_by_client(
    dataset: data.Dataset, parts: list[np.ndarray], share: float, seed: int, name: str
) -> tuple[data.Dataset, list[np.ndarray], torch.Tensor]:
    """A random share of each client's samples, at least one, is kept from training and used for testing; the third
    result names their clients. Where clients share samples, nobody trains on a sample that somebody tests on. For
    validation, which needs no accuracy per client, a client with a single sample gives none."""
    fewest = 0 if name == "validation" else 1
    streams = (generator(seed, name, 0, client) for client in range(len(parts)))
    chosen = [_some_of(np.unique(part), share, fewest, stream) for part, stream in zip(parts, streams, strict=True)]
    tested = np.concatenate(chosen)
    training = [part[~np.isin(part, tested)] for part in parts]
    if empty := [client for client, part in enumerate(training) if len(part) == 0]:
        raise ValueError(
            f"clients {empty} have too few samples of their own to train and test: lower the share {share}"
        )
    owners = torch.arange(len(parts)).repeat_interleave(torch.tensor([len(part) for part in chosen]))
    writers = dataset.writer_train
    changed = {"x_test": dataset.x_train[tested], "y_test": dataset.y_train[tested]}
    return replace(dataset, **changed, writer_test=None if writers is None else writers[tested]), training, owners


def _some_of(part: np.ndarray, share: float, fewest: int, rng: np.random.Generator) -> np.ndarray:
    """A random share: at least one sample, and not all if there are several; of a single sample, `fewest`."""
    count = min(max(1, round(share * len(part))), max(fewest, len(part) - 1))
    return np.sort(rng.permutation(part)[:count])


def _tested_as_given(
    dataset: data.Dataset, writers: torch.Tensor | None, test_samples: int | None, seed: int
) -> tuple[data.Dataset, torch.Tensor | None]:
    """The data set's own test samples, or some of them; if clients are writers, only those that the clients wrote."""
    if writers is None or dataset.writer_test is None:
        kept = _subset(len(dataset.y_test), test_samples, seed, "test_samples")
        return _tested_on(dataset, torch.as_tensor(kept)), None
    client_of = torch.full((int(max(writers.max(), dataset.writer_test.max())) + 1,), -1)
    client_of[writers] = torch.arange(len(writers))
    owners = client_of[dataset.writer_test]
    written = torch.nonzero(owners >= 0).flatten()
    kept = written[_subset(len(written), test_samples, seed, "test_samples")]
    return _tested_on(dataset, kept), owners[kept]


def _tested_on(dataset: data.Dataset, rows: torch.Tensor) -> data.Dataset:
    """The data set with these test samples only."""
    if len(rows) == len(dataset.y_test):
        return dataset
    return replace(dataset, x_test=dataset.x_test[rows], y_test=dataset.y_test[rows])


def _held_out(
    dataset: data.Dataset, writers: torch.Tensor | None, network: Network
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Training samples and labels of the writers who are not clients."""
    if writers is None or dataset.writer_train is None:
        return None
    rest = torch.isin(dataset.writer_train, writers, invert=True)
    return network.store(dataset.x_train[rest]), dataset.y_train[rest]


def draw_poisoners(federation: Federation, poisoners: int) -> np.ndarray:
    """Which clients have wrong labels."""
    if not 0 < poisoners <= federation.clients:
        raise ValueError(f"poisoners={poisoners} must lie between 0 and the {federation.clients} clients")
    return np.sort(generator(federation.seed, "poisoners").choice(federation.clients, poisoners, replace=False))


def poison(federation: Federation, poisoners: np.ndarray) -> Federation:
    """The federation with these clients' labels all wrong: every class gets the label of the next one.

    They get copies of their samples, so that clients who share some of them keep the right labels.
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
