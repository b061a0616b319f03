"""Lesson 6, the server's step: a valley in which servers walk, their race on digits, clients for a loop of one's own.

The methods of `fedlib.algorithms.fedopt` themselves walk in the valley: `InTheValley` replaces their clients, nothing
else.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import cos, radians, sin
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import nn

from fedlib.algorithms import REGISTRY, create
from fedlib.problem import layout
from fedlib.problem.federation import Federation, federate
from fedlib.problem.streams import generator
from fedlib.runs import study, tuning
from fedlib.runs.simulation import simulate
from fedlib.runs.study import Run
from fedlib.runs.tuning import Sweep


@dataclass(frozen=True)
class Valley:
    """Ten clients with losses (w - m_i)' H (w - m_i) / 2: one steep and one flat direction; the m_i have mean 0."""

    angle: float = 0.0  # degrees by which the valley is turned against the axes
    present: int = 3  # clients that answer in a round
    steps: int = 10  # local steps per round
    lr: float = 0.2  # the clients' rate
    seed: int = 0

    @property
    def turn(self) -> np.ndarray:
        """From (steep, flat) to the two weights."""
        angle = radians(self.angle)
        return np.array([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]])

    @property
    def curvature(self) -> np.ndarray:
        """H: a step across the valley changes the loss fifty times as much as one along it."""
        return self.turn @ np.diag([1.0, 0.02]) @ self.turn.T

    @property
    def minima(self) -> np.ndarray:
        """m_i: the clients disagree about where the bottom of the valley is."""
        drawn = generator(self.seed, "valley").normal(size=(10, 2)) * [1.0, 2.0]
        return (drawn - drawn.mean(0)) @ self.turn.T

    @property
    def start(self) -> torch.Tensor:
        return torch.as_tensor(self.turn @ [-2.0, -9.0])

    def models(self, weights: torch.Tensor, round: int) -> torch.Tensor:
        """Where the round's clients take the server's model with their local steps, one row per client."""
        chosen = generator(self.seed, "valley clients", round).choice(10, self.present, replace=False)
        minima = self.minima[np.sort(chosen)]
        left = np.linalg.matrix_power(np.eye(2) - self.lr * self.curvature, self.steps)
        return torch.as_tensor(minima + (weights.numpy() - minima) @ left)

    def loss(self, path: np.ndarray) -> np.ndarray:
        """The mean of the clients' losses above its minimum, for every point of a path."""
        return np.einsum("...i,ij,...j->...", path, self.curvature, path) / 2


class InTheValley:
    """The clients of the valley for a method of the FedOpt family: what the server sees is their average change."""

    def change(self, valley: Valley, state: dict, round: int) -> torch.Tensor:
        return valley.models(state["weights"], round).mean(0) - state["weights"]


def walk(method: str, valley: Valley, rounds: int, **options) -> np.ndarray:
    """The server's weights, before the first round and after each: (rounds + 1, 2)."""
    server = type(method, (InTheValley, REGISTRY[method]), {})(**options)
    federation = cast(Federation, valley)  # it has a start, all that a server of this family asks for
    state = server.init(federation)
    path = [state["weights"]]
    for round in range(1, rounds + 1):
        state = server.round(federation, state, round)
        path.append(state["weights"])
    return torch.stack(path).numpy()


def walk_with(server: Callable, valley: Valley, rounds: int) -> np.ndarray:
    """The same for a server that a student wrote: server(w, memory, delta, round) -> (w, memory)."""
    w, memory, path = valley.start, {}, [valley.start]
    for round in range(1, rounds + 1):
        w, memory = server(w, memory, valley.models(w, round).mean(0) - w, round)
        w = torch.as_tensor(w, dtype=torch.float64)
        path.append(w)
    return torch.stack(path).numpy()


def steady_steps(delta: float, rounds: int, beta1: float, beta2: float, tau: float) -> np.ndarray:
    """Lengths of FedAdam's steps, in units of its rate, when the clients report the same change in every round."""
    options = {"server_lr": 1.0, "beta1": beta1, "beta2": beta2, "tau": tau}
    server = type("steady", (SameChange, REGISTRY["fedadam"]), {})(**options)
    federation = cast(Federation, Start(torch.tensor([delta], dtype=torch.float64)))
    state, places = server.init(federation), [0.0]
    for round in range(1, rounds + 1):
        state = server.round(federation, state, round)
        places.append(float(state["weights"] - federation.start))
    return np.diff(places)


