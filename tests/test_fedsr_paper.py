"""FedSR, the paper's side: the runs ask for what is printed, tables are read from curves as stated, audits by hand."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt

from fedlib.algorithms.fedsr import FedSR
from fedlib.judging import ledger
from fedlib.papers.fedsr import audits, experiments, pictures, results
from fedlib.problem import federation
from fedlib.report import holdings
from fedlib.runs import record, study

MNIST = experiments.TrainingProblem("mnist", 640, 20)
PAPER = ledger.load("fedsr")
ROOT = Path(__file__).resolve().parent.parent


# --- what the paper prints --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "numbers"),
    [
        ("table1", 16),
        ("table2", 35),
        ("table2-images", 105),
        ("table3", 15),
        ("table3-ring", 4),
        ("table3-fedsr", 4),
        ("table4", 24),
    ],
)
def test_every_cell_of_the_tables_is_recorded(id, numbers):
    assert ledger.printed(f"fedsr/{id}")["printed"].notna().sum() == numbers


@pytest.mark.parametrize(
    ("id", "where", "value"),
    [
        ("table1", {"data_set": "cifar100", "method": "ring-optimization", "partition": "xi=20"}, 44.36),
        ("table2", {"data_set": "mnist", "method": "HierFAVG", "partition": "xi=2"}, 95.19),
        ("table2-images", {"data_set": "cifar10", "method": "MOON", "partition": "alpha=0.1"}, 71.41),
        ("table2-images", {"data_set": "fashion_mnist", "method": "FedProx", "partition": "xi=4"}, 90.98),
        ("table2-images", {"data_set": "cifar100", "method": "FedSR", "partition": "xi=4"}, 44.44),
        ("table3", {"data_set": "cifar100", "method": "HierFAVG"}, 29150),
        ("table4", {"participation": 0.4, "moment": "halfway", "method": "HierFAVG"}, 62.08),
    ],
)
def test_printed_cells_stand_where_the_paper_has_them(id, where, value):
    table = ledger.printed(f"fedsr/{id}")
    chosen = table[np.logical_and.reduce([table[column] == wanted for column, wanted in where.items()])]
    assert chosen["printed"].tolist() == [value]


def test_claims_read_columns_that_the_notebooks_write():
    """Every claim, under every reading, asks for columns of frames made by `results`."""
    raced = reaching(curve("FedSR", [0.1, 0.95]), curve("FedAvg", [0.1, 0.5]))
    written = {
        "fedsr/table3": raced,
        "fedsr/time-race": results.against_rivals(raced, ("FedAvg",)).assign(inputs="as they are"),
        "fedsr/print-distance": results.against_print(raced),
        "fedsr/standardised": results.against_print(raced),
        "fedsr/savings": results.savings(raced).assign(inputs="as they are"),
        "fedsr/currencies": results.at_equal_budgets(
            curve("FedSR", [0.1, 0.5]).assign(length=1), results.equal_budgets(["FedSR"], 1, results.prices(20))
        ),
    }
    ends = {"data_set", "partition", "method", "accuracy", "cell", "guess"}
    columns = {id: set(frame) for id, frame in written.items()} | {
        **dict.fromkeys(("fedsr/table1", "fedsr/table2", "fedsr/table2-images", "fedsr/long"), ends),
        "fedsr/fig3": {*ends, "early"},
        **{f"fedsr/{id}": {"data_set", "place", "seed", "lead"} for id in ("ring-leads", "equal-steps")},
        "fedsr/image-leads": {"data_set", "place", "seed", "lead", "counted"},
        "fedsr/crowd-leads": {"data_set", "place", "seed", "lead", "rival"},
        "fedsr/table2-leads": {"data_set", "place", "seed", "lead", "rival"},
        "fedsr/star-losses": {"accuracy_lost", "partition", "method", "data_set"},
        "fedsr/fig7": {"sum_of_squares", "partition"},
        "fedsr/fig9": {"data_set", "accuracy", "kind", "epochs", "partition"},
        "fedsr/fig9-leads": {"data_set", "epochs", "seed", "place", "lead"},
        "fedsr/fig10": {"data_set", "accuracy", "share", "partition"},
        "fedsr/fig10-gains": {"seed", "place", "gain", "counted"},
        "fedsr/table4": {"data_set", "accuracy", "method", "participation", "moment", "guess"},
    }
    for entry in (entry for entry in PAPER.entries if entry.kind == "claim"):
        for reading in entry.readings or [""]:
            options = ledger.reading_options(entry, reading)
            asked = {options[name] for name in ("value", "key", "guess", "reached") if name in options}
            assert asked | {*options.get("where", {}), *options["over"]} <= columns[entry.data], entry.id


def test_the_plan_adds_up_to_what_its_config_says():
    plan = experiments.plan()
    assert plan.loc["together", "core-hours"] == pytest.approx(23.4)
    text = (ROOT / "conf" / "paper" / "fedsr.yaml").read_text(encoding="utf-8")
    assert "Together 23.4 core-hours" in text
    assert [runs for *_, runs, _ in experiments.BLOCKS] == [int(n) for n in re.findall(r"(\d+) runs", text)]
    assert [hours for *_, hours in experiments.BLOCKS] == [float(n) for n in re.findall(r" runs +([\d.]+) h", text)]


@pytest.mark.parametrize("file", sorted((ROOT / "notebooks" / "fedsr").glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_notebook_announces_the_hours_of_its_blocks(file):
    opening = "".join(json.loads(file.read_text(encoding="utf-8"))["cells"][0]["source"])
    (announced,) = re.findall(r"projected: ([\d.]+) core-hours", opening)
    name = file.stem.split("_", 1)[1]
    assert float(announced) == pytest.approx(sum(hours for _, page, *_, hours in experiments.BLOCKS if page == name))


# --- the runs ---------------------------------------------------------------------------------------------------------


def sample_gradients(run):
    """Roughly the cost of a run: samples of the devices that take part x epochs x rounds."""
    passes = run.options.get("passes", run.options.get("iterations", 1)) * run.options["epochs"]
    return round(run.federation["samples"] * run.options.get("participation", 1.0) * passes * run.rounds)


@pytest.mark.parametrize("method", experiments.METHODS)
def test_every_method_computes_five_epochs_a_device_and_round(method):
    assert sample_gradients(experiments.run(method, MNIST, "xi=2", 0)) == 640 * 5 * 20


@pytest.mark.parametrize("method", experiments.METHODS)
def test_the_printed_settings_hold_at_every_scale(method):
    for problem in (MNIST, experiments.TrainingProblem("cifar10", None, 500)):
        options = experiments.run(method, problem, "iid", 0).options
        assert (options["lr"], options["final_lr"], options["momentum"], options["batch"]) == (0.01, 1e-5, 0.5, 32)
        assert options["schedule"] == problem.rounds


def test_a_race_ends_at_its_target_on_a_schedule_of_its_own():
    problem = experiments.TrainingProblem("mnist", None, 300, schedule=500, target=0.9)
    run = experiments.run("MOON, E = 1", problem, "xi=2", 0, mu=1.0)
    assert (run.rounds, run.options["schedule"], run.stop_at) == (300, 500, {"accuracy": 0.9})
    assert (run.algorithm, run.options["epochs"]) == ("moon", 1)


def test_variants_take_the_tuned_weight_of_their_method_and_do_a_fifth_of_its_work():
    runs = experiments.comparison(MNIST, ["xi=2"], ["MOON", "MOON, E = 1"], range(1), {"MOON": {"mu": 5.0}})
    assert [run.options["mu"] for run in runs] == [5.0, 5.0]
    assert sample_gradients(runs[0]) == 5 * sample_gradients(runs[1])


def test_inputs_are_one_choice_per_data_set_whatever_the_method():
    for name in ("mnist", "fashion_mnist", "cifar10"):
        problem = experiments.TrainingProblem(name, 640, 1)
        shaped = {json.dumps(experiments.run(method, problem, "iid", 0).federation) for method in experiments.METHODS}
        assert len(shaped) == 1
        assert experiments.CHOSEN_INPUTS[name] in experiments.CANDIDATES[name]
    assert all("flip" not in experiments.INPUTS[kind] for kind in experiments.CANDIDATES["mnist"])


def test_the_centralised_check_sees_no_test_sample_and_differs_in_the_inputs_only():
    runs = experiments.central_check(experiments.TrainingProblem("cifar10", None, 20), range(1000, 1002))
    assert [run.label["inputs"] for run in runs[::2]] == experiments.CANDIDATES["cifar10"]
    assert [run.seed for run in runs] == [1000, 1001] * 3
    for run in runs:
        assert run.federation.pop("validation_share") == 0.2 and "test_samples" not in run.federation
        for option in ("standardise", "crop", "flip"):
            run.federation.pop(option, None)
    assert len({json.dumps([run.federation, run.options, run.rounds]) for run in runs}) == 1


def test_larger_rings_get_fewer_rounds_for_equal_steps_in_a_row():
    problem = experiments.TrainingProblem("mnist", 1600, 40, 50)
    runs = experiments.ring_shares(problem, [0.1, 0.2, 0.4], ["iid"], range(1), equal_steps=True)
    # rings of 5 and of 10; of 20, 20 and 10, in which a device's ring has 18 on average
    assert [experiments.mean_ring(50, ring) for ring in (5, 10, 15, 20)] == [5, 10, 14, 18]
    assert [run.rounds for run in runs] == [40, 20, 11]  # 200 / 5, 200 / 10, 200 / 18
    assert [run.options["schedule"] for run in runs] == [40, 20, 11]


def test_claims_on_fig_10_ask_for_what_the_notebook_calls_its_runs():
    notebook = (ROOT / "notebooks" / "fedsr" / "03_sensitivity.ipynb").read_text(encoding="utf-8")
    for id in ("fedsr/claim-share-heterogeneity", "fedsr/claim-share-steps"):
        (counted,) = PAPER.entry(id).options["over"]["counted"]
        assert f'counted=\\"{counted}\\"' in notebook


@pytest.mark.parametrize(
    ("partition", "options"),
    [
        ("iid", {"partitioner": "iid"}),
        ("xi=20", {"partitioner": "shards", "per_client": 20}),
        ("alpha=0.1", {"partitioner": "dirichlet", "alpha": 0.1}),
    ],
)
def test_a_columns_name_says_how_to_deal(partition, options):
    assert experiments.partition_options(partition) == options


@pytest.mark.parametrize("wrong", ["xi", "xi=two", "beta=1", "iid=3"])
def test_an_unknown_partition_is_answered_with_the_known_forms(wrong):
    with pytest.raises(ValueError, match="write iid, xi=<shards per device> or alpha="):
        experiments.partition_options(wrong)


def test_cifar100_is_dealt_twice_as_many_shards():
    table = experiments.columns("cifar100", ["iid", "xi=4", "xi=2", "alpha=0.3", "alpha=0.1"])
    assert table == ["iid", "xi=8", "xi=4", "alpha=0.3", "alpha=0.1"]
    assert experiments.columns("mnist", ["xi=2"]) == ["xi=2"]


def test_only_mnist_trains_the_mlp():
    networks = {
        name: experiments.TrainingProblem(name, 100, 1).federation_options("iid")["network"]
        for name in ("mnist", "cifar10")
    }
    assert networks == {"mnist": "mlp200", "cifar10": "cnn_fedsr"}


def test_centralised_training_runs_once_a_seed_and_stands_in_every_column():
    runs = experiments.comparison(MNIST, ["xi=2", "alpha=0.1"], list(experiments.METHODS), range(2), {})
    assert sum(run.algorithm == "centralised" for run in runs) == 2
    rows = pd.DataFrame([run.label | {"seed": run.seed, "accuracy": 0.5} for run in runs])
    spread = results.in_every_column(rows.assign(cell=rows["data_set"] + ", " + rows["partition"]))
    central = spread[spread["method"] == "Centralized"]
    assert sorted(central["cell"]) == sorted(2 * ["mnist, xi=2", "mnist, alpha=0.1"])


def test_equal_work_in_fig9_is_equal_epochs_and_the_corner_is_shared():
    runs = experiments.epochs_and_passes(MNIST, [1, 2, 5], [1, 2, 5], ["xi=4"], range(1))
    work = {(run.label["kind"], run.label["epochs"]): sample_gradients(run) for run in runs}
    assert all(work["local", number] == work["ring", number] == number * 640 * 20 for number in (1, 2, 5))
    corner = [run.options for run in runs if run.label["epochs"] == 1]
    assert corner[0] == corner[1]


def test_the_standard_setting_of_fig9_is_the_run_of_table_2():
    (wanted,) = [
        run for run in experiments.epochs_and_passes(MNIST, [1], [5], ["xi=4"], range(1)) if run.label["kind"] == "ring"
    ]
    table = experiments.run("FedSR", MNIST, "xi=4", 0)
    assert (wanted.federation, wanted.options) == (table.federation, table.options)


def test_ring_sizes_are_shares_of_all_devices():
    problem = experiments.TrainingProblem("mnist", 1600, 5, 50)
    runs = experiments.ring_shares(problem, [0.1, 0.2, 0.3, 0.4], ["iid"], range(1))
    assert [run.options["cluster_size"] for run in runs] == [5, 10, 15, 20]


def test_tuned_weights_reach_their_methods_only():
    chosen = {"FedProx": {"mu": 1.0}, "MOON": {"mu": 5.0}}
    runs = experiments.comparison(MNIST, ["iid"], ["FedAvg", "FedProx", "MOON"], range(1), chosen)
    assert [run.options.get("mu") for run in runs] == [None, 1.0, 5.0]


def test_a_round_sends_as_many_models_as_table_3_divides_by():
    assert results.transfers_per_round(20) == {
        "FedAvg": 40,
        "FedProx": 40,
        "MOON": 40,
        "HierFAVG": 110,
        "ring-optimization": 20,
        "FedSR": 110,
    }


def test_a_test_subset_is_the_same_for_all_methods_of_a_seed_and_differs_between_seeds():
    deal = {"data_set": "mnist", "partitioner": "iid", "clients": 4, "samples": 40, "test_samples": 50}
    first, again, other = (federation.federate(**deal, seed=seed) for seed in (0, 0, 1))
    assert len(first.y_test) == 50
    assert (first.x_test == again.x_test).all()
    assert not (first.x_test == other.x_test).all()
    with pytest.raises(ValueError, match="test_samples=20000 must lie between 1 and the 10000"):
        federation.federate(**(deal | {"test_samples": 20000}), seed=0)


# --- from curves to tables --------------------------------------------------------------------------------------------


def curve(method, accuracies, data_set="mnist", partition="xi=2", seed=0, every=1):
    labels = {"data_set": data_set, "partition": partition, "method": method, "seed": seed}
    return pd.DataFrame([labels | {"round": every * r, "accuracy": a, "loss": 1 - a} for r, a in enumerate(accuracies)])


def test_a_run_ends_with_its_last_record():
    rows = results.ends(pd.concat([curve("FedSR", [0.1, 0.4, 0.6]), curve("FedAvg", [0.1, 0.5, 0.3])]))
    assert rows.set_index("method")["accuracy"].to_dict() == {"FedSR": 0.6, "FedAvg": 0.3}
    assert set(rows["cell"]) == {"mnist, xi=2"}
    assert rows["guess"].tolist() == [results.beyond_guessing("mnist", 2000)] * 2


def test_what_knows_no_more_than_a_guess_is_not_shown():
    rows = results.ends(pd.concat([curve("FedSR", [0.1, 0.5]), curve("FedAvg", [0.1, 0.115])]))
    assert results.learnt(rows)["method"].tolist() == ["FedSR"]  # 0.115 is within three standard errors of 0.1


def test_one_in_a_hundred_is_a_guess_on_cifar100():
    assert results.guess_level("cifar100") == 0.01
    assert results.beyond_guessing("cifar10", 900) == pytest.approx(0.1 + 3 * 0.01)


def test_early_is_the_mean_of_the_first_quarter():
    curves = curve("FedSR", [0.1, 0.2, 0.4, 0.5, 0.5, 0.6, 0.6, 0.6, 0.6])
    assert results.early(curves, results.ends(curves))["early"].item() == pytest.approx(0.3)


def test_a_lead_is_paired_by_seed_and_compared_with_the_iid_lead():
    ends = [("A", "iid", 0, 0.9), ("B", "iid", 0, 0.8), ("A", "xi=2", 0, 0.7), ("B", "xi=2", 0, 0.4)]
    rows = results.ends(
        pd.concat([curve(name, [0.1, end], partition=place, seed=seed) for name, place, seed, end in ends])
    )
    leads = results.method_leads(rows, "A", "B").set_index("place")["lead"]
    assert leads.round(6).to_dict() == {"iid": 0.1, "xi=2": 0.3, "xi=2 minus iid": 0.2}


def test_the_plainest_inputs_within_a_point_of_the_best_are_chosen():
    scores = [("as they are", 0.880), ("standardised", 0.905), ("cropped and mirrored", 0.912)]
    frame = pd.DataFrame([{"data_set": "fashion_mnist", "inputs": kind, "accuracy": score} for kind, score in scores])
    assert results.plainest(frame) == {"fashion_mnist": "standardised"}
    frame.loc[0, "accuracy"] = 0.903
    assert results.plainest(frame) == {"fashion_mnist": "as they are"}


def test_losses_are_paired_with_the_iid_run_of_the_same_seed():
    ends = [("iid", 0, 0.9), ("iid", 1, 0.8), ("xi=2", 0, 0.5), ("xi=2", 1, 0.6)]
    runs = [curve("FedAvg", [0.1, end], partition=partition, seed=seed) for partition, seed, end in ends]
    lost = results.lost_against_iid(results.ends(pd.concat(runs)))
    assert lost.set_index("seed")["lost"].round(6).to_dict() == {0: 0.4, 1: 0.2}


def test_a_method_that_has_hardly_learnt_has_nothing_to_lose():
    ends = [("FedAvg", "iid", 0.3), ("FedAvg", "xi=2", 0.2), ("MOON", "iid", 0.6), ("MOON", "xi=2", 0.2)]
    runs = [curve(method, [0.1, end], partition=partition) for method, partition, end in ends]
    central = curve("Centralized", [0.1, 0.9], partition="iid")
    lost = results.lost_against_iid(results.ends(pd.concat([*runs, central]))).set_index("method")
    assert lost["lost"].round(6).to_dict() == {"FedAvg": 0.1, "MOON": 0.4}
    assert lost["accuracy_lost"].notna().to_dict() == {"FedAvg": False, "MOON": True}  # halfway from a guess is 0.5


def reaching(*curves):
    return results.reaching(pd.concat(curves), {"mnist": 0.9}, results.prices(20))


def test_spending_is_counted_to_the_target_and_one_round_further_for_what_never_arrives():
    found = reaching(curve("FedSR", [0.1, 0.5, 0.92]), curve("FedAvg", [0.1, 0.3, 0.5])).set_index("method")
    assert found["reached"].to_dict() == {"FedSR": True, "FedAvg": False}
    assert found.loc["FedSR", ["transfers", "load_of_the_cloud_at_least", "epochs_in_a_row_at_least"]].tolist() == [
        220,
        20,
        40,
    ]
    assert np.isnan(found.loc["FedAvg", "transfers"])
    assert found.loc["FedAvg", ["rounds_at_least", "transfers_at_least"]].tolist() == [3, 120]
    halves = reaching(curve("FedAvg", [0.1, 0.3, 0.5]), curve("FedAvg", [0.1, 0.9], seed=1), curve("FedSR", [0.1, 0.9]))
    assert halves.set_index("method")["transfers"].notna().groupby("method").any().to_dict() == {
        "FedAvg": False,
        "FedSR": True,
    }
    words = results.spent(reaching(curve("FedAvg", [0.1, 0.3, 0.5]), curve("FedAvg", [0.1, 0.9], seed=1)))
    assert words.loc["FedAvg", "rounds"] == "> 2 (1 to 3)"
    assert results.spent(reaching(curve("FedSR", [0.1, 0.92]))).loc["FedSR", "rounds"] == "1"


def test_mean_rounds_come_with_an_interval_and_say_if_a_run_never_arrives():
    runs = [curve("FedAvg", [0.1] * rounds + [0.9], seed=seed) for seed, rounds in enumerate((10, 12, 14))]
    told = results.mean_rounds(reaching(*runs), "FedAvg")
    assert told == "12.0 rounds (95% interval: 7.0 to 17.0)"  # 12 +- 4.30 * 2 / sqrt(3)
    assert results.mean_rounds(reaching(*runs), "MOON") == "not run"
    assert results.mean_rounds(reaching(curve("MOON", [0.1, 0.2])), "MOON") == "at least 2.0 rounds"


def test_a_jumpy_run_settles_later_than_it_arrives():
    jumpy, steady = curve("FedAvg", [0.1, 0.92, 0.5, 0.91, 0.95]), curve("FedSR", [0.1, 0.5, 0.9, 0.9, 0.93])
    falls = curve("MOON", [0.1, 0.92, 0.95, 0.95, 0.8])
    frame = results.settled(pd.concat([jumpy, steady, falls]), 0.9).set_index("method")
    assert frame["first"].to_dict() == {"FedAvg": 1, "FedSR": 2, "MOON": 1}
    assert frame["settled"].to_dict() == {"FedAvg": 3, "FedSR": 2, "MOON": 5}
    assert frame["stays"].to_dict() == {"FedAvg": True, "FedSR": True, "MOON": False}
    assert results.settled_text(frame.reset_index()).loc["MOON"].tolist() == ["1", "> 5"]


def test_the_printed_algorithm_is_shown_beside_fedsr_seed_by_seed():
    runs = [curve("FedSR", [0.1, 0.2, 0.95]), curve("FedSR as printed", [0.1, 0.2, 0.3, 0.95])]
    assert results.literal_difference(reaching(*runs)).loc["more as printed", "rounds"] == "1"
    assert results.literal_difference(reaching(runs[0])).index.tolist() == ["FedSR"]


def test_a_round_is_priced_by_hand():
    """Epochs per device, in a row; models sent, by the cloud; waiting: epochs and transfers in a row."""
    per_round = results.prices(20, transfer_epochs=0.5)
    columns = [results.WORK, "epochs in a row", "transfers", "load of the cloud", "waiting time"]
    expected = {
        "FedAvg": [5, 5, 40, 40, 5 + 0.5 * 2],
        "FedAvg, E = 1": [1, 1, 40, 40, 1 + 0.5 * 2],
        "HierFAVG": [5, 5, 110, 10, 5 + 0.5 * 12],
        "ring-optimization": [5, 100, 20, 0, 100 + 0.5 * 20],
        "ring-optimization, E = 1": [1, 20, 20, 0, 20 + 0.5 * 20],
        "FedSR": [5, 20, 110, 10, 20 + 0.5 * 23],
        "FedSR as printed": [6, 24, 130, 10, 24 + 0.5 * 27],
    }
    for method, numbers in expected.items():
        assert per_round.loc[method, columns].tolist() == numbers, method
    large = results.prices(50, algorithms={"0.4": FedSR(epochs=1, passes=5, cluster_size=20)})
    assert large.loc["0.4", columns].tolist() == [5, 100, 256, 6, 100 + 103]  # three rings, 5 x 50 transfers and 6


def test_equal_budgets_are_those_of_the_thriftier_method():
    """Of 100 rounds FedAvg's 500 epochs in a row buy 25 rounds of FedSR, its 4000 models 36, its waiting time 16."""
    budgets = results.equal_budgets(["FedSR", "FedAvg"], 100, results.prices(20))
    assert results.lengths(budgets) == {"FedAvg": [25, 100], "FedSR": [16, 25, 36, 100]}
    bought = budgets.pivot(index="currency", columns="method", values="length")
    assert bought.loc["epochs in a row"].tolist() == [100, 25] and bought.loc["load of the cloud"].tolist() == [25, 100]
    assert bought.loc["transfers", "FedSR"] == 36 and bought.loc["waiting time", "FedSR"] == 16
    short = results.equal_budgets(["FedSR", "FedAvg"], 3, results.prices(20))
    assert set(short[short["method"] == "FedSR"]["currency"]) == {"rounds", "transfers", "load of the cloud"}


