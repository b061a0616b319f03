"""The runs of the ACFMO paper: which methods on which federations, with which settings; and what is measured beside.

`federation` holds the arguments of `federate` but the seed; `local` holds `steps` and `batch`, which all methods with
local steps share. Seeds are the outermost loop, so that runs one after another share a federation.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedlib import data, engine
from fedlib.algorithms.acfmo import ACFMO
from fedlib.algorithms.serveradam import ServerAdam
from fedlib.problem.federation import Federation, federate
from fedlib.runs import tuning
from fedlib.runs.computations import computation
from fedlib.runs.study import Run
from fedlib.runs.tuning import Sweep

NO_LOCAL_STEPS = "ACFMO, no local steps"  # the ablation
# Method -> algorithm and the options that make it; those in TUNED take their learning rate from a grid.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "ACFMO": ("acfmo", {"variant": "current"}),
    "ACFMO as printed": ("acfmo", {"variant": "printed"}),
    "FedDBE": ("feddbe", {}),
    "FedALA": ("fedala", {}),
    "FedPAC": ("fedpac", {}),
    "FedGH": ("fedgh", {}),
    "FedAvg": ("fedavg", {}),
    "Server Adam": ("serveradam", {}),
    NO_LOCAL_STEPS: ("acfmo", {"variant": "current", "steps": 0}),
}
TUNED = ("FedDBE", "FedALA", "FedPAC", "FedGH", "FedAvg", "Server Adam")


def federation_options(data_set: str, clients: int, alpha: float, l2: float) -> dict[str, Any]:
    """Softmax regression on HoG features; each device draws its class proportions from Dir(alpha)."""
    return {"data_set": data_set, "partitioner": "dirichlet_clients", "clients": clients, "alpha": alpha, "l2": l2}


def run(
    method: str,
    federation: dict[str, Any],
    rounds: int,
    seed: int,
    local: dict[str, int],
    every: int = 1,
    label: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    """One run of a method, with `options` beside those that make it."""
    algorithm, fixed = METHODS[method]
    all_options = _local_options(algorithm, local) | fixed | options
    return Run(algorithm, federation, rounds, seed, all_options, every, {"method": method} | (label or {}))


def _local_options(algorithm: str, local: dict[str, int]) -> dict[str, int]:
    """What a method takes of steps and batch: server Adam has no local steps, FedGH takes full batches."""
    taken = {"serveradam": (), "fedgh": ("steps",)}.get(algorithm, tuple(local))
    return {name: local[name] for name in taken}


def tune(
    federation: dict[str, Any], rates: list[float], participation: float, rounds: int, seed: int, local: dict[str, int]
) -> Sweep:
    """The best learning rate of every method that needs one."""
    bases = {name: at_end(name, federation, rounds, local, participation) for name in TUNED}
    return tuning.tune(bases, {key: {"lr": rates} for key in TUNED}, [seed])


def at_end(method: str, federation: dict[str, Any], rounds: int, local: dict[str, int], participation: float) -> Run:
    """A run that is measured at its end alone, as tuning wants it."""
    return run(method, federation, rounds, 0, local, every=rounds, participation=participation)


def untuned(federation: dict[str, Any], participation: float, rounds: int, seed: int, local: dict[str, int]) -> Run:
    """ACFMO with the paper's constants, measured where the others are tuned."""
    return tuning.held_out(at_end("ACFMO", federation, rounds, local, participation), seed, {})


def comparison(
    federation: dict[str, Any],
    rates: dict[str, float],
    levels: list[int],
    rounds: int,
    seeds: range,
    local: dict[str, int],
    every: int,
) -> list[Run]:
    """Figs. 1 to 7: all methods at all participation levels (in percent), several seeds."""
    return [
        run(
            method,
            federation,
            rounds,
            seed,
            local,
            every,
            label={"participation": level},
            participation=level / 100,
            **({"lr": rates[method]} if method in rates else {}),
        )
        for seed in seeds
        for level in levels
        for method in METHODS
    ]


def momentum(
    federation: dict[str, Any],
    beta1: list[float],
    beta2: list[float],
    level: int,
    rounds: int,
    seeds: range,
    local: dict[str, int],
    every: int,
) -> list[Run]:
    """Figs. 8 and 9: all pairs of decay rates with this round's moments; as printed for beta2 = 0.999, to compare."""
    pairs = [("current", b1, b2) for b2 in beta2 for b1 in beta1] + [("printed", b1, 0.999) for b1 in beta1]
    return [
        _acfmo(federation, rounds, seed, local, level / 100, every, variant=variant, beta1=b1, beta2=b2)
        for seed in seeds
        for variant, b1, b2 in pairs
    ]


