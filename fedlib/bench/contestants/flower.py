"""Flower: its Simulation Runtime on Ray, with the message API and the FedAvg strategy.

Fast settings: one actor per core with one thread each, clients' data in the RAM of every actor, batches by index, no
evaluation, no log, and the server asks for replies every 5 ms instead of every 100. The runtime itself delivers
messages every 100 ms; there is no setting for that.
"""

# The peers have an environment of their own, .venv-peers.
# pyright: reportMissingImports=false

import logging
import os
import runpy
import sys
from functools import cache
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from fedlib.bench import workloads
from fedlib.bench.contestants import Serve, loop
from fedlib.bench.workloads import Workload

WORKER = str(Path(__file__).parents[1] / "worker.py")


@cache
def in_ram(workload: Workload) -> tuple[torch.Tensor, torch.Tensor]:
    """The data, once in each actor."""
    torch.set_num_threads(1)
    return workloads.tensors(workload)


def train_client(workload: Workload, message: Message, client: int) -> Message:
    """What an actor does for one client: local SGD from the server's weights."""
    x, y = in_ram(workload)
    rows = torch.as_tensor(client * workload.size + workloads.draw(workload, np.random.default_rng()))
    network = workloads.build(workload)
    network.load_state_dict(message.content["arrays"].to_torch_state_dict())
    seen = loop.descend(network, ((x[batch], y[batch]) for batch in rows.split(workload.batch)), workload)
    metrics = MetricRecord({"num-examples": workload.size, "seen": seen})
    content = RecordDict({"arrays": ArrayRecord(network.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


def client_app(workload: Workload) -> ClientApp:
    """The client side. `train` travels to the actors by value and imports modules there, without fedlib's settings."""
    app = ClientApp()
    values, worker = workload.as_dict(), WORKER

    @app.train()
    def train(message, context):
        if "fedlib" not in sys.modules:
            runpy.run_path(worker)["import_without_settings"]()
        from fedlib.bench.contestants import flower
        from fedlib.bench.workloads import Workload

        return flower.train_client(Workload.from_dict(values), message, int(context.node_config["partition-id"]))

    return app


def server_app(workload: Workload, serve: Serve, actors: int) -> ServerApp:
    """The server side: one round of the strategy at a time."""
    app = ServerApp()

    @app.main()
    def main(grid, context):
        grid.pull_interval = 0.005
        strategy = FedAvg(
            workload.participants / workload.clients,
            fraction_evaluate=0.0,
            min_train_nodes=workload.participants,
            min_available_nodes=workload.clients,
        )
        arrays = ArrayRecord(workloads.build(workload).state_dict())

        def play(round: int) -> int:
            nonlocal arrays
            result = strategy.start(grid, arrays, num_rounds=1)
            arrays = result.arrays
            return round_samples(workload, result.train_metrics_clientapp[1])

        serve({"round": play}, {"threads": f"{actors} Ray actors, 1 torch thread each"})

    return app


def round_samples(workload: Workload, metrics: MetricRecord) -> int:
    """The strategy averages what clients report: mean samples times participants."""
    return round(metrics["seen"] * workload.participants)


def run(workload: Workload, serve: Serve) -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)
    actors = len(os.sched_getaffinity(0))
    run_simulation(
        server_app(workload, serve, actors),
        client_app(workload),
        num_supernodes=workload.clients,
        backend_config={
            "init_args": {"num_cpus": actors, "logging_level": "error", "log_to_driver": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
