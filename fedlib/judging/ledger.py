"""The ledger: what the papers print, what we measured, and the verdict.

What a paper prints lives in `papers/<paper>/paper.yaml`: its figures and tables with their numbers, its claims as named
checks (`checks.py`), audits of its own arithmetic. A report folder holds the measured numbers, `data/<id>.csv`, one row
per seed. `judge` joins the two; nothing else decides a verdict.
"""

import contextlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from fedlib.data.files import write_atomically, write_text
from fedlib.judging import checks

FOLDER = Path(__file__).resolve().parents[1] / "papers"
KINDS = ("figure", "table", "schematic", "claim", "audit")
COMPARED = ("figure", "table")


class LedgerError(ValueError):
    """A paper's YAML file is wrong; the message names the file, the line and what would be right."""


@dataclass(frozen=True)
class PrintedBlock:
    """Printed numbers: rows x one column axis, for the rows of the data that match `where`."""

    rows: str  # column of the data that names the rows, e.g. method
    columns: dict[str, list]  # one axis of the data and its values, e.g. {participation: [5, 10]}
    printed: dict[Any, list]  # row name -> one printed value per column: a number, "87..89", "<90", ">0.9" or null
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One line of the ledger as the paper gives it."""

    id: str
    kind: str
    statement: str
    page: str  # the notebook that shows it
    alt: str = ""  # figures: what one would see
    value: str = ""  # figures and tables with printed numbers: column of the data that they print
    unit: str = ""
    scale: float = 1.0  # printed = scale * measured, e.g. 100 for percentages
    tolerance: float = 0.0  # in printed units: how far apart still counts as the same
    better: str = "higher"  # or lower
    blocks: tuple[PrintedBlock, ...] = ()
    check: str = ""  # claims and audits: name of a function in checks.py ...
    data: str = ""  # ... the id whose data it reads ...
    options: dict[str, Any] = field(default_factory=dict)  # ... and its arguments
    note: str = ""
    ours: bool = False  # a question the paper does not ask


@dataclass(frozen=True)
class Paper:
    """A paper and everything it prints that we regenerate or judge."""

    name: str
    title: str
    authors: str
    venue: str
    idea: str
    entries: tuple[Entry, ...]
    short: str = ""  # as people write its name: FedGS

    def entry(self, id: str) -> Entry:
        """The entry with this id, such as acfmo/fig1."""
        for entry in self.entries:
            if entry.id == id:
                return entry
        raise KeyError(f"{id!r} is not in the ledger of {self.name}; it has: {', '.join(e.id for e in self.entries)}")


def papers() -> list[str]:
    """The names of all papers with a YAML file."""
    return sorted(file.parent.name for file in FOLDER.glob("*/paper.yaml"))


def load(paper: str, folder: Path = FOLDER) -> Paper:
    """Read and validate what a paper prints."""
    name = f"{paper}/paper.yaml"
    file = folder / name
    if not file.exists():
        raise LedgerError(f"no paper {paper!r}; known: {', '.join(papers())}")
    try:
        tree = yaml.load(file.read_text(encoding="utf-8"), Loader=_LineLoader)
    except yaml.YAMLError as error:
        raise LedgerError(_yaml_complaint(error, name)) from None
    return _paper(tree, name)


def _yaml_complaint(error: yaml.YAMLError, file: str) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{file}, line {error.problem_mark.line + 1}: {error.problem}"
    return f"{file}: {error}"


def known_as(paper: str) -> str:
    """fedgs -> FedGS; a paper without a name of its own in capitals."""
    return (load(paper).short if paper in papers() else "") or paper.upper()


# The loader written in C is ten times as fast, but not every installation of PyYAML has it.
_FASTEST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _LineLoader(_FASTEST_LOADER):
    """Mappings remember the line they start on."""


def _mapping(loader: _LineLoader, node: yaml.MappingNode) -> "_Lined":
    _refuse_repeated_keys(node)
    loader.flatten_mapping(node)
    return _Lined(loader.construct_pairs(node, deep=True), node.start_mark.line + 1)


def _refuse_repeated_keys(node: yaml.MappingNode) -> None:
    """YAML would keep the last of two and lose numbers without a word."""
    seen = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in seen:
            problem = (
                "keys must be plain" if not isinstance(key, yaml.ScalarNode) else f"key {key.value!r} appears twice"
            )
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
        seen.add(key.value)


class _Lined(dict[str, Any]):
    """A mapping and the line it starts on."""

    def __init__(self, pairs: Iterable[tuple[str, Any]], line: int):
        super().__init__(pairs)
        self.line = line


_LineLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _paper(tree: Any, file: str) -> Paper:
    if not isinstance(tree, _Lined):
        raise LedgerError(f"{file}, line 1: expected a mapping with the keys {', '.join(Paper.__dataclass_fields__)}")
    _require_keys(tree, Paper, file)
    _require_kind(tree, "entries", list, file)
    entries = tuple(_entry(entry, file) for entry in tree["entries"])
    seen: set[str] = set()
    for entry, raw in zip(entries, tree["entries"], strict=True):
        _require(entry.id not in seen, raw, file, f"{entry.id} appears twice")
        seen.add(entry.id)
    fields: dict[str, Any] = {**tree, "entries": entries}
    paper = Paper(**fields)
    for entry, raw in zip(entries, tree["entries"], strict=True):
        _require(entry.id.startswith(paper.name + "/"), raw, file, f"id {entry.id!r} must start with '{paper.name}/'")
        _require(not entry.data or entry.data in seen, raw, file, f"data: {entry.data!r} is no id of this file")
    return paper


def _entry(raw: Any, file: str) -> Entry:
    if not isinstance(raw, _Lined):
        raise LedgerError(f"{file}: each entry must be a mapping, not {raw!r}")
    _require_keys(raw, Entry, file)
    _require(raw["kind"] in KINDS, raw, file, f"kind {raw['kind']!r} must be one of {', '.join(KINDS)}")
    for name, kind in (("blocks", list), ("options", dict)):
        _require_kind(raw, name, kind, file)
    blocks = tuple(_block(block, raw, file) for block in raw.get("blocks", ()))
    fields: dict[str, Any] = {**raw, "blocks": blocks}
    entry = Entry(**fields)
    judged = entry.kind in ("claim", "audit")
    _require(judged == bool(entry.check), raw, file, "claims and audits, and only they, name a check")
    known = sorted(checks.CHECKS)
    _require(not judged or entry.check in known, raw, file, f"unknown check {entry.check!r}; known: {', '.join(known)}")
    if judged:
        _require_options(entry, raw, file)
    _require(
        not blocks or bool(entry.value), raw, file, "printed numbers need `value`, the column of the data they print"
    )
    _require(entry.better in ("higher", "lower"), raw, file, "better must be 'higher' or 'lower'")
    _require(
        entry.kind not in COMPARED or bool(entry.alt), raw, file, "figures and tables need `alt`, what one would see"
    )
    return entry


def _block(raw: Any, entry: _Lined, file: str) -> PrintedBlock:
    _require(isinstance(raw, _Lined), entry, file, f"each block must be a mapping, not {raw!r}")
    _require_keys(raw, PrintedBlock, file)
    for name in ("columns", "printed", "where"):
        _require_kind(raw, name, dict, file)
    _require(len(raw["columns"]) == 1, raw, file, "`columns` names one axis and its values")
    ((axis, levels),) = raw["columns"].items()
    _require_kind(raw["columns"], axis, list, file)
    for name, cells in raw["printed"].items():
        _require_kind(raw["printed"], name, list, file)
        width = len(levels)
        _require(len(cells) == width, raw, file, f"row {name!r} has {len(cells)} numbers for {width} columns")
        for cell in (cell for cell in cells if cell is not None):
            try:
                printed_range(cell)
            except ValueError as problem:
                raise LedgerError(f"{file}, line {raw.line}: row {name!r}: {problem}") from None
    return PrintedBlock(**raw)


def _require_keys(raw: _Lined, kind: type, file: str) -> None:
    fields = kind.__dataclass_fields__
    unknown = sorted(set(raw) - set(fields))
    _require(not unknown, raw, file, f"unknown key {', '.join(map(repr, unknown))}; known: {', '.join(fields)}")
    required = [name for name, spec in fields.items() if repr(spec.default) == repr(spec.default_factory)]
    missing = [name for name in required if name not in raw]
    _require(not missing, raw, file, f"missing key {', '.join(map(repr, missing))}")


def _require_kind(raw: _Lined, name: str, kind: type, file: str) -> None:
    if name in raw:
        wanted = {list: "list", dict: "mapping"}[kind]
        _require(isinstance(raw[name], kind), raw, file, f"{name!r} must be a {wanted}, not {raw[name]!r}")


def _require_options(entry: Entry, raw: _Lined, file: str) -> None:
    try:
        signature(checks.CHECKS[entry.check]).bind("the data", **entry.options)
    except TypeError as problem:
        raise LedgerError(f"{file}, line {raw.line}: options of check {entry.check!r}: {problem}") from None


def _require(condition: bool, raw: _Lined, file: str, complaint: str) -> None:
    if not condition:
        raise LedgerError(f"{file}, line {raw.line}: {complaint}")


def printed_range(cell: float | str) -> tuple[float, float]:
    """Low and high of a printed value: 96, "87..89", "<90" or ">0.9"."""
    with contextlib.suppress(ValueError):
        low, high = _bounds(cell)
        if low <= high:
            return low, high
    raise ValueError(f"{cell!r} is no printed value: write a number, 'low..high', '<high' or '>low'")


def _bounds(cell: float | str) -> tuple[float, float]:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float(cell), float(cell)
    text = str(cell)
    if text.startswith("<"):
        return float("-inf"), float(text[1:])
    if text.startswith(">"):
        return float(text[1:]), float("inf")
    low, high = text.split("..")
    return float(low), float(high)


def label(id: str) -> str:
    """acfmo/fig1 -> Fig. 1, fedgs/table2 -> Table 2, acfmo/claim-best-mnist -> Claim best mnist."""
    name = id.split("/", 1)[-1]
    numbered = re.fullmatch(r"(fig|table)-?(\d+\w*)", name)
    if numbered:
        return f"{'Fig.' if numbered[1] == 'fig' else 'Table'} {numbered[2]}"
    return name[:1].upper() + name[1:].replace("-", " ")


def data_file(report: Path, id: str) -> Path:
    """Where a report keeps the numbers behind an entry."""
    return Path(report) / "data" / f"{id.replace('/', '-')}.csv"


def measured(report: Path, id: str) -> pd.DataFrame | None:
    """The numbers behind a figure or table in this report, or None."""
    file = data_file(report, id)
    return pd.read_csv(file) if file.exists() else None


def judge(entry: Entry, report: Path) -> dict[str, Any]:
    """One line of the ledger: the entry joined with this report's numbers."""
    line = {
        "id": entry.id,
        "paper": entry.id.split("/")[0],
        "kind": entry.kind,
        "statement": entry.statement,
        "reported": None,
        "measured": None,
        "spread": None,
        "seeds": None,
        "verdict": "not tested",
        "note": entry.note,
        "cells": [],
        "page": entry.page,
        "unit": entry.unit,
        "ours": entry.ours,
    }
    frame = measured(report, entry.data or entry.id)
    if frame is None:
        return line | {"note": _join(entry.note, "Its numbers are not in this report.")}
    seeds = int(frame["seed"].nunique()) if "seed" in frame else None
    if entry.check:
        return line | {"seeds": seeds} | _checked(entry, frame)
    if entry.kind == "schematic":
        return line | {"verdict": "redrawn"}
    if not entry.blocks:
        return line | {"verdict": "regenerated", "seeds": seeds}
    cells = compare(entry, frame)
    columns = {key: {cell["label"]: cell[key] for cell in cells} for key in ("reported", "measured", "spread")}
    return line | columns | {"seeds": seeds, "cells": cells, "verdict": overall([cell["verdict"] for cell in cells])}


