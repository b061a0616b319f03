"""The experiments of the ACFMO paper: which methods run with which settings."""

import pandas as pd

from fedlib import ledger
from fedlib.study import Run

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


def run(method: str, federation: dict, rounds: int, seed: int, local: dict, every: int = 1, label=None, **options) -> Run:
    """One run of a method; `local` holds steps and batch, which every method with local steps shares."""
    algorithm, own = METHODS[method]
    shared = {} if algorithm == "serveradam" else {"steps": local["steps"]} if algorithm == "fedgh" else local
    label = {"method": method} | (label or {})
    return Run(algorithm, federation, rounds, seed, options=shared | own | options, every=every, label=label)


def tuning(federation: dict, rates: list[float], participation: float, rounds: int, seed: int, local: dict) -> list[Run]:
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
            method, federation, rounds, seed, local, every,
            label={"participation": level}, participation=level / 100, **({"lr": rates[method]} if method in rates else {}),
        )
        for seed in seeds
        for level in levels
        for method in METHODS
    ]  # fmt: skip


def micro_audit(accuracy: str, recall: str, f1: str) -> pd.DataFrame:
    """What the paper prints for ACFMO as accuracy, micro recall and micro F1, level by level: three names of one number."""
    paper = ledger.load("acfmo")
    (levels,) = paper.entry(accuracy).blocks[0].columns.values()
    rows = []
    for position, level in enumerate(levels):
        values = [paper.entry(id).blocks[0].printed["ACFMO"][position] for id in (accuracy, recall, f1)]
        equal = values[0] / 100 == values[1] == values[2]
        printed = f"{values[0]}%, {values[1]}, {values[2]}"
        rows.append({"quantity": f"{level}% of devices", "printed": printed, "found": "equal" if equal else "different", "holds": equal})
    return pd.DataFrame(rows)
