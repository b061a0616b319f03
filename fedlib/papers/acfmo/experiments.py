"""The experiments of the ACFMO paper: which methods run with which settings."""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from fedlib import engine
from fedlib.algorithms.acfmo import ACFMO
from fedlib.algorithms.serveradam import ServerAdam
from fedlib.judging import ledger
from fedlib.judging.checks import audit
from fedlib.problem.federation import Federation
from fedlib.runs.study import Run

# Method -> algorithm and the options that make it; those in TUNED take their learning rate from a grid.
METHODS: dict[str, tuple[str, dict]] = {
    "ACFMO": ("acfmo", {"variant": "current"}),
    "ACFMO as printed": ("acfmo", {"variant": "printed"}),
    "FedDBE": ("feddbe", {}),
    "FedALA": ("fedala", {}),
    "FedPAC": ("fedpac", {}),
    "FedGH": ("fedgh", {}),
    "FedAvg": ("fedavg", {}),
    "Server Adam": ("serveradam", {}),
    "ACFMO, no local steps": ("acfmo", {"variant": "current", "steps": 0}),
}
TUNED = ("FedDBE", "FedALA", "FedPAC", "FedGH", "FedAvg", "Server Adam")


def federation(data_set: str, clients: int, alpha: float, l2: float) -> dict:
    """Softmax regression on HoG features; each device draws its class proportions from Dir(alpha)."""
    return {"data_set": data_set, "partitioner": "dirichlet_clients", "clients": clients, "alpha": alpha, "l2": l2}


def run(
    method: str, federation: dict, rounds: int, seed: int, local: dict, every: int = 1, label=None, **options
) -> Run:
    """One run of a method; `local` holds steps and batch, which every method with local steps shares."""
    algorithm, own = METHODS[method]
    shared = {} if algorithm == "serveradam" else {"steps": local["steps"]} if algorithm == "fedgh" else local
    label = {"method": method} | (label or {})
    return Run(algorithm, federation, rounds, seed, options=shared | own | options, every=every, label=label)


def tuning(
    federation: dict, rates: list[float], participation: float, rounds: int, seed: int, local: dict
) -> list[Run]:
    """Every method that needs a learning rate, at every rate of the grid, on one seed that no result uses."""
    return [
        run(method, federation, rounds, seed, local, every=2, label={"lr": lr}, lr=lr, participation=participation)
        for method in TUNED
        for lr in rates
    ]


def best_rates(tuned: pd.DataFrame) -> dict[str, float]:
    """The rate with the highest final accuracy, method by method."""
    best = tuned.loc[tuned.groupby("method", sort=False)["accuracy"].idxmax()]
    return dict(zip(best["method"], best["lr"], strict=True))


def comparison(
    federation: dict, rates: dict, levels: list[int], rounds: int, seeds: range, local: dict, every: int
) -> list[Run]:
    """All methods at all participation levels (in percent), several seeds; the seeds outermost, so federations are shared."""
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


def printed(id: str) -> dict:
    """What the paper prints for ACFMO in a figure of accuracies, as shares, by participation level."""
    entry = ledger.load("acfmo").entry(id)
    ((levels,), row) = entry.blocks[0].columns.values(), entry.blocks[0].printed["ACFMO"]
    return {level: value / entry.scale for level, value in zip(levels, row, strict=True)}


def micro_audit(accuracy: str, recall: str, f1: str) -> pd.DataFrame:
    """What the paper prints for ACFMO as accuracy, micro recall and micro F1, level by level: three names of one number."""
    paper = ledger.load("acfmo")
    (levels,) = paper.entry(accuracy).blocks[0].columns.values()
    rows = []
    for position, level in enumerate(levels):
        values = [paper.entry(id).blocks[0].printed["ACFMO"][position] for id in (accuracy, recall, f1)]
        equal = values[0] / 100 == values[1] == values[2]
        printed = f"{values[0]}%, {values[1]}, {values[2]}"
        rows.append((f"{level}% of devices", printed, "equal" if equal else "different", equal))
    return audit(*rows)


