"""Lesson 3, correcting the client: checks, the corrections on the toy federation, a small comparison on MNIST."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from fedlib import engine
from fedlib.algorithms.acfmo import ACFMO, feature_counts, feature_scale
from fedlib.algorithms.algorithm import State, mean_by_size
from fedlib.algorithms.fedavg import FedAvg
from fedlib.course import start, toy
from fedlib.course.exercise import exercise, require
from fedlib.problem.federation import Federation, federate
from fedlib.report import sliders
from fedlib.runs import study
from fedlib.runs.simulation import simulate
from fedlib.runs.study import Run

# --- checks ---


def _same(found, wanted, within: float = 1e-9) -> bool:
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() < within)


def _refuse(found, mistakes: list[tuple[list[float], str]], right: list[float], otherwise: str) -> None:
    """A hint for each known wrong result, and one for all others."""
    for wrong, hint in mistakes:
        require(not _same(found, wrong), hint)
    require(_same(found, right), f"{otherwise} You have {np.asarray(found).tolist()}.")


@exercise("3.1", "The gradient with a spring")
def proximal_gradient(answer):
    require(
        answer is not None,
        "The spring's energy is mu/2 * |w - received|^2. What is its gradient, and what is it added to?",
    )
    gradient, w, received = np.array([1.0, -2.0]), np.array([2.0, 0.0]), np.array([1.0, 1.0])
    mistakes = [
        (
            [0.5, -1.5],
            "Your spring pushes the client away. Descending must lead back to `received`: think of the sign.",
        ),
        (
            [2.0, -3.0],
            "The half in mu/2 and the two from the square cancel: the pull is mu times the distance, not 2 mu.",
        ),
        (
            [1.25, -2.25],
            "The half in mu/2 and the two from the square cancel: the pull is mu times the distance, not mu/2.",
        ),
        ([1.25, -1.75], "You added the spring's energy. What is asked for is its gradient."),
        ([1.5, -1.5], "A square is left: the gradient of |w - received|^2 is linear in w."),
        ([0.5, -0.5], "That is the spring alone. The client still wants to descend its own loss: add `gradient`."),
        ([2.0, -2.0], "The spring is tied to the model that the client received, not to zero."),
    ]
    _refuse(
        answer(gradient, w, received, 0.5), mistakes, [1.5, -2.5], "With mu = 0.5, [1, -2] + 0.5 * ([2, 0] - [1, 1])."
    )
    found = answer(np.array([0.3, 0.1, -4.0]), np.array([1.0, 2.0, 3.0]), np.array([-1.0, 2.0, 5.0]), 2.0)
    require(
        _same(found, [4.3, 0.1, -8.0]),
        "It fits the first case only: use all four arguments, in any number of dimensions.",
    )


@exercise("3.2", "The surrogate's gradient")
def surrogate_gradient(answer):
    require(
        answer is not None, "Three terms, two of them the client's own gradient. At `received` these two must cancel."
    )

    def gradient(w):
        return np.array([2.0, 1.0]) * w + np.array([-2.0, 3.0])

    w, received, everybody = np.array([2.0, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 1.0])
    mistakes = [
        ([2.5, 3.5], "The client's own gradient at `received` is still in. Subtract it, so that all set off alike."),
        ([0.5, 7.5], "You add the own gradient at `received`. It must be subtracted."),
        ([2.5, 0.0], "eta weighs the global gradient alone, not the whole sum."),
        ([5.0, 0.0], "eta is missing: it weighs the global gradient."),
        ([3.5, -1.5], "Mind the sign: the global gradient is added; descending then goes against it."),
        ([-3.5, 1.5], "The two own gradients have changed places: here minus there."),
        ([4.0, -1.0], "Without the global gradient nobody knows where to go: at `received` nothing is left."),
    ]
    right = "The own gradient is [2, 3] here and [-2, 4] at `received`; with eta = 0.5 that makes [4.5, -0.5]."
    _refuse(answer(gradient, w, received, everybody, 0.5), mistakes, [4.5, -0.5], right)
    at_start = answer(gradient, received, received, np.array([3.0, -1.0]), 0.2)
    require(
        _same(at_start, [0.6, -0.2]),
        "At `received` only eta times the global gradient is left. Do you use all arguments?",
    )


@exercise("3.3", "A step of ACFMO's client")
def controlled_step(answer):
    require(
        answer is not None,
        "You need the minibatch's gradient at two places. What is scaled, and what is added unscaled?",
    )

    def batch_gradient(w):
        return 2 * w + 5

    w, begin, anchor, scale = np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([1.0, -1.0]), np.array([1.0, 0.5])
    mistakes = [
        ([0.7, 1.9], "`scale` is missing, Eq. (12): it multiplies the difference, entry by entry."),
        (
            [0.7, 1.95],
            "`scale` belongs to the difference of the two gradients only; the anchor is added as it is, Eq. (14).",
        ),
        ([1.3, 2.0], "You go uphill: subtract lr times the direction."),
        ([0.8, 1.9], "The anchor is missing: without it no client knows the common direction."),
        ([1.1, 2.2], "The difference has the wrong sign: the gradient here minus the gradient at `start`."),
        (
            [0.2, 1.65],
            "Subtract the same minibatch's gradient at `start`: what is noise in one is noise in the other, too.",
        ),
        ([3.0, 0.0], "That is the direction. Return the client's next model, w - lr * direction."),
    ]
    right = "Difference [2, 2], scaled [2, 1], with the anchor [3, 0]; with lr = 0.1 the step ends at [0.7, 2]."
    _refuse(answer(batch_gradient, w, begin, anchor, scale, 0.1), mistakes, [0.7, 2.0], right)
    noisy = answer(lambda w: 1e3 * np.ones(3) + w, np.ones(3), np.ones(3), np.array([1.0, 0.0, -2.0]), np.ones(3), 0.5)
    require(_same(noisy, [0.5, 1.0, 2.0]), "At `start` every minibatch must give the same step: the anchor's.")


@exercise("3.4", "Does it help? A gain with its uncertainty")
def paired_gain(answer):
    require(answer is not None, "Subtract seed by seed first; then the mean of the gains, and how sure it is.")
    ours, rival = np.array([0.90, 0.80, 0.85, 0.70]), np.array([0.85, 0.79, 0.82, 0.67])
    found = answer(ours, rival)
    require(np.shape(found) == (2,), "Return two numbers: the mean gain and its standard error.")
    mean, error = (float(number) for number in found)
    require(not abs(mean + 0.03) < 1e-9, "A gain is ours minus the rival's.")
    require(abs(mean - 0.03) < 1e-9, f"The gains are 0.05, 0.01, 0.03 and 0.03: mean 0.03, you have {mean:g}.")
    apart = float(np.sqrt(ours.var(ddof=1) / 4 + rival.var(ddof=1) / 4))
    require(not abs(error - apart) < 1e-9, "You treat the two as unrelated. Both saw the same seeds: subtract first.")
    spread = float(np.std([0.05, 0.01, 0.03, 0.03], ddof=1))
    require(not abs(error - spread) < 1e-9, "That is the spread of one gain. A mean of four is surer: think of a root.")
    require(not abs(error - spread * 3**0.5 / 4) < 1e-9, "Few seeds: divide the squares by n - 1, not by n (ddof=1).")
    require(
        abs(error - spread / 2) < 1e-9, f"The standard error of the mean gain is {spread / 2:.4f}, you have {error:g}."
    )


@exercise("3.5", "Your own correction")
def my_direction(answer):
    require(
        answer is not None,
        "Begin with gradient(w). What in it is the client's own, and what could stand for everybody's?",
    )
    hidden = toy.Toy(toy.clients(1.0, 0.9).curvatures[::-1], toy.PLACES + np.array([0.3, -0.2]))
    for clients, which in ((toy.clients(), "the picture's clients"), (hidden, "other clients")):
        for lr in CHALLENGE_RATES:
            far = float(clients.distance(toy.travel(clients, 60, lr, STEPS, answer).averages[-1]))
            here = f"With lr = {lr} on {which}"
            require(np.isfinite(far) and far < 10, f"{here} your clients run away. Make the correction gentler.")
            require(far < 0.05, f"{here} the server is still {far:.2f} away after 60 rounds; below 0.05 is asked for.")


# --- the corrections on the toy ---

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


def gallery() -> tuple[Figure, pd.DataFrame]:
    """A panel a correction with the first round's walks and all averages; the last panel has all distances."""
    clients = toy.clients()
    fig, axes = plt.subplots(2, 3, figsize=(13, 8.4), layout="constrained")
    rows = {}
    for number, (name, direction) in enumerate(CORRECTIONS.items()):
        journey = toy.travel(clients, ROUNDS, LR, STEPS, direction)
        far = clients.distance(journey.averages)
        toy.draw(axes.flat[number], clients, journey).set_title(name)
        axes.flat[-1].plot(np.maximum(far, 1e-4), marker="osv^D"[number], markersize=4, linewidth=1.2, label=name)
        rows[name] = {f"round {round}": far[round] for round in (1, 2, 5, 10, ROUNDS)}
    toy.far_axis(axes.flat[-1]).set(xlabel="communication round", title="who arrives, and when?", ylim=(0.7e-4, 6))
    axes.flat[-1].legend(fontsize=8)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return fig, pd.DataFrame(rows).T.rename_axis("distance to the optimum").round(3)


