"""Runs: from their settings to a tidy frame of records.

    simulation    one method on one federation, one record per measured round
    states        a method's state after some rounds
    run           a run's settings, name and kind; `maker` is the code that computes it, `versions` the libraries
    computations  other computations of a notebook that need data or take long
    store         where finished runs are kept on this machine; interrupted ones continue
    record        finished runs that are committed with the repository
    study         many runs in, one tidy frame out, from the record, the store or the backend
    tuning        the best options of each method, by one rule, on held-out training data
    verify        recompute recorded runs and compare
    tables, durations, bars   records as CSV; how long runs take; progress
    backends      where runs execute
    plan          what runs will cost

Call `simulate(algorithm, federation, rounds)` for one run in memory, `execute([Run(...), ...])` for runs that are kept,
`@computation` for a function whose results are kept.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded when first asked for: the command line need not wait for torch
    from fedlib.runs.computations import computation
    from fedlib.runs.run import Run
    from fedlib.runs.simulation import simulate
    from fedlib.runs.study import NotRecorded, RunFailed, execute

__all__ = ["NotRecorded", "Run", "RunFailed", "computation", "execute", "simulate"]
_MODULES = {
    "NotRecorded": "study",
    "Run": "run",
    "RunFailed": "study",
    "computation": "computations",
    "execute": "study",
    "simulate": "simulation",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
