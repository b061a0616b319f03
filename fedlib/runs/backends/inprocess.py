"""One run after another in this process: slower than workers, easy to debug."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd

from fedlib.runs import store
from fedlib.runs.simulation import Progress
from fedlib.runs.store import Task


def outcomes(
    tasks: list[Task], workers: int, count: Callable[[int], object]
) -> Iterator[tuple[Task, pd.DataFrame | str]]:
    """See `Backend`; there is one worker, this process."""
    for task in tasks:
        yield task, attempt(task, lambda progress: count(1))


def serving(settings: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Notebooks need nothing besides their kernels."""
    return nullcontext()


def attempt(task: Task, after_round: Callable[[Progress], object]) -> pd.DataFrame | str:
    """The records of a run, or the traceback of its failure."""
    try:
        return store.compute(task, after_round)
    except Exception:
        return traceback.format_exc()
