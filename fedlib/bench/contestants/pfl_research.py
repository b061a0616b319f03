"""pfl: FederatedAveraging on its SimulatedBackend, users spread over one process per core.

Fast settings: users' data as tensors in RAM of each process, one thread each, no evaluation after the first round, no
metrics printed. pfl leaves the order of samples to its caller: a user's data set is shuffled or drawn when it is made.
"""

# The peers have an environment of their own, .venv-peers.
# pyright: reportMissingImports=false

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedlib.bench import workloads
from fedlib.bench.contestants import Serve
from fedlib.bench.workloads import Workload

RANK, ADDRESSES = "PFL_WORKER_RANK", "PFL_WORKER_ADDRESSES"  # pfl's own names


class Trainable(nn.Module):
    """A network with the loss and the metrics that pfl asks for."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.network(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
        from pfl.metrics import Weighted

        return {"loss": Weighted(self.loss(x, y).item() * len(y), len(y))}


@dataclass
class PflSimulation:
    """pfl's objects for one workload; `round` runs one central iteration."""

    workload: Workload
    seen: int = 0  # samples of this process in the last round
    iterations: int = 0
    parts: dict = field(default_factory=dict)

    def prepare(self) -> None:
        """Data, network and pfl's backend."""
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.aggregate.weighting import WeightByDatapoints
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.data.federated_dataset import FederatedDataset
        from pfl.data.sampling import get_user_sampler
        from pfl.model.pytorch import PyTorchModel

        torch.set_num_threads(1)
        # pfl's processes draw the cohort from the global generator and must agree.
        np.random.seed(workloads.SEED)  # noqa: NPY002
        network = Trainable(workloads.build(self.workload))
        sampler = get_user_sampler("minimize_reuse", list(range(self.workload.clients)))
        users = FederatedDataset(self.user, sampler)
        self.parts = {
            "data": workloads.tensors(self.workload),
            "rng": np.random.default_rng(),
            "algorithm": FederatedAveraging(),
            "backend": SimulatedBackend(users, users, [WeightByDatapoints()]),
            "model": PyTorchModel(network, self.local_optimizer, torch.optim.SGD(network.parameters(), lr=1.0)),
        }

    def local_optimizer(self, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
        """SGD of a user."""
        return torch.optim.SGD(parameters, lr=lr, momentum=self.workload.momentum)

    def user(self, client: int) -> object:
        """One user's data set for one round."""
        from pfl.data.dataset import Dataset

        x, y = self.parts["data"]
        drawn = workloads.draw(self.workload, self.parts["rng"])
        self.seen += len(drawn)
        rows = torch.as_tensor(client * self.workload.size + drawn)
        return Dataset((x[rows], y[rows]), user_id=str(client))

    def round(self) -> None:
        """One central iteration."""
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.hyperparam import NNTrainHyperParams

        self.seen, self.iterations = 0, self.iterations + 1
        train = NNTrainHyperParams(
            local_batch_size=self.workload.batch, local_num_epochs=1, local_learning_rate=self.workload.lr
        )
        self.parts["algorithm"].run(
            NNAlgorithmParams(
                self.iterations,
                evaluation_frequency=10**9,
                train_cohort_size=self.workload.participants,
                val_cohort_size=0,
            ),
            self.parts["backend"],
            self.parts["model"],
            train,
            send_metrics_to_platform=False,
        )


def other_processes(workload: Workload, processes: int) -> list[subprocess.Popen]:
    """The other processes; they play one round for each line on their standard input."""
    job = {"module": __name__, "pinned": False, "workload": workload.as_dict()}
    command = [sys.executable, "-P", sys.argv[0], json.dumps(job)]
    return [
        subprocess.Popen(command, env=os.environ | {RANK: str(rank)}, stdin=subprocess.PIPE, text=True)
        for rank in range(1, processes)
    ]


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def follow(simulation: PflSimulation) -> None:
    """One of the other processes: one round per line, until the first process is gone."""
    for _ in sys.stdin:
        simulation.round()


def lead(simulation: PflSimulation, serve: Serve) -> None:
    """The first process: starts the others and answers for all."""
    processes = len(os.sched_getaffinity(0))
    os.environ |= {ADDRESSES: ",".join([f"127.0.0.1:{free_port()}"] * processes), RANK: "0"}
    others = other_processes(simulation.workload, processes)
    lines = [other.stdin for other in others if other.stdin]
    simulation.prepare()

    def play(round: int) -> int:
        for line in lines:
            line.write("go\n")
            line.flush()
        simulation.round()
        return simulation.seen * processes  # users are spread evenly

    serve({"round": play}, {"threads": f"{processes} processes, 1 torch thread each"})
    for line, other in zip(lines, others, strict=True):
        line.close()
        other.wait()


def run(workload: Workload, serve: Serve) -> None:
    simulation = PflSimulation(workload)
    if RANK in os.environ:
        simulation.prepare()
        follow(simulation)
    else:
        lead(simulation, serve)
