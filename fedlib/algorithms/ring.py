"""Ring-optimization (Huang, Ye, Kang: "FedSR: A Semi-Decentralized Federated Learning Algorithm for Non-IIDness in IoT
System"), Section III-B: the model travels from device to device; each trains it on its own data and passes it on.

There is no server and no averaging: an incremental subgradient method whose components are the devices.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State
from fedlib.algorithms.clusters import clusters, require_epochs
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import Count


@dataclass(frozen=True)
class Ring(FedAvg):
    """One ring through all participants, one pass per round: equations (6) and (7)."""

    epochs: Count | None = 1  # E, local epochs per visit
    redraw: bool = True  # a new order each round, as Algorithm 1 draws its rings; False keeps P_1, ..., P_K of (6)

    def __post_init__(self):
        super().__post_init__()
        require_epochs("Ring", self.epochs, self.steps)

    def ring(self, federation: Federation, round: int) -> np.ndarray:
        """P_1, ..., P_K: the devices of a round in the order of the ring."""
        devices = self.participants(federation, round)
        return clusters(federation, devices, len(devices), round)[0] if self.redraw else devices

    def round(self, federation: Federation, state: State, round: int) -> State:
        rings = [self.ring(federation, round)]
        (weights,) = ring_optimization(federation, state["weights"], rings, self.work(round), 1, round)
        return {"weights": weights}


def ring_optimization(
    federation: Federation, start: torch.Tensor, rings: list[np.ndarray], work: engine.Work, passes: int, round: int
) -> torch.Tensor:
    """The lower half of Algorithm 1 for rings side by side: each ring's model after its passes, (rings, weights).

    Device alpha_k of every ring trains at the same time, from the model its own ring handed to it. Only the model is
    handed on: a device starts with no momentum. Longer rings come first.
    """
    if any(len(later) > len(earlier) for earlier, later in pairwise(rings)):
        raise ValueError(f"rings of {[len(ring) for ring in rings]} devices: the longest must come first")
    models = start.repeat(len(rings), 1)  # w_0^{alpha_1} <- w_glob
    for r in range(passes):
        visit = replace(work, epochs_done=r * (work.epochs or 0))
        for k in range(max(map(len, rings))):
            devices = np.array([ring[k] for ring in rings if k < len(ring)])  # alpha_k, where rings are that long
            cohort = engine.Cohort(devices, models[: len(devices)])
            models[: len(devices)] = engine.train(federation, cohort, visit, round).weights  # w_r^{alpha_{k+1}}
    return models
