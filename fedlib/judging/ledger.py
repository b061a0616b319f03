"""The ledger: what the papers print, what we measured, and the verdict.

What a paper prints is in `papers/<paper>/paper.yaml` (`entries`). A report folder holds the measured numbers,
`data/<id>.csv`, one row per seed, and beside them the parameters they were computed with, `data/<id>.json` (`facts`).
`judge` joins the two; nothing else decides a verdict. `ledger.json` has one line per entry:

    id, paper, kind, statement, page, ours, scale    which entry, and at which scale its paper is shown
    verdict, note                                    one of the verdicts below, and remarks
    reported, measured      of a claim: None, "12 hold, 1 reversed, of 13"; of an audit: what decided, printed and
                            found; of a figure or table with printed numbers: label -> number
    effect, interval        of a claim: the comparison that supports it least, and [low, high]; None if exact
    unit, seeds             what numbers are repeated over, and how often (the fewest of all comparisons)
    quantity, quantifier, currency, margin           of a claim: what is compared, how often it must hold, at what cost
    counts                  of a claim: {holds, reversed, undecided, not comparable, not run, of}
                            of printed numbers: {matches, differs (ours higher), ..., of}
    comparisons             of a claim: [{label, effect, interval, n, outcome, margin, near, detectable, needed, note}];
                            effects are positive where they support the claim, in the unit of `quantity`. A `near` one
                            holds inside +-margin; the others above it. `interval` is the one that decided (95%; of
                            "near" 90%), None for exact and single values; effect is None if nothing was compared
    averaged                of a claim about the average: the same for the mean of all comparisons; otherwise None
    needs                   of a claim: [{name, value, have, met, because}]
    readings                of a claim with several: [{reading, verdict, measured, effect, interval, counts,
                            comparisons}], the printed reading, whose verdict is the claim's, first
    cells                   of printed numbers: [{label, reported, measured, interval, n, verdict, why}]; `why` says
                            what keeps a number from being compared
    printed_in              "%", "s", "rounds": the unit of the printed numbers

Verdicts. Claims: reproduced, contradicted, undecided, not judged at this scale. Printed numbers: matches, within bound
(print gives no more than a bound), differs (ours higher), differs (ours lower), undecided; not comparable if the run is
not in the printed setting, or if no number is given because not every run has one. A whole table: the first of differs,
undecided, matches, within bound, not comparable that any of its numbers has. Audits: holds, does not hold. Figures
without printed numbers: regenerated; schematics: redrawn. Anything without numbers in the report: not run.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedlib.data.files import write_atomically, write_text
from fedlib.judging import checks, claims, facts
from fedlib.judging.claims import Decision, Finding
from fedlib.judging.entries import (
    COMPARED,
    DRAWN,
    FOLDER,
    KINDS,
    Entry,
    LedgerError,
    Paper,
    PrintedBlock,
    in_print,
    known_as,
    label,
    load,
    papers,
    printed_range,
    reading_needs,
    reading_options,
)
from fedlib.judging.facts import UNITS, Checked, Need
from fedlib.judging.statistics import FEWEST, LEVEL, estimate
from fedlib.runs import durations

__all__ = [
    "COMPARED",
    "DRAWN",
    "FOLDER",
    "INCOMPLETE",
    "KINDS",
    "Entry",
    "LedgerError",
    "Paper",
    "PrintedBlock",
    "compare",
    "data_file",
    "in_print",
    "judge",
    "known_as",
    "label",
    "load",
    "measured",
    "otherwise",
    "overall",
    "papers",
    "printed",
    "printed_range",
    "said_otherwise",
    "sources",
    "write",
    "write_evidence",
]

NOT_JUDGED = "not judged at this scale"
NOT_COMPARABLE = "not comparable"
NOT_RUN = "not run"
HIGHER, LOWER = "differs (ours higher)", "differs (ours lower)"
INCOMPLETE = "not every run has a number"  # why a printed number in our setting cannot be compared
BOUND = "within bound"  # print gives a bound alone, such as "<90"
DECIDED = ("matches", BOUND, HIGHER, LOWER, "undecided")  # of printed numbers that could be compared
CELL_VERDICTS = (*DECIDED, NOT_COMPARABLE, NOT_RUN)


def data_file(report: Path, id: str) -> Path:
    """Where a report keeps the numbers behind an entry."""
    return Path(report) / "data" / f"{id.replace('/', '-')}.csv"


def measured(report: Path, id: str) -> pd.DataFrame | None:
    """The numbers behind a figure or table in this report, or None."""
    file = data_file(report, id)
    return pd.read_csv(file) if file.exists() else None


def judge(entry: Entry, report: Path) -> dict[str, Any]:
    """One line of the ledger: the entry joined with this report's numbers."""
    line = _blank(entry)
    if entry.kind == "claim":
        return line | _claim(entry, report)
    frame = measured(report, entry.id)
    if frame is None:
        return line | {"note": _join(entry.note, "Its numbers are not in this report.")}
    seeds = int(frame["seed"].nunique()) if "seed" in frame else None
    if entry.kind == "audit":
        audited = checks.statement(frame)
        return line | {"verdict": audited.verdict, "reported": audited.reported, "measured": audited.measured}
    if entry.kind == "schematic":
        return line | {"verdict": "redrawn"}
    if not entry.blocks:
        return line | {"verdict": "regenerated", "seeds": seeds}
    cells = compare(entry, frame, facts.parameters(report, entry.id))
    columns = {key: {cell["label"]: cell[key] for cell in cells} for key in ("reported", "measured", "interval")}
    verdicts = [cell["verdict"] for cell in cells]
    counter = Counter(verdicts)
    counts = {verdict: counter[verdict] for verdict in CELL_VERDICTS} | {"of": len(cells)}
    reasons = "; ".join(dict.fromkeys(cell["why"] for cell in cells if cell["verdict"] == NOT_COMPARABLE))
    note = _join(entry.note, f"Not comparable: {reasons}." if reasons else "")
    compared = {"seeds": seeds, "cells": cells, "counts": counts, "verdict": overall(verdicts), "note": note}
    return line | columns | compared


