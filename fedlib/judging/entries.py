"""What papers print, read from `papers/<paper>/paper.yaml`: figures and tables, claims, audits. Errors name the line.

A claim says in our words what the text says, how often (`quantifier`: all, most, average), over which `unit`, at what
cost (`currency`), what a run `needs` to decide it, each need with its reason, and the check with its options that turns
data into comparisons. Where the text can be read in several ways, `readings` lists them, the printed one first; a
reading may have data and needs of its own.

A printed number belongs to a `setting`, parameters of the notebook with their printed values, or is `not_comparable`
with a reason. It is compared within half its `rounding`, one step of its last digit, plus twice the `deviation` between
single runs, stated beforehand, because papers print single runs.
"""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from fedlib.judging import checks
from fedlib.judging.claims import QUANTIFIERS
from fedlib.judging.facts import Need

FOLDER = Path(__file__).resolve().parents[1] / "papers"
DRAWN = ("figure", "table", "schematic")
KINDS = (*DRAWN, "claim", "audit")
COMPARED = ("figure", "table")
CURRENCIES = ("rounds", "sample gradients", "steps in a row", "transfers", "seconds", "joules", "none")
OF_CLAIMS = ("check", "quantifier", "unit", "currency", "needs")  # keys that every claim has


class LedgerError(ValueError):
    """A paper's YAML file is wrong; the message names the file, the line and what would be right."""


@dataclass(frozen=True)
class PrintedBlock:
    """Printed numbers: rows x one column axis, for the rows of the data that match `where`."""

    rows: str  # column of the data that names the rows, e.g. method
    columns: dict[str, list]  # one axis of the data and its values, e.g. {participation: [5, 10]}
    printed: dict[Any, list]  # row name -> one printed value per column: a number, "87..89", "<90", ">0.9" or null
    where: dict[str, Any] = field(default_factory=dict)
    setting: dict[str, Any] = field(default_factory=dict)  # in addition to that of the entry
    deviations: dict[Any, float] = field(default_factory=dict)  # of rows with another one than the entry's


