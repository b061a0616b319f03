"""`python -m fedlib.course`: build the course, make a machine ready for it, grade what was handed in.

    python -m fedlib.course                   student and instructor versions, the students' package -> reports/course
    python -m fedlib.course ready             fetch the data and compile the loops, once per machine
    python -m fedlib.course grade handed-in   our checks for every notebook below handed-in -> grades.csv, totals.csv

Grading executes the students' code on this machine.
"""

import argparse
import sys
from pathlib import Path

from fedlib.surroundings import REPOSITORY


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: 0 fine, 2 a wrong argument."""
    parser = argparse.ArgumentParser(
        prog="python -m fedlib.course", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, default=REPOSITORY / "reports" / "course", help="where to write the course"
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("ready", help="fetch the data and compile the loops")
    grading = commands.add_parser("grade", help="run the checks; executes students' code")
    grading.add_argument("handed_in", type=Path, metavar="FOLDER", help="folder with the students' notebooks")
    grading.add_argument("--to", type=Path, metavar="CSV", help="file to write; default: FOLDER/grades.csv")
    grading.add_argument("--seconds", type=float, default=20, help="limit of one cell; default: %(default)s")
    given = parser.parse_args(arguments)
    try:
        if given.command == "grade":
            return _grade(given.handed_in, given.to, given.seconds)
        return _ready() if given.command == "ready" else _build(given.folder.resolve())
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))


def _build(folder: Path) -> int:
    from fedlib.course.build import build
    from fedlib.course.package import NAME

    pages = build(REPOSITORY, folder)
    print(f"{len(pages) // 2} lessons, each for students and for instructors: {folder / 'index.html'}")
    print(f"To hand out, without solutions: {folder / NAME}")
    return 0


def _ready() -> int:
    from fedlib.course.ready import make_ready

    make_ready()
    return 0


def _grade(handed_in: Path, to: Path | None, seconds: float) -> int:
    from fedlib.course.grade import grade, totals, write

    rows = grade(handed_in, seconds)
    path = to or handed_in / "grades.csv"
    write(rows, path)
    write(totals(rows), path.with_name("totals.csv"))
    passed = sum(row["passed"] == "yes" for row in rows)
    files = len({row["file"] for row in rows})
    print(f"{files} notebooks, {passed} of {len(rows)} checks passed: {path}; per student: totals.csv beside it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
