"""FedOpt (Reddi et al., ICLR 2021) and FedAvgM (Hsu et al., 2019): the server descends the clients' mean change.

Clients train as in FedAvg. The server does not adopt their average but treats Delta = average - model as the negative
of a gradient and passes it to an optimiser: plain SGD, SGD with momentum, Adagrad, Adam or Yogi. The methods differ in
one line.
"""

from dataclasses import dataclass

import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import Decay, Positive


@dataclass(frozen=True)
class FedOpt(FedAvg):
    """Plain SGD at the server; `server_lr = 1` is FedAvg."""

    server_lr: Positive = 1.0  # eta, the server's rate

    def change(self, federation: Federation, state: State, round: int) -> torch.Tensor:
        """Delta_t, the participants' average minus the server's model."""
        return super().round(federation, state, round)["weights"] - state["weights"]

    def round(self, federation: Federation, state: State, round: int) -> State:
        return {"weights": state["weights"] + self.server_lr * self.change(federation, state, round)}


@dataclass(frozen=True)
class FedAvgM(FedOpt):
    """SGD with momentum at the server."""

    beta: Decay = 0.9  # how much of the last step is kept; 0 (with server_lr = 1) is FedAvg

    def init(self, federation: Federation) -> State:
        return super().init(federation) | {"m": torch.zeros_like(federation.start)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        m = self.beta * state["m"] + self.change(federation, state, round)
        return {"weights": state["weights"] + self.server_lr * m, "m": m}


@dataclass(frozen=True)
class FedAdagrad(FedOpt):
    """Adagrad at the server, and the base of the other two: only `second_moment` differs."""

    server_lr: Positive = 0.1
    beta1: Decay = 0.0  # decay of the first moment; 0 is no momentum
    tau: Positive = 1e-3  # adaptivity: the larger, the closer to plain SGD

    def init(self, federation: Federation) -> State:
        zeros = torch.zeros_like(federation.start)
        return super().init(federation) | {"m": zeros, "v": zeros + self.tau**2}

    def round(self, federation: Federation, state: State, round: int) -> State:
        delta = self.change(federation, state, round)
        m = self.beta1 * state["m"] + (1 - self.beta1) * delta
        v = self.second_moment(state["v"], delta**2)
        return {"weights": state["weights"] + self.server_lr * m / (engine.root(v) + self.tau), "m": m, "v": v}

    def second_moment(self, v: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
        return v + square


@dataclass(frozen=True)
class FedAdam(FedAdagrad):
    """Adam at the server, without bias correction."""

    beta1: Decay = 0.9
    beta2: Decay = 0.99  # decay of the second moment

    def second_moment(self, v: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
        return self.beta2 * v + (1 - self.beta2) * square


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """Yogi at the server: the second moment moves towards the square, but never by more than a share of the square."""

    def second_moment(self, v: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
        return v - (1 - self.beta2) * square * torch.sign(v - square)
