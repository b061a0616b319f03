"""Run a method on a federation: one record per measured round, stop and resume at any round."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd
from tqdm import tqdm

from fedlib.algorithms.algorithm import Algorithm, State
from fedlib.problem import Federation
from fedlib.problem.limits import Count, checked
from fedlib.runs.bars import quiet


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
    after_round: Callable[[Progress], object] = lambda progress: None,
    bar: bool | None = None,
) -> pd.DataFrame:
    """One row per measured round: `round` and what the algorithm measures; round 0 is the start.

    `every` measures every k-th round and the last. Pass the `Progress` of an interrupted call to continue it: the
    records come out the same. `after_round` sees the progress after each round (to save it, say). `bar` shows a
    progress bar.
    """
    _require_arguments(algorithm, federation, rounds, every)
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


def _require_arguments(algorithm: object, federation: object, rounds: object, every: object) -> None:
    """Say at once what is wrong and what would be right: a federation may have taken minutes to build."""
    if not isinstance(algorithm, Algorithm):
        example = f"create({algorithm!r})" if isinstance(algorithm, str) else "create('fedavg', lr=0.1)"
        raise TypeError(f"algorithm={algorithm!r} must be a method with its options, such as {example}")
    if not isinstance(federation, Federation):
        raise TypeError(f"federation is a {type(federation).__name__}: it must be what `fedlib.federate(...)` returns")
    algorithm.require_rounds(checked("rounds", rounds, Count))
    checked("every", every, Count)