def springs(strengths: list[float]) -> tuple[Figure, pd.DataFrame]:
    """FedProx for several mu: where it rests, and how many rounds it needs to get near that place."""
    clients = toy.clients()
    rows = []
    for mu in strengths:
        place = toy.rest(clients, LR, STEPS, fedprox(mu))
        far = np.sqrt(((toy.travel(clients, 400, LR, STEPS, fedprox(mu)).averages - place) ** 2).sum(-1))
        rows.append((mu, float(clients.distance(place)), int((far > 0.05).sum())))
    table = pd.DataFrame(rows, columns=["mu", "rests at a distance of", "rounds to get there"])
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.plot(strengths, table["rests at a distance of"], "o-", color=toy.COLOURS[0])
    left.set(xlabel="mu", ylabel="distance to the optimum", title="where it rests", ylim=(0, None))
    right.plot(strengths, table["rounds to get there"], "s-", color=toy.COLOURS[1])
    right.set(xlabel="mu", ylabel="rounds", title="how long that takes", ylim=(0, None))
    return fig, table.set_index("mu").T.round(2)


def endurance(steps: list[int], lr: float, rounds: int = 60) -> tuple[Figure, pd.DataFrame]:
    """How far from the optimum each correction is after many rounds, over the number of local steps."""
    clients = toy.clients()
    shown = CORRECTIONS | {"FCBAFL, eta = 0.2": fcbafl(0.2)}
    table = {
        name: [float(clients.distance(toy.travel(clients, rounds, lr, many, way).averages[-1])) for many in steps]
        for name, way in shown.items()
    }
    fig, ax = plt.subplots(figsize=(8.5, 4.4), layout="constrained")
    for number, (name, far) in enumerate(table.items()):
        ax.plot(steps, np.clip(far, 1e-4, 10), marker="osv^DX"[number], markersize=6, label=name)
    toy.far_axis(ax, f"distance after {rounds} rounds").set(xscale="log", xlabel="local steps", ylim=(0.6e-4, 30))
    ax.axhline(10, color="0.5", linestyle=":", linewidth=1)
    ax.text(steps[0], 12, "run away", fontsize=9, color="0.35")
    ax.set_xticks(steps, [str(number) for number in steps])
    ax.minorticks_off()
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    numbers = pd.DataFrame(table, index=pd.Index(steps, name="local steps")).T
    return fig, numbers.map(lambda far: f"{far:.3f}" if far < 10 else "runs away")


