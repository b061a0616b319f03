"""FedSR and its rivals as their papers write them: one device, one batch at a time, all gradients by autograd.

Participants, clusters, minibatches and learning rates are the library's own draws; the methods are written out again.
Each function plays all rounds and returns the server's model.
"""

from dataclasses import replace

import torch
from torch.nn import functional

from fedlib.engine import Cohort, readable
from fedlib.engine.minibatches import client_minibatches
from fedlib.problem import layout


def average(pairs) -> torch.Tensor:
    """sum_i n_i / n * w_i of pairs (n_i, w_i)."""
    pairs = list(pairs)
    total = sum(size for size, _ in pairs)
    return sum(size / total * weights for size, weights in pairs)


def samples(federation, devices) -> int:
    return sum(len(federation.rows[device]) for device in devices)


def sgd(federation, weights, device, work, round, visit=0):
    """SGD(w, D_device) of Algorithm 1: one visit, momentum from zero, the next order of the samples."""
    work = replace(work, epochs_done=visit * work.epochs)
    return readable.train(federation, Cohort([device], weights), work, round).weights[0]


def fedsr(federation, algorithm, rounds: int) -> torch.Tensor:
    """Algorithm 1."""
    w_glob = federation.start
    for t in range(1, rounds + 1):
        edge_models = []
        for ring in algorithm.rings(federation, t):
            w = w_glob
            for r in range(algorithm.passes):
                for device in ring:
                    w = sgd(federation, w, device, algorithm.work(t), t, visit=r)
            edge_models.append((samples(federation, ring), w))
        w_glob = average(edge_models)
    return w_glob


def literalfedsr(federation, algorithm, rounds: int) -> torch.Tensor:
    """Algorithm 1 to the letter: models by pass r and device k, w[r + 1, 0] being what the last device hands on."""
    w_glob = federation.start
    for t in range(1, rounds + 1):
        edge_models = []
        for ring in algorithm.rings(federation, t):
            w, last = {(0, 0): w_glob}, len(ring) - 1
            for r in range(algorithm.passes + 1):  # r = 0, 1, ..., R
                for k, device in enumerate(ring):
                    handed_to = (r, k + 1) if k != last else (r + 1, 0)
                    w[handed_to] = sgd(federation, w[r, k], device, algorithm.work(t), t, visit=r)
            edge_models.append((samples(federation, ring), w[algorithm.passes, last]))  # w_R^{alpha_K}
        w_glob = average(edge_models)
    return w_glob


def ring(federation, algorithm, rounds: int) -> torch.Tensor:
    """Equations (6) and (7)."""
    w = federation.start
    for t in range(1, rounds + 1):
        for device in algorithm.ring(federation, t):
            w = sgd(federation, w, device, algorithm.work(t), t)
    return w


def hierfavg(federation, algorithm, rounds: int) -> torch.Tensor:
    """Devices, edge servers, cloud."""
    w_glob = federation.start
    for t in range(1, rounds + 1):
        edge_models = []
        for devices in algorithm.edges(federation, t):
            w = w_glob
            for k in range(algorithm.iterations):
                local = [sgd(federation, w, device, algorithm.work(t), t, visit=k) for device in devices]
                w = average((len(federation.rows[device]), own) for device, own in zip(devices, local, strict=True))
            edge_models.append((samples(federation, devices), w))
        w_glob = average(edge_models)
    return w_glob


def network_with(federation, weights: torch.Tensor, rows: torch.Tensor):
    """Representation and loss of the network itself on these rows, with these weights loaded."""
    layout.load(federation.network.layers, weights)
    federation.network.layers.zero_grad()
    seen = federation.network.layers[:-1](readable.network_input(federation, rows))
    return seen, functional.cross_entropy(federation.network.layers[-1](seen), federation.y[rows])


def contrast(z, z_glob, z_prev, temperature: float) -> torch.Tensor:
    """l_con of MOON, sample by sample, as printed."""
    towards, away = (functional.cosine_similarity(z, other, dim=-1) for other in (z_glob, z_prev))
    up = torch.exp(towards / temperature)
    return -torch.log(up / (up + torch.exp(away / temperature)))


def descend_by_autograd(federation, device, work, round, loss_at, start) -> torch.Tensor:
    """SGD with momentum on any loss(weights, rows) that leaves its gradients in the network."""
    weights, velocity = start.clone(), torch.zeros_like(start)
    for positions in client_minibatches(federation, device, work, round):
        loss_at(weights, federation.rows[device][torch.as_tensor(positions)]).backward()
        velocity = work.momentum * velocity + layout.gradients(federation.network.layers)
        weights = weights - work.lr * velocity
    return weights


def moon(federation, algorithm, rounds: int) -> torch.Tensor:
    """Model-contrastive learning, Algorithm 1 of its paper."""
    w_glob = federation.start
    previous = dict.fromkeys(range(federation.clients), federation.start)
    for t in range(1, rounds + 1):
        local = {}
        for device in algorithm.participants(federation, t):

            def loss_at(weights, rows, received=w_glob, last=previous[device]):
                with torch.no_grad():
                    z_glob, z_prev = (network_with(federation, fixed, rows)[0] for fixed in (received, last))
                z, cross_entropy = network_with(federation, weights, rows)
                return cross_entropy + algorithm.mu * contrast(z, z_glob, z_prev, algorithm.temperature).mean()

            local[device] = descend_by_autograd(federation, device, algorithm.work(t), t, loss_at, w_glob)
        previous |= local
        w_glob = average((len(federation.rows[device]), own) for device, own in local.items())
    return w_glob


def fedprox(federation, algorithm, rounds: int) -> torch.Tensor:
    """The proximal term as a loss of the network's own parameters."""
    w_glob = federation.start
    for t in range(1, rounds + 1):
        local = []
        for device in algorithm.participants(federation, t):

            def loss_at(weights, rows, received=w_glob):
                _, cross_entropy = network_with(federation, weights, rows)
                layers = layout.layers(federation.network.layers)
                now = [torch.cat([layer.weight.flatten(1), layer.bias[:, None]], dim=1).flatten() for layer in layers]
                return cross_entropy + algorithm.mu / 2 * (torch.cat(now) - received).square().sum()

            own = descend_by_autograd(federation, device, algorithm.work(t), t, loss_at, w_glob)
            local.append((len(federation.rows[device]), own))
        w_glob = average(local)
    return w_glob


def centralised(federation, algorithm, rounds: int) -> torch.Tensor:
    """Minibatch SGD on one heap of samples; the heap is a federation of one."""
    heap = replace(federation, rows=(torch.arange(len(federation.y)),))
    w = federation.start
    for t in range(1, rounds + 1):
        w = readable.train(heap, Cohort([0], w), algorithm.work(t), t).weights[0]
    return w
