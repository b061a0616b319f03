"""The statistics that verdicts rest on: what noise alone may decide, what an effect must, and numbers by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedlib.judging import statistics
from fedlib.judging.statistics import Estimate, estimate

pytestmark = pytest.mark.slow

SIMULATED = 2000
NUMBERS = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 6))


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


# --- what noise may decide, and what an effect must -------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 5, 10])
def test_without_an_effect_at_most_one_comparison_in_twenty_holds(n):
    noise = rng().normal(size=(SIMULATED, n))
    held = sum(estimate(units).above(0.0) <= statistics.LEVEL for units in noise)
    reversed_ = sum(estimate(units).below(0.0) <= statistics.LEVEL for units in noise)
    assert held / SIMULATED <= 0.05
    assert reversed_ / SIMULATED <= 0.05
    assert held > 0, "a test that never rejects is no test"


@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_twenty_true_ties_are_contradicted_at_most_one_time_in_twenty(shared):
    """Also when the comparisons share a method, so that they depend on each other."""
    draws = rng()
    contradicted = 0
    for _ in range(SIMULATED // 4):
        common = draws.normal(size=5)
        units = np.sqrt(1 - shared) * draws.normal(size=(20, 5)) + np.sqrt(shared) * common
        contradicted += min(statistics.holm([estimate(row).below(0.0) for row in units])) <= statistics.LEVEL
    assert contradicted / (SIMULATED // 4) <= 0.05


def test_most_is_found_at_most_one_time_in_twenty_when_only_half_hold():
    draws, claimed = rng(), 0
    for _ in range(SIMULATED // 4):
        units = draws.normal(size=(10, 5)) + np.repeat([50.0, 0.0], 5)[:, None]
        claimed += statistics.most([estimate(row).above(0.0) for row in units]) <= statistics.LEVEL
    assert claimed / (SIMULATED // 4) <= 0.05


def test_an_effect_of_three_standard_errors_with_five_seeds_is_mostly_seen():
    units = rng().normal(loc=3 / np.sqrt(5), size=(SIMULATED, 5))
    assert np.mean([estimate(row).above(0.0) <= statistics.LEVEL for row in units]) > 0.5


def test_a_true_tie_is_found_inside_a_wide_margin_and_an_effect_at_the_margin_is_not():
    at_zero = rng().normal(size=(SIMULATED, 5))
    assert np.mean([estimate(row).inside(3.0) <= statistics.LEVEL for row in at_zero]) > 0.9
    assert np.mean([estimate(row).inside(3.0) <= statistics.LEVEL for row in at_zero + 3]) <= 0.06
    assert np.mean([estimate(row).outside(3.0) <= statistics.LEVEL for row in at_zero + 3]) <= 0.06


@settings(deadline=None, max_examples=50)
@given(st.lists(NUMBERS, min_size=1, max_size=2), NUMBERS)
def test_one_or_two_units_never_decide(differences, margin):
    found = estimate(np.array(differences))
    decided = (found.above(margin), found.below(margin), found.inside(abs(margin)), found.outside(abs(margin)))
    assert min(decided) > statistics.LEVEL


@settings(deadline=None, max_examples=50)
@given(st.lists(NUMBERS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_the_seeds_does_not_matter(differences, shuffler):
    again = list(differences)
    shuffler.shuffle(again)
    assert estimate(np.array(differences)) == estimate(np.array(again))


@settings(deadline=None, max_examples=50)
@given(st.lists(NUMBERS, min_size=3, max_size=8), NUMBERS)
def test_the_interval_and_the_test_agree(differences, margin):
    found = estimate(np.array(differences))
    low, high = found.interval()
    inner = found.interval(2 * statistics.LEVEL)
    assert (found.above(margin) <= statistics.LEVEL) == (low >= margin)
    assert (found.below(margin) <= statistics.LEVEL) == (high <= margin)
    assert (found.inside(abs(margin)) <= statistics.LEVEL) == (-abs(margin) <= inner[0] and inner[1] <= abs(margin))


# --- numbers by hand --------------------------------------------------------------------------------------------------


def test_the_interval_is_that_of_a_t_test_on_the_differences():
    values = np.array([0.1, 0.3, 0.2, 0.5])
    theirs = stats.ttest_1samp(values, 0.0)
    assert estimate(values).interval() == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert estimate(values).above(0.0) == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("resolution", [1.0, 5.0])
def test_the_interval_is_never_narrower_than_the_resolution(resolution):
    found = estimate(np.array([4.0, 4.0, 4.0, 4.0]), resolution)
    for level in (0.05, 0.1):
        low, high = found.interval(level)
        assert min(4 - low, high - 4) >= resolution - 1e-12
    wide = estimate(np.array([-40.0, 48.0, 4.0]), resolution)
    assert wide == estimate(np.array([-40.0, 48.0, 4.0]))


def test_equal_numbers_that_floating_point_left_apart_are_no_effect():
    found = estimate(np.full(5, 1e-17))
    assert found.above(0.0) > statistics.LEVEL


def test_exact_numbers_need_no_units_and_a_tie_is_not_above():
    assert Estimate(0.2).interval() is None
    assert (Estimate(0.2).above(0.1), Estimate(0.2).below(0.1)) == (0.0, 1.0)
    assert (Estimate(0.1).above(0.1), Estimate(0.1).below(0.1)) == (1.0, 0.0)
    assert Estimate(0.030 - 0.028).inside(0.002) == 0.0, "0.030 - 0.028 is a little more than 0.002 in binary"
    assert (Estimate(0.0021).inside(0.002), Estimate(0.0021).outside(0.002)) == (1.0, 0.0)


def test_differences_must_be_numbers():
    for wrong in ([], [0.1, np.nan], [np.inf]):
        with pytest.raises(ValueError, match="finite numbers"):
            estimate(np.array(wrong))


def test_holm_by_hand():
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.holm([0.5, 0.9]) == [1.0, 1.0]
    assert statistics.holm([]) == []


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([0.01], 0.01),
        ([0.01, 0.02], 0.02),  # more than half of two are both
        ([0.01, 0.02, 0.9], 0.04),  # the second best of the last two: 2 * 0.02
        ([0.01, 0.02, 0.03, 0.9], 0.06),
        ([0.0, 0.0, 0.0, 1.0], 0.0),
        ([0.04, 0.04, 0.04, 0.04], 0.04),  # what holds everywhere holds in most cases
    ],
)
def test_most_by_hand(p_values, expected):
    assert statistics.most(p_values) == pytest.approx(expected)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_what_holds_everywhere_holds_in_most_cases(p_values):
    assert statistics.most(p_values) <= max(p_values)


def test_a_detectable_effect_is_detected_with_the_stated_chance():
    units = rng().normal(size=(SIMULATED, 5))
    effect = Estimate(0.0, 1 / np.sqrt(5), 5).detectable()  # units of deviation 1
    seen = np.mean([stats.ttest_1samp(row + effect, 0.0, alternative="greater").pvalue <= 0.025 for row in units])
    assert seen == pytest.approx(statistics.POWER, abs=0.03)
    assert Estimate(0.1, 1.0, 2).detectable() is None


@pytest.mark.parametrize(("distance", "expected"), [(1.0, 10), (0.5, 34), (100.0, 3), (1e-6, None)])
def test_units_needed_are_those_of_the_power_tables(distance, expected):
    assert statistics.units_needed(distance, 1.0) == expected  # 10 and 34: a t test with d = 1 and d = 0.5


def test_without_spread_three_units_are_enough():
    assert statistics.units_needed(0.1, 0.0) == statistics.FEWEST


# --- races ------------------------------------------------------------------------------------------------------------


def times(*values: tuple[float, bool]) -> pd.DataFrame:
    return pd.DataFrame(values, columns=["value", "arrived"])


def test_a_side_that_falls_short_is_bounded_and_neither_is_no_comparison():
    ours = times((10, True), (21, False), (5, True), (21, False))
    theirs = times((15, True), (18, True), (21, False), (21, False))
    run = statistics.race(ours, theirs)
    assert run.differences.tolist() == [5, -3, 16]
    assert (run.ours_short, run.theirs_short, run.neither.tolist()) == (1, 1, [3])


def test_a_ratio_is_judged_as_a_difference():
    run = statistics.race(times((10, True)), times((33, True)), ratio=3.0)
    assert run.differences.tolist() == [3]


def test_runners_are_paired_by_unit():
    theirs = times((15, True), (25, True))
    theirs.index = [1, 0]
    assert statistics.race(times((10, True), (20, True)), theirs).differences.tolist() == [15, -5]
