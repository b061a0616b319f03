"""The course: exercises that check themselves, student and instructor versions of the lessons, grading."""

import csv
import html
import importlib
import json
import linecache
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch
from toy_workbook import REPOSITORY

from fedlib.course import build, grade, package, prediction
from fedlib.course.__main__ import main
from fedlib.course.exercise import Exercise, exercise, filled, number_in, require, scorecard, whole_number_in
from fedlib.course.prediction import looked_back, predict
from fedlib.data.files import write_text
from fedlib.report import index
from fedlib.report.notebooks import discover, lessons

pytestmark = pytest.mark.slow


UNWRITTEN = "still to be written. Replace what stands for the answer, run that cell, then this one."


@exercise("1.2", "The share of the largest class", recipe="Count first.")
def largest_share(answer):
    share = answer([3, 1])
    require(abs(share - 0.75) < 1e-9, f"Three of four is 3/4. You returned {share}.")


def in_notebook(cell: str) -> dict:
    """The names that a cell defines, run as a kernel does: in __main__, with its lines at hand for error messages."""
    linecache.cache["a cell"] = (len(cell), None, cell.splitlines(keepends=True), "a cell")
    names = {"__name__": "__main__"}
    exec(compile(cell, "a cell", "exec"), names)
    return names


def test_a_right_answer_passes_and_is_remembered(capsys):
    largest_share(lambda counts: max(counts) / sum(counts))
    assert capsys.readouterr().out == "✓ 1.2 The share of the largest class\n"
    assert largest_share.passed and largest_share.hint == ""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda counts: max(counts), "not yet. Hint: Three of four is 3/4. You returned 3."),
        (..., UNWRITTEN),
        (None, UNWRITTEN),
        (
            0.75,
            "not yet. The answer could not be checked, perhaps it has another form than the task asks for. "
            "TypeError: 'float' object is not callable",
        ),
    ],
    ids=["wrong", "dots", "nothing", "no function"],
)
def test_a_wrong_answer_gets_a_hint_and_never_an_exception(answer, told, capsys):
    largest_share.wrong = 0
    largest_share(answer)
    assert capsys.readouterr().out == f"✗ 1.2 The share of the largest class: {told}\n"
    assert not largest_share.passed


def test_a_stub_is_still_to_be_written(capsys):
    names = in_notebook('def largest_share(counts):\n    raise NotImplementedError("your turn")\n')
    largest_share(names["largest_share"])
    assert UNWRITTEN in capsys.readouterr().out
    assert not filled(names["largest_share"])


def test_an_answer_that_uses_an_open_exercise_is_told_which(capsys):
    cell = """
def total(counts):
    raise NotImplementedError("your turn")

def largest_share(counts):
    return max(counts) / total(counts)
"""
    largest_share(in_notebook(cell)["largest_share"])
    told = capsys.readouterr().out
    assert told == "✗ 1.2 The share of the largest class: total is still to be written and comes first.\n"


def test_the_recipe_is_told_from_the_second_wrong_answer_on_and_never_before_an_attempt(capsys):
    largest_share.wrong = 0
    said = []
    for answer in (..., None, ..., max, len, max):
        largest_share(answer)
        said.append(capsys.readouterr().out)
    assert ["Count first." in line for line in said] == [False] * 4 + [True] * 2
    assert said[-1].endswith("You returned 3. A way to do it: Count first.\n")


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (np.array(2), 2.0),
        (torch.tensor(0.25), 0.25),
        (True, None),
        ("0.5", None),
        ([0.5], None),
        (None, None),
    ],
    ids=repr,
)
def test_a_number_is_a_number_whatever_library_it_comes_from(answer, number):
    assert number_in(answer) == number
    assert whole_number_in(answer) == (number if number in (2.0, 3.0) else None)


def test_a_prediction_is_kept_and_never_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    predict("2a", "")
    assert not prediction.FILE.exists() and "nothing written down yet" in capsys.readouterr().out
    for text in ('They arrive, "slowly".', 'They arrive, "slowly".', "", "No:\nnever."):
        predict("2a", text)
    assert capsys.readouterr().out.splitlines() == [
        "2a: kept in predictions.csv.",
        '2a: kept: They arrive, "slowly".',
        '2a: kept: They arrive, "slowly".',
        '2a: kept in predictions.csv. Your first thought was: They arrive, "slowly".',
    ]
    predict("3a", "Of another lesson.")
    assert [row["text"] for row in prediction.kept()] == ['They arrive, "slowly".', "No: never.", "Of another lesson."]
    capsys.readouterr()
    looked_back(2)
    assert capsys.readouterr().out == ('1 prediction written down.\n  2a: They arrive, "slowly". Later: No: never.\n')


