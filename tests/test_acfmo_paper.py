"""The ACFMO paper: which options reach which method, momentum with a lag, the theory's closed forms, the audits."""

import numpy as np
import pandas as pd
import pytest

from fedlib.judging import checks
from fedlib.papers.acfmo import audits, experiments, pictures, results

FEDERATION = experiments.federation_options("mnist_hog", 40, 0.5, 0.01)
TOY = {"data_set": "toy", "partitioner": "dirichlet", "clients": 10, "alpha": 0.5, "l2": 0.01}
LOCAL = {"steps": 3, "batch": 5}


def ends_of(**accuracies):
    """One row per method, participation 5 and 10, two seeds."""
    rows = [
        {"method": method, "participation": level, "seed": seed, "accuracy": accuracy + 0.01 * seed}
        for method, accuracy in accuracies.items()
        for level in (5, 10)
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows)


# The runs


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ACFMO", {"variant": "current", "steps": 3, "batch": 5}),
        ("ACFMO, no local steps", {"variant": "current", "steps": 0, "batch": 5}),
        ("FedGH", {"steps": 3}),
        ("Server Adam", {}),
    ],
)
def test_a_method_gets_the_local_options_it_knows(method, options):
    assert experiments.run(method, FEDERATION, 10, 0, LOCAL).options == options


def test_only_tuned_methods_get_a_learning_rate():
    rates = dict.fromkeys(experiments.TUNED, 0.3)
    runs = experiments.comparison(FEDERATION, rates, [5, 10], 10, range(2), LOCAL, every=2)
    assert len(runs) == 2 * 2 * len(experiments.METHODS)
    assert {run.label["method"] for run in runs if "lr" in run.options} == set(experiments.TUNED)
    assert {(run.label["participation"], run.options["participation"]) for run in runs} == {(5, 0.05), (10, 0.1)}


def test_a_study_of_decay_rates_names_each_run_by_what_it_studies():
    runs = experiments.momentum(FEDERATION, [0.6, 0.9], [0.9, 0.999], 1, 10, range(1), LOCAL, every=2)
    assert len({tuple(run.label.values()) for run in runs}) == len(runs) == 2 * 2 + 2
    assert all(run.options.items() >= run.label.items() for run in runs)


# Numbers


def test_the_ablation_pairs_seeds_and_levels():
    wide = results.ablation(ends_of(**{"ACFMO": 0.9, "ACFMO, no local steps": 0.8, "FedAvg": 0.1}))
    assert wide[["participation", "seed"]].drop_duplicates().shape[0] == len(wide) == 4
    assert wide["difference"].tolist() == pytest.approx(4 * [0.1])


def test_printed_accuracies_are_shares():
    assert results.printed("acfmo/fig1") == {5: 0.94, 10: 0.95, 15: 0.96, 20: 0.96}


@pytest.mark.parametrize("beta1", [0.1, 0.6, 0.9])
def test_momentum_is_stable_up_to_its_closed_form_and_a_lag_leaves_one(beta1):
    assert results.largest_stable(beta1, lag=0) == pytest.approx(2 * (1 + beta1) / (1 - beta1))
    assert results.largest_stable(beta1, lag=1) == pytest.approx(1)


def test_without_momentum_the_growth_factor_is_that_of_gradient_descent():
    for reach in (0.5, 1.5, 3.0):
        assert results.spectral_radius(0.0, reach, lag=0) == pytest.approx(abs(1 - reach))


def test_the_minima_of_the_bound_are_where_the_paper_says():
    rates, curves, minima = results.theory(mu=0.01, smooth=3.0)
    assert (rates["iterations"] == results.best_iterations(rates["target"].to_numpy(), 0.01, 3.0)).all()
    np.testing.assert_allclose(minima["q found"], minima["q*"], atol=1e-3)
    assert (curves.groupby("target")["b"].min().round() == minima.set_index("target")["b(q*)"]).all()


# Audits


def verdict(frame):
    return checks.statement(frame).verdict