@dataclass(frozen=True)
class Start:
    """A federation of one weight, of which a server only needs the start."""

    start: torch.Tensor


class SameChange:
    """Clients that report the same change in every round: here the start itself."""

    def change(self, federation: Start, state: dict, round: int) -> torch.Tensor:
        return federation.start


def losses(paths: dict[str, np.ndarray], valley: Valley) -> pd.DataFrame:
    """What a picture of walks shows, in numbers: the loss above the minimum along the way."""
    last = len(next(iter(paths.values()))) - 1
    rounds = [0, *(round for round in (5, 10, 20) if round < last), last]
    shown = {name: valley.loss(path)[rounds] for name, path in paths.items()}
    return pd.DataFrame(shown, [f"round {round}" for round in rounds]).T.rename_axis("loss above the minimum").round(2)


def three_servers(valley: Valley, rounds: int, beta: float, server_lr: float) -> dict[str, np.ndarray]:
    """FedAvg, FedAvgM and FedAdam. With the rate 1 - beta FedAvgM's steps are in the long run as long as FedAvg's."""
    return {
        "FedAvg": walk("fedopt", valley, rounds),
        f"FedAvgM, beta = {beta:g}, rate {1 - beta:.2g}": walk(
            "fedavgm", valley, rounds, beta=beta, server_lr=1 - beta
        ),
        f"FedAdam, rate {server_lr:.2g}": walk("fedadam", valley, rounds, server_lr=server_lr),
    }


PROBLEM = {
    "data_set": "mnist",
    "partitioner": "dirichlet_clients",
    "clients": 100,
    "alpha": 0.1,
    "network": "softmax",
    "samples": 4000,
    "test_samples": 2000,
}
LOCAL = {"participation": 0.1, "steps": 10, "batch": 16}
PRESENT = 10  # clients in a round: the participation of LOCAL
TUNING_SEEDS = (100, 101)  # no result uses them


@dataclass(frozen=True)
class Server:
    """A method of the race: its name in the library, the options that stay fixed, and the values that may be tried."""

    algorithm: str
    grid: dict[str, list[float]]
    fixed: dict[str, Any] = field(default_factory=dict)


CLIENT_RATES = [0.1, 0.3, 1.0]
SERVER_RATES = [0.01, 0.03, 0.1]  # of servers that scale their steps
ADAPTIVE = {"lr": CLIENT_RATES, "server_lr": SERVER_RATES}
SERVERS = {  # nine tries each; all may tune the clients' rate
    "FedAvg": Server("fedavg", {"lr": [0.03, 0.06, 0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 3.0]}),
    "FedAvgM": Server("fedavgm", {"lr": CLIENT_RATES, "server_lr": [0.1, 0.3, 1.0]}),
    "FedAdagrad": Server("fedadagrad", ADAPTIVE),
    "FedAdam": Server("fedadam", ADAPTIVE),
    "FedYogi": Server("fedyogi", ADAPTIVE),
    "FCBAFL": Server("fcbafl", {"lr": [0.03, 0.1, 0.3], "eta": [0.3, 1.0, 3.0]}),
    "ACFMO": Server("acfmo", {"lr": [0.02, 0.2, 2.0], "server_lr": SERVER_RATES}, {"variant": "current"}),
}


def run(name: str, seed: int, rounds: int, every: int = 1, **tuned: float) -> Run:
    """One run of a server of the race."""
    server = SERVERS[name]
    return Run(server.algorithm, PROBLEM, rounds, seed, LOCAL | server.fixed | tuned, every, {"method": name} | tuned)


def tune(rounds: int) -> Sweep:
    """Nine tries for every server on held-out training samples, and more where the best lies at an end of its grid."""
    methods = {name: run(name, TUNING_SEEDS[0], rounds, every=rounds) for name in SERVERS}
    return tuning.tune(methods, {name: server.grid for name, server in SERVERS.items()}, TUNING_SEEDS)


