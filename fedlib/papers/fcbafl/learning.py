"""Figs. 2 to 5: FedAvg and FCBAFL with several eta, on minibatches and full batches.

A curve is FedAvg (eta None) or FCBAFL with one eta, at one step size. A batch is a number of samples or "full".
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from fedlib.runs.study import Run

FULL = "full"
SHARED_STEP = "FedAvg, shared step"


class Curve(NamedTuple):
    """One line of a figure."""

    eta: float | None  # None is FedAvg
    lr: float


def name(eta: float | None) -> str:
    """How a curve is called in figures and in the ledger."""
    return "FedAvg" if eta is None else f"FCBAFL, eta {eta}"


def federation(devices: int, alpha: float, l2: float, samples: int | None) -> dict:
    """Softmax regression on MNIST's pixels; each digit is dealt in shares from Dir(alpha), so sizes differ, too."""
    split = {"partitioner": "dirichlet", "clients": devices, "alpha": alpha}
    return {"data_set": "mnist", "samples": samples, "l2": l2} | split


def run(
    federation: dict, title: str, curve: Curve, batch: int | str, rounds: int, seed: int, every: int = 1, **options
) -> Run:
    """One run; `options` hold what all curves share, the local iterations Q_l above all."""
    own = {} if curve.eta is None else {"eta": curve.eta}
    label = {"curve": title, "eta": np.nan if curve.eta is None else curve.eta, "batch": batch, "lr": curve.lr}
    return Run(
        "localdescent" if curve.eta is None else "fcbafl",
        federation,
        rounds,
        seed,
        every=every,
        label=label,
        options=options | own | {"lr": curve.lr, "batch": None if batch == FULL else batch},
    )


def tuning(
    federation: dict, etas: list, rates: list[float], batch: int, rounds: int, seed: int, **options
) -> list[Run]:
    """FedAvg and every eta at every step size of the grid, on one seed that no result uses."""
    grid = [Curve(eta, lr) for eta in (None, *etas) for lr in rates]
    return [run(federation, name(curve.eta), curve, batch, rounds, seed, every=5, **options) for curve in grid]


def best_rates(tuned: pd.DataFrame) -> dict[str, float]:
    """The step size with the highest final accuracy, curve by curve."""
    best = tuned.loc[tuned.groupby("curve", sort=False)["accuracy"].idxmax()]
    return dict(zip(best["curve"], best["lr"], strict=True))


def at_one_step(best: dict[str, float], etas: list) -> dict[str, Curve]:
    """FedAvg at its best step size, FCBAFL with every eta at that of the largest eta, and FedAvg at that one, too."""
    shared = best[name(max(etas))]
    ours = {name(eta): Curve(eta, shared) for eta in etas}
    return {name(None): Curve(None, best[name(None)]), SHARED_STEP: Curve(None, shared)} | ours


def at_equal_product(best: dict[str, float], etas: list) -> dict[str, Curve]:
    """The smallest and the largest eta, each at the step size that makes eta times step the best of the largest."""
    product = max(etas) * best[name(max(etas))]
    return {name(eta): Curve(eta, product / eta) for eta in (min(etas), max(etas))}


def comparison(
    federation: dict, curves: dict[str, Curve], batches: list, rounds: int, seeds: range, **options
) -> list[Run]:
    """Every curve, every batch, several seeds; the seeds outermost, so federations are shared."""
    return [
        run(federation, title, curve, batch, rounds, seed, **options)
        for seed in seeds
        for batch in batches
        for title, curve in curves.items()
    ]


def local_accuracy(frame: pd.DataFrame, rounds: list[int]) -> pd.DataFrame:
    """theta of (7) after some rounds: one row a curve, batch, round and seed."""
    chosen = frame[frame["eta"].notna() & frame["round"].isin(rounds)]
    return chosen[["curve", "eta", "batch", "round", "seed", "theta", "theta_max"]].reset_index(drop=True)
