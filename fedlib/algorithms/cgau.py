"""CGAU, conditional gated activation units (Rieger, Hoegh, Hansen: "Client adaptation improves federated learning with
simulated non-iid clients", 2020): every client tunes them to its own data, on top of a frozen, pre-trained extractor.

    z = tanh(W_f x + b_f + v_f^k) * sigmoid(W_g x + b_g + v_g^k)

x is the extractor's output for a sample; v^k is the condition of client k. W and b are averaged as in FedAvg; the
condition stays at its client, and is zero until the client takes part. Each client is evaluated with its own condition
on its own test samples, where these are known; otherwise the shared weights are evaluated alone. The extractor, the
layers up to the last feature maps, is trained before the first round on a fixed number of samples of held-out writers,
who are not clients; the gated layers and a linear layer replace the dense layers of the network.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, replaced
from fedlib.algorithms.fedavg import FedAvg
from fedlib.algorithms.fedfusion import halves
from fedlib.problem import Federation, Network, generator
from fedlib.problem.limits import Count, Positive


@dataclass(frozen=True)
class CGAU(FedAvg):
    """One or more layers of gated units and a linear classifier, trained by FedAvg."""

    layers: Count = 1  # gated layers; the paper compares 1x and 2x
    units: Count = 256  # gated units per layer
    pretrain_samples: Count = 1200  # drawn from those of the held-out writers, the same number at every scale
    pretrain_epochs: Count = 40  # passes over these; after ten the extractor was still half-trained
    pretrain_lr: Positive = 0.1
    pretrain_batch: Count = 32

    def init(self, federation: Federation) -> State:
        work = engine.Work(lr=self.pretrain_lr, batch=self.pretrain_batch, epochs=self.pretrain_epochs)
        extractor, network = pretrain(federation, work, self.pretrain_samples), self.head_network(federation)
        return {
            "weights": network.start(federation.seed),
            "conditions": torch.zeros(federation.clients, len(gate_biases(network))),
            "extractor": extractor,
        }

    def head_network(self, federation: Federation) -> Network:
        """The gated layers and the classifier; their initial weights follow the rule of the federation's network."""
        layers = gated_head(federation.network, self.layers, self.units)
        return Network(layers, start_rule=federation.network.start_rule)

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, head = self.participants(federation, round), self.head_network(federation)
        biases = gate_biases(head)
        frozen = extractor_of(federation.network)
        features = engine.frozen_outputs(federation, frozen, state["extractor"], clients)

        def step(
            weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch
        ) -> tuple[torch.Tensor, engine.Memory]:
            """The gradient at the weights with the condition added, b + v, where that by v equals that by b. The
            condition takes a plain step along it: momentum and weight decay are for the shared weights only."""
            models = with_condition(weights, biases, memory["condition"])
            clients = zip(models, features(batch), batch.y, batch.share, strict=True)
            gradients = torch.stack([head_gradient(head, *client) for client in clients])
            gradients.add_(models, alpha=federation.l2)
            return gradients, {"condition": memory["condition"] - batch.rate * gradients[:, biases]}

        conditions = state["conditions"][torch.as_tensor(clients)]
        cohort = engine.Cohort(clients, state["weights"], memory={"condition": conditions})
        trained = engine.train(federation, cohort, self.work(round), round, step=step)
        return state | {
            "weights": mean_by_size(federation, clients, trained.weights),
            "conditions": replaced(state["conditions"], clients, trained.memory["condition"]),
        }

    def measure(self, federation: Federation, state: State) -> dict[str, float]:
        network, weights = self.head_network(federation), state["weights"]
        features = engine.logits_of(extractor_of(federation.network), state["extractor"], federation.x_test)
        x, y = features[:, None, None, :], federation.y_test  # as images of one pixel
        if federation.test_clients is None:
            return engine.evaluate(network, weights, x, y)
        biases, conditions = gate_biases(network), state["conditions"]

        def model_of(client: int) -> torch.Tensor:
            return with_condition(weights, biases, conditions[client])

        return engine.evaluate_personal(network, model_of, x, y, federation.test_clients)


