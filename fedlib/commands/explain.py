"""`fedlib explain fedsr/claim-above`: how a verdict came about, in the terminal.

Sentence, needs, comparisons with their intervals, verdict, and where the data and the runs are. By default from the
report of the largest scale that has its numbers; `--scale quick` or `--report FOLDER` chooses another.
"""

import argparse
import difflib
import shutil
import textwrap
from pathlib import Path
from typing import Any

from fedlib.commands import FINE
from fedlib.judging import ledger
from fedlib.report import provenance, verdicts
from fedlib.report.usage import UsageError

SCALES = ("paper", "desk", "quick", "lab")  # folders below reports/, the best evidence first; lab: JupyterLab's


def run(words: list[str], root: Path) -> int:
    """Print how one entry was judged."""
    parser = argparse.ArgumentParser(prog="python -m fedlib explain", description=__doc__)
    parser.add_argument("id", help="such as fedsr/claim-above; python -m fedlib list names the papers")
    parser.add_argument("--scale", choices=SCALES, help="the report of this scale (default: the largest there is)")
    parser.add_argument("--report", type=Path, help="a report folder elsewhere")
    asked = parser.parse_args(words)
    entry = find(asked.id)
    places = [asked.report] if asked.report else [root / "reports" / scale for scale in _scales(asked.scale)]
    report = next((place for place in places if has_numbers(entry, place)), None)
    if report is None:
        print("\n".join(_unreported(entry, places)))
        return FINE
    print("\n".join(story(entry, ledger.judge(entry, report), report)))
    return FINE


def _scales(chosen: str | None) -> tuple[str, ...]:
    return (chosen,) if chosen else SCALES


def find(id: str) -> ledger.Entry:
    """The entry of this id; for a wrong one, the error names the nearest."""
    entries = {entry.id: entry for paper in ledger.papers() for entry in ledger.load(paper).entries}
    if id in entries:
        return entries[id]
    near = difflib.get_close_matches(id, entries, n=3, cutoff=0.4) or [known for known in entries if id in known][:3]
    guess = f"Did you mean {', '.join(near)}?" if near else f"The papers are {', '.join(ledger.papers())}."
    raise UsageError(f"explain {id}: no such figure, table, claim or audit. {guess}")


def has_numbers(entry: ledger.Entry, report: Path) -> bool:
    """Whether a report can say anything about an entry."""
    return ledger.data_file(report, entry.data or entry.id).exists()


def _unreported(entry: ledger.Entry, places: list[Path]) -> list[str]:
    paper = entry.id.split("/")[0]
    looked = ", ".join(_short(place) for place in places)
    return [
        *_heading(entry),
        "",
        f"No report has its numbers yet (looked in {looked}).",
        f"To make one:  python -m fedlib paper={paper} notebooks=[{entry.page}]",
    ]


def story(entry: ledger.Entry, line: dict[str, Any], report: Path) -> list[str]:
    """The lines to print."""
    text = [*_heading(entry), ""]
    text += _needs(line["needs"])
    if line["readings"]:
        for reading in line["readings"]:
            text += ["", f"Read as {reading['reading']!r}: {reading['verdict']}"]
            needs = reading.get("needs", [])
            text += _needs(needs) if needs != line["needs"] else []
            text += _comparisons(reading.get("comparisons", []))
    elif line["comparisons"]:
        text += ["", *_comparisons(line["comparisons"])]
    if line["averaged"]:
        text += _comparisons([line["averaged"]])
    if line["cells"]:
        text += ["", *_cells(line["cells"])]
    text += [
        "",
        *_wrapped("verdict", line["verdict"]),
        *_wrapped("found", _result(line)),
        *_wrapped("note", line["note"]),
    ]
    data = ledger.data_file(report, entry.data or entry.id)
    text += [*_wrapped("data", _short(data)), *_wrapped("", _short(data.with_suffix(".json")))]
    return text + _runs(entry, report)


def _needs(needs: list[dict[str, Any]]) -> list[str]:
    lines = []
    for need in needs:
        met = "met" if need["met"] else "NOT MET"
        lines += _wrapped("needs", f"{need['name']} {need['value']}, has {need['have']}: {met}. {need['because']}")
    return lines


def _runs(entry: ledger.Entry, report: Path) -> list[str]:
    """Where the runs behind the page of an entry are listed."""
    paper = entry.id.split("/")[0]
    file = report / "used" / f"{paper}-{entry.page}.csv"
    record, names = f"reports/recorded/{paper}/runs.csv", provenance.used(file)
    said = f"{len(names)} behind the page, named in {_short(file)}; those on record stand in {record}"
    return _wrapped("runs", said) if names else []


def _heading(entry: ledger.Entry) -> list[str]:
    about = [entry.kind, *(f"{name} {value}" for name, value in _of_claims(entry).items() if value)]
    return [entry.id, *_wrapped("says", entry.statement), *_wrapped("judged", ", ".join(about))]


def _of_claims(entry: ledger.Entry) -> dict[str, Any]:
    """How a claim is judged, in words."""
    if entry.kind != "claim":
        return {}
    counted = {"holds for": entry.quantifier, "over": f"{entry.unit}s" if entry.unit != "exact" else "exact numbers"}
    return counted | {"counted in": entry.currency if entry.currency != "none" else "", "margin": entry.margin}


def _result(line: dict[str, Any]) -> str:
    if line["cells"]:
        return ", ".join(f"{count} {word}" for word, count in line["counts"].items() if count and word != "of")
    return ". ".join(filter(None, [verdicts.number(line["measured"]), verdicts.weighed(line)]))


def _comparisons(rows: list[dict[str, Any]]) -> list[str]:
    width = max((len(row["label"]) for row in rows), default=0)
    return [
        f"  {row['label']:{width}}  {verdicts.effect(row['effect'], row['interval']):>9}{_interval(row, 'effect'):28}"
        f"{'n ' + str(row['n']) if row['n'] else '':6}  {row['outcome']}{_remarks(row)}"
        for row in rows
    ]


def _remarks(row: dict[str, Any]) -> str:
    wanted = (
        f"within {verdicts.number(row['margin'])}"
        if row["near"]
        else f"above {verdicts.number(row['margin'])}" * bool(row["margin"])
    )
    return "".join(f"  ({words})" for words in (wanted, row["note"]) if words)


def _cells(rows: list[dict[str, Any]]) -> list[str]:
    width = max(len(row["label"]) for row in rows)
    return [
        f"  {row['label']:{width}}  printed {verdicts.number(row['reported']):>9}  ours {verdicts.ours(row):>9}"
        f"{_interval(row, 'measured'):28}  {row['verdict']}"
        for row in rows
    ]


def _interval(row: dict[str, Any], of: str) -> str:
    return f" ({verdicts.between(row['interval'], row[of] or 0.0)})" if row["interval"] else ""


def _wrapped(name: str, text: str) -> list[str]:
    width = min(shutil.get_terminal_size((110, 24)).columns, 120)
    return textwrap.wrap(text, width, initial_indent=f"{name:9}", subsequent_indent=" " * 9) if text else []


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path)