def test_an_error_names_the_line_of_the_students_cell(capsys):
    cell = "def mine(counts):\n    return half(counts)\n\ndef half(counts):\n    return counts[0] / (2 - 2)\n"
    largest_share.wrong = 0
    largest_share(in_notebook(cell)["mine"])
    out = capsys.readouterr().out
    assert out.endswith("ZeroDivisionError: division by zero (line 5 of your cell: return counts[0] / (2 - 2))\n")


def test_the_scorecard_lists_what_is_open(capsys):
    done = exercise("1.1", "Easy", recipe="")(lambda answer: None)
    still = exercise("1.2", "Hard", recipe="")(lambda answer: require(answer == 1, "It is odd."))
    done("anything")
    still(2)
    capsys.readouterr()
    scorecard(SimpleNamespace(easy=done, helper=len, hard=still))
    assert capsys.readouterr().out == "1 of 2 exercises done.\n  open: 1.2 Hard\n"
    still(1)
    capsys.readouterr()
    scorecard(SimpleNamespace(easy=done, helper=len, hard=still))
    assert capsys.readouterr().out == "2 of 2 exercises done.\n"


def test_filled_sees_stubs_in_functions_and_classes():
    class Stub:
        def select(self):
            raise NotImplementedError("your turn")

    class Selector:
        def select(self):
            return [1]

    assert filled(Selector, max, 0, lambda: 1)
    assert not filled(Stub)
    assert not filled(1, ...)
    assert not filled(None)


def lesson(*cells: tuple[str, str], outputs: bool = True) -> nbformat.NotebookNode:
    """A notebook of (tag, source) cells; those tagged `text` or `solution` are markdown."""
    made = []
    for tag, source in cells:
        markdown = tag in ("text", "solution")
        cell = nbformat.v4.new_markdown_cell(source) if markdown else nbformat.v4.new_code_cell(source)
        cell.metadata["tags"] = [tag]
        if not markdown and outputs:
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"output of {tag}\n")]
        made.append(cell)
    return nbformat.v4.new_notebook(cells=made)


FUNCTION = 'def f(x):\n    """Twice."""\n    y = 2\n    # BEGIN SOLUTION\n    return x * y\n    # END SOLUTION'
VALUES = "# Find both.\n# BEGIN SOLUTION\na, b = 3, [4]\nc: int = 5\n# END SOLUTION\nd = 6"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FUNCTION, 'def f(x):\n    """Twice."""\n    y = 2\n    raise NotImplementedError("your turn")'),
        (VALUES, "# Find both.\na = ...\nb = ...\nc = ...\nd = 6"),
        (
            "class S:\n    def pick(self):\n        # BEGIN SOLUTION\n        return 1\n        # END SOLUTION",
            'class S:\n    def pick(self):\n        raise NotImplementedError("your turn")',
        ),
        ("# BEGIN SOLUTION\ndef g():\n    h = 1\n    return h\n# END SOLUTION", "g = ..."),
        ("x = 1", "x = 1"),
    ],
    ids=["function", "values", "method", "whole function", "nothing"],
)
def test_a_stub_keeps_the_task_and_loses_the_solution(source, expected):
    assert build.stub(source) == expected


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("# BEGIN SOLUTION\nx = 1", "line 1: a # END SOLUTION is missing"),
        ("x = 1\n# END SOLUTION", "line 2: .* must alternate"),
        (
            "for i in []:\n    # BEGIN SOLUTION\n    x = 1\n    # END SOLUTION",
            "line 2: a solution must be in a function",
        ),
    ],
)
def test_marks_in_the_wrong_place_are_named(source, complaint):
    with pytest.raises(ValueError, match=complaint):
        build.stub(source)


def test_a_student_notebook_has_no_outputs_and_a_page_none_that_came_from_an_answer():
    asked = [("setup", "x = 1"), ("exercise", FUNCTION), ("check", "c(f)"), ("uses-answer", "f(1)")]
    source = lesson(*asked, ("prediction", 'predict("1a", "")'), ("solution", "Because."))
    made, page = build.student(source), build.student_page(source)
    assert [cell.metadata.tags[0] for cell in made.cells] == [tag for tag, _ in asked] + ["prediction"]
    assert [len(cell.outputs) for cell in made.cells] == [0, 0, 0, 0, 0]
    assert [cell.metadata.tags[0] for cell in page.cells] == [tag for tag, _ in asked]
    assert [len(cell.outputs) for cell in page.cells] == [1, 0, 0, 0]
    assert all(cell.execution_count is None for cell in made.cells)
    assert "x * y" not in nbformat.writes(made)
    assert "x * y" in source.cells[1].source  # the source is not touched


