"""How verdicts look and read: the same words, signs and colours everywhere, and a forest that needs no colour."""

import doctest
import itertools
import math
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_page import show_verdicts
from ledger_lines import cell, claim, comparison, line, printed
from matplotlib.lines import Line2D

from fedlib.judging import claims, ledger
from fedlib.report import comparisons, forest, verdicts
from fedlib.report.html import TEMPLATES
from fedlib.report.verdicts import COLOURS, LOOKS

ROWS = [
    comparison("FedGH, 5", 0.02, 0.008, "holds"),
    comparison("FedPAC, 5", 0.031, 0.01, "holds"),
    comparison("FedALA, 5", -0.004, 0.012, "undecided"),
    comparison("FedAvg, 5", -0.02, 0.01, "reversed"),
    comparison("FedProx, 5", None, None, "not run"),
]
CLAIM = claim("toy/claim", "undecided", ROWS)
LATE = claim("toy/claim", ledger.NOT_JUDGED, ROWS)
AVERAGE = claim("toy/claim", "reproduced", ROWS[:3], "average", averaged=comparison("average", 0.016, 0.01, "holds"))


# Words, signs, colours

FAMILIES = {
    "claims": ("reproduced", "contradicted", "undecided", ledger.NOT_JUDGED),
    "printed numbers": (*ledger.CELL_VERDICTS, "differs"),
    "comparisons": claims.OUTCOMES,
    "audits": ("holds", "does not hold", ledger.NOT_RUN),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_signs_alone_tell_verdicts_apart(family):
    signs = [LOOKS[verdict][1] for verdict in family]
    assert len(set(signs)) == len(signs)


def test_pages_and_pictures_have_the_same_colours():
    light = (TEMPLATES / "base.css").read_text().split("@media")[0]
    assert {name: re.search(rf"--{name}: (#\w+);", light)[1] for name in COLOURS} == COLOURS
    assert {colour for colour, _, _ in LOOKS.values()} == set(COLOURS)


# Machado, Oliveira and Fernandes 2009, severity 1: linear RGB as seen without red, green or blue cones
SEEN = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    share = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(TO_XYZ @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("pair", [*itertools.combinations(("good", "bad", "open"), 2)], ids="-".join)
def test_colour_blind_readers_see_different_colours_too(eyes, pair):
    one, other = (lab(np.array(SEEN[eyes]) @ linear(COLOURS[name])) for name in pair)
    assert np.linalg.norm(one - other) > 20, "two is just noticeable"


@pytest.mark.parametrize("colour", COLOURS.values())
def test_text_in_these_colours_is_legible_on_white(colour):
    assert 1.05 / (TO_XYZ[1] @ linear(colour) + 0.05) > 4.5


def test_examples_in_docstrings_are_true():
    assert doctest.testmod(verdicts).failed == 0


@given(st.floats(-1e4, 1e4), st.floats(1e-4, 1e4))
def test_a_written_interval_is_off_by_less_than_a_tenth_of_its_half_width(middle, half):
    ends = [middle - half, middle + half]
    written = [float(end) for end in verdicts.between(ends, middle).split(" to ")]
    error = max(abs(a - b) for a, b in zip(written, ends, strict=True))
    assert error <= max(0.051 * half, 0.51e-6)


# What is said of a line


def test_a_claim_is_told_with_counts_rule_effect_interval_and_units():
    assert verdicts.account(CLAIM).split("\n\n") == [
        "**○ undecided** `toy/claim` Statement of toy/claim",
        "2 hold, 1 reversed, 1 undecided, 1 not run, of 5 (all must hold). "
        "Smallest effect on accuracy -0.020 (-0.030 to -0.010), 5 seeds.",
    ]


def test_exact_and_near_and_average_claims_say_so():
    exact = claim("toy/claim", "reproduced", [comparison("a", 253.154, None, "holds")], quantity="energy_j")
    assert verdicts.weighed(exact) == "Smallest effect on energy j +253."
    near = claim("toy/claim", "reproduced", [comparison("a", 0.004, 0.003, "holds", near=True, margin=0.01)])
    assert verdicts.weighed(near) == "Largest difference on accuracy +0.0040 (0.0010 to 0.0070), 5 seeds."
    assert "(the average decides). Average effect on accuracy" in verdicts.account(AVERAGE)
    assert verdicts.weighed(claim("toy/claim", "undecided", ROWS[-1:])) == ""


def test_other_readings_are_listed_by_verdict_and_not_said_twice():
    told = [("as printed", "undecided"), ("tuned, late", "reproduced"), ("mended", "contradicted"), ("x", "reproduced")]
    readings = [{"reading": reading, "verdict": verdict} for reading, verdict in told]
    said = ledger.said_otherwise(readings)
    assert said == "Other readings. Reproduced: tuned, late; x. Contradicted: mended."
    text = verdicts.account(CLAIM | {"readings": readings, "note": f"Read as 'as printed'. {said}"})
    assert text.split("\n\n")[-3:] == [
        "Read as 'as printed'.",
        "Other readings:",
        "- **✓ reproduced** as: tuned, late; x\n- **✗ contradicted** as: mended",
    ]


def test_a_hundred_numbers_of_other_settings_are_one_quiet_line():
    apart = [cell(f"FedAvg, {at}", 90, 70.0, None, "not comparable", "rounds 6, printed 500") for at in range(100)]
    table = printed("toy/table2", "table", apart)
    assert verdicts.account(table) == (
        "`toy/table2`: 100 printed numbers belong to other settings (rounds 6, printed 500)."
    )
    assert verdicts.cells(table).empty
    assert len(verdicts.cells(table, ledger.CELL_VERDICTS)) == 100


def test_an_audit_is_told_with_what_is_printed_and_found():
    audit = line("toy/sum", "audit", "does not hold", reported=0.59, measured=0.4712345)
    assert verdicts.account(audit) == "**✗ does not hold** `toy/sum` Statement of toy/sum\n\nPrinted 0.59, found 0.4712"


def test_an_audit_of_several_quantities_leaves_them_to_its_table():
    audit = line("toy/sum", "audit", "does not hold", reported="left: 1; right: 2", measured="left: 1; right: 3")
    assert verdicts.account(audit) == "**✗ does not hold** `toy/sum` Statement of toy/sum"


def test_a_lack_of_units_names_the_unit():
    need = {"name": "units", "value": 3, "have": 1, "met": False, "because": "fewer decide nothing"}
    lacks = verdicts.lacking(claim("toy/claim", "not judged at this scale", [], needs=[need]))
    assert lacks == ["needs 3 seeds, has 1: fewer decide nothing"]


@pytest.mark.parametrize("paper", ledger.papers())
def test_every_entry_of_every_paper_can_be_told_without_its_numbers(paper, tmp_path):
    for entry in ledger.load(paper).entries:
        told = verdicts.account(ledger.judge(entry, tmp_path))
        assert entry.id in told and "not in this report" in told


def test_what_nbval_compares_is_text_without_addresses_and_the_picture_has_a_short_name(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLIB_REPORT", str(tmp_path))
    first, again = ([output.data["text/plain"] for output in show_verdicts([CLAIM])] for _ in range(2))
    assert first == again
    assert first[1] == "<toy/claim>"
    assert not any(" at 0x" in text for text in first)


# The forest

effects = st.floats(-1e6, 1e6).filter(lambda value: value == 0 or abs(value) > 1e-6)
outcomes = st.sampled_from(["holds", "reversed", "undecided"])
rows = st.lists(st.tuples(effects, st.none() | st.floats(1e-6, 1e6), outcomes), min_size=1, max_size=12)


def family(drawn: list[tuple]) -> dict:
    return claim("toy/claim", "undecided", [comparison(f"row {at}", *row) for at, row in enumerate(drawn)])


@given(rows, st.sampled_from([0.0, 0.5]))
def test_every_effect_and_the_margin_have_a_place_on_the_axis_in_their_order(drawn, margin):
    line = family(drawn)
    for row in line["comparisons"]:
        row["margin"] = margin
    shown = comparisons.axis(line)
    values = sorted([margin, *(row["effect"] for row in line["comparisons"])])
    places = [shown.share(value) for value in values]
    assert places == sorted(places) and places[0] >= 0 and places[-1] <= 1
    assert all(shown.low < value < shown.high for value in values)


@given(effects, st.floats(1e-3, 1e3))
def test_the_logarithmic_axis_can_be_read_back(value, threshold):
    axis = comparisons.Axis(-1e7, 1e7, threshold)
    assert axis.shrunk(axis.stretched(value)) == pytest.approx(value, rel=1e-6, abs=1e-9)


@settings(deadline=None)
@given(rows)
def test_rows_are_sorted_by_effect_in_picture_table_and_small_drawing(drawn):
    line = family(drawn)
    sizes = [row["effect"] for row in comparisons.ordered(line)]
    assert sizes == sorted(sizes, reverse=True)
    labels = [row["label"] for row in comparisons.ordered(line)]
    assert list(comparisons.table(line).index) == labels
    assert re.findall(r"<title>(row \d+):", comparisons.svg(line)) == labels


def test_small_decided_effects_beside_large_ones_are_seen_on_a_logarithmic_axis():
    rows = [comparison("small", -0.02, 0.01, "reversed"), comparison("large", 900.0, 50.0, "holds")]
    unlike = claim("toy/claim", "contradicted", rows)
    axis = comparisons.axis(unlike)
    assert axis.threshold == 0.02
    assert axis.share(0) - axis.share(-0.02) > 0.03
    assert sorted(axis.ticks() or []) == [0.0, 0.1, 10.0, 1000.0]
    tie = claim("toy/claim", "undecided", [comparison("tie", 0.0001, 0.01, "undecided"), rows[1]])
    assert comparisons.axis(tie).threshold is None, "what is undecided near zero needs no magnifying glass"


def drawn_marks(line: dict) -> list[Line2D]:
    """The marks of the forest's rows, from top to bottom; arrows and intervals left out."""
    figure = forest.draw(line)
    marks = [mark for mark in figure.axes[0].lines if mark.get_marker() in ("o", "X")]
    plt.close(figure)
    return marks


def test_outcomes_differ_in_shape_and_filling_and_not_by_colour_only():
    looks = {}
    for mark, row in zip(drawn_marks(CLAIM), comparisons.ordered(CLAIM), strict=False):
        looks[row["outcome"]] = (mark.get_marker(), mark.get_markerfacecolor() == "white")
    assert looks == {"holds": ("o", False), "undecided": ("o", True), "reversed": ("X", False)}
    grey = drawn_marks(LATE)
    assert {mark.get_markeredgecolor() for mark in grey} == {COLOURS["calm"]}
    shapes = [(mark.get_marker(), mark.get_markerfacecolor() == "white") for mark in grey]
    assert shapes == [("o", False), ("o", False), ("o", True), ("X", False)]


def test_what_was_not_run_keeps_its_row():
    figure = forest.draw(CLAIM)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][-1] == "FedProx, 5"
    assert [text.get_text() for text in figure.axes[0].texts] == ["not run"]
    plt.close(figure)


def test_the_margin_is_a_line_and_of_near_claims_a_band():
    def margins(line: dict) -> list[float]:
        figure = forest.draw(line)
        plt.close(figure)
        solid = [one for one in figure.axes[0].lines if one.get_linestyle() == "-" and len(one.get_xdata()) == 2]
        return sorted(one.get_xdata()[0] for one in solid if list(one.get_ydata()) == [0, 1])

    assert margins(claim("toy/claim", "undecided", [comparison("a", 0.1, 0.1, "undecided", margin=0.05)])) == [0.05]
    near = claim("toy/claim", "undecided", [comparison("a", 0.1, 0.1, "undecided", margin=0.05, near=True)])
    assert margins(near) == [-0.05, 0.05]
    assert "margin ±0.05" in comparisons.description(near)


def test_an_interval_that_would_hide_the_others_is_cut_with_an_arrow():
    rows = [comparison("wild", 0.01, 5.0, "undecided"), comparison("calm", 0.013, 0.004, "holds")]
    figure = forest.draw(claim("toy/claim", "undecided", rows))
    low, high = figure.axes[0].get_xlim()
    assert high - low < 0.1
    assert [one.get_marker() for one in figure.axes[0].lines if one.get_marker() in ("<", ">")] == ["<", ">"]
    plt.close(figure)


@pytest.mark.parametrize("number", [1, 6, 20, 40])
def test_a_large_family_stays_legible_and_of_limited_height(number):
    rows = [comparison(f"FedAvg, participation {at}", 0.001 * at, 0.002, "holds") for at in range(number)]
    figure = forest.draw(claim("toy/claim", "reproduced", rows))
    labels = figure.axes[0].get_yticklabels()
    points = figure.get_figheight() * 72 / (number + 1)
    assert figure.get_figheight() < 8.5
    assert all(label.get_fontsize() >= 7 and label.get_fontsize() < points for label in labels)
    plt.close(figure)


def test_an_average_that_decides_stands_above_all():
    assert [row["label"] for row in comparisons.ordered(AVERAGE)][:2] == ["average", "FedPAC, 5"]
    assert "Average effect on accuracy" in comparisons.description(AVERAGE)
    assert math.isclose(comparisons.margin_of(AVERAGE), 0.0)
