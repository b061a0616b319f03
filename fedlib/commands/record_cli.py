"""`fedlib record`: put the finished runs that a paper's reports used into the record, to be committed.

python -m fedlib paper=fedsr scale=desk            compute them (may be interrupted and continued)
python -m fedlib record paper=fedsr scale=desk     record what is finished so far
python -m fedlib record paper=fedsr scale=desk --only    at the end: and drop what this scale does not use
"""

from pathlib import Path
from typing import Any

from fedlib.commands import FINE
from fedlib.report.notebooks import Notebook, discover
from fedlib.report.usage import UsageError

MEGABYTE = 2**20


def run(words: list[str], root: Path) -> int:
    """Record finished runs, and print how many."""
    settings, only = read(words)
    from fedlib.runs import record, store

    paper, scale = settings["paper"], settings["scale"]
    report = Path(settings.get("report") or root / "reports" / scale)
    used = names_used(report, paper, scale)
    if only:
        check_complete(report, [notebook for notebook in discover(root) if notebook.paper == paper])
    commit = commit_of_code("record")
    finished = [run for name in used if (run := store.finished(name)) is not None]
    try:
        new = record.add(paper, scale, finished, commit)
        dropped = record.keep_only(paper, scale, used) if only else 0
    except record.DamagedRecord as damage:
        raise UsageError(f"record: {damage}") from None
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


def names_used(report: Path, paper: str, scale: str) -> list[str]:
    """The runs that the paper's notebooks used when this report was last built, finished or not."""
    from fedlib.report import provenance

    files = sorted((report / "used").glob(f"{paper}-*.csv"))
    if not files:
        raise UsageError(f"record: no report of {paper} in {report}: build it first, python -m fedlib paper={paper}")
    for file in files:
        shown = said_of(report, file.stem).get("scale", scale)
        if shown != scale:
            raise UsageError(
                f"record: {report} shows {file.stem} at {shown} scale, so its runs are not those of scale={scale}: "
                f"build it first, python -m fedlib paper={paper} scale={scale}"
            )
    return list(dict.fromkeys(name for file in files for name in provenance.used(file)))


def check_complete(report: Path, notebooks: list[Notebook]) -> None:
    """Refuse to drop anything unless the report has all of these notebooks, and to the end."""
    said = {notebook.label: said_of(report, notebook.slug) for notebook in notebooks}
    missing = [label for label, about in said.items() if not about]
    failed = [label for label, about in said.items() if about.get("error")]
    if missing or failed:
        lacking = [f"{', '.join(missing)} not built to the end"] * bool(missing)
        lacking += [f"{', '.join(failed)} failed"] * bool(failed)
        raise UsageError(
            f"record --only would drop what these need: {'; '.join(lacking)} in {report}. Build all notebooks first."
        )


def said_of(report: Path, slug: str) -> dict[str, Any]:
    """What an executed notebook says of itself; nothing if it was never built, or interrupted since: the runs noted are
    then others than it counted."""
    from fedlib.report import provenance

    about = provenance.about(report / "executed" / f"{slug}.ipynb")
    counts = about.get("runs", {})
    counted = sum(counts.get(origin, 0) for origin in ("recorded", "stale", "computed"))
    return about if counted == len(provenance.used(report / "used" / f"{slug}.csv")) else {}