def test_the_code_of_a_students_pictures_is_folded_because_it_describes_them():
    source = lesson(("heavy", 'show.picture(fig, "It falls.")'), ("setup", "x = 1"), ("exercise", FUNCTION))
    folded = [cell.metadata.get("jupyter", {}).get("source_hidden", False) for cell in build.student(source).cells]
    assert folded == [True, False, False]
    assert all("jupyter" not in cell.metadata for cell in [*source.cells, *build.instructor(source).cells])


def test_an_instructor_sees_solutions_without_marks():
    made = build.instructor(lesson(("exercise", FUNCTION), ("solution", "Because.")))
    assert made.cells[0].source == 'def f(x):\n    """Twice."""\n    y = 2\n    # Solution\n    return x * y'
    assert made.cells[1].source == "Because."


LINKS = (
    "[next](02_drift.ipynb), [code](../../fedlib/problem/skew.py#L3), [paper](../fedgs/01_selection.ipynb), "
    "[site](https://example.org), [words](glossary.md), [here](#summary)"
)


def test_links_find_their_files_from_the_new_folder(tmp_path):
    place = build._relative_links(tmp_path / "notebooks/course", tmp_path / "reports/course/student")
    moved = package.with_links(lesson(("text", LINKS)), place)
    assert moved.cells[0].source == (
        "[next](02_drift.ipynb), [code](../../../fedlib/problem/skew.py#L3), "
        "[paper](../../../notebooks/fedgs/01_selection.ipynb), [site](https://example.org), [words](glossary.md), "
        "[here](#summary)"
    )


def test_links_out_of_the_package_become_text():
    moved = package.with_links(lesson(("text", LINKS)), package.inside)
    assert moved.cells[0].source == (
        "[next](02_drift.ipynb), [code](fedlib/problem/skew.py#L3), paper, [site](https://example.org), "
        "[words](glossary.md), [here](#summary)"
    )


def test_the_package_says_nothing_about_notebooks_that_are_not_in_it():
    reading = "- A paper.\n- In this workbook: [FedGS](../fedgs/01_selection.ipynb),\n  and more.\n- Next: lesson 2."
    made = package.of_package(lesson(("text", reading)))
    assert made.cells[0].source == "- A paper.\n- Next: lesson 2."


SETUP = ("setup", "import fedlib\nimport numpy as np\nfrom fedlib.course import lesson1")
HAND_INS = {
    "ada.ipynb": [  # one right, one raises, one loops, one is still open, one was left out
        SETUP,
        ("exercise", "def shares(counts):\n    return counts / counts.sum(axis=1, keepdims=True)"),
        ("check", "lesson1.shares(shares)"),
        ("exercise", "def effective(p):\n    return p[7]"),
        ("check", "lesson1.effective(effective)"),
        ("exercise", "def halves(labels, clients, rng):\n    while True:\n        pass"),
        ("check", "lesson1.halves(halves)"),
        ("plain", "raise RuntimeError('only setup and exercise cells are run')"),
        ("exercise", "first = ...\nsecond = ..."),
        ("check", "lesson1.indistinguishable(first, second)"),
    ],
    "bob/01.ipynb": [  # what cannot even be read, and what ends the process
        SETUP,
        ("exercise", "def shares(counts):\n    return 1 +"),
        ("check", "lesson1.shares(shares)"),
        ("exercise", "alpha = 0.25"),
        ("check", "lesson1.alpha_for_half(alpha)"),
        ("exercise", "import os\nos._exit(3)"),
    ],
    "bob/01 again.ipynb": [  # handed in once more, without check cells
        SETUP,
        ("exercise", "def shares(counts):\n    return counts / counts.sum(axis=1, keepdims=True)"),
    ],
    "eve/01.ipynb": [  # changes checks instead of answers
        SETUP,
        ("exercise", "def shares(counts):\n    return counts"),
        ("check", "lesson1.shares(lambda counts: counts / counts.sum(axis=1, keepdims=True))"),
        ("exercise", "lesson1.effective = lambda answer: print('✓')\ndef effective(p):\n    return 4"),
        ("check", "lesson1.effective.passed = True"),
        ("exercise", "lesson1.alpha_for_half.check = lambda answer: None\nalpha = 7"),
    ],
}


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory) -> Path:
    """Lesson 1, handed in by four students, and graded."""
    folder = tmp_path_factory.mktemp("handed-in")
    for name, cells in HAND_INS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        nbformat.write(lesson(*cells), folder / name)
    (folder / "bob" / ".ipynb_checkpoints").mkdir()
    nbformat.write(lesson(SETUP), folder / "bob" / ".ipynb_checkpoints" / "01.ipynb")
    (folder / "zoe.ipynb").write_text("no notebook at all")
    assert main(["grade", str(folder), "--seconds", "2"]) == 0
    return folder


