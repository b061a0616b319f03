"""FedACS written down from the paper's algorithm boxes: sets, loops and autograd, nothing vectorised."""

from math import sqrt

import torch

from fedlib.engine import readable


def insight(federation, weights: torch.Tensor, client: int, lr: float) -> torch.Tensor:
    """Delta w_i of Eq. (6) by autograd through the whole network, of which the last layer is sent."""
    everything = lr * readable.gradient(federation, weights, federation.rows[client])[0]
    last = federation.network.head
    return everything[last.start : last.stop].double()


def rewards(federation, weights: torch.Tensor, participants: list[int], lr: float) -> dict[int, float]:
    """R_i of Eq. (16), dimension by dimension."""
    sent = {i: insight(federation, weights, i, lr) for i in participants}
    samples = {i: len(federation.rows[i]) for i in participants}
    mean = sum(samples[i] * sent[i] for i in participants) / sum(samples.values())
    found = {}
    for i in participants:
        square = sum(float(own - common) ** 2 for own, common in zip(sent[i], mean, strict=True))
        found[i] = -sqrt(samples[i]) * sqrt(square)
    return found


def pool(clients: int, size: int, sample) -> list[int]:
    """Lines 1-10 of Algorithm 2; `sample(pick, c)` is the draw theta_c of a pick."""
    remaining, chosen = list(range(clients)), []
    for pick in range(size):
        theta = {c: sample(pick, c) for c in remaining}
        best = max(remaining, key=lambda c: theta[c])
        chosen.append(best)
        remaining.remove(best)
    return chosen


def update(a: dict, b: dict, now: dict[int, float], past: list[dict[int, float]], eta: float) -> tuple[dict, dict]:
    """Algorithm 3; `past` holds the rewards of the rounds in the history, oldest first."""
    everyone: dict[int, float] = {}
    for rewards_of_round in [*past, now]:
        everyone.update(rewards_of_round)  # the latest one counts
    a, b = dict(a), dict(b)
    for i, own in now.items():
        for j, other in everyone.items():
            if i == j:
                continue
            if own > other:
                a[i] += eta
            elif own < other:
                b[i] += eta
    return a, b
