"""FedGS, the paper's side: printed numbers, the rows of Table II, prices, surfaces and audits."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedlib.algorithms import create
from fedlib.judging import ledger
from fedlib.papers.fedgs import audits, experiments, pictures, results
from fedlib.papers.fedgs.experiments import FactorySetting, comparison
from fedlib.papers.fedgs.experiments.comparison import TableRow
from fedlib.problem import models

SMALL = FactorySetting("handwriting", samples=1500, width=2, hidden=8, batch=4, iterations=3, lr=0.1)
TUNED = {"FedProx": {"mu": 0.1}} | {key: {"lr": 0.03, "server_lr": 0.01} for key in comparison.SERVERS}

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
    for id in ("fedgs/claim-best-accuracy", "fedgs/claim-lower-loss"):
        assert ledger.load("fedgs").entry(id).options["others"] == [name for name in TABLE if name != "FedGS"]


# --- rows and runs ----------------------------------------------------------------------------------------------------


def test_the_rows_are_those_of_the_table_in_its_order_and_the_second_cgau():
    names = [row.name for row in experiments.table2_rows(TUNED, 0.1, 8, 0.05)]
    assert [name for name in names if name != "CGAU 2x"] == [name for name in TABLE if name != "FedGS"]


def test_every_rival_has_a_panel_of_fig_6():
    shown = {name for members in comparison.FAMILIES.values() for name in members}
    assert shown == {row.name for row in experiments.table2_rows(TUNED, 0.1, 8, 0.05)} - {"FedAvg"}


def test_some_rows_can_be_chosen():
    chosen = experiments.table2_rows(TUNED, 0.1, 8, 0.05, ["FedAdam", "FedAvg"])
    assert [row.name for row in chosen] == ["FedAvg", "FedAdam"]


def test_the_options_of_every_row_are_options_of_its_algorithm():
    for row in [*experiments.table2_rows(TUNED, 0.1, 8, 0.05), TableRow("FedGS", "fedgs")]:
        run = comparison.run(SMALL, row, 1, 0)
        create(run.algorithm, **run.options)  # raises on an unknown option


@pytest.mark.parametrize(("factories", "selected"), [(10, 10), (5, 40), (20, 5), (7, 3)])
def test_rivals_have_as_many_participants_as_fedgs_selects(factories, selected):
    setting = FactorySetting("handwriting", factories=factories, selected=selected)
    rival = create("fedavg", **setting.rival_options)

    class Park:
        clients, seed = setting.devices, 0

    assert len(rival.participants(Park, 1)) == factories * selected


def test_the_main_run_of_fedgs_is_a_cell_of_both_surfaces():
    main = experiments.table2(SMALL, [], 2, range(1))[0]
    by_work = experiments.over_batch_and_iterations(SMALL, [4, 8], [3], 2, range(1))
    by_size = experiments.over_groups_and_selected(SMALL, [10, 20], [5, 10], 2, range(1))
    assert [run.name == main.name for run in by_work] == [True, False]
    assert [run.name == main.name for run in by_size] == [False, True, False, False]


def test_without_selection_all_devices_are_drawn():
    (run,) = experiments.chosen_at_random(SMALL, 2, range(1))
    assert run.options["presampled"] == run.options["devices"] == SMALL.selected


# --- costs ------------------------------------------------------------------------------------------------------------


SIZES = np.array([12, 36] * 175)  # samples of 350 devices


def test_costs_of_a_round_by_hand():
    price = results.costs(FactorySetting("femnist"), SIZES).set_index("method")
    # 100 devices x 5 epochs x 24 samples; steps 5 x ceil(12/32) = 5 and 5 x ceil(36/32) = 10; up and down
    assert price.loc["each rival"].tolist() == [12_000, 7.5, 0, 200]
    # 50 iterations x 100 devices x 32 samples; each device up and down in every iteration; ten base stations likewise
    assert price.loc["FedGS"].tolist() == [160_000, 50, 10_000, 20]


def test_costs_in_words_name_the_numbers_of_the_table():
    words = results.costs_in_words(results.costs(FactorySetting("femnist"), SIZES))
    for number in ("12000", "200", "160000", "10000", "20 through"):
        assert number in words


def curve(method: str, accuracies: list[float], seed: int = 0) -> pd.DataFrame:
    frame = pd.DataFrame({"round": range(len(accuracies)), "accuracy": accuracies, "loss": 1.0})
    return frame.assign(method=method, data_set="toy", seed=seed)


def test_at_equal_price_the_dearer_method_has_fewer_rounds():
    price = results.costs(FactorySetting("femnist", iterations=5), SIZES)  # 16000 sample gradients against 12000
    frame = pd.concat([curve("FedGS", [0.0, 0.4, 0.8]), curve("FedAvg", [0.0, 0.3, 0.6])])
    found = results.at_equal_price(frame, price).set_index("at equal")
    assert found.loc["rounds", "lead"] == pytest.approx(0.2)
    assert found.loc["sample gradients", "FedGS"] == pytest.approx(0.4 * 1.5)  # 24000 / 16000 rounds
    assert found.loc["models to and from the cloud", "FedAvg"] == pytest.approx(0.3 * 0.2)  # 40 / 200 rounds


# --- targets and ends -------------------------------------------------------------------------------------------------


def test_the_target_is_the_printed_share_of_what_fedavg_ends_with():
    baseline = [curve("FedAvg", [0, 0.2, 0.4, 0.6]), curve("FedAvg", [0, 0.3, 0.6, 0.8], seed=1)]
    frame = pd.concat([*baseline, curve("FedGS", [0, 1, 1, 1])])
    assert results.target_accuracy(frame, last=2, rounds=3) == pytest.approx(0.6 * 82.0 / 82.1)
    assert results.target_accuracy(frame, last=2, rounds=500) == 0.82


def test_ends_are_paired_with_fedavg_of_the_same_seed():
    frame = pd.concat(
        [
            curve("FedAvg", [0, 0.2, 0.4]),
            curve("FedAvg", [0, 0.2, 0.5], 1),
            curve("FedGS", [0, 0.5, 0.7]),
            curve("FedGS", [0, 0.5, 0.6], 1),
        ]
    )
    ends = results.final_scores(frame, 1, 0.45, rounds=2).set_index(["method", "seed"])
    assert ends["gain"].round(6).to_dict() == {("FedAvg", 0): 0, ("FedAvg", 1): 0, ("FedGS", 0): 0.3, ("FedGS", 1): 0.1}
    assert ends["rounds_to_target"].tolist() == [3, 2, 1, 1]
    assert ends["rounds_of_500"].isna().all()


def test_rounds_are_compared_with_the_printed_ones_only_at_500_rounds():
    ends = results.final_scores(curve("FedAvg", [0, 0.9]), 1, 0.82, rounds=500)
    assert ends["rounds_of_500"].tolist() == [1]


def test_the_table_for_reading_is_in_percent():
    text = results.table2(results.final_scores(curve("FedAvg", [0, 0.5]), 1, 0.4, rounds=1))
    assert text.loc["FedAvg"].tolist() == [50.0, 0.0, 1.0, 1.0]
    assert all(text.filter(like=part).shape[1] == 1 for part in results.TABLE2_COLUMNS.values())


# --- hyper-parameters -------------------------------------------------------------------------------------------------


def test_impossible_cells_are_not_run():
    runs = experiments.over_groups_and_selected(SMALL, [5, 10, 20], [5, 10, 20, 40], 1, range(1))
    assert len(runs) == 9
    assert {(run.label["groups"], run.label["selected"]) for run in runs}.isdisjoint({(10, 40), (20, 20), (20, 40)})


def test_the_grid_of_rates_has_its_own_server_rates_for_momentum():
    runs = experiments.over_learning_rates(SMALL, [0.1, 0.2], [1.0], [0.01, 0.02, 0.03], 1, 0)
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
    assert SMALL.federation["network_options"]["start"] == "he"


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


def test_all_differences_quoted_in_the_text_hold_and_a_one_shot_stream_does_not():
    assert audits.quoted_differences()["holds"].all()
    assert not audits.one_pass_stream()["holds"].any()


def test_three_cells_of_fig_5b_need_more_devices_than_a_group_has():
    cells = audits.fig5b_cells([5, 10, 20], [5, 10, 20, 40])
    assert cells.loc[~cells["holds"], "quantity"].tolist() == ["M = 10, L = 40", "M = 20, L = 20", "M = 20, L = 40"]


def test_fig_6_has_twelve_panels_each_with_fedgs_and_fedavg():
    names = ["FedAvg", *(name for members in comparison.FAMILIES.values() for name in members), "FedGS"]
    fig = pictures.family_panels(pd.concat([curve(name, [0.0, 0.5]) for name in names]))
    assert len(fig.axes) == 12
    assert all({"FedGS", "FedAvg"} <= {line.get_label() for line in axes.lines} for axes in fig.axes)


def test_a_surface_leaves_impossible_cells_without_a_number():
    found = pd.DataFrame({"groups": [5, 5, 20], "selected": [5, 40, 5], "accuracy": [0.1, 0.2, 0.3]})
    fig = pictures.accuracy_map(results.accuracy_surface(found, "groups", "selected"), "L", "M")
    assert sorted(text.get_text() for text in fig.axes[0].texts) == ["10.0", "20.0", "30.0"]
