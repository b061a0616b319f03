"""Prose takes its numbers from the ledger: what is filled in, what stays, and what an unknown name is told."""

import doctest

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger import ABOVE, CLAIM, FIGURE, HEADER, write_data

from fedlib.judging import entries, ledger
from fedlib.report import prose, show

COUNTS = {"holds": 12, "reversed": 1, "undecided": 3, "not comparable": 0, "not run": 4, "of": 20}
LINES = {
    "toy/claim": {
        "verdict": "undecided",
        "measured": "12 hold, 1 reversed, 3 undecided, 4 not run, of 20",
        "effect": -0.0123456,
        "interval": [-0.02, 0.0046],
        "seeds": 5,
        "counts": COUNTS,
        "comparisons": [{"label": "FedGH, 5", "effect": 0.031, "interval": None, "outcome": "holds"}],
        "readings": [{"reading": "final accuracy", "verdict": "reproduced"}],
    },
    "toy/blank": {"verdict": "not judged at this scale", "effect": None, "interval": None, "seeds": None, "counts": {}},
}


def line_of(id: str) -> dict:
    if id not in LINES:
        raise LookupError(id)
    return LINES[id]


def filled(text: str, **values) -> str:
    return prose.fill(text, line_of, values)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("toy/claim.verdict", "undecided"),
        ("toy/claim.measured", "12 hold, 1 reversed, 3 undecided, 4 not run, of 20"),
        ("toy/claim.effect", "-0.01235"),
        ("toy/claim.effect:+.3f", "-0.012"),
        ("toy/claim.effect:+.1pp", "-1.2 points"),
        ("toy/claim.interval:.2f", "-0.02 to 0.00"),
        ("toy/claim.interval:.1pp", "-2.0 to 0.5 points"),
        ("toy/claim.interval:.1%", "-2.0% to 0.5%"),
        ("toy/claim.seeds", "5"),
        ("toy/claim.counts[holds]", "12"),
        ("toy/claim.counts[not run]", "4"),
        ("toy/claim.comparisons[FedGH, 5].effect:.2f", "0.03"),
        ("toy/claim.comparisons[FedGH, 5].interval", "no interval"),
        ("toy/claim.comparisons[FedGH, 5].interval:+.1pp", "no interval"),
        ("toy/claim.readings[final accuracy].verdict", "reproduced"),
        ("toy/blank.verdict", "not judged at this scale"),
        ("toy/blank.effect:+.2f", "not measured"),
        ("toy/blank.interval:.1pp", "not measured"),
        ("gap:.1f", "3.1"),
        ("gap", "3.142"),
        ("rounds", "400"),
        ("joules", "123457"),
        ("best.name", "FedSR"),
        ("table[FedSR]:.1%", "91.0%"),
    ],
)
def test_a_field_becomes_the_fact_it_names(field, words):
    values = {"gap": 3.14159, "rounds": 400, "joules": 123456.7, "table": {"FedSR": 0.91}}
    assert filled(f"It is {{{field}}}.", best=pd.Series([1.0], name="FedSR"), **values) == f"It is {words}."


def test_formulas_and_code_keep_their_braces_and_indentation_is_no_code():
    text = r"""
        With $\frac{a}{b}$, `{gap}` and $$\sum_{i} x_{i}$$ the gap is {gap}; {{so}}.

        - a list
    """
    expected = "With $\\frac{a}{b}$, `{gap}` and $$\\sum_{i} x_{i}$$ the gap is 3; {so}.\n\n- a list"
    assert filled(text, gap=3) == expected


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        ("toy/claim.verdikt", "toy/claim has no verdikt. Did you mean verdict?"),
        ("toy/claim.counts[hold]", "toy/claim.counts has no hold. Did you mean holds?"),
        ("toy/claim.comparisons[FedGH, 6].effect", "Did you mean FedGH, 5?"),
        ("toy/claim.counts", "not a single fact. Valid: holds, reversed"),
        ("toy/claim", "not a single fact. Valid: verdict, measured"),
        ("gab:.1f", "no value of this name was given. Did you mean gap?"),
        ("", "no value of this name was given"),
    ],
)
def test_an_unknown_name_is_answered_with_the_near_ones(field, complaint):
    with pytest.raises(LookupError) as error:
        filled(f"It is {{{field}}}.", gap=1.0)
    assert complaint in str(error.value)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.sampled_from([".1f", "+.3f", ".2%", ".1pp"]))
def test_an_interval_is_written_as_its_two_ends(low, high, spec):
    ends = prose.written([low, high], spec).removesuffix(" points").split(" to ")
    assert ends == [prose.written(end, spec).removesuffix(" points") for end in (low, high)]


def test_the_example_in_the_docstring_is_true():
    assert doctest.testmod(prose).failed == 0


@pytest.fixture
def said(tmp_path, monkeypatch):
    """`said(text)`: what `show.say` displays in a notebook that has written the numbers of a toy paper."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "paper.yaml").write_text(HEADER + FIGURE + CLAIM)
    monkeypatch.setattr(entries, "FOLDER", tmp_path)
    monkeypatch.setattr(entries.load, "__defaults__", (tmp_path,))
    monkeypatch.setenv("FEDLIB_REPORT", str(tmp_path / "report"))
    write_data(tmp_path / "report", "toy/fig1", ABOVE, rounds=60)
    displayed: list[dict] = []
    monkeypatch.setattr(show, "display", lambda data, raw, metadata: displayed.append(data))

    def saying(text: str, **values) -> dict:
        show.say(text, **values)
        return displayed[-1]

    return saying


def test_say_judges_the_numbers_written_so_far_and_shows_markdown_with_its_text(said):
    shown = said(
        "**{toy/claim.verdict}** ({toy/claim.measured}), by {toy/claim.effect:.1pp} with {method}.", method="Ours"
    )
    assert shown == dict.fromkeys(
        ("text/markdown", "text/plain"), "**reproduced** (2 hold, of 2), by 6.5 points with Ours."
    )
    assert said("{toy/fig1.measured[Ours, 5]:.1f}%")["text/plain"] == "94.5%"


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        ("toy/clam.verdict", "toy/clam: not in the ledger. Did you mean toy/claim?"),
        ("tot/claim.verdict", "tot/claim: no paper tot. Did you mean toy?"),
    ],
)
def test_say_answers_an_unknown_id_with_the_near_one(said, field, complaint):
    with pytest.raises(LookupError, match=complaint):
        said(f"{{{field}}}")


def test_ids_have_no_dots_which_part_an_id_from_its_fact():
    assert not [entry.id for paper in ledger.papers() for entry in ledger.load(paper).entries if "." in entry.id]