def momentum(
    federation: dict, beta1: list, beta2: list, level: int, rounds: int, seeds: range, local: dict, every: int
) -> list[Run]:
    """All pairs of decay rates with this round's moments; the printed variant for beta2 = 0.999, to compare."""
    pairs = [("current", b1, b2) for b2 in beta2 for b1 in beta1] + [("printed", b1, 0.999) for b1 in beta1]
    return [
        Run(
            "acfmo",
            federation,
            rounds,
            seed,
            every=every,
            options=local | {"participation": level / 100, "variant": variant, "beta1": b1, "beta2": b2},
            label={"variant": variant, "beta1": b1, "beta2": b2},
        )
        for seed in seeds
        for variant, b1, b2 in pairs
    ]


def step_sizes(
    federation: dict, server_lrs: list, participation: float, rounds: int, seed: int, local: dict, every: int
) -> list[Run]:
    """Both readings of Eq. (4) over the server's step alpha_g^0."""
    return [
        Run(
            "acfmo",
            federation,
            rounds,
            seed,
            every=every,
            options=local | {"participation": participation, "variant": variant, "server_lr": server_lr},
            label={"variant": variant, "server_lr": server_lr},
        )
        for variant in ("current", "printed")
        for server_lr in server_lrs
    ]


def advice_audit(ends: pd.DataFrame) -> pd.DataFrame:
    """Is the recommended pair (0.6, 0.99) within one standard deviation of the best pair of the grid?"""
    cells = ends.groupby(["beta1", "beta2"])["accuracy"].agg(["mean", "std"]).fillna(0)
    best = cells["mean"].idxmax()
    advised, top = cells.loc[(0.6, 0.99)], cells.loc[best]
    return audit(
        ("best beta1, beta2", "0.6, 0.99", f"{best[0]}, {best[1]}", advised["mean"] >= top["mean"] - top["std"]),
        ("accuracy there", f"{advised['mean']:.4f}", f"{top['mean']:.4f}", advised["mean"] >= top["mean"] - top["std"]),
    )


def spectral_radius(beta1: float, reach: float, lag: int) -> float:
    """Growth factor a round of heavy-ball momentum on one coordinate, reach = step x curvature, gradient `lag` rounds late."""
    c = (1 - beta1) * reach
    polynomial = [1, -(1 + beta1 - c), beta1] if lag == 0 else [1, -(1 + beta1), beta1 + c]
    return float(np.abs(np.roots(polynomial)).max())


def lag_audit(pair: pd.DataFrame) -> pd.DataFrame:
    """The largest stable step and the measured accuracy at beta1 = 0.9, with this round's moments and with the lag."""
    accuracy = pair[pair["beta1"] == 0.9].groupby("variant")["accuracy"].agg(["mean", "std"]).fillna(0)
    current, printed = accuracy.loc["current"], accuracy.loc["printed"]
    limits = [largest_stable(0.9, lag) for lag in (0, 1)]
    return audit(
        (
            "largest stable step x curvature",
            f"{limits[0]:.1f} without lag",
            f"{limits[1]:.1f} with lag",
            limits[1] >= limits[0],
        ),
        (
            "accuracy",
            f"{current['mean']:.3f} without lag",
            f"{printed['mean']:.3f} with lag",
            printed["mean"] >= current["mean"] - current["std"],
        ),
    )


