"""A Dask cluster whose workers are jobs of Slurm: dask-jobqueue writes the job script and submits it.

The scheduler runs in the process that builds the report and serves all its notebooks; `conf/backend/slurm.yaml` has the
settings. Jobs that end before the work is done (because their time is up, for example) are replaced.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd
from dask_jobqueue.slurm import SLURMCluster
from distributed.security import Security

from fedlib.runs.backends import dask
from fedlib.runs.store import Task

WORKER = "fedlib dask worker"  # `python -m fedlib dask worker`: with the numerics pinned


def outcomes(
    tasks: list[Task], workers: int, count: Callable[[int], object]
) -> Iterator[tuple[Task, pd.DataFrame | str]]:
    """See `Backend`; the scheduler must be running already, because it outlives a notebook."""
    if tasks and not os.environ.get("FEDLIB_ADDRESS"):
        raise ConnectionError(
            "backend slurm has no scheduler here: `python -m fedlib backend=slurm` starts one for the notebooks of a "
            "report. Elsewhere, start one with `python -m fedlib dask scheduler` and name it with FEDLIB_ADDRESS."
        )
    yield from dask.outcomes(tasks, workers, count)


@contextmanager
def serving(settings: Mapping[str, Any]) -> Iterator[str]:
    """The configured scheduler, or one in this process whose workers are submitted to Slurm."""
    if settings["address"]:
        yield settings["address"]
        return
    jobs = cluster(settings["slurm"])
    with jobs:
        jobs.adapt(minimum=settings["workers"], maximum=settings["workers"])
        yield jobs.scheduler_address


def cluster(settings: Mapping[str, Any]) -> SLURMCluster:
    """A scheduler in this process, and how jobs are to be submitted; none is submitted yet."""
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    one_run_per_core = ["--nworkers", str(given["cores"]), "--nanny"]
    given["worker_extra_args"] = [*one_run_per_core, *given.get("worker_extra_args", [])]
    return SLURMCluster(
        **given,
        processes=given["cores"],
        worker_command=WORKER,
        security=Security() if given.get("protocol") == "tls://" else None,
        scheduler_options={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    )