def test_at_an_equal_budget_each_side_ends_a_schedule_of_its_own():
    budgets = results.equal_budgets(["FedSR", "FedAvg"], 4, results.prices(20))
    runs = experiments.whole_schedules(MNIST, "xi=2", results.lengths(budgets), range(2))
    assert {(run.label["method"], run.rounds, run.options["schedule"]) for run in runs} == {
        *[("FedAvg", rounds, rounds) for rounds in (1, 4)],
        *[("FedSR", rounds, rounds) for rounds in (1, 4)],
    }
    ends = {("FedAvg", 1): 0.2, ("FedAvg", 4): 0.4, ("FedSR", 1): 0.5, ("FedSR", 4): 0.7}
    curves = [curve(method, [0.1] * rounds + [end]).assign(length=rounds) for (method, rounds), end in ends.items()]
    equal = results.at_equal_budgets(pd.concat(curves), budgets).set_index(["currency", "method"])["accuracy"]
    assert equal["rounds"].to_dict() == {"FedSR": 0.7, "FedAvg": 0.4}
    assert equal["epochs in a row"].to_dict() == {"FedSR": 0.5, "FedAvg": 0.4}
    assert equal["load of the cloud"].to_dict() == {"FedSR": 0.7, "FedAvg": 0.2}


def test_equal_steps_leave_the_lead_that_heterogeneity_gives():
    """FedSR is 0.1 ahead with iid data and 0.3 at xi = 2: 0.2 of that is owed to the skew."""
    ends = {("iid", "FedSR"): 0.9, ("iid", "FedAvg"): 0.8, ("xi=2", "FedSR"): 0.8, ("xi=2", "FedAvg"): 0.5}
    curves = [
        curve(method, [0.1, end]).assign(length=1, partition=partition) for (partition, method), end in ends.items()
    ]
    budgets = pd.DataFrame(
        [{"currency": "epochs in a row", "method": name, "length": 1} for name in ("FedSR", "FedAvg")]
    )
    leads = results.method_leads(results.at_equal_budgets(pd.concat(curves), budgets), "FedSR", "FedAvg")
    assert leads.set_index("place")["lead"].to_dict() == pytest.approx({"iid": 0.1, "xi=2": 0.3, "xi=2 minus iid": 0.2})


