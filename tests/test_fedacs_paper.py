"""FedACS's experiments, results and audits: numbers by hand, the printed tables against each other, shared runs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib import pyplot as plt

from fedlib.algorithms import create
from fedlib.papers.fedacs import audits, experiments, pictures, results
from fedlib.problem import federation, partition
from fedlib.report import holdings
from fedlib.selection import skewness

SETTING = experiments.PopulationSetting(samples=30, batch=10, rounds=40)
PRINTED = ("uniform", "inverse Pareto", "Dirichlet")


@pytest.fixture(scope="module")
def skewed(make_dataset) -> federation.Federation:
    """Thirty clients of 20 samples, alpha from 0 to 1, softmax regression."""
    dataset = make_dataset(samples=400)
    parts = partition.dominance(dataset.y_train.numpy(), 30, np.linspace(0, 1, 30), 20, rng=np.random.default_rng(0))
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    return federation.assemble(dataset, parts, network, seed=1)


def printed_ends() -> pd.DataFrame:
    """Table II as if it were measured with one seed."""
    cells = audits.printed("fedacs/table2")
    rows = [(name, method, 0, value / 100) for (method, name), value in cells.items()]
    return pd.DataFrame(rows, columns=["environment", "method", "seed", "accuracy"])


# --- what the paper prints --------------------------------------------------------------------------------------------


def test_the_ledger_holds_every_cell_of_tables_2_and_3():
    tables = ("table2", "table2-improvement", "table3", "table3-speedup")
    assert [len(audits.printed(f"fedacs/{id}")) for id in tables] == [16, 16, 14, 14]  # CMFL never gets to 68% in one
    assert sum(audits.printed("fedacs/table2").values()) == pytest.approx(74.0 + 356.0 + 347.6 + 348.6)
    assert sum(audits.printed("fedacs/table3").values()) == 2180 + 2170 + 1160


def test_the_printed_improvements_follow_from_the_printed_accuracies():
    found = results.improvements(printed_ends()).set_index(["method", "environment"])["improvement"] * 100
    for cell, value in audits.printed("fedacs/table2-improvement").items():
        assert found[cell] == pytest.approx(value, abs=2)
    assert audits.improvements()["holds"].all()


def test_two_printed_speedups_do_not_follow_from_their_rounds():
    wrong = audits.speedups().query("not holds").set_index("quantity")["found"]
    assert wrong.to_dict() == {"uniform, Rexp3: 490/400": "1.23x", "Dirichlet, Rexp3: 465/265": "1.75x"}


def test_the_headline_speedup_appears_in_no_table():
    assert audits.headline()["holds"].tolist() == [False, True, True]


def test_the_printed_density_has_the_wrong_area_and_the_corrected_one_has_area_one():
    found = audits.density((2.0, 3.0))
    assert found["found"].tolist() == ["1.3333", "1.2857"]  # 4/3 and 9/7
    assert not found["holds"].any()
    assert audits.corrected_area(2.0) == pytest.approx(1) == audits.corrected_area(3.5)


def test_the_network_is_ten_times_smaller_than_printed_and_the_overhead_is_right():
    assert audits.weights() == (62_006, 850)
    assert audits.network()["holds"].tolist() == [False, False, True, True]
    percent = audits.overhead(epochs=5, rounds=1000, stop=200).set_index(["quantity", "stop"])["percent"]
    assert percent["traffic", "never"] == pytest.approx(0.69, abs=0.005)
    assert percent["traffic", "early"] == pytest.approx(0.14, abs=0.005)
    assert percent["computation"].tolist() == pytest.approx([20, 4])


def test_what_skew_costs_is_printed_twice_and_differs():
    found = audits.losses_by_environment().set_index("quantity")["found"]
    assert found.to_dict() == {"uniform": "3.2 points", "inverse Pareto": "5.2 points", "Dirichlet": "4.3 points"}


def test_a_twin_with_four_times_the_samples_looks_twice_as_skewed_and_the_own_share_shrinks_distances():
    pairs = pd.DataFrame({"seed": [0], "model": ["starting model"], "share": [0.125]})
    assert audits.equivalence(pairs)["found"].tolist() == ["12.5%", "2"]
    assert audits.own_share(10)["found"].tolist() == ["0.1", "0.9"]


# --- results ----------------------------------------------------------------------------------------------------------


def test_terminal_accuracy_is_the_mean_of_the_last_rounds():
    curve = {"round": [0, 5, 10, 15, 20], "accuracy": [0.0, 0.1, 0.2, 0.4, 0.6]}
    frame = pd.DataFrame({"method": "a", "seed": 0} | curve)
    assert results.terminal(frame, ["method"], 10)["accuracy"].tolist() == [pytest.approx(0.5)]


def test_a_run_that_ends_at_guessing_has_broken_down_whatever_it_reached_before():
    rows = [("sound", 0, 0.1, 2.3), ("sound", 5, 0.4, 1.7), ("lost", 0, 0.11, 2.3), ("lost", 5, 0.3, 1.9)]
    rows += [("lost", 10, 0.1, np.nan), ("slow", 5, 0.125, 2.2)]
    frame = pd.DataFrame(rows, columns=["method", "round", "accuracy", "loss"]).assign(environment="uniform", seed=1)
    lost = results.broken_down(frame, 900)  # guessing scores 10% with a standard error of one point
    assert lost["method"].tolist() == ["lost", "slow"]
    assert lost["best"].tolist() == [0.3, 0.125]
    assert np.isnan(lost["loss"][0]) and lost["accuracy"][0] == 0.1
    assert results.broken_down(frame, 10000)["method"].tolist() == ["lost"]


def test_a_summary_has_the_median_no_spread_of_one_seed_and_a_dash_for_what_was_not_measured():
    rounds = {"a": [4.0, 6.0, 11.0], "b": [np.nan], "c": [5.0, 7.0]}
    rows = [(name, seed, value) for name, values in rounds.items() for seed, value in enumerate(values)]
    frame = pd.DataFrame(rows, columns=["method", "seed", "rounds"]).assign(score="rounds")
    shown = results.summary(frame, "rounds", "method", "score", scale=1, digits=0)["rounds"]
    assert shown.to_dict() == {"a": "7 ± 4 (6)", "b": "-", "c": "6 ± 1"}
    assert results.summary(frame[frame["seed"] == 0], "rounds", "method", "score", 1, 0).loc["a", "rounds"] == "4"


def test_what_holds_by_definition_is_not_put_to_the_test():
    frame = pd.DataFrame({"method": ["baseline", "FedACS"], "speedup": [1.0, 2.0]})
    assert results.blank_baseline(frame, "speedup")["speedup"].tolist()[1] == 2
    assert np.isnan(results.blank_baseline(frame, "speedup")["speedup"][0])


def test_an_environment_that_costs_nothing_has_no_relative_improvement():
    ends = pd.DataFrame(
        [("iid", "baseline", 0.5), ("uniform", "baseline", 0.6), ("uniform", "FedACS", 0.7)],
        columns=["environment", "method", "accuracy"],
    ).assign(seed=0)
    row = results.improvements(ends).set_index(["environment", "method"]).loc[("uniform", "FedACS")]
    assert row[["improvement", "beyond_half"]].isna().all()


def two_seeds() -> pd.DataFrame:
    """In the mean FedACS recovers 3/4 of 0.08 in the uniform environment and 1/4 of 0.08 with few classes."""
    values = {
        ("iid", "baseline"): (0.70, 0.72),
        ("uniform", "baseline"): (0.62, 0.64),
        ("uniform", "FedACS"): (0.67, 0.71),
        ("few-class", "baseline"): (0.60, 0.66),
        ("few-class", "FedACS"): (0.62, 0.68),
    }
    rows = [(*place, seed, pair[seed]) for place, pair in values.items() for seed in (0, 1)]
    return pd.DataFrame(rows, columns=["environment", "method", "seed", "accuracy"])


def test_more_than_half_is_the_gain_minus_half_of_the_seeds_own_cost():
    rows = results.improvements(two_seeds()).set_index(["environment", "method", "seed"]).sort_index()
    assert rows["beyond_half"]["uniform", "FedACS"].tolist() == pytest.approx([0.05 - 0.04, 0.07 - 0.04])
    assert rows["beyond_half"]["few-class", "FedACS"].tolist() == pytest.approx([0.02 - 0.05, 0.02 - 0.03])
    assert rows["improvement"]["uniform", "FedACS"].mean() == pytest.approx(0.75)


def test_shares_are_compared_seed_by_seed_without_dividing_by_a_seeds_cost():
    ahead = results.shares_above(results.improvements(two_seeds()), "FedACS", "few-class")
    assert ahead["environment"].unique().tolist() == ["uniform"]
    by_hand = [(0.05 * 0.10 - 0.02 * 0.08) / 0.08**2, (0.07 * 0.06 - 0.02 * 0.08) / 0.08**2]
    assert ahead["ahead"].tolist() == pytest.approx(by_hand)


def test_a_loss_has_no_share_to_compare():
    """A method that loses as much everywhere would seem to recover a larger share where more was lost."""
    ends = two_seeds()
    ends.loc[ends["method"] == "FedACS", "accuracy"] -= 0.03  # with few classes it now ends below the baseline
    assert results.shares_above(results.improvements(ends), "FedACS", "few-class")["ahead"].isna().all()


def test_a_target_is_what_the_trial_has_halfway_and_a_late_one_a_point_below_its_end_rounded_down():
    curve = {"round": [0, 5, 10, 15, 20], "accuracy": [0.1, 0.3, 0.449, 0.5, 0.536]}
    trials = pd.concat([pd.DataFrame({"environment": name, "seed": 1000} | curve) for name in ("uniform", "Dirichlet")])
    assert results.halfway(trials, 5) == {"uniform": 0.44, "Dirichlet": 0.44}
    assert results.halfway(trials, 10)["uniform"] == 0.41  # the mean of 0.3, 0.449 and 0.5
    assert results.near_the_end(trials, 5) == {"uniform": 0.52, "Dirichlet": 0.52}
    assert results.near_the_end(trials.assign(accuracy=0.58), 5)["uniform"] == 0.57  # 57 exactly stays 57
    assert results.halfway(trials[trials["round"] <= 5], 20)["uniform"] == 0.3, "the starting model does not count"


def test_the_cost_of_an_environment_is_paired_with_iid_clients_of_the_seed():
    ends = pd.DataFrame(
        [("iid", 0, 0.5), ("uniform", 0, 0.4), ("iid", 1, 0.7), ("uniform", 1, 0.65)],
        columns=["environment", "seed", "accuracy"],
    )
    assert results.losses_by_skew(ends).set_index("seed")["change"].round(9).to_dict() == {0: -0.1, 1: -0.05}


def test_a_run_that_never_reaches_the_target_counts_as_one_round_more_than_it_had():
    rows = [("baseline", [0.1, 0.2, 0.3, 0.4]), ("FedACS", [0.1, 0.3, 0.25, 0.4]), ("CMFL", [0.1, 0.1, 0.1, 0.2])]
    frame = pd.concat(
        [pd.DataFrame({"method": name, "round": [0, 5, 10, 15], "accuracy": values}) for name, values in rows]
    ).assign(environment="uniform", seed=0)
    reached = results.rounds_to(frame, {"uniform": 0.3})
    found = results.speedups(reached).set_index("method")
    assert found["rounds"].tolist()[:2] == [10, 5] and np.isnan(found["rounds"]["CMFL"])
    assert found["at_least"].tolist() == [10, 5, 16]
    assert found["speedup"].tolist() == [1, 2, 10 / 16]
    assert found["bound"].tolist() == ["", "", "at most"]
    assert results.unreached(reached)["uniform"].to_dict() == {"baseline": 0, "FedACS": 0, "CMFL": 1}
    high = results.speedups(results.rounds_to(frame, {"uniform": 0.5})).set_index("method")
    assert high["speedup"].isna().all()  # nobody arrived


def test_a_baseline_that_never_arrives_makes_a_speedup_a_lower_bound():
    rows = [("baseline", 0, 0.1), ("baseline", 5, 0.2), ("FedACS", 0, 0.1), ("FedACS", 5, 0.3)]
    frame = pd.DataFrame(rows, columns=["method", "round", "accuracy"]).assign(environment="uniform", seed=0)
    found = results.speedups(results.rounds_to(frame, {"uniform": 0.3})).set_index("method")
    assert found["bound"]["FedACS"] == "at least" and found["speedup"]["FedACS"] == 6 / 5


def test_a_decline_is_what_a_run_loses_after_four_fifths():
    curve = {"round": [0, 60, 70, 80, 90, 100], "accuracy": [0.1, 0.5, 0.6, 0.7, 0.5, 0.3]}
    frame = pd.DataFrame({"environment": "Dirichlet", "method": "Oort", "seed": 0} | curve)
    rising = frame.assign(method="baseline", accuracy=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    found = results.declines(pd.concat([frame, rising]), 20).set_index("method")
    assert found["decline"].to_dict() == {"Oort": pytest.approx(0.6 - 0.4), "baseline": pytest.approx(0.3 - 0.55)}
    assert found["beyond"].to_dict() == {"Oort": pytest.approx(0.2 + 0.25), "baseline": 0}


def test_the_start_of_a_run_leaves_the_starting_model_out():
    frame = pd.DataFrame({"clients": 50, "seed": 0, "round": [0, 5, 10, 15], "accuracy": [0.1, 0.2, 0.4, 0.9]})
    assert results.early(frame, ["clients"], 10)["early"].tolist() == [pytest.approx(0.3)]


def test_a_stop_is_named_by_the_share_of_the_run_and_by_the_printed_round():
    ends = pd.DataFrame(
        {"variant": ["baseline", "FedACS", "stop at 60", "stop at 200"], "stop": [np.nan, np.nan, 60, 200]}
    )
    desk = results.by_stop(ends, 300).set_index("stopped")["variant"]
    assert desk.to_dict() == {"never": "FedACS", results.AT_SHARE: "stop at 60", results.AT_ROUND: "stop at 200"}
    printed = results.by_stop(ends, 1000).set_index("stopped")["variant"]
    assert printed.to_dict() == {"never": "FedACS", results.AT_SHARE: "stop at 200", results.AT_ROUND: "stop at 200"}


def test_alphas_around_round_200_stand_beside_those_of_the_last_rounds():
    alphas = pd.DataFrame({"curve": "a", "seed": 0, "round": [160, 200, 240, 260, 300], "alpha": [9.0, 1, 2, 3, 4]})
    found = results.around_200_and_last(alphas, ["curve"], 50).set_index("part")["alpha"]
    assert found.to_dict() == {"around round 200": 1.5, "last rounds": 3.5}
    assert results.around_200_and_last(alphas[alphas["round"] > 250], ["curve"], 50)["part"].tolist() == ["last rounds"]


def test_the_chance_of_an_even_draw_is_that_of_drawing():
    rng = np.random.default_rng(0)
    drawn = [np.mean([np.isin(rng.choice(20, 4, replace=False), range(5)) for _ in range(6)]) for _ in range(3000)]
    assert np.std(drawn) == pytest.approx(results.chance_of_even_draw(20, 4, 5, 6), rel=0.05)


def test_everybody_is_met_when_the_least_met_client_is():
    rows = [("a", 0, 20, 0), ("a", 0, 40, 1), ("a", 1, 20, 1), ("a", 1, 40, 2), ("b", 0, 20, 0), ("b", 0, 40, 0)]
    tally = pd.DataFrame(rows, columns=["curve", "seed", "round", "times"])
    tally = pd.concat([tally, tally.assign(times=9)])
    met = results.rounds_to_meet_all(tally, ["curve"])
    assert met["a"] == 40 and np.isnan(met["b"])


def test_the_most_frequent_client_is_counted_by_its_share_of_the_rounds():
    rows = [("a", 0, 20, 9), ("a", 0, 40, 10), ("a", 0, 40, 2), ("a", 1, 40, 30), ("b", 0, 40, 1)]
    tally = pd.DataFrame(rows, columns=["curve", "seed", "round", "times"])
    assert results.busiest(tally, ["curve"]).to_dict() == {"a": 0.5, "b": 0.025}


def test_cmfl_saves_transfers_only_where_clients_drop_their_own_updates():
    frame = pd.DataFrame({"environment": "uniform", "method": ["baseline", "CMFL", "CMFL, own paper"]})
    table = results.updates_kept(frame.assign(relevance=0.6, kept=0.3), 10)
    assert table["models sent per round"].tolist() == [20, 13]


def test_drift_is_the_movement_of_a_groups_reward_as_a_share_of_what_it_was():
    rounds = [0, 10, 20, 30, 40]
    groups = pd.DataFrame({"seed": 0, "alpha": 0.2, "round": rounds, "median": [-9.0, -2.0, -7.0, -7.0, -3.0]})
    assert results.drifts(groups)["drift"].tolist() == [pytest.approx(0.5)]


def asked_clients() -> pd.DataFrame:
    """Four clients of one seed at one model; Q orders all but one pair as alpha does."""
    values = {"estimate": [1.0, 3.0, 2.0, 4.0], "estimate_all": [1.0, 2.0, 3.0, 4.0]}
    others = {
        "loss_before": [1.0, 1.0, 1.0, 2.0],
        "loss_training": [4.0, 3.0, 2.0, 1.0],
        "relevance": [4.0, 2.0, 3.0, 1.0],
    }
    return pd.DataFrame({"seed": 0, "model": "starting model", "client": range(4)} | values | others)


def test_signals_are_ranked_against_alpha():
    alphas = {0: np.array([0.1, 0.2, 0.3, 0.4])}
    rho = results.signals(asked_clients(), alphas).set_index("signal")["rho"]
    assert rho["Q, whole network"] == pytest.approx(1) and rho["loss of local training (Oort)"] == pytest.approx(-1)
    assert rho["Q, last layer (FedACS)"] == pytest.approx(0.8)
    lead = results.last_layer_lead(results.signals(asked_clients(), alphas))
    assert lead["lead"].tolist() == [pytest.approx(-0.2)]
    assert results.inverted_pairs(asked_clients(), alphas)["share"].tolist() == [pytest.approx(1 / 6)]


def test_equal_alphas_are_no_inverted_pair():
    same = {0: np.full(4, 0.5)}
    assert (
        np.isnan(results.inverted_pairs(asked_clients(), same | {0: np.array([0.1, 0.3, 0.3, 0.3])})["share"]).sum()
        == 0
    )
    tied = results.inverted_pairs(asked_clients(), {0: np.array([0.1, 0.3, 0.3, 0.4])})
    assert tied["share"].tolist() == [0]


def test_class_shares_are_read_off_exactly_where_all_clients_get_the_same_predictions():
    shares, prediction, lr = np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([0.6, 0.4]), 0.1
    bias = lr * (prediction - shares)
    asked = pd.DataFrame({"seed": 0, "model": "m", "client": [0, 1], "bias_0": bias[:, 0], "bias_1": bias[:, 1]})
    read = results.shares_read_off(asked, {0: 10 * shares}, lr)
    assert read["largest error"].tolist() == [pytest.approx(0, abs=1e-12)]


def test_rewards_that_fall_with_alpha_have_rank_correlation_one():
    record = {f"reward_{client}": -0.1 * client for client in range(6)}
    frame = pd.DataFrame([{"seed": 0, "round": 5, "reward": 7.0} | record])
    rewards = results.observed_rewards(frame, (0.0, 0.5, 1.0), 2)
    assert rewards["alpha"].tolist() == [0, 0, 0.5, 0.5, 1, 1]
    assert results.reward_medians(rewards)["median"].tolist() == pytest.approx([-0.05, -0.25, -0.45])
    assert results.rank_correlations(rewards)["rho"].item() == pytest.approx(
        0.956, abs=1e-3
    )  # less than 1: alphas have ties


def test_the_picture_of_rewards_draws_nothing_at_random():
    record = {f"reward_{client}": -0.1 * client for client in range(6)}
    clients = results.observed_rewards(pd.DataFrame([{"seed": 0, "round": 5} | record]), (0.0, 0.5, 1.0), 2)
    before = np.random.get_state()[1].copy()  # noqa: NPY002  the global generator is what must stay untouched
    fig = pictures.rewards(results.reward_medians(clients), clients, results.rank_correlations(clients), 5)
    fig.canvas.draw()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    plt.close(fig)


def test_tallies_sort_clients_by_alpha_and_give_the_mean_alpha_of_each_interval():
    frame = pd.DataFrame(
        {
            "seed": 0,
            "tolerance": 1 / 3,
            "round": [0, 5, 10],
            "times_0": [0, 1, 3],
            "times_1": [0, 3, 3],
            "times_2": [0, 0, 2],
        }
    )
    tally = results.tallies(frame, ["tolerance"], {0: np.array([0.9, 0.1, 0.5])})
    assert tally[tally["round"] == 10].sort_values("place")["times"].tolist() == [3, 2, 3]
    alphas = results.mean_alphas(tally, ["tolerance"])
    assert alphas["alpha"].tolist() == pytest.approx([(0.9 + 3 * 0.1) / 4, (2 * 0.9 + 2 * 0.5) / 4])
    pool = results.pool_times(tally, ["tolerance"], 3).set_index("pool")["times"]
    assert pool.to_dict() == {"inside": 3, "outside": 2.5}


# --- experiments ------------------------------------------------------------------------------------------------------


def configs(runs) -> list[dict]:
    return [run.config for run in runs]


def test_figures_share_their_runs():
    seeds = range(1)
    main = configs(experiments.comparison(SETTING, {"uniform": ["baseline", "FedACS", *experiments.RIVALS]}, seeds))
    iid, baseline, fedacs = main[:3]
    assert configs(experiments.environments(SETTING, ["iid", "uniform"], seeds)) == [iid, baseline]
    assert configs(experiments.client_counts(SETTING, [50, 200], seeds))[1] == iid
    assert configs(experiments.tolerances(SETTING, [0.2, 0.4], seeds))[::2] == [baseline, fedacs]
    assert configs(experiments.early_stop(SETTING, {30: seeds, 10: seeds}, seeds))[:2] == [baseline, fedacs]
    scaled = replace(SETTING, method_options={"CMFL": {"threshold": 0.6}})
    main = configs(experiments.comparison(scaled, {"uniform": ["baseline", "FedACS", *experiments.RIVALS]}, seeds))
    assert len({str(config) for config in main + configs(experiments.variants(scaled, "uniform", seeds))}) == 6 + 3


@pytest.mark.parametrize(("samples", "holders"), [(30, 1), (250, 1), (2000, 8)])
def test_a_trial_trains_on_nine_tenths_of_the_images_however_many_clients_share_them(samples, holders):
    (trial,) = experiments.target_trials(replace(SETTING, clients=200, samples=samples), 1000, ["uniform"])
    share = trial.federation["validation_share"]
    assert (1 - share) ** holders == pytest.approx(0.9, abs=1e-3)  # that none of its holders holds an image out
    assert trial.federation["test_samples"] is None


def test_a_stop_has_its_own_seeds():
    stopped = experiments.early_stop(SETTING, {8: range(3), 20: range(2)}, range(3))
    names = [run.label["variant"] for run in stopped]
    assert {name: names.count(name) for name in names} == {"baseline": 3, "FedACS": 3, "stop at 8": 3, "stop at 20": 2}


def test_the_control_has_as_many_clients_as_the_pool_and_as_many_participants_as_everybody():
    (control,) = experiments.as_few_images(SETTING, "uniform", range(1))
    (baseline, fedacs) = experiments.comparison(SETTING, {"uniform": ["FedACS"]}, range(1))
    pool = create(fedacs.algorithm, **fedacs.options).tolerance * fedacs.federation["clients"]
    assert control.federation["clients"] == pool == 80
    assert control.options["participation"] * 80 == pytest.approx(10) == baseline.options["participation"] * 200
    assert control.federation == fedacs.federation | {"clients": 80}


def test_runs_of_any_length_end_at_the_step_size_that_the_printed_rounds_end_at():
    printed = 0.9993 ** (5 * 1000)
    for rounds in (20, 300, 1000):
        decay = experiments.PopulationSetting(rounds=rounds).local()["decay"]
        assert decay ** (5 * rounds) == pytest.approx(printed, rel=1e-3)
    assert experiments.PopulationSetting().local()["decay"] == 0.9993
    assert experiments.PopulationSetting(rounds=20, epochs=2).local()["decay"] ** 40 == pytest.approx(printed, rel=1e-3)


def test_targets_are_set_on_held_out_training_images_of_a_seed_that_no_result_uses():
    setting = experiments.PopulationSetting(test_samples=1000, rounds=40)
    trials = experiments.target_trials(setting, 1000, experiments.PRINTED_ENVIRONMENTS)
    assert [run.label["environment"] for run in trials] == list(PRINTED)
    for run in trials:
        assert (run.seed, run.algorithm, run.rounds) == (1000, "randomclients", 40)
        assert (run.federation["validation_share"], run.federation["test_samples"]) == (0.1, None)


def test_the_scaled_threshold_keeps_the_share_that_the_released_one_keeps_with_printed_data():
    values = {"here": [0.50, 0.52, 0.54, 0.56, 0.58], "printed": [0.60, 0.68, 0.69, 0.71, 0.75]}
    agree = pd.concat([pd.DataFrame({"data": name, "relevance": listed}) for name, listed in values.items()])
    threshold = experiments.matching_threshold(agree, 0.7, 5)
    assert threshold == 0.548 and (np.array(values["here"]) >= threshold).mean() == 0.4
    kept = results.shares_kept(agree, 0.7, threshold)
    assert kept["kept at 0.7"].to_dict() == {"here": 0, "printed": 0.4} and kept["kept at 0.548"]["here"] == 0.4
    assert experiments.matching_threshold(agree, 0.7, 2) == 0.7, "less than one of two: nothing to match"


def test_with_the_printed_data_the_threshold_is_the_released_one():
    calibration = experiments.Calibration(SETTING.samples, SETTING.batch, [1], 1)
    assert experiments.scaled_threshold(SETTING, calibration, 0.7, 1000) == 0.7


def test_relevances_compare_clients_of_both_kinds_at_the_same_weights(folders):
    calibration = experiments.Calibration(samples=24, batch=12, rounds=[1, 3], draws=2)
    agree = experiments.relevances(TOY, LOCAL, calibration, seed=1000)
    assert agree.groupby(["data", "round"]).size().tolist() == [4, 4, 4, 4]  # two of eight clients, two draws
    here, printed = (agree[agree["data"] == name] for name in ("here", "printed"))
    assert here["client"].tolist() == printed["client"].tolist()
    assert agree["relevance"].between(0, 1).all()
    same = experiments.relevances(TOY, LOCAL, experiments.Calibration(12, 6, [2], 2), seed=1000)
    by_data = same.groupby("data")["relevance"].agg(list)
    assert by_data["here"] == by_data["printed"]


def test_inputs_and_optimiser_are_those_of_the_released_code():
    run = experiments.run(SETTING, "uniform", "FedACS", 0)
    assert (run.federation["crop"], run.federation["flip"]) == (4, True)
    assert run.federation["standardise"] == [[0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]]
    assert (run.options["momentum"], run.options["weight_decay"]) == (0.5, 5e-4)


def test_beginnings_are_the_first_rounds_of_runs_as_long_as_the_others():
    (beginning,) = experiments.beginnings(SETTING, "few-class", ["FedACS"], 20, range(7, 8))
    whole = experiments.run(SETTING, "few-class", "FedACS", 7, tally=False)
    assert beginning == replace(whole, rounds=20)


def test_equally_many_clients_take_part_however_many_there_are():
    runs = experiments.client_counts(SETTING, [50, 100, 200], range(1))
    assert [run.options["participation"] * run.federation["clients"] for run in runs] == [10, 10, 10]


def test_the_observed_groups_come_first_and_the_others_follow_the_seed():
    alphas = experiments.observed_alphas(200, 0)
    assert alphas[:60] == [alpha for alpha in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0) for _ in range(10)]
    assert len(alphas) == 200 and 0.4 < np.mean(alphas[60:]) < 0.6
    assert alphas[60:] != experiments.observed_alphas(200, 1)[60:]
    with pytest.raises(ValueError, match="the observation groups alone are 60"):
        experiments.observed_alphas(50, 0)


def test_among_poisoners_oort_runs_without_its_ban():
    setting = experiments.PopulationSetting(rounds=300, method_options={"Oort": {"cap": 7}})
    runs = experiments.poisoned(setting, 150, 20, range(1))
    caps = {run.label["selector"]: run.options.get("cap", "none") for run in runs}
    assert caps == {"FedACS": "none", "Oort, no ban": None}
    (whole,) = experiments.comparison(setting, {"uniform": ["FedACS"]}, range(1))[1:]
    right = next(run for run in runs if run.label == {"selector": "FedACS", "condition": "right labels"})
    assert replace(right, rounds=300).config == whole.config, "the first rounds of the run without poisoners"


def test_poisoners_are_counted_in_the_second_half_of_the_rounds():
    """Two participants a round; client 1 is a poisoner."""
    rows = [(0, 0, 0, 0), (5, 4, 4, 2), (10, 9, 5, 6), (15, 14, 5, 11)]
    frame = pd.DataFrame(rows, columns=["round", "times_0", "times_1", "times_2"])
    frame = frame.assign(selector="FedACS", condition="wrong labels", seed=3, accuracy=[0.1, 0.2, 0.3, 0.4])
    shares = results.poisoners_shares(frame, {3: np.array([1])})
    assert shares["share"].iloc[1:].tolist() == [0.4, 0.25, 5 / 30] and np.isnan(shares["share"].iloc[0])
    late = results.late_shares(shares)
    assert late[["share", "accuracy"]].iloc[0].tolist() == [1 / 20, 0.4], "from round 5, the last before half of 15"


# --- selectors at a fixed model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fedacs", "releasedfedacs", "rexp3", "releasedrexp3", "randomclients"])
def test_at_a_fixed_model_a_selector_chooses_like_a_federation_whose_model_stands_still(skewed, name):
    method = create(name, participation=0.1, lr=1e-12, batch=20, epochs=1)
    state = method.init(skewed)
    for round in range(1, 31):
        state = method.round(skewed, state, round)
    torch.testing.assert_close(state["weights"], skewed.start, rtol=0, atol=1e-9)
    chosen = experiments.choose_at_fixed_model(method, skewed, 30)
    assert np.bincount(chosen.ravel(), minlength=30).tolist() == state["times"].tolist()


def test_at_a_fixed_model_the_bandit_finds_the_clients_with_the_lowest_alpha(skewed):
    alphas = skewness.true_alphas(skewed)
    chosen = experiments.choose_at_fixed_model(
        create("fedacs", participation=0.1, tolerance=0.2, batch=20, epochs=1), skewed, 300
    )
    taken = experiments.tally_choices(chosen, 30, 100).assign(seed=0, curve="own", tolerance=0.2)
    tally = results.tallies(taken, ["curve", "tolerance"], {0: alphas})
    assert tally.groupby("round")["times"].sum().tolist() == [0, 300, 600, 900]
    times = results.pool_times(tally, ["curve"], 30).set_index("pool")["times"]
    assert times["inside"] > 3 * times["outside"]
    falling = results.mean_alphas(tally, ["curve"])["alpha"]
    assert falling.iloc[1:].max() < falling.iloc[0] < alphas.mean()


def test_shares_at_fixed_models_count_the_second_half_of_the_rounds(skewed):
    method = create("randomclients", participation=0.1, batch=20, epochs=1)
    chosen = experiments.choose_at_fixed_model(method, skewed, 10)[5:]
    found = experiments.shares_at_fixed_models({"baseline": method}, {"start": (skewed, skewed.start)}, (0, 1, 2), 10)
    assert found["share"].item() == pytest.approx(np.mean(chosen <= 2))


def test_at_a_fixed_model_oort_counts_participations_for_its_ban(skewed):
    method = create("oort", participation=0.1, cap=4, batch=20, epochs=1)
    times = np.bincount(experiments.choose_at_fixed_model(method, skewed, 30).ravel(), minlength=30)
    assert times.sum() == 90 and times.max() <= 4


TOY = {"data_set": "toy", "partitioner": "uniform_skew", "clients": 8, "client_samples": 12, "network": "softmax"}
LOCAL = {"participation": 0.25, "batch": 6, "epochs": 1, "lr": 0.1}


SCHOOLING = experiments.Schooling(images=60, epochs=1)


def test_what_clients_tell_at_two_models(folders):
    asked = experiments.clients_at_fixed_models(TOY, LOCAL, SCHOOLING, seed=0)
    assert asked["model"].tolist() == 8 * ["starting model"] + 8 * ["trained model"]
    assert set(asked["numbers"]) == {3 * 9 + 3}
    start = asked[asked["model"] == "starting model"]
    held = holdings.held(TOY, 0)
    bias, shares = start.filter(like="bias_").to_numpy() / 0.1, held.counts / held.sizes[:, None]
    # A bias's gradient is the mean prediction minus the class's share; softmax regression starts at zero: 1/3 each.
    np.testing.assert_allclose(bias, 1 / 3 - shares, atol=1e-6)
    assert start["loss_before"].tolist() == pytest.approx([np.log(3)] * 8)
    assert (start["loss_training"] < np.log(3)).all()
    # softmax regression is its own last layer
    assert start["estimate"].tolist() == pytest.approx(start["estimate_all"].tolist(), rel=1e-4)
    assert start["estimate"].corr(pd.Series(skewness.alphas_of(held.counts)), method="spearman") > 0.5


def test_the_mildest_clients_hold_more_of_the_images_where_clients_share_them(folders):
    """Eight clients: of twelve images each nobody shares any; of ninety each, all share the images of the toy."""
    few, many = (
        experiments.pool_images(TOY | {"client_samples": samples}, [0.25, 1.0], seed=0).set_index("tolerance")
        for samples in (12, 90)
    )
    assert few["images"].tolist() == [2 * 12, 8 * 12]
    assert 90 <= many["images"][0.25] < 2 * 90 and many["images"][1.0] == 120, "all images of the toy"
    assert few["share"].tolist() == [0.25, 1.0] and many["share"][0.25] == many["images"][0.25] / 120 > 0.75


def test_the_betas_of_a_mild_and_a_skewed_client_grow_with_their_duels(folders):
    grown = experiments.beta_parameters(TOY, LOCAL, rounds=20, seed=0)
    assert grown["round"].tolist() == [number for number in range(1, 21) for _ in range(2)]
    mild, skewed = (grown[grown["client"] == name] for name in ("mild", "skewed"))
    alphas = skewness.alphas_of(holdings.held(TOY, 0).counts)
    assert (mild["alpha"].iloc[0], skewed["alpha"].iloc[0]) == pytest.approx((alphas.min(), alphas.max()))
    for client in (mild, skewed):
        assert client["a"].is_monotonic_increasing and client["b"].is_monotonic_increasing


def test_a_rehearsal_counts_the_choices_of_each_selector(folders):
    chosen = [("ours", "fedacs", {"tolerance": 0.4}), ("baseline", "randomclients", {})]
    tally = experiments.rehearsal(TOY, chosen, LOCAL, rounds=6, every=3, seed=0)
    assert list(tally) == ["curve", "round", *(f"times_{client}" for client in range(8))]
    assert tally["curve"].tolist() == 3 * ["ours"] + 3 * ["baseline"] and tally["round"].tolist() == 2 * [0, 3, 6]
    assert tally.filter(like="times_").sum(axis=1).tolist() == 2 * [0, 6, 12]  # two of eight clients per round
    built = federation.federate(**TOY, seed=0)
    choices = experiments.choose_at_fixed_model(create("randomclients", **LOCAL), built, 6)
    assert tally.iloc[-1, 2:].tolist() == np.bincount(choices.ravel(), minlength=8).tolist()


def test_an_even_draw_takes_poisoners_at_every_fixed_model_alike(folders):
    chosen = [("baseline", "randomclients", {}), ("Oort", "oort", {"cap": None})]
    found = experiments.poisoners_at_fixed_models(TOY, chosen, LOCAL, 2, SCHOOLING, 10, seed=0)
    assert list(found) == ["selector", "condition", "share", "accuracy"] and len(found) == 2 * 3
    assert len(set(found[found["selector"] == "baseline"]["share"])) == 1, "it does not look at the model"
    assert len(set(found["accuracy"])) == 1 and found["accuracy"].iloc[0] > 1 / 3


def test_a_breakdown_is_told_client_by_client_and_a_sound_run_has_none(folders):
    problem = TOY | {"network": "mlp200"}
    assert experiments.breakdown(problem, "fedacs", LOCAL, rounds=5, seed=0).empty
    told = experiments.breakdown(problem, "fedacs", LOCAL | {"lr": 1e4}, rounds=5, seed=0)
    assert set(told["round"]) == {1} and told["client"].nunique() == 2  # a quarter of eight clients
    assert told["loop"].value_counts().to_dict() == dict.fromkeys(
        ["compiled", "readable", "nudged, 1", "nudged, 2", "nudged, 3"], 2
    )
    moved = told.pivot(index="client", columns="loop", values="moved")
    np.testing.assert_allclose(moved["compiled"], moved["readable"], rtol=1e-3)


def test_the_drawn_poisoners_are_those_of_the_federation(folders):
    drawn = experiments.drawn_poisoners(TOY, 2, seed=4)["client"].tolist()
    assert drawn == list(federation.federate(**TOY, poisoners=2, seed=4).poisoners)


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_the_histograms_of_fig_1_count_every_client_once():
    fig, histogram, text = pictures.environments(500, 20, (0.1, 2.0), 0)
    plt.close(fig)
    assert histogram[["uniform", "inverse Pareto"]].sum().tolist() == [500, 500]
    assert histogram["inverse Pareto"].iloc[-5:].sum() > 2 * histogram["inverse Pareto"].iloc[:5].sum()
    means = text["mean over clients"]
    assert means["beta = 0.1, effective classes"] < 3 < 6 < means["beta = 2, effective classes"]


def test_a_curve_is_the_mean_over_seeds():
    frame = pd.DataFrame(
        {"method": "FedACS", "seed": [0, 0, 1, 1], "round": [0, 5, 0, 5], "accuracy": [0.1, 0.2, 0.3, 0.6]}
    )
    fig = pictures.curves(frame, "method")
    (line,) = fig.axes[0].lines
    plt.close(fig)
    assert line.get_label() == "FedACS"
    assert line.get_ydata().tolist() == pytest.approx([0.2, 0.4])


def test_the_wanted_pool_is_marked_in_the_bars():
    tally = pd.DataFrame({"tolerance": 0.4, "seed": 0, "place": np.arange(1, 11), "times": np.arange(10)})
    fig = pictures.participations(tally, 10)
    (axes,) = fig.axes
    plt.close(fig)
    assert axes.lines[0].get_xdata()[0] == 4.5
    inside, outside = axes.patches
    (low, low_edges, _), (high, high_edges, _) = inside.get_data(), outside.get_data()
    assert low_edges[-1] == 4.5 == high_edges[0]
    assert [*low, *high] == list(range(10))
    assert inside.get_facecolor() != outside.get_facecolor()
