"""Tuning: the same rule for all, on held-out training data, with grids that grow where the best lies at their end."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from conftest import synthetic_arrays
from hypothesis import given
from hypothesis import strategies as st

from fedlib.problem import federate
from fedlib.runs import Run, study, tuning

DEAL = {"data_set": "toy", "partitioner": "iid", "clients": 4}


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "toy.npz", **synthetic_arrays(samples=120, features=9, classes=3, seed=0))
    for name in ("DATA", "CACHE", "RUNS", "RECORDED"):
        monkeypatch.setenv(f"FEDLIB_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("FEDLIB_BACKEND", "inprocess")


def base(algorithm: str = "fedavg", **options) -> Run:
    return Run(algorithm, DEAL, 4, 0, {"steps": 2} | options, 2)


def invented(monkeypatch, landscape) -> list[Run]:
    """Stand in for training: the score of a run is a function of its options."""
    asked: list[Run] = []

    def execute(runs):
        asked.extend(runs)
        rows = [run.label | {"seed": run.seed, "round": 4, "accuracy": landscape(run.options)} for run in runs]
        return pd.DataFrame(rows)

    monkeypatch.setattr(study, "execute", execute)
    return asked


def invented_curves(monkeypatch, accuracies: dict[float, list[float]]) -> None:
    """Stand in for training: the accuracies of a run, round by round, follow from its rate."""

    def execute(runs):
        rows = [
            run.label | {"seed": run.seed, "round": round, "accuracy": accuracy}
            for run in runs
            for round, accuracy in enumerate(accuracies[run.options["lr"]])
        ]
        return pd.DataFrame(rows)

    monkeypatch.setattr(study, "execute", execute)


def peak(at: float):
    return lambda options: -abs(np.log(options["lr"] / at))


def test_the_best_inside_its_grid_is_taken_without_more_runs(monkeypatch):
    asked = invented(monkeypatch, peak(0.1))
    sweep = tuning.tune({"FedAvg": base()}, {"FedAvg": {"lr": [0.01, 0.1, 1.0]}}, [1000, 1001])
    assert sweep.best == {"FedAvg": {"lr": 0.1}}
    assert len(asked) == 6
    assert set(sweep.scores["extension"]) == {0}
    assert sweep.table("lr").loc["FedAvg"].tolist() == [-230.3, 0.0, -230.3, 0.1]


def test_a_best_at_the_end_extends_the_grid_twice_at_most(monkeypatch):
    invented(monkeypatch, peak(3.0))
    sweep = tuning.tune({"FedAvg": base()}, {"FedAvg": {"lr": [0.1, 0.3]}}, [1000])
    assert sweep.scores["lr"].tolist() == pytest.approx([0.1, 0.3, 0.9, 2.7])
    assert sweep.scores["extension"].tolist() == [0, 0, 1, 2]
    assert sweep.best["FedAvg"]["lr"] == 2.7
    invented(monkeypatch, peak(1e-6))
    sweep = tuning.tune({"FedAvg": base()}, {"FedAvg": {"lr": [0.1, 0.3]}}, [1000])
    assert sweep.best["FedAvg"]["lr"] == pytest.approx(0.1 / 9, rel=1e-2)


def test_only_the_option_at_its_end_grows_and_impossible_values_are_not_tried(monkeypatch):
    invented(monkeypatch, lambda options: options["lr"] - abs(options["momentum"] - 0.9))
    grid = {"lr": [0.1, 0.2, 0.4], "momentum": [0.5, 0.9]}
    sweep = tuning.tune({"FedAvg": base()}, {"FedAvg": grid}, [1000])
    assert sorted(sweep.scores["momentum"].unique()) == [0.5, 0.9], "0.9 * 0.9 / 0.5 is no momentum"
    assert sorted(sweep.scores["lr"].unique()) == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert len(sweep.scores) == 10
    assert sweep.best["FedAvg"] == {"lr": 1.6, "momentum": 0.9}


def test_methods_have_grids_of_their_own_and_seeds_are_averaged(monkeypatch):
    def landscape(options):
        return options["lr"] if "mu" not in options else options["mu"]

    invented(monkeypatch, landscape)
    methods = {"FedAvg": base(), "FedProx": base("fedprox", lr=0.1)}
    sweep = tuning.tune(methods, {"FedAvg": {"lr": [0.3]}, "FedProx": {"mu": [0.5]}}, [1000, 1001])
    assert sweep.best == {"FedAvg": {"lr": 0.3}, "FedProx": {"mu": 0.5}}
    assert sweep.means()["score"].tolist() == [0.3, 0.5]


def test_a_lower_loss_is_better(monkeypatch):
    asked = []
    monkeypatch.setattr(
        study,
        "execute",
        lambda runs: (
            asked.extend(runs)
            or pd.DataFrame([run.label | {"seed": run.seed, "loss": abs(run.options["lr"] - 0.2)} for run in runs])
        ),
    )
    sweep = tuning.tune({"FedAvg": base()}, {"FedAvg": {"lr": [0.1, 0.2, 0.4]}}, [1000], score="loss")
    assert sweep.best["FedAvg"]["lr"] == 0.2


def test_tuning_runs_hold_back_training_samples_and_see_no_test_sample():
    run = tuning.held_out(base(), 1000, {"lr": 0.3})
    fed = federate(**run.federation, seed=run.seed)
    whole = federate(**DEAL, seed=run.seed)
    assert len(fed.y) + len(fed.y_test) == len(whole.y)
    held_back = {row.numpy().tobytes() for row in fed.x_test}
    assert held_back <= {row.numpy().tobytes() for row in whole.x}
    assert not held_back & {row.numpy().tobytes() for row in whole.x_test}
    assert (
        "test_samples"
        not in tuning.held_out(Run("fedavg", DEAL | {"test_samples": 10}, 4, 0, {"steps": 2}), 1000, {}).federation
    )


def test_an_extension_stays_within_its_limits(monkeypatch):
    invented(monkeypatch, lambda options: -options["mu"])
    sweep = tuning.tune(
        {"FedProx": base("fedprox", lr=0.1)}, {"FedProx": {"mu": [0.1, 0.5]}}, [1000], limits={"mu": (0.05, 1.0)}
    )
    assert sweep.scores["mu"].tolist() == [0.1, 0.5, 0.05], "0.02 is below the least, and 0.05 is the end"
    assert tuning.next_value([0.1, 0.5], 0.5, 0.05, 1.0) == 1.0
    assert tuning.next_value([0.1, 0.5, 1.0], 1.0, 0.05, 1.0) is None


def test_methods_that_share_a_point_take_the_one_with_the_best_mean(monkeypatch):
    best = {"fedavg": 0.1, "fedprox": 0.9}

    def execute(runs):
        heights = {
            (name, lr): -abs(np.log(lr / at)) * (3 if name == "fedavg" else 1)
            for name, at in best.items()
            for lr in (0.1, 0.3, 0.9)
        }
        return pd.DataFrame(
            [run.label | {"seed": run.seed, "accuracy": heights[run.algorithm, run.options["lr"]]} for run in runs]
        )

    monkeypatch.setattr(study, "execute", execute)
    methods = {"one": base(), "other": base("fedprox", mu=0.1)}
    grids = {name: {"lr": [0.1, 0.3, 0.9]} for name in methods}
    monkeypatch.setattr(tuning, "EXTENSIONS", 0)
    assert tuning.tune(methods, grids, [1000]).best == {"one": {"lr": 0.1}, "other": {"lr": 0.9}}
    shared = tuning.tune(methods, grids, [1000], together=[["one", "other"]])
    assert shared.best == {"one": {"lr": 0.1}, "other": {"lr": 0.1}}, "0.1 costs the other less than 0.3 costs the one"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_diverged_run_loses_to_every_other(monkeypatch, bad):
    def execute(runs):
        rows = [
            run.label
            | {
                "seed": run.seed,
                "round": round,
                "loss": bad if round and run.options["lr"] > 0.1 and run.seed == 1001 else 1 - run.options["lr"],
            }
            for run in runs
            for round in (0, 4)
        ]
        return pd.DataFrame(rows)

    monkeypatch.setattr(study, "execute", execute)
    sweep = tuning.tune({"FedAvg": base()}, {"FedAvg": {"lr": [0.05, 0.1, 0.2]}}, [1000, 1001], score="loss")
    assert sweep.best["FedAvg"]["lr"] == 0.1, "0.2 is better on one seed and diverges on the other"


def test_a_real_sweep_is_computed_and_read_back(monkeypatch):
    grids = {"FedAvg": {"lr": [0.05, 0.2, 0.8]}}
    first = tuning.tune({"FedAvg": base()}, grids, [1000])
    monkeypatch.setattr("fedlib.runs.run.simulate", None)
    again = tuning.tune({"FedAvg": base()}, grids, [1000])
    pd.testing.assert_frame_equal(first.scores, again.scores)
    assert first.best == again.best


def test_a_method_without_a_grid_is_refused():
    with pytest.raises(ValueError, match="no grid for FedProx"):
        tuning.tune({"FedAvg": base(), "FedProx": base("fedprox")}, {"FedAvg": {"lr": [0.1]}}, [1000])
    with pytest.raises(ValueError, match="a grid needs values"):
        tuning.tune({"FedAvg": base()}, {"FedAvg": {"lr": []}}, [1000])


@given(st.lists(st.floats(1e-4, 1e2), min_size=2, max_size=6, unique=True))
def test_an_extension_goes_beyond_the_grid_by_its_own_ratio(values):
    values = sorted(float(f"{value:.3g}") for value in values)
    if any(later < 1.02 * sooner for sooner, later in pairwise(values)):
        return  # three digits cannot tell them apart
    up, down = tuning.next_value(values, values[-1]), tuning.next_value(values, values[0])
    assert up == pytest.approx(values[-1] ** 2 / values[-2], rel=0.01)
    assert down == pytest.approx(values[0] ** 2 / values[1], rel=0.01)
    assert all(tuning.next_value(values, inner) is None for inner in values[1:-1])


def test_a_tuning_run_is_scored_by_the_mean_of_its_last_rounds(monkeypatch):
    """The best step is in a dip in the last round, on the planned grid and on the value added to it."""
    dips = {
        0.1: [0.5, 0.5, 0.5],
        0.2: [0.6, 0.6, 0.6],
        0.4: [0.9, 0.9, 0.3],
        0.8: [0.8, 0.8, 0.8],
        1.6: [0.9, 0.9, 0.0],
    }

    invented_curves(monkeypatch, dips)
    grids = {"FedAvg": {"lr": [0.1, 0.2, 0.4]}}
    assert tuning.tune({"FedAvg": base()}, grids, [1000]).best["FedAvg"] == {"lr": 0.2}
    sweep = tuning.tune({"FedAvg": base()}, grids, [1000], last=3)
    assert sweep.scores.set_index("lr")["score"].to_dict() == pytest.approx(
        {0.1: 0.5, 0.2: 0.6, 0.4: 0.7, 0.8: 0.8, 1.6: 0.6}
    )
    assert sweep.best["FedAvg"] == {"lr": 0.8}
    ending = tuning.tune({"FedAvg": base()}, grids, [1000], last=3, final=tuning.Final(rounds=9))
    assert ending.finals.set_index("lr")["score"].to_dict() == pytest.approx({0.8: 0.8, 0.4: 0.3}), "its own last is 1"


# --- a final ----------------------------------------------------------------------------------------------------------


def test_in_a_final_the_best_two_points_run_for_longer_and_the_final_decides(monkeypatch):
    """Large steps lead in short runs and fall behind in long ones."""
    asked: list[Run] = []

    def execute(runs):
        asked.extend(runs)
        rows = []
        for run in runs:
            late = [{"round": round, "accuracy": _late(run, round)} for round in range(run.rounds + 1)]
            rows += [run.label | {"seed": run.seed} | row for row in late]
        return pd.DataFrame(rows)

    def _late(run: Run, round: int) -> float:
        return run.options["lr"] * (1 if round < 10 else -1)

    monkeypatch.setattr(study, "execute", execute)
    grids = {"FedAvg": {"lr": [0.1, 0.2, 0.4]}, "Fixed": {"lr": [0.3]}}
    methods = {"FedAvg": base(), "Fixed": base()}
    limits = {"lr": (0.1, 0.4)}
    assert tuning.tune(methods, grids, [1000], limits=limits).best["FedAvg"] == {"lr": 0.4}
    asked.clear()
    sweep = tuning.tune(methods, grids, [1000], limits=limits, final=tuning.Final(rounds=20, last=5))
    assert [(run.rounds, run.options["lr"]) for run in asked] == [
        (4, 0.1),
        (4, 0.2),
        (4, 0.4),
        (4, 0.3),
        (20, 0.4),
        (20, 0.2),
    ]
    assert sweep.best == {"FedAvg": {"lr": 0.2}, "Fixed": {"lr": 0.3}}
    assert sweep.finals.set_index("lr")["score"].to_dict() == pytest.approx({0.4: -0.4, 0.2: -0.2})
    assert {run.federation["validation_share"] for run in asked} == {tuning.HELD_OUT}


def test_a_final_is_scored_by_the_mean_of_its_last_rounds_and_a_diverged_one_loses(monkeypatch):
    def execute(runs):
        scores = {0.1: [0.5, 0.6, 0.7], 0.2: [0.9, 0.1, 0.95], 0.4: [0.9, np.nan, 0.99]}
        return pd.DataFrame(
            [
                run.label | {"seed": run.seed, "round": round, "accuracy": value}
                for run in runs
                for round, value in enumerate(scores[run.options["lr"]])
            ]
        )

    monkeypatch.setattr(study, "execute", execute)
    points = {"lr": [0.1, 0.2, 0.4]}
    final = tuning.Final(rounds=9, last=2, points=3)
    sweep = tuning.tune({"FedAvg": base()}, {"FedAvg": points}, [1000], limits={"lr": (0.1, 0.4)}, final=final)
    assert sweep.best["FedAvg"] == {"lr": 0.1}  # 0.65 against 0.525 and one that has diverged
    assert sweep.finals["score"].tolist() == pytest.approx([-np.inf, 0.525, 0.65])


def test_a_final_apart_also_tries_its_best_point_with_half_the_step(monkeypatch):
    """Eight rounds favour the larger step, forty the smaller; on further seeds the winner is compared with itself."""
    asked = []

    def execute(runs):
        asked.extend(runs)
        rows = []
        for run in runs:
            lr, server = run.options["lr"], run.options["server_lr"]
            value = 0.4 + server / 10 + (lr if run.rounds == 8 else -lr)
            rows.append(run.label | {"seed": run.seed, "round": run.rounds, "accuracy": value, "loss": 1.0})
        return pd.DataFrame(rows)

    monkeypatch.setattr(study, "execute", execute)
    grid = {"lr": [0.1, 0.2], "server_lr": [0.3, 1.0]}
    limits = {"lr": (0.1, 0.2), "server_lr": (0.3, 1.0)}
    final = tuning.Final(rounds=40, apart="server_lr", halved="lr", further=1)
    method = {"FedAvgM": replace(base(), algorithm="fedavgm", rounds=8)}
    sweep = tuning.tune(method, {"FedAvgM": grid}, [1000], limits=limits, final=final)
    met = [(run.options["lr"], run.options["server_lr"]) for run in asked if run.rounds == 40]
    assert met == [(0.2, 1.0), (0.2, 0.3), (0.1, 1.0)]
    assert sweep.best == {"FedAvgM": {"lr": 0.1, "server_lr": 1.0}} and sweep.checks["stands"].tolist() == [True]
    halved = tuning.tune(
        method, {"FedAvgM": grid | {"lr": [0.2, 0.4]}}, [1000], limits=limits | {"lr": (0.2, 0.4)}, final=final
    )
    assert halved.best["FedAvgM"] == {"lr": 0.2, "server_lr": 1.0}
    tiny = grid | {"lr": [0.2, 0.3]}
    new = tuning.tune(method, {"FedAvgM": tiny}, [1000], limits=limits | {"lr": (0.2, 0.3)}, final=final)
    assert new.best["FedAvgM"] == {"lr": 0.15, "server_lr": 1.0}, "a point that no grid had"
    assert new.checks["before"].tolist() == pytest.approx([0.4 + 0.1 + 0.15]) and new.winner("FedAvgM")["score"] > 0


def test_a_winner_must_not_collapse_on_further_seeds(monkeypatch):
    """The largest rate is best on the tuning seed and dead on one of two others."""

    def execute(runs):
        dead = {0.4: 1002}
        rows = [
            run.label
            | {"seed": run.seed, "round": run.rounds}
            | {"accuracy": 0.05 if dead.get(run.options["lr"]) == run.seed else run.options["lr"]}
            for run in runs
        ]
        return pd.DataFrame(rows)

    monkeypatch.setattr(study, "execute", execute)
    methods, grids = {"FedAvg": base(), "Other": base()}, {"FedAvg": {"lr": [0.1, 0.2, 0.4]}, "Other": {"lr": [0.3]}}
    limits, final = {"lr": (0.1, 0.4)}, tuning.Final(rounds=20, further=2)
    sweep = tuning.tune(methods, grids, [1000], limits=limits, final=final)
    assert sweep.best == {"FedAvg": {"lr": 0.2}, "Other": {"lr": 0.3}}
    found = sweep.checks[["method", "lr", "seed", "before", "stands"]].to_dict("split")["data"]
    assert found == [
        ["FedAvg", 0.4, 1001, 0.4, True],
        ["FedAvg", 0.4, 1002, 0.4, False],
        ["FedAvg", 0.2, 1001, 0.2, True],
        ["FedAvg", 0.2, 1002, 0.2, True],
    ]
    shared = {name: {"lr": [0.1, 0.2, 0.4]} for name in methods}
    together = tuning.tune(methods, shared, [1000], limits=limits, final=final, together=[list(methods)])
    assert together.best == {name: {"lr": 0.2} for name in methods}
    with pytest.raises(ValueError, match="only where the highest is best"):
        tuning.tune(methods, grids, [1000], score="loss", final=final)


def test_a_method_with_the_option_that_short_runs_tell_badly_sends_one_more_to_the_final(monkeypatch):
    asked = invented(monkeypatch, lambda options: options["lr"] + options.get("server_lr", 0.0))
    grids = {"Plain": {"lr": [0.1, 0.2, 0.3, 0.4]}, "Server": {"lr": [0.1, 0.2], "server_lr": [1.0, 2.0, 3.0, 4.0]}}
    limits = {"lr": (0.1, 0.4), "server_lr": (1.0, 4.0)}
    final = tuning.Final(rounds=9, apart="server_lr")
    tuning.tune(
        {name: Run("fedavgm" if name == "Server" else "fedavg", base().federation, 4, 0, {}, 1) for name in grids},
        grids,
        [1000],
        limits=limits,
        final=final,
    )
    longer = [run.options for run in asked if run.rounds == 9]
    assert [options["lr"] for options in longer[:2]] == [0.4, 0.3]
    assert [options["server_lr"] for options in longer[2:]] == [4.0, 3.0, 2.0]


def test_methods_that_share_a_point_share_their_finalists(monkeypatch):
    asked = invented(monkeypatch, lambda options: {0.1: 0.5, 0.2: 0.7, 0.4: 0.6}[options["lr"]])
    both = {"One": base(), "Other": base()}
    grids = {name: {"lr": [0.1, 0.2, 0.4]} for name in both}
    sweep = tuning.tune(both, grids, [1000], together=[["One", "Other"]], final=tuning.Final(rounds=9))
    assert [run.options["lr"] for run in asked[6:]] == [0.2, 0.4, 0.2, 0.4]
    assert sweep.best == {name: {"lr": 0.2} for name in both}


def test_finalists_differ_in_what_short_runs_tell_badly(monkeypatch):
    """Of two good client rates with the best server rate, one makes room for the best point of another server rate."""
    scores = {(0.1, 0.3): 0.5, (0.2, 0.3): 0.6, (0.1, 1.0): 0.8, (0.2, 1.0): 0.9}
    methods = {"FedAvgM": base("fedavgm"), "FedAvg": base()}
    grids = {"FedAvgM": {"lr": [0.1, 0.2], "server_lr": [0.3, 1.0]}, "FedAvg": {"lr": [0.1, 0.2]}}
    monkeypatch.setattr(tuning, "EXTENSIONS", 0)
    asked = invented(monkeypatch, lambda options: scores.get((options["lr"], options.get("server_lr")), options["lr"]))
    tuning.tune(methods, grids, [1000], final=tuning.Final(rounds=9, apart="server_lr"))
    finals = [(run.options["lr"], run.options.get("server_lr")) for run in asked if run.rounds == 9]
    assert finals == [(0.2, 1.0), (0.2, 0.3), (0.2, None), (0.1, None)]


def test_a_run_that_keeps_an_accuracy_but_has_no_loss_has_diverged(monkeypatch):
    """Without finite weights a model still names a class."""
    ends = {0.1: (0.3, 2.0), 0.2: (0.4, 1.5), 0.4: (0.5, np.nan)}

    def execute(runs):
        columns = [(run, *ends[run.options["lr"]]) for run in runs]
        return pd.DataFrame(
            [run.label | {"seed": run.seed, "round": 4, "accuracy": one, "loss": other} for run, one, other in columns]
        )

    monkeypatch.setattr(study, "execute", execute)
    assert tuning.tune({"FedAvg": base()}, {"FedAvg": {"lr": list(ends)}}, [1000]).best["FedAvg"] == {"lr": 0.2}


def test_where_speed_is_the_score_the_soonest_arrival_wins_and_who_never_arrives_is_last(monkeypatch):
    rounds = {0.1: (9, 0.9), 0.2: (4, 0.91), 0.4: (10, 0.7), 0.8: (3, 0.2)}  # of 10, and the accuracy there

    def execute(runs):
        columns = [(run, *rounds[run.options["lr"]]) for run in runs]
        return pd.DataFrame(
            [run.label | {"seed": run.seed, "round": end, "accuracy": score} for run, end, score in columns]
        )

    monkeypatch.setattr(study, "execute", execute)
    race = replace(base(), rounds=10, stop_at={"accuracy": 0.9})
    sweep = tuning.tune(
        {"FedAvg": race}, {"FedAvg": {"lr": list(rounds)}}, [1000], score=tuning.arrival({"accuracy": 0.9})
    )
    assert sweep.best == {"FedAvg": {"lr": 0.2}}
    assert sweep.scores["score"].tolist() == [9, 4, np.inf, np.inf]


def test_a_score_can_be_a_cost_of_a_runs_records_of_which_the_lowest_is_best(monkeypatch):
    curves = {0.03: 3 * [0.0], 0.1: [0.0, 0.9, 0.9], 0.3: [0.9, 0.9, 0.2], 1.0: 3 * [0.0]}
    invented_curves(monkeypatch, curves)
    sweep = tuning.tune(
        {"FedAvg": base()},
        {"FedAvg": {"lr": [0.03, 0.1, 0.3, 1.0]}},
        [1000],
        lambda run: float((run["accuracy"] < 0.5).sum()),
    )
    assert sweep.scores["score"].tolist() == [3, 1, 1, 3]
    assert sweep.best == {"FedAvg": {"lr": 0.1}}, "of equals the first"


def test_a_measurement_counts_as_the_mean_of_its_last_rounds(monkeypatch):
    """The last round alone would choose the run that happens to be up."""
    curves = {0.03: 3 * [0.0], 0.1: 3 * [0.6], 0.3: [0.2, 0.2, 0.9], 1.0: 3 * [0.0]}
    invented_curves(monkeypatch, curves)
    grid = {"FedAvg": {"lr": [0.03, 0.1, 0.3, 1.0]}}
    assert tuning.tune({"FedAvg": base()}, grid, [1000]).best == {"FedAvg": {"lr": 0.3}}
    assert tuning.tune({"FedAvg": base()}, grid, [1000], last=3).best == {"FedAvg": {"lr": 0.1}}