CHOICES: dict[str, Callable[[float], toy.Direction]] = {
    "FedAvg": lambda strength: toy.plain,
    "FedProx (strength is mu)": fedprox,
    "SCAFFOLD": lambda strength: scaffold(),
    "FCBAFL (strength is eta)": fcbafl,
    "ACFMO's local step": lambda strength: anchored(),
}


def explored(method: str, strength: float, steps: int, lr: float) -> tuple[Figure, float]:
    """One correction on the toy: the picture, and the distance to the optimum after the last round."""
    clients = toy.clients()
    journey = toy.travel(clients, ROUNDS, lr, steps, CHOICES[method](strength))
    shown = toy.ClientWalks(
        *(np.nan_to_num(np.clip(part, -1e3, 1e3), nan=1e3) for part in (journey.walks, journey.averages))
    )
    return toy.picture(clients, shown, method.split(" (")[0]), float(clients.distance(shown.averages[-1]))


def explorer() -> ipywidgets.VBox:
    """A menu of corrections with sliders, above the picture that follows."""

    def draw(**values) -> tuple[Figure, str]:
        fig, far = explored(**values)
        return fig, f"After {ROUNDS} rounds the server is {far:.3f} away from the optimum."

    return sliders.explorer(
        draw,
        method=ipywidgets.Dropdown(options=list(CHOICES), value="FCBAFL (strength is eta)", description="method"),
        strength=ipywidgets.FloatSlider(1.0, min=0, max=5, step=0.1, description="strength"),
        steps=ipywidgets.IntSlider(STEPS, min=1, max=100, description="local steps"),
        lr=ipywidgets.FloatSlider(LR, min=0.01, max=0.9, step=0.01, description="lr"),
    )