def _blank(entry: Entry) -> dict[str, Any]:
    claim = entry.kind == "claim"
    return {
        "id": entry.id,
        "paper": entry.id.split("/")[0],
        "kind": entry.kind,
        "statement": entry.statement,
        "page": entry.page,
        "ours": entry.ours,
        "reported": None,
        "measured": None,
        "effect": None,
        "interval": None,
        "unit": entry.unit,
        "seeds": None,
        "verdict": NOT_JUDGED if claim else NOT_RUN,
        "note": entry.note,
        "quantity": entry.options.get("value", "") if claim else entry.value,
        "quantifier": entry.quantifier,
        "currency": entry.currency,
        "margin": entry.margin,
        "counts": {},
        "comparisons": [],
        "averaged": None,
        "needs": [],
        "readings": [],
        "cells": [],
        "printed_in": entry.printed_in,
        "tolerance": entry.tolerance,
    }


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


# Claims


def _claim(entry: Entry, report: Path) -> dict[str, Any]:
    """The part of a line that only claims have: by the first reading, with the verdicts of the others added."""
    lines = {reading: _reading(entry, report, reading) for reading in entry.readings or [""]}
    first, *others = lines
    if not others:
        return lines[first]
    shared = ("verdict", "measured", "effect", "interval", "counts", "comparisons", "needs")
    told = [{"reading": reading} | {key: line[key] for key in shared if key in line} for reading, line in lines.items()]
    note = _join(f"Read as {first!r}.", lines[first]["note"], said_otherwise(told))
    return lines[first] | {"readings": told, "note": note}


