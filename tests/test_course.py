"""The course: exercises that check themselves, student and instructor versions of the lessons, grading."""

import linecache
from types import SimpleNamespace

import pytest

from fedlib.course.exercise import exercise, filled, require, scorecard


@exercise("1.2", "The share of the largest class")
def largest_share(answer):
    require(answer is not None, "Count first.")
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
        (..., "still to be written. Hint: Count first."),
        (None, "not yet. Hint: Count first."),
        (0.75, "not yet. The answer could not be checked, perhaps it has another form than the task asks for. "
         "TypeError: 'float' object is not callable"),
    ],
    ids=["wrong", "dots", "nothing", "no function"],
)  # fmt: skip
def test_a_wrong_answer_gets_a_hint_and_never_an_exception(answer, told, capsys):
    largest_share(answer)
    assert capsys.readouterr().out == f"✗ 1.2 The share of the largest class: {told}\n"
    assert not largest_share.passed


def test_a_stub_is_still_to_be_written(capsys):
    names = in_notebook('def largest_share(counts):\n    raise NotImplementedError("your turn")\n')
    largest_share(names["largest_share"])
    assert "still to be written. Hint: Count first." in capsys.readouterr().out
    assert not filled(names["largest_share"])


def test_an_error_names_the_line_of_the_students_cell(capsys):
    cell = "def mine(counts):\n    return half(counts)\n\ndef half(counts):\n    return counts[0] / (2 - 2)\n"
    largest_share(in_notebook(cell)["mine"])
    out = capsys.readouterr().out
    assert out.endswith("ZeroDivisionError: division by zero (line 5 of your cell: return counts[0] / (2 - 2))\n")


def test_the_scorecard_lists_what_is_open(capsys):
    done = exercise("1.1", "Easy")(lambda answer: None)
    still = exercise("1.2", "Hard")(lambda answer: require(answer == 1, "It is odd."))
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
