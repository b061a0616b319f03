"""What a worker of a Dask cluster does: compute one leg of a run, or say why it must not.

A leg is as many rounds as fit into its time, at least one. The state goes in and comes out as bytes of a checkpoint.
The scheduler imports this module as well, to read the tasks; only workers need fedlib's heavy modules.
"""

import os
import time
import traceback
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

START_WORKERS = "start workers with `python -m fedlib dask worker <scheduler> --nworkers <cores>`"


@dataclass(frozen=True)
class Order:
    """What the client asks for."""

    run: dict[str, Any]  # the fields of a `Run`
    data: str  # fingerprint of the client's copy of the data
    toolchain: dict[str, str]  # the client's, with the maker of the run
    seconds: float
    saved: bytes | None = None  # the checkpoint to continue from; None: from the start


@dataclass(frozen=True)
class Leg:
    """The state of the run after a leg."""

    round: int
    done: bool  # all rounds are done, or the target is reached
    saved: bytes  # a checkpoint; that of a finished run has records but no state
    split: str  # fingerprint of the partition
    seconds: float


@dataclass(frozen=True)
class Refusal:
    """Why this worker is not fit for the run."""

    worker: str
    reason: str


class LegIsOver(Exception):
    """The time of a leg is over."""


def work(order: Order) -> Leg | Refusal | str:
    """The task: a leg, a refusal, or the traceback of what the run raised."""
    from distributed import get_worker

    os.environ.setdefault("FEDLIB_THREADS", "1")  # the cores are taken by the other workers
    worker = get_worker()
    try:
        reason = objection(order, worker.state.nthreads)
        return Refusal(worker.address, reason) if reason else advance(order)
    except Exception:
        return f"on worker {worker.address}: {traceback.format_exc()}"


def advance(order: Order) -> Leg:
    """Compute until the time is over or the run is done."""
    from fedlib.runs import store
    from fedlib.runs.run import Run, federation_of
    from fedlib.runs.simulation import Progress

    run = Run(**order.run)
    progress = store.from_bytes(order.saved) if order.saved else Progress()
    split, began = federation_of(run).fingerprint, time.perf_counter()

    def stop_in_time(progress: Progress) -> None:
        if not progress.is_done(run.rounds, run.stop_at) and time.perf_counter() - began >= order.seconds:
            raise LegIsOver

    done = False
    try:
        run.compute(progress, stop_in_time)
        done, progress.state = True, {}
    except LegIsOver:
        pass
    return Leg(progress.round, done, store.to_bytes(progress), split, time.perf_counter() - began)


def objection(order: Order, threads: int) -> str | None:
    """Why the digits of this worker might differ from the client's, or None."""
    from fedlib import data
    from fedlib.runs.run import Run

    if threads != 1:
        return f"it takes {threads} runs at a time; {START_WORKERS}"
    here, asked = toolchain(Run(**order.run)), order.toolchain
    if differing := [name for name in asked if here.get(name) != asked[name]]:
        listed = "; ".join(f"{name}: {here.get(name)} there, {asked[name]} here" for name in differing)
        return f"its digits might differ ({listed}). Give it the client's checkout and packages, and {START_WORKERS}"
    name = order.run["federation"]["data_set"]
    try:
        fingerprint = data.load(name).fingerprint
    except (data.DataNotFound, data.InvalidDropIn) as problem:
        return f"it has no data set {name}: {problem}"
    if fingerprint != order.data:
        return f"its data set {name} is another one (fingerprint {fingerprint[:12]} there, {order.data[:12]} here)"
    return None


def toolchain(run: Any) -> dict[str, str]:
    """What decides the digits of a run: its maker, versions, and the kernels that the libraries chose here."""
    from fedlib.runs import versions

    return {"code": run.maker} | versions.versions() | _kernels()


@cache
def _kernels() -> dict[str, str]:
    import torch
    from threadpoolctl import threadpool_info

    from fedlib import numerics

    has = import_module("numpy._core._multiarray_umath").__cpu_features__
    blas = {library.get("architecture") for library in threadpool_info() if library["internal_api"] == "openblas"}
    return {
        "kernels of torch": torch.backends.cpu.get_cpu_capability(),
        "kernels of MKL": str(os.environ.get("MKL_CBWR")),
        "kernels of oneDNN": str(os.environ.get("DNNL_MAX_CPU_ISA")),
        "kernels of NumPy": " ".join(name for name in ("X86_V3", *numerics.NUMPY_BEYOND_AVX2) if has.get(name)),
        "kernels of OpenBLAS": " ".join(sorted(filter(None, blas))),
    }
