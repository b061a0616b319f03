"""The runs of the ACFMO paper: which methods on which federations, with which settings; and what is measured beside.

`federation` holds the arguments of `federate` but the seed; `local` holds `steps` and `batch`, which all methods with
local steps share. Seeds are the outermost loop, so that runs one after another share a federation.

Every method is run with several sets of step sizes (`rates`). Three have the paper's rate, 0.02 / n_i for all local
steps and 0.02 for the server's; they differ in the gradient that it multiplies, of which the paper does not say whether
it is a mean or a sum. Two are each method's own, tuned by one rule: for accuracy, and for speed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import optimize

from fedlib import data, engine
from fedlib.algorithms.acfmo import ACFMO
from fedlib.algorithms.serveradam import ServerAdam
from fedlib.judging import curves
from fedlib.problem.federation import Federation, federate
from fedlib.runs import tuning
from fedlib.runs.computations import computation
from fedlib.runs.study import Run
from fedlib.runs.tuning import Point, Sweep

READINGS = ("printed", "current", "unnormalised")  # of Eqs. (4) to (9)
RIVALS = ("FedDBE", "FedALA", "FedPAC", "FedGH")
PAPERS = "the paper's"  # sets of step sizes: the paper's rate for means of gradients,
BATCH_SUMS, DEVICE_SUMS = "the paper's, sums over a batch", "the paper's, sums over a device"  # and for sums of them;
TUNED, FASTEST = "tuned", "fastest"  # each method's own, for the best accuracy and for the fewest rounds
Rates = Mapping[int, Mapping[str, Point]]  # level of participation in percent -> method -> its step size
SAMPLES = {"mnist_hog": 60000, "cifar10_hog": 50000, "cifar10": 50000}  # that clients train on
LOCAL_RATE = SERVER_RATE = 0.02  # alpha_l and alpha_g^0 of the paper


def acfmo(reading: str) -> str:
    """The name of ACFMO under a reading."""
    return f"ACFMO, {reading}"


# Method -> algorithm and the options that make it.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    **{acfmo(reading): ("acfmo", {"variant": reading}) for reading in READINGS},
    **{rival: (rival.lower(), {}) for rival in (*RIVALS, "FedAvg")},
    "Server Adam": ("serveradam", {}),
}
SERVER_STEPS = {**dict.fromkeys(map(acfmo, READINGS), "server_lr"), "Server Adam": "lr"}  # the option of their step


def federation_options(
    data_set: str, clients: int, alpha: float, l2: float, partitioner: str = "dirichlet_clients"
) -> dict[str, Any]:
    """Softmax regression. Each device draws its class proportions from Dir(alpha), and all hold equally many samples;
    with "dirichlet" each class is divided among the devices by Dir(alpha), and they hold unequally many."""
    return {"data_set": data_set, "partitioner": partitioner, "clients": clients, "alpha": alpha, "l2": l2}


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


# Step sizes


def papers_rates(federation: dict[str, Any], batch: int) -> dict[str, dict[str, Point]]:
    """The paper's step sizes for all, by what alpha_l / n_i multiplies: alpha_g^0 at the server, alpha_l / n_i for
    local steps and FedGH's head.

    We train with mean gradients. A sum over a batch is `batch` times as long, one over a device's samples n_i times.
    All devices hold equally many samples, so that each set is one rate for all.
    """
    share = LOCAL_RATE * federation["clients"] / SAMPLES[federation["data_set"]]
    of_local = {PAPERS: share, BATCH_SUMS: batch * share, DEVICE_SUMS: LOCAL_RATE}
    return {
        name: {
            method: {SERVER_STEPS[method]: SERVER_RATE} if method in SERVER_STEPS else {"lr": rate}
            for method in METHODS
        }
        for name, rate in of_local.items()
    }


def tune(
    federation: dict[str, Any],
    rates: list[float],
    server_rates: list[float],
    levels: list[int],
    rounds: int,
    seeds: Iterable[int],
    local: dict[str, int],
    every: int = 1,
    last: int = 1,
    targets: Iterable[float] = (),
) -> dict[int, Sweep]:
    """The best step size of every method at each level of participation, by one rule: the clients' `lr`, or the
    server's step where there is one. The best has the highest accuracy, as mean of the `last` measured rounds; with
    `targets`, it needs the fewest rounds to these accuracies.

    ACFMO is tuned over alpha_g^0. Its alpha_l stays the paper's: what the local steps add is far below the last digit.
    """
    grids = {name: {SERVER_STEPS[name]: server_rates} if name in SERVER_STEPS else {"lr": rates} for name in METHODS}
    score = mean_rounds_to(list(targets)) if targets else "accuracy"
    sweeps = {}
    for level in levels:
        methods = {name: run(name, federation, rounds, 0, local, every, participation=level / 100) for name in METHODS}
        sweeps[level] = tuning.tune(methods, grids, list(seeds), score, last=last)
    return sweeps


def mean_rounds_to(targets: list[float]) -> Callable[[pd.DataFrame], float]:
    """The cost of a run: rounds to these accuracies, averaged; one more than it had for each that it does not reach."""
    return lambda run: float(np.mean([curves.rounds_to(run, target)[0] for target in targets]))


def best(sweeps: Mapping[int, Sweep]) -> dict[int, dict[str, Point]]:
    """What won at each level of participation."""
    return {level: sweep.best for level, sweep in sweeps.items()}


def at_every(levels: list[int], points: Mapping[str, Point]) -> dict[int, Mapping[str, Point]]:
    """The same step sizes at every level of participation."""
    return dict.fromkeys(levels, points)


def comparison(
    federation: dict[str, Any],
    step_sizes: Mapping[str, Rates],
    rounds: int,
    seeds: range,
    local: dict[str, int],
    every: int,
    stop_at: dict[str, float] | None = None,
) -> list[Run]:
    """Figs. 1 to 7: all methods with each set of step sizes, at its levels of participation (in percent), several
    seeds."""
    runs = [
        run(
            method,
            federation,
            rounds,
            seed,
            local,
            every,
            label={"rates": name, "participation": level},
            participation=level / 100,
            **point,
        )
        for seed in seeds
        for name, rates in step_sizes.items()
        for level, points in rates.items()
        for method, point in points.items()
    ]
    return [replace(one, stop_at=stop_at) for one in runs]


def ablation(
    federation: dict[str, Any], levels: list[int], rounds: int, seeds: range, local: dict[str, int], every: int
) -> list[Run]:
    """ACFMO with the paper's constants, under each reading, with its local steps and without."""
    return [
        _acfmo(
            federation,
            rounds,
            seed,
            local | {"steps": steps},
            level,
            every,
            {"reading": reading, "local steps": kind, "participation": level},
            variant=reading,
        )
        for seed in seeds
        for level in levels
        for reading in READINGS
        for kind, steps in (("with", local["steps"]), ("without", 0))
    ]


