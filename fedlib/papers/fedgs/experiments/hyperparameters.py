"""Figs. 5 and 7: FedGS over its own hyper-parameters, and the FedOpt family over its two learning rates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedlib.papers.fedgs.experiments.comparison import FEDGS, SERVERS, FactorySetting, TableRow, run
from fedlib.runs import tuning
from fedlib.runs.study import Run
from fedlib.runs.tuning import Final, Sweep


def corners(
    batches: list[int], iterations: list[int], groups: list[int], selected: list[int], batch: int, steps: int
) -> dict[str, dict[str, int]]:
    """Extreme cells of Fig. 5a, with its fewest iterations, and of Fig. 5b, with `batch` and `steps` for n and T."""
    fewest, sizes = min(iterations), (min(batches), max(batches))
    places = [(min(groups), min(selected)), (max(groups), max(selected))]
    few = {f"n = {n}, T = {fewest}": {"batch": n, "iterations": fewest} for n in sizes}
    many = {f"M = {m}, L = {n}": {"factories": m, "devices": n, "batch": batch, "iterations": steps} for m, n in places}
    return few | many


def tune_cells(
    setting: FactorySetting,
    cells: Mapping[str, dict[str, int]],
    rates: Sequence[float],
    rounds: int,
    seed: int,
    final: Final,
) -> Sweep:
    """One learning rate for all cells: the one with the best mean score over these, so that none is at its edge."""
    bases = {name: run(setting, TableRow(name, "fedgs", _possible(setting, cells[name])), rounds, 0) for name in cells}
    return tuning.tune(bases, {name: {"lr": rates} for name in cells}, [seed], together=[list(cells)], final=final)


def _possible(setting: FactorySetting, options: Mapping[str, int]) -> dict[str, int]:
    """Options of FedGS in which no more devices are selected than the largest group has."""
    largest = largest_group(setting.devices, options.get("factories", setting.factories))
    return dict(options) | {"devices": min(options.get("devices", setting.selected), largest)}


def over_batch_and_iterations(
    setting: FactorySetting,
    batches: list[int],
    iterations: list[int],
    rounds: int,
    seeds: range,
    left_out: Sequence[str] = (),
) -> list[Run]:
    """Fig. 5a: every batch size n with every number of iterations T, except the cells "n = 64, T = 10" left out."""
    return [
        _fedgs(setting, rounds, seed, {"batch": batch, "iterations": steps}, batch=batch, iterations=steps)
        for seed in seeds
        for batch in batches
        for steps in iterations
        if f"n = {batch}, T = {steps}" not in left_out
    ]


def over_groups_and_selected(
    setting: FactorySetting, groups: list[int], selected: list[int], rounds: int, seeds: range
) -> list[Run]:
    """Fig. 5b: every number of groups M with every number L of selected devices.

    A group with fewer devices takes all it has, as in the authors' code, so cells beyond that are the same run.
    """
    return [
        _fedgs(
            setting,
            rounds,
            seed,
            _possible(setting, {"factories": many, "devices": chosen}),
            groups=many,
            selected=chosen,
        )
        for seed in seeds
        for many in groups
        for chosen in selected
    ]


def largest_group(devices: int, groups: int) -> int:
    """Devices in the largest of the groups, whose sizes differ by one at most."""
    return -(-devices // groups)


def enough_devices(devices: int, groups: int, selected: int) -> bool:
    """Whether the smallest of the groups has as many devices as are to be selected."""
    return selected <= devices // groups


def _fedgs(setting: FactorySetting, rounds: int, seed: int, options: dict[str, int], **label: int) -> Run:
    return run(setting, TableRow(FEDGS, "fedgs", options), rounds, seed, **label)


def over_learning_rates(
    setting: FactorySetting,
    participants: int,
    client_rates: list[float],
    momentum_rates: list[float],
    adaptive_rates: list[float],
    rounds: int,
    seed: int,
    every: int = 1,
) -> list[Run]:
    """Fig. 7: every client rate with every server rate, those of FedAvgM and of the adaptive servers, on one seed.

    `participants` devices take part in each round, drawn from all.
    """
    drawn = replace(setting, factories=1, selected=participants)
    return [
        run(drawn, TableRow(name, SERVERS[name], rates), rounds, seed, every, client_lr=client, server_lr=server)
        for name in SERVERS
        for client in client_rates
        for server in (momentum_rates if name == "FedAvgM" else adaptive_rates)
        for rates in [{"lr": client, "server_lr": server}]
    ]
