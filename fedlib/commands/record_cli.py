"""`fedlib record`: put the finished runs that a paper's reports used into the record, to be committed.

python -m fedlib paper=fedsr scale=desk            compute them (may be interrupted and continued)
python -m fedlib record paper=fedsr scale=desk     record what is finished so far
python -m fedlib record paper=fedsr scale=desk --only    at the end: and drop what this scale does not use
"""

import csv
from pathlib import Path

from fedlib.commands import FINE
from fedlib.report.usage import UsageError

MEGABYTE = 2**20


def run(words: list[str], root: Path) -> int:
    """Record finished runs, and print how many."""
    settings, only = read(words)
    from fedlib.runs import record, store

    paper, scale = settings["paper"], settings["scale"]
    used = names_used(Path(settings.get("report") or root / "reports" / scale), paper)
    commit = commit_of_code("record")
    finished = [run for name in used if (run := store.finished(name)) is not None]
    new = record.add(paper, scale, finished, commit)
    dropped = record.keep_only(paper, scale, used) if only else 0
    here = record.runs_of(paper)
    missing = [name for name in used if name not in here]
    size = sum(file.stat().st_size for file in (record.folder() / paper).glob("*")) / MEGABYTE
    print(f"{len(new)} recorded, {dropped} dropped; {paper} has {len(here)} runs, {size:.1f} MB, at commit {commit}.")
    if missing:
        print(f"{len(missing)} that the report used are not in the store of this machine: {', '.join(missing[:5])}")
    return FINE


def commit_of_code(command: str) -> str:
    """The commit that a record names; changes of the code that are not committed are a UsageError."""
    from fedlib.runs import record

    try:
        return record.commit()
    except ValueError as problem:
        raise UsageError(f"{command}: {problem}") from None


def read(words: list[str]) -> tuple[dict[str, str], bool]:
    """The settings, and whether other runs of the paper are dropped."""
    only = "--only" in words
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    wrong = [word for word in words if word != "--only" and word.split("=")[0] not in ("paper", "scale", "report")]
    if wrong or not {"paper", "scale"} <= set(settings):
        raise UsageError(f"record {' '.join(wrong)}: it takes paper=name scale=name, report=folder and --only.")
    return settings, only


def names_used(report: Path, paper: str) -> list[str]:
    """The runs that the paper's notebooks used when this report was last built, finished or not."""
    files = sorted((report / "used").glob(f"{paper}-*.csv"))
    if not files:
        raise UsageError(f"record: no report of {paper} in {report}: build it first, python -m fedlib paper={paper}")
    return list(dict.fromkeys(row[0] for file in files for row in csv.reader(file.read_text().splitlines())))
