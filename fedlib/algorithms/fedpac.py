"""FedPAC (Xu, Tong, Huang, ICLR 2023): each client receives its own combination of the participants' heads.

The combination minimises an estimate of the client's error: variance of each head plus the distance between class statistics,
a quadratic programme over the simplex for each client. With a frozen extractor (here HoG) the statistics are those of the features, and
the alignment of features has nothing to act on.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, require_softmax
from fedlib.algorithms.fedavg import FedAvg
from fedlib.federation import Federation


@dataclass(frozen=True)
class FedPAC(FedAvg):
    """Local training from the client's own combined head; the server model is the mean of the combined heads by data size."""

    tolerance: float = 0.02  # the programme stops when its mean optimality gap is below this share of the mean variance
    iterations: int = 30  # of the programme at most; it goes on from the client's last combination

    def init(self, federation: Federation) -> State:
        require_softmax(federation, "FedPAC")
        weights = federation.start
        return {
            "weights": weights.clone(),
            "heads": weights.expand(federation.clients, -1).clone(),
            "mixing": torch.eye(federation.clients),
            "seen": torch.zeros(federation.clients, dtype=torch.bool),
        }

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        chosen = torch.as_tensor(clients)
        start = torch.where(state["seen"][chosen].unsqueeze(1), state["heads"][chosen], state["weights"])
        local = engine.train(federation, start, clients, self.work(round), round)
        mixing = self.combination(federation, state["mixing"], chosen)
        combined = engine.product(mixing, local)
        new = {name: tensor.clone() for name, tensor in state.items()}
        new["weights"] = mean_by_size(federation, clients, combined)
        new["heads"][chosen], new["seen"][chosen] = combined, True
        new["mixing"][chosen] = torch.zeros(len(chosen), federation.clients).index_copy_(1, chosen, mixing)
        return new

    def combination(self, federation: Federation, last: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Each participant's weights over the participants, from its last ones among those who are here."""
        gram, variance, bound = class_statistics(federation)
        start = last[chosen][:, chosen]
        alone = start.sum(1, keepdim=True) < 1e-6
        start = torch.where(alone, torch.eye(len(chosen)), start / start.sum(1, keepdim=True).clamp(min=1e-6))
        return combine(gram[chosen][:, chosen], variance[chosen], start, bound, self.tolerance, self.iterations)


@lru_cache(maxsize=1)
def class_statistics(federation: Federation) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Inner products of the clients' statistics h_i = (p_i(k) * mean of class k)_k, each client's variance over n_i, and the
    largest eigenvalue of the former.

    Combination weights add up to one, so what all h_i have in common cancels; it is taken out here.
    """
    share = federation.class_counts / federation.sizes.unsqueeze(1)
    means = federation.class_means[:, :, :-1]
    statistics = (share.unsqueeze(2) * means).flatten(1)
    statistics = statistics - statistics.mean(0)
    squares = torch.stack([(federation.x[rows, :-1] ** 2).sum(1).mean() for rows in federation.rows])
    within = squares - (share * (means**2).sum(2)).sum(1)  # trace of the within-class covariance
    gram = engine.product(statistics, statistics.T)
    return gram, within.clamp(min=0) / federation.sizes, largest_eigenvalue(gram)


def largest_eigenvalue(matrix: torch.Tensor) -> float:
    return float(np.linalg.eigvalsh(matrix.double().numpy())[-1])


def combine(
    gram: torch.Tensor, variance: torch.Tensor, start: torch.Tensor, bound: float, tolerance: float, iterations: int
) -> torch.Tensor:
    """Row i minimises sum_j a_j^2 V_j + |h_i - sum_j a_j h_j|^2 over the simplex; all rows at once, by accelerated projected
    gradients from `start`. `bound` is at least the largest eigenvalue of `gram`; that of a larger gram matrix will do.

    The optimality gap of a row is <a, slope> - min slope, zero at the optimum.
    """
    step = 1 / (2 * (bound + float(variance.max())))
    mixing = ahead = start
    pace = 1.0
    for _ in range(iterations):
        slope = engine.product(ahead, gram).add_(ahead * variance).sub_(gram)  # half the gradient
        gap = (ahead * slope).sum(1) - slope.min(1).values
        if float(gap.mean()) <= tolerance * float(variance.mean()):
            break
        moved = project_to_simplex(ahead - 2 * step * slope)
        next_pace = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = moved + (pace - 1) / next_pace * (moved - mixing)
        mixing, pace = moved, next_pace
    return mixing


def project_to_simplex(points: torch.Tensor) -> torch.Tensor:
    """The nearest point with non-negative entries that sum to one, row by row: points - t, cut at zero.

    The sum falls with t along a convex curve of straight pieces, so Newton's method from the left finds t in a few steps.
    """
    level = points.max(1, keepdim=True).values - 1
    for _ in range(points.shape[1]):
        above = (points - level).clamp_(min=0)
        rise = (above.sum(1, keepdim=True) - 1) / (above > 0).sum(1, keepdim=True)
        level = level + rise
        if float(rise.max()) <= 4 * torch.finfo(points.dtype).eps:
            break
    return (points - level).clamp_(min=0)