@dataclass(frozen=True)
class Entry:
    """One line of the ledger as the paper gives it."""

    id: str
    kind: str
    statement: str
    page: str  # the notebook that shows it
    alt: str = ""  # figures: what is drawn, for those who cannot see it
    like: str = ""  # figures: the id of one that shows the same curves; the index folds them together
    value: str = ""  # figures and tables with printed numbers: column of the data that they print
    printed_in: str = ""  # "%", "s", "rounds"
    scale: float = 1.0  # printed = scale * measured, e.g. 100 for percentages
    rounding: float = 0.0  # in printed units: one step of the last digit
    deviation: float = 0.0  # of a single run, in printed units, stated before ours are run
    blocks: tuple[PrintedBlock, ...] = ()
    setting: dict[str, Any] | None = None  # parameters that the printed numbers belong to ...
    not_comparable: str = ""  # ... or why no run of ours can have them
    unit: str = "seed"  # what a measured number is repeated over
    check: str = ""  # claims: name of a function in checks.py ...
    data: str = ""  # ... the id whose data it reads ...
    options: dict[str, Any] = field(default_factory=dict)  # ... and its arguments
    quantifier: str = ""
    currency: str = ""
    margin: float | None = None  # a difference that matters; of "near" and "flat", the largest that does not
    resolution: Any = 0.0  # smallest difference that the measurement shows, or the parameters that say it
    needs: tuple[Need, ...] = ()
    readings: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> options, `data`, `needs` that differ
    note: str = ""
    ours: bool = False  # a question the paper does not ask; an audit that tests no sentence, number or formula of it

    def tolerance_of(self, deviation: float) -> float:
        """How far from the printed number still counts as a match, in printed units."""
        return self.rounding / 2 + 2 * deviation

    @property
    def tolerance(self) -> float:
        """The largest tolerance of its rows."""
        own = [deviation for block in self.blocks for deviation in block.deviations.values()]
        return self.tolerance_of(max([self.deviation, *own]))


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
    return _read(file, name, file.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _read(file: Path, name: str, changed: int) -> Paper:
    """The paper in a file; `changed` is the file's time stamp, so that an edited file is read again."""
    try:
        tree = yaml.load(file.read_text(encoding="utf-8"), Loader=_LineLoader)
    except yaml.YAMLError as error:
        raise LedgerError(_yaml_message(error, name)) from None
    return _paper(tree, name)


def _yaml_message(error: yaml.YAMLError, file: str) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{file}, line {error.problem_mark.line + 1}: {error.problem}"
    return f"{file}: {error}"


def known_as(paper: str) -> str:
    """fedgs -> FedGS; a paper without a short name in capitals."""
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
    """YAML would silently keep the last of two and lose numbers."""
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
        for data in [entry.data, *(options.get("data", "") for options in entry.readings.values())]:
            _require(not data or data in seen, raw, file, f"data: {data!r} is not an id of this file")
        _require(not entry.like or entry.like in seen, raw, file, f"like: {entry.like!r} is not an id of this file")
    return paper


def _entry(raw: Any, file: str) -> Entry:
    if not isinstance(raw, _Lined):
        raise LedgerError(f"{file}: each entry must be a mapping, not {raw!r}")
    _require_keys(raw, Entry, file)
    _require(raw["kind"] in KINDS, raw, file, f"kind {raw['kind']!r} must be one of {', '.join(KINDS)}")
    for name, kind in {"blocks": list, "options": dict, "needs": list, "readings": dict, "setting": dict}.items():
        _require_kind(raw, name, kind, file)
    blocks = tuple(_block(block, raw, file) for block in raw.get("blocks", ()))
    needs = _needs(raw.get("needs", ()), raw, file)
    readings = {name: _reading(options, raw, file) for name, options in raw.get("readings", {}).items()}
    fields: dict[str, Any] = {**raw, "blocks": blocks, "needs": needs, "readings": readings}
    entry = Entry(**fields)
    _require(entry.unit in checks.UNITS, raw, file, _one_of("unit", entry.unit, checks.UNITS))
    if entry.kind == "claim":
        _check_claim(entry, raw, file)
    else:
        misplaced = [name for name in (*OF_CLAIMS, "options", "readings", "margin") if name in raw and name != "unit"]
        _require(not misplaced, raw, file, f"only claims have {', '.join(map(repr, misplaced))}")
    if blocks:
        _check_printed(entry, raw, file)
    _require(
        entry.kind not in COMPARED or bool(entry.alt), raw, file, "figures and tables need `alt`, what one would see"
    )
    return entry


def _check_claim(entry: Entry, raw: _Lined, file: str) -> None:
    missing = [name for name in OF_CLAIMS if name not in raw]
    _require(not missing, raw, file, f"a claim needs {', '.join(map(repr, missing))}")
    _require(entry.check in checks.CHECKS, raw, file, _one_of("check", entry.check, checks.CHECKS))
    _require(entry.quantifier in QUANTIFIERS, raw, file, _one_of("quantifier", entry.quantifier, QUANTIFIERS))
    _require(entry.currency in CURRENCIES, raw, file, _one_of("currency", entry.currency, CURRENCIES))
    many = entry.unit not in ("seed", checks.EXACT) and "times" not in entry.options
    wanted = many or entry.check in checks.NEEDS_MARGIN
    why = f"unit {entry.unit!r}: many units" if many else f"check {entry.check!r}"
    _require(not wanted or entry.margin is not None, raw, file, f"{why} need `margin`, a difference that matters")
    for name, options in (entry.readings or {"": {}}).items():
        _require(isinstance(options, dict), raw, file, f"reading {name!r} must be a mapping, not {options!r}")
        try:
            checks.require_options(entry.check, reading_options(entry, name))
        except TypeError as problem:
            raise LedgerError(f"{file}, line {raw.line}: options of check {entry.check!r}: {problem}") from None


def reading_options(entry: Entry, reading: str) -> dict[str, Any]:
    """The options of a claim's check under one of its readings, "" if it has none."""
    other = entry.readings.get(reading, {})
    return entry.options | {name: value for name, value in other.items() if name not in ("data", "needs")}


def reading_needs(entry: Entry, reading: str) -> tuple[Need, ...]:
    """What a run needs to decide a claim under one of its readings, "" if it has none."""
    return entry.readings.get(reading, {}).get("needs", entry.needs)


def _check_printed(entry: Entry, raw: _Lined, file: str) -> None:
    _require(bool(entry.value), raw, file, "printed numbers need `value`, the column of the data they print")
    known = entry.setting is not None or all(block.setting for block in entry.blocks)
    _require(
        known != bool(entry.not_comparable),
        raw,
        file,
        "printed numbers need `setting`, the parameters they belong to, or `not_comparable`, why there are none",
    )


def _one_of(name: str, wrong: str, known: Iterable[str]) -> str:
    return f"{name} {wrong!r} must be one of {', '.join(known)}"


def _reading(options: Any, entry: _Lined, file: str) -> Any:
    """A reading as it is, with its needs, if it has some, as `Need`s."""
    if not isinstance(options, dict) or "needs" not in options:
        return options
    return {**options, "needs": _needs(options["needs"], entry, file)}


def _needs(raw: Any, entry: _Lined, file: str) -> tuple[Need, ...]:
    _require(isinstance(raw, list | tuple), entry, file, f"needs must be a list, not {raw!r}")
    return tuple(_need(need, entry, file) for need in raw)


def _need(raw: Any, entry: _Lined, file: str) -> Need:
    _require(isinstance(raw, _Lined), entry, file, f"each need must be a mapping, not {raw!r}")
    names = [name for name in raw if name != "because"]
    complete = len(names) == 1 and isinstance(raw.get("because"), str)
    _require(complete, raw, file, "a need is one name with what it must be, and `because` with the reason")
    return Need(names[0], raw[names[0]], raw["because"])


def _block(raw: Any, entry: _Lined, file: str) -> PrintedBlock:
    _require(isinstance(raw, _Lined), entry, file, f"each block must be a mapping, not {raw!r}")
    _require_keys(raw, PrintedBlock, file)
    for name in ("columns", "printed", "where", "setting", "deviations"):
        _require_kind(raw, name, dict, file)
    unknown = [name for name in raw.get("deviations", {}) if name not in raw["printed"]]
    _require(not unknown, raw, file, f"deviations: {unknown} are no printed rows")
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


def _require(condition: bool, raw: _Lined, file: str, message: str) -> None:
    if not condition:
        raise LedgerError(f"{file}, line {raw.line}: {message}")


def printed_range(cell: float | str) -> tuple[float, float]:
    """Low and high of a printed value: 96, "87..89", "<90" or ">0.9"."""
    with contextlib.suppress(ValueError):
        low, high = _bounds(cell)
        if low <= high:
            return low, high
    raise ValueError(f"{cell!r} is not a printed value: write a number, 'low..high', '<high' or '>low'")


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


def in_print(id: str) -> tuple[str, int] | None:
    """Which of the paper's figures or tables an entry belongs to: fedgs/table2-rates -> ("table", 2); None: to none.

    >>> in_print("fedacs/fig6b"), in_print("fedacs/variants")
    (('fig', 6), None)
    """
    numbered = re.match(r"(fig|table)-?(\d+)", id.split("/", 1)[-1])
    return (numbered[1], int(numbered[2])) if numbered else None


def label(id: str) -> str:
    """acfmo/fig1 -> Fig. 1, fedgs/table2-rates -> Table 2 rates, acfmo/claim-best-mnist -> Claim best mnist."""
    name = id.split("/", 1)[-1]
    numbered = re.fullmatch(r"(fig|table)-?(\d+\w*)(-.*)?", name)
    if numbered:
        return f"{'Fig.' if numbered[1] == 'fig' else 'Table'} {numbered[2]}{(numbered[3] or '').replace('-', ' ')}"
    return name[:1].upper() + name[1:].replace("-", " ")
