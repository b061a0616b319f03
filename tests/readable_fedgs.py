"""FedGS and three of its rivals written from their definitions: one device, one batch, one number at a time.

Gradients come from torch's autograd on the network itself; nothing but the random draws is shared with the fast path.
"""

from collections import deque
from copy import deepcopy

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedlib.algorithms.fedmmd import WIDTHS
from fedlib.engine import readable
from fedlib.engine.minibatches import client_minibatches
from fedlib.problem import layout
from fedlib.problem.streams import generator


class ReadableFedGS:
    """Algorithms 1 and 2 of the paper."""

    def __init__(self, options, federation):
        self.options, self.federation = options, federation
        self.weights = federation.start.clone()
        self.queues = [deque() for _ in range(federation.clients)]
        self.passes = [0] * federation.clients
        self.groups = [group.tolist() for group in np.array_split(np.arange(federation.clients), options.factories)]
        everything = torch.bincount(federation.y, minlength=federation.classes).numpy()
        self.real = everything / everything.sum()
        self.divergence = []

    def next_batch(self, device):
        """The first n samples of the device's queue; they stay there until they are used."""
        own, queue = self.federation.rows[device], self.queues[device]
        while len(queue) < self.options.batch:
            order = generator(self.federation.seed, "stream", self.passes[device], device).permutation(len(own))
            queue.extend(own[order].tolist())
            self.passes[device] += 1
        return [queue[place] for place in range(self.options.batch)]

    def histogram(self, devices):
        rows = [row for device in devices for row in self.next_batch(device)]
        return np.bincount(self.federation.y[rows].numpy(), minlength=self.federation.classes)

    def select(self, random, others):
        """Algorithm 2 after its first line."""
        size = min(self.options.devices, len(random) + len(others))
        wanted = size - len(random)
        A = np.array([self.histogram([device]) for device in others], dtype=float).T
        y = self.options.batch * size * self.real - self.histogram(random)
        x, d = np.zeros(len(others)), np.linalg.norm(y)
        if wanted:
            x[np.argsort(-np.round(np.linalg.pinv(A) @ y, 9), kind="stable")[:wanted]] = 1
            d = np.linalg.norm(A @ x - y)
        while d > 0 and 0 < wanted < len(others):
            gradient = A.T @ (A @ x - y) / d
            enters = min((i for i in range(len(x)) if x[i] == 0), key=lambda i: gradient[i])
            leaves = max((i for i in range(len(x)) if x[i] == 1), key=lambda i: gradient[i])
            swapped = x.copy()
            swapped[enters], swapped[leaves] = 1, 0
            if np.linalg.norm(A @ swapped - y) >= d:
                break
            x, d = swapped, np.linalg.norm(A @ swapped - y)
        self.divergence.append(d / (self.options.batch * size))
        return [device for device, chosen in zip(others, x, strict=True) if chosen]

    def iterate(self, model, random, others):
        """Local steps (3) of the selected devices and internal synchronisation (4)."""
        average, chosen = torch.zeros_like(model), random + self.select(random, others)
        for device in chosen:
            gradient = readable.gradient(self.federation, model, torch.tensor(self.next_batch(device)))[0]
            average += (model - self.options.lr * gradient) / len(chosen)
            for _ in range(self.options.batch):
                self.queues[device].popleft()
        return average

    def round(self, round):
        """T iterations in every factory, then external synchronisation (5)."""
        models, self.divergence = [self.weights] * self.options.factories, []
        for t in range((round - 1) * self.options.iterations, round * self.options.iterations):
            drawn_at = t if self.options.presample_each == "iteration" else round - 1
            rng = generator(self.federation.seed, "presampled", drawn_at)
            for size in sorted({len(group) for group in self.groups}, reverse=True):
                alike = [m for m, group in enumerate(self.groups) if len(group) == size]
                drawn = rng.permuted(np.array([self.groups[m] for m in alike]), axis=1)
                for m, order in zip(alike, drawn.tolist(), strict=True):
                    random, others = order[: self.options.presampled], sorted(order[self.options.presampled :])
                    models[m] = self.iterate(models[m], random, others)
        self.weights = sum(models) / len(models)


