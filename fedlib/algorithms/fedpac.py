"""FedPAC (Xu, Tong, Huang, ICLR 2023): each client receives its own combination of the participants' heads.

The combination minimises an estimate of the client's error: variance of each head plus the distance between class
statistics, a quadratic programme over the simplex for each client. With a frozen extractor (here HoG) the statistics
are those of the features, and the alignment of features has no effect.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, replaced, require_softmax
from fedlib.algorithms.fedavg import FedAvg
from fedlib.algorithms.prototypes import class_means
from fedlib.problem import Federation
from fedlib.problem.limits import Count

RELAXATION = 1.6  # of alternating directions; 1.5 to 1.8 is the usual choice


@dataclass(frozen=True)
class FedPAC(FedAvg):
    """Local training from the client's own combined head; the server model is the mean of the combined heads by data
    size."""

    iterations: Count = 15  # of the solver; on HoG features the remaining error is below a tenth of the variance

    def init(self, federation: Federation) -> State:
        require_softmax(federation, "FedPAC")
        weights = federation.start
        return {
            "weights": weights.clone(),
            "heads": weights.expand(federation.clients, -1).clone(),
            "seen": torch.zeros(federation.clients, dtype=torch.bool),
            **class_statistics(federation),
        }

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients = self.participants(federation, round)
        chosen = torch.as_tensor(clients)
        start = torch.where(state["seen"][chosen].unsqueeze(1), state["heads"][chosen], state["weights"])
        local = engine.train(federation, engine.Cohort(clients, start), self.work(round), round).weights
        combined = engine.product(self.combination(state, chosen), local)
        return state | {
            "weights": mean_by_size(federation, clients, combined),
            "heads": replaced(state["heads"], clients, combined),
            "seen": replaced(state["seen"], clients, torch.ones(len(clients))),
        }

    def combination(self, state: State, chosen: torch.Tensor) -> torch.Tensor:
        """Each participant's weights over the participants."""
        gram, variance = state["gram"], state["variance"]
        largest = float(state["largest"]) * len(chosen) / len(gram)
        return combine(gram[chosen][:, chosen], variance[chosen], largest, self.iterations)


def class_statistics(federation: Federation) -> State:
    """Inner products of the clients' statistics h_i = (p_i(k) * mean of class k)_k, each client's variance over n_i,
    and the largest eigenvalue of the former.

    The variance is that of the authors' code, sum_k p(k) E|x|^2 - p(k)^2 |mean of class k|^2: that of h_i when a
    sample's class is drawn along with the sample. Combination weights add up to one, so what all h_i have in
    common cancels; it is taken out here.
    """
    share = federation.class_counts / federation.sizes.unsqueeze(1)
    means = class_means(federation)[:, :, :-1]
    statistics = (share.unsqueeze(2) * means).flatten(1)
    statistics = statistics - statistics.mean(0)
    squares = torch.stack([(federation.x[rows, :-1] ** 2).sum(1).mean() for rows in federation.rows])
    spread = squares - (share**2 * (means**2).sum(2)).sum(1)  # of one sample's share in h_i
    gram = engine.product(statistics, statistics.T)
    variance = spread.clamp(min=0) / federation.sizes
    return {"gram": gram, "variance": variance, "largest": torch.tensor(largest_eigenvalue(gram))}


def largest_eigenvalue(matrix: torch.Tensor) -> float:
    return float(np.linalg.eigvalsh(matrix.double().numpy())[-1])


def combine(gram: torch.Tensor, variance: torch.Tensor, largest: float, iterations: int) -> torch.Tensor:
    """Row i minimises sum_j a_j^2 V_j + |h_i - sum_j a_j h_j|^2 over the simplex; all rows at once.

    By the method of alternating directions: a linear solve, which all rows share, then the nearest point of the
    simplex. Few iterations are enough because the solve handles the few large eigenvalues of `gram` (about `largest`),
    which would make gradient steps small.
    """
    penalty = float(np.sqrt(float(variance.mean()) * largest) / 2 or 1.0)
    inverse = np.linalg.inv((gram + torch.diag(variance + penalty)).double().numpy())
    solve = torch.from_numpy(inverse.astype(np.float32))
    mixing, price = torch.eye(len(gram)), torch.zeros_like(gram)
    for _ in range(iterations):
        free = engine.product(gram + penalty * (mixing - price), solve)
        ahead = RELAXATION * free + (1 - RELAXATION) * mixing
        mixing = project_to_simplex(ahead + price)
        price = price + ahead - mixing
    return mixing


def project_to_simplex(points: torch.Tensor) -> torch.Tensor:
    """The nearest point with non-negative entries that sum to one, row by row: points - t, cut at zero.

    The sum falls with t along a convex curve of straight pieces, so Newton's method from the left finds t in a few
    steps.
    """
    level, above = points.max(1, keepdim=True).values - 1, torch.empty_like(points)
    for _ in range(points.shape[1]):
        torch.sub(points, level, out=above).clamp_(min=0)
        rise = (above.sum(1, keepdim=True) - 1) / above.sign().sum(1, keepdim=True)  # signs count faster than truths
        level = level + rise
        if float(rise.max()) <= 4 * torch.finfo(points.dtype).eps:
            break
    return torch.sub(points, level, out=above).clamp_(min=0)