def step_sizes(
    federation: dict[str, Any],
    server_lrs: list[float],
    participation: float,
    rounds: int,
    seed: int,
    local: dict[str, int],
    every: int,
) -> list[Run]:
    """Both readings of Eq. (4) over the server's step alpha_g^0."""
    return [
        _acfmo(federation, rounds, seed, local, participation, every, variant=variant, server_lr=server_lr)
        for variant in ("current", "printed")
        for server_lr in server_lrs
    ]


def _acfmo(
    federation: dict[str, Any],
    rounds: int,
    seed: int,
    local: dict[str, int],
    participation: float,
    every: int,
    **studied: Any,
) -> Run:
    """A run of ACFMO that is named by the options under study."""
    options = local | {"participation": participation} | studied
    return Run("acfmo", federation, rounds, seed, options, every, label=studied)


# Beside the runs: a picture, and the terms of the paper's equations on a federation


@computation
def first_image(data_set: str) -> pd.DataFrame:
    """The first training image, one row of pixels per row, and its label."""
    images = data.load(data_set)
    pixels = images.x_train[0].numpy()
    columns = [f"pixel_{column}" for column in range(pixels.shape[1])]
    return pd.DataFrame(pixels, columns=columns).assign(label=int(images.y_train[0]))


@computation
def first_moves(federation: dict, participation: float, seed: int) -> pd.DataFrame:
    """How far the first round moves the model, for both readings of Eq. (4)."""
    built, rows = federate(**federation, seed=seed), []
    for variant in ("printed", "current"):
        method = ACFMO(participation=participation, variant=variant)
        start = method.init(built)
        moved = float((method.round(built, start, 1)["weights"] - start["weights"]).norm())
        rows.append({"variant": variant, "moved": moved})
    return pd.DataFrame(rows)


@computation
def local_weight(federation: dict, levels: list[float], local: dict[str, int], rounds: int, seed: int) -> pd.DataFrame:
    """Length of the central step and of the local part of Eq. (20), round by round, for several participation levels.

    The local part is too small for the weights' last digit, so it is measured before it is added.
    """
    built, rows = federate(**federation, seed=seed), []
    for level in levels:
        method = ACFMO(participation=level, variant="current", **local)
        state = method.init(built)
        for round in range(1, rounds + 1):
            after = replace(method, steps=0).round(built, state, round)
            central = float((after["weights"] - state["weights"]).norm())
            part = _local_length(method, built, state, after, round)
            lengths = {"central": central, "local": part, "ratio": part / central}
            rows.append({"participation": level, "round": round} | lengths)
            state = after
    return pd.DataFrame(rows)


def _local_length(method: ACFMO, federation: Federation, state: dict, after: dict, round: int) -> float:
    """Of what the devices' drift would add to the model after the central step."""
    clients = method.participants(federation, round)
    anchor = engine.pooled_gradient(federation, state["weights"], clients)
    added = method.drift(federation, state["feature_counts"], after["weights"], anchor, clients, round)
    return method.rate(round) * float(added.norm())


@computation
def gradient_ratios(federation: dict, rounds: int, seed: int) -> pd.DataFrame:
    """E|g|^2 / |E g|^2 of single-sample gradients, for every tenth device, at the start and after so many rounds."""
    built = federate(**federation, seed=seed)
    method = ServerAdam(participation=0.1)
    start = method.init(built)
    trained = start
    for round in range(1, rounds + 1):
        trained = method.round(built, trained, round)
    return pd.DataFrame(
        [
            {"round": round, "device": device, "ratio": _gradient_ratio(built, state["weights"], device)}
            for round, state in ((0, start), (rounds, trained))
            for device in range(0, built.clients, 10)
        ]
    )


def _gradient_ratio(federation: Federation, weights: torch.Tensor, client: int) -> float:
    """For softmax regression a sample's gradient is (p - y) x^T, so its squared norm is |p - y|^2 |x|^2."""
    rows = federation.rows[client]
    x, y = federation.x[rows], federation.y[rows]
    error = torch.softmax(engine.product(x, weights.view(federation.classes, -1).T), 1)
    error[torch.arange(len(y)), y] -= 1
    mean_square = (error.square().sum(1) * x.square().sum(1)).mean()
    mean = (engine.product(error.T, x) / len(y)).square().sum()
    return float(mean_square / mean)


@computation
def curvature(federation: dict, seed: int) -> pd.DataFrame:
    """mu and L of the regularised objective: the l2 coefficient, and l2 plus half the top eigenvalue of X^T X / n."""
    built = federate(**federation, seed=seed)
    x = built.x.double().numpy()
    top = float(np.linalg.eigvalsh(x.T @ x / len(x))[-1])
    return pd.DataFrame([{"mu": built.l2, "smooth": built.l2 + top / 2}])
