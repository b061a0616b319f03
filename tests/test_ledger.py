"""What papers print, what was measured, and the verdict: validation, comparisons, checks with answers known by hand."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlib.judging import checks, ledger
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
    tolerance: 1.0
    blocks:
      - rows: method
        columns: {share: [5, 10]}
        printed:
          Ours: [94, "95..96"]
          Theirs: ["<85", null]
"""
OPTIONS = "{value: accuracy, key: method, first: Ours, others: [Theirs], over: share}"
CLAIM = f"""\
  - id: toy/claim
    kind: claim
    statement: Ours is above
    page: first
    check: above
    data: toy/fig1
    options: {OPTIONS}
"""
AUDIT = """\
  - id: toy/audit
    kind: audit
    statement: The numbers add up
    page: first
    check: statement
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


def write_data(report, id: str, frame: pd.DataFrame) -> None:
    file = ledger.data_file(report, id)
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(file, index=False)


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
    assert figure.better == "higher"


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
    "an unknown check": ("check: above", "check: beyond", "id: toy/claim", "unknown check 'beyond'; known: above"),
    "a claim without a check": ("    check: above\n", "", "id: toy/claim", "and only they, name a check"),
    "an unknown option of a check": ("share}", "share, at: 3}", "id: toy/claim", "unexpected keyword argument 'at'"),
    "a missing option of a check": (", over: share}", "}", "id: toy/claim", "missing a required argument: 'over'"),
    "options that are no mapping": (OPTIONS, "[a, b]", "id: toy/claim", "'options' must be a mapping"),
    "too few cells": ('[94, "95..96"]', "[94]", "rows: method", "row 'Ours' has 1 numbers for 2 columns"),
    "cells that are no list": ('[94, "95..96"]', "94", "Ours: 94", "'Ours' must be a list, not 94"),
    "two axes": ("[5, 10]}", "[5, 10], k: [1]}", "rows: method", "`columns` names one axis and its values"),
    "an axis without levels": ("[5, 10]}", "5}", "{share: 5}", "'share' must be a list, not 5"),
    "columns that are no mapping": ("{share: [5, 10]}", "[5]", "rows: method", "'columns' must be a mapping"),
    "a block that is no mapping": ("      - rows:", "      - x\n      - rows:", "id: toy/fig1", "each block must be"),
    "a bad printed value": ("[94,", "[about 94,", "rows: method", "row 'Ours': 'about 94' is no printed value"),
    "a range the wrong way round": ("95..96", "96..95", "rows: method", "'96..95' is no printed value"),
    "a repeated id": ("id: toy/claim", "id: toy/fig1", "id: toy/fig1\n    kind: claim", "toy/fig1 appears twice"),
    "an id of another paper": ("id: toy/fig1", "id: fig1", "id: fig1", "id 'fig1' must start with 'toy/'"),
    "data of no entry": ("data: toy/fig1", "data: toy/fig7", "id: toy/claim", "'toy/fig7' is no id of this file"),
    "numbers of no column": ("    value: accuracy\n", "", "id: toy/fig1", "printed numbers need `value`"),
    "no alt text": ("    alt: Two lines.\n", "", "id: toy/fig1", "figures and tables need `alt`"),
    "neither higher nor lower": ("    scale: 100", "    better: more", "id: toy/fig1", "'higher' or 'lower'"),
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
    with pytest.raises(ValueError, match="is no printed value: write a number, 'low..high', '<high' or '>low'"):
        ledger.printed_range(cell)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
@settings(deadline=None, max_examples=40)
def test_ranges_survive_being_written(low, width):
    assert ledger.printed_range(f"{low!r}..{low + width!r}") == (low, low + width)


# Cells


def cell(printed, measured: list[float], better: str = "higher", tolerance: float = 1.0, scale: float = 1.0) -> dict:
    block = ledger.PrintedBlock("method", {"share": [5]}, {"Ours": [printed]})
    entry = ledger.Entry(
        "toy/fig", "figure", "", "", value="accuracy", better=better, tolerance=tolerance, scale=scale, blocks=(block,)
    )
    (found,) = ledger.compare(entry, accuracies(Ours={5: measured}, Theirs={5: [0.0]}))
    return found


@pytest.mark.parametrize(
    ("printed", "measured", "higher", "lower"),
    [
        (90, [90.0], "matches", "matches"),
        (90, [91.0], "matches", "matches"),  # within the tolerance of 1
        (90, [91.1], "better than printed", "worse than printed"),
        (90, [88.9], "worse than printed", "better than printed"),
        ("87..89", [88.0], "matches", "matches"),
        ("87..89", [90.5], "better than printed", "worse than printed"),
        ("87..89", [85.5], "worse than printed", "better than printed"),
        ("<85", [20.0], "matches", "matches"),
        ("<85", [86.5], "better than printed", "worse than printed"),
        (">85", [99.0], "matches", "matches"),
        (">85", [83.5], "worse than printed", "better than printed"),
    ],
)
def test_a_cell_matches_within_the_tolerance_and_else_says_which_way(printed, measured, higher, lower):
    assert cell(printed, measured, "higher")["verdict"] == higher
    assert cell(printed, measured, "lower")["verdict"] == lower


def test_the_spread_over_seeds_counts_beside_the_tolerance():
    assert cell(90, [92.0, 92.0])["verdict"] == "better than printed"
    wide = cell(90, [90.5, 93.5])  # mean 92, standard deviation 3 / sqrt(2) = 2.12 > 2 - 1
    assert (wide["measured"], wide["verdict"]) == (92.0, "matches")
    assert wide["spread"] == pytest.approx(2.1213, abs=1e-4)


def test_one_seed_has_no_spread_and_no_rows_are_no_test():
    assert cell(90, [90.0])["spread"] is None
    nothing = {"label": "Ours, 5", "reported": 90, "measured": None, "spread": None, "verdict": "not tested"}
    assert cell(90, []) == nothing


def test_a_blank_is_no_measurement():
    assert cell(90, [np.nan])["verdict"] == "not tested"
    assert cell(90, [np.nan, 95.0])["measured"] == 95.0


def test_shares_are_compared_as_percentages():
    assert cell(94, [0.945], scale=100)["measured"] == pytest.approx(94.5)
    assert cell(94, [0.945], scale=100)["verdict"] == "matches"


def test_blocks_are_compared_on_the_rows_they_ask_for():
    block = ledger.PrintedBlock("method", {"share": [5]}, {"Ours": [1]}, where={"data": "B"})
    entry = ledger.Entry("toy/fig", "table", "", "", value="accuracy", blocks=(block,))
    frame = pd.DataFrame({"data": ["A", "B"], "method": "Ours", "share": 5, "accuracy": [9.0, 1.0], "seed": 0})
    (found,) = ledger.compare(entry, frame)
    assert found["label"] == "B, Ours, 5"
    assert found["measured"] == 1.0


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["matches", "matches"], "reproduced"),
        (["matches", "not tested"], "partly"),
        (["matches", "worse than printed"], "partly"),
        (["matches", "better than printed"], "better than printed"),
        (["better than printed", "better than printed"], "better than printed"),
        (["better than printed", "worse than printed"], "not reproduced"),
        (["worse than printed", "not tested"], "not reproduced"),
        (["matches", "better than printed", "worse than printed"], "partly"),
        (["not tested", "not tested"], "not tested"),
        ([], "not tested"),
    ],
)
def test_a_figure_is_judged_by_its_cells(verdicts, expected):
    assert ledger.overall(verdicts) == expected


# Lines of the ledger

DOCUMENTED = {"id", "paper", "kind", "statement", "reported", "measured", "spread", "seeds", "verdict", "note", "cells"}
ABOVE = accuracies(Ours={5: [0.94, 0.95], 10: [0.96, 0.97]}, Theirs={5: [0.80, 0.81], 10: [0.9, 0.9]})
SUMS = pd.DataFrame({"quantity": ["total", "mean"], "printed": [10, 5], "found": [10, 4.2], "holds": [True, False]})


@pytest.mark.parametrize("id", ["toy/fig1", "toy/claim", "toy/audit", "toy/scheme", "toy/curve"])
def test_without_its_numbers_nothing_is_tested(toy, tmp_path, id):
    line = ledger.judge(toy.entry(id), tmp_path)
    assert line["verdict"] == "not tested"
    assert "not in this report" in line["note"]
    assert set(line) >= DOCUMENTED


def test_a_figure_with_printed_numbers_is_compared_cell_by_cell(toy, tmp_path):
    write_data(tmp_path, "toy/fig1", ABOVE)
    line = ledger.judge(toy.entry("toy/fig1"), tmp_path)
    assert line["verdict"] == "reproduced"
    assert line["seeds"] == 2
    assert line["reported"] == {"Ours, 5": 94, "Ours, 10": "95..96", "Theirs, 5": "<85"}
    assert line["measured"] == pytest.approx({"Ours, 5": 94.5, "Ours, 10": 96.5, "Theirs, 5": 80.5})
    assert line["spread"] == pytest.approx(dict.fromkeys(line["reported"], np.sqrt(0.5)))
    assert [one["label"] for one in line["cells"]] == ["Ours, 5", "Ours, 10", "Theirs, 5"], "a blank is not compared"


def test_a_claim_is_judged_by_its_check_on_the_data_of_its_figure(toy, tmp_path):
    write_data(tmp_path, "toy/fig1", ABOVE)
    line = ledger.judge(toy.entry("toy/claim"), tmp_path)
    assert (line["verdict"], line["measured"], line["seeds"]) == ("reproduced", "2 of 2 comparisons", 2)
    assert "Smallest gain +0.0650 over Theirs at share 10." in line["note"]


def test_an_audit_holds_or_does_not(toy, tmp_path):
    write_data(tmp_path, "toy/audit", SUMS)
    line = ledger.judge(toy.entry("toy/audit"), tmp_path)
    assert (line["verdict"], line["measured"], line["reported"]) == ("does not hold", "mean: 4.2", "mean: 5")
    write_data(tmp_path, "toy/audit", SUMS.head(1))
    assert ledger.judge(toy.entry("toy/audit"), tmp_path)["verdict"] == "holds"


def test_figures_without_printed_numbers_are_regenerated_and_schematics_redrawn(toy, tmp_path):
    write_data(tmp_path, "toy/curve", pd.DataFrame({"x": [1.0]}))
    write_data(tmp_path, "toy/scheme", pd.DataFrame({"x": [1.0]}))
    line = ledger.judge(toy.entry("toy/curve"), tmp_path)
    assert (line["verdict"], line["seeds"]) == ("regenerated", None)
    assert ledger.judge(toy.entry("toy/scheme"), tmp_path)["verdict"] == "redrawn"


def test_the_ledger_is_written_with_the_evidence_of_its_claims(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "load", lambda name: toy)
    write_data(tmp_path, "toy/fig1", ABOVE)
    write_data(tmp_path, "toy/audit", SUMS)
    lines = ledger.write(tmp_path, ["toy"], "quick")
    stored = json.loads((tmp_path / "ledger.json").read_text())
    assert stored == json.loads(json.dumps(lines))
    assert [line["id"] for line in stored] == [entry.id for entry in toy.entries]
    assert all(set(line) >= DOCUMENTED and line["scale"] == "quick" and line["paper"] == "toy" for line in stored)
    evidence = pd.read_csv(tmp_path / "data" / "toy-claim.csv")
    assert evidence["gain"].tolist() == pytest.approx([0.14, 0.065])
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "data" / "toy-audit.csv"), SUMS, check_dtype=False)
    written = sorted(file.name for file in (tmp_path / "data").iterdir())
    assert written == ["toy-audit.csv", "toy-claim.csv", "toy-fig1.csv"]


def test_an_empty_report_still_gives_a_whole_ledger(tmp_path):
    lines = ledger.write(tmp_path / "new", ["acfmo"], "quick")
    assert {line["verdict"] for line in lines} == {"not tested"}
    assert len(lines) == len(ledger.load("acfmo").entries)


# Checks

VERSUS = {"value": "accuracy", "key": "method", "first": "Ours", "others": ["Theirs", "Old"], "over": "share"}


def test_above_counts_differences_larger_than_their_standard_error():
    frame = accuracies(
        Ours={5: [0.90, 0.92], 10: [0.90, 0.94]},
        Theirs={5: [0.80, 0.82], 10: [0.91, 0.91]},  # +0.10 for both seeds; -0.01 and +0.03: mean 0.01 < error 0.02
        Old={5: [0.95, 0.95], 10: [0.80, 0.84]},  # -0.05 and -0.03; +0.10 for both
    )
    finding = checks.above(frame, **VERSUS)
    assert finding.verdict == "partly"
    assert finding.measured == "2 of 4 comparisons"
    assert finding.evidence["gain"].tolist() == pytest.approx([0.10, -0.04, 0.01, 0.10])
    assert finding.evidence["holds"].tolist() == [True, False, False, True]
    assert "Smallest gain -0.0400 over Old at share 5" in finding.note


@pytest.mark.parametrize(("ours", "above"), [(0.901, True), (0.9, False), (0.899, False)])
def test_with_one_seed_any_difference_counts_but_a_tie_does_not(ours, above):
    frame = accuracies(Ours={5: [ours]}, Theirs={5: [0.9]}, Old={5: [0.9]})
    assert checks.above(frame, **VERSUS).verdict == ("reproduced" if above else "not reproduced")


def test_above_pairs_by_seed():
    # Seeds differ by far more than the methods do, yet Ours is better by 0.01 in each.
    frame = accuracies(Ours={5: [0.51, 0.91]}, Theirs={5: [0.50, 0.90]})
    assert checks.above(frame, **VERSUS | {"others": ["Theirs"]}).verdict == "reproduced"
    shuffled = pd.concat([frame.iloc[[1, 3]], frame.iloc[[2, 0]]])
    assert checks.above(shuffled, **VERSUS | {"others": ["Theirs"]}).verdict == "reproduced"


def test_lower_may_be_better():
    frame = accuracies(Ours={5: [10.0, 12.0]}, Theirs={5: [20.0, 21.0]})
    assert checks.above(frame, **VERSUS | {"others": ["Theirs"]}, lower_is_better=True).verdict == "reproduced"
    assert checks.above(frame, **VERSUS | {"others": ["Theirs"]}).verdict == "not reproduced"


def test_a_rival_that_was_not_measured_leaves_the_claim_partly_tested():
    frame = accuracies(Ours={5: [0.9]}, Theirs={5: [0.8]})
    finding = checks.above(frame, **VERSUS)
    assert finding.verdict == "partly"
    assert finding.measured == "1 of 2 comparisons"
    assert "Not measured: 1" in finding.note


@pytest.mark.parametrize("frame", [accuracies(Theirs={5: [0.8]}), accuracies(Ours={5: [0.8]}), accuracies()])
def test_without_anyone_to_compare_nothing_is_tested(frame):
    assert checks.above(frame, **VERSUS).verdict == "not tested"
    assert checks.gap_grows(frame, **VERSUS).verdict == "not tested"


def test_the_gap_is_to_the_best_rival_of_each_seed_and_must_grow_towards_sparse():
    frame = accuracies(
        Ours={5: [0.90, 0.90], 10: [0.92, 0.92], 20: [0.93, 0.93]},
        Theirs={5: [0.80, 0.70], 10: [0.89, 0.88], 20: [0.88, 0.88]},
        Old={5: [0.70, 0.80], 10: [0.80, 0.80], 20: [0.91, 0.91]},
    )
    finding = checks.gap_grows(frame, **VERSUS)
    assert finding.evidence["lead"].tolist() == pytest.approx([0.10, 0.035, 0.02])
    # Leads by seed: 0.10, 0.10; 0.03, 0.04; 0.02, 0.02. Each step is paired by seed.
    assert (finding.verdict, finding.measured) == ("reproduced", "2 of 2 steps")
    flat = accuracies(Ours={5: [0.9], 10: [0.9], 20: [0.9]}, Theirs={5: [0.8], 10: [0.85], 20: [0.8]})
    assert checks.gap_grows(flat, **VERSUS).verdict == "partly"
    assert checks.gap_grows(flat[flat["share"] == 5], **VERSUS).verdict == "not tested"


def decays(**of_beta2: dict) -> pd.DataFrame:
    """decays(b9={0.0: 0.5, 0.9: 0.8}): accuracy at beta2 = 0.9 for two values of beta1."""
    rows = [
        {"beta2": float(f"0.{name[1:]}"), "beta1": beta1, "seed": 0, "accuracy": value}
        for name, levels in of_beta2.items()
        for beta1, value in levels.items()
    ]
    return pd.DataFrame(rows)


WORST = {"value": "accuracy", "key": "beta1", "which": 0.0, "over": "beta2"}
RISES = {"value": "accuracy", "key": "beta1", "over": "beta2"}


def test_the_worst_is_worse_than_all_others_at_every_level():
    frame = decays(b9={0.0: 0.5, 0.6: 0.7, 0.9: 0.8}, b99={0.0: 0.6, 0.6: 0.5, 0.9: 0.8})
    finding = checks.worst(frame, **WORST)
    assert (finding.verdict, finding.measured) == ("partly", "1 of 2 levels")
    assert finding.evidence["worst"].tolist() == [0.0, 0.6]
    assert checks.worst(frame[frame["beta2"] == 0.9], **WORST).verdict == "reproduced"
    assert checks.worst(frame, **WORST | {"which": 0.9}, lower_is_better=True).verdict == "reproduced"


def test_a_tie_for_the_worst_is_no_worst():
    assert checks.worst(decays(b9={0.0: 0.5, 0.9: 0.5}), **WORST).verdict == "not reproduced"


@pytest.mark.parametrize("frame", [decays(b9={0.3: 0.5, 0.9: 0.8}), decays(b9={0.0: 0.5})])
def test_without_the_worst_or_its_rivals_nothing_is_tested(frame):
    assert checks.worst(frame, **WORST).verdict == "not tested"


def test_rising_counts_every_step_at_every_level():
    frame = decays(b9={0.0: 0.5, 0.6: 0.7, 0.9: 0.8}, b99={0.0: 0.6, 0.6: 0.8, 0.9: 0.7})
    finding = checks.rises(frame, **RISES)
    assert (finding.verdict, finding.measured) == ("partly", "3 of 4 steps")
    assert checks.rises(frame[frame["beta2"] == 0.9], **RISES).verdict == "reproduced"
    assert checks.rises(frame[frame["beta2"] == 0.9], **RISES, lower_is_better=True).verdict == "not reproduced"
    assert checks.rises(frame[frame["beta1"] == 0.0], **RISES).verdict == "not tested"


def test_a_rise_counts_only_beyond_its_standard_error_over_seeds():
    frame = pd.concat([decays(b9={0.0: 0.5, 0.9: 0.4}).assign(seed=seed) for seed in (0, 1)])
    last = (frame["beta1"] == 0.9) & (frame["seed"] == 1)
    frame.loc[last, "accuracy"] = 0.9  # differences -0.1 and 0.4: mean 0.15, standard error 0.25
    assert checks.rises(frame, **RISES).verdict == "not reproduced"
    frame.loc[(frame["beta1"] == 0.9) & (frame["seed"] == 0), "accuracy"] = 0.7  # 0.2 and 0.4: mean 0.3, error 0.1
    assert checks.rises(frame, **RISES).verdict == "reproduced"


def test_a_statement_holds_when_all_its_quantities_do():
    assert checks.statement(SUMS).verdict == "does not hold"
    assert checks.statement(SUMS.head(1)).verdict == "holds"
    words = pd.DataFrame({"quantity": ["sign"], "printed": ["+"], "found": [None], "holds": [False]})
    assert checks.statement(words).measured == "sign: None"


def test_a_statement_about_nothing_is_not_tested_and_a_blank_does_not_hold():
    assert checks.statement(SUMS.head(0)).verdict == "not tested"
    assert checks.statement(SUMS.head(1).astype(object).assign(holds=np.nan)).verdict == "does not hold"


def test_every_check_of_the_papers_is_known_and_documented():
    used = {entry.check for name in ledger.papers() for entry in ledger.load(name).entries if entry.check}
    assert used <= set(checks.CHECKS)
    assert all(check.__doc__ for check in checks.CHECKS.values())
