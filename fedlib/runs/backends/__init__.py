"""Where runs execute: one module per backend.

    inprocess   one run after another in this process: slower, easy to debug
    processes   worker processes of this machine
    dask        a Dask cluster, of this machine or at an address; `legs` is what its workers do
    slurm       a Dask cluster whose workers are Slurm jobs
    dry         computes nothing and returns made-up records, for `fedlib plan`; a report cannot choose it

Call `load(name).outcomes(tasks, workers, count)`, as `study.execute` does. To add a backend, write a module with the
two functions of `Backend`, enter it in `BACKENDS` and add `conf/backend/<name>.yaml`: neither methods nor notebooks
change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module, util
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:  # nothing heavy is imported here: the command line and Dask's scheduler need not wait for it
    import pandas as pd

    from fedlib.runs.store import Task

BACKENDS = {name: f"{__name__}.{name}" for name in ("inprocess", "processes", "dask", "slurm")}
EXTRA = {"dask": ("distributed", "threadpoolctl"), "slurm": ("distributed", "threadpoolctl", "dask_jobqueue")}
DEFAULT = "processes"
DRY = "dry"


class Backend(Protocol):
    """What every module here offers."""

    def outcomes(
        self, tasks: list[Task], workers: int, count: Callable[[int], object]
    ) -> Iterator[tuple[Task, pd.DataFrame | str]]:
        """Each run, or other computation, as it finishes, with its stored records or the text of its error.

        A failing run does not stop the others. `workers` is how many runs to compute at a time; `count` is called with
        the number of rounds done since its last call.
        """
        ...

    def serving(self, settings: Mapping[str, Any]) -> AbstractContextManager[str | None]:
        """Whatever must be running while the notebooks of a report run, by the settings of `conf/backend/<name>.yaml`.

        Gives the address at which `outcomes` finds it (FEDLIB_ADDRESS in the notebooks), or None.
        """
        ...


def load(name: str | None = None) -> Backend:
    """The backend of that name, by default the chosen one."""
    modules = BACKENDS | {DRY: f"{__name__}.{DRY}"}
    name = name or chosen()
    if name not in modules:
        raise ValueError(f"unknown backend {name!r}; known: {', '.join(BACKENDS)}")
    require(name)
    return cast(Backend, import_module(modules[name]))


def chosen() -> str:
    """The backend that FEDLIB_BACKEND names, by default worker processes."""
    if "FEDLIB_ENGINE" in os.environ:
        raise ValueError("FEDLIB_ENGINE is now called FEDLIB_BACKEND: set that and unset the other")
    return os.environ.get("FEDLIB_BACKEND") or DEFAULT


def require(name: str) -> None:
    """Raise an error that says what to install if a backend needs packages that are missing."""
    if missing := [package for package in EXTRA.get(name, ()) if util.find_spec(package) is None]:
        install = "pip install -c constraints.txt -e '.[cluster]'"
        raise ImportError(f"backend {name} needs Dask (there is no {', '.join(missing)}): {install}")


def cores() -> int:
    """How many runs to compute at a time: FEDLIB_WORKERS, by default the cores this process may use."""
    from fedlib.engine import threads

    given = os.environ.get("FEDLIB_WORKERS") or str(threads.threads())
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"FEDLIB_WORKERS={given} must be a whole number, 1 or more")
    return int(given)
