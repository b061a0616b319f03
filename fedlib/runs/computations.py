"""Computations other than runs of a method that need data or take long: kept, recorded and verified like runs.

    @computation
    def compare_samplers(park: Park, seed: int) -> pd.DataFrame: ...

Calling the function reads the frame from the store or the record, or computes it and keeps it. Its arguments must be
plain values (numbers, strings, lists, dictionaries) or dataclasses of these, as its annotations say. Dictionaries are
sorted by key: where the order matters, give a list. Columns with clock readings are named
(`@computation(clock=("seconds",))`), because they differ each time.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property, update_wrapper
from importlib import import_module
from inspect import signature
from typing import Any, get_args, get_origin, get_type_hints, overload

import numpy as np
import pandas as pd

from fedlib import algorithms, data, numerics
from fedlib.problem import models, partition
from fedlib.runs import maker
from fedlib.runs.run import name_of, plain
from fedlib.runs.simulation import Progress


@dataclass(frozen=True)
class Computation:
    """One call of such a function."""

    function: str  # where to find it: "fedlib.papers.fedgs.experiments:compare_samplers"
    arguments: dict[str, Any]

    @cached_property
    def asked(self) -> dict[str, Any]:
        return {"function": self.function, "arguments": self.arguments}

    @cached_property
    def name(self) -> str:
        return name_of(self.asked, {name: data.fingerprint_of(name) for name in self.data_sets})

    @cached_property
    def maker(self) -> str:
        function, sources = self._computed.function, maker.sources()
        roots = [(function.__module__, function.__name__), ("fedlib.numerics", "pin")]
        named = sources.texts(roots) | set(_texts(self.arguments))
        tables = (algorithms.REGISTRY, partition.PARTITIONERS, models.NETWORKS)
        used = [table[name] for table in tables for name in sorted(named & table.keys())]
        return sources.maker([*roots, *((entry.__module__, entry.__name__) for entry in used)], numerics.mode())

    @property
    def kind(self) -> str:
        return " ".join([self.function.rsplit(":", 1)[-1], *self.data_sets])

    @cached_property
    def data_sets(self) -> list[str]:
        """The data sets needed to compute it: every argument called `data_set`, at any depth."""
        return sorted(set(_values_named("data_set", self.arguments)))

    @property
    def label(self) -> dict[str, Any]:
        return {}

    @property
    def clock(self) -> tuple[str, ...]:
        """Columns that hold clock readings."""
        return self._computed.clock

    @property
    def steps(self) -> int:
        return 1

    @property
    def _computed(self) -> "Computed":
        module, _, name = self.function.partition(":")
        computed = getattr(import_module(module), name, None)
        if not isinstance(computed, Computed):
            raise ValueError(f"{self.function} is not a computation of this version of fedlib")
        return computed

    def compute(
        self,
        progress: Progress | None = None,
        after_round: Callable[[Progress], object] = lambda progress: None,
        bar: bool | None = False,
    ) -> pd.DataFrame:
        """The frame, computed from the plain arguments, so that recomputing it from the record gives the same."""
        hints = get_type_hints(self._computed.function)
        rebuilt = {name: _rebuilt(value, hints.get(name)) for name, value in self.arguments.items()}
        return self._computed.function(**rebuilt)


class Computed:
    """A function whose results are kept."""

    def __init__(self, function: Callable[..., pd.DataFrame], clock: tuple[str, ...]) -> None:
        self.function, self.clock = function, clock
        self.place = f"{_public(function.__module__)}:{function.__name__}"
        update_wrapper(self, function)

    def __call__(self, *given: Any, **named: Any) -> pd.DataFrame:
        from fedlib.runs import study  # later: it imports this module

        return study.obtain(self.call(*given, **named))

    def call(self, *given: Any, **named: Any) -> Computation:
        """What a call with these arguments would compute."""
        bound = signature(self.function).bind(*given, **named)
        arguments = {name: _plain_argument(name, value) for name, value in bound.arguments.items()}
        return Computation(self.place, json.loads(json.dumps(arguments, sort_keys=True)))  # as a record gives them back


@overload
def computation(function: Callable[..., pd.DataFrame]) -> Computed: ...
@overload
def computation(*, clock: tuple[str, ...]) -> Callable[[Callable[..., pd.DataFrame]], Computed]: ...
def computation(function: Callable[..., pd.DataFrame] | None = None, *, clock: tuple[str, ...] = ()) -> Any:
    """Keep what a function computes; `clock` names columns of clock readings."""
    return Computed(function, clock) if function else lambda undecorated: Computed(undecorated, clock)


def _public(module: str) -> str:
    """The module's public name: the experiments of a paper are one module to others, even if they are several files."""
    parts = module.split(".")
    return ".".join(parts[:4]) if parts[:2] == ["fedlib", "papers"] else module


def _plain_argument(name: str, value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, np.generic):
        return plain(value.item())
    if not isinstance(value, str | int | float | bool | list | tuple | range | dict | None):
        kind = type(value).__name__
        raise TypeError(f"{name} is a {kind}: a computation is kept by its arguments, which must be plain values")
    return plain(value)


def _rebuilt(value: Any, annotation: Any) -> Any:
    """A plain value as its annotation says: a dataclass, a tuple, a float that is a whole number."""
    if is_dataclass(annotation) and isinstance(annotation, type):
        hints = get_type_hints(annotation)
        return annotation(**{name: _rebuilt(part, hints[name]) for name, part in value.items()})
    if get_origin(annotation) is tuple:
        return tuple(_rebuilt(part, kind) for part, kind in zip(value, get_args(annotation), strict=True))
    return float(value) if annotation is float else value


def _values_named(key: str, tree: Any) -> list[str]:
    if isinstance(tree, dict):
        here = [tree[key]] if isinstance(tree.get(key), str) else []
        return [*here, *(value for part in tree.values() for value in _values_named(key, part))]
    return [value for part in tree for value in _values_named(key, part)] if isinstance(tree, list) else []


def _texts(tree: Any) -> Iterator[str]:
    """All strings in a tree of plain values."""
    if isinstance(tree, str):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _texts(part)
