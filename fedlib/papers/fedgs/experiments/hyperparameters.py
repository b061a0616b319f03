"""Figs. 5 and 7: FedGS over its own hyper-parameters, and the FedOpt family over its two learning rates."""

from fedlib.papers.fedgs.experiments.comparison import FEDGS, SERVERS, FactorySetting, TableRow, run
from fedlib.runs import tuning
from fedlib.runs.study import Run
from fedlib.runs.tuning import Sweep


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


def tune(
    setting: FactorySetting,
    mus: list[float],
    client_rates: list[float],
    momentum_rates: list[float],
    adaptive_rates: list[float],
    rounds: int,
    seed: int,
) -> Sweep:
    """The best strength of FedProx, and the best two rates of each method of the FedOpt family."""
    bases = {"FedProx": run(setting, TableRow("FedProx", "fedprox", {}), rounds, 0)}
    bases |= {name: run(setting, TableRow(name, SERVERS[name], {}), rounds, 0) for name in SERVERS}
    grids = {"FedProx": {"mu": mus}}
    for name in SERVERS:
        grids[name] = {"lr": client_rates, "server_lr": momentum_rates if name == "FedAvgM" else adaptive_rates}
    return tuning.tune(bases, grids, [seed])