def test_the_first_round_as_printed_moves_nothing(folders):
    moves = experiments.first_moves(TOY, 0.5, seed=0)
    assert moves.set_index("variant")["moved"].gt(0).to_dict() == {"printed": False, "current": True}
    assert audits.first_round(moves)["holds"].tolist() == [False, True]


def test_single_samples_have_larger_gradients_than_their_mean(folders):
    ratios = experiments.gradient_ratios(TOY | {"clients": 30}, rounds=2, seed=0)
    assert ratios[["round", "device"]].to_numpy().tolist() == [
        [round, device] for round in (0, 2) for device in (0, 10, 20)
    ]
    assert (ratios["ratio"] > 1).all(), "Jensen: the mean of squares is above the square of the mean"
    assert not audits.jensen(ratios)["holds"].any()


def test_the_median_device_is_judged():
    ratios = pd.DataFrame({"round": [0, 0, 0, 5, 5, 5], "ratio": [0.5, 0.9, 7.0, 2.0, 3.0, 0.1]})
    assert audits.jensen(ratios)[["found", "holds"]].to_numpy().tolist() == [["0.9", True], ["2", False]]


def test_the_local_part_is_measured_round_by_round(folders):
    weight = experiments.local_weight(TOY, [0.3, 1.0], LOCAL, rounds=3, seed=0)
    assert weight.groupby("participation").size().to_dict() == {0.3: 3, 1.0: 3}
    np.testing.assert_allclose(weight["ratio"], weight["local"] / weight["central"])
    assert len(audits.local_work(weight)) == 2


def test_the_curvature_is_that_of_the_samples(folders):
    mu, smooth = experiments.curvature(TOY, seed=0).iloc[0]
    features = np.load(folders / "data" / "toy.npz")["x_train"].astype(float)
    x = np.column_stack([features, np.ones(len(features))])  # of the bias
    assert (mu, smooth) == (0.01, pytest.approx(0.01 + np.linalg.norm(x, 2) ** 2 / len(x) / 2))


def test_the_first_image_comes_back_pixel_by_pixel(folders):
    images = np.random.default_rng(0).integers(0, 256, (6, 9, 11), dtype=np.uint8)
    labels = np.array([2, 0, 1])
    np.savez(folders / "data" / "spots.npz", x_train=images[:3], y_train=labels, x_test=images[3:], y_test=labels)
    image = experiments.first_image("spots")
    assert image.pop("label").tolist() == 9 * [2]
    assert (image.to_numpy() == images[0]).all()


def test_advice_holds_within_one_deviation_of_the_best_pair():
    ends = pd.DataFrame({"beta1": [0.6, 0.6, 0.9, 0.9], "beta2": 4 * [0.99], "accuracy": [0.79, 0.81, 0.7, 0.95]})
    assert verdict(audits.advice(ends)) == "holds"
    assert verdict(audits.advice(ends.assign(accuracy=[0.79, 0.81, 0.94, 0.95]))) == "does not hold"


def test_three_names_of_one_number_are_printed_differently():
    assert verdict(audits.micro("acfmo/fig1", "acfmo/fig3", "acfmo/fig4")) == "does not hold"


def test_the_iterations_asked_for_are_counted_against_a_round():
    assert audits.local_iterations(mu=1.0, smooth=1.0)["found"].tolist() == [48, 19]  # 8 * 1.5 / 0.25, 8 * 1.9 / 0.81
    assert verdict(audits.local_iterations(mu=0.01, smooth=3.0)) == "does not hold"


def test_the_picture_of_the_lag_crosses_one_at_a_step_of_one():
    factors = results.growth_factors(beta1=0.9)
    stable = factors[factors["lag"] <= 1]["step x curvature"]
    assert stable.max() == pytest.approx(1, rel=0.1)
    axes = pictures.growth_factors(factors).axes[0]
    assert axes.get_legend().get_title().get_text() == r"$\beta_1 = 0.9$"