def with_condition(weights: torch.Tensor, biases: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
    """b + v, in flat weights (..., weights)."""
    changed = weights.clone()
    changed[..., biases] += condition
    return changed


class Gate(nn.Module):
    """tanh of the first half of the units times sigmoid of the second."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        content, gate = x.chunk(2, dim=-1)
        return tanh(content) * torch.sigmoid(gate)


def tanh(x: torch.Tensor) -> torch.Tensor:
    """tanh(x) by way of the sigmoid: torch.tanh gives other last digits on other processors."""
    return 2 * torch.sigmoid(2 * x) - 1


def gated_head(network: Network, layers: int, units: int) -> nn.Sequential:
    """The layers that replace the dense layers of `network`."""
    widths = [Network(halves(network)[1]).blocks[0].inputs] + layers * [units]
    gates = [part for inputs in widths[:-1] for part in (nn.Linear(inputs, 2 * units), Gate())]
    return nn.Sequential(nn.Flatten(), *gates, nn.Linear(units, network.classes))


def gate_biases(network: Network) -> torch.Tensor:
    """Indices of the gated layers' biases in the flat weights: the last column of every block (see `problem.layout`)
    but the classifier's."""
    ends = [(block.start, block.inputs + 1, block.stop) for block in network.blocks[:-1]]
    return torch.cat([torch.arange(first + width - 1, stop, width) for first, width, stop in ends])


def head_gradient(
    head: Network, weights: torch.Tensor, features: torch.Tensor, y: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """Gradient of one client's mean cross-entropy with respect to the flat weights of its head.

    `features` is (samples, inputs); `share` is the weight of each sample in the mean, 0 for padding. Written out,
    because autograd would copy this long vector of weights several times per step.
    """
    layers, inputs, slopes = [block.view(weights) for block in head.blocks], [_with_ones(features)], []
    for layer in layers[:-1]:
        content, gate = engine.product(inputs[-1], layer.mT).chunk(2, dim=1)
        content, gate = tanh(content), torch.sigmoid(gate)
        slopes.append(torch.cat([(1 - content * content) * gate, content * gate * (1 - gate)], dim=1))
        inputs.append(_with_ones(content * gate))
    logits = engine.product(inputs[-1], layers[-1].mT)
    error = (functional.softmax(logits, dim=1) - functional.one_hot(y, head.classes)) * share.unsqueeze(1)
    parts = [engine.product(error.mT, inputs[-1])]
    for layer, slope, x in zip(layers[:0:-1], slopes[::-1], inputs[-2::-1], strict=True):
        error = engine.product(error, layer)[:, :-1].repeat(1, 2) * slope
        parts.append(engine.product(error.mT, x))
    return torch.cat([part.flatten() for part in reversed(parts)])


def _with_ones(x: torch.Tensor) -> torch.Tensor:
    """A last column of ones, the input of the biases."""
    return torch.cat([x, torch.ones(len(x), 1)], dim=1)


def extractor_of(network: Network) -> Network:
    """The layers up to the last feature maps, which it flattens."""
    return Network(nn.Sequential(*halves(network)[0], nn.Flatten()), network.standard)


def pretrain(federation: Federation, work: engine.Work, samples: int) -> torch.Tensor:
    """Weights of the extractor after the whole network has trained on `samples` samples of the held-out writers."""
    if federation.network.dense:
        raise ValueError("CGAU stands on a convolutional extractor: use cnn_leaf for example")
    if federation.held_out is None or len(federation.held_out[1]) == 0:
        raise ValueError(
            "CGAU pre-trains its extractor on devices that take no part: "
            "deal by_writer to fewer clients than there are writers"
        )
    x, y = federation.held_out
    if len(y) < samples:
        raise ValueError(f"pretrain_samples={samples}, but the held-out devices have {len(y)}: take fewer")
    drawn = generator(federation.seed, "pretraining").choice(len(y), samples, replace=False)
    pooled = replace(federation, x=x, y=y, rows=(torch.as_tensor(np.sort(drawn)),))
    trained = engine.train(pooled, engine.Cohort(np.array([0]), federation.start), work, round=0)
    return trained.weights[0, : extractor_of(federation.network).size]
