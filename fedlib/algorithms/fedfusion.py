"""FedFusion (Yao et al., ICIP 2019): during local training the classifier sees the features of two extractors, fused.

E_g is the extractor as received and stays fixed, E_l is the one being trained; an operator F fuses their feature maps
and the classifier C works on F(E_g(x), E_l(x)). Clients send E_l, F and C. When they have been averaged, both
extractors are the same again, so the server's model is C(F(E(x), E(x))).

| operator | F | weights |
|---|---|---|
| conv | 1 x 1 convolution of both, side by side | channels x (2 channels + 1) |
| multi | lambda * E_g + (1 - lambda) * E_l, one lambda per channel | channels |
| single | the same with one lambda | 1 |
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedlib import engine
from fedlib.algorithms.algorithm import State
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation, Network, generator
from fedlib.problem.limits import Fraction

Fuse = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class FedFusion_Multi(FedAvg):
    """Weighted mean, one weight per channel. lambda starts at zero, where the method is FedAvg."""

    keep: Fraction = 0.9  # the server's lambda moves by the share 1 - keep towards the clients' mean

    def init(self, federation: Federation) -> State:
        return super().init(federation) | {"operator": self.first_operator(federation)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, received = self.participants(federation, round), state["weights"]
        two_streams = TwoStreams(federation, received, clients, self.fuse)
        cohort = engine.Cohort(clients, torch.cat([received, state["operator"]]))
        trained = self.train_mean(federation, cohort, round, step=two_streams.step)
        weights, operator = trained.weights.split([len(received), len(state["operator"])])
        return {"weights": weights, "operator": self.next_operator(state["operator"], operator)}

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        """Scores, and the mean lambda: where it is near zero the method is nearly FedAvg."""
        return super().measure(federation, state) | {"fused": float(state["operator"].mean())}

    def first_operator(self, federation: Federation) -> torch.Tensor:
        return torch.zeros(channels(federation.network))

    def fuse(self, operator: torch.Tensor, received_maps: torch.Tensor, local_maps: torch.Tensor) -> torch.Tensor:
        """F for feature maps (batch, channels, height, width)."""
        weight = operator.view(-1, 1, 1)
        return weight * received_maps + (1 - weight) * local_maps

    def next_operator(self, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return self.keep * old + (1 - self.keep) * new


@dataclass(frozen=True)
class FedFusion_Single(FedFusion_Multi):
    """Weighted mean with one weight for all channels."""

    def first_operator(self, federation: Federation) -> torch.Tensor:
        channels(federation.network)  # raises for networks without feature maps
        return torch.zeros(1)


@dataclass(frozen=True)
class FedFusion_Conv(FedFusion_Multi):
    """1 x 1 convolution; averaged like all other weights."""

    keep: Fraction = 0.0

    def first_operator(self, federation: Federation) -> torch.Tensor:
        """Initialised by the rule of all other layers; one row per output channel, the bias last."""
        width = channels(federation.network)
        weight_bound, bias_bound = federation.network.start_bounds(nn.Conv2d(2 * width, width, 1))
        draw = generator(federation.seed, "fusion").uniform(-1, 1, (width, 2 * width + 1))
        draw *= np.append(np.full(2 * width, weight_bound), bias_bound)
        return torch.from_numpy(draw).float().flatten()

    def fuse(self, operator: torch.Tensor, received_maps: torch.Tensor, local_maps: torch.Tensor) -> torch.Tensor:
        rows = operator.view(local_maps.shape[1], -1)
        kernel = rows[:, :-1].reshape(local_maps.shape[1], -1, 1, 1)
        return functional.conv2d(torch.cat([received_maps, local_maps], dim=1), kernel, rows[:, -1])

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        """Both halves of the convolution see the same maps: their sum is one layer between extractor and classifier."""
        extractor, classifier = halves(federation.network)
        width = channels(federation.network)
        rows = state["operator"].view(width, -1)
        both = torch.cat([rows[:, :width] + rows[:, width:-1], rows[:, -1:]], dim=1)
        first = Network(extractor).size
        weights = torch.cat([state["weights"][:first], both.flatten(), state["weights"][first:]])
        layers = nn.Sequential(*extractor, nn.Conv2d(width, width, 1), *classifier)
        network = Network(layers, federation.network.standard)
        return engine.evaluate(network, weights, federation.x_test, federation.y_test)


class TwoStreams:
    """The clients' loss with two extractors; the weights of a client are those of E_l, C and F in one vector."""

    def __init__(self, federation: Federation, received: torch.Tensor, clients: np.ndarray, fuse: Fuse):
        self.l2, self.fuse = federation.l2, fuse
        self.extractor, self.classifier = halves(federation.network)
        self.sizes = [Network(self.extractor).size, Network(self.classifier).size]
        frozen = Network(self.extractor, federation.network.standard)
        self.received_maps = engine.frozen_outputs(federation, frozen, received[: self.sizes[0]], clients)  # E_g(x)

    def step(
        self, weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch
    ) -> tuple[torch.Tensor, engine.Memory]:
        """The gradients, as `engine.train` wants them: one row per client."""
        clients = zip(weights, batch.x, batch.y, batch.share, self.received_maps(batch), strict=True)
        gradients = torch.stack([self.gradient(*client) for client in clients])
        return gradients.add_(weights, alpha=self.l2), {}

    def gradient(
        self,
        weights: torch.Tensor,
        x: torch.Tensor,
        y: torch.Tensor,
        share: torch.Tensor,
        received_maps: torch.Tensor,
    ) -> torch.Tensor:
        with torch.enable_grad():
            parts = weights.split([*self.sizes, len(weights) - sum(self.sizes)])
            extractor, classifier, operator = leaves = [part.clone().requires_grad_() for part in parts]
            local_maps = engine.forward(self.extractor, extractor, x)
            logits = engine.forward(self.classifier, classifier, self.fuse(operator, received_maps, local_maps))
            losses = functional.cross_entropy(logits, y, reduction="none")
            return torch.cat(torch.autograd.grad((losses * share).sum(), leaves))


def halves(network: Network) -> tuple[nn.Sequential, nn.Sequential]:
    """Extractor, up to the last feature maps, and classifier."""
    modules = list(network.layers)
    flat = [position for position, layer in enumerate(modules) if isinstance(layer, nn.Flatten)]
    if network.dense or not flat:
        raise ValueError("FedFusion fuses feature maps: it needs a convolutional network, cnn_leaf for example")
    return nn.Sequential(*modules[: flat[0]]), nn.Sequential(*modules[flat[0] :])


def channels(network: Network) -> int:
    """Feature maps of the extractor."""
    return Network(halves(network)[0]).blocks[-1].outputs
