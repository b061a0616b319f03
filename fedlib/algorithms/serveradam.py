"""Plain Adam at the server on the participants' pooled gradient: what remains of ACFMO without its own ideas.

Not in the paper. It answers whether the central momentum alone explains the result.
"""

from dataclasses import dataclass

import torch

from fedlib import engine
from fedlib.algorithms.algorithm import Algorithm, State
from fedlib.problem import Federation
from fedlib.problem.limits import Decay, Positive


@dataclass(frozen=True)
class ServerAdam(Algorithm):
    """Adam (Kingma and Ba, 2015) with bias correction; clients send one full gradient and do nothing else."""

    lr: Positive = 0.02
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    epsilon: Positive = 1e-8

    def init(self, federation: Federation) -> State:
        zeros = torch.zeros_like(federation.start)
        return {"weights": federation.start.clone(), "m": zeros, "v": zeros.clone()}

    def round(self, federation: Federation, state: State, round: int) -> State:
        gradient = engine.pooled_gradient(federation, state["weights"], self.participants(federation, round))
        m = self.beta1 * state["m"] + (1 - self.beta1) * gradient
        v = self.beta2 * state["v"] + (1 - self.beta2) * gradient**2
        step = m / (1 - self.beta1**round) / (engine.root(v / (1 - self.beta2**round)) + self.epsilon)
        return {"weights": state["weights"] - self.lr * step, "m": m, "v": v}
