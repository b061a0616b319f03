"""FedSR exactly as its Algorithm 1 is printed (Huang, Ye, Kang), to see what the misprints cost.

The printed ring loop runs r = 0, 1, ..., R, one pass more than R, and returns w_R^{alpha_K}: the model that the last
device *received* in the last pass, not the one it trained. To run it at all, one thing must be corrected: the last
device writes w_r^{alpha_1}, but the next pass begins with w_{r+1}^{alpha_1}, which nothing sets; here they are equal.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State
from fedlib.algorithms.clusters import mean_by_cluster_size
from fedlib.algorithms.fedsr import FedSR
from fedlib.algorithms.ring import ring_optimization
from fedlib.problem import Federation


@dataclass(frozen=True)
class LiteralFedSR(FedSR):
    """R + 1 passes; the last device's work in the last pass is lost, but it still counts as work."""

    def round(self, federation: Federation, state: State, round: int) -> State:
        rings = self.rings(federation, round)
        models = ring_optimization(federation, state["weights"], rings, self.work(round), self.passes, round)  # r < R
        models = self.last_pass(federation, models, rings, round)  # r = R
        return {"weights": mean_by_cluster_size(federation, rings, models)}

    def last_pass(
        self, federation: Federation, models: torch.Tensor, rings: list[np.ndarray], round: int
    ) -> torch.Tensor:
        """w_R^{alpha_K} of each ring: one more pass, up to the model that the last device receives."""
        work = self.work(round)
        visit = replace(work, epochs_done=self.passes * (work.epochs or 0))
        for k in range(max(map(len, rings)) - 1):
            devices = np.array([ring[k] for ring in rings if k < len(ring) - 1])  # longer rings come first
            cohort = engine.Cohort(devices, models[: len(devices)])
            models[: len(devices)] = engine.train(federation, cohort, visit, round).weights
        return models
