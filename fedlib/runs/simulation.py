"""Run a method on a federation: one record per measured round, stop and resume at any round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd
from tqdm import tqdm

from fedlib.algorithms.algorithm import Algorithm, State
from fedlib.problem import Federation
from fedlib.problem.limits import Count, checked
from fedlib.runs.bars import quiet

FALLING = ("loss",)  # measurements that reach a target from above


@dataclass
class Progress:
    """Where a run stands: the last finished round, the state after it and the records so far."""

    round: int = 0
    state: State | None = None
    records: list[dict] = field(default_factory=list)

    def is_done(self, rounds: int, stop_at: Mapping[str, float] | None = None) -> bool:
        """Whether the run is complete: all rounds are done, or the last measurement reached the target."""
        return self.round >= rounds or (bool(self.records) and reaches(self.records[-1], stop_at))


def reaches(record: Mapping[str, float], target: Mapping[str, float] | None) -> bool:
    """Whether a measurement reaches the target: a loss is at most, any other score at least the value given."""
    if target is None:
        return False
    if unknown := sorted(set(target) - set(record)):
        raise ValueError(f"stop_at names {', '.join(unknown)}, which is not measured; there is: {', '.join(record)}")
    return all(record[name] <= value if name in FALLING else record[name] >= value for name, value in target.items())


def simulate(
    algorithm: Algorithm,
    federation: Federation,
    rounds: int,
    *,
    every: int = 1,
    stop_at: Mapping[str, float] | None = None,
    progress: Progress | None = None,
    after_round: Callable[[Progress], object] = lambda progress: None,
    bar: bool | None = None,
) -> pd.DataFrame:
    """One row per measured round: `round` and what the algorithm measures; round 0 is the start.

    `every` measures every k-th round and the last. `stop_at={"accuracy": 0.9}` stops at the first measurement that
    reaches it. Pass the `Progress` of an interrupted call to continue it: the records are the same. `after_round` is
    called with the progress after each round (to save it, for example). `bar` shows a progress bar.
    """
    _require_arguments(algorithm, federation, rounds, every, stop_at)
    now = progress or Progress()
    if now.state is None:
        now.state = algorithm.init(federation)
        now.records.append({"round": 0} | algorithm.measure(federation, now.state))
    remaining = range(now.round + 1, rounds + 1)
    for round in tqdm(remaining, desc=type(algorithm).__name__, unit="round", leave=False, disable=quiet(bar)):
        if now.is_done(rounds, stop_at):
            break
        state = algorithm.round(federation, now.state, round)
        if round % every == 0 or round == rounds:
            now.records.append({"round": round} | algorithm.measure(federation, state))
        now.round, now.state = round, state
        after_round(now)
    return pd.DataFrame(now.records)


def _require_arguments(algorithm: object, federation: object, rounds: object, every: object, stop_at: object) -> None:
    """Refuse wrong arguments at once, with what would be right: a federation may have taken minutes to build."""
    if not isinstance(algorithm, Algorithm):
        example = f"create({algorithm!r})" if isinstance(algorithm, str) else "create('fedavg', lr=0.1)"
        raise TypeError(f"algorithm={algorithm!r} must be a method with its options, such as {example}")
    if not isinstance(federation, Federation):
        raise TypeError(f"federation is a {type(federation).__name__}: it must be what `fedlib.federate(...)` returns")
    algorithm.require_rounds(checked("rounds", rounds, Count))
    checked("every", every, Count)
    check_stop(stop_at)


def check_stop(stop_at: object) -> None:
    """Refuse a target that is not a mapping of names to numbers."""
    if stop_at is None:
        return
    if not isinstance(stop_at, Mapping) or not stop_at:
        raise ValueError(f'stop_at={stop_at!r} must name what is measured and the value to reach: {{"accuracy": 0.9}}')
    for name, value in stop_at.items():
        checked(f"stop_at[{name!r}]", value, float)
