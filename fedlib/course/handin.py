"""Run the setup, exercise and check cells of notebooks and write down how each exercise ended.

    python -m fedlib.course.handin OUTCOMES.json SECONDS NOTEBOOK...

A program of its own, because what students write may loop, crash or print anything: `grade` starts one for each
notebook. SECONDS is the limit of an exercise or check cell. The file is written again after every cell, so that a
crash loses little.
"""

import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from fedlib.course.exercise import UNCHECKED, Exercise
from fedlib.data.files import write_text

TAGS = {"setup", "exercise", "check"}
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


def run(path: Path, seconds: float) -> Iterator[dict[str, Exercise]]:
    """Run the notebook's cells; after each, the exercises as they stand."""
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.reset()
    for each in _exercises(sys.modules.values()).values():
        each.passed, each.hint = False, UNCHECKED
    trouble = ""  # why the exercise before a check could not be run
    for cell in nbformat.read(path, as_version=4).cells:
        kind = TAGS & set(cell.metadata.get("tags", []))
        if cell.cell_type != "code" or not kind:
            continue
        error = _run_cell(shell, cell.source, SETUP_SECONDS if kind == {"setup"} else seconds)
        if "exercise" in kind:
            trouble = error
        known = _exercises(shell.user_ns.values())
        if error and "check" in kind:
            _blame(cell.source, known, trouble or error)
        yield known


def _run_cell(shell: InteractiveShell, source: str, seconds: float) -> str:
    """Empty, or what went wrong."""
    try:
        with time_limit(seconds):
            done = shell.run_cell(source)
    except TimeLimit as limit:  # it struck between the cell's end and ours
        return f"TimeLimit: {limit}"
    error = done.error_before_exec or done.error_in_exec
    return f"{type(error).__name__}: {error}" if error else ""


def _exercises(things: Any) -> dict[str, Exercise]:
    """The exercises of all lessons among these things, by the name under which a check cell calls them."""
    modules = [thing for thing in things if isinstance(thing, ModuleType) and "course.lesson" in thing.__name__]
    named = [(f"{m.__name__.split('.')[-1]}.{name}", thing) for m in modules for name, thing in vars(m).items()]
    return {name: thing for name, thing in named if isinstance(thing, Exercise)}


def _blame(source: str, known: dict[str, Exercise], error: str) -> None:
    """The exercises that this failed cell was to check have not passed, and this is why."""
    for name, each in known.items():
        if f"{name}(" in source:
            each.passed, each.hint = False, error


def main(outcomes: Path, seconds: float, notebooks: list[Path]) -> None:
    """See the module's text."""
    found: dict[str, list[dict]] = {}
    for path in notebooks:
        for known in run(path, seconds):
            rows = [{"exercise": each.number, "passed": each.passed, "hint": each.hint} for each in known.values()]
            found[str(path)] = rows
            write_text(outcomes, json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
