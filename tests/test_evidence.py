"""The runs that are committed: intact, vouched for by the present code, and few bytes. And the runs of the quick scale,
computed from nothing, come out as they always did.

`python tests/test_evidence.py <store> <report>` writes the digests anew, of the stored runs that a quick report of all
papers used.
"""

import csv
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedlib.report.notebooks import discover
from fedlib.runs import Run, record, tables, verify
from fedlib.runs.store import task_of
from fedlib.surroundings import REPOSITORY

DIGESTS = Path(__file__).parent / "quick_digests.csv"
MEGABYTE = 2**20
LINES = list(record.everything())
PAPERS = yaml.safe_load((REPOSITORY / "conf" / "paper" / "all.yaml").read_text())["defaults"]


def test_every_line_and_every_table_is_as_it_was_written():
    for paper, run in LINES:
        assert len(record.records_of(paper, run)) > 0
        assert run.task().name == run.name, f"{run.kind}: what was asked for has another name"


def test_the_present_code_vouches_for_every_recorded_run():
    stale = {run.kind for _, run in LINES if not record.is_vouched_for(run, run.task())}
    assert not stale, (
        f"{len(stale)} kinds were recorded by other code: {sorted(stale)[:5]}. Where digits should not have changed, "
        "`python -m fedlib verify --accept` shows it; else the runs must be computed and recorded anew."
    )


def test_methods_whose_code_is_new_begin_with_the_recorded_digits():
    """A run of every kind was computed when the new code was accepted (`verify --accept`); here, one kind of each
    method begins again."""
    by_other_code = [(paper, run) for paper, run in LINES if run.task().maker != run.maker]
    new = verify.one_of_each_kind(by_other_code, kind=lambda run: re.split(r"[( ]", run.kind)[0])
    differing = [result for result in verify.check_all(new, "first rounds", 1) if result.outcome in verify.WRONG]
    assert [(result.run.kind, result.note) for result in differing] == []


def test_the_record_is_small():
    size = sum(file.stat().st_size for file in record.folder().rglob("*") if file.is_file())
    assert size < 30 * MEGABYTE


def test_papers_shown_at_desk_scale_have_desk_runs_on_record():
    shown = yaml.safe_load((REPOSITORY / "conf" / "scale" / "recorded.yaml").read_text())["recorded"]
    for paper in shown:
        assert any("desk" in run.scales.split() for run in record.runs_of(paper).values()), paper


def test_the_quick_batch_and_its_digests_are_of_all_papers():
    with open(DIGESTS, newline="") as lines:
        assert {row["paper"] for row in csv.DictReader(lines)} == set(PAPERS)
    assert {notebook.paper for notebook in discover(REPOSITORY)} == set(PAPERS)


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_all_runs_of_the_quick_scale_come_out_of_nothing_digit_for_digit(paper, tmp_path):
    """`make reports SCALE=quick FRESH=1`, a paper at a time: where tests share the cores, each batch has one."""
    environment = os.environ | {"FEDLIB_RUNS": str(tmp_path / "runs"), "FEDLIB_PROGRESS": "0", "TQDM_DISABLE": "1"}
    workers = ["backend.workers=1"] if "PYTEST_XDIST_WORKER" in os.environ else []
    words = [f"paper={paper}", "scale=quick", "record=ignore", f"report={tmp_path / 'report'}", *workers]
    done = subprocess.run(
        [sys.executable, "-m", "fedlib", *words], cwd=REPOSITORY, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with open(DIGESTS, newline="") as lines:
        saved = {row["name"]: row for row in csv.DictReader(lines) if row["paper"] == paper}
    computed = {row["name"]: row for row in digests(tmp_path / "runs")}
    assert sorted(computed) == sorted(saved), "other runs than those saved; renew the digests if that is meant"
    assert [row for name, row in computed.items() if row["digest"] != saved[name]["digest"]] == []


def digests(store: Path, used: set[str] | None = None) -> list[dict[str, str]]:
    """A row per finished run of the present code, or those used of them: name, kind and a digest of its records, clock
    readings left out."""
    rows = []
    for file in sorted(store.glob("*/*/run.json")):
        facts = json.loads(file.read_text())
        if used is not None and facts["name"] not in used:
            continue
        task = task_of(facts["asked"])
        if facts["maker"] != task.maker:
            continue
        content = (file.parent / "records.csv").read_bytes()
        if not isinstance(task, Run) and task.clock:
            content = tables.to_csv(tables.from_csv(content).drop(columns=[*task.clock]))
        rows.append({"name": facts["name"], "kind": facts["kind"], "digest": hashlib.sha256(content).hexdigest()})
    return rows


if __name__ == "__main__":
    with open(DIGESTS, "w", newline="") as lines:
        writer = csv.DictWriter(lines, ["paper", "name", "kind", "digest"], lineterminator="\n")
        writer.writeheader()
        for paper in PAPERS:
            files = Path(sys.argv[2], "used").glob(f"{paper}-*.csv")
            used = {line.split(",")[0] for file in files for line in file.read_text().splitlines()}
            rows = sorted(digests(Path(sys.argv[1]), used), key=lambda row: (row["kind"], row["name"]))
            writer.writerows({"paper": paper} | row for row in rows)
