"""HierFAVG (Liu et al., ICC 2020): FedAvg on two levels. Each edge server averages its devices several times before the
cloud averages the edge servers."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size
from fedlib.algorithms.clusters import clusters, mean_by_cluster_size, require_epochs
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import Count


@dataclass(frozen=True)
class HierFAVG(FedAvg):
    """In every round the participants are assigned at random to edge servers of `cluster_size` devices, the last with
    fewer if need be; as FedSR draws its rings, and unlike HierFAVG's own paper, where the assignment is fixed. In one
    edge iteration the devices of an edge server start from its model, train, and are averaged by data size."""

    epochs: Count | None = 1  # local epochs per edge iteration
    cluster_size: Count = 4  # devices of an edge server
    iterations: Count = 5  # edge iterations per round, before the cloud averages

    def __post_init__(self):
        super().__post_init__()
        require_epochs("HierFAVG", self.epochs, self.steps)

    def edges(self, federation: Federation, round: int) -> list[np.ndarray]:
        """The devices of each edge server."""
        return clusters(federation, self.participants(federation, round), self.cluster_size, round)

    def round(self, federation: Federation, state: State, round: int) -> State:
        edges, work = self.edges(federation, round), self.work(round)
        sizes = [len(devices) for devices in edges]
        edge_of = torch.arange(len(edges)).repeat_interleave(torch.tensor(sizes))
        models = state["weights"].repeat(len(edges), 1)
        for iteration in range(self.iterations):
            # With epochs_done, an iteration continues the round's sequence of random sample orders.
            visit = replace(work, epochs_done=iteration * (work.epochs or 0))
            cohort = engine.Cohort(np.concatenate(edges), models[edge_of])
            local = engine.train(federation, cohort, visit, round).weights.split(sizes)
            averages = [mean_by_size(federation, *edge) for edge in zip(edges, local, strict=True)]
            models = torch.stack(averages)
        return {"weights": mean_by_cluster_size(federation, edges, models)}
