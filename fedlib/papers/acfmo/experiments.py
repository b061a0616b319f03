"""The runs of the ACFMO paper: which methods on which federations, with which settings.

`federation` holds the arguments of `federate` but the seed; `local` holds `steps` and `batch`, which all methods with
local steps share. Seeds are the outermost loop, so that runs one after another share a federation.
"""

from typing import Any

from fedlib.runs.study import Run

NO_LOCAL_STEPS = "ACFMO, no local steps"  # the ablation
# Method -> algorithm and the options that make it; those in TUNED take their learning rate from a grid.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "ACFMO": ("acfmo", {"variant": "current"}),
    "ACFMO as printed": ("acfmo", {"variant": "printed"}),
    "FedDBE": ("feddbe", {}),
    "FedALA": ("fedala", {}),
    "FedPAC": ("fedpac", {}),
    "FedGH": ("fedgh", {}),
    "FedAvg": ("fedavg", {}),
    "Server Adam": ("serveradam", {}),
    NO_LOCAL_STEPS: ("acfmo", {"variant": "current", "steps": 0}),
}
TUNED = ("FedDBE", "FedALA", "FedPAC", "FedGH", "FedAvg", "Server Adam")


def federation_options(data_set: str, clients: int, alpha: float, l2: float) -> dict[str, Any]:
    """Softmax regression on HoG features; each device draws its class proportions from Dir(alpha)."""
    return {"data_set": data_set, "partitioner": "dirichlet_clients", "clients": clients, "alpha": alpha, "l2": l2}


def run(
    method: str,
    federation: dict[str, Any],
    rounds: int,
    seed: int,
    local: dict[str, int],
    every: int = 1,
    label: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    """One run of a method, with `options` beside those that make it."""
    algorithm, fixed = METHODS[method]
    all_options = _local_options(algorithm, local) | fixed | options
    return Run(algorithm, federation, rounds, seed, all_options, every, {"method": method} | (label or {}))


def _local_options(algorithm: str, local: dict[str, int]) -> dict[str, int]:
    """What a method takes of steps and batch: server Adam has no local steps, FedGH takes full batches."""
    taken = {"serveradam": (), "fedgh": ("steps",)}.get(algorithm, tuple(local))
    return {name: local[name] for name in taken}


def tuning(
    federation: dict[str, Any], rates: list[float], participation: float, rounds: int, seed: int, local: dict[str, int]
) -> list[Run]:
    """Every method that needs a learning rate, at every rate of the grid, on one seed that no result uses."""
    return [
        run(method, federation, rounds, seed, local, every=2, label={"lr": lr}, lr=lr, participation=participation)
        for method in TUNED
        for lr in rates
    ]


def comparison(
    federation: dict[str, Any],
    rates: dict[str, float],
    levels: list[int],
    rounds: int,
    seeds: range,
    local: dict[str, int],
    every: int,
) -> list[Run]:
    """Figs. 1 to 7: all methods at all participation levels (in percent), several seeds."""
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


def momentum(
    federation: dict[str, Any],
    beta1: list[float],
    beta2: list[float],
    level: int,
    rounds: int,
    seeds: range,
    local: dict[str, int],
    every: int,
) -> list[Run]:
    """Figs. 8 and 9: all pairs of decay rates with this round's moments; as printed for beta2 = 0.999, to compare."""
    pairs = [("current", b1, b2) for b2 in beta2 for b1 in beta1] + [("printed", b1, 0.999) for b1 in beta1]
    return [
        _acfmo(federation, rounds, seed, local, level / 100, every, variant=variant, beta1=b1, beta2=b2)
        for seed in seeds
        for variant, b1, b2 in pairs
    ]


def step_sizes(
    federation: dict[str, Any],
    server_lrs: list[float],
    participation: float,
    rounds: int,
    seed: int,
    local: dict[str, int],
    every: int,
) -> list[Run]:
    """Both readings of Eq. (4) over the server's step alpha_g^0."""
    return [
        _acfmo(federation, rounds, seed, local, participation, every, variant=variant, server_lr=server_lr)
        for variant in ("current", "printed")
        for server_lr in server_lrs
    ]


def _acfmo(
    federation: dict[str, Any],
    rounds: int,
    seed: int,
    local: dict[str, int],
    participation: float,
    every: int,
    **studied: Any,
) -> Run:
    """A run of ACFMO that is named by the options under study."""
    options = local | {"participation": participation} | studied
    return Run("acfmo", federation, rounds, seed, options, every, label=studied)
