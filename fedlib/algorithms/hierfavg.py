"""HierFAVG (Liu et al., ICC 2020): FedAvg in two storeys. Each edge server averages its devices several times before
the cloud averages the edge servers."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size
from fedlib.algorithms.clusters import clusters, mean_by_cluster_size, require_counts, require_epochs
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem.federation import Federation


@dataclass(frozen=True)
class HierFAVG(FedAvg):
    """Edge servers of `cluster_size` devices, chosen afresh each round; one edge iteration is FedAvg."""

    epochs: int | None = 1  # local epochs an edge iteration
    cluster_size: int = 4  # devices of an edge server
    iterations: int = 5  # averages at the edge before the cloud's

    def __post_init__(self):
        super().__post_init__()
        require_epochs(self)
        require_counts(cluster_size=self.cluster_size, iterations=self.iterations)

    def edges(self, federation: Federation, round: int) -> list[np.ndarray]:
        """The devices of each edge server."""
        return clusters(federation, self.participants(federation, round), self.cluster_size, round)

    def round(self, federation: Federation, state: State, round: int) -> State:
        edges = self.edges(federation, round)
        sizes = [len(devices) for devices in edges]
        edge_of = torch.arange(len(edges)).repeat_interleave(torch.tensor(sizes))
        models, work = state["weights"].repeat(len(edges), 1), self.work(round)
        for iteration in range(self.iterations):
            now = replace(work, epochs_done=iteration * work.epochs)
            local = engine.train(federation, models[edge_of], np.concatenate(edges), now, round)
            models = torch.stack(list(map(partial(mean_by_size, federation), edges, local.split(sizes))))
        return {"weights": mean_by_cluster_size(federation, edges, models)}
