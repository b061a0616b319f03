"""The engine: every call of the benchmark into `fedlib.engine` and `fedlib.algorithms` is in this file."""

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.fedavg import FedAvg
from fedlib.bench import workloads
from fedlib.bench.contestants import NotAvailable, Play, Serve
from fedlib.bench.workloads import Workload
from fedlib.data import Dataset
from fedlib.engine import threads
from fedlib.engine.minibatches import client_minibatches
from fedlib.problem import federation


def federate(workload: Workload) -> federation.Federation:
    """The workload's data and network as a federation."""
    x, y = map(torch.as_tensor, workloads.samples(workload))
    names = tuple(str(label) for label in range(workload.classes))
    few = slice(0, workload.classes)  # nothing is evaluated
    dataset = Dataset("synthetic", x, y, x[few], y[few], names, None, None, fingerprint="synthetic")
    parts = [np.asarray(workloads.rows(workload, client)) for client in range(workload.clients)]
    return federation.assemble(dataset, parts, workloads.build(workload), workloads.SEED)


def work(workload: Workload) -> engine.Work:
    """What a client does in a round."""
    return engine.Work(workload.lr, workload.batch, workload.epochs, workload.steps, workload.momentum)


def method(workload: Workload) -> FedAvg:
    """FedAvg with the workload's settings."""
    return FedAvg(
        workload.participants / workload.clients,
        lr=workload.lr,
        batch=workload.batch,
        steps=workload.steps,
        epochs=workload.epochs,
        momentum=workload.momentum,
    )


def averaging(workload: Workload, federated: federation.Federation) -> Play:
    """Rounds of FedAvg, as any algorithm file would run them."""
    fedavg = method(workload)
    state = fedavg.init(federated)

    def play(round: int) -> int:
        nonlocal state
        state = fedavg.round(federated, state, round)
        return workload.samples

    return play


def group_rows(workload: Workload, federated: federation.Federation, round: int) -> list[torch.Tensor]:
    """The batches of each group's devices, joined: the devices of a group stand side by side."""
    drawn = [client_minibatches(federated, client, work(workload), round) for client in range(workload.participants)]
    chosen = [federated.rows[client][torch.as_tensor(batches[0])] for client, batches in enumerate(drawn)]
    size = workload.participants // workload.groups
    return [torch.cat(chosen[first : first + size]) for first in range(0, workload.participants, size)]


def synchronise(workload: Workload, federated: federation.Federation, models: torch.Tensor, round: int) -> torch.Tensor:
    """FedGS: one step of every device from its group's model, averaged in the group; models are (groups, weights)."""
    return engine.step_on_rows(federated, models, group_rows(workload, federated, round), workload.lr)


def synchronisation(workload: Workload, federated: federation.Federation) -> Play:
    """Rounds of FedGS's internal synchronisation."""
    if not hasattr(engine, "step_on_rows"):
        raise NotAvailable("the engine has no step for groups that synchronise after every batch")
    models = federated.start.repeat(workload.groups, 1)

    def play(round: int) -> int:
        nonlocal models
        models = synchronise(workload, federated, models, round)
        return workload.samples

    return play


def facts() -> dict[str, str]:
    """How many threads the engine uses."""
    return {"threads": f"{threads.threads()} threads of clients, {torch.get_num_threads()} torch thread each"}


def run(workload: Workload, serve: Serve) -> None:
    federated = federate(workload)
    play = synchronisation(workload, federated) if workload.groups else averaging(workload, federated)
    serve({"round": play}, facts())
