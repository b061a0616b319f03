"""CGAU (Rieger, Hoegh, Hansen: "Client adaptation improves federated learning with simulated non-iid clients", 2020):
gated units that every client tunes to its own data, on top of a frozen, pre-trained extractor.

    z = tanh(W_f x + b_f + v_f^k) * sigmoid(W_g x + b_g + v_g^k)

x is what the extractor makes of a sample; v^k is the condition of client k. W and b are averaged as in FedAvg, the
condition concerns one client alone and stays there. Each client is judged with its own condition on its own test
samples, where these are known, else the shared weights are judged alone. The extractor is trained before the first
round on the devices that the federation holds out.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import nn

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size
from fedlib.algorithms.fedavg import FedAvg
from fedlib.engine import fixed
from fedlib.engine.personal import evaluate_own
from fedlib.problem import layout
from fedlib.problem.federation import Federation


@dataclass(frozen=True)
class CGAU(FedAvg):
    """One or more layers of gated units and a linear classifier, trained by FedAvg."""

    layers: int = 1  # gated layers; the paper compares 1x and 2x
    units: int = 256  # gated units a layer
    pretrain_epochs: int = 10  # passes over the held-out samples; 98% of `handwriting`'s are fitted by then
    pretrain_lr: float = 0.1
    pretrain_batch: int = 32

    def __post_init__(self):
        super().__post_init__()
        for name in ("layers", "units", "pretrain_epochs", "pretrain_batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    def init(self, federation: Federation) -> State:
        heads = self.heads(federation)
        width = len(gate_biases(heads.network))
        return {"weights": heads.start.clone(), "conditions": torch.zeros(federation.clients, width)}

    def heads(self, federation: Federation) -> Federation:
        """The same clients, but their samples are the extractor's features and their network is the gated head."""
        work = engine.Work(lr=self.pretrain_lr, batch=self.pretrain_batch, epochs=self.pretrain_epochs)
        return replace(on_features(federation, work), network=gated_head(federation.network, self.layers, self.units))

    def round(self, federation: Federation, state: State, round: int) -> State:
        heads, clients = self.heads(federation), self.participants(federation, round)
        biases, rate = gate_biases(heads.network), self.rate(round)
        conditions = state["conditions"].clone()
        of_cohort = conditions[clients]

        def direction(weights: torch.Tensor, batch: engine.Batch) -> torch.Tensor:
            """The gradient of the shared weights; the condition moves with the bias it is added to."""
            own = batch.pick(of_cohort)
            gradient = batch.gradient(with_condition(weights, biases, own))
            of_cohort[batch.positions] = own - rate * gradient[:, biases]
            return gradient

        local = engine.train(heads, state["weights"], clients, self.work(round), round, direction)
        conditions[clients] = of_cohort
        return {"weights": mean_by_size(federation, clients, local), "conditions": conditions}

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        heads = self.heads(federation)
        if heads.test_clients is None:
            return engine.evaluate(heads, state["weights"])
        biases = gate_biases(heads.network)
        return evaluate_own(heads, lambda client: with_condition(state["weights"], biases, state["conditions"][client]))


def with_condition(weights: torch.Tensor, biases: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
    """b + v, in flat weights (..., weights)."""
    changed = weights.clone()
    changed[..., biases] += condition
    return changed


class Gate(nn.Module):
    """tanh of the first half of the units times sigmoid of the second."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        content, gate = x.chunk(2, dim=-1)
        return (2 * torch.sigmoid(2 * content) - 1) * torch.sigmoid(gate)  # torch.tanh differs between processors


def gated_head(network: nn.Sequential, layers: int, units: int) -> nn.Sequential:
    """The network that replaces the last linear layer of `network`."""
    last = layout.layers(network)[-1]
    widths = [last.in_features] + layers * [units]
    gates = [part for inputs in widths[:-1] for part in (nn.Linear(inputs, 2 * units), Gate())]
    return nn.Sequential(nn.Flatten(), *gates, nn.Linear(units, last.out_features))


def gate_biases(network: nn.Sequential) -> torch.Tensor:
    """Where the biases of the gated layers lie in the flat weights."""
    ends = [(block.start, block.inputs + 1, block.stop) for block in layout.blocks(network)[:-1]]
    return torch.cat([torch.arange(first + width - 1, stop, width) for first, width, stop in ends])


@lru_cache(maxsize=2)
def on_features(federation: Federation, work: engine.Work) -> Federation:
    """The federation with every sample replaced by its features; the network is still the one that made them."""
    weights = pretrain(federation, work)
    extractor = federation.network[:-1]
    weights = weights[: layout.blocks(federation.network)[-1].start]

    def features(x: torch.Tensor) -> torch.Tensor:
        return fixed.outputs(extractor, weights, x)[:, None, None, :]  # as an image of one pixel

    return replace(federation, x=features(federation.x), x_test=features(federation.x_test), held_out=None)


def pretrain(federation: Federation, work: engine.Work) -> torch.Tensor:
    """Weights of the federation's network after training on the held-out devices' pooled samples."""
    if layout.is_dense(federation.network):
        raise ValueError("CGAU stands on a convolutional extractor: use cnn_leaf for example")
    if federation.held_out is None or len(federation.held_out[1]) == 0:
        raise ValueError(
            "CGAU pre-trains its extractor on devices that take no part: "
            "deal by_writer to fewer clients than there are writers"
        )
    x, y = federation.held_out
    pooled = replace(federation, x=x, y=y, rows=(torch.arange(len(y)),))
    return engine.train(pooled, federation.start, np.array([0]), work, round=0)[0]
