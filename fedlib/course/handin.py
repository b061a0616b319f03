"""Run the setup and exercise cells of notebooks, check what they define, and write down how each exercise ended.

    python -m fedlib.course.handin OUTCOMES.json SECONDS NOTEBOOK...

A program of its own, because what students write may loop, crash or print anything: `grade` starts one for each
notebook. SECONDS is the limit of an exercise cell and of its check. The file is written again after every cell, so
that a crash loses little.
"""

import contextlib
import importlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
from IPython.core.interactiveshell import InteractiveShell
from nbformat import NotebookNode
from traitlets.config import Config

from fedlib.course.exercise import UNCHECKED, Exercise, exercises
from fedlib.data.files import write_text

TAGS = {"setup", "exercise"}
SETUP_SECONDS = 120  # imports and data, on a busy machine; not the student's work


class TimeLimit(BaseException):
    """The cell took too long. No Exception, so that neither a check nor a student's `except Exception` swallows it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop the block after `seconds`, where the system has alarms; elsewhere `grade` ends the whole program."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise TimeLimit(f"longer than {seconds:g} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # once a second from then on, for code that swallows everything
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(path: Path, seconds: float) -> Iterator[list[Exercise]]:
    """Run the notebook's cells; after each, the exercises of its lesson as they stand.

    The checks are ours, taken before any of the student's code runs: check cells of the notebook are not looked at.
    """
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    graded = _lesson_of(cells)
    yield graded
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.reset()
    for cell in cells:
        kind = TAGS & set(cell.metadata.get("tags", []))
        if not kind:
            continue
        error = _run_cell(shell, cell.source, SETUP_SECONDS if kind == {"setup"} else seconds)
        for each in graded if kind == {"exercise"} else []:
            if all(_defines(cell.source, name) for name in each.answers):
                _check(each, shell, seconds, error)
        yield graded
    for each in graded:
        if each.hint == UNCHECKED and any(name in shell.user_ns for name in each.answers):
            _check(each, shell, seconds, "")
    yield graded


def _lesson_of(cells: list[NotebookNode]) -> list[Exercise]:
    """Fresh copies of the exercises of the lesson that the notebook imports; none if it imports no lesson."""
    found = re.search(r"^from fedlib\.course import .*\b(lesson\d)\b", _text(cells), flags=re.MULTILINE)
    if not found:
        return []
    lesson = importlib.import_module(f"fedlib.course.{found[1]}")
    return [replace(each, passed=False, hint=UNCHECKED, wrong=0) for each in exercises(lesson)]


def _text(cells: list[NotebookNode]) -> str:
    return "\n".join(cell.source for cell in cells)


def _defines(source: str, name: str) -> bool:
    """Whether a cell defines this name at its top level. No parser: the cell may not be Python yet."""
    return bool(re.search(rf"^(?:def|class)\s+{name}\b|^(?:\w+\s*,\s*)*{name}\s*[,:=]", source, flags=re.MULTILINE))


def _check(each: Exercise, shell: InteractiveShell, seconds: float, error: str) -> None:
    """Check what the student defined; the error of its cell, if there was one, is all that is told."""
    if error:
        each.passed, each.hint = False, error
        return
    try:
        with time_limit(seconds):
            each(*(shell.user_ns.get(name, ...) for name in each.answers))
    except TimeLimit as limit:
        each.passed, each.hint = False, f"TimeLimit: {limit}"


def _run_cell(shell: InteractiveShell, source: str, seconds: float) -> str:
    """Empty, or what went wrong."""
    try:
        with time_limit(seconds):
            done = shell.run_cell(source)
    except TimeLimit as limit:  # it struck between the cell's end and ours
        return f"TimeLimit: {limit}"
    error = done.error_before_exec or done.error_in_exec
    return f"{type(error).__name__}: {error}" if error else ""


def main(outcomes: Path, seconds: float, notebooks: list[Path]) -> None:
    """See the module's text."""
    found: dict[str, list[dict]] = {}
    for path in notebooks:
        for graded in run(path, seconds):
            rows = [{"exercise": each.number, "passed": each.passed, "hint": each.hint} for each in graded]
            found[str(path)] = rows
            write_text(outcomes, json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
