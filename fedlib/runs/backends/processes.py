"""Worker processes of this machine, one thread each. They write records and checkpoints into the store themselves, so
that what a killed worker had done is not lost."""

import atexit
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_int64
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from typing import TypeVar

import pandas as pd

from fedlib.runs.backends import inprocess
from fedlib.runs.backends.inprocess import serving
from fedlib.runs.simulation import Progress
from fedlib.runs.store import Task

__all__ = ["outcomes", "serving", "stop_pool"]

POLL_SECONDS = 0.2  # how often rounds are counted
DEATHS = 3  # of workers, after which a study gives up


def outcomes(
    tasks: list[Task], workers: int, count: Callable[[int], object]
) -> Iterator[tuple[Task, pd.DataFrame | str]]:
    """See `Backend`; a single run, or a single worker, needs no other process."""
    if min(workers, len(tasks)) <= 1:
        yield from inprocess.outcomes(tasks, workers, count)
        return
    yield from in_workers(attempt_in_worker, tasks, workers, count)


Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class WorkersDied(RuntimeError):
    """Workers were killed again and again; the message says what helps."""


def in_workers(
    work: Callable[[Asked], Answer], tasks: Sequence[Asked], workers: int, count: Callable[[int], object]
) -> Iterator[tuple[Asked, Answer]]:
    """What `work` gives for each, as it is done. When a worker is killed, new workers do what is not done yet."""
    pending, deaths = list(tasks), 0
    try:
        while pending:
            try:
                for asked, answer in _by_one_pool(work, pending, workers, count):
                    pending = [other for other in pending if other is not asked]
                    yield asked, answer
            except BrokenProcessPool as loss:
                deaths += 1
                if deaths == DEATHS:
                    raise WorkersDied(_explained(len(pending))) from loss
                stop_pool()
    except BaseException:
        stop_pool()
        raise


def _by_one_pool(
    work: Callable[[Asked], Answer], tasks: list[Asked], workers: int, count: Callable[[int], object]
) -> Iterator[tuple[Asked, Answer]]:
    """The same, until a worker is killed: the executor then gives up all others, too."""
    pool = start_pool(workers)
    counted = pool.rounds.value
    futures = {pool.executor.submit(work, task): task for task in tasks}
    while futures:
        done, _ = wait(futures, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        before, counted = counted, pool.rounds.value
        count(counted - before)
        for future in done:
            yield futures.pop(future), future.result()


def _explained(unfinished: int) -> str:
    return (
        f"worker processes were killed {DEATHS} times, with {unfinished} to do. Most often that is memory: use fewer "
        "of them (backend.workers=1, or FEDLIB_WORKERS=1). Runs in the store continue where they were."
    )


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
