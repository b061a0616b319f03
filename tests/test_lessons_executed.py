"""Every lesson executed. With its solutions it comes out as saved; untouched, from the students' package, it runs to
its end."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from fedlib.course import build, grade
from fedlib.report.notebooks import lessons
from fedlib.surroundings import REPOSITORY

pytestmark = pytest.mark.slow

LESSONS = [lesson.path for lesson in lessons(REPOSITORY)]


@pytest.fixture(scope="module", params=LESSONS, ids=lambda path: path.stem)
def lesson(request) -> Path:
    return request.param


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """One run store, empty at first: what an instructor version computes, students' and later lessons find there."""
    return tmp_path_factory.mktemp("runs")


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


def test_a_lesson_comes_out_again_as_saved(lesson, course, runs, tmp_path):
    """Execute the instructor version and compare with the saved outputs, text for text."""
    version = nbformat.read(course / "instructor" / lesson.name, as_version=4)
    for cell in version.cells:
        if "widget" in build.tags(cell):  # names of widgets change from run to run
            cell.metadata["tags"] = ["nbval-ignore-output"]
    nbformat.write(version, tmp_path / lesson.name)
    fresh = {"FEDLIB_RUNS": str(runs), "FEDLIB_REPORT": str(tmp_path / "report")}
    nbval = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=1800", "-p", "no:xdist"]
    done = called("-m", "pytest", *nbval, lesson.name, folder=tmp_path, environment=os.environ | grade.QUIET | fresh)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


RUN = (
    "import nbformat, sys; from nbclient import NotebookClient; import fedlib; "
    "assert fedlib.__file__.startswith(sys.argv[2]), fedlib.__file__; "
    "notebook = nbformat.read(sys.argv[1], as_version=4); NotebookClient(notebook, timeout=1800).execute(); "
    "nbformat.write(notebook, sys.argv[3])"
)


def test_an_untouched_student_notebook_runs_to_its_end(lesson, unpacked, runs, tmp_path):
    """In the unpacked package, with the package's own library."""
    environment = {name: value for name, value in os.environ.items() if name != "FEDLIB_REPORT"}
    environment |= grade.QUIET | {"PYTHONPATH": str(unpacked), "FEDLIB_RUNS": str(runs)}
    words = ["-c", RUN, lesson.name, str(unpacked), str(tmp_path / lesson.name)]
    done = called(*words, folder=unpacked, environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    last = nbformat.read(tmp_path / lesson.name, as_version=4).cells[-1].outputs[0].text
    assert "0 predictions written down." in last and "0 of 5 exercises done." in last