def test_savings_are_ratios_of_transfers_seed_by_seed_and_bounds_where_a_rival_never_arrives():
    quick, slow = [0.1, 0.95], [0.1, 0.5, 0.6, 0.95]
    raced = reaching(
        *(curve("FedSR", quick, seed=seed) for seed in (0, 1)),
        curve("FedAvg", slow, seed=0),
        curve("FedAvg", [0.1, *[0.5] * 10, 0.95], seed=1),
        curve("FedAvg, E = 1", [0.1, 0.5, 0.6], seed=0),
        curve("FedAvg", quick, seed=2),  # no FedSR there
        curve("FedSR", [0.1, 0.2], seed=3),  # FedSR does not arrive
        curve("FedAvg", quick, seed=3),
    )
    rows = results.savings(raced).set_index(["rival", "epochs", "seed"])
    assert len(rows) == 3
    assert rows.loc[("FedAvg", 5, 0), "times"] == pytest.approx(3 * 40 / 110)
    assert rows.loc[("FedAvg", 5, 1), "times"] == pytest.approx(11 * 40 / 110)
    assert rows.loc[("FedAvg", 5, 1), "distance"] == pytest.approx(np.log2(4680 / 660 / 4))
    assert not rows.loc[("FedAvg", 1, 0), "reached"]
    text = results.savings_text(rows.reset_index())
    assert text.loc["FedAvg", "five epochs"].startswith(f"{np.sqrt(33) * 40 / 110:.1f} (")  # the geometric mean
    assert text.loc["FedAvg", "one epoch"] == f"> {3 * 40 / 110:.1f}"
    assert text.loc["FedAvg", "printed"] == "7.1"  # 4680 / 660


