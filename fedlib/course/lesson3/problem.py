"""Lesson 3, correcting the client: corrections on the toy federation, and a small comparison on MNIST."""

import warnings
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
import torch

from fedlib import engine
from fedlib.algorithms.acfmo import ACFMO, feature_counts, feature_scale
from fedlib.algorithms.algorithm import State, mean_by_size
from fedlib.algorithms.fedavg import FedAvg
from fedlib.course import start, toy
from fedlib.problem.federation import Federation, federate
from fedlib.runs import study, tuning
from fedlib.runs.simulation import simulate
from fedlib.runs.study import Run

LR, STEPS, ROUNDS = 0.1, 20, 25  # of the pictures
CHALLENGE_RATES = (0.1, 0.3)


def fedprox(mu: float) -> toy.Direction:
    return lambda gradient, w, sent: gradient(w) + mu * (w - sent.model)


def scaffold() -> toy.Direction:
    return lambda gradient, w, sent: gradient(w) - sent.own + sent.common


def fcbafl(eta: float) -> toy.Direction:
    return lambda gradient, w, sent: gradient(w) - gradient(sent.model) + eta * sent.gradient


def anchored() -> toy.Direction:
    """ACFMO's local step with full gradients, features common to all and no step of the server."""
    return lambda gradient, w, sent: gradient(w) - gradient(sent.model) + sent.anchor


CORRECTIONS: dict[str, toy.Direction] = {
    "FedAvg": toy.plain,
    "FedProx, mu = 1": fedprox(1.0),
    "SCAFFOLD": scaffold(),
    "FCBAFL, eta = 1": fcbafl(1.0),
    "ACFMO's local step": anchored(),
}
PROBLEM = {
    "data_set": "mnist",
    "partitioner": "dirichlet_clients",
    "clients": 20,
    "alpha": 0.1,
    "network": "softmax",
    "samples": 2000,
    "test_samples": 2000,
    "l2": 0.001,
}
WORK = {"batch": 20, "steps": 20}
RATES = [0.03, 0.1, 0.3, 1.0, 3.0]
TUNING_SEEDS = (1000, 1001)  # no result uses them
METHODS = {
    "FedAvg": ("fedavg", {}),
    "FedProx, mu = 0.1": ("fedprox", {"mu": 0.1}),
    "FedProx, mu = 1": ("fedprox", {"mu": 1.0}),
    "SCAFFOLD": ("scaffold", {}),
    "FedDyn, alpha = 0.1": ("feddyn", {"alpha": 0.1}),
    "FCBAFL, eta = 1": ("fcbafl", {"eta": 1.0}),
}
IN_FULL = "ACFMO's local step in full"


@dataclass(frozen=True)
class AnchoredSteps(FedAvg):
    """ACFMO's local step, Eqs. (12) and (14), averaged in full as by FedAvg: not the paper's method, but its idea."""

    def init(self, federation: Federation) -> State:
        return super().init(federation) | {"feature_counts": feature_counts(federation)}

    def round(self, federation: Federation, state: State, round: int) -> State:
        clients, received = self.participants(federation, round), state["weights"]
        anchor = engine.pooled_gradient(federation, received, clients)  # Eq. (3)
        scale = feature_scale(federation, state["feature_counts"], clients)  # Lambda_i, Eq. (13)

        def step(
            weights: torch.Tensor, memory: engine.Memory, batch: engine.Batch
        ) -> tuple[torch.Tensor, engine.Memory]:
            difference = batch.difference(weights, received.expand_as(weights))
            difference.unflatten(-1, (federation.classes, -1)).mul_(memory["scale"].unsqueeze(-2))
            return difference.add_(anchor), {}

        cohort = engine.Cohort(clients, received, memory={"scale": scale})
        local = engine.train(federation, cohort, self.work(round), round, step=step).weights
        return state | {"weights": mean_by_size(federation, clients, local)}


@cache
def mnist(seed: int) -> Federation:
    return federate(**PROBLEM, seed=seed)


def planned(name: str, lr: float, seed: int, rounds: int, **options) -> Run:
    """One run; of ACFMO's step in full, which is no method of the library, the problem and the seed."""
    algorithm, fixed = METHODS.get(name, ("fedavg", {}))
    return Run(
        algorithm, PROBLEM, rounds, seed, {**WORK, **fixed, "lr": lr, **options}, label={"method": name, "lr": lr}
    )


def execute(runs: list[Run]) -> pd.DataFrame:
    """The library's methods through the store of runs, ACFMO's step in full directly."""
    in_full = [run for run in runs if run.label["method"] == IN_FULL]
    frames = [study.execute([run for run in runs if run not in in_full])]
    for run in in_full:
        federation = federate(**run.federation, seed=run.seed)
        records = simulate(AnchoredSteps(lr=run.options["lr"], **WORK), federation, run.rounds, bar=False)
        frames.append(records.assign(**run.label, seed=run.seed))
    return pd.concat(frames, ignore_index=True)


