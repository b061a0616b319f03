"""The client's side: sends runs on their way, files what comes back, and sends them on.

With FEDLIB_ADDRESS the cluster is the one whose scheduler listens there; else worker processes of this machine are started,
reachable from this machine only. FEDLIB_LEG is the time of a leg in seconds.
"""

import atexit
import logging
import os
import signal
import sys
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, fields

import pandas as pd

from fedlib.data.files import write_atomically
from fedlib.runs import store
from fedlib.runs.backends import legs
from fedlib.runs.store import Run

try:
    import dask
    from distributed import Client, Future, KilledWorker, LocalCluster, WorkerPlugin, as_completed
except ImportError as problem:
    raise ImportError(
        f"engine dask needs Dask ({problem}): pip install -c constraints.txt -e '.[cluster]'"
    ) from problem

LEG_SECONDS = 60.0
INHERITED = ("FEDLIB_DATA", "FEDLIB_CACHE", "FEDLIB_OFFLINE")  # by local workers, when they start


@dataclass
class Journey:
    """A run under way, with what the client knows of it."""

    run: Run
    saved: bytes | None
    round: int
    resumed: bool
    seconds: float = 0.0
    tasks: int = 0

    @classmethod
    def of(cls, run: Run) -> "Journey":
        """From the store's checkpoint, if there is one."""
        progress = store.read_checkpoint(run.folder / "checkpoint.npz")
        if progress is None:
            return cls(run, None, 0, resumed=False)
        return cls(run, store.to_bytes(progress), progress.round, resumed=True)

    @property
    def data_set(self) -> str:
        return self.run.federation["data_set"]

    def order(self) -> legs.Order:
        run = {field.name: getattr(self.run, field.name) for field in fields(Run)} | {"label": {}}
        return legs.Order(run, self.run.data_fingerprint, legs.toolchain(), leg_seconds(), self.saved)

    def arrive(self, leg: legs.Leg) -> pd.DataFrame | None:
        """File a leg; the records when it was the last one."""
        self.round, self.seconds = leg.round, self.seconds + leg.seconds
        if leg.round == self.run.rounds:
            records = pd.DataFrame(store.from_bytes(leg.saved).records)
            return store.finish(self.run, records, leg.split, self.seconds, self.resumed)
        self.saved = leg.saved
        write_atomically(self.run.folder / "checkpoint.npz", lambda part: part.write_bytes(leg.saved))
        return None


def leg_seconds() -> float:
    return float(os.environ.get("FEDLIB_LEG") or LEG_SECONDS)


def outcomes(runs: list[Run], workers: int, count: Callable[[int], object]) -> Iterator[tuple[Run, pd.DataFrame | str]]:
    """Each run with its records or with what went wrong, as they finish; `count` is told how many rounds were done."""
    if not runs:
        return
    trips = Trips(connect(workers))
    try:
        for run in runs:
            trips.send(Journey.of(run))
        for journey, answer in trips.arrivals():
            before = journey.round
            outcome = trips.settle(journey, answer)
            count(journey.round - before)
            if outcome is not None:
                yield journey.run, outcome
    finally:
        trips.cancel()


