"""What papers print, what was measured, and the verdict: validation, printed numbers, needs, settings, readings."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlib.judging import checks, claims, facts, ledger
from fedlib.judging.facts import Need
from fedlib.judging.ledger import LedgerError

HEADER = """\
name: toy
title: A toy
authors: Nobody
venue: Nowhere
idea: None.
entries:
"""
FIGURE = """\
  - id: toy/fig1
    kind: figure
    statement: Accuracy of two methods
    page: first
    alt: Two lines.
    value: accuracy
    scale: 100
    rounding: 1
    deviation: 0.25
    setting: {rounds: 100}
    blocks:
      - rows: method
        columns: {share: [5, 10]}
        printed:
          Ours: [94, "95..96"]
          Theirs: ["<85", null]
"""
OPTIONS = "{value: accuracy, key: method, first: Ours, others: [Theirs], over: {share: [5, 10]}}"
CLAIM = f"""\
  - id: toy/claim
    kind: claim
    statement: Ours is above
    page: first
    quantifier: all
    unit: seed
    currency: rounds
    needs:
      - {{rounds: 50, because: fewer show nothing}}
    check: above
    data: toy/fig1
    options: {OPTIONS}
"""
AUDIT = """\
  - id: toy/audit
    kind: audit
    statement: The numbers add up
    page: first
"""
SCHEMATIC = """\
  - {id: toy/scheme, kind: schematic, statement: How it works, page: first}
"""
CURVE = """\
  - {id: toy/curve, kind: figure, statement: A curve without numbers, page: first, alt: A curve.}
