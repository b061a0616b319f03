"""The house: every package says what is in it, all papers have one shape, one word means one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import fedlib
from fedlib import engine, problem, selection
from fedlib.problem import limits

PACKAGE = Path(fedlib.__file__).parent
SHAPE = ("experiments", "results", "pictures", "audits")
MODULES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = sorted(file.parent for file in MODULES if file.name == "__init__.py")
LESSON_SHAPE = ("problem", "pictures", "checks")
LESSONS = sorted((PACKAGE / "course").glob("lesson?"))
PAPERS = sorted(file.parent for file in PACKAGE.glob("papers/*/paper.yaml"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_every_package_says_on_one_screen_what_is_in_it(package):
    text = (package / "__init__.py").read_text(encoding="utf-8")
    assert len((ast.get_docstring(ast.parse(text)) or "").split()) >= 5, "a docstring that says what is here"
    assert len(text.splitlines()) <= 130


@pytest.mark.parametrize("paper", PAPERS, ids=name_of)
def test_all_papers_have_the_same_shape(paper):
    parts = {path.stem for path in paper.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts - {"__init__"} == set(SHAPE)


@pytest.mark.parametrize("lesson", LESSONS, ids=name_of)
def test_all_lessons_have_the_same_shape(lesson):
    assert {path.stem for path in lesson.glob("*.py")} - {"__init__"} == set(LESSON_SHAPE)


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name_of(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_two_modules_share_a_name():
    """Packages count too; but for the shapes of the papers and the lessons, methods named as in their paper's package,
    and the two names that others rely on."""
    places = defaultdict(list)
    for path in [*MODULES, *PACKAGES]:
        inside_a_paper = path != PACKAGE and path.relative_to(PACKAGE).parts[0] == "papers"
        shaped = inside_a_paper or path.parent in LESSONS
        if path.stem not in ("__init__", "__main__") and not shaped and path.parent != PACKAGE:
            places[path.stem].append(name_of(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


EXPORTS = {
    "fedlib": {"engine", "selection"},
    "fedlib.problem": set(problem.__all__),
    "fedlib.problem.limits": set(vars(limits)),
    "fedlib.engine": set(engine.__all__),
    "fedlib.selection": set(selection.__all__),
}


@pytest.mark.parametrize("file", sorted((PACKAGE / "algorithms").glob("*.py")), ids=name_of)
def test_methods_import_what_other_packages_export(file):
    """`from fedlib.engine.batch import ...` would tie a method to the inside of the engine."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("fedlib") for alias in node.names), ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fedlib"):
            names = {alias.name for alias in node.names}
            if not node.module.startswith("fedlib.algorithms"):
                assert names <= EXPORTS.get(node.module, set()), ast.unparse(node)


EDGES = ("commands/", "runs/backends/", "bench/")  # the command lines, and where runs execute
READERS = {  # others that read or write the environment, and why they must
    "surroundings.py": "tells notebooks what the config says of places and runs: one place for all of it",
    "numerics.py": "pins the libraries before they are imported",
    "engine/threads.py": "is part of every run's maker: it asks `surroundings` once runs are computed anew",
    "engine/compiled/__init__.py": "tells numba its cache while that is imported; part of every run's maker, too",
    "report/execute.py": "starts kernels, which inherit the environment",
    "runs/plan/measure.py": "is a process of its own, with one thread",
    "course/grade.py": "starts the kernels that grade",
}


def environment_reads(source: str) -> list[int]:
    """The lines that name `os.environ` or `os.getenv`, however imported."""
    names = ("environ", "environb", "getenv", "putenv")
    parts = list(ast.walk(ast.parse(source)))
    attributes = [part.lineno for part in parts if isinstance(part, ast.Attribute) and part.attr in names]
    imported = [part for part in parts if isinstance(part, ast.ImportFrom) and part.module == "os"]
    return attributes + [part.lineno for part in imported if any(alias.name in names for alias in part.names)]


def test_the_environment_is_read_at_the_edges_only():
    readers = {name_of(file) for file in MODULES if environment_reads(file.read_text(encoding="utf-8"))}
    assert {name for name in readers if not name.startswith(EDGES)} == set(READERS)


def test_reads_of_the_environment_are_seen_by_whatever_name():
    assert environment_reads("import os as system\nsystem.environ['A']") == [2]
    assert environment_reads("from os import getenv as get\nget('A')") == [1]
    assert environment_reads("from os import path\nenvironment = path") == []


def test_other_packages_are_used_through_their_public_modules():
    """`hydra._internal` may be gone tomorrow."""
    private = []
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            private += [f"{name_of(file)}: {name}" for name in modules if "._" in name]
    assert private == []
