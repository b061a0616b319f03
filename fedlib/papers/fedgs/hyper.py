"""Figs. 5 and 7: FedGS over its own hyper-parameters, and the FedOpt family over its two learning rates."""

import pandas as pd

from fedlib.judging import curves
from fedlib.papers.fedgs.comparison import OURS, SERVERS, Row, Setting, run
from fedlib.runs import study
from fedlib.runs.study import Run


def over_batch_and_iterations(
    setting: Setting, batches: list[int], iterations: list[int], rounds: int, seeds: range
) -> list[Run]:
    """Fig. 5a: every batch size n with every number of iterations T."""
    return [
        _fedgs(setting, rounds, seed, {"batch": batch, "iterations": steps}, batch=batch, iterations=steps)
        for seed in seeds
        for batch in batches
        for steps in iterations
    ]


def over_groups_and_selected(
    setting: Setting, groups: list[int], selected: list[int], rounds: int, seeds: range
) -> list[Run]:
    """Fig. 5b: every number of groups M with every number L of selected devices that the groups have."""
    return [
        _fedgs(setting, rounds, seed, {"factories": many, "devices": chosen}, groups=many, selected=chosen)
        for seed in seeds
        for many in groups
        for chosen in selected
        if possible(setting.devices, many, chosen)
    ]


def possible(devices: int, groups: int, selected: int) -> bool:
    """Whether the smallest of the groups has as many devices as are to be selected."""
    return selected <= devices // groups


def _fedgs(setting: Setting, rounds: int, seed: int, options: dict, **label) -> Run:
    return run(setting, Row(OURS, "fedgs", options), rounds, seed, **label)


def over_learning_rates(
    setting: Setting,
    client_rates: list[float],
    momentum_rates: list[float],
    adaptive_rates: list[float],
    rounds: int,
    seed: int,
) -> list[Run]:
    """Fig. 7: every client rate with every server rate, those of FedAvgM and of the adaptive servers, on one seed."""
    return [
        run(setting, Row(name, SERVERS[name], rates), rounds, seed, client_lr=client, server_lr=server)
        for name in SERVERS
        for client in client_rates
        for server in (momentum_rates if name == "FedAvgM" else adaptive_rates)
        for rates in [{"lr": client, "server_lr": server}]
    ]


def over_mu(setting: Setting, mus: list[float], rounds: int, seed: int) -> list[Run]:
    """FedProx with every strength of its spring, on the same seed."""
    return [run(setting, Row("FedProx", "fedprox", {"mu": mu}), rounds, seed, mu=mu) for mu in mus]


def best_mu(setting: Setting, mus: list[float], rounds: int, seed: int) -> float:
    """The mu with the highest accuracy after the tuning rounds; a single one needs no runs."""
    if len(mus) == 1:
        return mus[0]
    found = scores(study.execute(over_mu(setting, mus, rounds, seed)), ["mu"], 1)
    return float(found.loc[found["accuracy"].idxmax(), "mu"])


def scores(frame: pd.DataFrame, axes: list[str], last: int) -> pd.DataFrame:
    """One row a run with its final scores; diverged runs keep the accuracy they have."""
    return curves.final(frame, ["method", *axes], last, 1.0).drop(columns=["rounds_to_target", "roughness"])


def best_rates(tuned: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Client and server rate with the highest accuracy, method by method; of equals the first of the grid."""
    best = tuned.loc[tuned.groupby("method", sort=False)["accuracy"].idxmax()]
    return {row.method: (row.client_lr, row.server_lr) for row in best.itertuples()}


def surface(found: pd.DataFrame, rows: str, columns: str) -> pd.DataFrame:
    """Mean accuracy over seeds in percent as a table."""
    return found.pivot_table(index=rows, columns=columns, values="accuracy").mul(100)
