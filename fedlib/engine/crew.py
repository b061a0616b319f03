"""Threads that train clients side by side inside one process.

A client is trained by one thread from start to end and every product runs on one core, so the result does not depend on the
number of threads. Worker processes of a study get one thread each (FEDLIB_THREADS=1): cores are never shared out twice.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache


def threads() -> int:
    """Threads to use: FEDLIB_THREADS, else the cores this process may run on."""
    asked = os.environ.get("FEDLIB_THREADS")
    if asked:
        return max(1, int(asked))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_out(task: Callable, items: Iterable) -> list:
    """task(item) for each item, in order of the items; on several threads where there are several items and cores."""
    items = list(items)
    width = min(threads(), len(items))
    return [task(item) for item in items] if width <= 1 else list(_pool(width).map(task, items))


@cache
def _pool(width: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(width, thread_name_prefix="fedlib")
