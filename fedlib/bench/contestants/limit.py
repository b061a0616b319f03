"""The limit: the same sample gradients with no clients at all.

Central training whose batch is the union of all participants' batches: one model, large products, RAM, all cores. A
simulator without any overhead for clients would run at this speed; one that works with smaller pieces, which stay in
the cache, may be faster.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedlib.bench import workloads
from fedlib.bench.contestants import Serve
from fedlib.bench.workloads import Workload


def in_ram(workload: Workload) -> tuple[torch.Tensor, torch.Tensor]:
    """The data with channels last in memory, so that rows of it stay channels last."""
    x, y = workloads.tensors(workload)
    return (x.movedim(1, -1).contiguous() if x.ndim == 4 else x), y


def union_batches(workload: Workload, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
    """Rows of each large batch of one round."""
    chosen = workloads.participants(workload, rng)
    rows = np.concatenate([client * workload.size + workloads.draw(workload, rng) for client in chosen])
    return torch.as_tensor(rng.permutation(rows)).split(workload.batch * workload.participants)


def step(network: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    """One step of central SGD."""
    optimizer.zero_grad()
    functional.cross_entropy(network(x.movedim(-1, 1) if x.ndim == 4 else x), y).backward()
    optimizer.step()


def run(workload: Workload, serve: Serve) -> None:
    x, y = in_ram(workload)
    rng = np.random.default_rng(workloads.SEED)
    network = workloads.build(workload)
    network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  not in torch's annotations
    optimizer = torch.optim.SGD(network.parameters(), lr=workload.lr, momentum=workload.momentum)

    def play(round: int) -> int:
        batches = union_batches(workload, rng)
        for rows in batches:
            step(network, optimizer, x[rows], y[rows])
        return sum(map(len, batches))

    serve({"round": play}, {"threads": f"{torch.get_num_threads()} torch threads"})
