"""The studies of the FedGS selection and time notebooks: the problems are FedGS's own, and Proposition 4 by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from fedlib import selection
from fedlib.algorithms import create
from fedlib.papers.fedgs import audits, experiments, pictures, results
from fedlib.papers.fedgs.experiments import RoundTiming, sampling, timing
from fedlib.problem.queues import SampleQueues
from fedlib.selection.gbpcs import growing_start

pytestmark = pytest.mark.usefixtures("empty_store")
PARK = experiments.Park("handwriting", factories=4, devices=12, selected=5, presampled=1, batch=8)


QUICK = [name for name in experiments.samplers(0) if name != "Bayesian"]


@pytest.fixture(scope="module")
def problems():
    return experiments.first_problems(PARK, seed=3)


@pytest.fixture(scope="module")
def compared(empty_store):
    return experiments.compare_samplers(PARK, 3, 0, QUICK)


# The problems


def test_the_problems_are_those_that_fedgs_solves_in_its_first_iteration(problems):
    federation = PARK.federation(3)
    method = create("fedgs", factories=4, devices=5, presampled=1, batch=8)
    streams = SampleQueues(federation, 8, np.zeros(48, dtype=np.int64))
    chosen, divergences = method.select(federation, streams.counts, 0)
    found = selection.gbp_cs(problems.A, problems.y, PARK.size)
    assert np.array_equal(problems.divergence(found.distance), divergences)
    candidates = np.take_along_axis(problems.drawn[:, 1:], found.devices, axis=1) + 12 * np.arange(4)[:, None]
    own = np.concatenate([problems.drawn[:, :1] + 12 * np.arange(4)[:, None], candidates], axis=1)
    assert np.array_equal(np.sort(own, axis=1), np.sort(np.stack(chosen), axis=1))


def test_every_batch_has_n_samples_and_the_target_asks_for_the_rest(problems):
    assert problems.A.shape == (4, 62, 11) and (problems.A.sum(axis=1) == 8).all()
    assert problems.y.sum(axis=1) == pytest.approx(np.full(4, 8 * PARK.size))
    assert problems.real.sum() == pytest.approx(1)


def test_the_divergence_is_that_of_the_super_node_from_the_real_distribution(problems):
    found = selection.gbp_cs(problems.A, problems.y, PARK.size)
    total = np.matmul(problems.A, found.mask[..., None])[..., 0] + problems.presampled
    far = np.linalg.norm(total / 40 - problems.real, axis=1)
    assert problems.divergence(found.distance) == pytest.approx(far)


def test_the_shares_of_a_super_node_are_those_of_its_devices(problems):
    node = experiments.super_node(PARK, 3)
    assert node["class"].tolist() == list(range(62))
    shares = node.drop(columns="class")
    np.testing.assert_allclose(shares.sum(), 1)
    assert (node["one device"] * 8).tolist() == problems.A[0, :, 0].tolist()
    far = np.linalg.norm(node["by GBP-CS"] - node["real"])
    assert far == pytest.approx(problems.divergence(selection.gbp_cs(problems.A[0], problems.y[0], 4).distance))
    fig, text = pictures.super_node(node, PARK)
    plt.close(fig)
    assert text["divergence"].tolist() == sorted(text["divergence"], reverse=True)
    assert text.loc["5 devices, 4 of them by GBP-CS", "divergence"] == round(far, 4)


def test_clock_readings_are_named_and_nothing_else_changes_from_run_to_run(problems, monkeypatch):
    monkeypatch.setattr(sampling, "first_problems", lambda park, seed: problems)
    for call in (
        experiments.compare_samplers.call(PARK, 3, 0, ["MC", "GBP-CS"]),
        experiments.traces.call(PARK, 3, 0, ["MC", "GBP-CS"]),
        experiments.initialiser_times.call(PARK, 3, 1),
        experiments.groups_at_once.call(PARK, 3, [1, 5], 1),
    ):
        first, second = call.compute(), call.compute()
        assert set(call.clock) < set(first)
        pd.testing.assert_frame_equal(first.drop(columns=[*call.clock]), second.drop(columns=[*call.clock]))


def test_the_share_of_selecting_is_made_of_two_clock_readings():
    call = experiments.training_share.call(PARK, {"width": 2, "hidden": 4}, 1, 0)
    share = call.compute().iloc[0]
    assert share["share"] == pytest.approx(share["selection, ms"] / share["iteration, ms"])
    assert (share["groups"], set(share.index) - set(call.clock)) == (4, {"groups", "weights"})


def test_independent_samples_have_the_divergence_that_the_formula_says():
    real = np.array([0.5, 0.3, 0.2])
    drawn = np.random.default_rng(0).multinomial(320, real, 20_000) / 320
    measured = np.sqrt(np.mean(np.sum((drawn - real) ** 2, axis=1)))
    assert results.iid_divergence(real, 320) == pytest.approx(measured, rel=0.02)


# Samplers and initialisers


@pytest.mark.slow
def test_the_optimum_is_below_all_samplers_in_every_factory(compared):
    wide = compared.pivot(index="factory", columns="sampler", values="divergence")
    assert (wide.sub(wide["Brute"], axis=0) >= -1e-12).all().all()
    assert results.gaps_to_optimum(compared).loc["Brute"].tolist() == [0, 0, 4, 4]


def test_lowest_and_highest_are_those_of_the_factories(compared):
    points = results.over_factories(compared)
    own = points[points["sampler"] == "GBP-CS"].set_index("point")["divergence"]
    assert own["lowest"] == own["factory"].min() and own["highest"] == own["factory"].max()
    assert "seconds" not in points


def test_curves_end_where_the_search_ends_and_zero_counts_its_warm_up(problems, compared):
    curves = experiments.initialiser_curves(PARK, 3)
    ends = results.initialiser_ends(curves, compared).set_index(["initialiser", "factory"])
    for name, init in (("Zero", "zero"), ("MPInv", "pinv")):
        for factory, (A, y) in enumerate(zip(problems.A, problems.y, strict=True), start=1):
            found = selection.gbp_cs(A, y, PARK.size, init)
            warm_up = PARK.size if name == "Zero" else 0
            assert ends.loc[(name, factory), "iterations"] == warm_up + len(found.distances) - 1
            assert ends.loc[(name, factory), "divergence"] == found.distance / 40
    assert len(ends.loc["Brute"]) == 4


def test_a_start_with_a_growing_target_is_searched_from_and_swaps_close_a_share_of_the_gap(problems, compared):
    curves = experiments.initialiser_curves(PARK, 3)
    ends = results.initialiser_ends(curves, compared)
    start = growing_start(problems.A.astype(float), problems.y, PARK.size, PARK.batch * problems.real)
    growing = curves[curves["initialiser"] == sampling.GROWING]
    first = growing[growing["iteration"] == 0].set_index("factory")["divergence"]
    assert first.tolist() == pytest.approx(selection.distance(problems.A, problems.y, start) / 40)
    closed = results.gap_closed(curves, ends, PARK.size)
    assert (closed["end"] <= closed["start"] + 1e-12).all() and (closed["end"] >= closed["optimum"] - 1e-12).all()
    zero = curves[(curves["initialiser"] == "Zero") & (curves["iteration"] == PARK.size)]
    assert closed.loc["Zero", "start"] == pytest.approx(zero["divergence"].mean())


def test_the_share_of_the_gap_that_swaps_close_by_hand():
    lines = [("MPInv", 0, 0.05), ("MPInv", 1, 0.04), ("MPInv", 2, 0.035)]
    curves = pd.DataFrame(lines, columns=["initialiser", "iteration", "divergence"]).assign(seed=0, factory=1)
    ends = pd.DataFrame([{"initialiser": "Brute", "seed": 0, "factory": 1, "divergence": 0.03}])
    closed = results.gap_closed(curves, ends, 8).loc["MPInv"]
    assert closed.to_dict() == pytest.approx({"start": 0.05, "end": 0.035, "closed": 0.75, "optimum": 0.03})


def test_over_iterations_the_first_is_that_of_fig_4a_and_stages_are_means(problems):
    frame = experiments.over_iterations(PARK, 3, 8, round_length=4)
    first = frame[(frame["sampler"] == "GBP-CS") & (frame["iteration"] == 0)]["divergence"].item()
    found = selection.gbp_cs(problems.A, problems.y, PARK.size)
    assert first == pytest.approx(problems.divergence(found.distance).mean())
    stages = results.by_stage(frame, 5).set_index(["sampler", "stage"])["divergence"]
    assert stages["GBP-CS", "first"] == first
    own = frame[(frame["sampler"] == "Random") & (frame["iteration"] >= 5)]["divergence"]
    assert len(own) == 3 and stages["Random", "later"] == pytest.approx(own.mean())


def test_a_trace_ends_with_the_result_and_arrivals_compare_with_gbp_cs(compared):
    trace = experiments.traces(PARK, 3, 0, QUICK)
    arrived = results.arrivals(trace).set_index("sampler")
    first = compared[compared["factory"] == 1].set_index("sampler")["divergence"]
    assert arrived["divergence"].to_dict() == first.to_dict()
    level = arrived["divergence"]["GBP-CS"]
    assert (np.isinf(arrived["seconds_to_level"]) == (arrived["divergence"] > level)).all()
    merged = results.sampler_ends(compared, arrived.reset_index())
    assert len(merged) == len(compared) and merged["seconds_to_level"].notna().sum() == len(QUICK)


def test_times_are_medians_over_factories_and_factors_judge_them():
    seconds = [1.0, 2.0, 9.0, 0.01, 0.02, 0.5]
    frame = pd.DataFrame({"seed": 0, "sampler": ["GA"] * 3 + ["GBP-CS"] * 3, "seconds": seconds})
    took = results.sampler_times(frame)
    assert took["seconds"].tolist() == [2.0, 0.02]
    assert audits.genetic_slower(took)[["found", "holds"]].iloc[0].tolist() == ["100", True]
    starts = pd.DataFrame({"initialiser": ["Zero", "MPInv"], "milliseconds": [1.4, 1.0]})
    assert not audits.pseudo_inverse_faster(starts)["holds"].any()


def test_the_printed_stopping_rule_swaps_equal_devices_for_ever():
    assert not audits.printed_stop()["holds"].any()


@pytest.mark.slow
def test_random_draws_are_fair_and_chosen_devices_take_part_more_unevenly():
    taken = experiments.participations(PARK, seed=0, iterations=300, round_length=10)
    assert taken.groupby("sampler")["times"].sum().tolist() == [4 * 5 * 300] * 3
    chosen, by_round, drawn = audits.equal_chance(taken, PARK)["found"].astype(float)
    assert chosen > 1.5 and by_round > 1.5 and drawn == pytest.approx(1, abs=0.5)


def test_the_measure_of_fairness_by_hand():
    taken = pd.DataFrame({"sampler": "GBP-CS", "iterations": 12, "times": [5] * 6 + [8, 2] + [5] * 4})
    # p = 5 / 12: fair is 5 times of 12, variance 12 * 5/12 * 7/12 = 35/12; ours is (9 + 9) / 12.
    assert audits.equal_chance(taken, PARK)["found"].tolist() == [f"{(18 / 12) / (35 / 12):.2f}"]


BRIEF = [(979, "979 s"), (0.015, "15 ms"), (9.5e-5, "95 µs"), (float("inf"), "inf s")]


@pytest.mark.parametrize(("seconds", "text"), BRIEF)
def test_times_are_written_briefly(seconds, text):
    assert pictures.brief_seconds(seconds) == text


# Proposition 4

HAND = RoundTiming(
    iterations=4, factories=2, selected=3, ratio=10, external_hz=2, snr=3, model_bits=8, step_s=1, select_s=0.5
)  # beta = 2: one model takes 2 * 8 / (2 * 2) = 4 s outside and 0.4 s inside


def test_times_of_a_round_by_hand():
    assert HAND.outside_s == 4 and HAND.inside_s == pytest.approx(0.4)
    assert timing.fedgs_s(HAND) == pytest.approx(2 * 4 + 4 * (0.5 + 3 * 0.4 + 1))  # 18.8
    assert timing.fedavg_s(HAND) == pytest.approx(2 * 3 * 4 + 4 * 1)  # 28
    assert timing.hierarchical_s(HAND) == pytest.approx(2 * 4 + 3 * 0.4 + 4)  # 13.2


def test_the_simplified_times_are_those_of_the_general_equations():
    """(19) to (23) with uplink and downlink written out, under Assumption 2."""
    s, beta = HAND, np.log2(1 + HAND.snr)
    B_ext, B_int = s.external_hz, s.ratio * s.external_hz
    outside = s.model_bits * s.factories / (B_ext * beta) + s.model_bits * s.factories / (B_ext * beta)  # (19)
    inside = s.model_bits * s.selected / (B_int * beta) + s.model_bits * s.selected / (B_int * beta)  # (20)
    assert timing.fedgs_s(s) == pytest.approx(outside + s.iterations * (s.select_s + inside + s.step_s))  # (21)
    flat = 2 * s.model_bits * s.factories * s.selected / (B_ext * beta)  # (22)
    assert timing.fedavg_s(s) == pytest.approx(flat + s.iterations * s.step_s)  # (23)


def test_the_default_setting_needs_a_ratio_of_five_and_five_ninths():
    assert timing.threshold(RoundTiming()) == pytest.approx(50 * 10 / (10 * 9))
    assert timing.threshold(HAND) == pytest.approx(4 * 3 / (2 * 2))


@pytest.mark.parametrize("name", ["iterations", "factories", "selected", "ratio"])
def test_at_a_flip_both_rounds_take_equally_long(name):
    s = RoundTiming(select_s=0.0)
    at = replace(s, **{name: timing.flips(s)[name]})
    assert timing.fedgs_s(at) == pytest.approx(timing.fedavg_s(at))


def test_with_one_device_a_factory_fedgs_never_wins():
    assert timing.threshold(replace(HAND, selected=1)) == np.inf
    assert "never" in results.who_is_faster(replace(HAND, selected=1))


def test_break_even_is_where_the_times_are_equal():
    places = results.break_even(HAND).set_index(["against", "time"]).iloc[:, 0]
    at = replace(HAND, ratio=places["FedAvg", "one round"])
    assert timing.fedgs_s(at) == pytest.approx(timing.fedavg_s(at))
    averaged = "FedAvg, averaged in the factory"
    assert places[averaged, "one round"] == np.inf
    at = replace(RoundTiming(), ratio=results.break_even(RoundTiming()).iloc[3, 2])
    assert 147 * timing.fedgs_s(at) == pytest.approx(478 * timing.hierarchical_s(at))


def test_a_sweep_holds_every_method_at_every_point():
    frame = timing.sweep(HAND, {"ratio": [1, 10], "iterations": [4]})
    assert len(frame) == 3 * 3
    point = frame[(frame["sweep"] == "ratio") & (frame["value"] == 10)].set_index("method")["seconds"]
    assert point["FedGS"] == pytest.approx(18.8) and point["FedAvg"] == pytest.approx(28)
    hours = results.hours_to_target(HAND, [10]).set_index("method")
    assert hours.loc["FedGS", "hours"] == pytest.approx(147 * 18.8 / 3600)
    assert hours.loc["FedAvg", "rounds"] == 478


def test_audits_of_the_time_model():
    assert audits.proposition_4(500, np.random.default_rng(0))["holds"].all()
    assert audits.own_setting()[["found", "holds"]].iloc[0].tolist() == [5.56, True]
    assert not audits.own_setting(ratio=5)["holds"].any()
    assert not audits.against_hierarchy(RoundTiming())["holds"].any()
    assert audits.selecting_time(RoundTiming())["holds"].all()


@pytest.mark.slow
def test_sliders_move_the_answer_and_the_picture():
    box = pictures.timing_explorer(RoundTiming())
    *sliders, words, picture = box.children
    before = bytes(picture.value)
    assert "holds" in words.value and before.startswith(b"\x89PNG")
    sliders[0].value = 200
    assert "does not hold" in words.value and bytes(picture.value) != before


def test_what_has_no_slider_stays_as_given():
    here = RoundTiming(external_hz=1e8, step_s=2.0)
    *_, words, _ = pictures.timing_explorer(here).children
    assert words.value == results.who_is_faster(here) != results.who_is_faster(RoundTiming())