def test_rounds_later_are_counted_seed_by_seed():
    rows = [
        ("FedAvg", 0, 60),
        ("FedAvg", 1, 70),
        ("FedProx", 0, 62),
        ("FedProx", 1, 69),
        ("FedSR", 0, 7),
        ("FedSR", 1, 8),
    ]
    frame = pd.DataFrame(rows, columns=["method", "seed", "rounds_at_least"])
    later = results.rounds_later(frame, "FedAvg", ["FedProx", "MOON"])
    assert later.index.tolist() == ["FedProx"] and later.loc["FedProx"].tolist() == [2, -1]


def test_rounds_by_seed_keep_the_judged_seeds_in_front():
    def arrivals(seeds):
        rows = [("mnist", method, seed, seed != 1, 10.0 + seed) for seed in seeds for method in ("FedAvg", "FedSR")]
        return pd.DataFrame(rows, columns=["data_set", "method", "seed", "reached", "rounds_at_least"])

    table = results.rounds_by_seed(arrivals([100, 101]), arrivals([0, 1]), ["FedSR"])
    assert table.columns.tolist() == [100, 101, 0, 1]
    assert table.loc["FedSR"].tolist() == ["110", "111", "10", "> 11"]


@pytest.mark.parametrize(
    ("at_once", "per_epoch", "words"),
    [
        (10, -4, "less than 2.50 epochs"),
        (-1, 50, "more than 0.02 epochs"),
        (10, 1, "any length"),
        (0, 1, "any length"),
        (-10, -1, "no length"),
        (0, -1, "no length"),
    ],
)
def test_for_which_transfers_a_lead_is_positive(at_once, per_epoch, words):
    assert results.ahead_for(at_once, per_epoch) == words


