"""The package for students: a zip with the lessons, the library, what to install and where the data come from.

It holds no solution, and every link in it leads to a file in it or to the web. A class works with this, not with a
clone: the clone has the solved lessons.
"""

import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from fedlib.report.notebooks import COURSE

NAME = "federated-learning-course.zip"
FOLDER = Path(NAME).stem
GLOSSARY = "glossary.md"
LINK = re.compile(r"\[([^\]\[]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
ABOUT_WORKBOOK = re.compile(r"^- In this workbook:.*\n(?:  .*\n)*", re.MULTILINE)  # papers' notebooks, not in it
COPIED = ("constraints.txt", "pyproject.toml", "LICENSE")  # what pip needs beside the library, and the licence
REQUIREMENTS = "-c constraints.txt\n.\n"  # install the library in this folder, with the pinned versions
EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed time stamp: equal contents make equal zip files
READABLE = 0o644  # by all users of the machine on which `unzip` unpacks it
READ_ME = "students.md"  # in the folder of the lessons; becomes the package's README.md


def write(root: Path, lessons: dict[str, NotebookNode], path: Path) -> Path:
    """Pack the student versions of the lessons, by file name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in contents(root, lessons):
            file = zipfile.ZipInfo(f"{FOLDER}/{name}", EPOCH)
            file.external_attr = READABLE << 16
            package.writestr(file, content, zipfile.ZIP_DEFLATED)
    return path


def contents(root: Path, lessons: dict[str, NotebookNode]) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of all files."""
    sources = root / "notebooks" / COURSE
    yield "README.md", (sources / READ_ME).read_bytes()
    yield GLOSSARY, (sources / GLOSSARY).read_bytes()
    yield "requirements.txt", REQUIREMENTS.encode()
    for name, lesson in lessons.items():
        yield name, (nbformat.writes(with_links(of_package(lesson), inside)) + "\n").encode()
    for name in COPIED:
        yield name, (root / name).read_bytes()
    for source in sorted((root / "fedlib").rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            yield source.relative_to(root).as_posix(), source.read_bytes()


def of_package(lesson: NotebookNode) -> NotebookNode:
    """The lesson without what it says about the rest of the workbook, in place."""
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            cell.source = ABOUT_WORKBOOK.sub("", cell.source)
    return lesson


def inside(link: str) -> str | None:
    """Where a link of a lesson leads in the package, or None: the library's files are in it, the papers' notebooks are
    not."""
    return link.removeprefix("../../") if link.startswith("../../fedlib/") else None


def with_links(notebook: NotebookNode, new_target: Callable[[str], str | None]) -> NotebookNode:
    """Rewrite the links of markdown cells, in place. Links to lessons, to the glossary and to the web stay; any other
    leads to `new_target(link)`, or becomes plain text if that is None."""

    def moved(match: re.Match[str]) -> str:
        text, link, anchor = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", link) or re.fullmatch(rf"0\d_\w+\.ipynb|{GLOSSARY}", link):
            return match[0]
        return text if (target := new_target(link)) is None else f"[{text}]({target}{anchor})"

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(moved, cell.source)
    return notebook
