"""Tuning: one rule for all methods of a comparison.

Every point of a method's grid is run on the tuning seeds, for the same rounds, with a share of each client's *training*
samples held out; the point with the best mean score on these wins. If a winning value lies at an end of its grid, the
grid gets one more value there, at the same ratio as the last two but within the option's limits, and so on, twice at
most. Methods that are to differ in one thing only can share a point: the one with the best mean score of them all. A
run without a finite score has diverged and is worse than any other. Test samples are never used, and no result uses the
tuning seeds. A score is a measurement, or a cost: a function of a run's records, of which the lowest is best.

A run's score is the mean of its `last` measured rounds: where curves go up and down from round to round, a single one
may catch the best point in a dip. Short runs favour what is fast at first, such as a server with large steps. Where
that matters there is a `Final`: the best points of every method run again, for longer, and the final decides. And what
is best on one seed may lie beside a cliff: a network whose units have all died keeps a finite loss. So the winner may
have to stand on further seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from fedlib import algorithms
from fedlib.runs import study
from fedlib.runs.run import Run
from fedlib.runs.simulation import FALLING, reaches

HELD_OUT = 0.2  # share of every client's training samples
EXTENSIONS = 2
Grid = Mapping[str, Sequence[float]]  # option -> values to try
Limits = Mapping[str, tuple[float, float]]  # option -> least and largest value that an extension may reach
Point = dict[str, float]
Score = str | Callable[[pd.DataFrame], float]  # a measurement, or a cost


@dataclass(frozen=True)
class Final:
    """The last stage: the best `points` of each method, scored by the mean of the `last` measured rounds.

    They differ in the option `apart`, where a method has it: otherwise the two best may be neighbours in what short
    runs tell well, and share a value of what short runs tell badly. Such a method sends one more, and where `halved`
    names an option its best point with half of that: short runs favour large steps. The winner also runs on this many
    `further` seeds, for the rounds of tuning: if its score there is less than half of what it was before, the next of
    the final takes its place.
    """

    rounds: int
    last: int = 1
    points: int = 2
    apart: str | None = None
    halved: str | None = None
    further: int = 0


@dataclass(frozen=True)
class Sweep:
    """What was tried and what won.

    `scores` has one row per method, point and seed: options, score, and `extension`, which is 0 for the planned grid.
    `finals` has the same for the longer runs of a `Final`, and `checks` for the winners on further seeds, with what
    they scored `before` and whether that `stands`; neither has rows where there was none.
    """

    scores: pd.DataFrame
    best: dict[str, Point]
    finals: pd.DataFrame = field(default_factory=pd.DataFrame)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)

    def means(self) -> pd.DataFrame:
        """The score of each point, averaged over the tuning seeds."""
        keys = [name for name in self.scores if name not in ("seed", "score")]
        return self.scores.groupby(keys, sort=False, dropna=False, as_index=False)["score"].mean()

    def winner(self, method: str) -> pd.Series:
        """The row of `means` with the best point of a method."""
        means, best = self.means(), pd.Series(self.best[method])
        return means[(means["method"] == method) & (means[list(best.index)] == best).all(axis=1)].iloc[0]

    def table(self, option: str) -> pd.DataFrame:
        """For reading: mean scores in percent by method and value of an option, and the best value."""
        scores = self.means().pivot(index="method", columns=option, values="score").loc[list(self.best)]
        best = pd.Series({method: point[option] for method, point in self.best.items()})
        return scores.mul(100).round(1).astype(object).fillna("").assign(best=best)


def tune(
    methods: Mapping[str, Run],
    grids: Mapping[str, Grid],
    seeds: Sequence[int],
    score: Score = "accuracy",
    limits: Limits | None = None,
    together: Sequence[Sequence[str]] = (),
    final: Final | None = None,
    last: int = 1,
) -> Sweep:
    """The best point of each method's grid; each method is given as a run, whose other options stay as they are.

    The methods of each group in `together` share one point, and hence their grid. A method with a single point needs no
    final. A run is scored by the mean of its `last` measured rounds; a `Final` has a `last` of its own.
    """
    if final and final.further and _lowest_is_best(score):
        raise ValueError(
            f"score={score!r}: half of a score says that a run has collapsed only where the highest is best"
        )
    if missing := sorted(set(methods) - set(grids)):
        raise ValueError(f"no grid for {', '.join(missing)}: every method of a comparison is tuned by the same rule")
    groups = {name: next((list(group) for group in together if name in group), [name]) for name in methods}
    tried = {name: points(grids[name]) for name in methods}
    frames = [_scored(methods, tried, seeds, score, 0, last)]
    for extension in range(1, EXTENSIONS + 1):
        beyond = {name: _beyond(methods[name], frames, groups[name], score, limits or {}) for name in methods}
        if not any(beyond.values()):
            break
        frames.append(_scored(methods, beyond, seeds, score, extension, last))
    scores = pd.concat(frames, ignore_index=True)
    finalists = {name: _leading(scores, groups[name], score, final) for name in methods} if final else {}
    finalists = {name: listed for name, listed in finalists.items() if len(listed) > 1}
    if not final or not finalists:
        return Sweep(scores, {name: _best(scores, groups[name], score) for name in methods})
    scores = pd.concat([scores, *_untried(methods, finalists, scores, seeds, score, last)], ignore_index=True)
    longer = {name: replace(methods[name], rounds=final.rounds) for name in finalists}
    finals = _scored(longer, finalists, seeds, score, 0, final.last).drop(columns="extension")
    ranked = {
        name: _ranked(finals, groups[name], score) if name in finalists else [_best(scores, groups[name], score)]
        for name in methods
    }
    if not final.further:
        return Sweep(scores, {name: listed[0] for name, listed in ranked.items()}, finals)
    further = [max(seeds) + 1 + extra for extra in range(final.further)]
    checks, best = _standing(methods, groups, ranked, scores, further, score, last)
    return Sweep(scores, best, finals, checks)


def points(grid: Grid) -> list[Point]:
    """All combinations of the grid's values."""
    if not grid or not all(grid.values()):
        raise ValueError(f"a grid needs values to try, not {dict(grid)}")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def held_out(run: Run, seed: int, point: Point) -> Run:
    """The run at a point of its grid, measured on held-out training samples of the clients."""
    federation = {name: value for name, value in run.federation.items() if name != "test_samples"}
    federation |= {"validation_share": HELD_OUT}
    return replace(run, federation=federation, seed=seed, options=run.options | point, label={})


