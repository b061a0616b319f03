"""Grade what students handed in: our checks of the lessons, applied to what every notebook of a folder defines.

`grades.csv` has a row per notebook and exercise, `totals.csv` one per student. A student is a folder of what was handed
in, or a single notebook that lies in no folder.

This executes the students' code with the rights of whoever calls it. Each notebook runs in a process of its own, each
cell with a time limit, but nothing keeps code from reading or writing files: grade on a machine where that is fine.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fedlib.course.exercise import UNCHECKED
from fedlib.course.handin import SETUP_SECONDS
from fedlib.runs.backends import cores

QUIET = {"FEDLIB_PROGRESS": "0", "TQDM_DISABLE": "1", "MPLBACKEND": "Agg"}


def grade(folder: Path, seconds: float = 20) -> list[dict[str, str]]:
    """One row for each exercise of each notebook below the folder; a cell may take `seconds`."""
    notebooks = [path for path in sorted(folder.rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts]
    if not notebooks:
        raise FileNotFoundError(f"no notebook (.ipynb) below {folder}: give the folder with the students' files")
    with ThreadPoolExecutor(cores()) as pool:
        graded = pool.map(lambda path: outcomes([path], seconds), notebooks)
    return [
        {
            "file": path.relative_to(folder).as_posix(),
            "exercise": row["exercise"],
            "passed": "yes" if row["passed"] else "no",
            "hint": row["hint"],
        }
        for path, found in zip(notebooks, graded, strict=True)
        for row in found[path]
    ]


def outcomes(notebooks: list[Path], seconds: float) -> dict[Path, list[dict]]:
    """How the exercises of these notebooks ended, from one process that runs them all."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "outcomes.json"
        command = [sys.executable, "-m", "fedlib.course.handin", str(file), str(seconds), *map(str, notebooks)]
        limit = len(notebooks) * (SETUP_SECONDS + 20 * seconds)  # a lesson has some ten exercise and check cells
        ended = _ended(command, limit, Path(folder) / "log")
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    nothing = [{"exercise": "", "passed": False, "hint": UNCHECKED if ended else "no exercise of the course in it"}]
    return {path: [_explained(row, ended) for row in found.get(str(path)) or nothing] for path in notebooks}


def _ended(command: list[str], limit: float, log: Path) -> str:
    """Run it; empty, or how it ended before its time."""
    with open(log, "wb") as errors:  # a file, not a pipe: nobody waits for processes that a student left behind
        try:
            done = subprocess.run(
                command,
                env=os.environ | QUIET,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the notebook took longer than {limit:g} s"
    if done.returncode == 0:
        return ""
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return ": ".join(["the notebook's process ended early", *said[-1:]])


def _explained(row: dict, ended: str) -> dict:
    """What was not reached says why."""
    return row | {"hint": f"{UNCHECKED}: {ended}"} if ended and row["hint"] == UNCHECKED else row


def totals(rows: list[dict[str, str]]) -> list[dict[str, str | int]]:
    """One row per student: exercises passed in each lesson, and in all. Of several hand-ins the best counts."""
    numbers = sorted({row["exercise"] for row in rows if row["exercise"]})
    passed: dict[str, set[str]] = {}
    for row in rows:
        first, *rest = row["file"].split("/")
        done = passed.setdefault(first if rest else first.removesuffix(".ipynb"), set())
        done |= {row["exercise"]} if row["passed"] == "yes" else set()
    lessons = sorted({number.split(".")[0] for number in numbers})
    return [
        {"student": student}
        | {f"lesson {lesson}": sum(number.startswith(f"{lesson}.") for number in done) for lesson in lessons}
        | {"passed": len(done), "exercises": len(numbers)}
        for student, done in sorted(passed.items())
    ]


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """The rows as CSV, under the names of the first."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
