"""Named checks: a sentence of a paper as a function of measured numbers.

A check takes a tidy frame (one row per seed) and returns a `Finding`. Differences are paired by seed: two methods of
one seed share partition and participants, so the spread of the difference says more than the spread of each. A
difference counts when its mean is larger than its standard error over seeds; one seed has no error and any difference
counts.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Finding:
    """What a check says: the verdict, the number that decided it, its spread, and the evidence as a frame."""

    verdict: str
    measured: object
    evidence: pd.DataFrame
    spread: float | None = None
    reported: object = None
    note: str = ""


def verdict(holds: int, of: int) -> str:
    """reproduced when all comparisons hold, not reproduced when none does, else partly."""
    if of == 0:
        return "not tested"
    return "reproduced" if holds == of else "not reproduced" if holds == 0 else "partly"


def paired(
    frame: pd.DataFrame, value: str, key: str, first: Hashable, second: Hashable, level: dict[str, Any]
) -> pd.Series:
    """first - second of one column, seed by seed, at one level of the other axes."""
    for column, wanted in level.items():
        frame = frame[frame[column] == wanted]
    table = frame.pivot_table(index="seed", columns=key, values=value)
    missing = [name for name in (first, second) if name not in table]
    return pd.Series(dtype=float) if missing else (table[first] - table[second]).dropna()


def standard_error(differences: pd.Series) -> float:
    """Of the mean over seeds; 0 for a single seed."""
    return float(differences.std() / np.sqrt(len(differences))) if len(differences) > 1 else 0.0


def exceeds_noise(differences: pd.Series) -> bool:
    """Whether a positive difference is more than noise: its mean exceeds its standard error over seeds."""
    return bool(differences.mean() > standard_error(differences))


def rows_where(frame: pd.DataFrame, where: dict[str, list] | None) -> pd.DataFrame:
    """The rows that a sentence speaks about: `where` maps a column to its admitted values."""
    for column, values in (where or {}).items():
        frame = frame[frame[column].isin(values)]
    return frame


def above(
    frame: pd.DataFrame,
    value: str,
    key: str,
    first: str,
    others: list,
    over: str,
    lower_is_better: bool = False,
    where: dict[str, list] | None = None,
) -> Finding:
    """`first` beats each of `others` at every level of `over`."""
    frame, rows = rows_where(frame, where), []
    for level in sorted(frame[over].unique()):
        for other in others:
            gain = paired(frame, value, key, first, other, {over: level}) * (-1 if lower_is_better else 1)
            if len(gain):
                numbers = {"gain": gain.mean(), "sd": gain.std(), "holds": exceeds_noise(gain)}
                rows.append({over: level, "first": first, "other": other} | numbers)
    evidence = pd.DataFrame(rows, columns=[over, "first", "other", "gain", "sd", "holds"])
    won, planned = int(evidence["holds"].sum()), frame[over].nunique() * len(others)
    if evidence.empty:
        return Finding(verdict(0, 0), f"0 of {planned} comparisons", evidence)
    smallest = evidence.loc[evidence["gain"].idxmin()]
    note = f"Smallest gain {smallest['gain']:+.4f} over {smallest['other']} at {over} {smallest[over]}."
    if len(evidence) < planned:
        note += f" Not measured: {planned - len(evidence)}."
    return Finding(verdict(won, planned), f"{won} of {planned} comparisons", evidence, note=note)


def near(frame: pd.DataFrame, value: str, key: str, first: str, other: str, over: str, margin: float) -> Finding:
    """`first` and `other` differ by at most `margin`, in the mean over seeds, at every level of `over`."""
    rows = []
    for level in frame[over].dropna().unique():
        gap = paired(frame, value, key, first, other, {over: level})
        if len(gap):
            rows.append({over: level, "difference": gap.mean(), "sd": gap.std(), "holds": abs(gap.mean()) <= margin})
    evidence = pd.DataFrame(rows, columns=[over, "difference", "sd", "holds"])
    close, note = int(evidence["holds"].sum()), ""
    if len(evidence):
        farthest = evidence.loc[evidence["difference"].abs().idxmax()]
        note = f"Largest difference {farthest['difference']:+.4f} at {over} {farthest[over]}."
    return Finding(verdict(close, len(evidence)), f"{close} of {len(evidence)} levels", evidence, note=note)


def gap_grows(frame: pd.DataFrame, value: str, key: str, first: str, others: list, over: str) -> Finding:
    """The lead of `first` over the best of `others` grows from each level of `over` to the next lower one."""
    best = frame[frame[key].isin(others)].groupby([over, "seed"])[value].max()
    of_first = frame[frame[key] == first].set_index([over, "seed"])[value]
    lead = (of_first - best).dropna().unstack("seed")  # levels x seeds
    evidence = pd.DataFrame({"lead": lead.mean(axis=1), "sd": lead.std(axis=1)}).reset_index()
    steps = [(sparse - dense).dropna() for (_, sparse), (_, dense) in pairwise(lead.iterrows())]
    grows = sum(exceeds_noise(step) for step in steps)
    note = "Lead from sparse to dense: " + ", ".join(f"{lead:+.4f}" for lead in evidence["lead"]) + "."
    return Finding(verdict(grows, len(steps)), f"{grows} of {len(steps)} steps", evidence, note=note)


def worst(
    frame: pd.DataFrame, value: str, key: str, which: Hashable, over: str, lower_is_better: bool = False
) -> Finding:
    """`which` has a worse mean than all other rows at every level of `over`."""
    means = frame.dropna(subset=[value]).groupby([over, key])[value].mean().unstack()
    last = means.idxmax(axis=1) if lower_is_better else means.idxmin(axis=1)
    evidence = means.reset_index().assign(worst=last.to_numpy())
    evidence.columns = [str(column) for column in evidence.columns]
    rivals = [level for level in means if level != which]
    if which not in means or not rivals:
        return Finding(verdict(0, 0), "0 of 0 levels", evidence)
    sign = 1 if lower_is_better else -1
    holds = sum(
        all(exceeds_noise(sign * paired(frame, value, key, which, rival, {over: level})) for rival in rivals)
        for level in means.index
    )
    return Finding(verdict(holds, len(last)), f"{holds} of {len(last)} levels", evidence)


def rises(
    frame: pd.DataFrame,
    value: str,
    key: str,
    over: str,
    lower_is_better: bool = False,
    where: dict[str, list] | None = None,
) -> Finding:
    """The value improves from each level of `key` to the next higher one measured, at every level of `over`."""
    frame = rows_where(frame, where)
    means = frame.groupby([over, key])[value].mean().unstack()
    sign = -1 if lower_is_better else 1
    gains = [
        sign * paired(frame, value, key, higher, lower, {over: level})
        for level in means.index
        for lower, higher in pairwise(means.loc[level].dropna().index)
    ]
    steps = [exceeds_noise(gain) for gain in gains]
    evidence = means.reset_index()
    evidence.columns = [str(column) for column in evidence.columns]
    return Finding(verdict(sum(steps), len(steps)), f"{sum(steps)} of {len(steps)} steps", evidence)


def stays_below(frame: pd.DataFrame, value: str, limit: float, over: str) -> Finding:
    """Every single value is below `limit`, at every level of `over`."""
    reached = frame[value] >= limit
    values = frame.assign(reached=reached).dropna(subset=[value]).groupby(over, as_index=False)
    evidence = values.agg(draws=("reached", "size"), reached=("reached", "sum"), largest=(value, "max"))
    holds = int((evidence["reached"] == 0).sum())
    note = (
        f"{reached.sum()} of {evidence['draws'].sum()} values reach {limit:g}, the largest is {frame[value].max():.3f}."
    )
    return Finding(verdict(holds, len(evidence)), f"{holds} of {len(evidence)} levels", evidence, note=note)


def at_least(frame: pd.DataFrame, value: str, over: str, least: float) -> Finding:
    """The mean of a value is `least` or more at every level of `over`; a blank level was not measured."""
    means = frame.groupby(over, sort=False)[value].mean()
    evidence = means.reset_index().assign(least=least, holds=(means >= least).to_numpy())
    measured = means.dropna()
    if measured.empty:
        return Finding(verdict(0, 0), f"0 of {len(means)} levels", evidence, note="Nothing measured at this scale.")
    note = f"Lowest {measured.min():.3g} at {over} {measured.idxmin()}."
    if len(measured) < len(means):
        note += f" Not measured: {len(means) - len(measured)}."
    holds = int((measured >= least).sum())
    return Finding(verdict(holds, len(measured)), f"{holds} of {len(measured)} levels", evidence, note=note)


def with_seeds(frame: pd.DataFrame, check: str, seeds: int, **options: Any) -> Finding:
    """Another check, judged only when there are enough seeds: the difference of two single runs is no evidence."""
    finding = CHECKS[check](frame, **options)
    have = frame["seed"].nunique()
    if have >= seeds:
        return finding
    note = f"Not judged: {have} of at least {seeds} seeds. {finding.note}"
    return replace(finding, verdict="not tested", note=note.strip())


def flat(frame: pd.DataFrame, value: str, key: str, over: str, within: float, levels: list | None = None) -> Finding:
    """The means of all levels of `key` (or of some) lie within `within` of each other, at every level of `over`."""
    wanted = frame if levels is None else frame[frame[key].isin(levels)]
    means = wanted.groupby([over, key])[value].mean().unstack()
    spans = (means.max(axis=1) - means.min(axis=1))[means.notna().sum(axis=1) > 1]
    evidence = means.assign(range=spans).reset_index()
    evidence.columns = [str(column) for column in evidence.columns]
    if spans.empty or not set(levels or ()) <= set(means.columns):
        return Finding(verdict(0, 0), "0 of 0 levels", evidence)
    holds = int((spans <= within).sum())
    note = f"Largest range {spans.max():.4f}; counted as flat up to {within:g}."
    return Finding(verdict(holds, len(spans)), f"{holds} of {len(spans)} levels", evidence, note=note)


def ratio(frame: pd.DataFrame, value: str, key: str, first: str, second: str, printed: float, within: float) -> Finding:
    """first / second, seed by seed, is about the printed ratio; partly so if it lies on the same side of 1."""
    table = frame.pivot_table(index="seed", columns=key, values=value)
    if not {first, second} <= set(table):
        return Finding(verdict(0, 0), None, table.reset_index(), reported=printed)
    evidence = table[[first, second]].assign(ratio=table[first] / table[second]).reset_index()
    ratios = evidence["ratio"].dropna()
    if ratios.empty:
        return Finding(verdict(0, 0), None, evidence, reported=printed)
    close = abs(ratios.mean() - printed) <= within
    same_side = exceeds_noise((ratios - 1) * (1 if printed > 1 else -1))
    word = "reproduced" if close else "partly" if same_side else "not reproduced"
    spread = float(ratios.std()) if len(ratios) > 1 else None
    return Finding(word, f"{ratios.mean():.2f}", evidence, spread=spread, reported=printed)


def audit(*rows: tuple) -> pd.DataFrame:
    """What `statement` reads: rows of (quantity, printed, found, holds)."""
    return pd.DataFrame(rows, columns=["quantity", "printed", "found", "holds"])


def statement(frame: pd.DataFrame) -> Finding:
    """An audit worked out in a notebook: columns quantity, printed, found and holds, one row per quantity."""
    if frame.empty:
        return Finding(verdict(0, 0), None, frame)
    holds = frame["holds"].eq(True)  # a blank does not hold
    decisive = frame[~holds] if not holds.all() else frame
    shown = "; ".join(f"{row.quantity}: {_short(row.found)}" for row in decisive.head(4).itertuples())
    printed = "; ".join(f"{row.quantity}: {_short(row.printed)}" for row in decisive.head(4).itertuples())
    return Finding("holds" if holds.all() else "does not hold", shown, frame, reported=printed)


def _short(value: Any) -> str:
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return str(value)


CHECKS: dict[str, Callable[..., Finding]] = {
    check.__name__: check
    for check in (
        above,
        near,
        gap_grows,
        worst,
        rises,
        flat,
        ratio,
        stays_below,
        at_least,
        with_seeds,
        statement,
    )
}
