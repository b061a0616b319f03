"""FedSR (Huang, Ye, Kang: "FedSR: A Semi-Decentralized Federated Learning Algorithm for Non-IIDness in IoT System"),
Algorithm 1: a star of rings.

Every edge server connects its devices into a ring; a model makes R passes through each ring; the cloud averages the
rings' models by data size.
"""

from dataclasses import dataclass

import numpy as np

from fedlib.algorithms.algorithm import State
from fedlib.algorithms.clusters import clusters, mean_by_cluster_size, require_epochs
from fedlib.algorithms.fedavg import FedAvg
from fedlib.algorithms.ring import ring_optimization
from fedlib.problem import Federation
from fedlib.problem.limits import Count


@dataclass(frozen=True)
class FedSR(FedAvg):
    """Rings of `cluster_size` devices, drawn afresh each round.

    One ring of all devices with one pass is ring-optimization. Rings of one device with E passes are FedAvg with E
    epochs, except for momentum: here it restarts with every visit, in FedAvg once per round.
    """

    epochs: Count | None = 1  # E, local epochs per visit
    cluster_size: Count = 4  # Q, devices in a ring
    passes: Count = 5  # R, how often the model goes around the ring

    def __post_init__(self):
        super().__post_init__()
        require_epochs("FedSR", self.epochs, self.steps)

    def rings(self, federation: Federation, round: int) -> list[np.ndarray]:
        """I_t^m, the devices of each edge server in the order of its ring."""
        return clusters(federation, self.participants(federation, round), self.cluster_size, round)

    def round(self, federation: Federation, state: State, round: int) -> State:
        rings = self.rings(federation, round)
        models = ring_optimization(federation, state["weights"], rings, self.work(round), self.passes, round)  # w_t^m
        return {"weights": mean_by_cluster_size(federation, rings, models)}  # (11)
