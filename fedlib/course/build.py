"""Two versions of every lesson from one source, as notebooks and as pages, and an index of them.

A source in `notebooks/course` is complete: solutions stand between `# BEGIN SOLUTION` and `# END SOLUTION`, discussions
in markdown cells tagged `solution`, and outputs are saved. Nothing is executed here.

| tag | student notebook | student page | instructor version |
|---|---|---|---|
| exercise | the stub | the stub, no outputs | the solution |
| check, uses-answer | as it is | no outputs: they came from the solution | as saved |
| a picture (no tag) | its code is folded: it describes what will be seen | as saved | as saved |
| prediction | as it is | removed: one cannot write on a page | as saved; removed from the page |
| solution | removed | removed | as saved; folded on the page |
| widget | as it is | no outputs: a slider needs a kernel | no outputs |

Student notebooks carry no outputs at all: students who are asked for a prediction should not see the answer below. They
also go into a package of their own (`package`), which has no solution in it.
"""

import ast
import base64
import copy
import os
import re
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any

import jinja2
import nbformat
from markupsafe import Markup
from nbformat import NotebookNode
from traitlets import default

from fedlib.course import package
from fedlib.course.package import GLOSSARY, with_links
from fedlib.data.files import write_text
from fedlib.report import index
from fedlib.report.html import TEMPLATES, PageExporter, inline, presentable
from fedlib.report.notebooks import COURSE, lessons, title

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
YOUR_TURN = 'raise NotImplementedError("your turn")'
GUIDE = "guide.html"  # the teacher's guide as a page
FROM_ANSWERS = {"exercise", "check", "uses-answer"}  # cells whose outputs reveal the solution


def build(root: Path, folder: Path) -> list[Path]:
    """Write both versions of all lessons, their pages, the indexes and the package for students into
    `folder`. Returns the paths of the lessons' pages."""
    notebooks = {lesson.path: nbformat.read(lesson.path, as_version=4) for lesson in lessons(root)}
    pages = []
    for version, (as_notebook, as_page) in VERSIONS.items():
        for path, source in notebooks.items():
            relinked = _relative_links(path.parent, folder / version) if version == "instructor" else _nowhere
            write_text(folder / version / path.name, nbformat.writes(with_links(as_notebook(source), relinked)) + "\n")
            page = folded(presentable(with_links(as_page(source), relinked), root), source)
            pages.append(write_page(page, version, folder / version / f"{path.stem}.html"))
        glossary = (root / "notebooks" / COURSE / GLOSSARY).read_text(encoding="utf-8")
        write_text(folder / version / GLOSSARY, glossary)
        write_page(_text(glossary), version, folder / version / f"{Path(GLOSSARY).stem}.html")
        write_index(notebooks, {version: ""}, folder / version / "index.html")
    students = {path.name: student(source) for path, source in notebooks.items()}
    package.write(root, students, folder / package.NAME)
    guide = with_links(_text((root / "notebooks" / COURSE / "README.md").read_text(encoding="utf-8")), _nowhere)
    write_page(guide, "instructor", folder / "instructor" / GUIDE)
    folders = {version: f"{version}/" for version in VERSIONS}
    write_index(notebooks, folders, folder / "index.html", f"instructor/{GUIDE}")
    return pages


def _text(markdown: str) -> NotebookNode:
    """A notebook of one text, to be written as a page."""
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(markdown)])


def _nowhere(link: str) -> None:
    """What is handed out may lie anywhere: links into the repository become plain text."""


def tags(cell: NotebookNode) -> set[str]:
    """What a cell is for."""
    return set(cell.metadata.get("tags", []))


def student(notebook: NotebookNode) -> NotebookNode:
    """The student notebook: stubs instead of solutions, and no outputs."""
    lesson = student_page(notebook, without={"solution"})
    for cell in lesson.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if "show.picture(" in cell.source and "exercise" not in tags(cell):
                cell.metadata["jupyter"] = {"source_hidden": True}
    return lesson


def student_page(notebook: NotebookNode, without: Set[str] = frozenset({"solution", "prediction"})) -> NotebookNode:
    """Stubs instead of solutions, without the outputs that reveal a solution or need a kernel."""
    lesson = copy.deepcopy(notebook)
    lesson.cells = [cell for cell in lesson.cells if not tags(cell) & without]
    for cell in lesson.cells:
        if "exercise" in tags(cell):
            cell.source = stub(cell.source)
        if tags(cell) & (FROM_ANSWERS | {"widget"}):
            cell.outputs, cell.execution_count = [], None
    return lesson


def instructor(notebook: NotebookNode) -> NotebookNode:
    """Solutions under a plain comment."""
    lesson = copy.deepcopy(notebook)
    for cell in lesson.cells:
        if "exercise" in tags(cell):
            cell.source = solved(cell.source)
        if "widget" in tags(cell):
            cell.outputs, cell.execution_count = [], None
    return lesson


def instructor_page(notebook: NotebookNode) -> NotebookNode:
    """What instructors see, without the cells that only a kernel can use."""
    lesson = instructor(notebook)
    lesson.cells = [cell for cell in lesson.cells if "prediction" not in tags(cell)]
    return lesson


VERSIONS = {"student": (student, student_page), "instructor": (instructor, instructor_page)}  # as notebook, as page


def solved(source: str) -> str:
    """The exercise with its solution, and a comment where that begins."""
    lines = [line.replace(BEGIN, "# Solution") for line in source.splitlines() if line.strip() != END]
    return "\n".join(lines)