def yours(name: str, direction: toy.Direction, lr: float = LR) -> tuple[Figure, pd.DataFrame]:
    """The toy with a student's direction, and its distances beside those of FedAvg."""
    clients = toy.clients()
    ways = {"FedAvg": toy.plain, name: direction}
    journeys = {way: toy.travel(clients, ROUNDS, lr, STEPS, each) for way, each in ways.items()}
    rows = {
        way: {f"round {round}": clients.distance(journey.averages)[round] for round in (1, 5, ROUNDS)}
        for way, journey in journeys.items()
    }
    return toy.picture(clients, journeys[name], name), pd.DataFrame(rows).T.rename_axis(
        "distance to the optimum"
    ).round(3)


# --- MNIST ---

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
TUNING_SEED = 1000  # no result uses it
METHODS = {
    "FedAvg": ("fedavg", {}),
    "FedProx, mu = 0.1": ("fedprox", {"mu": 0.1}),
    "FedProx, mu = 1": ("fedprox", {"mu": 1.0}),
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


def runs(name: str, lr: float, seed: int, rounds: int, **options) -> pd.DataFrame:
    """One run: a registered method through the store of runs, ACFMO's step in full directly."""
    if name == IN_FULL:
        records = simulate(AnchoredSteps(lr=lr, **WORK), mnist(seed), rounds, bar=False)
        return records.assign(method=name, lr=lr, seed=seed)
    algorithm, own = METHODS[name]
    label = {"method": name, "lr": lr}
    return study.execute([Run(algorithm, PROBLEM, rounds, seed, {**WORK, **own, "lr": lr, **options}, label=label)])


def tuned(rounds: int) -> pd.DataFrame:
    """Accuracy after the last round for every method and learning rate, on a seed of its own; NaN is as bad as 0."""
    names = [*METHODS, IN_FULL]
    with warnings.catch_warnings():  # a rate at which a method runs away is an answer
        warnings.filterwarnings("ignore", "overflow|invalid", RuntimeWarning)
        frames = [runs(name, lr, TUNING_SEED, rounds) for name in names for lr in RATES]
    ends = pd.concat(frames).query(f"round == {rounds}")
    return ends.pivot(index="method", columns="lr", values="accuracy").loc[names].fillna(0)


def compared(rates: dict[str, float], seeds: range, rounds: int) -> pd.DataFrame:
    """All methods at these rates on several seeds."""
    return pd.concat([runs(name, lr, seed, rounds) for name, lr in rates.items() for seed in seeds], ignore_index=True)


def ends(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy after the last round, one row per seed, one column per method."""
    last = frame[frame["round"] == frame["round"].max()]
    return last.pivot(index="seed", columns="method", values="accuracy")[list(frame["method"].unique())]


def partly(rates: dict[str, float], participation: float, seeds: range, rounds: int) -> pd.DataFrame:
    """FedAvg and FCBAFL when only some clients take part in a round."""
    names = ["FedAvg", "FCBAFL, eta = 1"]
    frames = [runs(name, rates[name], seed, rounds, participation=participation) for name in names for seed in seeds]
    return pd.concat(frames, ignore_index=True)


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


def noise_picture(frame: pd.DataFrame) -> Figure:
    fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
    ax.plot(frame.index, frame["plain"], "o-", markersize=4, label="the minibatch's gradient")
    ax.plot(frame.index, frame["controlled"], "s-", markersize=4, label="minus the same minibatch's at the start")
    ax.set(xlabel="local step", ylabel="noise of the direction", ylim=(0, None))
    ax.legend()
    return fig