def test_leads_in_time_are_paired_by_seed_and_turn_at_a_length_of_transfers():
    """FedSR spends 2 rounds of 20 epochs and 23 transfers, FedAvg 20 and 24 rounds of 5 and 2."""
    runs = [curve("FedSR", [0.1, 0.5, 0.95], seed=seed) for seed in (0, 1)]
    runs += [curve("FedAvg", [*[0.1] * rounds, 0.95], seed=seed) for seed, rounds in enumerate((20, 24))]
    leads = results.time_leads(results.against_rivals(reaching(*runs), ("FedAvg", "MOON")).assign(inputs="plain"))
    assert leads["training"].tolist() == [60, 80]
    assert leads["waiting"].tolist() == [60 + 40 - 46, 80 + 48 - 46]
    text = results.time_leads_text(leads, 1.0).loc[("plain", "FedAvg")]
    assert text["lead, training only"].startswith("+70 (")
    assert text["ahead for transfers of"] == "less than 35.00 epochs"  # 70 = 2t
    assert results.time_leads_text(leads, 0.0).iloc[0, -1] == results.UNKNOWN
    never = reaching(*runs[:3], curve("FedAvg", [0.1, 0.2], seed=1))
    leads = results.time_leads(results.against_rivals(never, ("FedAvg",)).assign(inputs="plain"))
    assert results.time_leads_text(leads, 1.0).iloc[0, -1] == results.UNKNOWN