def averaged(federation, algorithm, round, train_client):
    """sum_k n_k / n * train_client(k, batches of rows) over the participants of a round."""
    clients = algorithm.participants(federation, round)
    total = sum(len(federation.rows[client]) for client in clients)
    average = 0
    for client in clients:
        own = federation.rows[client]
        positions = client_minibatches(federation, client, algorithm.work(round), round)
        batches = [own[torch.as_tensor(np.asarray(place))] for place in positions]
        average = average + len(own) / total * train_client(client, batches)
    return average


def descend(parameters, loss, lr):
    """One SGD step of these parameters, in place."""
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= lr * gradient


def network_with(federation, weights):
    network = deepcopy(federation.network.layers)
    layout.load(network, weights)
    return network


def fedmmd_round(federation, algorithm, weights, round):
    """Cross-entropy + gamma * MMD^2 between the two streams' logits."""

    def kernel(a, b):
        return sum(torch.exp(-((a[:, None] - b[None]) ** 2).sum(2) / (2 * width)).mean() for width in WIDTHS)

    def train_client(client, batches):
        local, received = network_with(federation, weights), network_with(federation, weights)
        for rows in batches:
            x, y = readable.network_input(federation, rows), federation.y[rows]
            own, theirs = local(x), received(x).detach()
            mmd = kernel(own, own) + kernel(theirs, theirs) - 2 * kernel(own, theirs)
            loss = functional.cross_entropy(own, y) + algorithm.gamma * mmd
            descend(list(local.parameters()), loss, algorithm.lr)
        return layout.flatten(local)

    return averaged(federation, algorithm, round, train_client)


class ReadableFusion:
    """FedFusion with modules: two extractors, an operator and a classifier; `operator(theirs, own)` has parameters."""

    def __init__(self, federation, weights, operator):
        network = network_with(federation, weights)
        cut = next(place for place, layer in enumerate(network) if isinstance(layer, nn.Flatten))
        self.federation, self.network, self.operator = federation, network, deepcopy(operator)
        self.theirs, self.own, self.classifier = deepcopy(network[:cut]), network[:cut], network[cut:]

    def logits(self, x):
        return self.classifier(self.operator(self.theirs(x).detach(), self.own(x)))

    def train(self, batches, lr):
        parameters = [*self.own.parameters(), *self.operator.parameters(), *self.classifier.parameters()]
        for rows in batches:
            x, y = readable.network_input(self.federation, rows), self.federation.y[rows]
            descend(parameters, functional.cross_entropy(self.logits(x), y), lr)
        return layout.flatten(self.network)


class WeightedMean(nn.Module):
    """multi and single: lambda * E_g + (1 - lambda) * E_l."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.Parameter(weights.view(-1, 1, 1).clone())

    def forward(self, theirs, own):
        return self.weights * theirs + (1 - self.weights) * own


class SideBySide(nn.Module):
    """conv: a 1 x 1 convolution of both."""

    def __init__(self, rows):
        super().__init__()
        self.layer = nn.Conv2d(rows.shape[1] - 1, rows.shape[0], 1)
        layout.load(nn.Sequential(self.layer), rows.flatten())

    def forward(self, theirs, own):
        return self.layer(torch.cat([theirs, own], dim=1))


class GatedHead(nn.Module):
    """z = tanh(W_f x + b_f + v_f) * sigmoid(W_g x + b_g + v_g), one or more times, then a linear classifier."""

    def __init__(self, layers, condition):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.conditions = nn.ParameterList(condition.clone().split([layer.out_features for layer in layers[:-1]]))

    def forward(self, x):
        for layer, condition in zip(self.layers, self.conditions, strict=False):
            content, gate = (layer(x) + condition).chunk(2, dim=1)
            x = torch.tanh(content) * torch.sigmoid(gate)
        return self.layers[-1](x)
