"""Workers as jobs of Slurm: dask-jobqueue writes the job script and submits it.

The scheduler lives in the process that builds the report and serves all its notebooks; `conf/engine/slurm.yaml` has the
settings. Jobs that end before the work does (their time is up, say) are replaced.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster

WORKER = "fedlib.runs.backends worker"  # `python -m fedlib.runs.backends worker`: with the numerics pinned


@contextmanager
def address(engine: Mapping[str, Any]) -> Iterator[str | None]:
    """Where notebooks find the scheduler: as configured, else the one started here for Slurm's jobs, else nowhere."""
    if "slurm" not in engine or engine["address"]:
        yield engine.get("address")
        return
    with cluster(engine["slurm"]) as running:
        running.adapt(minimum=engine["workers"], maximum=engine["workers"])
        yield running.scheduler_address


def cluster(settings: Mapping[str, Any]) -> "SLURMCluster":
    """A scheduler in this process, and how jobs are to be submitted; none is submitted yet."""
    try:
        from dask_jobqueue import SLURMCluster
        from distributed.security import Security
    except ImportError as problem:
        raise ImportError(
            f"engine slurm needs dask-jobqueue ({problem}): pip install -c constraints.txt -e '.[cluster]'"
        ) from problem
    given = {name: value for name, value in settings.items() if value is not None}
    several = ["--nworkers", str(given["cores"]), "--nanny"]
    return SLURMCluster(
        **given | {"worker_extra_args": [*several, *given.get("worker_extra_args", [])]},
        processes=given["cores"],  # one run a core
        worker_command=WORKER,
        security=Security() if given.get("protocol") == "tls://" else None,
        scheduler_options={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    )