def _scored(
    methods: Mapping[str, Run],
    tried: Mapping[str, list[Point]],
    seeds: Sequence[int],
    score: Score,
    extension: int,
    last: int,
) -> pd.DataFrame:
    """One row per method, point and seed with the mean score of the last measured rounds."""
    runs = [
        replace(held_out(methods[name], seed, point), label={"method": name, **point})
        for name, listed in tried.items()
        for point in listed
        for seed in seeds
    ]
    keys = _keys(runs)
    of_each = study.execute(runs).groupby(keys, sort=False, dropna=False)
    if callable(score):
        return of_each.apply(score, include_groups=False).rename("score").reset_index().assign(extension=extension)
    ends = of_each.tail(last).reset_index(drop=True)
    worst = np.inf if score in FALLING else -np.inf
    scored = ends[keys].assign(score=ends[score].where(_finite(ends, score), worst))
    means = scored.groupby(keys, sort=False, dropna=False, as_index=False)["score"].mean()
    return means.assign(extension=extension)


def _lowest_is_best(score: Score) -> bool:
    return callable(score) or score in FALLING


def arrival(target: Mapping[str, float]) -> Callable[[pd.DataFrame], float]:
    """The cost of runs that stop at this target: the round in which a run arrives; one that does not is worse than any
    other."""

    def cost(run: pd.DataFrame) -> float:
        end = run.iloc[-1]
        return float(end["round"]) if reaches(end.to_dict(), target) else np.inf

    return cost


def _finite(ends: pd.DataFrame, score: str) -> pd.Series:
    """Whether a run has not diverged: a model without finite weights still has an accuracy, but no loss."""
    return np.isfinite(ends[[name for name in dict.fromkeys((score, "loss")) if name in ends]]).all(axis=1)


def _keys(runs: list[Run]) -> list[str]:
    return [*dict.fromkeys(name for run in runs for name in run.label), "seed"]


def best_point(scores: pd.DataFrame, options: list[str], column: str, lowest: bool = False) -> Point:
    """The values of these options with the best mean of a column over all other rows; of equals the first."""
    means = scores.groupby(options, sort=False)[column].mean()
    chosen = means.idxmin() if lowest else means.idxmax()
    values = chosen if isinstance(chosen, tuple) else (chosen,)
    return {name: float(value) for name, value in zip(options, values, strict=True)}


def _best(scores: pd.DataFrame, methods: list[str], score: Score) -> Point:
    """The best point of these methods, which share it."""
    of_methods = scores[scores["method"].isin(methods)]
    return best_point(of_methods, _options(of_methods), "score", lowest=_lowest_is_best(score))


def _ranked(scores: pd.DataFrame, methods: list[str], score: Score, apart: str | None = None) -> list[Point]:
    """The points of these methods, which share them, the best first, of equals the first; one for each value of the
    option `apart`."""
    of_methods = scores[scores["method"].isin(methods)]
    options = _options(of_methods)
    means = of_methods.groupby(options, sort=False, as_index=False)["score"].mean()
    ordered = means.sort_values("score", ascending=_lowest_is_best(score), kind="stable")
    if apart in options:
        ordered = ordered.drop_duplicates(apart)
    return [{name: float(row[name]) for name in options} for _, row in ordered.iterrows()]


