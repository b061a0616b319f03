"""Which federations and which runs the figures and tables of FedACS are made of.

A federation is an environment (Definitions 3 to 5, Section VII-A) of clients with the same number of samples. Where clients
hold more than the data set has, they share images.
"""

import warnings
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fedlib.problem.streams import generator
from fedlib.runs import study
from fedlib.runs.study import Run

# Environment -> partitioner and its options, as printed in Section VII.
ENVIRONMENTS: dict[str, tuple[str, dict]] = {
    "iid": ("dominance", {"alphas": 0.0}),
    "uniform": ("uniform_skew", {}),
    "inverse Pareto": ("inverse_pareto_skew", {"s": 2.0}),
    "Dirichlet": ("dirichlet_skew", {"median": 0.2, "largest": 3.0}),
    "few-class": ("few_class_skew", {}),
}
METHODS = {"baseline": "randomclients", "FedACS": "fedacs", "Rexp3": "rexp3", "CMFL": "cmfl", "Oort": "oort"}
OBSERVED = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # alpha of the observation groups G1 to G6 of Fig. 4
GROUP = 10  # clients an observation group


@dataclass(frozen=True)
class Setting:
    """What all runs of a notebook share."""

    clients: int = 200  # N
    kappa: int = 10  # participants a round
    samples: int = 250  # M, of each client
    batch: int = 50  # B
    epochs: int = 5  # E
    lr: float = 0.1  # gamma
    decay: float = 0.9993  # gamma_d, each local epoch
    rounds: int = 1000
    every: int = 5  # each so many rounds are measured
    own: dict = field(default_factory=dict)  # method -> options of its own, such as Oort's ban

    def local(self) -> dict:
        """Options that every method has."""
        names = ("batch", "epochs", "lr", "decay")
        return {name: getattr(self, name) for name in names} | {"participation": self.kappa / self.clients}


def federation(setting: Setting, environment: str, **more) -> dict:
    """Arguments of `federate` for CIFAR-10 and the network of PyTorch's tutorial."""
    partitioner, options = ENVIRONMENTS[environment]
    shared = {"data_set": "cifar10", "network": "lenet_tutorial", "client_samples": setting.samples}
    return shared | {"partitioner": partitioner, "clients": setting.clients} | options | more


def run(setting: Setting, environment: str, method: str, seed: int, label: dict | None = None, **options) -> Run:
    """One run of a method in an environment. It records who takes part, so that figures on selection can share it."""
    label = {"environment": environment, "method": method} | (label or {})
    given = setting.local() | setting.own.get(method, {}) | {"tally": True} | options
    return Run(METHODS[method], federation(setting, environment), setting.rounds, seed, given, setting.every, label)


def execute(runs: list[Run]) -> pd.DataFrame:
    """`study.execute` for records with a column a client; pandas would complain about so many of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.PerformanceWarning)
        return study.execute(runs).copy()


def environments(setting: Setting, names: list[str], seeds: range) -> list[Run]:
    """Fig. 2: FedAvg with random participants in several environments."""
    return [run(setting, name, "baseline", seed) for seed in seeds for name in names]


def comparison(setting: Setting, methods: dict[str, list[str]], seeds: range) -> list[Run]:
    """Fig. 6 and Tables II and III: in each environment its methods; iid clients, the upper bound, beside them."""
    pairs = [("iid", "baseline"), *((name, method) for name, own in methods.items() for method in own)]
    return [run(setting, name, method, seed) for seed in seeds for name, method in pairs]


def observed_alphas(clients: int, seed: int) -> list[float]:
    """Fig. 4: six groups of ten clients with fixed alphas come first, the other clients' are uniform."""
    others = clients - GROUP * len(OBSERVED)
    if others < 0:
        raise ValueError(f"clients={clients}: the observation groups alone are {GROUP * len(OBSERVED)}")
    return [alpha for alpha in OBSERVED for _ in range(GROUP)] + generator(seed, "alphas").random(others).tolist()


def observation(setting: Setting, seeds: range) -> list[Run]:
    """Fig. 4: random participants; in each measured round the observed clients are rewarded as if they took part."""
    options = setting.local() | {"watch": GROUP * len(OBSERVED)}
    return [
        Run(
            "randomclients",
            federation(setting, "uniform", partitioner="dominance", alphas=observed_alphas(setting.clients, seed)),
            setting.rounds,
            seed,
            options,
            setting.every,
            {},
        )
        for seed in seeds
    ]


def client_counts(setting: Setting, counts: list[int], seeds: range) -> list[Run]:
    """Fig. 5: fewer iid clients of the same size, equally many participants."""
    return [
        Run(
            "randomclients",
            federation(setting, "iid", clients=clients),
            setting.rounds,
            seed,
            setting.local() | {"participation": setting.kappa / clients, "tally": True},
            setting.every,
            {"clients": clients},
        )
        for seed in seeds
        for clients in counts
    ]


def tolerances(setting: Setting, values: list[float], seeds: range) -> list[Run]:
    """Fig. 7: FedACS with several lambda in the uniform environment, the baseline beside it."""
    label = {"tolerance": np.nan}
    return [
        each
        for seed in seeds
        for each in [
            run(setting, "uniform", "baseline", seed, label),
            *(run(setting, "uniform", "FedACS", seed, {"tolerance": value}, tolerance=value) for value in values),
        ]
    ]


def early_stop(setting: Setting, stop: int, seeds: range) -> list[Run]:
    """Fig. 10: FedACS that asks for insights to the end, and one that stops asking; the baseline beside them."""
    variants = [("baseline", {}), ("FedACS", {}), ("FedACS", {"stop": stop})]
    return [
        run(setting, "uniform", method, seed, {"variant": "early stop" if own else method}, **own)
        for seed in seeds
        for method, own in variants
    ]


def poisoned(setting: Setting, poisoners: int, seeds: range) -> list[Run]:
    """Clients with wrong labels in the uniform environment, and who chooses them; Oort with its ban and without."""
    selectors = {
        "baseline": ("baseline", {}),
        "FedACS": ("FedACS", {}),
        "Rexp3": ("Rexp3", {}),
        "Oort": ("Oort", {}),
        "Oort, no ban": ("Oort", {"cap": None}),
    }
    arguments = federation(setting, "uniform", poisoners=poisoners)
    return [
        Run(
            METHODS[method],
            arguments,
            setting.rounds,
            seed,
            setting.local() | setting.own.get(method, {}) | own,
            setting.every,
            {"selector": name},
        )
        for seed in seeds
        for name, (method, own) in selectors.items()
    ]
