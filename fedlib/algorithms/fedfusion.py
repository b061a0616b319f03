"""FedFusion (Yao et al., ICIP 2019): during local training the classifier sees the features of two extractors, fused.

E_g is the extractor as received and stays fixed, E_l is the one being trained; an operator F fuses their feature maps
and the classifier C works on F(E_g(x), E_l(x)). Clients send E_l, F and C. When they have been averaged, both
extractors are the same again, so the server's model is C(F(E(x), E(x))).

| operator | F | weights |
|---|---|---|
| conv | 1 x 1 convolution of both, side by side | channels x (2 channels + 1) |
| multi | lambda * E_g + (1 - lambda) * E_l, one lambda a channel | channels |
| single | the same with one lambda | 1 |
"""

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from fedlib import engine
from fedlib.algorithms.algorithm import State, shares
from fedlib.algorithms.fedavg import FedAvg
from fedlib.engine import conv, fixed
from fedlib.problem import layout
from fedlib.problem.federation import Federation
from fedlib.problem.streams import generator


@dataclass(frozen=True)
class FedFusion_Multi(FedAvg):
    """Weighted mean, one weight a channel. lambda starts at zero, where the method is FedAvg."""

    keep: float = 0.9  # the server's lambda moves by the share 1 - keep towards the clients' mean

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.keep <= 1:
            raise ValueError(f"keep={self.keep} must lie in [0, 1]")

    def init(self, federation: Federation) -> State:
        return super().init(federation) | {"operator": self.first_operator(federation)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, received = self.participants(federation, round), state["weights"]
        two_streams = TwoStreams(federation, received, clients, self.fuse)
        start = torch.cat([received, state["operator"]])
        trained = engine.train_mean(
            federation,
            start,
            clients,
            self.work(round),
            round,
            shares(federation, clients),
            direction=two_streams.gradients,
        )
        weights, operator = trained.split([len(received), len(state["operator"])])
        return {"weights": weights, "operator": self.next_operator(state["operator"], operator)}

    def first_operator(self, federation: Federation) -> torch.Tensor:
        return torch.zeros(channels(federation.network))

    def fuse(self, operator: torch.Tensor, theirs: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """F for feature maps (batch, channels, height, width)."""
        weight = operator.view(-1, 1, 1)
        return weight * theirs + (1 - weight) * own

    def next_operator(self, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return self.keep * old + (1 - self.keep) * new


@dataclass(frozen=True)
class FedFusion_Single(FedFusion_Multi):
    """Weighted mean with one weight for all channels."""

    def first_operator(self, federation: Federation) -> torch.Tensor:
        channels(federation.network)  # complains about networks without feature maps
        return torch.zeros(1)


@dataclass(frozen=True)
class FedFusion_Conv(FedFusion_Multi):
    """1 x 1 convolution; averaged like all other weights."""

    keep: float = 0.0

    def first_operator(self, federation: Federation) -> torch.Tensor:
        width = channels(federation.network)
        bound = (2 * width) ** -0.5  # as for all layers, see `models.initialise`
        draw = generator(federation.seed, "fusion").uniform(-bound, bound, width * (2 * width + 1))
        return torch.from_numpy(draw).float()

    def fuse(self, operator: torch.Tensor, theirs: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        rows = operator.view(own.shape[1], -1)
        kernel = rows[:, :-1].reshape(own.shape[1], -1, 1, 1)
        return functional.conv2d(torch.cat([theirs, own], dim=1), kernel, rows[:, -1])

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        """Both halves of the convolution see the same maps: their sum is one layer between extractor and classifier."""
        extractor, classifier = halves(federation.network)
        width = channels(federation.network)
        rows = state["operator"].view(width, -1)
        both = torch.cat([rows[:, :width] + rows[:, width:-1], rows[:, -1:]], dim=1)
        first = size(extractor)
        weights = torch.cat([state["weights"][:first], both.flatten(), state["weights"][first:]])
        network = nn.Sequential(*extractor, nn.Conv2d(width, width, 1), *classifier)
        return engine.evaluate(replace(federation, network=network), weights)


class TwoStreams:
    """The clients' loss with two extractors; the weights of a client are those of E_l, C and F in one vector."""

    def __init__(self, federation: Federation, received: torch.Tensor, clients, fuse):
        self.federation, self.fuse = federation, fuse
        self.extractor, self.classifier = halves(federation.network)
        self.sizes = [size(self.extractor), size(self.classifier)]
        theirs = received[: self.sizes[0]]
        self.maps = fixed.outputs_of_clients(federation, self.extractor, theirs, clients)  # E_g(x)

    def gradients(self, weights: torch.Tensor, batch: engine.Batch) -> torch.Tensor:
        """What to descend, as `engine.train` wants it: one row a client."""
        found = [self.gradient(*each) for each in zip(weights, batch.rows, batch.share, strict=True)]
        return torch.stack(found).add_(weights, alpha=self.federation.l2)

    def gradient(self, weights: torch.Tensor, rows: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        x, sizes = conv.images(self.federation.x[rows]), [*self.sizes, len(weights) - sum(self.sizes)]
        with torch.enable_grad():
            leaves = [part.clone().requires_grad_() for part in weights.split(sizes)]
            extractor, classifier, operator = leaves
            own = conv.outputs(self.extractor, extractor, x)[1]
            logits = conv.outputs(self.classifier, classifier, self.fuse(operator, self.maps[rows], own))[1]
            losses = functional.cross_entropy(logits, self.federation.y[rows], reduction="none")
            return torch.cat(torch.autograd.grad((losses * share).sum(), leaves))


def halves(network: nn.Sequential) -> tuple[nn.Sequential, nn.Sequential]:
    """Extractor, up to the last feature maps, and classifier."""
    flat = [place for place, layer in enumerate(network) if isinstance(layer, nn.Flatten)]
    if layout.is_dense(network) or not flat:
        raise ValueError("FedFusion fuses feature maps: it needs a convolutional network, cnn_leaf for example")
    return network[: flat[0]], network[flat[0] :]


def channels(network: nn.Sequential) -> int:
    """Feature maps of the extractor."""
    return layout.layers(halves(network)[0])[-1].out_channels


def size(layers: nn.Sequential) -> int:
    """Weights of these layers."""
    return layout.blocks(layers)[-1].stop
