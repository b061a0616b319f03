"""A Dask cluster, on which a run is computed in legs.

A task computes about a minute of the run (a leg, see `legs`) and returns its state; the client, here, saves it in the
store and sends the next leg. So nothing that matters stays on a worker, and losing one costs a leg. Workers compute
with their own copy of fedlib and of the data; a worker whose digits might differ is refused.

With FEDLIB_ADDRESS the cluster is the one whose scheduler listens there; otherwise worker processes are started on this
machine, reachable from this machine only. FEDLIB_LEG is the duration of a leg in seconds.
"""

import atexit
import logging
import os
import signal
import sys
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd
from dask import config as dask_config
from distributed import Client, Future, KilledWorker, LocalCluster, WorkerPlugin, as_completed

from fedlib.runs import store
from fedlib.runs.backends import inprocess, legs
from fedlib.runs.backends.legs import Leg, Order, Refusal
from fedlib.runs.run import Run
from fedlib.runs.store import Task

LEG_SECONDS = 60.0
INHERITED = ("FEDLIB_DATA", "FEDLIB_CACHE", "FEDLIB_OFFLINE")  # by local workers, when they start
LARGE_STATES = {"distributed.admin.large-graph-warning-threshold": "1GB"}  # Dask should not warn of smaller states


def outcomes(
    tasks: list[Task], workers: int, count: Callable[[int], object]
) -> Iterator[tuple[Task, pd.DataFrame | str]]:
    """See `Backend`; `workers` is how many processes to start if there is no address.

    Runs are computed on the cluster; other computations are short, and computed here.
    """
    yield from inprocess.outcomes([task for task in tasks if not isinstance(task, Run)], workers, count)
    runs = [task for task in tasks if isinstance(task, Run)]
    if not runs:
        return
    dispatcher = Dispatcher(connect(workers))
    try:
        for run in runs:
            dispatcher.send(DispatchedRun.of(run))
        for dispatched, answer in dispatcher.answers():
            before = dispatched.round
            outcome = dispatcher.settle(dispatched, answer)
            count(dispatched.round - before)
            if outcome is not None:
                yield dispatched.run, outcome
    finally:
        dispatcher.cancel()


def serving(settings: Mapping[str, Any]) -> AbstractContextManager[str | None]:
    """The configured scheduler; without one, each notebook starts its own workers."""
    return nullcontext(settings["address"])


@dataclass
class DispatchedRun:
    """A run that workers compute leg by leg, with its state on the client's side."""

    run: Run
    saved: bytes | None  # the checkpoint after the last leg
    round: int
    resumed: bool
    seconds: float = 0.0
    tasks: int = 0

    @classmethod
    def of(cls, run: Run) -> "DispatchedRun":
        """From the store's checkpoint, if there is one."""
        progress, seconds = store.read_checkpoint(_checkpoint(run))
        if progress is None:
            return cls(run, None, 0, resumed=False)
        return cls(run, store.to_bytes(progress), progress.round, resumed=True, seconds=seconds)

    @property
    def data_set(self) -> str:
        return self.run.federation["data_set"]

    def order(self) -> Order:
        """The order for the next leg, as sent to a worker."""
        run = {field.name: getattr(self.run, field.name) for field in fields(Run)} | {"label": {}}
        return Order(run, self.run.data_fingerprint, legs.toolchain(self.run), leg_seconds(), self.saved)

    def file(self, leg: Leg) -> pd.DataFrame | None:
        """Store the result of a leg; returns the records if it was the last one."""
        self.round, self.seconds = leg.round, self.seconds + leg.seconds
        progress = store.from_bytes(leg.saved)
        if leg.done:
            return store.finish(self.run, pd.DataFrame(progress.records), self.seconds, self.resumed, leg.split)
        self.saved = leg.saved
        store.write_checkpoint(_checkpoint(self.run), progress, self.seconds)
        return None


def _checkpoint(run: Run) -> Path:
    return store.folder_of(run) / "checkpoint.npz"


def leg_seconds() -> float:
    return float(os.environ.get("FEDLIB_LEG") or LEG_SECONDS)


