"""Run a method on a federation: one record a round, stop and resume at any round."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd
from tqdm import tqdm

from fedlib.algorithms.algorithm import Algorithm, State
from fedlib.problem.federation import Federation


@dataclass
class Progress:
    """Where a run stands: the last finished round, the state after it and the records so far."""

    round: int = 0
    state: State | None = None
    records: list[dict] = field(default_factory=list)


def simulate(
    algorithm: Algorithm,
    federation: Federation,
    rounds: int,
    *,
    every: int = 1,
    progress: Progress | None = None,
    after_round: Callable[[Progress], None] = lambda progress: None,
    bar: bool | None = None,
) -> pd.DataFrame:
    """One row for each measured round: `round` and what the algorithm measures; round 0 is the start.

    `every` measures each k-th round and the last. Pass the `Progress` of an interrupted call to continue it: the records
    come out the same. `after_round` sees the progress after each round (to save it, say). `bar` shows a progress bar.
    """
    if rounds < 1 or every < 1:
        raise ValueError(f"rounds={rounds} and every={every} must be at least 1")
    now = progress or Progress()
    if now.state is None:
        now.state = algorithm.init(federation)
        now.records.append({"round": 0} | algorithm.measure(federation, now.state))
    remaining = range(now.round + 1, rounds + 1)
    for round in tqdm(remaining, desc=type(algorithm).__name__, unit="round", leave=False, disable=quiet(bar)):
        state = algorithm.round(federation, now.state, round)
        if round % every == 0 or round == rounds:
            now.records.append({"round": round} | algorithm.measure(federation, state))
        now.round, now.state = round, state
        after_round(now)
    return pd.DataFrame(now.records)


def quiet(bar: bool | None = None) -> bool:
    """Whether to hide progress bars: as asked, else when FEDLIB_PROGRESS=0 or nobody is watching."""
    if bar is not None:
        return not bar
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return os.environ.get("FEDLIB_PROGRESS", "1") == "0" or not watched
