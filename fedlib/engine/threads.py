"""Threads that train clients side by side inside one process.

A client is trained by one thread from start to end and every product runs on one core, so the result does not depend on
the number of threads. Worker processes of a study get one thread each (FEDLIB_THREADS=1), so no core is used twice.
"""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

THREAD_FLOPS = 5e7  # work is shared out to threads when each gets at least this much

torch.set_num_threads(1)  # sums do not depend on the number of cores; work is spread over clients and processes


def threads() -> int:
    """Threads to use: FEDLIB_THREADS, else the cores this process may run on."""
    asked = os.environ.get("FEDLIB_THREADS")
    if asked:
        return max(1, int(asked))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_out(task: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """task(item) for each item, in order of the items; on several threads where there are several items and cores.

    A task that itself calls `share_out` does that work on its own thread: waiting for the other threads, which are
    busy, would be a deadlock.
    """
    items = list(items)
    width = min(threads(), len(items))
    if width <= 1 or getattr(_inside, "task", False):
        return [task(item) for item in items]

    def marked(item: Item) -> Result:
        _inside.task = True
        return task(item)

    return list(_pool(width).map(marked, items))


_inside = threading.local()


@cache
def _pool(width: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(width, thread_name_prefix="fedlib")


def parts(count: int, flops: float) -> list[slice]:
    """`count` clients in parts for the threads: several for each thread where there is enough work, so that none waits
    long."""
    wanted = 1 if threads() == 1 else min(count, int(flops // THREAD_FLOPS)) or 1
    return slices(count, wanted)


def slices(count: int, wanted: int) -> list[slice]:
    """0 ... count in `wanted` parts of nearly equal length."""
    ends = [count * part // wanted for part in range(wanted + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]