def test_look_alikes_are_counted_by_the_rarer_of_a_pair_on_each_device(monkeypatch):
    counts = np.zeros((2, 10), dtype=int)
    counts[0, [4, 9, 7]] = 5, 3, 10  # 3 of (4, 9) and 3 of (7, 9)
    counts[1, [3, 5, 8, 0]] = 1, 2, 4, 9  # 1 of (3, 5), 1 of (3, 8) and 2 of (5, 8)
    monkeypatch.setattr(experiments, "federate", lambda **_: SimpleNamespace(class_counts=torch.tensor(counts)))
    assert experiments.look_alikes.function({}, [0])["together"].tolist() == [10]


def test_the_extreme_splits_are_those_with_fewest_and_most_and_a_plan_takes_any(monkeypatch):
    counted = pd.DataFrame({"seed": [200, 201, 202, 203], "together": [5, 1, 9, 5]})
    monkeypatch.setattr(experiments, "look_alikes", lambda federation, seeds: counted)
    extreme = experiments.extreme_splits({}, 1)
    assert dict(zip(extreme["split"], extreme["seed"], strict=True)) == {"few together": 201, "many together": 202}

    def not_computed(federation, seeds):
        raise study.NotComputed

    monkeypatch.setattr(experiments, "look_alikes", not_computed)
    assert experiments.extreme_splits({}, 3)["seed"].nunique() == 6


def test_the_ring_has_no_line_where_the_cloud_is_the_currency():
    runs = pd.concat([curve("ring-optimization", [0.1, 0.5]), curve("FedSR", [0.1, 0.4])])
    drawn = results.priced(runs, results.prices(20)).groupby("currency")["method"].unique().map(sorted)
    assert drawn["load of the cloud"] == ["FedSR"] and drawn["rounds"] == ["FedSR", "ring-optimization"]


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 400))
def test_distance_from_print_is_counted_in_doublings(rounds):
    frame = reaching(curve("FedAvg, E = 1", [*[0.1] * rounds, 0.95]))
    (row,) = results.against_print(frame).itertuples()
    assert (row.star, row.epochs, row.printed_rounds) == ("FedAvg", 1, 117)
    assert row.distance == pytest.approx(abs(np.log2(rounds / 117)))


def test_halfway_is_counted_in_doublings():
    runs = [curve("FedAvg", [*[0.1] * rounds, 0.95], seed=seed) for seed, rounds in enumerate((25, 100))]
    runs += [curve("FedAvg, E = 1", [*[0.1] * 200, 0.95], seed=seed) for seed in range(2)]
    table = results.halfway(results.against_print(reaching(*runs)))
    assert table.loc["FedAvg"].to_dict() == {"five epochs": 50, "one epoch": 200, "halfway": 100, "printed": 117}
    assert results.halfway(results.against_print(reaching(runs[0]))).empty  # one kind of run has no middle


