"""What the README and the pages of docs promise: links, table, commands and examples are tried, not read."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib

import pytest
import yaml
from PIL import Image
from toy_workbook import REPOSITORY

from fedlib.commands import catalogue, explain, record_cli, verify_cli
from fedlib.commands.plan_cli import read
from fedlib.commands.reports import jobs_of
from fedlib.judging import ledger
from fedlib.report.notebooks import START, cells, discover

pytestmark = pytest.mark.slow

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
DOCS = sorted((REPOSITORY / "docs").glob("*.md"))
PAGES = "\n".join([README, *(page.read_text(encoding="utf-8") for page in DOCS)])
START_NOTEBOOK = REPOSITORY / "notebooks" / "00_start_here.ipynb"
PAPER_NOTEBOOKS = [notebook for notebook in discover(REPOSITORY) if notebook.paper in ledger.papers()]


def blocks(language: str) -> list[str]:
    """Fenced blocks in that language on the README and the pages of docs, also those inside lists."""
    fenced = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", PAGES, flags=re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for marked, block in fenced if marked == language]


def links(text: str) -> list[str]:
    """Local targets of all links and pictures."""
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:|#", target)]


def start_text() -> str:
    return "\n".join("".join(cell["source"]) for cell in cells(START_NOTEBOOK) if cell["cell_type"] == "markdown")


@pytest.mark.parametrize(
    "file",
    [
        *("README.md", "CONTRIBUTING.md", "notebooks/course/README.md", "notebooks/00_start_here.ipynb"),
        *(page.relative_to(REPOSITORY).as_posix() for page in DOCS),
    ],
)
def test_local_links_lead_somewhere(file):
    path = REPOSITORY / file
    text = start_text() if path == START_NOTEBOOK else path.read_text(encoding="utf-8")
    assert [target for target in links(text) if not (path.parent / target).exists()] == []


def test_the_readme_leads_to_every_page():
    assert {target for target in links(README) if target.startswith("docs/") and target.endswith(".md")} == {
        page.relative_to(REPOSITORY).as_posix() for page in DOCS
    }


def test_the_table_and_the_map_list_exactly_the_notebooks_there_are():
    there = {notebook.path.relative_to(REPOSITORY / "notebooks").as_posix() for notebook in PAPER_NOTEBOOKS}
    in_table = {
        target.removeprefix("notebooks/") for target in links(README) if re.match(r"notebooks/\w+/.*ipynb", target)
    }
    assert in_table == there
    elsewhere = {"course/README.md", "../docs/judging.md", "../README.md"}  # the course, the rules, the findings
    assert set(links(start_text())) - elsewhere == there


@pytest.mark.parametrize("notebook", PAPER_NOTEBOOKS, ids=lambda notebook: notebook.label)
def test_the_table_names_the_figures_that_a_notebook_draws(notebook):
    entries = [entry for entry in ledger.load(notebook.paper).entries if entry.page == notebook.name]
    place, drawn = notebook.path.relative_to(REPOSITORY).as_posix(), catalogue.printed(entries)
    said = re.search(rf"\({re.escape(place)}\)(?:: ([^<|]*))?", README)
    assert said and (said[1] or "").strip() == drawn


def test_every_command_is_one_that_fedlib_accepts():
    lines = [line.strip() for block in blocks("") for line in block.splitlines()]
    inline = re.findall(r"`(python -m fedlib[^`.]*)`", PAGES)
    commands = [shlex.split(line)[3:] for line in lines + inline if line.startswith("python -m fedlib")]
    assert sum("-m" in command for command in commands) == 1  # the sweep
    for command in (command for command in commands if command != ["--help"]):
        if command[:1] == ["list"]:
            assert set(command[1:]) <= set(catalogue.SECTIONS)
        elif command[:1] == ["plan"]:
            assert jobs_of(read(command[1:])[1], REPOSITORY)
        elif command[:1] == ["explain"]:
            assert explain.find(command[1])
        elif command[:1] == ["verify"]:
            verify_cli.read(command[1:])
        elif command[:1] == ["record"]:
            record_cli.read(command[1:])
        elif command[:1] == ["findings"]:
            assert command == ["findings"]
        else:
            assert jobs_of(command, REPOSITORY)


def test_the_method_example_is_a_method_once_its_file_is_there(tmp_path):
    (example,) = [block for block in blocks("python") if "class TrimmedMean" in block]
    assert len(example.splitlines()) < 30
    ignored = shutil.ignore_patterns("__pycache__", "bench")
    shutil.copytree(REPOSITORY / "fedlib", tmp_path / "fedlib", ignore=ignored)
    (tmp_path / "fedlib" / "algorithms" / "trimmedmean.py").write_text(example)
    own, use = [block for block in blocks("python") if "mine" in block]
    question = """
        import contextlib
        from fedlib.commands import catalogue
        same = fedlib.federate("mine", "iid", clients=5)
        run = lambda name, **options: fedlib.simulate(create(name, epochs=2, **options), same, rounds=3)["loss"]
        assert max(abs(run("trimmedmean", trim=0.0) - run("fedavg"))) < 1e-5
        assert max(abs(run("trimmedmean", trim=0.4) - run("fedavg"))) > 1e-4
        with contextlib.suppress(ValueError):
            create("trimmedmean", trim=0.5)
            raise AssertionError("trim=0.5 leaves nobody")
        assert "trimmedmean     Trimmed mean (Yin et al." in " ".join(catalogue.methods(None, []))
        assert len(records) == 11
    """
    places = {"PYTHONPATH": str(tmp_path), "FEDLIB_DATA": str(tmp_path / "data"), "FEDLIB_PROGRESS": "0"}
    code = "import fedlib\n" + own + use + textwrap.dedent(question)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | places, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout


def test_the_pictures_are_small_and_described():
    pictures = re.findall(r"^!\[(.+)\]\(([^)]+)\)$", README, re.MULTILINE)
    assert len(pictures) == 2  # the finding, and client drift
    for alt, file in pictures:
        assert 80 < len(alt) < 500
        assert (REPOSITORY / file).stat().st_size < 150_000
        with Image.open(REPOSITORY / file) as picture:
            assert picture.width >= 800


def test_the_citation_names_the_papers_and_the_version():
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    titles = {reference["title"] for reference in citation["references"]}
    assert {ledger.load(paper).title for paper in ledger.papers()} <= titles
    assert citation["version"] == tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert citation["license"] == "MIT" and (REPOSITORY / "LICENSE").read_text().startswith("MIT License")


def test_the_contributors_page_fits_on_a_screen():
    assert len((REPOSITORY / "CONTRIBUTING.md").read_text().splitlines()) <= 40


def test_the_start_notebook_belongs_to_no_paper_and_comes_first():
    assert discover(REPOSITORY)[0].label == f"{START}.here"
    assert START not in ledger.papers()