def table(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def graded(handed_in) -> dict[tuple[str, str], tuple[str, str]]:
    """File and exercise -> passed and hint, as the table has them."""
    rows = table(handed_in / "grades.csv")
    assert list(rows[0]) == ["file", "exercise", "passed", "hint"]
    return {(row["file"], row["exercise"]): (row["passed"], row["hint"]) for row in rows}


def of(graded: dict, name: str) -> dict[str, tuple[str, str]]:
    return {number: outcome for (file, number), outcome in graded.items() if file == name}


def test_grading_tells_right_wrong_endless_and_open_answers_apart(graded):
    ada = of(graded, "ada.ipynb")
    assert ada["1.1"] == ("yes", "")
    assert ada["1.2"][0] == "no" and re.search(r"IndexError: .*\(line 2 of your cell: return p\[7\]\)", ada["1.2"][1])
    assert ada["1.3"] == ("no", "not checked")
    assert ada["1.4"] == ("no", "TimeLimit: longer than 2 s")
    assert ada["1.5"] == ("no", UNWRITTEN)
    assert len(ada) == 5


def test_grading_survives_what_cannot_be_read_and_what_ends_the_process(graded):
    bob = of(graded, "bob/01.ipynb")
    assert bob["1.1"][0] == "no" and bob["1.1"][1].startswith("SyntaxError")
    assert bob["1.3"] == ("yes", "")
    assert bob["1.4"] == ("no", "not checked: the notebook's process ended early")
    passed, hint = graded["zoe.ipynb", ""]
    assert passed == "no" and hint.startswith("not checked: the notebook's process ended early: ") and "JSON" in hint


def test_grading_uses_its_own_checks_and_not_those_in_the_notebook(graded):
    assert of(graded, "bob/01 again.ipynb")["1.1"] == ("yes", "")  # its check cell is missing
    eve = of(graded, "eve/01.ipynb")
    assert [number for number, (passed, _) in eve.items() if passed == "yes"] == []
    assert "each row must add up to 1" in eve["1.1"][1]
    assert "smaller alpha" in eve["1.3"][1]


def test_totals_count_the_best_hand_in_of_every_student(handed_in):
    rows = {row.pop("student"): row for row in table(handed_in / "totals.csv")}
    assert list(rows) == ["ada", "bob", "eve", "zoe"]
    assert rows["bob"] == {"lesson 1": "2", "passed": "2", "exercises": "5"}
    assert [rows[name]["passed"] for name in rows] == ["1", "2", "0", "0"]


def test_a_folder_without_notebooks_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["grade", str(tmp_path)])
    assert refused.value.code == 2 and "no notebook (.ipynb) below" in capsys.readouterr().err


LESSONS = [lesson.path for lesson in lessons(REPOSITORY)]


def number(path: Path) -> int:
    return int(path.stem[:2])


@pytest.fixture(scope="module")
def outcomes(course) -> dict[Path, list[dict]]:
    """How the exercises of every version end: setup, exercise and check cells of all of them, in one process."""
    return grade.outcomes(sorted(course.glob("*/*.ipynb")), seconds=60)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
