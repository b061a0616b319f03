"""A study: many runs in, one tidy frame out. Missing runs are executed on the engine in use, finished ones are read back.

An engine is a function that yields each run as it finishes, with its records or the traceback of its failure. A new engine
is one more entry of `ENGINES` and touches neither methods nor notebooks.
"""

import atexit
import multiprocessing
import os
import signal
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

import pandas as pd
from tqdm import tqdm

from fedlib.engine import threads
from fedlib.runs import store
from fedlib.runs.simulation import quiet
from fedlib.runs.store import Run

__all__ = ["Run", "RunFailed", "execute"]


class RunFailed(RuntimeError):
    """Some runs raised; the others are finished and stored."""


def execute(runs: list[Run], engine: str | None = None, workers: int | None = None) -> pd.DataFrame:
    """All runs as one tidy frame: the label of each run, its seed, and one row a measured round.

    The engine is named here, or by FEDLIB_ENGINE and FEDLIB_WORKERS (set from the Hydra config); by default one process a core.
    """
    runs = list(runs)
    engine = engine or os.environ.get("FEDLIB_ENGINE") or "processes"
    if engine not in ENGINES:
        raise ValueError(f"unknown engine {engine!r}; known: {', '.join(ENGINES)}")
    unique = list({run.key: run for run in runs}.values())
    found = {run.key: records for run in unique if (records := store.load(run)) is not None}
    missing = [run for run in unique if run.key not in found]
    failures = {}
    for run, outcome in ENGINES[engine](missing, workers or cores()):
        (failures if isinstance(outcome, str) else found)[run.key] = outcome
    if failures:
        raise RunFailed(_complaint(missing, failures))
    return pd.concat([_labelled(run, found[run.key]) for run in runs], ignore_index=True)


def cores() -> int:
    """Worker processes to use: FEDLIB_WORKERS, else the cores this process may run on."""
    return int(os.environ.get("FEDLIB_WORKERS") or threads.threads())


def _labelled(run: Run, records: pd.DataFrame) -> pd.DataFrame:
    return records.assign(**run.label, seed=run.seed)[[*run.label, "seed", *records.columns]]


def _complaint(runs: list[Run], failures: dict[str, str]) -> str:
    told = [f"{run.config}\n{failures[run.key]}" for run in runs if run.key in failures]
    return f"{len(told)} of {len(runs)} runs failed, the others are stored.\n\n" + "\n\n".join(told)


Outcomes = Iterator[tuple[Run, pd.DataFrame | str]]  # a run's records, or the traceback of its failure


def inprocess(runs: list[Run], workers: int) -> Outcomes:
    """One run after another in this process."""
    with _bar(runs) as bar:
        for run in runs:
            yield run, _attempt(run, lambda progress: bar.update())


def processes(runs: list[Run], workers: int) -> Outcomes:
    """Runs on local worker processes, one thread each; they write their records and checkpoints into the store."""
    if min(workers, len(runs)) <= 1:
        yield from inprocess(runs, workers)
        return
    pool, rounds = _pool(workers)
    rounds.value = 0
    pending = {pool.submit(_attempt_in_worker, run): run for run in runs}
    try:
        with _bar(runs) as bar:
            while pending:
                done, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                bar.update(rounds.value - bar.n)
                for future in done:
                    yield pending.pop(future), future.result()
    except BaseException:
        _stop_pool()
        raise


def dask(runs: list[Run], workers: int) -> Outcomes:
    """Runs on a Dask cluster: the one at FEDLIB_ADDRESS, else one of this machine with so many workers."""
    from fedlib.runs.backends import dask as client  # an extra: a plain install has no Dask

    with _bar(runs) as bar:
        yield from client.outcomes(runs, workers, bar.update)


ENGINES = {"inprocess": inprocess, "processes": processes, "dask": dask}


def _attempt(run: Run, after_round) -> pd.DataFrame | str:
    try:
        return store.compute(run, after_round)
    except Exception:
        return traceback.format_exc()


def _bar(runs: list[Run]) -> tqdm:
    rounds = sum(run.rounds for run in runs)
    return tqdm(total=rounds, desc=f"{len(runs)} runs", unit="round", leave=False, disable=quiet() or not runs)


# The pool outlives a study: a notebook with many studies pays the start of its workers once.
_workers: dict = {}


def _pool(size: int):
    kind = size, {name: value for name, value in os.environ.items() if name.startswith("FEDLIB_")}
    if _workers.get("kind") != kind:
        _stop_pool()
        context = multiprocessing.get_context("spawn")
        rounds = context.Value("q", 0)
        pool = ProcessPoolExecutor(size, mp_context=context, initializer=_start_worker, initargs=(rounds,))
        _workers.update(kind=kind, pool=pool, rounds=rounds)
    return _workers["pool"], _workers["rounds"]


@atexit.register
def _stop_pool() -> None:
    """Stop the workers at once: what they had not finished is in its checkpoints."""
    if pool := _workers.pop("pool", None):
        workers = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
    _workers.clear()


def _start_worker(rounds) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which stops the workers
    os.environ["FEDLIB_THREADS"] = "1"  # the cores are taken by the other workers
    _workers["rounds"] = rounds


def _count_round(progress) -> None:
    with _workers["rounds"].get_lock():
        _workers["rounds"].value += 1


def _attempt_in_worker(run: Run) -> pd.DataFrame | str:
    return _attempt(run, _count_round)