def largest_stable(beta1: float, lag: int) -> float:
    """The largest step x curvature whose growth factor is at most one, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spectral_radius(beta1, middle, lag) <= 1 else (low, middle)
    return low


def first_round_audit(federation: Federation, participation: float) -> pd.DataFrame:
    """How far the first round moves the model, for both readings."""
    rows = []
    for variant in ("printed", "current"):
        method = ACFMO(participation=participation, variant=variant)
        start = method.init(federation)
        moved = float((method.round(federation, start, 1)["weights"] - start["weights"]).norm())
        rows.append((f"change of the model in round 1, {variant}", "> 0", f"{moved:.4f}", moved > 0))
    return audit(*rows)


def local_weight(federation: Federation, levels: list[float], local: dict, rounds: int) -> pd.DataFrame:
    """Length of the central step and of the local part of Eq. (20), round by round, for several participation levels.

    The local part is too small for the weights' last digit, so it is measured before it is added.
    """
    rows = []
    for level in levels:
        method = ACFMO(participation=level, variant="current", **local)
        alone = replace(method, steps=0)
        state = method.init(federation)
        for round in range(1, rounds + 1):
            after = alone.round(federation, state, round)
            central = float((after["weights"] - state["weights"]).norm())
            added = method.drift(federation, after["weights"], *_anchor(method, federation, state, round), round)
            part = method.rate(round) * float(added.norm())
            rows.append(
                {"participation": level, "round": round, "central": central, "local": part, "ratio": part / central}
            )
            state = after
    return pd.DataFrame(rows)


def _anchor(method: ACFMO, federation: Federation, state: dict, round: int) -> tuple[torch.Tensor, np.ndarray]:
    clients = method.participants(federation, round)
    return engine.union_gradient(federation, state["weights"], clients), clients


def local_audit(weight: pd.DataFrame) -> pd.DataFrame:
    """Is the local part at least 1% of the central step?"""
    ratios = weight.groupby("participation")["ratio"].median()
    return audit(
        *[
            (f"local / central at {level:.0%}", ">= 0.01", f"{ratio:.1e}", ratio >= 0.01)
            for level, ratio in ratios.items()
        ]
    )


def jensen_audit(federation: Federation, rounds: int) -> pd.DataFrame:
    """Mean over devices of E|g|^2 / |E g|^2 for single-sample gradients, which Eq. (36) says is at most one."""
    method = ServerAdam(participation=0.1)
    state = method.init(federation)
    trained = state
    for round in range(1, rounds + 1):
        trained = method.round(federation, trained, round)
    rows = []
    for name, weights in (("at the start", state["weights"]), (f"after {rounds} rounds", trained["weights"])):
        ratio = float(
            np.median([_jensen_ratio(federation, weights, client) for client in range(0, federation.clients, 10)])
        )
        rows.append((f"E|g|^2 / |E g|^2 {name}, median device", "<= 1", f"{ratio:.3g}", ratio <= 1))
    return audit(*rows)


def _jensen_ratio(federation: Federation, weights: torch.Tensor, client: int) -> float:
    """For softmax regression a sample's gradient is (p - y) x^T, so its squared norm is |p - y|^2 |x|^2."""
    rows = federation.rows[client]
    x, y = federation.x[rows], federation.y[rows]
    error = torch.softmax(engine.product(x, weights.view(federation.classes, -1).T), 1)
    error[torch.arange(len(y)), y] -= 1
    mean_square = (error.square().sum(1) * x.square().sum(1)).mean()
    mean = (engine.product(error.T, x) / len(y)).square().sum()
    return float(mean_square / mean)


def curvature_bounds(federation: Federation) -> tuple[float, float]:
    """mu and L of the regularised objective: the l2 coefficient, and l2 plus half the top eigenvalue of X^T X / n."""
    x = federation.x.double().numpy()
    top = float(np.linalg.eigvalsh(x.T @ x / len(x))[-1])
    return federation.l2, federation.l2 + top / 2


def theory(mu: float, smooth: float) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """alpha_l* and K* over target rates, Eqs. (81), (82); b(q) for three targets, Eq. (79); its minima beside q* of Eq. (80)."""
    targets = np.linspace(0.1, 0.95, 18)
    rates = pd.DataFrame(
        {"target": targets, "step": best_step(targets, smooth), "iterations": best_steps(targets, mu, smooth)}
    )
    curves, minima = [], []
    for target in (0.5, 0.7, 0.9):
        q = np.linspace(0.01 * target, 0.99 * target, 981)
        b = 2 * smooth * (1 + q) ** 2 / (mu * q * (target - q))
        star = target / (2 + target)
        curves.append(pd.DataFrame({"target": target, "q": q, "b": b}))
        minima.append(
            {
                "target": target,
                "q*": star,
                "q found": q[b.argmin()],
                "b(q*)": float(np.round(b.min())),
                "step": best_step(target, smooth),
                "K*": int(best_steps(target, mu, smooth)),
            }
        )
    return rates, pd.concat(curves, ignore_index=True), pd.DataFrame(minima)


def best_step(target, smooth: float):
    """alpha_l*, Eq. (81)."""
    return target / (4 * smooth * (1 + target))


def best_steps(target, mu: float, smooth: float):
    """K*, Eq. (82)."""
    return np.ceil(8 * smooth * (1 + target) / (mu * target**2))


def iterations_audit(mu: float, smooth: float, reach: int = 1000) -> pd.DataFrame:
    """Local iterations that Eq. (82) asks for, against what a device can do in a round."""
    asked = [(target, int(best_steps(target, mu, smooth))) for target in (0.5, 0.9)]
    return audit(
        *[(f"K* for a target rate of {target}", f"<= {reach}", steps, steps <= reach) for target, steps in asked]
    )