def stub(source: str) -> str:
    """The exercise without its solution: in a function `raise NotImplementedError`, at top level `name = ...` for every
    name that the solution defines."""
    lines = source.splitlines()
    for begin, end in reversed(list(regions(source))):
        lines[begin : end + 1] = _placeholder(source, begin, end)
    return "\n".join(lines)


def regions(source: str) -> Iterator[tuple[int, int]]:
    """First and last line of each solution, the marks included."""
    begin = None
    for number, line in enumerate(source.splitlines()):
        if line.strip() in (BEGIN, END) and (line.strip() == BEGIN) != (begin is None):
            raise ValueError(f"line {number + 1}: {BEGIN} and {END} must alternate, in\n{source}")
        if line.strip() == BEGIN:
            begin = number
        elif line.strip() == END and begin is not None:
            yield begin, number
            begin = None
    if begin is not None:
        raise ValueError(f"line {begin + 1}: a {END} is missing, in\n{source}")


def _placeholder(source: str, begin: int, end: int) -> list[str]:
    """The lines that replace a solution in the stub."""
    mark = source.splitlines()[begin]
    indent = mark.removesuffix(mark.lstrip())
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    # begin + 2 is the first line of the solution, counted from 1 as `ast` does. A function that begins there is itself
    # the solution.
    if any(_spans(function, begin + 2) for function in functions):
        return [f"{indent}{YOUR_TURN}"]
    if indent:
        raise ValueError(f"line {begin + 1}: a solution must be in a function or at top level, in\n{source}")
    region = ast.parse("\n".join(source.splitlines()[begin : end + 1]))
    return [f"{name} = ..." for name in _assigned(region)] or ["# your turn"]


def _spans(function: ast.FunctionDef, line: int) -> bool:
    return function.lineno < line <= (function.end_lineno or function.lineno)


def _assigned(tree: ast.Module) -> list[str]:
    """Names that top-level statements set or define, in order."""
    names = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.append(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            names += [node.id for node in stored if isinstance(node.ctx, ast.Store)]
    return list(dict.fromkeys(names))


def _relative_links(folder: Path, target: Path) -> Callable[[str], str]:
    """A function that turns a link relative to `folder` into one relative to `target`."""
    return lambda link: Path(os.path.relpath(folder / link, target)).as_posix()


class LessonExporter(PageExporter):
    """A page with unfolded exercises and folded solutions."""

    styles = (*PageExporter.styles, "lesson/lesson.css")

    @default("template_name")
    def _template_name_default(self) -> str:
        return "lesson"

    @default("extra_template_paths")
    def _extra_template_paths_default(self) -> list[str]:
        return [str(TEMPLATES)]  # from here the template extends `page`


def folded(lesson: NotebookNode, source: NotebookNode) -> NotebookNode:
    """Replace each solved exercise by its stub, and keep the solution in the cell's metadata: the page shows it folded.
    Student pages have stubs already and stay as they are."""
    stubs = {cell.id: stub(cell.source) for cell in source.cells if "exercise" in tags(cell)}
    for cell in lesson.cells:
        if cell.source != stubs.get(cell.id, cell.source):
            cell.metadata["solution"], cell.source = cell.source, stubs[cell.id]
    return lesson


def write_page(lesson: NotebookNode, version: str, path: Path) -> Path:
    """The lesson as one HTML file that needs no network. It names the notebook beside it, if there is one."""
    notebook = path.with_suffix(".ipynb")
    markup = LessonExporter().page(
        lesson,
        page_of=_page_of,
        title=title(lesson.cells),
        about={"version": version, "notebook": notebook.name if notebook.exists() else ""},
        csv=set(),
        exhibits=set(),
        verdicts={},
    )
    write_text(path, markup)
    return path


def _page_of(link: str) -> str | None:
    """Lessons and the glossary have pages beside this one; a notebook elsewhere has none."""
    beside = "/" not in link
    if link.endswith(".ipynb"):
        return link.replace(".ipynb", ".html") if beside else None
    return link.replace(".md", ".html") if beside else link


def write_index(notebooks: dict[Path, NotebookNode], versions: dict[str, str], path: Path, guide: str = "") -> None:
    """A card per lesson; `versions` says in which folder, as seen from the index, each version is."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True)
    markup = environment.get_template("course.html.j2").render(
        lessons=[_card(source.stem, notebook) for source, notebook in notebooks.items()],
        versions=versions,
        guide=guide,
        package=package.NAME,
        style=Markup(inline("base.css", "overview.css", "course.css")),
    )
    write_text(path, markup)


def _card(name: str, notebook: NotebookNode) -> dict[str, Any]:
    """The lesson's entry in the index."""
    minutes = re.search(r"\b\d+ minutes", notebook.cells[0].source)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    drawn = next((output for output in outputs if "image/png" in output.get("data", {})), None)
    return {
        "name": name,
        "title": title(notebook.cells),
        "time": minutes[0] if minutes else "",
        "goals": goals(notebook),
        "exercises": sum("check" in tags(cell) for cell in notebook.cells),  # one cell of checks for each
        "picture": drawn and index.small(base64.b64decode(drawn.data["image/png"])),
        "alt": drawn and drawn.metadata["image/png"]["alt"],
    }


def goals(notebook: NotebookNode) -> list[str]:
    """The bullets of the first cell after "you can", as plain text."""
    _, _, rest = notebook.cells[0].source.partition("you can")
    block = re.search(r"(?:^- .*\n?(?:^  +\S.*\n?)*)+", rest, flags=re.MULTILINE)
    bullets = re.split(r"^- ", block[0], flags=re.MULTILINE)[1:] if block else []
    return [re.sub(r"[*`$]", "", " ".join(bullet.split())).rstrip(".;,") for bullet in bullets]