class TestLesson:
    def test_says_what_it_teaches_how_long_it_takes_and_where_it_leads(self, path):
        source = nbformat.read(path, as_version=4)
        text = "\n\n".join(cell.source for cell in source.cells if cell.cell_type == "markdown")
        assert len(build.goals(source)) >= 2, "no goals: bullets after 'you can' in the first cell"
        assert re.search(r"\b\d+ minutes", source.cells[0].source), "the first cell gives no time in minutes"
        assert re.search(r"^## Summary", text, flags=re.MULTILINE) and re.search(
            r"^## Further reading", text, flags=re.MULTILINE
        )
        last = source.cells[-1]
        assert f"scorecard(lesson{number(path)})" in last.source and "uses-answer" in build.tags(last)

    def test_shows_a_picture_before_the_first_formula(self, path):
        cells = nbformat.read(path, as_version=4).cells
        pictures = [
            i for i, cell in enumerate(cells) for out in cell.get("outputs", []) if "image/png" in out.get("data", {})
        ]
        texts = [
            (i, re.sub(r"`[^`]*`", "", cell.source)) for i, cell in enumerate(cells) if cell.cell_type == "markdown"
        ]
        formulas = [i for i, text in texts if re.search(r"\$[^$]+\$", text)]
        assert pictures and formulas and pictures[0] < formulas[0]

    def test_has_three_to_five_exercises_each_with_its_check(self, path):
        module = importlib.import_module(f"fedlib.course.lesson{number(path)}")
        names = [name for name, thing in vars(module).items() if isinstance(thing, Exercise)]
        cells = nbformat.read(path, as_version=4).cells
        called = [cell.source for cell in cells if "check" in build.tags(cell)]
        answers = {name: ", ".join(getattr(module, name).answers) for name in names}
        assert sorted(called) == sorted(f"lesson{number(path)}.{name}({answers[name]})" for name in names)
        assert 3 <= len(names) <= 5 and all(getattr(module, name).recipe for name in names)
        solved = [cell for cell in cells if "exercise" in build.tags(cell)]
        assert len(solved) >= len(names) and all(list(build.regions(cell.source)) for cell in solved)

    def test_saved_outputs_are_whole_described_and_name_no_machine(self, path):
        cells = nbformat.read(path, as_version=4).cells
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        assert not [output for output in outputs if output.output_type == "error"]
        assert not re.search(r"/(root|home|tmp|work|Users)/\w", json.dumps(outputs))
        pictures = [output for output in outputs if "image/png" in output.get("data", {})]
        assert all(len(picture.metadata["image/png"].get("alt", "")) > 20 for picture in pictures)
        assert not [cell.source for cell in cells if len(cell.source.splitlines()) > 40 and cell.cell_type == "code"]

    def test_local_links_lead_somewhere(self, path):
        text = "\n".join(
            cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"
        )
        targets = [match[2] for match in package.LINK.finditer(text) if not re.match(r"[a-z]+:", match[2])]
        assert [target for target in targets if not (path.parent / target).exists()] == []

    def test_asks_for_predictions_before_it_shows_results(self, path):
        cells = nbformat.read(path, as_version=4).cells
        asked = [i for i, cell in enumerate(cells) if "**What do you expect" in cell.source]
        assert len(asked) >= 5
        for place, i in enumerate(asked):
            letter = "abcdefgh"[place]
            assert cells[i + 1].source == f'predict("{number(path)}{letter}", "")', cells[i].source[-80:]
            assert build.tags(cells[i + 1]) == {"prediction"}

    def test_the_student_version_has_no_solution(self, path, course):
        cells = nbformat.read(path, as_version=4).cells
        hidden = [cell.source for cell in cells if "solution" in build.tags(cell)]
        for cell in (cell for cell in cells if "exercise" in build.tags(cell)):
            lines = cell.source.splitlines()
            hidden += [line.strip() for begin, end in build.regions(cell.source) for line in lines[begin : end + 1]]
        told = [line for line in hidden if len(line) > 8]  # `i += 1` may stand anywhere
        assert told
        notebook = nbformat.read(course / "student" / path.name, as_version=4)
        assert [cell.source for cell in notebook.cells if cell.get("outputs")] == []
        page = (course / "student" / f"{path.stem}.html").read_text(encoding="utf-8")
        shown = "\n".join(cell.source for cell in notebook.cells) + html.unescape(re.sub(r"<[^>]+>", "", page))
        assert [line for line in told if line in shown] == []

    def test_the_student_version_waits_to_be_written(self, path, course, outcomes):
        rows = outcomes[course / "student" / path.name]
        assert all(row["exercise"].startswith(f"{number(path)}.") for row in rows)
        assert [row["hint"] for row in rows] == [UNWRITTEN] * len(rows)  # and no recipe before an attempt

    def test_the_instructor_version_passes_all_checks(self, path, course, outcomes):
        rows = outcomes[course / "instructor" / path.name]
        assert [row for row in rows if not row["passed"]] == []

    def test_the_instructor_page_folds_its_solutions(self, path, course):
        page = (course / "instructor" / f"{path.stem}.html").read_text(encoding="utf-8")
        cells = nbformat.read(path, as_version=4).cells
        solutions = [cell for cell in cells if build.tags(cell) & {"exercise", "solution"}]
        assert page.count('<details class="solution"><summary>Solution') == len(solutions)
        assert "SOLUTION" not in page


