"""Runs: from what was asked for to a tidy frame of records.

    simulation   one method on one federation, one record per measured round
    store        what a run is; finished runs are read back, interrupted ones continue
    study        many runs in, one tidy frame out
    backends     where runs execute
    plan         what runs will cost

Call `simulate(algorithm, federation, rounds)` for one run in memory, `execute([Run(...), ...])` for stored runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded when first asked for: the command line need not wait for torch
    from fedlib.runs.simulation import simulate
    from fedlib.runs.store import Run
    from fedlib.runs.study import RunFailed, execute

__all__ = ["Run", "RunFailed", "execute", "simulate"]
_MODULES = {"Run": "store", "RunFailed": "study", "execute": "study", "simulate": "simulation"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
