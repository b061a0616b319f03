"""The workbook as a whole: ledger, notebooks and what they leave behind fit together."""

import ast
import json
import os
import re
from collections.abc import Iterator
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

from fedlib import data
from fedlib.judging import ledger
from fedlib.problem.federation import federate
from fedlib.report.maths import mathml
from fedlib.report.notebooks import discover
from fedlib.runs.simulation import simulate

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = [notebook.path for notebook in discover(ROOT)]
LESSONS = sorted((ROOT / "notebooks" / "course").glob("*.ipynb"))
ENTRIES = [entry for paper in ledger.papers() for entry in ledger.load(paper).entries]


def page_of(entry: ledger.Entry) -> Path | None:
    paper = entry.id.split("/")[0]
    return next((path for path in NOTEBOOKS if path.parent.name == paper and path.stem[3:] == entry.page), None)


@cache  # megabytes each, asked for by hundreds of tests
def outputs(path: Path) -> list:
    return [output for cell in nbformat.read(path, 4).cells for output in cell.get("outputs", [])]


def shown_ids(path: Path) -> set[str]:
    about = [output.get("metadata", {}).get("fedlib", {}) for output in outputs(path)]
    return {entry["id"] for entry in about if "id" in entry} | {
        id for entry in about for id in entry.get("verdicts", [])
    }


@pytest.mark.parametrize("path", [*NOTEBOOKS, *LESSONS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_formula_can_be_drawn(path):
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "markdown":
            for formula in re.findall(r"\$\$(.+?)\$\$|\$(.+?)\$", cell.source, re.DOTALL):
                drawn = mathml("".join(formula))
                assert "\\" not in re.sub(r'alttext="[^"]*"', "", drawn), formula


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_every_ledger_entry_is_shown_on_its_page(entry):
    page = page_of(entry)
    assert page is not None, f"{entry.id} names the page {entry.page!r}, which is no notebook"
    assert entry.id in shown_ids(page)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_every_ledger_entry_has_its_numbers_as_csv_once_the_notebooks_have_run(entry):
    report = Path(os.environ.get("FEDLIB_REPORT", "missing"))
    if not (report / "data").is_dir():
        pytest.skip("the notebooks have not run in this session: make test does that first")
    file = ledger.data_file(report, entry.id)
    assert file.exists(), f"no {file.name}"
    assert len(file.read_text().splitlines()) > 1, f"{file.name} has no rows"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
class TestNotebook:
    def test_saved_outputs_are_whole_and_name_no_machine(self, path):
        found = outputs(path)
        assert found, "saved without outputs"
        assert not [output for output in found if output.output_type == "error"]
        assert not re.search(r"/(root|home|tmp|work|Users)/\w", json.dumps(found))

    def test_every_picture_has_alt_text(self, path):
        pictures = [output for output in outputs(path) if "image/png" in output.get("data", {})]
        assert all(len(picture.metadata["image/png"]["alt"]) > 20 for picture in pictures)

    def test_parameters_are_literals_with_a_meaning_each(self, path):
        (cell,) = [cell for cell in nbformat.read(path, 4).cells if "parameters" in cell.metadata.get("tags", [])]
        for line in ast.parse(cell.source).body:
            ast.literal_eval(line.value)  # raises when a value is derived from another
            assert "  # " in cell.source.splitlines()[line.end_lineno - 1], f"no meaning beside {ast.unparse(line)}"

    def test_cells_are_short(self, path):
        long = [cell.source for cell in nbformat.read(path, 4).cells if len(cell.source.splitlines()) > 40]
        assert not [source for source in long if not source.startswith("#")]

    def test_what_needs_data_is_a_run_or_a_computation(self, path):
        """Else a page would not read the same without the data on disk."""
        source = "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code")
        assert not [name for name, thing in things_used(source) if computes_directly(thing)]


def computes_directly(thing: object) -> bool:
    """Whether something builds federations, loads data, runs methods, or belongs to the engine."""
    module = thing.__name__ if isinstance(thing, ModuleType) else str(getattr(thing, "__module__", ""))
    return thing in (federate, simulate, data.load) or module.startswith("fedlib.engine")


def things_used(source: str) -> Iterator[tuple[str, object]]:
    """What the code names through its imports, such as `data.load`, and what it is; fedlib's only."""
    tree = ast.parse(source)
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {name.asname or name.name.split(".")[0]: import_module(name.name) for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {name.asname or name.name: member(node.module, name.name) for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, *attributes = ast.unparse(node).split(".")
            if first in imported:
                yield (
                    ast.unparse(node),
                    reduce(lambda thing, name: getattr(thing, name, None), attributes, imported[first]),
                )


def member(module: str, name: str) -> object:
    """What `from module import name` binds."""
    package = import_module(module)
    return getattr(package, name) if hasattr(package, name) else import_module(f"{module}.{name}")


@pytest.mark.parametrize(
    ("source", "direct"),
    [
        ("from fedlib.problem.federation import federate as deal\ndeal('mnist')", ["deal"]),
        ("import fedlib\nfedlib.simulate(1)", ["fedlib.simulate"]),
        ("from fedlib import data\ndata.load('mnist'); data.available()", ["data.load"]),
        ("from fedlib import engine\nengine.train", ["engine", "engine.train"]),
        ("from fedlib.engine import Work\nWork(lr=1)", ["Work"]),
        ("from fedlib.runs import study\nstudy.execute([])", []),
    ],
)
def test_direct_computing_is_seen_by_whatever_name(source, direct):
    assert sorted(name for name, thing in things_used(source) if computes_directly(thing)) == direct