def momentum(
    federation: dict[str, Any],
    beta1: list[float],
    beta2: list[float],
    level: float,
    rounds: int,
    seeds: range,
    local: dict[str, int],
    every: int,
) -> list[Run]:
    """Figs. 8 and 9: all pairs of decay rates under each reading."""
    studied = [
        {"variant": reading, "beta1": first, "beta2": second}
        for reading in READINGS
        for second in beta2
        for first in beta1
    ]
    return [
        _acfmo(federation, rounds, seed, local, level, every, options, **options)
        for seed in seeds
        for options in studied
    ]


def step_sizes(
    federation: dict[str, Any],
    server_lrs: list[float],
    level: float,
    rounds: int,
    seed: int,
    local: dict[str, int],
    every: int,
) -> list[Run]:
    """The readings of Eqs. (4) to (9) over the server's step alpha_g^0."""
    studied = [{"variant": reading, "server_lr": step} for reading in READINGS for step in server_lrs]
    return [_acfmo(federation, rounds, seed, local, level, every, options, **options) for options in studied]


def _acfmo(
    federation: dict[str, Any],
    rounds: int,
    seed: int,
    local: dict[str, int],
    level: float,
    every: int,
    label: dict[str, Any],
    **studied: Any,
) -> Run:
    """A run of ACFMO with the options under study."""
    options = local | {"participation": level / 100} | studied
    return Run("acfmo", federation, rounds, seed, options, every, label)


