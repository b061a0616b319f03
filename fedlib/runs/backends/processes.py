"""Worker processes of this machine, one thread each. They write records and checkpoints into the store themselves."""

import atexit
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from ctypes import c_int64
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized

import pandas as pd

from fedlib.runs.backends import inprocess
from fedlib.runs.backends.inprocess import serving
from fedlib.runs.simulation import Progress
from fedlib.runs.store import Task

__all__ = ["outcomes", "serving", "stop_pool"]

POLL_SECONDS = 0.2  # how often rounds are counted


def outcomes(
    tasks: list[Task], workers: int, count: Callable[[int], object]
) -> Iterator[tuple[Task, pd.DataFrame | str]]:
    """See `Backend`; a single run, or a single worker, needs no other process."""
    if min(workers, len(tasks)) <= 1:
        yield from inprocess.outcomes(tasks, workers, count)
        return
    pool = start_pool(workers)
    counted = pool.rounds.value
    pending = {pool.executor.submit(attempt_in_worker, task): task for task in tasks}
    try:
        while pending:
            done, _ = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            before, counted = counted, pool.rounds.value
            count(counted - before)
            for future in done:
                yield pending.pop(future), future.result()
    except BaseException:
        stop_pool()
        raise


@dataclass(frozen=True)
class Pool:
    """The workers, their settings, and the number of rounds that all of them have done."""

    started_with: tuple[int, dict[str, str]]
    executor: ProcessPoolExecutor
    rounds: Synchronized


# The pool outlives a study: a notebook with many studies pays the start of its workers once.
_pool: Pool | None = None
_rounds: Synchronized | None = None  # of the pool that this process is a worker of


def start_pool(size: int) -> Pool:
    """The pool in use, or a new one if size or environment have changed."""
    global _pool
    started_with = size, {name: value for name, value in os.environ.items() if name.startswith("FEDLIB_")}
    if _pool is None or _pool.started_with != started_with:
        stop_pool()
        context = multiprocessing.get_context("spawn")
        rounds = context.Value(c_int64, 0)
        executor = ProcessPoolExecutor(size, mp_context=context, initializer=start_worker, initargs=(rounds,))
        _pool = Pool(started_with, executor, rounds)
    return _pool


@atexit.register
def stop_pool() -> None:
    """Stop the workers at once: unfinished runs have their checkpoints."""
    global _pool
    if _pool is not None:
        workers = list((_pool.executor._processes or {}).values())
        _pool.executor.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
    _pool = None


def start_worker(rounds: Synchronized) -> None:
    """The first thing that a worker does."""
    global _rounds
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which stops the workers
    os.environ["FEDLIB_THREADS"] = "1"  # the cores are taken by the other workers
    _rounds = rounds


def attempt_in_worker(task: Task) -> pd.DataFrame | str:
    """The task of a worker."""
    return inprocess.attempt(task, count_round)


def count_round(progress: Progress) -> None:
    """Add one to the parent's count of rounds."""
    assert _rounds is not None, "only workers count, and they get the counter when they start"
    with _rounds.get_lock():
        _rounds.value += 1
