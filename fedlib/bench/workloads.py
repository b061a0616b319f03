"""What is measured: four federated rounds taken from the papers, and synthetic data of their shape.

| name | paper | one round |
|---|---|---|
| W1 | FedSR on MNIST | 10 of 100 clients, a two-layer perceptron, one epoch |
| W2 | FedSR on CIFAR-10 | 20 clients, a small convolutional network, one epoch |
| W3 | FCBAFL, ACFMO | 20 of 400 clients, softmax regression on HoG features, ten steps |
| W4 | FedGS on FEMNIST | ten groups of ten devices, one synchronised step each |

Processes that must stay free of fedlib's settings import this module too: it needs only NumPy, torch and the networks.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fedlib.problem import models

SEED = 20


@dataclass(frozen=True)
class Workload:
    """One federated round. A client passes `epochs` times over its data or takes `steps` steps; the server averages."""

    name: str
    title: str
    network: str  # a name in fedlib.models
    shape: tuple[int, ...]  # of one sample, channels first
    classes: int
    clients: int
    size: int  # samples per client
    participants: int
    batch: int
    epochs: int | None = None
    steps: int | None = None
    lr: float = 0.05
    momentum: float = 0.0
    groups: int = 0  # FedGS: participants form this many groups with a model each; 0 means one model for all

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(f"{self.name}: give epochs or steps, one of the two")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Workload":
        """The inverse of `as_dict`, also through JSON."""
        return cls(**{**values, "shape": tuple(values["shape"])})

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @property
    def client_steps(self) -> int:
        """Steps that one client takes in a round; the last batch of an epoch may be short."""
        return self.steps or (self.epochs or 0) * -(-self.size // self.batch)

    @property
    def samples(self) -> int:
        """Sample gradients of a round, all participants together."""
        per_client = self.steps * self.batch if self.steps else (self.epochs or 0) * self.size
        return self.participants * per_client

    @property
    def weights(self) -> int:
        """Parameters of the network."""
        return sum(weights.numel() for weights in build(self).parameters())


W1 = Workload(
    "W1",
    "Perceptron 784-200-200-10, 10 of 100 clients, 600 samples each, batch 32, one epoch, momentum 0.5",
    "mlp200",
    (28, 28),
    10,
    clients=100,
    size=600,
    participants=10,
    batch=32,
    epochs=1,
    momentum=0.5,
)
W2 = Workload(
    "W2",
    "FedSR's convolutional network on 3x32x32, 20 clients, 500 samples each, batch 32, one epoch, momentum 0.5",
    "cnn_fedsr",
    (3, 32, 32),
    10,
    clients=20,
    size=500,
    participants=20,
    batch=32,
    epochs=1,
    momentum=0.5,
)
W3 = Workload(
    "W3",
    "Softmax regression 576x10, 20 of 400 clients, 150 samples each, ten steps of batch 16",
    "softmax",
    (576,),
    10,
    clients=400,
    size=150,
    participants=20,
    batch=16,
    steps=10,
)
W4 = Workload(
    "W4",
    "FedGS: LEAF's network on 28x28, 62 classes, 10 groups of 10 devices, one step of batch 32",
    "cnn_leaf",
    (28, 28),
    62,
    clients=100,
    size=100,
    participants=100,
    batch=32,
    steps=1,
    groups=10,
)
WORKLOADS = {workload.name: workload for workload in (W1, W2, W3, W4)}

# What the engine should reach: how many times faster than each rival, and which share of the limit.
AIMS: dict[str, dict[str, float]] = {
    "W1": {"loop": 4.8, "flower": 5.5, "pfl": 2.8, "fedjax": 2.2, "limit": 0.80},
    "W2": {"loop": 2.8, "flower": 2.0, "pfl": 2.4, "fedjax": 2.6, "limit": 0.95},
    "W3": {"loop": 28, "flower": 50, "pfl": 14, "fedjax": 9, "limit": 1.20},
    "W4": {"loop": 2.6, "limit": 0.85},
}


def build(workload: Workload) -> nn.Sequential:
    """The workload's network with its initial weights."""
    network = models.build(workload.network, workload.classes, workload.shape)
    models.initialise(network, SEED)
    return network


def samples(workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Data of the right shape, client after client: a pattern for each class plus noise; bytes for images, else floats.

    Images come channels last, (samples, height, width[, channels]), as data sets are stored.
    """
    rng = np.random.default_rng(SEED)
    total = workload.clients * workload.size
    shape = workload.shape if len(workload.shape) < 3 else (*workload.shape[1:], workload.shape[0])
    labels = rng.integers(0, workload.classes, total)
    patterns = rng.integers(0, 128, (workload.classes, *shape), dtype=np.uint8)
    values = rng.integers(0, 128, (total, *shape), dtype=np.uint8)
    values += patterns[labels]
    return (values if len(shape) > 1 else values.astype(np.float32) / 255), labels


def tensors(workload: Workload) -> tuple[torch.Tensor, torch.Tensor]:
    """The data as the networks take it: floats in [0, 1] in RAM, channels first."""
    x, y = samples(workload)
    values = torch.as_tensor(x, dtype=torch.float32)
    if x.dtype == np.uint8:
        values /= 255
    if len(workload.shape) == 2:
        values = values.unsqueeze(1)
    return (values.movedim(-1, 1).contiguous() if len(workload.shape) == 3 else values), torch.as_tensor(y)


def rows(workload: Workload, client: int) -> range:
    """Where a client's samples lie."""
    return range(client * workload.size, (client + 1) * workload.size)


def participants(workload: Workload, rng: np.random.Generator) -> np.ndarray:
    """Who takes part in a round, drawn uniformly."""
    return rng.choice(workload.clients, workload.participants, replace=False)


def draw(workload: Workload, rng: np.random.Generator) -> np.ndarray:
    """Positions of the samples that one client sees in a round, in the order of its batches."""
    if workload.steps:
        return rng.integers(0, workload.size, workload.steps * workload.batch)
    return np.concatenate([rng.permutation(workload.size) for _ in range(workload.epochs or 0)])
