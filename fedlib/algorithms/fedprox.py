"""FedProx (Li et al., MLSys 2020): FedAvg whose clients are held back by a spring to the model they received.

Client i descends F_i(w) + mu/2 * |w - w_t|^2, so its direction is grad F_i(w) + mu * (w - w_t).
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem.federation import Federation


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg with a proximal term."""

    mu: float = 0.01  # strength of the spring; 0 is FedAvg

    def __post_init__(self):
        super().__post_init__()
        if self.mu < 0:
            raise ValueError(f"mu={self.mu} must not be negative: it pulls clients towards the server's model")

    def hooks(self, federation: Federation, received: torch.Tensor, clients: np.ndarray) -> dict:
        return {"pull": self.mu, "shift": -self.mu * received}
