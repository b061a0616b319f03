"""What a run is: its settings, the code that computes it, and its kind.

name    a hash of the settings and of the data. Values equal to their default are left out, so that a new option with
        a default renames nothing
maker   a hash of the code that computes it (`runs.maker`), defaults included, and of the mode of the numerics
kind    method, partitioner, network, data, and the names of the options given: runs of a kind use the same code, so
        that checking one of them says something about all
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from inspect import signature
from typing import Any

import pandas as pd

from fedlib import algorithms, data, numerics
from fedlib.problem import check_federation, models, partition
from fedlib.problem.federation import Federation, federate
from fedlib.problem.limits import Count, Seed, check_fields
from fedlib.runs import maker
from fedlib.runs.simulation import Progress, check_stop, simulate

ROOTS = (("fedlib.problem.federation", "federate"), ("fedlib.runs.simulation", "simulate"), ("fedlib.numerics", "pin"))


@dataclass(frozen=True)
class Run:
    """One run. `label` names it in tidy frames and is not part of its identity."""

    algorithm: str
    federation: dict[str, Any]  # arguments of `federate` without the seed
    rounds: Count
    seed: Seed
    options: dict[str, Any] = field(default_factory=dict)  # hyper-parameters of the algorithm
    every: Count = 1  # measure every k-th round
    label: dict[str, Any] = field(default_factory=dict)
    stop_at: dict[str, float] | None = None  # stop at the first measurement that reaches this: {"accuracy": 0.9}

    def __post_init__(self) -> None:
        """Check everything here: in a worker it would fail only after other runs are done."""
        check_fields(self)
        check_stop(self.stop_at)
        check_federation(self.federation | {"seed": self.seed})
        algorithms.create(self.algorithm, **self.options).require_rounds(self.rounds)

    @cached_property
    def config(self) -> dict[str, Any]:
        """All settings that determine the result, defaults included."""
        config = {name: value for name, value in asdict(self).items() if name != "label"}
        options = asdict(algorithms.create(self.algorithm, **self.options))
        return config | {"options": options, "federation": federation_defaults(self.federation) | self.federation}

    @cached_property
    def asked(self) -> dict[str, Any]:
        """The settings that determine the result, without defaults: arguments that make this run again."""
        asked = {
            "algorithm": self.algorithm,
            "federation": _without_defaults(self.federation, federation_defaults(self.federation)),
            "options": _without_defaults(self.config["options"], _option_defaults(self.algorithm)),
            "rounds": self.rounds,
            "seed": self.seed,
            "every": self.every,
        }
        return plain(asked | ({} if self.stop_at is None else {"stop_at": self.stop_at}))

    @cached_property
    def data_fingerprint(self) -> str:
        return data.fingerprint_of(self.federation["data_set"])

    @cached_property
    def name(self) -> str:
        return name_of(self.asked, {self.federation["data_set"]: self.data_fingerprint})

    @cached_property
    def maker(self) -> str:
        method = algorithms.REGISTRY[self.algorithm]
        deal = partition.PARTITIONERS[self.federation["partitioner"]]
        network = models.NETWORKS[self.config["federation"]["network"]]
        own_roots = [(root.__module__, root.__name__) for root in (method, deal, network)]
        return maker.sources().maker([*own_roots, *ROOTS], numerics.mode())

    @property
    def kind(self) -> str:
        config, asked = self.config["federation"], self.asked
        method = f"{self.algorithm}({', '.join(sorted(asked['options']))})"
        given = sorted(set(asked["federation"]) - {"data_set", "partitioner", "network", "clients"})
        place = f"{config['data_set']} {config['partitioner']}({', '.join(given)}) {config['network']}"
        return f"{method} {place}" + (" stop_at" if self.stop_at else "")

    @property
    def data_sets(self) -> list[str]:
        """The data sets needed to compute it."""
        return [self.federation["data_set"]]

    @property
    def steps(self) -> int:
        """Its length on a progress bar: its rounds."""
        return self.rounds

    def compute(
        self,
        progress: Progress | None = None,
        after_round: Callable[[Progress], object] = lambda progress: None,
        bar: bool | None = False,
    ) -> pd.DataFrame:
        """Its records, from the start or from an earlier progress; nothing is stored."""
        return simulate(
            algorithms.create(self.algorithm, **self.options),
            federation_of(self),
            self.rounds,
            every=self.every,
            stop_at=self.stop_at,
            progress=progress,
            after_round=after_round,
            bar=bar,
        )


def name_of(asked: dict[str, Any], fingerprints: dict[str, str]) -> str:
    """The name of these settings on these data."""
    content = asked | {"data": fingerprints}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]


def plain(value: Any) -> Any:
    """The value as JSON would return it; 2.0 becomes 2, so that equal values have equal names."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def federation_defaults(arguments: dict[str, Any]) -> dict[str, Any]:
    """The defaults of `federate` and of the partitioner, except the seed, which belongs to the run."""
    deal = partition.PARTITIONERS.get(arguments.get("partitioner", ""))
    takers = [federate, deal] if deal else [federate]
    defaults = {name: value for taker in takers for name, value in _argument_defaults(taker).items()}
    return {name: value for name, value in defaults.items() if name != "seed"}


@lru_cache
def _argument_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = signature(function).parameters.values()
    return {option.name: option.default for option in parameters if option.default is not option.empty}


def _option_defaults(algorithm: str) -> dict[str, Any]:
    return {
        option.name: option.default
        for option in fields(algorithms.REGISTRY[algorithm])
        if option.default is not MISSING
    }


def _without_defaults(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """The values that differ from their default; True differs from 1."""
    missing = object()

    def is_default(name: str, value: Any) -> bool:
        default = defaults.get(name, missing)
        return plain(default) == plain(value) and isinstance(default, bool) == isinstance(value, bool)

    return {name: value for name, value in values.items() if not is_default(name, value)}


def federation_of(run: Run) -> Federation:
    """The federation of a run, kept for the next run."""
    return _federation(json.dumps(run.federation, sort_keys=True), run.seed, run.data_fingerprint)


@lru_cache(maxsize=2)
def _federation(arguments: str, seed: int, data_fingerprint: str) -> Federation:
    """Cached by the fingerprint, too, so that replaced data are not mistaken for the old."""
    return federate(**json.loads(arguments), seed=seed)