def test_the_package_has_lessons_library_requirements_and_a_pointer_to_the_data(unpacked):
    names = {path.name for path in unpacked.iterdir()}
    assert {path.name for path in LESSONS} <= names
    assert {"README.md", "requirements.txt", "constraints.txt", "pyproject.toml", "fedlib", "glossary.md"} <= names
    assert "## Data" in (unpacked / "README.md").read_text(encoding="utf-8")
    assert not list(unpacked.rglob("__pycache__"))


def test_the_files_of_the_package_can_be_read_by_everybody(course):
    with zipfile.ZipFile(course / package.NAME) as packed:
        assert {file.external_attr >> 16 for file in packed.infolist()} == {0o644}


def test_all_links_of_the_package_lead_to_files_in_it(unpacked):
    texts = {path: path.read_text(encoding="utf-8") for path in unpacked.glob("*.md")}
    for path in unpacked.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        texts[path] = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    links = [(path.name, match[2]) for path, text in texts.items() for match in package.LINK.finditer(text)]
    local = [(name, link) for name, link in links if not re.match(r"[a-z]+:", link)]
    assert local and [pair for pair in local if not (unpacked / pair[1]).exists()] == []


def test_the_package_has_no_solution_in_it(unpacked):
    """Nowhere in the lessons, nor in the library's part of the course, a line of a solution that says something."""
    solutions = set()
    for path in LESSONS:
        for cell in nbformat.read(path, as_version=4).cells:
            lines = cell.source.splitlines()
            if "exercise" in build.tags(cell):
                for begin, end in build.regions(cell.source):
                    solutions |= {line.strip() for line in lines[begin + 1 : end] if len(line.strip()) > 24}
            elif "solution" in build.tags(cell):
                solutions |= {line.strip() for line in lines if len(line.strip()) > 24}
    assert len(solutions) > 60
    files = [*unpacked.glob("*.*"), *unpacked.glob("fedlib/course/**/*.py")]
    told = {line for file in files for line in solutions if line in json_free(file)}
    assert told == set()


def json_free(file: Path) -> str:
    """The text of a file; of a notebook, that of its cells."""
    if file.suffix == ".ipynb":
        return "\n".join(cell.source for cell in nbformat.read(file, as_version=4).cells)
    return file.read_text(encoding="utf-8")


def test_there_are_eight_lessons_and_the_guide_names_each():
    assert [number(path) for path in LESSONS] == [1, 2, 3, 4, 5, 6, 7, 8]
    guide = (REPOSITORY / "notebooks" / "course" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in LESSONS if f"]({path.name})" not in guide] == []


def test_the_index_leads_to_every_version_and_the_students_index_to_theirs_only(course):
    links = re.findall(r'href="([^"#:]+)"', (course / "index.html").read_text(encoding="utf-8"))
    files = [
        f"{version}/{path.stem}.{kind}" for version in build.VERSIONS for path in LESSONS for kind in ("html", "ipynb")
    ]
    assert set(files) <= set(links)
    assert all((course / link).exists() for link in links)
    assert "instructor" not in (course / "student" / "index.html").read_text(encoding="utf-8")


def test_glossary_and_guide_are_pages_and_links_of_students_stay_in_their_folder(course):
    for folder, files in (("student", ["glossary.html"]), ("instructor", ["glossary.html", "guide.html"])):
        for file in files:
            assert "<h1" in (course / folder / file).read_text(encoding="utf-8")
    for page in sorted((course / "student").glob("*.html")):
        links = re.findall(r'href="([^"#:]+)"', page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists() or link.endswith(".md")] == [], page.name
        assert not any(link.startswith("../../") for link in links), page.name


def test_the_course_is_no_paper():
    assert "course" not in {notebook.paper for notebook in discover(REPOSITORY)}


def test_the_overview_of_a_report_leads_to_the_course_where_there_is_one(tmp_path):
    (tmp_path / "quick").mkdir()
    overview = index.write(tmp_path / "quick")
    assert "../course/index.html" not in overview.read_text(encoding="utf-8")
    write_text(tmp_path / "course" / "index.html", "the course")
    assert 'href="../course/index.html"' in index.write(tmp_path / "quick").read_text(encoding="utf-8")