def _checked(entry: Entry, frame: pd.DataFrame) -> dict[str, Any]:
    finding = checks.CHECKS[entry.check](frame, **entry.options)
    return {
        "reported": finding.reported,
        "measured": finding.measured,
        "spread": finding.spread,
        "verdict": finding.verdict,
        "note": _join(entry.note, finding.note),
    }


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def compare(entry: Entry, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Each printed number beside the mean and the standard deviation of ours over seeds."""
    return [cell for block in entry.blocks for cell in _compare_block(entry, block, frame)]


def _compare_block(entry: Entry, block: PrintedBlock, frame: pd.DataFrame) -> list[dict[str, Any]]:
    ((axis, levels),) = block.columns.items()
    for column, value in block.where.items():
        frame = frame[frame[column] == value]
    cells = []
    for name, printed in block.printed.items():
        for level, cell in zip(levels, printed, strict=True):
            if cell is not None:
                rows = frame[(frame[block.rows] == name) & (frame[axis] == level)]
                values = rows[entry.value].dropna() * entry.scale  # a blank is no measurement
                label = ", ".join(map(str, [*block.where.values(), name, level]))
                cells.append({"label": label} | _cell(entry, cell, values))
    return cells


def _cell(entry: Entry, cell: float | str, values: pd.Series) -> dict[str, Any]:
    if values.empty:
        return {"reported": cell, "measured": None, "spread": None, "verdict": "not tested"}
    mean, spread = float(values.mean()), float(values.std()) if len(values) > 1 else None
    low, high = printed_range(cell)
    slack = entry.tolerance + (spread or 0.0)
    verdict = "matches"
    if mean > high + slack:
        verdict = "better than printed" if entry.better == "higher" else "worse than printed"
    elif mean < low - slack:
        verdict = "worse than printed" if entry.better == "higher" else "better than printed"
    return {"reported": cell, "measured": mean, "spread": spread, "verdict": verdict}


def overall(verdicts: list[str]) -> str:
    """The verdict of a whole figure or table from those of its cells."""
    tested = [verdict for verdict in verdicts if verdict != "not tested"]
    if not tested:
        return "not tested"
    if all(verdict == "matches" for verdict in tested):
        return "reproduced" if len(tested) == len(verdicts) else "partly"
    if all(verdict in ("matches", "better than printed") for verdict in tested):
        return "better than printed"
    return "partly" if any(verdict == "matches" for verdict in tested) else "not reproduced"


def write(report: Path, names: list[str], scale: str) -> list[dict[str, Any]]:
    """Judge all entries of these papers and write `ledger.json`; evidence of claims and audits becomes CSV files."""
    report = Path(report)
    lines = []
    for entry in (entry for name in names for entry in load(name).entries):
        lines.append({"scale": scale} | judge(entry, report))
        if entry.check:
            write_evidence(entry, report)
    text = json.dumps(lines, indent=1, ensure_ascii=False)
    write_text(report / "ledger.json", text)
    return lines


def write_evidence(entry: Entry, report: Path) -> pd.DataFrame | None:
    """The numbers a claim or audit was judged by, written beside the others."""
    frame = measured(report, entry.data or entry.id)
    if frame is None:
        return None
    evidence = checks.CHECKS[entry.check](frame, **entry.options).evidence
    evidence = frame if evidence.empty else evidence  # nothing could be compared: show with what
    if entry.data:
        write_atomically(data_file(report, entry.id), lambda path: evidence.to_csv(path, index=False))
    return evidence
