"""The usual loop: clients one after another in plain PyTorch, with a DataLoader each."""

import copy
from collections.abc import Iterable
from typing import cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler, Subset, TensorDataset

from fedlib.bench import workloads
from fedlib.bench.contestants import Serve
from fedlib.bench.workloads import Workload


def descend(network: nn.Module, batches: Iterable, workload: Workload) -> int:
    """Local SGD over the batches; returns how many samples were seen."""
    optimizer = torch.optim.SGD(network.parameters(), lr=workload.lr, momentum=workload.momentum)
    seen = 0
    for x, y in batches:
        optimizer.zero_grad()
        functional.cross_entropy(network(x), y).backward()
        optimizer.step()
        seen += len(y)
    return seen


def average(models: list[dict[str, torch.Tensor]], sizes: list[int]) -> dict[str, torch.Tensor]:
    """sum_i n_i / n * w_i, tensor by tensor."""
    total = sum(sizes)
    mean = {name: torch.zeros_like(weights) for name, weights in models[0].items()}
    for model, size in zip(models, sizes, strict=True):
        for name in mean:
            mean[name] += model[name] * (size / total)
    return mean


def train_round(server: nn.Module, loaders: Iterable[DataLoader], workload: Workload) -> int:
    """One round in place: each client trains its own copy of the server's model, the server averages by data size."""
    models, sizes, seen = [], [], 0
    for loader in loaders:
        local = copy.deepcopy(server)
        seen += descend(local, loader, workload)
        models.append(local.state_dict())
        sizes.append(len(cast(Subset, loader.dataset)))
    server.load_state_dict(average(models, sizes))
    return seen


def loader(workload: Workload, samples: Subset) -> DataLoader:
    """A client's batches of one round: shuffled epochs, or steps drawn with replacement."""
    if workload.steps is None:
        return DataLoader(samples, workload.batch, shuffle=True)
    sampler = RandomSampler(samples, replacement=True, num_samples=workload.steps * workload.batch)
    return DataLoader(samples, workload.batch, sampler=sampler)


def run(workload: Workload, serve: Serve) -> None:
    data = TensorDataset(*workloads.tensors(workload))
    clients = [Subset(data, workloads.rows(workload, client)) for client in range(workload.clients)]
    rng = np.random.default_rng(workloads.SEED)
    servers = [workloads.build(workload) for _ in range(max(1, workload.groups))]

    def play(round: int) -> int:
        chosen = workloads.participants(workload, rng)
        return sum(
            train_round(server, [loader(workload, clients[client]) for client in members], workload)
            for server, members in zip(servers, np.split(chosen, len(servers)), strict=True)
        )

    serve({"round": play}, {"threads": f"{torch.get_num_threads()} torch threads"})
