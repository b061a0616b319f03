"""FedProx (Li et al., MLSys 2020): FedAvg with a proximal term that pulls clients back to the model they received.

Client i descends F_i(w) + mu/2 * |w - w_t|^2, so its direction is grad F_i(w) + mu * (w - w_t).
"""

from dataclasses import dataclass

from fedlib import engine
from fedlib.algorithms.algorithm import State
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import NonNegative


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg with a proximal term."""

    mu: NonNegative = 0.01  # weight of the proximal term; 0 is FedAvg

    def round(self, federation: Federation, state: State, round: int) -> State:
        cohort = engine.Cohort(self.participants(federation, round), state["weights"])
        return {"weights": self.train_mean(federation, cohort, round, proximal=self.mu).weights}