def test_differences_of_differences_are_paired_by_seed():
    rows = [("ring", "iid", 0.90), ("local", "iid", 0.89), ("ring", "xi=4", 0.85), ("local", "xi=4", 0.80)]
    ends = pd.DataFrame([{"kind": k, "partition": p, "accuracy": a, "epochs": 5, "seed": 3} for k, p, a in rows])
    leads = results.ring_leads(ends.assign(data_set="mnist"), [5]).set_index("place")["lead"].round(6)
    assert leads.to_dict() == {"iid": 0.01, "xi=4": 0.05, "xi=4 minus iid": 0.04}
    shares = [(0.1, "iid", 0.9), (0.4, "iid", 0.92), (0.1, "xi=4", 0.8), (0.4, "xi=4", 0.9), (0.2, "iid", 0.0)]
    ends = pd.DataFrame([{"share": s, "partition": p, "accuracy": a, "seed": 3} for s, p, a in shares])
    gains = results.share_gains(ends).set_index("place")["gain"].round(6)
    assert gains.to_dict() == {"iid": 0.02, "xi=4": 0.1, "xi=4 minus iid": 0.08}


def test_table_4_is_read_halfway_and_at_the_end():
    read = results.moments(curve("FedSR", np.arange(11) / 10).assign(participation=0.2), 10)
    assert read.set_index("moment")["accuracy"].to_dict() == {"halfway": 0.5, "end": 1.0}