class Dispatcher:
    """The tasks that were sent, and the workers known to be unfit."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.name = f"fedlib-{uuid.uuid4().hex}"  # one group of tasks: the scheduler assigns them one by one
        self.out: dict[tuple, tuple[Future, DispatchedRun]] = {}
        self.waiting = as_completed(loop=client.loop)
        self.unfit: dict[tuple[str, str], str] = {}  # (worker, data set) -> why

    def send(self, dispatched: DispatchedRun) -> None:
        """Send the next leg of a run."""
        fit = self._fit(dispatched.data_set)
        dispatched.tasks += 1
        key = (self.name, dispatched.run.name, dispatched.tasks)
        with dask_config.set(LARGE_STATES):
            future = self.client.submit(
                legs.work,
                dispatched.order(),
                key=key,
                priority=dispatched.tasks,
                pure=False,
                workers=fit,
                allow_other_workers=fit is not None,  # if the fit ones are lost, a new one may join
            )
        self.out[key] = future, dispatched
        self.waiting.add(future)

    def answers(self) -> Iterator[tuple[DispatchedRun, Leg | Refusal | str]]:
        """Runs with the results of their legs, until none is pending."""
        for future in self.waiting:
            _, dispatched = self.out.pop(future.key)
            yield dispatched, answer(future, dispatched)

    def settle(self, dispatched: DispatchedRun, answer: Leg | Refusal | str) -> pd.DataFrame | str | None:
        """The outcome of a run, or None if its next leg was sent."""
        try:
            outcome = self._outcome(dispatched, answer)
        except Exception:  # such as a full disk
            return traceback.format_exc()
        if outcome is None:
            self.send(dispatched)
        return outcome

    def cancel(self) -> None:
        """Cancel what was sent; a worker in the middle of a leg finishes it in vain."""
        if self.out and self.client.status == "running":
            self.client.cancel([future for future, _ in self.out.values()], force=True)

    def _outcome(self, dispatched: DispatchedRun, answer: Leg | Refusal | str) -> pd.DataFrame | str | None:
        if isinstance(answer, Refusal):
            return self._refused(dispatched, answer)
        return dispatched.file(answer) if isinstance(answer, Leg) else answer

    def _fit(self, data_set: str) -> list[str] | None:
        """Workers not known to be unfit; None: any worker will do."""
        unfit = {worker for worker, name in self.unfit if name == data_set}
        workers: Any = self.client.nthreads()  # Dask's annotations are those of its asynchronous use
        return [worker for worker in workers if worker not in unfit] if unfit else None

    def _refused(self, dispatched: DispatchedRun, refusal: Refusal) -> str | None:
        if (refusal.worker, dispatched.data_set) not in self.unfit:
            self.unfit[refusal.worker, dispatched.data_set] = refusal.reason
            print(f"worker {refusal.worker} is not used: {refusal.reason}", file=sys.stderr)
        if self._fit(dispatched.data_set):
            return None
        reasons = [f"{worker}: {why}" for (worker, name), why in self.unfit.items() if name == dispatched.data_set]
        return "no worker is fit for this run.\n" + "\n".join(reasons)


def answer(future: Future, dispatched: DispatchedRun) -> Leg | Refusal | str:
    """The result of a task, or a message if its workers died; an error if the scheduler is gone."""
    try:
        return future.result()
    except KilledWorker as loss:
        return (
            f"its workers died {loss.allowed_failures + 1} times in a row, the last at {loss.last_worker.address}. "
            "Most often that is memory: give each worker more (--memory-limit) or start fewer of them (--nworkers). "
            f"The state after round {dispatched.round} is stored; the same command continues there."
        )
    except CancelledError as loss:
        raise ConnectionError(
            "the Dask scheduler went away. What was finished and the states of the other runs are stored; "
            "the same command continues."
        ) from loss
    except Exception:
        return traceback.format_exc()


@dataclass(frozen=True)
class Connection:
    """A client, the local workers if they were started for it, and the settings it was opened for."""

    opened_for: object
    client: Client
    local: LocalCluster | None


# The connection outlives a study: a notebook with many studies pays the start of its workers once.
_connection: Connection | None = None


def connect(workers: int) -> Client:
    """The client of the cluster in use."""
    global _connection
    address = os.environ.get("FEDLIB_ADDRESS")
    wanted = address or (workers, [os.environ.get(name) for name in INHERITED])
    if _connection is None or _connection.client.status != "running" or _connection.opened_for != wanted:
        disconnect()
        client, local = (_join(address), None) if address else _start_local(workers)
        _connection = Connection(wanted, client, local)
    return _connection.client


def _join(address: str) -> Client:
    try:
        client = Client(address, set_as_default=False)
    except OSError as problem:
        raise ConnectionError(
            f"no Dask scheduler answers at {address}: {problem}. Start one there with `python -m fedlib dask "
            "scheduler`, correct backend.address, or leave it out to use this machine."
        ) from problem
    if not client.nthreads():
        print(f"no workers at {address} yet; {legs.START_WORKERS}", file=sys.stderr)
    return client


def _start_local(workers: int) -> tuple[Client, LocalCluster]:
    """Worker processes of this machine; they inherit the pinned numerics."""
    local = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        env={"FEDLIB_THREADS": "1"},
        silence_logs=logging.ERROR,
    )
    try:
        client = Client(local, set_as_default=False)
        client.register_plugin(IgnoreSigint())
    except BaseException:
        local.close()
        raise
    return client, local


class IgnoreSigint(WorkerPlugin):
    """A worker of this machine leaves Ctrl-C to the client."""

    def setup(self, worker: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@atexit.register
def disconnect() -> None:
    """Leave the cluster; stop it if it was started here."""
    global _connection
    if _connection is not None:
        _connection.client.close()
        if _connection.local is not None:
            _connection.local.close()
    _connection = None