def tuned(rounds: int) -> pd.DataFrame:
    """Mean accuracy after the last round on held-out training samples, for every method and rate; NaN counts as 0."""
    names = [*METHODS, IN_FULL]
    tries = [planned(name, lr, seed, rounds) for name in names for lr in RATES for seed in TUNING_SEEDS]
    with warnings.catch_warnings():  # a rate at which a method runs away is an answer
        warnings.filterwarnings("ignore", "overflow|invalid", RuntimeWarning)
        frame = execute([replace(tuning.held_out(run, run.seed, {}), label=run.label) for run in tries])
    ends = frame.query(f"round == {rounds}").fillna({"accuracy": 0.0})
    return ends.pivot_table(index="method", columns="lr", values="accuracy").loc[names]


def compared(rates: dict[str, float], seeds: range, rounds: int) -> pd.DataFrame:
    """All methods at these rates on several seeds, measured on test samples."""
    return execute([planned(name, lr, seed, rounds) for name, lr in rates.items() for seed in seeds])


def ends(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy after the last round, one row per seed, one column per method."""
    last = frame[frame["round"] == frame["round"].max()]
    return last.pivot(index="seed", columns="method", values="accuracy")[list(frame["method"].unique())]


def partly(rates: dict[str, float], participation: float, seeds: range, rounds: int) -> pd.DataFrame:
    """FedAvg and three methods with a memory when only some clients take part in a round."""
    names = ["FedAvg", "SCAFFOLD", "FedDyn, alpha = 0.1", "FCBAFL, eta = 1"]
    plans = [planned(name, rates[name], seed, rounds, participation=participation) for name in names for seed in seeds]
    return execute(plans)


def acfmo_ablation(seeds: range, rounds: int) -> pd.DataFrame:
    """ACFMO (this round's moments) with and without its local steps: accuracy after the last round."""
    plans = {"with local steps": 10, "without": 0}
    label = "ACFMO"
    listed = [
        Run("acfmo", PROBLEM, rounds, seed, {"steps": steps, "batch": 20, "variant": "current"}, label={label: name})
        for name, steps in plans.items()
        for seed in seeds
    ]
    last = study.execute(listed).query(f"round == {rounds}")
    return last.pivot(index=label, columns="seed", values="accuracy").loc[list(plans)]


def acfmo_parts(seed: int, rounds: int) -> pd.DataFrame:
    """Lengths of the two parts of ACFMO's first rounds: the server's step, Eq. (4), and the clients' part, Eq. (20)."""
    federation, method = mnist(seed), ACFMO(variant="current", batch=20)
    state, clients, rows = method.init(federation), np.arange(federation.clients), []
    for round in range(1, rounds + 1):
        anchor = engine.pooled_gradient(federation, state["weights"], clients)
        following = method.round(federation, state, round)
        step = method.rate(round) * following["m"] / engine.root(following["v"] + method.epsilon)
        accelerated = state["weights"] - step
        local = method.rate(round) * method.drift(
            federation, state["feature_counts"], accelerated, anchor, clients, round
        )
        rows.append({"round": round, "server": float(step.norm()), "clients": float(local.norm())})
        state = following
    table = pd.DataFrame(rows).set_index("round")
    return table.assign(**{"clients / server": table["clients"] / table["server"]})


def noise(seed: int, steps: int, lr: float, client: int = 0) -> pd.DataFrame:
    """How far a minibatch's direction is from the full one along a client's corrected walk: the exact root mean square.

    `plain` takes the minibatch's gradient; `controlled` subtracts that of the same minibatch at the start of the walk.
    """
    federation = mnist(seed)
    x = federation.x[federation.rows[client]].double().numpy()
    labels = np.eye(federation.classes)[federation.y[federation.rows[client]].numpy()]
    model = start.after(federation, 3, lr=0.1, **WORK)
    anchor = engine.pooled_gradient(federation, model, np.arange(federation.clients)).double().numpy()
    w, anchor = (flat.reshape(federation.classes, -1) for flat in (model.double().numpy(), anchor))
    energy, first, rows = (x**2).sum(1), _errors(x, labels, w), []
    for step in range(steps + 1):
        here = _errors(x, labels, w)
        rows.append({"step": step, "plain": rmse(here, x, energy), "controlled": rmse(here - first, x, energy)})
        w = w - lr * ((here - first).T @ x / len(x) + anchor)
    return pd.DataFrame(rows).set_index("step")


def _errors(x: np.ndarray, labels: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Softmax probabilities minus labels, (samples, classes): their outer product with the input is the gradient."""
    logits = x @ w.T
    grown = np.exp(logits - logits.max(1, keepdims=True))
    return grown / grown.sum(1, keepdims=True) - labels


def rmse(errors: np.ndarray, x: np.ndarray, energy: np.ndarray) -> float:
    """Root of the expected squared distance between a minibatch's mean and the mean over all samples."""
    mean = errors.T @ x / len(x)
    variance = ((errors**2).sum(1) * energy).mean() - (mean**2).sum()
    return float(np.sqrt(max(variance, 0.0) / WORK["batch"]))
