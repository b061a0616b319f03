"""ACFMO: adaptive central federated momentum optimisation (Zhao, Lu, Cai: "Adaptive Central Acceleration with Variance
Control for Robust Federated Optimization in Ubiquitous Intelligence", IEEE IoT Journal 2025), Section IV.

The server takes an Adam-like step on the participants' pooled gradient, the anchor; the participants then take K small
steps whose noise is controlled by that anchor, and their drift is added, scaled by how common each feature is.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import Algorithm, State, mean_by_size, require_softmax, sizes_of
from fedlib.problem import Federation
from fedlib.problem.limits import Count, Decay, Positive, Whole


@dataclass(frozen=True)
class ACFMO(Algorithm):
    """Hyper-parameters with the paper's symbols; `steps = 0` leaves the local steps out (the ablation)."""

    steps: Whole = 10  # K, local steps; the paper prints no value
    batch: Count = 16  # samples per local step; the paper says "a sample or a batch"
    lr: Positive = 0.02  # alpha_l; client i steps with alpha_l / n_i
    server_lr: Positive = 0.02  # alpha_g^0
    beta1: Decay = 0.9  # decay of the first moment; 0 is no momentum
    beta2: Decay = 0.999  # decay of the second moment
    epsilon: Positive = 1e-8  # inside the root of Eq. (4)
    variant: Literal["printed", "current", "unnormalised"] = "printed"  # how to read Eqs. (4) to (9), see `moments`

    def init(self, federation: Federation) -> State:
        require_softmax(federation, "ACFMO")
        zeros = torch.zeros_like(federation.start)
        counts = feature_counts(federation)
        return {"weights": federation.start.clone(), "m": zeros, "v": zeros.clone(), "feature_counts": counts}

    def rate(self, index: int) -> float:
        """alpha_g^index, Eq. (7): zero at index 0."""
        return self.server_lr * (1 - self.beta1) * sqrt((1 - self.beta2**index) / (1 - self.beta2))

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        weights = state["weights"]
        anchor = engine.pooled_gradient(federation, weights, clients)  # g(w^{r-1}), Eq. (3)
        m, v = self.moments(state, anchor)
        if self.variant == "printed":
            rate, step_m, step_v = self.rate(round - 1), state["m"], state["v"]
        else:
            rate, step_m, step_v = self.rate(round), m, v
        accelerated = weights - rate * step_m / engine.root(step_v + self.epsilon)  # w-hat^{r-1}, Eq. (4)
        drift = self.drift(federation, state["feature_counts"], accelerated, anchor, clients, round)
        return state | {"weights": accelerated + rate * drift, "m": m, "v": v}

    def moments(self, state: State, anchor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """m_r and v_r, Eqs. (8) and (9).

        | variant | what the central step of round r uses |
        |---|---|
        | printed | moments and rate of round r-1, which do not know this round's gradient |
        | current | those of round r |
        | unnormalised | those of round r, the gradient with weight 1: the sums that the rate of Eq. (7) belongs to |

        With unnormalised sums (1 - beta1) m is the running mean, and (1 - beta2) / (1 - beta2^r) v that of the squares:
        the step is alpha_g^0 times Adam's, whatever the decay rates (Defossez et al., "A simple convergence proof of
        Adam and Adagrad", 2022).
        """
        fresh = (1.0, 1.0) if self.variant == "unnormalised" else (1 - self.beta1, 1 - self.beta2)
        return self.beta1 * state["m"] + fresh[0] * anchor, self.beta2 * state["v"] + fresh[1] * anchor**2

    def drift(
        self,
        federation: Federation,
        feature_counts: torch.Tensor,
        accelerated: torch.Tensor,
        anchor: torch.Tensor,
        clients: np.ndarray,
        round: int,
    ) -> torch.Tensor:
        """A_r xi_r / (S K): what the local steps add, Eqs. (12)-(20) without the rate."""
        if self.steps == 0:
            return torch.zeros_like(anchor)

        def step(
            weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch
        ) -> tuple[torch.Tensor, engine.Memory]:
            difference = batch.difference(weights, accelerated.expand_as(weights))
            difference.unflatten(-1, (federation.classes, -1)).mul_(memory["scale"].unsqueeze(-2))  # Eq. (12)
            return difference.add_(anchor), {}  # -d_{i,k-1}, Eq. (14)

        scale = feature_scale(federation, feature_counts, clients)  # Lambda_i, the same for all classes
        rates = self.lr / sizes_of(federation, clients)
        cohort = engine.Cohort(clients, accelerated, rates=rates, memory={"scale": scale})
        work = engine.Work(lr=self.lr, batch=self.batch, steps=self.steps)
        local = engine.train(federation, cohort, work, round, step=step).weights
        moved = mean_by_size(federation, clients, local - accelerated)  # xi_r, Eq. (17)
        holders = (feature_counts > 0).sum(0).clamp(min=1)  # omega^j, Eq. (19)
        rarity = (len(clients) / holders).repeat(federation.classes)  # A_r, Eq. (18)
        return rarity * moved / (len(clients) * self.steps)


def feature_counts(federation: Federation) -> torch.Tensor:
    """n_i^j, how many samples of client i have a non-zero j-th input, the bias's column of ones included; (clients,
    inputs)."""
    return torch.stack([(federation.x[rows] != 0).sum(0) for rows in federation.rows]).float()


def feature_scale(federation: Federation, feature_counts: torch.Tensor, clients: np.ndarray) -> torch.Tensor:
    """Diagonal of Lambda_i, Eq. (13): (n^j / n) / (n_i^j / n_i), 0 where the client never sees feature j; (clients,
    inputs)."""
    commonness = feature_counts.sum(0) / federation.sizes.sum()  # n^j / n
    counts = feature_counts[torch.as_tensor(clients)]
    sizes = sizes_of(federation, clients).unsqueeze(1)
    return torch.where(counts > 0, commonness * sizes / counts.clamp(min=1), 0.0)
