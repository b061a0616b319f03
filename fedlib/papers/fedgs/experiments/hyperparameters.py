"""Figs. 5 and 7: FedGS over its own hyper-parameters, and the FedOpt family over its two learning rates."""

from fedlib.judging import curves
from fedlib.papers.fedgs.experiments.comparison import FEDGS, SERVERS, FactorySetting, TableRow, run
from fedlib.runs import study
from fedlib.runs.study import Run


def over_batch_and_iterations(
    setting: FactorySetting, batches: list[int], iterations: list[int], rounds: int, seeds: range
) -> list[Run]:
    """Fig. 5a: every batch size n with every number of iterations T."""
    return [
        _fedgs(setting, rounds, seed, {"batch": batch, "iterations": steps}, batch=batch, iterations=steps)
        for seed in seeds
        for batch in batches
        for steps in iterations
    ]


def over_groups_and_selected(
    setting: FactorySetting, groups: list[int], selected: list[int], rounds: int, seeds: range
) -> list[Run]:
    """Fig. 5b: every number of groups M with every number L of selected devices that the groups have."""
    return [
        _fedgs(setting, rounds, seed, {"factories": many, "devices": chosen}, groups=many, selected=chosen)
        for seed in seeds
        for many in groups
        for chosen in selected
        if enough_devices(setting.devices, many, chosen)
    ]


def enough_devices(devices: int, groups: int, selected: int) -> bool:
    """Whether the smallest of the groups has as many devices as are to be selected."""
    return selected <= devices // groups


def _fedgs(setting: FactorySetting, rounds: int, seed: int, options: dict[str, int], **label: int) -> Run:
    return run(setting, TableRow(FEDGS, "fedgs", options), rounds, seed, **label)


def over_learning_rates(
    setting: FactorySetting,
    client_rates: list[float],
    momentum_rates: list[float],
    adaptive_rates: list[float],
    rounds: int,
    seed: int,
) -> list[Run]:
    """Fig. 7: every client rate with every server rate, those of FedAvgM and of the adaptive servers, on one seed."""
    return [
        run(setting, TableRow(name, SERVERS[name], rates), rounds, seed, client_lr=client, server_lr=server)
        for name in SERVERS
        for client in client_rates
        for server in (momentum_rates if name == "FedAvgM" else adaptive_rates)
        for rates in [{"lr": client, "server_lr": server}]
    ]


def over_mu(setting: FactorySetting, mus: list[float], rounds: int, seed: int) -> list[Run]:
    """FedProx with every weight of its proximal term, on the same seed."""
    return [run(setting, TableRow("FedProx", "fedprox", {"mu": mu}), rounds, seed, mu=mu) for mu in mus]


def best_mu(setting: FactorySetting, mus: list[float], rounds: int, seed: int) -> float:
    """The mu with the highest accuracy after the tuning rounds; a single one needs no runs."""
    if len(mus) == 1:
        return mus[0]
    tuned = curves.final(study.execute(over_mu(setting, mus, rounds, seed)), ["method", "mu"], 1, 1.0)
    return float(tuned.loc[tuned["accuracy"].idxmax(), "mu"])