"""


@pytest.fixture
def load(tmp_path):
    """Load a paper `toy` from the text of its YAML file."""

    def from_text(text: str) -> ledger.Paper:
        (tmp_path / "toy").mkdir(exist_ok=True)
        (tmp_path / "toy" / "paper.yaml").write_text(text)
        return ledger.load("toy", tmp_path)

    return from_text


@pytest.fixture
def toy(load) -> ledger.Paper:
    return load(HEADER + FIGURE + CLAIM + AUDIT + SCHEMATIC + CURVE)


def write_data(report, id: str, frame: pd.DataFrame, **parameters) -> None:
    file = ledger.data_file(report, id)
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(file, index=False)
    facts.write_facts(report, id, parameters)


def accuracies(**of_methods: dict) -> pd.DataFrame:
    """One row per seed: accuracies(Ours={5: [0.9, 0.8]}) are two seeds at share 5."""
    rows = [
        {"method": method, "share": share, "seed": seed, "accuracy": value}
        for method, levels in of_methods.items()
        for share, values in levels.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["method", "share", "seed", "accuracy"])


# The files of the papers


def test_every_paper_of_the_package_is_valid_and_refers_to_itself():
    assert "acfmo" in ledger.papers()
    for name in ledger.papers():
        paper = ledger.load(name)
        assert paper.name == name
        assert len({entry.id for entry in paper.entries}) == len(paper.entries)
        assert {entry.kind for entry in paper.entries} <= set(ledger.KINDS)


def test_a_paper_is_read_as_written(toy):
    assert toy.title == "A toy"
    assert [entry.id for entry in toy.entries] == ["toy/fig1", "toy/claim", "toy/audit", "toy/scheme", "toy/curve"]
    figure = toy.entry("toy/fig1")
    assert figure.blocks[0].columns == {"share": [5, 10]}
    assert figure.blocks[0].printed == {"Ours": [94, "95..96"], "Theirs": ["<85", None]}
    assert figure.setting == {"rounds": 100}
    assert toy.entry("toy/claim").needs == (Need("rounds", 50, "fewer show nothing"),)


def test_an_unknown_paper_or_id_is_answered_with_the_known_ones(toy):
    with pytest.raises(LedgerError, match="no paper 'fedxyz'; known: .*acfmo"):
        ledger.load("fedxyz")
    with pytest.raises(KeyError, match="'toy/fig9' is not in the ledger of toy; it has: toy/fig1, toy/claim"):
        toy.entry("toy/fig9")


# What is wrong: the text put in place of another, the mapping whose first line is named, and what is said
WRONG = {
    "a tab": ("    page: first", "\tpage: first", "\tpage", "character"),
    "an open bracket": ("[5, 10]", "[5, 10", "columns:", "expected ',' or ']'"),
    "an unknown key of an entry": ("    page:", "    pages:", "id: toy/fig1", "unknown key 'pages'; known: id"),
    "an unknown key of a paper": ("venue", "journal", "name: toy", "unknown key 'journal'; known: name, title"),
    "an unknown key of a block": ("rows:", "row:", "row:", "unknown key 'row'; known: rows, columns"),
    "a missing key": ("    page: first\n", "", "id: toy/fig1", "missing key 'page'"),
    "a repeated key": ("    page:", "    page: second\n    page:", "page: first", "key 'page' appears twice"),
    "a repeated row": ("Theirs:", "Ours:", 'Ours: ["<85"', "key 'Ours' appears twice"),
    "a key that is a list": ("Theirs:", "[1]:", "[1]:", "keys must be plain"),
    "an unknown kind": ("kind: figure", "kind: film", "id: toy/fig1", "kind 'film' must be one of figure, table"),
    "an unknown check": ("check: above", "check: beyond", "id: toy/claim", "check 'beyond' must be one of above"),
    "a claim without a check": ("    check: above\n", "", "id: toy/claim", "a claim needs 'check'"),
    "a claim without needs": ("needs:\n      - ", "note: ", "id: toy/claim", "a claim needs 'needs'"),
    "an unknown quantifier": (
        "quantifier: all",
        "quantifier: some",
        "id: toy/claim",
        "'some' must be one of all, most",
    ),
    "an unknown unit": ("unit: seed", "unit: run", "id: toy/claim", "unit 'run' must be one of seed, draw"),
    "an unknown currency": ("currency: rounds", "currency: euros", "id: toy/claim", "'euros' must be one of rounds"),
    "many units without a margin": ("unit: seed", "unit: draw", "id: toy/claim", "'draw': many units need `margin`"),
    "near without a margin": ("check: above", "check: near", "id: toy/claim", "check 'near' need `margin`"),
    "a need without its reason": (", because: fewer show nothing", "", "{rounds: 50}", "and `because` with the reason"),
    "two needs in one": ("{rounds: 50", "{rounds: 50, seeds: 3", "{rounds: 50", "a need is one name"),
    "a need that is no mapping": (
        "- {rounds: 50, because: fewer show nothing}",
        "- x",
        "id: toy/claim",
        "each need must",
    ),
    "a figure with a quantifier": (
        "    scale: 100",
        "    quantifier: all",
        "id: toy/fig1",
        "only claims have 'quantifier'",
    ),
    "an unknown option of a check": ("10]}}", "10]}, at: 3}", "id: toy/claim", "unexpected keyword argument 'at'"),
    "a missing option of a check": (", over: {share: [5, 10]}}", "}", "id: toy/claim", "missing a required argument"),
    "a wrong option of a reading": (
        "    check: above",
        "    readings: {a: {x: 1}}\n    check: above",
        "id: toy/claim",
        "'x'",
    ),
    "a reading that is no mapping": (
        "    check: above",
        "    readings: {a: 1}\n    check: above",
        "id: toy/claim",
        "reading",
    ),
    "options that are no mapping": (OPTIONS, "[a, b]", "id: toy/claim", "'options' must be a mapping"),
    "too few cells": ('[94, "95..96"]', "[94]", "rows: method", "row 'Ours' has 1 numbers for 2 columns"),
    "cells that are no list": ('[94, "95..96"]', "94", "Ours: 94", "'Ours' must be a list, not 94"),
    "two axes": ("[5, 10]}", "[5, 10], k: [1]}", "rows: method", "`columns` names one axis and its values"),
    "an axis without levels": ("[5, 10]}", "5}", "{share: 5}", "'share' must be a list, not 5"),
    "columns that are no mapping": ("{share: [5, 10]}", "[5]", "rows: method", "'columns' must be a mapping"),
    "a block that is no mapping": ("      - rows:", "      - x\n      - rows:", "id: toy/fig1", "each block must be"),
    "a bad printed value": ("[94,", "[about 94,", "rows: method", "row 'Ours': 'about 94' is not a printed value"),
    "a range the wrong way round": ("95..96", "96..95", "rows: method", "'96..95' is not a printed value"),
    "a repeated id": ("id: toy/claim", "id: toy/fig1", "id: toy/fig1\n    kind: claim", "toy/fig1 appears twice"),
    "an id of another paper": ("id: toy/fig1", "id: fig1", "id: fig1", "id 'fig1' must start with 'toy/'"),
    "data of no entry": ("data: toy/fig1", "data: toy/fig7", "id: toy/claim", "'toy/fig7' is not an id of this file"),
    "like no entry": (
        "kind: figure",
        "kind: figure\n    like: toy/fig7",
        "id: toy/fig1",
        "like: 'toy/fig7' is not an id",
    ),
    "data of no entry in a reading": (
        "    check: above",
        "    readings: {a: {data: toy/x}}\n    check: above",
        "id: toy/claim",
        "'toy/x' is not an id",
    ),
    "numbers of no column": ("    value: accuracy\n", "", "id: toy/fig1", "printed numbers need `value`"),
    "no alt text": ("    alt: Two lines.\n", "", "id: toy/fig1", "figures and tables need `alt`"),
    "numbers of no setting": ("    setting: {rounds: 100}\n", "", "id: toy/fig1", "printed numbers need `setting`"),
    "no list of entries": (FIGURE + CLAIM, "  none: yes\n", "name: toy", "'entries' must be a list"),
    "no entries at all": (FIGURE + CLAIM, "", "name: toy", "'entries' must be a list, not None"),
    "a list instead of a mapping": (HEADER + FIGURE + CLAIM, "- a", "- a", "expected a mapping with the keys name"),
    "an empty file": (HEADER + FIGURE + CLAIM, "", "", "expected a mapping"),
}


@pytest.mark.parametrize(("old", "new", "where", "complaint"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_answered_with_its_line_and_what_is_wrong(load, old, new, where, complaint):
    right = HEADER + FIGURE + CLAIM
    assert old in right
    wrong = right.replace(old, new, 1)
    with pytest.raises(LedgerError) as failure:
        load(wrong)
    line = wrong[: wrong.index(where)].count("\n") + 1
    assert str(failure.value).startswith(f"toy/paper.yaml, line {line}: ")
    assert complaint in str(failure.value)


@pytest.mark.parametrize("text", [HEADER + "  - toy/fig1\n", HEADER + "\x01"])
def test_what_has_no_line_is_still_told_with_its_file(load, text):
    with pytest.raises(LedgerError, match="^toy/paper.yaml"):
        load(text)


# Printed values


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (96, (96, 96)),
        (0.95, (0.95, 0.95)),
        ("87..89", (87, 89)),
        ("0.87 .. 0.88", (0.87, 0.88)),
        ("-2..-1", (-2, -1)),
        ("<85", (-np.inf, 85)),
        ("> 0.9", (0.9, np.inf)),
        ("1e-3..1e-2", (0.001, 0.01)),
    ],
)
def test_printed_values_are_numbers_ranges_or_bounds(cell, expected):
    assert ledger.printed_range(cell) == expected


@pytest.mark.parametrize(
    "cell", ["", "96", "about 96", "87-89", "87..", "..", "1..2..3", "<", ">x", True, [8, 9], "2..1", np.nan, "nan..1"]
)
def test_anything_else_is_no_printed_value(cell):
    with pytest.raises(ValueError, match="is not a printed value: write a number, 'low..high', '<high' or '>low'"):
        ledger.printed_range(cell)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
@settings(deadline=None, max_examples=40)
def test_ranges_survive_being_written(low, width):
    assert ledger.printed_range(f"{low!r}..{low + width!r}") == (low, low + width)


# Printed numbers


def cell(printed, measured: list[float], rounding: float = 1.0, deviation: float = 0.25, **more) -> dict:
    block = ledger.PrintedBlock("method", {"share": [5]}, {"Ours": [printed]})
    of_print = {"rounding": rounding, "deviation": deviation, "blocks": (block,)}
    entry = ledger.Entry("toy/fig", "figure", "", "", value="accuracy", **of_print, **more)
    (found,) = ledger.compare(entry, accuracies(Ours={5: measured}, Theirs={5: [0.0]}), {"rounds": 100})
    return found


@pytest.mark.parametrize(
    ("printed", "measured", "verdict"),
    [
        (90, 90.0, "matches"),
        (90, 90.9, "matches"),  # within half a step of print and twice the deviation of a run: 0.5 + 2 * 0.25
        (90, 91.2, "differs (ours higher)"),
        (90, 88.8, "differs (ours lower)"),
        ("87..89", 88.0, "matches"),
        ("87..89", 90.5, "differs (ours higher)"),
        ("87..89", 85.5, "differs (ours lower)"),
        ("<85", 20.0, "within bound"),
        ("<85", 86.5, "differs (ours higher)"),
        (">85", 99.0, "within bound"),
        (">85", 83.5, "differs (ours lower)"),
    ],
)
def test_a_number_matches_within_the_tolerance_and_else_says_which_way(printed, measured, verdict):
    three = [measured - 0.01, measured, measured + 0.01]  # a 90% interval of +-0.017
    assert cell(printed, three)["verdict"] == verdict


def test_noise_makes_a_match_harder_and_not_easier():
    assert cell(90, [90.0, 90.1, 89.9])["verdict"] == "matches"
    assert cell(90, [91.0, 90.0, 89.0])["verdict"] == "undecided"  # 90% interval 90 +- 1.69
    assert cell(90, [95.0, 92.0, 89.0])["verdict"] == "undecided"
    assert cell(90, [92.0, 92.1, 91.9, 92.0])["verdict"] == "differs (ours higher)"


def test_a_mean_without_the_runs_that_have_no_number_is_not_compared():
    found = cell(90, [90.0, 90.1, 89.9, float("nan")])
    assert (found["verdict"], found["why"], found["n"]) == ("not comparable", ledger.INCOMPLETE, 3)


def test_a_noisier_row_has_a_wider_tolerance():
    rows = {"Ours": [90], "Theirs": [90]}
    block = ledger.PrintedBlock("method", {"share": [5]}, rows, deviations={"Theirs": 1.0})
    entry = ledger.Entry("toy/fig", "figure", "", "", value="accuracy", rounding=1.0, deviation=0.25, blocks=(block,))
    three = [91.99, 92.0, 92.01]  # 2 away: beyond 0.5 + 2 * 0.25, within 0.5 + 2 * 1
    found = ledger.compare(entry, accuracies(Ours={5: three}, Theirs={5: three}), {})
    assert [each["verdict"] for each in found] == ["differs (ours higher)", "matches"]
    assert entry.tolerance == 2.5


@pytest.mark.parametrize("measured", [[90.0], [90.0, 90.0]])
def test_one_or_two_seeds_neither_match_nor_differ(measured):
    assert cell(90, measured)["verdict"] == "undecided"


def test_exact_numbers_need_no_seeds():
    assert cell(0.69, [0.685], rounding=0.01, deviation=0, unit="exact")["verdict"] == "matches"
    assert cell(0.69, [0.68], rounding=0.01, deviation=0, unit="exact")["verdict"] == "differs (ours lower)"
    assert cell(0.69, [0.685], unit="exact")["interval"] is None


def test_a_blank_is_no_measurement():
    nothing = {"label": "Ours, 5", "reported": 90, "measured": None, "interval": None, "n": 0, "verdict": "not run"}
    assert cell(90, []) == nothing | {"why": ""}
    assert cell(90, [np.nan])["verdict"] == "not comparable" and cell(90, [np.nan])["why"] == ledger.INCOMPLETE
    assert cell(90, [np.nan], setting={"rounds": 500})["verdict"] == "not run"
    assert cell(90, [np.nan, 95.0])["measured"] == 95.0


def test_a_number_of_another_setting_is_shown_and_not_judged():
    other = cell(90, [90.0, 90.0, 90.0], setting={"rounds": 500, "samples": None})
    assert (other["measured"], other["verdict"]) == (90.0, "not comparable")
    assert other["why"] == "rounds 100, printed 500; samples unknown, printed all"
    assert cell(90, [90.0, 90.0, 90.0], setting={"rounds": 100})["verdict"] == "matches"
    assert cell(90, [90.0, 90.0, 90.0], not_comparable="nobody knows")["why"] == "nobody knows"


def test_shares_are_compared_as_percentages():
    assert cell(94, [0.945], scale=100)["measured"] == pytest.approx(94.5)


def test_blocks_are_compared_on_the_rows_they_ask_for_and_in_their_own_setting():
    block = ledger.PrintedBlock("method", {"share": [5]}, {"Ours": [1]}, where={"data": "B"}, setting={"k": 2})
    entry = ledger.Entry("toy/fig", "table", "", "", value="accuracy", setting={"rounds": 100}, blocks=(block,))
    frame = pd.DataFrame({"data": ["A", "B"], "method": "Ours", "share": 5, "accuracy": [9.0, 1.0], "seed": 0})
    (found,) = ledger.compare(entry, frame, {"rounds": 100, "k": 1})
    assert (found["label"], found["measured"], found["why"]) == ("B, Ours, 5", 1.0, "k 1, printed 2")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["matches", "matches"], "matches"),
        (["matches", "not run"], "matches"),
        (["within bound", "matches"], "matches"),
        (["within bound", "not comparable"], "within bound"),
        (["matches", "undecided", "not comparable"], "undecided"),
        (["matches", "differs (ours lower)", "undecided"], "differs"),
        (["differs (ours higher)", "not comparable"], "differs"),
        (["not comparable", "not run"], "not comparable"),
        (["not run"], "not run"),
        ([], "not run"),
    ],
)
def test_a_table_is_as_good_as_the_worst_of_its_comparable_numbers(verdicts, expected):
    assert ledger.overall(verdicts) == expected


# Lines of the ledger

DOCUMENTED = {
    *("id", "paper", "kind", "statement", "reported", "measured", "effect", "interval", "seeds", "verdict", "note"),
    *("counts", "comparisons", "averaged", "needs", "readings", "cells", "printed_in", "unit", "quantity", "margin"),
}
ABOVE = accuracies(
    Ours={5: [0.94, 0.95, 0.945], 10: [0.96, 0.97, 0.965]}, Theirs={5: [0.80, 0.81, 0.805], 10: [0.9, 0.9, 0.9]}
)
SUMS = pd.DataFrame({"quantity": ["total", "mean"], "printed": [10, 5], "found": [10, 4.2], "holds": [True, False]})


@pytest.mark.parametrize("id", ["toy/fig1", "toy/claim", "toy/audit", "toy/scheme", "toy/curve"])
def test_without_its_numbers_nothing_is_judged(toy, tmp_path, id):
    line = ledger.judge(toy.entry(id), tmp_path)
    assert line["verdict"] == ("not judged at this scale" if id == "toy/claim" else "not run")
    assert "not in this report" in line["note"]
    assert set(line) >= DOCUMENTED


def test_the_format_is_written_down():
    documented = ledger.__doc__ or ""
    assert all(name in documented for name in DOCUMENTED)


def test_a_figure_with_printed_numbers_is_compared_cell_by_cell(toy, tmp_path):
    write_data(tmp_path, "toy/fig1", ABOVE, rounds=100)
    line = ledger.judge(toy.entry("toy/fig1"), tmp_path)
    assert line["verdict"] == "undecided"
    assert line["seeds"] == 3
    assert line["reported"] == {"Ours, 5": 94, "Ours, 10": "95..96", "Theirs, 5": "<85"}
    assert line["measured"] == pytest.approx({"Ours, 5": 94.5, "Ours, 10": 96.5, "Theirs, 5": 80.5})
    assert [one["label"] for one in line["cells"]] == ["Ours, 5", "Ours, 10", "Theirs, 5"], "a blank is not compared"
    assert line["counts"]["of"] == 3 and line["counts"]["within bound"] == 1 and line["counts"]["undecided"] == 2


def test_in_another_setting_no_number_is_judged_and_the_note_says_why(toy, tmp_path):
    write_data(tmp_path, "toy/fig1", ABOVE, rounds=50)
    line = ledger.judge(toy.entry("toy/fig1"), tmp_path)
    assert line["verdict"] == "not comparable"
    assert line["note"] == "Not comparable: rounds 50, printed 100."


def test_a_claim_is_judged_by_its_comparisons_on_the_data_of_its_figure(toy, tmp_path):
    write_data(tmp_path, "toy/fig1", ABOVE, rounds=50)
    line = ledger.judge(toy.entry("toy/claim"), tmp_path)
    assert (line["verdict"], line["measured"], line["seeds"]) == ("reproduced", "2 hold, of 2", 3)
    assert line["effect"] == pytest.approx(0.065)
    assert line["interval"] == pytest.approx(
        [0.065 - 4.3027 * 0.005 / 3**0.5, 0.065 + 4.3027 * 0.005 / 3**0.5], abs=1e-5
    )
    assert [found["label"] for found in line["comparisons"]] == ["Theirs, share 5", "Theirs, share 10"]
    assert all(need["met"] for need in line["needs"])


@pytest.mark.parametrize(
    ("parameters", "have"), [({"rounds": 49}, 49), ({}, "unknown"), ({"rounds": None}, None), ({"rounds": 500}, None)]
)
def test_what_a_run_does_not_meet_is_not_judged_but_shown(toy, tmp_path, parameters, have):
    write_data(tmp_path, "toy/fig1", ABOVE, **parameters)
    line = ledger.judge(toy.entry("toy/claim"), tmp_path)
    if have is None:
        assert line["verdict"] == "reproduced"  # null stands for all there is
        return
    assert line["verdict"] == "not judged at this scale"
    assert line["note"] == f"Needs rounds 50, has {have}: fewer show nothing."
    assert line["measured"] == "2 hold, of 2"


@pytest.mark.parametrize("seeds", [1, 2])
def test_one_or_two_seeds_are_never_judged(toy, tmp_path, seeds):
    write_data(tmp_path, "toy/fig1", ABOVE[ABOVE["seed"] < seeds], rounds=50)
    line = ledger.judge(toy.entry("toy/claim"), tmp_path)
    assert line["verdict"] == "not judged at this scale"
    assert f"Needs units 3, has {seeds}" in line["note"]


def test_more_than_six_comparisons_need_five_seeds(load, tmp_path):
    rivals = [f"R{number}" for number in range(7)]
    paper = load(HEADER + FIGURE + CLAIM.replace("[Theirs]", str(rivals)).replace("[5, 10]", "[5]"))
    for seeds, verdict in [(4, "not judged at this scale"), (5, "reproduced")]:
        values = {5: [0.9 + 0.001 * seed for seed in range(seeds)]}
        frame = accuracies(Ours=values, **{rival: {5: [0.5] * seeds} for rival in rivals})
        write_data(tmp_path, "toy/fig1", frame, rounds=50)
        assert ledger.judge(paper.entry("toy/claim"), tmp_path)["verdict"] == verdict


def test_a_seed_in_which_nobody_arrives_was_run_all_the_same():
    """Seven races in five seeds; in the last race, neither side arrives in the fifth seed."""
    rows = [
        {"method": method, "share": share, "seed": seed, "rounds": rounds + seed, "arrived": (share, seed) != (6, 4)}
        for share in range(7)
        for seed in range(5)
        for method, rounds in [("a", 10 * share), ("b", 10 * share + 20)]
    ]
    options = {"key": "method", "first": "b", "others": ["a"], "over": {"share": list(range(7))}}
    asked = {"value": "rounds", "reached": "arrived", "lower_is_better": True}
    found = checks.comparisons("above", pd.DataFrame(rows), "seed", options | asked)
    decision = claims.decide(found, "all")
    assert [finding.n for finding in decision.findings] == [5] * 6 + [4]
    assert decision.fewest_units == 5 and decision.verdict == "contradicted"
    assert decision.findings[-1].note == "neither arrived in 1 of the units"


def test_an_undecided_claim_says_what_could_have_been_seen_and_what_would_decide(load, tmp_path):
    paper = load(HEADER + FIGURE + CLAIM.replace("[5, 10]", "[5]"))
    frame = accuracies(Ours={5: [0.92, 0.90, 0.91, 0.89]}, Theirs={5: [0.90, 0.90, 0.90, 0.90]})
    write_data(tmp_path, "toy/fig1", frame, rounds=50)  # differences 2, 0, 1, -1 points
    line = ledger.judge(paper.entry("toy/claim"), tmp_path)
    assert line["verdict"] == "undecided"
    # deviation 0.0129, error 0.00645, four units: 4.26 errors; the effect 0.005 is 0.387 deviations
    assert line["note"] == "An effect of 0.0275 could have been seen. About 55 seeds would decide."


def test_every_reading_is_judged_and_the_first_decides(load, tmp_path):
    read = "    readings: {as printed: {first: Theirs}, mended: {}}\n    check: above"
    paper = load(HEADER + FIGURE + CLAIM.replace("    check: above", read).replace("others: [Theirs]", "others: [Old]"))
    frame = accuracies(
        Ours={5: [0.9, 0.91, 0.92], 10: [0.9, 0.91, 0.92]},
        Old={5: [0.8, 0.81, 0.83], 10: [0.8, 0.81, 0.83]},
        Theirs={5: [0.7, 0.71, 0.73], 10: [0.7, 0.71, 0.73]},
    )
    write_data(tmp_path, "toy/fig1", frame, rounds=50)
    line = ledger.judge(paper.entry("toy/claim"), tmp_path)
    assert line["verdict"] == "contradicted"
    assert [(one["reading"], one["verdict"]) for one in line["readings"]] == [
        ("as printed", "contradicted"),
        ("mended", "reproduced"),
    ]
    assert line["note"] == "Read as 'as printed'. Other readings. Reproduced: mended."


def test_a_reading_may_have_needs_of_its_own(load, tmp_path):
    more = "[{rounds: 80, because: it looks later}]"
    read = f"    readings: {{early: {{}}, late: {{needs: {more}}}}}\n    check: above"
    paper = load(HEADER + FIGURE + CLAIM.replace("    check: above", read))
    frame = accuracies(
        Ours={5: [0.9, 0.91, 0.92], 10: [0.9, 0.91, 0.92]}, Theirs={5: [0.8, 0.81, 0.83], 10: [0.8, 0.81, 0.83]}
    )
    write_data(tmp_path, "toy/fig1", frame, rounds=50)
    line = ledger.judge(paper.entry("toy/claim"), tmp_path)
    assert [one["verdict"] for one in line["readings"]] == ["reproduced", "not judged at this scale"]
    assert (line["needs"][0]["name"], line["needs"][0]["value"]) == ("rounds", 50)


@pytest.mark.parametrize("needs", ["5", "[{rounds: 80}]"])
def test_a_reading_with_needs_that_are_none_is_refused(load, needs):
    read = f"    readings: {{a: {{}}, b: {{needs: {needs}}}}}\n    check: above"
    with pytest.raises(LedgerError, match="need"):
        load(HEADER + FIGURE + CLAIM.replace("    check: above", read))


def test_an_audit_holds_or_does_not(toy, tmp_path):
    write_data(tmp_path, "toy/audit", SUMS)
    line = ledger.judge(toy.entry("toy/audit"), tmp_path)
    assert (line["verdict"], line["measured"], line["reported"]) == ("does not hold", "mean: 4.2", "mean: 5")
    write_data(tmp_path, "toy/audit", SUMS.head(1))
    assert ledger.judge(toy.entry("toy/audit"), tmp_path)["verdict"] == "holds"


def test_a_statement_about_nothing_is_not_run_and_a_blank_does_not_hold():
    assert checks.statement(SUMS.head(0)).verdict == "not run"
    assert checks.statement(SUMS.head(1).astype(object).assign(holds=np.nan)).verdict == "does not hold"
    words = pd.DataFrame({"quantity": ["sign"], "printed": ["+"], "found": [None], "holds": [False]})
    assert checks.statement(words).measured == "sign: None"


def test_figures_without_printed_numbers_are_regenerated_and_schematics_redrawn(toy, tmp_path):
    write_data(tmp_path, "toy/curve", pd.DataFrame({"x": [1.0]}))
    write_data(tmp_path, "toy/scheme", pd.DataFrame({"x": [1.0]}))
    line = ledger.judge(toy.entry("toy/curve"), tmp_path)
    assert (line["verdict"], line["seeds"]) == ("regenerated", None)
    assert ledger.judge(toy.entry("toy/scheme"), tmp_path)["verdict"] == "redrawn"


def test_the_ledger_is_written_with_the_comparisons_of_its_claims(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "load", lambda name: toy)
    write_data(tmp_path, "toy/fig1", ABOVE, rounds=50)
    write_data(tmp_path, "toy/audit", SUMS)
    lines = ledger.write(tmp_path, {"toy": "quick"})
    stored = json.loads((tmp_path / "ledger.json").read_text())
    assert stored == json.loads(json.dumps(lines))
    assert [line["id"] for line in stored] == [entry.id for entry in toy.entries]
    assert all(set(line) >= DOCUMENTED and line["scale"] == "quick" and line["paper"] == "toy" for line in stored)
    evidence = pd.read_csv(tmp_path / "data" / "toy-claim.csv")
    assert evidence["effect"].tolist() == pytest.approx([0.14, 0.065])
    assert (evidence["low"] < evidence["effect"]).all() and (evidence["effect"] < evidence["high"]).all()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "data" / "toy-audit.csv"), SUMS, check_dtype=False)
    written = sorted(file.name for file in (tmp_path / "data").glob("*.csv"))
    assert written == ["toy-audit.csv", "toy-claim.csv", "toy-fig1.csv"]


def test_an_empty_report_still_gives_a_whole_ledger(tmp_path):
    lines = ledger.write(tmp_path / "new", {"acfmo": "quick"})
    assert {line["verdict"] for line in lines} == {"not run", "not judged at this scale"}
    assert len(lines) == len(ledger.load("acfmo").entries)


# Facts


@pytest.mark.parametrize(
    ("wanted", "have", "met"),
    [
        (100, 100, True),
        (100, 99, False),
        (100, None, True),
        (100, "many", False),
        ("femnist", "femnist", True),
        ("femnist", "handwriting", False),
        (["a", "b"], "b", True),
        (["a", "b"], "c", False),
        (["a", "b"], ["c", "b", "a"], True),
        (["a", "b"], ["a"], False),
        ([50], 50, True),
        ([50], 60, False),
    ],
)
def test_a_need_is_a_least_number_a_word_or_a_choice(wanted, have, met):
    assert facts.check(Need("thing", wanted, "why"), {"thing": have}).met is met
    assert not facts.check(Need("thing", wanted, "why"), {}).met


@pytest.mark.parametrize(
    ("stated", "expected"), [(2, 2.0), ("every", 5.0), (["every", "other"], 7.0), ("nothing", 0.0)]
)
def test_a_resolution_is_a_number_or_a_parameter(stated, expected):
    assert facts.resolution(stated, {"every": 5, "other": 7}) == expected


def test_parameters_are_read_back_as_written(tmp_path):
    kept = {"rounds": 5, "samples": None, "names": ["a"], "rate": 0.1}
    facts.write_facts(tmp_path, "toy/fig1", kept)
    assert facts.parameters(tmp_path, "toy/fig1") == kept
    assert facts.parameters(tmp_path, "toy/fig2") == {}