def tries_table(tuned: Sweep) -> pd.DataFrame:
    """How many tries each method had, its worst, its median and its best, and the rates of the best."""
    rows = {}
    for name, scores in tuned.means().groupby("method", sort=False)["score"]:
        spread = {f"{word}, %": f"{100 * value:.1f}" for word, value in scores.agg(["min", "median", "max"]).items()}
        rows[name] = {"tries": len(scores)} | spread | {"best": _options_of(tuned.best[name])}
    return pd.DataFrame(rows).T.loc[list(SERVERS)].rename_axis("held-out accuracy of")


def _options_of(point: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in point.items())


def race(chosen: dict[str, dict[str, Any]], rounds: int, seeds: range) -> list[Run]:
    """Every server with its chosen options, on every seed."""
    return [run(name, seed, rounds, **tuned) for seed in seeds for name, tuned in chosen.items()]


def after(method: str, seed: int, rounds: int, **options) -> torch.Tensor:
    """The server's weights after some rounds of the race's problem."""
    server, federation = create(method, **LOCAL, **options), federate(**PROBLEM, seed=seed)
    state = server.init(federation)
    for round in range(1, rounds + 1):
        state = server.round(federation, state, round)
    return state["weights"]


CHOSEN: dict[str, dict[str, float]] = {  # what `tune` finds with 20 rounds; lesson 7 goes on with it
    "FedAvg": {"lr": 0.3},
    "FedAvgM": {"lr": 0.1, "server_lr": 1.0},
    "FedAdagrad": {"lr": 0.3, "server_lr": 0.1},
    "FedAdam": {"lr": 1.0, "server_lr": 0.03},
    "FedYogi": {"lr": 1.0, "server_lr": 0.03},
    "FCBAFL": {"lr": 0.03, "eta": 3.0},
    "ACFMO": {"lr": 0.02, "server_lr": 0.1},
}


def tries_of_fedavg(rounds: int, seeds: range) -> dict[float, np.ndarray]:
    """Held-out accuracy of FedAvg for every rate of its grid, one number per seed."""
    rates = SERVERS["FedAvg"].grid["lr"]
    runs = [run("FedAvg", seed, rounds, every=rounds, lr=lr) for lr in rates for seed in seeds]
    last = study.execute([replace(tuning.held_out(each, each.seed, {}), label=each.label) for each in runs]).query(
        f"round == {rounds}"
    )
    return {lr: last[last["lr"] == lr].sort_values("seed")["accuracy"].to_numpy() for lr in rates}


CNN = {
    "data_set": "mnist",
    "partitioner": "dirichlet_clients",
    "clients": 8,
    "alpha": 0.5,
    "network": "lenet_tutorial",
    "samples": 640,
    "test_samples": 1000,
}


@dataclass(frozen=True)
class Digits:
    """A small federation in plain PyTorch: a network, the clients' (inputs, labels), and test samples."""

    model: nn.Module
    clients: list[tuple[torch.Tensor, torch.Tensor]]
    x_test: torch.Tensor
    y_test: torch.Tensor


def digits(seed: int) -> Digits:
    """MNIST for eight skewed clients, as tensors that a network of PyTorch takes."""
    federation = federate(**CNN, seed=seed)
    network = copy.deepcopy(federation.network.layers)
    layout.load(network, federation.start)
    x = federation.network.inputs(federation.x).contiguous()
    clients = [(x[rows], federation.y[rows]) for rows in federation.rows]
    return Digits(network, clients, federation.network.inputs(federation.x_test).contiguous(), federation.y_test)


@torch.no_grad()
def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Share of samples that the model gets right."""
    return float((model(x).argmax(1) == y).float().mean())


def librarys_accuracy(seed: int, rounds: int, **work) -> float:
    """What the library's FedAvg reaches on the same clients, with minibatches of its own."""
    frame = simulate(create("fedavg", **work), federate(**CNN, seed=seed), rounds, every=rounds, bar=False)
    return float(frame["accuracy"].iloc[-1])
