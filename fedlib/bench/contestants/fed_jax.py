"""FedJAX: its performant federated averaging (`fedjax.algorithms.fed_avg`) with the jit backend and Haiku models.

Fast settings: clients' data as NumPy arrays in RAM, batches of one shape so that nothing is compiled twice. For this,
FedJAX fills up the last batch of an epoch with further samples, so its rounds may have a few more sample gradients.
"""

# The peers have an environment of their own, .venv-peers.
# pyright: reportMissingImports=false

import os
from collections.abc import Callable

import fedjax
import haiku
import jax
import numpy as np
from fedjax.algorithms import fed_avg
from torch import nn

from fedlib.bench import workloads
from fedlib.bench.contestants import Serve
from fedlib.bench.workloads import Workload


def haiku_layer(layer: nn.Module) -> Callable:
    """The Haiku counterpart of one torch layer; images have their channels last."""
    match layer:
        case nn.Flatten():
            return haiku.Flatten()
        case nn.ReLU():
            return jax.nn.relu
        case nn.Linear():
            return haiku.Linear(layer.out_features)
        case nn.MaxPool2d():
            return haiku.MaxPool((2, 2, 1), (2, 2, 1), "VALID")
        case nn.Conv2d():
            return haiku.Conv2D(layer.out_channels, layer.kernel_size, padding="SAME" if layer.padding[0] else "VALID")
    raise ValueError(f"no Haiku layer for {layer}")


def model(workload: Workload, sample: dict[str, np.ndarray]) -> fedjax.Model:
    """The workload's network in Haiku."""
    network = workloads.build(workload)

    def forward(batch):
        return haiku.Sequential([haiku_layer(layer) for layer in network])(batch["x"])

    def loss(batch, scores):
        return fedjax.metrics.unreduced_cross_entropy_loss(batch["y"], scores)

    return fedjax.create_model_from_haiku(haiku.transform(forward), sample, loss)


def in_ram(workload: Workload) -> fedjax.InMemoryFederatedData:
    """Clients' data by client id, floats in [0, 1], channels last."""
    x, y = workloads.tensors(workload)
    values = (x.movedim(1, -1).contiguous() if x.ndim == 4 else x).numpy()
    spans = [workloads.rows(workload, client) for client in range(workload.clients)]
    return fedjax.InMemoryFederatedData(
        {
            client: {"x": values[span.start : span.stop], "y": y.numpy()[span.start : span.stop]}
            for client, span in enumerate(spans)
        }
    )


def batching(workload: Workload) -> fedjax.ShuffleRepeatBatchHParams:
    """Shuffled epochs or steps, in batches of one shape."""
    return fedjax.ShuffleRepeatBatchHParams(workload.batch, num_epochs=workload.epochs, num_steps=workload.steps)


def run(workload: Workload, serve: Serve) -> None:
    data = in_ram(workload)
    sample = next(iter(data.get_client(0).shuffle_repeat_batch(batching(workload))))
    network = model(workload, sample)
    algorithm = fed_avg.federated_averaging(
        fedjax.model_grad(network),
        fedjax.optimizers.sgd(workload.lr, momentum=workload.momentum or None),
        fedjax.optimizers.sgd(1.0),
        batching(workload),
    )
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, workload.participants, seed=workloads.SEED)
    state = algorithm.init(network.init(jax.random.PRNGKey(workloads.SEED)))

    def play(round: int) -> int:
        nonlocal state
        clients = sampler.sample()
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)
        return len(clients) * workload.client_steps * workload.batch

    serve({"round": play}, {"threads": f"XLA's thread pool on {len(os.sched_getaffinity(0))} cores"})