def otherwise(readings: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """The readings of a line but the first, which decides: verdict -> their names."""
    groups: dict[str, list[str]] = {}
    for reading in readings[1:]:
        groups.setdefault(reading["verdict"], []).append(reading["reading"])
    return groups


def said_otherwise(readings: Sequence[dict[str, Any]]) -> str:
    """The sentences of a note about readings but the first; empty where there is one."""
    told = [f"{verdict.capitalize()}: {'; '.join(names)}." for verdict, names in otherwise(readings).items()]
    return _join("Other readings.", *told) if told else ""


def sources(entry: Entry) -> set[str]:
    """The ids whose numbers decide about an entry."""
    return {_source(entry, reading) for reading in entry.readings or [""]}


def _source(entry: Entry, reading: str) -> str:
    return entry.readings.get(reading, {}).get("data") or entry.data or entry.id


def _reading(entry: Entry, report: Path, reading: str) -> dict[str, Any]:
    data = _source(entry, reading)
    frame = measured(report, data)
    if frame is None:
        missing = _join(entry.note, "Its numbers are not in this report.")
        return {"verdict": NOT_JUDGED, "note": missing, "measured": None, "effect": None, "interval": None}
    decision = decide(entry, frame, facts.parameters(report, data), reading)
    needs = check_needs(entry, decision, facts.parameters(report, data), reading)
    unmet = [need for need in needs if not need.met]
    smallest = decision.smallest
    return {
        "verdict": NOT_JUDGED if unmet else decision.verdict,
        "note": _join(entry.note, _remark(entry, decision, unmet)),
        "measured": claims.counted(decision),
        "effect": smallest.effect if smallest else None,
        "interval": _pair(smallest.interval) if smallest else None,
        "seeds": decision.fewest_units,
        "counts": decision.counts,
        "comparisons": [_told(finding) for finding in decision.findings],
        "averaged": _told(decision.averaged) if decision.averaged else None,
        "needs": [need.told() for need in needs],
    }


def decide(entry: Entry, frame: pd.DataFrame, parameters: dict[str, Any], reading: str = "") -> Decision:
    """The comparisons of a claim on these data, judged, whether or not its needs are met."""
    resolution = facts.resolution(entry.resolution, parameters)
    options = reading_options(entry, reading)
    margin = 0.0 if entry.margin is None and "times" in options else entry.margin  # a factor is a margin
    listed = checks.comparisons(entry.check, frame, entry.unit, options)
    stated = [replace(comparison, margin=margin, resolution=resolution) for comparison in listed]
    return claims.decide(stated, entry.quantifier)


def check_needs(entry: Entry, decision: Decision, parameters: dict[str, Any], reading: str = "") -> list[Checked]:
    """The needs of a reading of a claim and what the run had, including the units that any comparison needs."""
    units = decision.fewest_units
    have = parameters | ({} if units is None else {UNITS: units})
    needs = [need for need in reading_needs(entry, reading) if need.name != UNITS or units is not None]
    family = len(decision.findings) > claims.LARGE_FAMILY and decision.averaged is None
    least = claims.UNITS_OF_LARGE_FAMILY if family else FEWEST
    if units is not None and not any(need.name == UNITS and need.value >= least for need in needs):
        reason = f"a family of more than {claims.LARGE_FAMILY} comparisons" if family else "fewer decide nothing"
        needs.append(Need(UNITS, least, reason))
    return [facts.check(need, have) for need in needs]


def _remark(entry: Entry, decision: Decision, unmet: Sequence[Checked]) -> str:
    if unmet:
        return _join(*(lack(need.told()) for need in unmet))
    if decision.verdict != "undecided":
        return ""
    return _join(claims.outlook(decision, entry.unit), _cost_of_a_seed(entry) if entry.unit == "seed" else "")


def _cost_of_a_seed(entry: Entry) -> str:
    seconds = durations.seconds_per_seed(entry.id.split("/")[0])
    return (
        ""
        if seconds is None
        else f"One more seed of all runs of this paper takes {durations.in_words(seconds)} of one core."
    )


def lack(need: dict[str, Any]) -> str:
    """The sentence of a note about a need that the run does not meet."""
    return f"Needs {need['name']} {need['value']}, has {need['have']}: {need['because']}."


def _told(finding: Finding) -> dict[str, Any]:
    return {
        "label": finding.label,
        "effect": finding.effect,
        "interval": _pair(finding.interval),
        "n": finding.n,
        "outcome": finding.outcome,
        "margin": finding.margin,
        "near": finding.near,
        "detectable": finding.detectable,
        "needed": finding.needed,
        "note": finding.note,
    }


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


# Printed numbers


def printed(id: str) -> pd.DataFrame:
    """The printed numbers of an entry as rows: the `where` of their block, row name, column and `printed`."""
    rows = []
    for block in load(id.split("/")[0]).entry(id).blocks:
        ((axis, levels),) = block.columns.items()
        for name, values in block.printed.items():
            for level, value in zip(levels, values, strict=True):
                rows.append(block.where | {block.rows: name, axis: level, "printed": value})
    return pd.DataFrame(rows)


def compare(entry: Entry, frame: pd.DataFrame, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Every printed number beside what was measured, with its verdict."""
    return [cell for block in entry.blocks for cell in _compare_block(entry, block, frame, parameters)]


def _compare_block(
    entry: Entry, block: PrintedBlock, frame: pd.DataFrame, parameters: dict[str, Any]
) -> list[dict[str, Any]]:
    ((axis, levels),) = block.columns.items()
    for column, value in block.where.items():
        frame = frame[frame[column] == value]
    why = entry.not_comparable or _elsewhere((entry.setting or {}) | block.setting, parameters)
    cells = []
    for name, printed in block.printed.items():
        tolerance = entry.tolerance_of(block.deviations.get(name, entry.deviation))
        for level, reported in zip(levels, printed, strict=True):
            if reported is not None:
                rows = frame[(frame[block.rows] == name) & (frame[axis] == level)]
                words = ", ".join(map(str, [*block.where.values(), name, level]))
                cells.append({"label": words, "reported": reported} | _cell(entry, reported, rows, tolerance, why))
    return cells


def _elsewhere(setting: dict[str, Any], parameters: dict[str, Any]) -> str:
    """How the run differs from the printed setting, in words; empty if it does not."""
    differing = facts.differing(setting, parameters).items()
    return "; ".join(f"{name} {_word(ours)}, printed {_word(theirs)}" for name, (theirs, ours) in differing)


def _word(value: Any) -> str:
    return "all" if value is None else str(value)


def _cell(entry: Entry, reported: float | str, rows: pd.DataFrame, tolerance: float, why: str) -> dict[str, Any]:
    columns = checks.UNITS[entry.unit]
    values = rows.dropna(subset=[entry.value])
    if values.empty:
        blank = (
            {"verdict": NOT_RUN, "why": why} if why or rows.empty else {"verdict": NOT_COMPARABLE, "why": INCOMPLETE}
        )
        return {"measured": None, "interval": None, "n": 0} | blank
    numbers = (
        values.groupby(columns)[entry.value].mean() * entry.scale if columns else values[entry.value] * entry.scale
    )
    mean = float(numbers.mean())
    interval = (mean, mean) if entry.unit == checks.EXACT else estimate(numbers).interval(2 * LEVEL)
    decidable = entry.unit == checks.EXACT or len(numbers) >= FEWEST
    why = why or (INCOMPLETE if len(values) < len(rows) else "")
    verdict = NOT_COMPARABLE if why else _against(reported, tolerance, interval) if decidable else "undecided"
    shown = None if entry.unit == checks.EXACT else _pair(interval)
    return {"measured": mean, "interval": shown, "n": len(numbers), "verdict": verdict, "why": why}


def _against(reported: float | str, tolerance: float, interval: tuple[float, float] | None) -> str:
    """Two one-sided tests: our 90% interval lies within the tolerance of the printed value, beyond it, or neither.

    To lie within a bound says less than to match a number.
    """
    low, high = printed_range(reported)
    low, high = low - tolerance - 1e-12, high + tolerance + 1e-12
    if interval is None:
        return "undecided"
    if low <= interval[0] and interval[1] <= high:
        return "matches" if math.isfinite(low + high) else BOUND
    return HIGHER if interval[0] > high else LOWER if interval[1] < low else "undecided"


def overall(verdicts: Sequence[str]) -> str:
    """The verdict of a whole figure or table: the worst that its comparable numbers have."""
    if any(verdict in (HIGHER, LOWER) for verdict in verdicts):
        return "differs"
    return next((word for word in ("undecided", "matches", BOUND, NOT_COMPARABLE) if word in verdicts), NOT_RUN)


# A report


def write(report: Path, scales: Mapping[str, str]) -> list[dict[str, Any]]:
    """Judge all entries of these papers, each shown at its scale, and write `ledger.json`; the comparisons of claims
    become CSV files."""
    report = Path(report)
    lines = []
    for name, scale in scales.items():
        for entry in load(name).entries:
            lines.append({"scale": scale} | judge(entry, report))
            write_evidence(entry, report, lines[-1])
    write_text(report / "ledger.json", json.dumps(lines, indent=1, ensure_ascii=False))
    return lines


def write_evidence(entry: Entry, report: Path, line: dict[str, Any]) -> None:
    """Write the comparisons of a claim that reads the data of another entry; one with its own data keeps those."""
    if line["comparisons"] and entry.data:
        evidence = pd.DataFrame(line["comparisons"])
        evidence[["low", "high"]] = [pair or [None, None] for pair in evidence.pop("interval")]
        write_atomically(data_file(report, entry.id), lambda path: evidence.to_csv(path, index=False))
