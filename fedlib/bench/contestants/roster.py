"""Who takes part, and what each process needs."""

from collections.abc import Callable
from dataclasses import dataclass

Play = Callable[[int], int]  # number of the round -> sample gradients taken
Serve = Callable[[dict[str, Play], dict[str, str]], None]  # plays by case, and what to say about the process


class NotAvailable(Exception):
    """This contestant does not offer this workload; the message says what is missing."""


@dataclass(frozen=True)
class Contestant:
    """A module, what it is called on the page, and what its process needs."""

    name: str
    label: str
    about: str
    module: str
    package: str | None = None  # what must be installed, for peers
    pinned: bool = False  # import fedlib as usual, with its numeric settings; otherwise without them
    keeps_memory: bool = False  # let the allocator keep freed memory, as fedlib does for the engine
    workloads: tuple[str, ...] = ("W1", "W2", "W3", "W4")
    settings: tuple[tuple[str, str], ...] = ()  # environment of its own


def _module(name: str) -> str:
    return f"fedlib.bench.contestants.{name}"


GROUPS_ONLY_HERE = ("W1", "W2", "W3")  # the peers have no method with groups that synchronise after every step
CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("engine", "fedlib engine", "this library", _module("fedlib_engine"), pinned=True),
        Contestant(
            "loop",
            "PyTorch loop",
            "clients one after another: copied module, DataLoader over a Subset, torch.optim.SGD, averaged state_dicts",
            _module("loop"),
        ),
        Contestant(
            "flower",
            "Flower",
            "Simulation Runtime on Ray, one actor per core, FedAvg strategy, data in RAM of each actor",
            _module("flower"),
            "flwr",
            workloads=GROUPS_ONLY_HERE,
        ),
        Contestant(
            "pfl",
            "pfl",
            "FederatedAveraging on SimulatedBackend, one process per core, data in RAM",
            _module("pfl_research"),
            "pfl",
            workloads=GROUPS_ONLY_HERE,
        ),
        Contestant(
            "fedjax",
            "FedJAX",
            "fed_avg with the jit backend on Haiku models, data in RAM",
            _module("fed_jax"),
            "fedjax",
            workloads=GROUPS_ONLY_HERE,
        ),
        Contestant(
            "limit",
            "Limit",
            "no clients: the same sample gradients as central training on the union of the clients' batches",
            _module("limit"),
            keeps_memory=True,
        ),
        Contestant(
            "native",
            "engine, not pinned",
            "the engine, free to use all instructions of the processor: shows what equal digits everywhere cost",
            _module("fedlib_engine"),
            pinned=True,
            settings=(("FEDLIB_NUMERICS", "native"),),
        ),
    )
}
GROWTH = Contestant("growth", "fedlib engine", "the growth study", _module("growing_population"), pinned=True)