# --- rings and audits -------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 100), min_size=4, max_size=24), st.integers(1, 6))
def test_the_sum_of_squared_ring_weights_lies_between_one_over_m_and_one(sizes, ring):
    count = -(-len(sizes) // ring)
    value = experiments.sum_of_squares(np.array(sizes), ring, np.random.default_rng(0))
    assert 1 / count - 1e-12 <= value <= 1 + 1e-12


def test_equal_devices_in_equal_rings_reach_one_over_m(folders):
    assert experiments.sum_of_squares(np.full(20, 7), 4, np.random.default_rng(0)) == pytest.approx(0.2)
    frame = experiments.ring_draws("toy", ["iid", "alpha=2"], 20, 4, 3, seed=0)
    assert frame[frame["partition"] == "iid"]["sum_of_squares"].tolist() == pytest.approx([0.2] * 3)
    assert frame.groupby("partition").size().to_dict() == {"iid": 3, "alpha=2": 3}


def test_the_first_rings_share_out_the_devices_and_see_the_classes_of_all(folders):
    problem = {"data_set": "toy", "partitioner": "shards", "per_client": 1, "clients": 6}
    rings = experiments.first_rings(problem, seed=0)
    assert list(rings) == ["ring", "devices", "classes seen"] and rings["ring"].tolist() == [1, 2]
    members = [json.loads(devices) for devices in rings["devices"]]
    assert sorted(members[0] + members[1]) == list(range(6)) and [len(ring) for ring in members] == [4, 2]
    counts = holdings.held(problem, 0).counts
    assert rings["classes seen"].tolist() == [int((counts[ring].sum(axis=0) > 0).sum()) for ring in members]


def test_fig_8_counts_every_sample_once_and_one_shard_is_one_class(folders):
    labels = np.repeat(np.arange(3), 40)
    parts = {f"x_{part}": np.zeros((120, 4), np.float32) for part in ("train", "test")}
    np.savez(folders / "data" / "even.npz", **parts, y_train=labels, y_test=labels)
    counts = experiments.device_counts("even", ["iid", "xi=1"], 6, seed=0)
    assert counts.groupby("partition")["samples"].sum().to_dict() == {"iid": 120, "xi=1": 120}
    assert len(counts) == 2 * 6 * 3
    text = results.holdings(counts)
    # 40 samples of each class, sorted and cut into six shards of 20
    assert text.loc["xi=1"].to_dict() == {"classes per device": "1 to 1", "samples per device": "20 to 20"}
    assert text.loc["iid", "samples per device"] == "20 to 20"
    fig = pictures.heat_maps(counts)
    assert [axes.get_title() for axes in fig.axes[:2]] == ["iid", "xi=1"]
    plt.close(fig)


def test_most_cases_are_counted_by_hand():
    found = audits.most_cases().set_index("quantity")["found"]
    assert found["non-iid columns with FedSR above HierFAVG"] == "15 of 16"  # MNIST, xi = 4: 97.45 against 97.46
    assert found["iid columns with FedSR above MOON"] == "3 of 4"  # MNIST: 97.71 against 97.74
    assert found["columns with FedSR below ring-optimization"] == "14 of 20"  # not MNIST's five, not CIFAR-100, xi = 4


def test_table_3_divides_into_whole_rounds():
    divided = audits.table3(20)
    assert divided["holds"].all()
    assert divided["found"].tolist()[-1] == "6, 18, 56, 49"  # FedSR: 660, 1980, 6160, 5390 by 110


def test_hierfavg_counted_both_ways_does_not_divide():
    (row,) = audits.hierfavg_transfers(20).itertuples()
    assert (row.printed, row.found, row.holds) == (210, 110, False)


def test_three_methods_miss_the_target_that_table_3_credits_them_with():
    short = audits.targets().set_index("quantity")["holds"]
    assert short.tolist() == [True, True, True, False]


def test_inequality_18_fails_from_three_equal_rings_on():
    assert audits.lemma([2, 3, 5])["holds"].tolist() == [True, False, False]
    p, models, y = np.full(5, 0.2), np.ones((5, 3)), np.zeros(3)  # the counterexample written out
    left = np.sum((p @ models - y) ** 2)
    right = 2 * np.sum(p**2 * np.sum((models - y) ** 2, axis=1))
    assert left > right


def test_the_remaining_audits_say_what_the_text_says():
    assert audits.weights()["found"].tolist() == ["199,210", "93,322", "122,570", "128,420"]
    assert not audits.cifar100_size()["holds"].any()
    assert audits.bound([2, 5])["holds"].all()
    assert not audits.fig9_list()["holds"].any()
    assert audits.ring_higher()[["found", "holds"]].to_numpy().tolist() == [["2 of 4", True]]


@pytest.mark.slow
def test_audits_of_the_second_look_are_counted_by_hand():
    assert audits.best_of_the_popular()["found"].tolist() == ["3 of 4", "15 of 16"]
    assert audits.rivals_counted()["found"].item() == 4
    assert audits.dramatic_losses()["holds"].tolist() == [False] * 4 + [True] * 4
    assert audits.printed_noise()["holds"].tolist() == [True, False, False]  # 97.83 > 97.71 > 97.45
    assert audits.hierfavg_on_cifar100().set_index("quantity")["holds"].to_dict() == {
        "cifar10: HierFAVG minus FedAvg": True,
        "cifar100: HierFAVG minus FedAvg": False,
        "fashion_mnist: HierFAVG minus FedAvg": True,
        "mnist: HierFAVG minus FedAvg": True,
    }
    assert audits.repeated_numbers()["found"].str.startswith(("62.08", "3410")).all()
    assert audits.more_participants()["found"].str.contains("FedSR, end: 77.3 to 76.73").all()
    assert audits.time()["holds"].tolist() == [False] * 4 + [True] * 10 + [False]  # MNIST; HierFAVG on CIFAR-100
    assert audits.time()["found"][4] == "less than 0.16 epochs"  # 80 (5 + 2t) = 18 (20 + 23t) at t = 40 / 254


def test_inequality_19_fails_for_unequal_rings_and_17_without_convexity():
    (row,) = audits.weighted_differences([0.2, 0.8], [1, -0.5], 0.2).itertuples()
    assert (row.printed, row.found, row.holds) == (">= -0.04", "-0.28", False)  # 0.04 - 0.32 against 0.2 (0.2 - 0.4)
    assert audits.weighted_differences([0.5, 0.5], [1, -0.5], 0.5)["holds"].all(), "equal rings meet it"
    assert not audits.convexity()["holds"].any()


def test_algorithm_1_as_printed_makes_a_pass_too_many():
    assert audits.algorithm1()["found"].tolist()[:2] == [6, 23]
    assert audits.literal_costs()[["printed", "found"]].to_numpy().tolist() == [[5, 6], ["0 of 20", "1 of 24"]]


# --- drawings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [pictures.star, pictures.ring_pass, pictures.star_of_rings])
def test_a_schematic_comes_with_its_flows_as_text(draw):
    figure, flows = draw()
    assert list(flows.columns) == ["from", "to", "what"] and len(flows) >= 2
    assert figure.axes[0].patches


def test_curves_have_a_panel_for_each_cell_and_a_line_for_each_method():
    runs = [curve("FedSR", [0.1, 0.5]), curve("FedAvg", [0.1, 0.3]), curve("FedSR", [0.1, 0.5], partition="iid")]
    curves = pd.concat(runs)
    figure = pictures.learning_curves(curves)
    lines = {axes.get_title(): len(axes.get_lines()) - 1 for axes in figure.axes}  # without the line of a guess
    assert lines == {"mnist, xi=2": 2, "mnist, iid": 1}


def test_the_headline_has_a_row_for_each_method_and_a_diamond_for_print():
    runs = [curve("FedAvg", [0.1, 0.95]), curve("FedAvg, E = 1", [0.1, 0.5]), curve("FedSR", [0.1, 0.95])]
    figure = pictures.headline(reaching(*runs), 0.9)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["FedAvg", "FedSR"]
    places = [tuple(map(float, mark.get_offsets()[0])) for mark in axes.collections]
    assert (117.0, 0.0) in places and (6.0, 1.0) in places  # print
    assert (1.0, -0.17) in places and (2.0, 0.17) in places  # ours, and at least one round more than it had
    plt.close(figure)


def test_currencies_have_a_panel_each():
    runs = pd.concat([curve("FedSR", [0.1, 0.5, 0.6]), curve("FedAvg", [0.1, 0.3, 0.4])])
    figure = pictures.currencies(results.priced(runs[runs["round"] > 0], results.prices(20)))
    assert [axes.get_title() for axes in figure.axes] == [f"{currency}, xi=2" for currency in results.CURRENCIES]
    sent = {line.get_label(): line.get_xdata().tolist() for line in figure.axes[2].get_lines()}
    assert sent == {"FedSR": [110, 220], "FedAvg": [40, 80]}
    plt.close(figure)


def test_the_inputs_in_use_are_those_that_the_recorded_check_chooses():
    """Centralised runs on held-out data, 20 epochs, on MNIST and CIFAR-10 three seeds.

    The plan: where the check is not complete or disagrees with the choice, nothing is run on that data set before it is
    settled.
    """
    unsettled = []
    for name, chosen in experiments.CHOSEN_INPUTS.items():
        if name in experiments.CANDIDATES and _by_recorded_check(name) != chosen:
            unsettled.append(name)
    assert unsettled in ([], ["cifar10"])
    desk = [run.kind for run in record.runs_of("fedsr").values() if "desk" in run.scales]
    assert [kind for kind in desk if any(name in kind for name in unsettled) and "centralised" not in kind] == []


def _by_recorded_check(data_set: str) -> str | None:
    """What the rule chooses; None if a run of the check is not on record."""
    scores = []
    seeds = range(1000, 1003 if data_set in ("mnist", "cifar10") else 1001)
    for run in experiments.central_check(experiments.TrainingProblem(data_set, None, 20), seeds):
        if (recorded := record.find(run.name)) is None:
            return None
        end = dict(record.records_of(*recorded).iloc[-1])
        scores.append({"data_set": data_set, "inputs": run.label["inputs"]} | end)
    return results.plainest(pd.DataFrame(scores))[data_set]
