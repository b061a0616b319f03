"""The record: finished runs that are committed with the repository, in `reports/recorded`, one folder per paper.

    runs.csv          one line per run: name, kind, settings, maker, commit, seconds, versions, digests
    <name>.csv.gz     the run's records
    equivalents.csv   beside the papers: makers whose runs of a kind were found to have the same digits

Each line carries a digest of itself and one of its records, so that a damaged or edited record is detected. Names use
the known hashes of the data, so reading needs no data.
"""

import csv
import gzip
import hashlib
import io
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from filelock import FileLock

from fedlib import surroundings
from fedlib.data.files import write_atomically, write_text
from fedlib.runs import tables
from fedlib.runs.store import Task, task_of

EQUIVALENTS = ("kind", "recorded maker", "accepted maker", "commit", "run")


class DamagedRecord(ValueError):
    """A recorded run was damaged or edited; the message says which one and what to do."""


@dataclass(frozen=True)
class RecordedRun:
    """A line of `runs.csv`."""

    name: str
    kind: str
    scales: str  # of the paper's reports that use it, such as "desk" or "desk quick"
    asked: str  # as JSON: arguments that make the run again
    maker: str
    commit: str
    seconds: float
    versions: str  # as JSON
    processor: str
    partition: str
    records: str  # SHA-256 of the records' CSV
    line: str = ""  # digest of all of the above

    def sealed(self) -> "RecordedRun":
        """The line with its digest filled in."""
        return replace(self, line=self.digest())

    def digest(self) -> str:
        content = {name: value for name, value in asdict(self).items() if name != "line"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def versions_on_record(self) -> dict[str, str]:
        """Of the libraries that computed it."""
        return json.loads(self.versions)

    def task(self) -> Task:
        """The run or computation, ready to be computed again."""
        return task_of(json.loads(self.asked))


def folder() -> Path:
    """Where the recorded runs are."""
    return surroundings.recorded_folder()


def one_writer() -> FileLock:
    """Held from reading a table to writing it back, so that of two commands neither loses the other's lines."""
    folder().mkdir(parents=True, exist_ok=True)
    return FileLock(folder() / ".lock")


def papers() -> list[str]:
    """The papers with recorded runs."""
    return sorted(path.parent.name for path in folder().glob("*/runs.csv"))


def runs_of(paper: str) -> Mapping[str, RecordedRun]:
    """By name, the recorded runs of a paper."""
    file = folder() / paper / "runs.csv"
    return _read(file, file.stat().st_mtime_ns) if file.exists() else {}


@lru_cache(maxsize=64)
def _read(file: Path, modified: int) -> Mapping[str, RecordedRun]:
    remedy = f"Restore it: git checkout -- {file}"
    try:
        with open(file, encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
    except (csv.Error, UnicodeDecodeError) as problem:
        raise DamagedRecord(f"{file} is no table: {problem}. {remedy}") from problem
    wanted = [field.name for field in fields(RecordedRun)]
    if rows and list(rows[0]) != wanted:
        raise DamagedRecord(f"{file}: its columns are {list(rows[0])}, not {wanted}. {remedy}")
    for row in rows:
        if None in row or None in row.values():  # left over from a merge, or cut off
            raise DamagedRecord(f"{file}: {str(row['name'])[:40]!r} begins a line that is no run. {remedy}")
    try:
        values: list[dict[str, Any]] = [{**row, "seconds": float(row["seconds"])} for row in rows]
    except ValueError as problem:
        raise DamagedRecord(f"{file}: {problem}. {remedy}") from problem
    runs = [RecordedRun(**value) for value in values]
    return MappingProxyType({run.name: run for run in runs})


def find(name: str) -> tuple[str, RecordedRun] | None:
    """The paper and the line of a run, or None. A damaged table hides the runs of its own paper only."""
    damaged = None
    for paper in papers():
        try:
            if name in (runs := runs_of(paper)):
                return paper, runs[name]
        except DamagedRecord as damage:
            damaged = damage
    if damaged is not None:
        raise damaged
    return None


def records_of(paper: str, run: RecordedRun) -> pd.DataFrame:
    """The records of a recorded run; `DamagedRecord` if they, or the line, are not as they were written."""
    file = folder() / paper / f"{run.name}.csv.gz"
    remedy = f"Restore it (git checkout -- reports/recorded/{paper}), or record the run again."
    if run.digest() != run.line:
        raise DamagedRecord(f"the line of run {run.name} in {file.parent / 'runs.csv'} was changed. {remedy}")
    try:
        content = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, ValueError) as problem:
        raise DamagedRecord(f"the records of run {run.name} cannot be read: {problem}. {remedy}") from problem
    if hashlib.sha256(content).hexdigest() != run.records:
        raise DamagedRecord(f"the records of run {run.name} were changed. {remedy}")
    return tables.from_csv(content)


def is_vouched_for(run: RecordedRun, task: Task) -> bool:
    """Whether the present code gives the recorded digits: it is the same, or was found to be equivalent."""
    return run.maker == task.maker or (run.kind, run.maker, task.maker) in equivalents()


def equivalents() -> frozenset[tuple[str, str, str]]:
    """Kinds with two makers that gave the same digits: the recorded and the accepted one."""
    file = folder() / "equivalents.csv"
    return _read_equivalents(file, file.stat().st_mtime_ns) if file.exists() else frozenset()


@lru_cache(maxsize=8)
def _read_equivalents(file: Path, modified: int) -> frozenset[tuple[str, str, str]]:
    with open(file, encoding="utf-8", newline="") as lines:
        whole = (row for row in csv.reader(lines) if len(row) == len(EQUIVALENTS))  # no others vouch for anything
        return frozenset((kind, recorded, accepted) for kind, recorded, accepted, *_ in whole)


def accept(run: RecordedRun, maker: str, commit: str) -> None:
    """Register a maker as equivalent for a kind, because it gave the same digits on this run."""
    file, text = folder() / "equivalents.csv", io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([run.kind, run.maker, maker, commit, run.name])
    with one_writer():
        before = file.read_text(encoding="utf-8") if file.exists() else ",".join(EQUIVALENTS) + "\n"
        write_text(file, before + "\n" * (not before.endswith("\n")) + text.getvalue())


def add(paper: str, scale: str, finished: Iterable[tuple[dict[str, Any], bytes]], commit: str) -> list[RecordedRun]:
    """Record runs, each given by its `run.json` in the store and its records; returns those that are new or changed.

    What is on record and vouched for stays, clock readings included: a busier machine would only spoil them.
    """
    with one_writer():
        return _add(paper, scale, finished, commit)


def _add(paper: str, scale: str, finished: Iterable[tuple[dict[str, Any], bytes]], commit: str) -> list[RecordedRun]:
    before, new = runs_of(paper), []
    for facts, content in finished:
        old = before.get(facts["name"])
        scales = " ".join(sorted({scale, *(old.scales.split() if old else ())}))
        if old is not None and facts["maker"] == old.task().maker and is_vouched_for(old, old.task()):
            if old.scales != scales:
                new.append(replace(old, scales=scales, line="").sealed())
            continue
        run = RecordedRun(
            name=facts["name"],
            kind=facts["kind"],
            scales=scales,
            asked=json.dumps(facts["asked"], sort_keys=True),
            maker=facts["maker"],
            commit=commit,
            seconds=facts["seconds"],
            versions=json.dumps(facts["versions"], sort_keys=True),
            processor=facts["processor"],
            partition=facts["partition"] or "",
            records=hashlib.sha256(content).hexdigest(),
        ).sealed()
        compressed = gzip.compress(content, mtime=0)
        write_atomically(folder() / paper / f"{run.name}.csv.gz", lambda path, b=compressed: path.write_bytes(b))
        new.append(run)
    write_runs(paper, {**before, **{run.name: run for run in new}}.values())
    return new


def keep_only(paper: str, scale: str, names: Iterable[str]) -> int:
    """Drop the runs that a paper's report at this scale does not use; returns how many."""
    wanted = set(names)
    with one_writer():
        before = runs_of(paper)
        kept = [replace(run, scales=scale, line="").sealed() for name, run in before.items() if name in wanted]
        write_runs(paper, kept)
    return len(before) - len(kept)


def write_runs(paper: str, runs: Iterable[RecordedRun]) -> None:
    """Replace a paper's table of runs, and drop the records of those that are no longer in it."""
    kept = sorted(runs, key=lambda run: (run.kind, run.name))
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(RecordedRun)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(run) for run in kept)
    write_text(folder() / paper / "runs.csv", text.getvalue())
    names = {run.name for run in kept}
    for file in (folder() / paper).glob("*.csv.gz"):
        if file.name.removesuffix(".csv.gz") not in names:
            file.unlink()


def everything() -> Iterator[tuple[str, RecordedRun]]:
    """All recorded runs, each with its paper."""
    for paper in papers():
        for run in runs_of(paper).values():
            yield paper, run


def commit() -> str:
    """The commit whose code is running; an error if fedlib has changes that are not committed."""
    if _git("status", "--porcelain", "--", "fedlib"):
        raise ValueError(
            "fedlib/ has changes that are not committed: commit them first, so that the record can name the commit"
        )
    return _git("rev-parse", "--short=12", "HEAD")


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=surroundings.REPOSITORY, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ValueError("there is no git on the path, and the record names the commit") from None
    if done.returncode:
        raise ValueError(f"git {' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout.strip()
