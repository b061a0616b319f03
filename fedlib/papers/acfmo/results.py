"""The numbers of the ACFMO notebooks: of the runs, of the stability of momentum, of the convergence theory."""

from typing import Any

import numpy as np
import pandas as pd

from fedlib.judging import ledger
from fedlib.papers.acfmo.experiments import NO_LOCAL_STEPS


def printed(id: str) -> dict[int, float]:
    """What the paper prints for ACFMO in a figure of accuracies, as shares, by participation level."""
    entry = ledger.load("acfmo").entry(id)
    ((levels,), row) = entry.blocks[0].columns.values(), entry.blocks[0].printed["ACFMO"]
    return {level: value / entry.scale for level, value in zip(levels, row, strict=True)}


def ablation(ends: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of ACFMO with and without its local steps, and the difference; one row per participation and seed."""
    pair = ends[ends["method"].isin(["ACFMO", NO_LOCAL_STEPS])]
    wide = pair.pivot_table(index=["participation", "seed"], columns="method", values="accuracy").reset_index()
    return wide.assign(difference=wide["ACFMO"] - wide[NO_LOCAL_STEPS])


def effective_steps(beta1: list[float], beta2: list[float], server_lr: float = 0.02) -> pd.DataFrame:
    """alpha_g^0 (1 - beta1) / sqrt(1 - beta2), where Eq. (7) takes the server's step, for each pair of decay rates."""
    steps = {b2: {b1: server_lr * (1 - b1) / np.sqrt(1 - b2) for b1 in beta1} for b2 in beta2}
    return pd.DataFrame(steps).rename_axis(index="beta1", columns="beta2")


# Momentum with and without the lag of Eq. (4)


def spectral_radius(beta1: float, reach: float, lag: int) -> float:
    """Growth factor per round of heavy-ball momentum on one coordinate.

    `reach` is step x curvature; the gradient comes `lag` rounds late, 0 or 1.
    """
    c = (1 - beta1) * reach
    polynomial = [1, -(1 + beta1 - c), beta1] if lag == 0 else [1, -(1 + beta1), beta1 + c]
    return float(np.abs(np.roots(polynomial)).max())


def largest_stable(beta1: float, lag: int) -> float:
    """The largest step x curvature whose growth factor is at most one, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spectral_radius(beta1, middle, lag) <= 1 else (low, middle)
    return low


def growth_factors(beta1: float = 0.9) -> pd.DataFrame:
    """The growth factor over step x curvature, with this round's moments and with a lag of one round."""
    reach = np.logspace(-2, 2, 161)
    factors = {
        name: [spectral_radius(beta1, value, lag) for value in reach] for name, lag in (("this round", 0), ("lag", 1))
    }
    return pd.DataFrame({"step x curvature": reach} | factors)


# The convergence theory


def best_step(target: float | np.ndarray, smooth: float) -> float | np.ndarray:
    """alpha_l*, the local step for a target rate, Eq. (81)."""
    return target / (4 * smooth * (1 + target))


def best_iterations(target: float | np.ndarray, mu: float, smooth: float) -> np.ndarray:
    """K*, the local iterations for a target rate, Eq. (82)."""
    return np.ceil(8 * smooth * (1 + target) / (mu * target**2))


def theory(mu: float, smooth: float) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Local step and iterations over target rates; b(q) for three of them; its minima beside q* of Eq. (80)."""
    targets = np.linspace(0.1, 0.95, 18)
    rates = pd.DataFrame(
        {"target": targets, "step": best_step(targets, smooth), "iterations": best_iterations(targets, mu, smooth)}
    )
    curves = [_bound_over_q(target, mu, smooth) for target in (0.5, 0.7, 0.9)]
    minima = [_minimum(curve, mu, smooth) for curve in curves]
    return rates, pd.concat(curves, ignore_index=True), pd.DataFrame(minima)


def _bound_over_q(target: float, mu: float, smooth: float) -> pd.DataFrame:
    """b(q), Eq. (79)."""
    q = np.linspace(0.01 * target, 0.99 * target, 981)
    return pd.DataFrame({"target": target, "q": q, "b": 2 * smooth * (1 + q) ** 2 / (mu * q * (target - q))})


def _minimum(curve: pd.DataFrame, mu: float, smooth: float) -> dict[str, Any]:
    """Where a curve of b is lowest, beside what the paper gives in closed form."""
    target, lowest = float(curve["target"].iloc[0]), curve.loc[curve["b"].idxmin()]
    return {
        "target": target,
        "q*": target / (2 + target),
        "q found": lowest["q"],
        "b(q*)": float(np.round(lowest["b"])),
        "step": best_step(target, smooth),
        "K*": int(best_iterations(target, mu, smooth)),
    }
