"""FedGS, the paper's side: printed numbers, the rows of Table II, prices, surfaces and audits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from toy_workbook import REPOSITORY

from fedlib.algorithms import create
from fedlib.engine import readable
from fedlib.judging import ledger
from fedlib.papers.fedgs import audits, experiments, pictures, results
from fedlib.papers.fedgs.experiments import FactorySetting, comparison
from fedlib.papers.fedgs.experiments.comparison import TableRow
from fedlib.problem import Network, federate, models
from fedlib.problem.queues import SampleQueues
from fedlib.report.settings import compose_job
from fedlib.runs import tuning

SMALL = FactorySetting("handwriting", samples=1500, width=2, hidden=8, batch=4, iterations=3, lr=0.1)

# Table II once more, typed from the paper a second time: accuracy in percent, loss, rounds to 82% (None: never).
TABLE = {
    "FedAvg": (82.1, 0.587, 478),
    "FedProx": (82.0, 0.586, 497),
    "IDA": (81.0, 0.628, None),
    "IDA+INTRAC": (81.0, 0.618, None),
    "IDA+FedAvg": (80.5, 0.687, None),
    "CGAU": (83.3, 0.509, 202),
    "FedMMD": (83.0, 0.564, 378),
    "FedFusion+Conv": (81.7, 0.624, None),
    "FedFusion+Multi": (82.0, 0.591, 486),
    "FedFusion+Single": (80.7, 0.627, None),
    "FedAvgM": (84.4, 0.820, 68),
    "FedAdagrad": (83.8, 0.583, 264),
    "FedAdam": (85.0, 0.662, 71),
    "FedYogi": (84.6, 0.590, 76),
    "FedGS": (86.0, 0.435, 147),
}


def cells(id: str) -> dict:
    (block,) = ledger.load("fedgs").entry(id).blocks
    return {name: cell for name, (cell,) in block.printed.items()}


# --- what is printed --------------------------------------------------------------------------------------------------


def test_the_ledger_holds_table_2_as_printed():
    assert cells("fedgs/table2") == {name: accuracy for name, (accuracy, _, _) in TABLE.items()}
    assert cells("fedgs/table2-loss") == {name: loss for name, (_, loss, _) in TABLE.items()}
    assert cells("fedgs/table2-rounds") == {name: rounds or ">500" for name, (_, _, rounds) in TABLE.items()}


def test_the_printed_gains_are_differences_of_the_printed_accuracies():
    expected = {name: round(accuracy - 82.1, 1) for name, (accuracy, _, _) in TABLE.items() if name != "FedAvg"}
    assert cells("fedgs/table2-gain") == expected


def test_claims_against_all_name_all_other_rows():
    for claim in ("fedgs/claim-best-accuracy", "fedgs/claim-lower-loss"):
        entry = ledger.load("fedgs").entry(claim)
        assert sorted(entry.options["others"]) == sorted(name for name in TABLE if name != "FedGS")
        single = [rows[0] for rows in audits.APPROACHES.values() if len(rows) == 1]
        assert sorted(entry.readings["the eight approaches of one row"]["others"]) == sorted(single)


# --- rows and runs ----------------------------------------------------------------------------------------------------


ROWS = [*experiments.main_rows(10), *experiments.rivals(8)]
BEST = {row.name: {"lr": 0.2} for row in ROWS} | {"FedAdam": {"lr": 0.3, "server_lr": 0.01}}


def test_the_rows_are_those_of_the_table_in_its_order_and_two_more():
    names = [row.name for row in experiments.rivals(8)]
    assert [name for name in names if name != "CGAU 2x"] == [name for name in TABLE if name not in ("FedGS", "FedAvg")]
    assert {row.name for row in ROWS} == set(TABLE) | {"CGAU 2x", experiments.RANDOM_GROUPS}


def test_every_rival_has_a_panel_of_fig_6():
    shown = {name for members in comparison.FAMILIES.values() for name in members}
    assert shown == {row.name for row in experiments.rivals(8)}


def test_some_rows_can_be_chosen():
    assert [row.name for row in experiments.rivals(8, ["FedAdam", "IDA"])] == ["IDA", "FedAdam"]


def test_the_options_of_every_row_are_options_of_its_algorithm():
    for row in experiments.tuned(ROWS, BEST):
        run = comparison.run(SMALL, row, 1, 0)
        assert create(run.algorithm, **run.options).lr == BEST[row.name]["lr"]


@pytest.mark.parametrize(("factories", "selected"), [(10, 10), (5, 40), (20, 5), (7, 3)])
def test_rivals_have_as_many_participants_as_fedgs_selects(factories, selected):
    setting = FactorySetting("handwriting", factories=factories, selected=selected)
    rival = create("fedavg", **setting.rival_options)

    class Park:
        clients, seed = setting.devices, 0

    assert len(rival.participants(Park, 1)) == factories * selected


def test_the_main_run_of_fedgs_is_a_cell_of_both_surfaces():
    (main,) = experiments.on_seeds(SMALL, [TableRow("FedGS", "fedgs")], 2, [0])
    by_work = experiments.over_batch_and_iterations(SMALL, [4, 8], [3], 2, range(1))
    by_size = experiments.over_groups_and_selected(SMALL, [10, 20], [5, 10], 2, range(1))
    assert [run.name == main.name for run in by_work] == [True, False]
    assert [run.name == main.name for run in by_size] == [False, True, False, False]


def test_random_groups_are_fedgs_with_all_devices_drawn():
    row = next(row for row in experiments.main_rows(SMALL.selected) if row.name == experiments.RANDOM_GROUPS)
    options = comparison.run(SMALL, row, 1, 0).options
    assert options["presampled"] == options["devices"] == SMALL.selected


def test_rows_get_their_own_number_of_seeds_and_share_the_first():
    counts = {row.name: 1 for row in ROWS} | {"FedAvg": 3, "FedGS": 3, "CGAU": 2}
    runs = experiments.table2(SMALL, experiments.tuned(ROWS, BEST), 2, 7, counts)
    seeds = pd.DataFrame([{"method": run.label["method"], "seed": run.seed} for run in runs])
    by_row = seeds.groupby("method")["seed"].apply(list).to_dict()
    assert by_row == {name: list(range(7, 7 + count)) for name, count in counts.items()}


# --- tuning -----------------------------------------------------------------------------------------------------------


def test_fedgs_and_random_groups_share_a_rate_and_fedproxs_strength_stays_within_print(monkeypatch):
    asked: dict = {}
    monkeypatch.setattr(tuning, "tune", lambda bases, grids, seeds, **more: asked.update(more))
    experiments.tune(SMALL, ROWS, experiments.Rates([0.1], [0.1], [0.1], [1.0], [0.01]), 1, 1000)
    assert asked == {"limits": {"mu": (0.05, 1.0)}, "together": comparison.TOGETHER, "final": None, "last": 1}


def test_every_row_is_tuned_on_as_many_points():
    desk = experiments.Rates([0.05, 0.1, 0.2, 0.4], [0.1, 0.2], [0.1, 0.5], [0.3, 1.0], [0.01, 0.03])
    assert {len(tuning.points(desk.grid(row))) for row in ROWS} == {4}
    assert desk.grid(ROWS[1]) == {"lr": [0.05, 0.1, 0.2, 0.4]}
    assert all("lr" in desk.grid(row) for row in ROWS)


@pytest.mark.parametrize("scale", ["quick", "desk"])
def test_the_grids_of_a_scale_have_as_many_points_for_every_row(scale):
    config = compose_job(REPOSITORY, [f"scale={scale}"]).fedgs.comparison
    rates = experiments.Rates(
        config.rates, config.paired_rates, config.mus, config.momentum_rates, config.adaptive_rates
    )
    assert len({len(tuning.points(rates.grid(row))) for row in ROWS}) == 1


@pytest.mark.parametrize(("rule", "bound"), [("xavier", (6 / 12) ** 0.5), ("he", (6 / 8) ** 0.5)])
def test_the_operator_of_fedfusion_starts_by_the_rule_of_the_network(rule, bound):
    leaf = models.build("cnn_leaf", 62, (28, 28), width=2, hidden=8)

    class Park:
        seed, network = 0, Network(leaf, start_rule=rule)

    rows = create("fedfusion_conv").first_operator(Park).view(4, 9)  # 8 maps in, 4 out, the bias last
    assert 0.8 * bound < rows[:, :8].abs().max() <= bound


# --- costs ------------------------------------------------------------------------------------------------------------


SIZES = np.array([12, 36] * 175)  # samples of 350 devices


def test_costs_of_a_round_by_hand():
    price = results.costs(FactorySetting("femnist"), SIZES).set_index("method")
    # 100 devices x 5 epochs x 24 samples; steps 5 x ceil(12/32) = 5 and 5 x ceil(36/32) = 10; up and down
    assert price.loc["each rival"].tolist() == [12_000, 7.5, 0, 200]
    # 50 iterations x 100 devices x 32 samples; each device up and down in every iteration; ten base stations likewise
    assert price.loc["FedGS"].tolist() == [160_000, 50, 10_000, 20]


def test_the_printed_ratio_of_work_stands_beside_ours():
    price = results.costs(FactorySetting("femnist"), SIZES).set_index("method")
    assert price.loc["FedGS / rival", results.GRADIENTS] == pytest.approx(160 / 12)
    printed = price.loc["FedGS / rival, as printed"]
    assert printed[results.GRADIENTS] == pytest.approx(1.41, abs=0.005)
    assert printed[results.STEPS] == 1.25


@pytest.mark.parametrize("tuned", [False, True], ids=["comparison", "tuning"])
@pytest.mark.parametrize(("scale", "mean"), [("quick", 11.91), ("desk", 153.8)])
def test_every_scale_keeps_the_printed_ratio_of_sample_gradients(scale, mean, tuned):
    """`mean` samples per device: of 4300 characters of `handwriting`, of all of FEMNIST; tuning holds some back."""
    config = compose_job(REPOSITORY, [f"scale={scale}"]).fedgs.comparison
    iterations, mean = (config.tuning_iterations, (1 - tuning.HELD_OUT) * mean) if tuned else (config.iterations, mean)
    setting = FactorySetting(config.data_set, batch=config.batch, iterations=iterations, epochs=config.epochs)
    price = results.costs(setting, np.array([mean])).set_index("method")[results.GRADIENTS]
    assert price["FedGS / rival"] == pytest.approx(price["FedGS / rival, as printed"], rel=0.02)


def test_the_rate_of_figure_5_is_tuned_on_the_corners_of_both_maps():
    cells = experiments.corners([8, 16, 64], [10, 50], [5, 20], [5, 40], batch=8, steps=15)
    assert cells == {
        "n = 8, T = 10": {"batch": 8, "iterations": 10},
        "n = 64, T = 10": {"batch": 64, "iterations": 10},
        "M = 5, L = 5": {"factories": 5, "devices": 5, "batch": 8, "iterations": 15},
        "M = 20, L = 40": {"factories": 20, "devices": 40, "batch": 8, "iterations": 15},
    }


def curve(method: str, accuracies: list[float], seed: int = 0) -> pd.DataFrame:
    frame = pd.DataFrame({"round": range(len(accuracies)), "accuracy": accuracies, "loss": 1.0})
    return frame.assign(method=method, data_set="toy", seed=seed)


def test_at_equal_work_a_cell_with_more_per_round_is_read_earlier():
    cells = [(8, 10, 30), (16, 10, 15), (8, 50, 6), (16, 30, 5)]  # batch, T, the first round with 2400 sample gradients
    rounds = range(31)
    frame = pd.concat(
        [
            pd.DataFrame(
                {"batch": n, "iterations": t, "seed": 0, "round": rounds, "accuracy": [r / 100 for r in rounds]}
            )
            for n, t, _ in cells
        ]
    )
    assert results.at_equal_work(frame)["round"].tolist() == [round for _, _, round in cells]
    assert results.at_equal_work(frame)["accuracy"].tolist() == [round / 100 for _, _, round in cells]


def test_at_equal_price_the_dearer_method_has_fewer_rounds():
    price = results.costs(FactorySetting("femnist", iterations=5), SIZES)  # 16000 sample gradients against 12000
    frame = pd.concat([curve("FedGS", [0.0, 0.4, 0.8]), curve("FedAvg", [0.0, 0.3, 0.6])])
    paid = results.at_equal_price(frame, price, ["FedGS", "FedAvg"])
    found = paid.set_index(["currency", "method"])["accuracy"]
    assert found["rounds", "FedGS"] - found["rounds", "FedAvg"] == pytest.approx(0.2)
    assert found["sample gradients", "FedGS"] == pytest.approx(0.4 * 1.5)  # 24000 / 16000 rounds
    assert found["transfers through the cloud", "FedAvg"] == pytest.approx(0.3 * 0.2)  # 40 / 200 rounds
    assert results.leads(paid, "rounds").loc["FedAvg"].tolist() == ["60.0", "+20.0", 1]


def test_at_equal_price_the_last_tenth_of_the_rounds_counts():
    price = results.costs(FactorySetting("femnist", iterations=5), SIZES)
    frame = pd.concat([curve(name, list(np.arange(21) / 20)) for name in ("FedGS", "FedAvg")])
    found = results.at_equal_price(frame, price, ["FedGS", "FedAvg"]).set_index(["currency", "method"])["accuracy"]
    assert found["rounds", "FedAvg"] == pytest.approx((1.0 + 0.95) / 2)  # rounds 20 and 19
    assert found["sample gradients", "FedGS"] == pytest.approx((15 + 14) / 2 / 20)  # fifteen rounds bought


def test_leads_are_paired_over_the_seeds_that_both_have():
    price = results.costs(FactorySetting("femnist"), SIZES)
    curves = [("FedGS", 0.5, 0), ("FedGS", 0.6, 1), ("FedGS", 0.7, 2), ("FedAvg", 0.4, 0), ("FedAvg", 0.49, 1)]
    frame = pd.concat([curve(name, [0.0, end], seed) for name, end, seed in curves])
    lead = results.leads(results.at_equal_price(frame, price, ["FedGS", "FedAvg"]), "rounds").loc["FedAvg"]
    # 10 and 11 points: mean 10.5, standard error 0.5, Student's t of one degree of freedom 12.7
    assert lead.tolist() == ["44.5", "+10.5 (4.1 to 16.9)", 2]


# --- targets and ends -------------------------------------------------------------------------------------------------


def test_the_target_is_the_printed_share_of_what_fedavg_ends_with_on_the_same_seed():
    baseline = [curve("FedAvg", [0, 0.2, 0.4, 0.6]), curve("FedAvg", [0, 0.3, 0.6, 0.8], seed=1)]
    frame = pd.concat([*baseline, curve("FedGS", [0, 1, 1, 1])])
    share = 82.0 / 82.1
    assert results.targets(frame, last=2, rounds=3) == pytest.approx({0: 0.5 * share, 1: 0.7 * share})
    assert results.targets(frame, last=2, rounds=500) == {0: 0.82, 1: 0.82}
    ends = results.final_scores(frame, last=2, rounds=3)
    assert ends[ends["method"] == "FedAvg"]["reached"].all(), "below-average seeds, too"


def test_a_seed_on_which_fedavg_collapses_gets_the_target_of_the_median():
    ends = {0: 0.6, 1: 0.08, 2: 0.8, 3: 0.7}
    frame = pd.concat([curve("FedAvg", [0, end], seed) for seed, end in ends.items()])
    share = 82.0 / 82.1
    goals = results.targets(frame, last=1, rounds=1)
    assert goals == pytest.approx({0: 0.6 * share, 1: 0.65 * share, 2: 0.8 * share, 3: 0.7 * share})


def test_a_late_rise_is_what_ten_rounds_bring_and_the_mean_throughout_leaves_the_start_out():
    accuracy = [0.0, *np.linspace(0.1, 0.8, 10), 0.82, 0.84, 0.86]
    (run,) = results.final_scores(curve("FedAvg", accuracy), last=2, rounds=13).to_dict("records")
    assert run["rise"] == pytest.approx((0.84 + 0.86) / 2 - (accuracy[2] + accuracy[3]) / 2)
    assert run["throughout"] == pytest.approx(np.mean(accuracy[1:]))


def test_a_lead_with_writers_is_compared_with_that_of_the_same_seed_with_devices_alike():
    parts = {
        "writers": {("FedAvg", 0): 0.5, ("FedGS", 0): 0.7, ("FedAvg", 1): 0.6, ("FedGS", 1): 0.7, ("FedAvg", 2): 0.9}
    }
    parts["alike"] = {("FedAvg", 0): 0.8, ("FedGS", 0): 0.85, ("FedAvg", 1): 0.8, ("FedGS", 1): 0.95}
    ends = {
        name: results.final_scores(
            pd.concat([curve(method, [0, end], seed) for (method, seed), end in runs.items()]), 1, 1
        )
        for name, runs in parts.items()
    }
    both = results.lead_by_data(ends["writers"], ends["alike"])
    assert len(both) == 8, "the seed that only one of them has is left out"
    assert both["more"].dropna().tolist() == pytest.approx([0.2 - 0.05, 0.1 - 0.15])


def test_how_many_times_fewer_rounds_is_a_ratio_of_means_or_a_bound():
    runs = pd.DataFrame({"seed": [0, 1, 0, 1], "method": ["FedAvg", "FedAvg", "FedGS", "FedGS"], "reached": True})
    runs["rounds_to_target"] = [10, 20, 4, 6]
    assert results.times_fewer(runs) == "3.0"
    assert results.times_fewer(runs.assign(reached=[True, True, True, False])) == "at most 3.0"
    assert results.times_fewer(runs.assign(reached=[True, False, True, True])) == "at least 3.0"
    assert results.times_fewer(runs.assign(reached=[True, False, True, False])) == "roughly 3.0"


def test_gradients_are_measured_by_independent_ones_of_the_same_number_seed_and_round():
    few, many = comparison.FEW_INDEPENDENT, comparison.INDEPENDENT
    rows = [
        (0, 1, "chosen by GBP-CS", 0.3),
        (0, 1, "one device", 2.0),
        (0, 1, many, 0.1),
        (0, 1, many, 0.3),
        (0, 1, few, 0.8),
    ]
    rows += [(0, 5, "drawn at random", 0.9), (0, 5, many, 0.3), (0, 5, few, 1.0)]
    frame = pd.DataFrame(rows, columns=["seed", "round", "batch", "gradient"])
    relative = results.relative_gradients(frame)["relative"]
    assert relative.tolist() == pytest.approx([1.5, 2.5, 0.5, 1.5, 1, 3, 1, 1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_diverged_run_counts_as_untrained(bad):
    frame = pd.concat([curve("FedAvg", [0.02, 0.5, 0.6]), curve("FedGS", [0.03, 0.7, 0.04])], ignore_index=True)
    frame.loc[frame.index[-1], "loss"] = bad
    frame.loc[(frame["method"] == "FedGS") & (frame["round"] == 0), "loss"] = 4.1
    counted = results.diverged_as_untrained(frame)
    ends = results.final_scores(counted, last=1, rounds=2).set_index("method")
    assert ends.loc["FedGS", ["accuracy", "loss"]].tolist() == [0.03, 4.1]
    assert ends.loc["FedGS", "gain"] == pytest.approx(0.03 - 0.6)
    pd.testing.assert_frame_equal(counted[counted["method"] == "FedAvg"], frame[frame["method"] == "FedAvg"])


def test_the_printed_rate_is_compared_after_as_many_rounds():
    tuned = pd.concat(
        [curve("FedAvg", [0.0, 0.2, 0.8]), curve("FedGS", [0.0, 0.5, 0.9]), curve("CGAU", [0.0, 0.1, 0.2])]
    )
    printed = pd.concat([curve("FedAvg", [0.0, 0.1]), curve("FedGS", [0.0, 0.3])])
    both = results.at_rates(tuned, printed, last=1).set_index(["rate", "method"])["accuracy"]
    assert both.to_dict() == {
        ("tuned", "FedAvg"): 0.2,
        ("tuned", "FedGS"): 0.5,
        ("printed", "FedAvg"): 0.1,
        ("printed", "FedGS"): 0.3,
    }


def test_leads_of_servers_are_over_every_row_but_fedgs():
    ends = pd.DataFrame({"method": ["FedAdam", "FedAvg", "CGAU", "FedGS"], "accuracy": [0.6, 0.5, 0.7, 0.9], "seed": 0})
    leads = results.server_leads(ends, ["FedAvgM", "FedAdam"])
    assert leads.set_index(["server", "rival"])["lead"].round(6).to_dict() == {
        ("FedAdam", "FedAvg"): 0.1,
        ("FedAdam", "CGAU"): -0.1,
    }


def test_ends_are_paired_with_fedavg_of_the_same_seed():
    frame = pd.concat(
        [
            curve("FedAvg", [0, 0.2, 0.4]),
            curve("FedAvg", [0, 0.2, 0.5], 1),
            curve("FedGS", [0, 0.5, 0.7]),
            curve("FedGS", [0, 0.5, 0.6], 1),
        ]
    )
    ends = results.final_scores(frame, 1, rounds=2).set_index(["method", "seed"])
    assert ends["gain"].round(6).to_dict() == {("FedAvg", 0): 0, ("FedAvg", 1): 0, ("FedGS", 0): 0.3, ("FedGS", 1): 0.1}
    rounds = {("FedAvg", 0): 2, ("FedAvg", 1): 2, ("FedGS", 0): 1, ("FedGS", 1): 1}  # to 0.4 and 0.5, a little less
    assert ends["rounds_to_target"].to_dict() == rounds
    assert ends["rounds_of_500"].isna().all()


def test_rounds_are_compared_with_the_printed_ones_only_at_500_rounds():
    ends = results.final_scores(curve("FedAvg", [0, 0.9]), 1, rounds=500)
    assert ends["rounds_of_500"].tolist() == [1]


def test_the_table_for_reading_is_in_percent():
    text = results.table2(results.final_scores(curve("FedAvg", [0, 0.5]), 1, rounds=1))
    assert text.loc["FedAvg"].tolist() == ["50.0", "", "1.000", "1.0", "", 1]
    assert all(text.filter(like=part).shape[1] == 1 for part in results.TABLE2_COLUMNS.values())


# --- hyper-parameters -------------------------------------------------------------------------------------------------


def test_groups_that_are_too_small_take_all_their_devices():
    runs = experiments.over_groups_and_selected(SMALL, [5, 10, 20], [5, 10, 20, 40], 1, range(1))
    taken = {(run.label["groups"], run.label["selected"]): run.options["devices"] for run in runs}
    assert len(taken) == 12
    assert taken[5, 40] == 40 and taken[10, 40] == 35  # as many as there are
    assert taken[20, 20] == taken[20, 40] == 18  # groups of 17 and of 18
    assert len({run.name for run in runs}) == 11


def test_cells_beyond_the_budget_are_not_run_and_named():
    runs = experiments.over_batch_and_iterations(SMALL, [8, 64], [10, 50], 1, range(1), ["n = 64, T = 50"])
    assert [(run.label["batch"], run.label["iterations"]) for run in runs] == [(8, 10), (8, 50), (64, 10)]


def test_the_grid_of_rates_has_its_own_server_rates_for_momentum():
    runs = experiments.over_learning_rates(SMALL, 10, [0.1, 0.2], [1.0], [0.01, 0.02, 0.03], 1, 0)
    assert {run.options["participation"] for run in runs} == {10 / 350}
    tried = [(run.label["method"], run.options["server_lr"]) for run in runs]
    servers = {name: {rate for method, rate in tried if method == name} for name in comparison.SERVERS}
    assert servers == {"FedAvgM": {1.0}} | {name: {0.01, 0.02, 0.03} for name in list(comparison.SERVERS)[1:]}
    assert {run.options["lr"] for run in runs} == {0.1, 0.2}


def test_the_best_rates_are_those_of_the_highest_accuracy_and_of_equals_the_first():
    tuned = pd.DataFrame(
        [
            ("FedAdam", 0.1, 0.01, 0.3),
            ("FedAdam", 0.1, 0.03, 0.5),
            ("FedAdam", 0.2, 0.01, 0.5),
            ("FedYogi", 0.2, 0.03, 0.1),
        ],
        columns=["method", "client_lr", "server_lr", "accuracy"],
    )
    assert results.best_rates(tuned) == {"FedAdam": (0.1, 0.03), "FedYogi": (0.2, 0.03)}


# --- the start --------------------------------------------------------------------------------------------------------


def test_hes_rule_widens_the_first_weights_and_leaves_the_biases():
    plain, wide = (models.build("cnn_leaf", 62, (28, 28), width=2, hidden=8) for _ in range(2))
    models.initialise(plain, 3)
    models.initialise(wide, 3, "he")
    for narrow, broad in zip(plain.parameters(), wide.parameters(), strict=True):
        torch.testing.assert_close(broad, (6**0.5 if narrow.ndim > 1 else 1.0) * narrow)
    assert SMALL.federation["network_options"]["start"] == "xavier"


def test_the_printed_network_has_the_weights_of_leafs():
    network = models.build("cnn_leaf", 62, (28, 28))
    assert sum(weights.numel() for weights in network.parameters()) == 6_603_710


# --- audits and pictures ----------------------------------------------------------------------------------------------


def test_the_averages_of_the_abstract_follow_from_the_table():
    others = [accuracy for name, (accuracy, _, _) in TABLE.items() if name != "FedGS"]
    rounds = [rounds or 500 for name, (_, _, rounds) in TABLE.items() if name != "FedGS"]
    assert audits.average_gain()["found"].tolist() == [f"{86.0 - np.mean(others):.2f}"]
    assert audits.fewer_rounds()["found"].tolist() == [f"{1 - 147 / np.mean(rounds):.1%}", f"{478 / 147:.2f}"]
    assert audits.average_gain()["holds"].all()
    assert audits.fewer_rounds()["holds"].all()


def test_over_ten_approaches_the_averages_are_lower():
    found = audits.ten_approaches()
    assert sum(len(rows) for rows in audits.APPROACHES.values()) == len(TABLE) - 1
    assert found["found"].tolist() == ["2.9", "51%", "48%", "27%"]
    assert not found["holds"].any()


def test_gradients_in_proportion_to_classes_pass_the_audit_and_others_do_not():
    kinds = pd.DataFrame({"batch": ["chosen", "random"], "divergence": [0.03, 0.06], "other_classes": [0.3, 0.6]})
    assert audits.proportional_gradients(kinds.assign(same_classes=[0.1, 0.2]))["holds"].all()
    assert not audits.proportional_gradients(kinds.assign(same_classes=[0.4, 0.4]))["holds"].any()


def test_the_last_term_of_proposition_3_does_not_vanish_beside_the_square_root():
    # sqrt(1 / eta) = 10, whatever delta
    assert audits.little_o()[["found", "holds"]].iloc[0].tolist() == ["10.0", False]


def test_devices_announce_the_classes_of_every_batch():
    assert audits.announced_classes(62, 50, 35)["found"].tolist() == ["3,100", "1,750"]
    assert not audits.announced_classes(62, 50, 35)["holds"].any()
    assert audits.announced_classes(62, 1, 35)["holds"].all(), "once is what Section IV says"


# --- Proposition 2 ----------------------------------------------------------------------------------------------------


def test_gradients_of_batches_are_compared_with_that_of_all_data(empty_store):
    setting = FactorySetting(
        "handwriting", devices=30, samples=1500, width=2, hidden=8, factories=3, selected=4, batch=5
    )
    found = experiments.gradient_divergences.call(replace(setting, iterations=2), 0.1, [0, 1], 0).compute()
    assert found.groupby(["round", "batch"]).size().to_dict() == {
        (round, kind): 3 for round in (0, 1) for kind in comparison.KINDS
    }
    federation = federate(**setting.federation, seed=0)
    everything = readable.gradient(federation, federation.start, torch.arange(len(federation.y)))[0]
    queues = SampleQueues(federation, 5, np.zeros(30, dtype=int))
    devices = create("fedgs", **setting.fedgs_options).select(federation, queues.counts, 0)[0][1]
    rows = torch.as_tensor(queues.rows[devices].ravel())
    apart = (readable.gradient(federation, federation.start, rows)[0] - everything).norm() / everything.norm()
    chosen = found[(found["round"] == 0) & (found["factory"] == 2) & (found["batch"] == "chosen by GBP-CS")]
    assert chosen["gradient"].item() == pytest.approx(float(apart), rel=1e-4)
    shares = torch.bincount(federation.y[rows], minlength=62) / 20 - torch.bincount(federation.y, minlength=62) / len(
        federation.y
    )
    assert chosen["divergence"].item() == pytest.approx(float(shares.norm()), rel=1e-5)
    weighted = torch.zeros_like(everything)  # all data, the classes weighted as in the batch
    for label in federation.y[rows].unique():
        members = torch.nonzero(federation.y == label).flatten()
        share = (federation.y[rows] == label).float().mean()
        weighted += share * readable.gradient(federation, federation.start, members)[0]
    drift = (readable.gradient(federation, federation.start, rows)[0] - weighted).norm() / everything.norm()
    assert chosen["same_classes"].item() == pytest.approx(float(drift), rel=1e-3)
    assert chosen["other_classes"].item() == pytest.approx(
        float((weighted - everything).norm() / everything.norm()), rel=1e-3
    )
    assert (found["gradient"] <= found["same_classes"] + found["other_classes"] + 1e-6).all(), "Proposition 2"


def test_random_and_single_batches_are_fresh_and_not_those_that_were_passed_over():
    setting = FactorySetting(
        "handwriting", devices=30, samples=1500, width=2, hidden=8, factories=3, selected=4, batch=5
    )
    federation, method = federate(**setting.federation, seed=0), create("fedgs", **setting.fedgs_options)
    offers = comparison._offers(federation, method, np.zeros(30, dtype=int), 0)
    queued = SampleQueues(federation, 5, np.zeros(30, dtype=int)).rows
    batches = {(kind, factory): rows for kind, factory, rows in offers}
    for factory in (1, 2, 3):
        fresh = batches["drawn at random", factory].reshape(4, 5)
        devices = [next(d for d in range(30) if set(rows) <= set(federation.rows[d].tolist())) for rows in fresh]
        assert all(device // 10 == factory - 1 for device in devices)
        assert any(sorted(rows) != sorted(queued[device]) for rows, device in zip(fresh, devices, strict=True))
        assert (batches["one device", factory] == fresh[0]).all()
        chosen = batches["chosen by GBP-CS", factory].reshape(4, 5)
        assert all(any((rows == batch).all() for batch in queued) for rows in chosen)


def test_all_differences_quoted_in_the_text_hold_and_a_one_shot_stream_does_not():
    assert audits.quoted_differences()["holds"].all()
    assert not audits.one_pass_stream()["holds"].any()


def test_three_cells_of_fig_5b_need_more_devices_than_a_group_has():
    cells = audits.fig5b_cells()
    assert cells.loc[~cells["holds"], "quantity"].tolist() == ["M = 10, L = 40", "M = 20, L = 20", "M = 20, L = 40"]


def test_fig_6_has_twelve_panels_each_with_fedgs_and_fedavg():
    names = ["FedAvg", *(name for members in comparison.FAMILIES.values() for name in members), "FedGS"]
    fig = pictures.family_panels(pd.concat([curve(name, [0.0, 0.5]) for name in names]))
    assert len(fig.axes) == 12
    assert all({"FedGS", "FedAvg"} <= {line.get_label() for line in axes.lines} for axes in fig.axes)


def test_the_picture_of_tuning_has_a_panel_per_row_and_a_line_per_second_option():
    columns = ["method", "lr", "server_lr", "seed", "score", "extension"]
    plain = [("FedAvg", lr, None, 0, 1 - abs(lr - 0.2), 0) for lr in (0.1, 0.2)]
    paired = [("FedAdam", lr, server, 0, lr * server, 0) for lr in (0.1, 0.2) for server in (0.01, 0.03)]
    best = {"FedAvg": {"lr": 0.2}, "FedAdam": {"lr": 0.2, "server_lr": 0.03}}
    fig = pictures.tuning(tuning.Sweep(pd.DataFrame(plain + paired, columns=columns), best))
    titles = {axes.get_title(): axes for axes in fig.axes if axes.get_title()}
    assert list(titles) == ["FedAvg", "FedAdam"]
    assert [len(axes.lines) for axes in titles.values()] == [
        2 + 1,
        2 * 2 + 1,
    ]  # each with its hollow points, and a ring
    assert titles["FedAdam"].lines[-1].get_xydata().tolist() == [[0.2, pytest.approx(0.006)]]


def test_a_surface_leaves_impossible_cells_without_a_number():
    found = pd.DataFrame({"groups": [5, 5, 20], "selected": [5, 40, 5], "accuracy": [0.1, 0.2, 0.3]})
    fig = pictures.accuracy_map(results.accuracy_surface(found, "groups", "selected"), "L", "M")
    assert sorted(text.get_text() for text in fig.axes[0].texts) == ["10.0", "20.0", "30.0"]
