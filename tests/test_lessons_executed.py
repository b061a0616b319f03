"""Every lesson executed. With its solutions it comes out as saved; untouched, from the students' package, it runs to
its end."""

import ast
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from fedlib.course import build, grade
from fedlib.report.notebooks import lessons
from fedlib.runs import Run
from fedlib.runs.store import task_of
from fedlib.surroundings import REPOSITORY

pytestmark = pytest.mark.slow

LESSONS = [lesson.path for lesson in lessons(REPOSITORY)]


@dataclass(frozen=True)
class Execution:
    """The instructor version of a lesson, executed with an empty store, and how that ended."""

    store: Path
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module", params=LESSONS, ids=lambda path: path.stem)
def lesson(request) -> Path:
    return request.param


@pytest.fixture(scope="module")
def executed(lesson, course, tmp_path_factory) -> Execution:
    folder = tmp_path_factory.mktemp(lesson.stem)
    version = nbformat.read(course / "instructor" / lesson.name, as_version=4)
    for cell in version.cells:
        if "widget" in build.tags(cell):  # names of widgets change from run to run
            cell.metadata["tags"] = ["nbval-ignore-output"]
    nbformat.write(version, folder / lesson.name)
    fresh = {"FEDLIB_RUNS": str(folder / "runs"), "FEDLIB_REPORT": str(folder / "report")}
    nbval = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=1800", "-p", "no:xdist"]
    done = called("-m", "pytest", *nbval, lesson.name, folder=folder, environment=os.environ | grade.QUIET | fresh)
    return Execution(folder / "runs", done)


def called(*words: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Python, called in a folder."""
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_version_that_is_executed_has_the_code_and_the_outputs_of_the_source(lesson, course):
    """Marks of solutions are comments, and what a widget shows is not compared: executing one executes the other."""
    source, version = (nbformat.read(path, 4).cells for path in (lesson, course / "instructor" / lesson.name))
    assert [ast.dump(ast.parse(cell.source)) for cell in source if cell.cell_type == "code"] == [
        ast.dump(ast.parse(cell.source)) for cell in version if cell.cell_type == "code"
    ]
    kept = [(old, new) for old, new in zip(source, version, strict=True) if "widget" not in build.tags(old)]
    assert [old.get("outputs") for old, _ in kept] == [new.get("outputs") for _, new in kept]


def test_a_lesson_comes_out_again_as_saved(executed):
    """From an empty run store, text for text."""
    assert executed.done.returncode == 0, executed.done.stdout[-4000:] + executed.done.stderr[-2000:]


RUN = (
    "import nbformat, sys; from nbclient import NotebookClient; import fedlib; "
    "assert fedlib.__file__.startswith(sys.argv[2]), fedlib.__file__; "
    "notebook = nbformat.read(sys.argv[1], as_version=4); NotebookClient(notebook, timeout=1800).execute(); "
    "nbformat.write(notebook, sys.argv[3])"
)
RECOMPUTE = """
import json, sys
import fedlib
from fedlib.runs import store, study
assert fedlib.__file__.startswith(sys.argv[1]), fedlib.__file__
task = store.task_of(json.loads(sys.argv[2]))
study.execute([task], backend="inprocess")
print(store.folder_of(task))
"""


def in_package(unpacked: Path, store: Path) -> dict[str, str]:
    """The students' surroundings: the package's own library, and a store."""
    environment = {name: value for name, value in os.environ.items() if name != "FEDLIB_REPORT"}
    return environment | grade.QUIET | {"PYTHONPATH": str(unpacked), "FEDLIB_RUNS": str(store)}


def test_an_untouched_student_notebook_runs_to_its_end(lesson, executed, unpacked, tmp_path):
    """In the unpacked package, with the package's own library; what does not depend on answers was computed before."""
    words = ["-c", RUN, lesson.name, str(unpacked), str(tmp_path / lesson.name)]
    done = called(*words, folder=unpacked, environment=in_package(unpacked, executed.store))
    assert done.returncode == 0, done.stderr[-3000:]
    last = nbformat.read(tmp_path / lesson.name, as_version=4).cells[-1].outputs[0].text
    assert "0 predictions written down." in last and "0 of 5 exercises done." in last


def test_the_package_computes_what_the_lesson_read(executed, unpacked, tmp_path):
    """The shortest of the lesson's runs, from an empty store with the package's own library, byte for byte."""
    files = {file.parent: json.loads(file.read_text()) for file in executed.store.glob("*/*/run.json")}
    runs = {folder: facts for folder, facts in files.items() if isinstance(task_of(facts["asked"]), Run)}
    if not runs:
        pytest.skip("this lesson stores no runs: it has computed all it shows")
    folder, facts = min(runs.items(), key=lambda run: run[1]["seconds"])
    words = ["-c", RECOMPUTE, str(unpacked), json.dumps(facts["asked"])]
    done = called(*words, folder=unpacked, environment=in_package(unpacked, tmp_path / "runs"))
    assert done.returncode == 0, done.stderr[-3000:]
    again = Path(done.stdout.splitlines()[-1])
    assert again == tmp_path / "runs" / folder.relative_to(executed.store)
    assert (again / "records.csv").read_bytes() == (folder / "records.csv").read_bytes()