class Trips:
    """The tasks that are out, and the workers known to be unfit."""

    def __init__(self, client: Client):
        self.client = client
        self.name = f"fedlib-{uuid.uuid4().hex}"  # one group of tasks: the scheduler hands them out one by one
        self.out: dict[tuple, tuple[Future, Journey]] = {}
        self.waiting = as_completed(loop=client.loop)
        self.unfit: dict[tuple[str, str], str] = {}  # (worker, data set) -> why

    def send(self, journey: Journey) -> None:
        """The next leg of a run, before the first ones of others."""
        fit = self._fit(journey.data_set)
        journey.tasks += 1
        key = (self.name, journey.run.key, journey.tasks)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):  # states are large
            future = self.client.submit(
                legs.travel,
                journey.order(),
                key=key,
                priority=journey.tasks,
                pure=False,
                workers=fit,
                allow_other_workers=fit is not None,  # where the fit ones are lost, a new one may come
            )
        self.out[key] = future, journey
        self.waiting.add(future)

    def arrivals(self) -> Iterator[tuple[Journey, legs.Leg | legs.Refusal | str]]:
        """Journeys with what became of their legs, until none is out."""
        for future in self.waiting:
            _, journey = self.out.pop(future.key)
            yield journey, answer(future, journey)

    def settle(self, journey: Journey, answer: legs.Leg | legs.Refusal | str) -> pd.DataFrame | str | None:
        """The outcome of a run, or None when it was sent on."""
        try:
            if isinstance(answer, legs.Refusal):
                answer = self._refuse(journey, answer)
            outcome = journey.arrive(answer) if isinstance(answer, legs.Leg) else answer
        except Exception:  # a full disk, say
            return traceback.format_exc()
        if outcome is None:
            self.send(journey)
        return outcome

    def cancel(self) -> None:
        """Call back what is out; a worker that has a leg in hand ends it for nothing."""
        if self.out and self.client.status == "running":
            self.client.cancel([future for future, _ in self.out.values()], force=True)

    def _fit(self, data_set: str) -> list[str] | None:
        """Workers not known to be unfit; None: all are welcome."""
        unfit = {worker for worker, name in self.unfit if name == data_set}
        return [worker for worker in self.client.nthreads() if worker not in unfit] if unfit else None

    def _refuse(self, journey: Journey, refusal: legs.Refusal) -> str | None:
        if (refusal.worker, journey.data_set) not in self.unfit:
            self.unfit[refusal.worker, journey.data_set] = refusal.reason
            print(f"worker {refusal.worker} is not used: {refusal.reason}", file=sys.stderr)
        if self._fit(journey.data_set):
            return None
        told = [f"{worker}: {reason}" for (worker, name), reason in self.unfit.items() if name == journey.data_set]
        return "no worker is fit for this run.\n" + "\n".join(told)


def answer(future: Future, journey: Journey) -> legs.Leg | legs.Refusal | str:
    """What a task gave, or what to tell of its end; without its scheduler nothing goes on."""
    try:
        return future.result()
    except KilledWorker as loss:
        return (
            f"its workers died {loss.allowed_failures + 1} times in a row, the last at {loss.last_worker.address}. "
            "Most often that is memory: give each worker more (--memory-limit) or start fewer of them (--nworkers). "
            f"The state after round {journey.round} is stored; the same command continues there."
        )
    except CancelledError as loss:
        raise ConnectionError(
            "the Dask scheduler went away. What was finished and the states of the other runs are stored; "
            "the same command continues."
        ) from loss
    except Exception:
        return traceback.format_exc()


# The connection outlives a study: a notebook with many studies pays the start of its workers once.
_connection: dict = {}


def connect(workers: int) -> Client:
    """The client of the cluster in use."""
    address = os.environ.get("FEDLIB_ADDRESS")
    kind = address or (workers, [os.environ.get(name) for name in INHERITED])
    client = _connection.get("client")
    if client is None or client.status != "running" or _connection["kind"] != kind:
        disconnect()
        client = _join(address) if address else _start_local(workers)
        _connection.update(kind=kind, client=client)
    return client


def _join(address: str) -> Client:
    try:
        client = Client(address, set_as_default=False)
    except OSError as problem:
        raise ConnectionError(
            f"no Dask scheduler answers at {address}: {problem}. Start one there with `dask scheduler`, correct "
            "engine.address, or leave it out to use this machine."
        ) from problem
    if not client.nthreads():
        print(f"no workers at {address} yet; {legs.START}", file=sys.stderr)
    return client


def _start_local(workers: int) -> Client:
    """Worker processes of this machine; they inherit the pinned numerics."""
    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        env={"FEDLIB_THREADS": "1"},
        silence_logs=logging.ERROR,
    )
    _connection["cluster"] = cluster
    client = Client(cluster, set_as_default=False)
    client.register_plugin(Deaf())
    return client


class Deaf(WorkerPlugin):
    """A worker of this machine leaves Ctrl-C to the client."""

    def setup(self, worker) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@atexit.register
def disconnect() -> None:
    """Leave the cluster; end it if it was started here."""
    for name in ("client", "cluster"):
        if thing := _connection.pop(name, None):
            thing.close()
    _connection.clear()
