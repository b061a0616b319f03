"""MOON, model-contrastive learning (Li, He, Song, CVPR 2021): FedAvg whose clients keep their representations close to
the server's model and away from their own last one.

For a sample with representation z (the layer before the classifier) at the current weights, z_glob at the server's
model and z_prev at the client's model of its last round, with cosine similarities:

    l_con = -log( e^{sim(z, z_glob)/tau} / (e^{sim(z, z_glob)/tau} + e^{sim(z, z_prev)/tau}) )

is added to the cross-entropy, times mu. For a client that has not taken part yet, the last model is the initial one.
"""

from dataclasses import dataclass

import torch

from fedlib import engine
from fedlib.algorithms.algorithm import State, mean_by_size, replaced
from fedlib.algorithms.fedavg import FedAvg
from fedlib.problem import Federation
from fedlib.problem.limits import NonNegative, Positive

SMALLEST = 1e-8  # a representation that the ReLU has set to zero has no direction


@dataclass(frozen=True)
class MOON(FedAvg):
    """FedAvg with a contrastive term."""

    mu: NonNegative = 1.0  # weight of the contrastive term; 0 is FedAvg
    temperature: Positive = 0.5  # tau: small values sharpen the choice between the two models

    def init(self, federation: Federation) -> State:
        start = federation.start
        return {"weights": start.clone(), "previous": start.repeat(federation.clients, 1)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, received = self.participants(federation, round), state["weights"]
        frozen = {
            "received": received.expand(len(clients), -1),  # gives z_glob
            "previous": state["previous"][torch.as_tensor(clients)],  # gives z_prev
        }
        seen = {name: engine.frozen_representations(federation, models, clients) for name, models in frozen.items()}

        def step(
            weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch
        ) -> tuple[torch.Tensor, engine.Memory]:
            towards, away = (unit(seen[name](batch, memory[name])) for name in ("received", "previous"))

            def loss(z: torch.Tensor, logits: torch.Tensor, batch: engine.Batch) -> torch.Tensor:
                slope = contrast_slope(z.detach(), towards, away, self.temperature)
                contrast = (z * slope).sum(2)  # linear in z, with the gradient of l_con
                return batch.cross_entropy(logits) + self.mu * (contrast * batch.share).sum(1)

            return batch.gradient(weights, loss), {}

        cohort = engine.Cohort(clients, received, memory=frozen)
        local = engine.train(federation, cohort, self.work(round), round, step=step).weights
        return {
            "weights": mean_by_size(federation, clients, local),
            "previous": replaced(state["previous"], clients, local),
        }


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors (..., units) of length one."""
    return vectors / length(vectors)


def length(vectors: torch.Tensor) -> torch.Tensor:
    """(..., 1)"""
    return engine.root((vectors * vectors).sum(-1, keepdim=True)).clamp(min=SMALLEST)


def contrast_slope(z: torch.Tensor, towards: torch.Tensor, away: torch.Tensor, temperature: float) -> torch.Tensor:
    """d l_con / dz for unit vectors `towards` and `away`: p_prev / (tau |z|) * (away - towards) across z."""
    size = length(z)
    z = z / size
    # Sample by sample along the last dimension: across samples, digits would depend on how many are stacked.
    similarity = torch.stack([(z * towards).sum(-1), (z * away).sum(-1)], dim=-1)
    doubt = torch.softmax(similarity / temperature, dim=-1)[..., 1:]  # p_prev, 0 where z_glob is surely nearer
    along = similarity[..., 1:] - similarity[..., :1]  # the part that would only lengthen z
    return doubt / (temperature * size) * (away - towards - along * z)