def _leading(scores: pd.DataFrame, methods: list[str], score: Score, final: Final) -> list[Point]:
    """The points of these methods, which share them, that meet in the final."""
    ranked = _ranked(scores, methods, score, final.apart)
    if final.apart not in ranked[0]:
        return ranked[: final.points]
    best, halved = ranked[0], final.halved
    slower = [best | {halved: best[halved] / 2}] if halved in best and len(ranked) > 1 else []
    return ranked[: final.points + 1] + slower


def _untried(
    methods: Mapping[str, Run],
    finalists: Mapping[str, list[Point]],
    scores: pd.DataFrame,
    seeds: Sequence[int],
    score: Score,
    last: int,
) -> list[pd.DataFrame]:
    """The scores of finalists that no grid had, so that a winner can be compared with itself; an empty list if none."""
    new = {
        name: [point for point in listed if np.isnan(_at(scores, name, point))] for name, listed in finalists.items()
    }
    extension = int(scores["extension"].max()) + 1
    return [_scored(methods, new, seeds, score, extension, last)] if any(new.values()) else []


def _standing(
    methods: Mapping[str, Run],
    groups: Mapping[str, list[str]],
    ranked: Mapping[str, list[Point]],
    scores: pd.DataFrame,
    seeds: Sequence[int],
    score: Score,
    last: int,
) -> tuple[pd.DataFrame, dict[str, Point]]:
    """What was checked on further seeds, and for each method the first of its ranked points that stands there, or else
    the last. Methods that share a point fall together; one with a single point has no choice, and is not checked."""
    place, frames = dict.fromkeys(methods, 0), []
    open_ones = [name for name in methods if len(ranked[name]) > 1]
    while open_ones:
        tried = {name: [ranked[name][place[name]]] for name in open_ones}
        found = _scored({name: methods[name] for name in open_ones}, tried, seeds, score, 0, last)
        found = found.drop(columns="extension")
        before = [_at(scores, row["method"], tried[row["method"]][0]) for row in found.to_dict("records")]
        frames.append(found.assign(before=before, stands=found["score"] >= 0.5 * np.array(before)))
        fallen = set(frames[-1].loc[~frames[-1]["stands"], "method"])
        open_ones = [name for name in open_ones if fallen & set(groups[name]) and place[name] + 1 < len(ranked[name])]
        place |= {name: place[name] + 1 for name in open_ones}
    best = {name: ranked[name][place[name]] for name in methods}
    return pd.concat(frames, ignore_index=True), best


def _at(scores: pd.DataFrame, method: str, point: Point) -> float:
    """The mean score of a method's point."""
    here = (scores["method"] == method) & (scores[list(point)] == pd.Series(point)).all(axis=1)
    return float(scores.loc[here, "score"].mean())


def _options(scores: pd.DataFrame) -> list[str]:
    given = scores.dropna(axis="columns", how="all")
    return [name for name in given if name not in ("method", "seed", "score", "extension")]


def _beyond(run: Run, frames: list[pd.DataFrame], methods: list[str], score: Score, limits: Limits) -> list[Point]:
    """The points to add because the best value lies at an end of the grid; none if it does not."""
    scores = pd.concat(frames, ignore_index=True)
    best, of_methods = _best(scores, methods, score), scores[scores["method"].isin(methods)]
    grid = {name: sorted(of_methods[name].unique().tolist()) for name in best}
    known = {tuple(point.values()) for point in points(grid)}
    for name, value in best.items():
        further = next_value(grid[name], value, *limits.get(name, ()))
        if further is not None and _is_possible(run, name, further):
            grid[name] = [*grid[name], further]
    return [point for point in points(grid) if tuple(point.values()) not in known]


def next_value(values: list[float], best: float, least: float = 0.0, largest: float = np.inf) -> float | None:
    """One step beyond the end at which the best of the sorted values lies, by the ratio there, but within the limits;
    None elsewhere, and where the end is at its limit."""
    if len(values) < 2 or best not in (values[0], values[-1]):
        return None
    inner = values[1] if best == values[0] else values[-2]
    if best <= 0 or inner <= 0:
        return None
    further = min(max(float(f"{best * best / inner:.3g}"), least), largest)
    return None if further in values else further


def _is_possible(run: Run, option: str, value: Any) -> bool:
    """Whether the method takes this value: a share cannot grow beyond 1."""
    try:
        algorithms.create(run.algorithm, **run.options | {option: value})
    except ValueError:
        return False
    return True