# Beside the runs: the best that any method could reach


@computation
def optimum(data_set: str, l2: float, iterations: int) -> pd.DataFrame:
    """Where all methods would end: the minimum of the l2-regularised softmax loss of all training samples together.

    Found by L-BFGS from zero in at most `iterations`. One row: scores on the test set, the objective, the largest entry
    of its gradient that is left, the iterations taken.
    """
    pooled = federate(data_set, "iid", 1, l2=l2)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        single = torch.from_numpy(weights.astype(np.float32))
        loss = engine.mean_loss(pooled.network, single, pooled.x, pooled.y)
        slope = engine.mean_gradient(pooled.network, single, pooled.x, pooled.y, l2)
        return loss + l2 / 2 * float(weights @ weights), slope.numpy().astype(np.float64)

    options = {"maxiter": iterations, "maxfun": 10 * iterations, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-6}
    found = optimize.minimize(objective, np.zeros(pooled.start.numel()), jac=True, method="L-BFGS-B", options=options)
    best = torch.from_numpy(found.x.astype(np.float32))
    scores = engine.evaluate(pooled.network, best, pooled.x_test, pooled.y_test)
    about = {"objective": float(found.fun), "slope": float(np.abs(found.jac).max()), "iterations": int(found.nit)}
    return pd.DataFrame([scores | about])


# A picture, and the terms of the paper's equations on a federation


@computation
def first_image(data_set: str) -> pd.DataFrame:
    """The first training image, one row of pixels per row, and its label."""
    images = data.load(data_set)
    pixels = images.x_train[0].numpy()
    columns = [f"pixel_{column}" for column in range(pixels.shape[1])]
    return pd.DataFrame(pixels, columns=columns).assign(label=int(images.y_train[0]))


@computation
def first_moves(federation: dict, participation: float, seed: int) -> pd.DataFrame:
    """How far the first round moves the model, under each reading of Eqs. (4) to (9)."""
    built, rows = federate(**federation, seed=seed), []
    for variant in READINGS:
        method = ACFMO(participation=participation, variant=variant)
        start = method.init(built)
        moved = float((method.round(built, start, 1)["weights"] - start["weights"]).norm())
        rows.append({"variant": variant, "moved": moved})
    return pd.DataFrame(rows)


@computation
def local_weight(federation: dict, levels: list[float], local: dict[str, int], rounds: int, seed: int) -> pd.DataFrame:
    """What a round of ACFMO is made of, round by round, for several participation levels.

    `central` is the length of the central step and `local` that of the local part of Eq. (20), which is too small for
    the weights' last digit, so it is measured before it is added; `ratio` is local / central. `shift` is |g(w) -
    g(w-hat)| / |g(w-hat)|: how far the anchor that Eq. (14) adds is from the gradient where Eq. (12) subtracts.
    """
    built, rows = federate(**federation, seed=seed), []
    for level in levels:
        method = ACFMO(participation=level, variant="current", **local)
        state = method.init(built)
        for round in range(1, rounds + 1):
            after = replace(method, steps=0).round(built, state, round)
            rows.append({"participation": level, "round": round} | _lengths(method, built, state, after, round))
            state = after
    return pd.DataFrame(rows)


def _lengths(method: ACFMO, federation: Federation, state: dict, after: dict, round: int) -> dict[str, float]:
    """Of the central step, of what the devices' drift would add after it, and of the anchor's shift."""
    clients = method.participants(federation, round)
    anchor, there = (engine.pooled_gradient(federation, at["weights"], clients) for at in (state, after))
    drift = method.drift(federation, state["feature_counts"], after["weights"], anchor, clients, round)
    central = float((after["weights"] - state["weights"]).norm())
    part = method.rate(round) * float(drift.norm())
    shift = float((anchor - there).norm() / there.norm())
    return {"central": central, "local": part, "ratio": part / central, "shift": shift}


@computation
def gradient_ratios(federation: dict, rounds: int, seed: int) -> pd.DataFrame:
    """E|g|^2 / |E g|^2 of single-sample gradients, for every tenth device, at the start and after `rounds` rounds."""
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
