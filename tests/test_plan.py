"""`fedlib plan`: the runs of every notebook are found without computing them, priced by kind, shared out to workers."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from toy_workbook import REPOSITORY, make_workbook, tagged

from fedlib import data
from fedlib.__main__ import main
from fedlib.commands import dry_run, planner
from fedlib.commands import plan_cli as command
from fedlib.commands.reports import jobs_of
from fedlib.report.notebooks import Notebook
from fedlib.runs import store, study, tuning
from fedlib.runs.backends import dry
from fedlib.runs.plan import kinds, measure
from fedlib.runs.plan.kinds import Cost
from fedlib.runs.study import Run

pytestmark = pytest.mark.slow

# Counted by hand from the notebooks and conf/paper; a run that a notebook asks for twice counts once. Beyond quick
# scale those with other numbers of methods, columns or seeds. FCBAFL's learning is left out: how many curves have the
# common step size for their own best depends on made-up scores.
COUNTS: dict[str, dict[str, int]] = {
    "quick": {
        "start.here": (2 + 2) * 3,
        # tuning, the paper's rate, sums instead of means, tuned, fastest, unequal devices, ablation (of which the runs
        # with local steps are there)
        "acfmo.mnist": 2 * 9 * 3 + 2 * (9 + 2 * 5 + 9 + 9) + 9 + 2 * 3,
        "acfmo.cifar10": 9 * 3 + 2 * 2 * 9 + 9 + 2 * 3,
        "acfmo.momentum": 3 * 4 * 4 + 3 * 4,
        "fcbafl.energy": 0,
        "fedacs.skewness": 4 + 1 + 1,  # 200 iid clients are among the environments
        "fedacs.comparison": 1 + 4 * 2 + 3 + 4 + 3 + 4 + 7,  # rivals, variants, trials, poisoners, printed images
        "fedacs.bandit": 1 + 3 + 3 + 1,  # of the early stop's three runs two are there
        "fedgs.selection": 0,
        "fedgs.comparison": 7 + 7 + (3 + 2) + 2 + 3 + 3,  # the second data set is the first, both rates are the same
        "fedgs.hyperparameters": 4 + 2 * 2 + 2 * 2 + 4 * 2 * 2,
        "fedgs.time": 0,
        "fedsr.ring_idea": 2 * 2,
        # mu, Table III, standardised, Table II, equal budgets beyond it, whole runs
        "fedsr.comparison": 2 + 1 + 6 + 3 + (2 * 5 + 1 + 1) + 3 + 2,
        "fedsr.sensitivity": 2 * (2 + 2 - 1) + 2 * 2 + 2 + 2,  # the control of Fig. 10 shares its smallest rings
        "fedsr.images": 2 + 3,
    },
    "desk": {
        "acfmo.mnist": 4 * 9 * 6 * 2 + 5 * 4 * (9 + 2 * 5 + 9 + 9) + 5 * 2 * 9 + 5 * 4 * 3,
        "fedacs.skewness": 5 * 4 + 5 + 5 * 3,
        "fedacs.comparison": 5 * (1 + 4 * 2 + 4 * 3) + 20 * 2 + 5 * (3 + 1) + 3 + 5 * 4 + (5 * 6 + 1),
        "fedacs.bandit": 5 * 2 + 3 * 4 + 5 * 3 + 5 * 2,
        # four points, two in the final (no grid is extended; of two server rates three), four further seeds; A and B;
        # one rate; devices alike; printed rate; C; width
        "fedgs.comparison": 13 * (4 + 2 + 4)
        + 4 * (4 + 3 + 4)
        + 3  # half of a best rate that no grid had; that of FedAvgM's made-up best is in its grid
        + 5 * 10
        + 12 * 5
        + 5
        + 3 * (4 + 2 + 4)
        + 2 * 5
        + 2
        + 3 * (4 + 2 + 4 + 5)
        + 3
        + 3,
        "fedgs.hyperparameters": 4 * (4 + 2 + 2) + 5 * (8 + 11) + 4 * 4 * 4,
        "fedsr.ring_idea": 3 * 2 * 2 + 3 * 2 * 2,
        "fedsr.comparison": 4
        + 4
        + 5 * (12 + 3 + 3)
        + 4 * 3
        + 2 * 3
        + 5 * (3 * 5 + 1 + 1 + 3)
        + 5 * (3 + 1 + 1)
        + 3 * 4,
        "fedsr.sensitivity": 5 * 2 * (3 + 3 - 1) + 5 * 2 * 4 + 5 * 2 * 3 + 3 * 4 + 3 * 3,
        "fedsr.images": 3 * 2 + 3 + 3 * 3 + 3 * 2 * 3 + 3 * 2 * 2 + 3 * 2 * 2,
    },
    "paper": {
        # finals are as long as tuning; half of a server row's best rate is in no grid
        "fedgs.comparison": 12 + 4 * 5 * 5 + 5 * 4 + 4 + 5 * 4 + 5 * 10 + 12 * 5 + (3 + 2 * 5) + 3 + 3 + 3 * 5,
        # at the end: the control of equal epochs
        "fedsr.images": 3 * 2 + 3 + 3 * 3 + 3 * 8 + 3 * 5 * (5 * 6 + 1) + 5 * 2 * 2,
    },
}
FREE = Cost(setup=0.0, base=0.0, loop=0.0, evaluation=0.0, memory=0, part=1.0, record={"accuracy": 0.5, "loss": 1.0})


def free(runs: list[Run]):
    """A measurement that costs nothing and finds nothing."""
    return (FREE for _ in runs)


def a_run(**changes) -> Run:
    """Three rounds of FedAvg on a hundred digits."""
    federation = {"data_set": "handwriting", "partitioner": "iid", "clients": 4, "samples": 100, "test_samples": 50}
    options = {"epochs": 2, "batch": 10, "lr": 0.1}
    return replace(Run("fedavg", federation, rounds=3, seed=0, options=options), **changes)


def one_notebook(root: Path, *sources: str) -> Path:
    """A workbook whose paper has one notebook with these cells."""
    make_workbook(root)
    (root / "notebooks" / "toy" / "02_broken.ipynb").unlink()
    (root / "conf" / "paper" / "toy.yaml").write_text("# @package toy\ndesk:\n  fine:\n    seeds: 5\n")
    cells = [tagged("seeds = 2"), *map(new_code_cell, sources)]
    nbformat.write(new_notebook(cells=cells), root / "notebooks" / "toy" / "01_fine.ipynb")
    return root


IMPORTS = """import fedlib
from fedlib.runs import store, study
from fedlib.report import show
from fedlib.runs.study import Run"""
RUNS = f"""
federation = {a_run().federation}
runs = []
for seed in range(seeds):
    options = {{"epochs": 2, "batch": 10, "lr": 0.1}}
    runs.append(Run("fedavg", federation, 3, seed, options, label={{"method": "FedAvg"}}))
frame = study.execute(runs)
best = frame.loc[frame["accuracy"].idxmax(), "seed"]
"""
MORE = """
show.table("toy/fig1", frame, frame)
print("never:", 1 / 0)
last = study.execute([Run("fedavg", federation, 5, int(best), {"steps": 1, "lr": 0.1})])
"""


def planned(root: Path, *overrides: str, measuring=free) -> dict:
    (job,) = jobs_of(list(overrides), root)
    return planner.plan(job.notebooks, job.config, (1, 2), measuring)


def by_label(made: dict, key: str) -> dict:
    return {row["notebook"]: row[key] for row in made["notebooks"]}


@pytest.fixture
def own_store(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FEDLIB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.mark.parametrize("scale", ["quick", "desk", "paper"])
def test_all_notebooks_can_be_planned_at_all_scales_with_the_runs_counted_by_hand(scale, own_store, monkeypatch):
    monkeypatch.setattr(tuning, "EXTENSIONS", 0)  # how far grids are extended depends on made-up scores
    monkeypatch.setattr(
        data, "available", lambda: dict.fromkeys(["mnist", "fashion_mnist", "cifar10", "cifar100"], "cache")
    )
    made = planned(REPOSITORY, f"scale={scale}", "record=ignore")
    assert [row["note"] for row in made["notebooks"] if row["note"]] == []
    assert COUNTS[scale].items() <= by_label(made, "runs").items()
    assert made["total"]["stored"] == 0
    assert not own_store.exists()


def test_only_what_leads_to_studies_is_executed_and_runs_shared_or_stored_are_not_counted_again(tmp_path, own_store):
    root = one_notebook(tmp_path / "book", IMPORTS, RUNS, MORE)
    (row,) = planned(root)["notebooks"]
    assert row["note"] is None  # the division by zero leads to no study
    assert (row["runs"], row["stored"], row["missing"]) == (3, 0, 3)
    assert not own_store.exists()
    stored = study.execute([a_run()], backend="inprocess")
    before = sorted(own_store.rglob("*"))
    seen = []
    (row,) = planned(root, measuring=lambda runs: seen.extend(runs) or free(runs))["notebooks"]
    assert (row["runs"], row["stored"], row["missing"]) == (3, 1, 2)
    assert [run.seed for run in seen if run.rounds == 3] == [1]
    assert stored["accuracy"].iloc[-1] != 0.5
    assert sorted(own_store.rglob("*")) == before
    assert not (root / "reports").exists()


def test_what_an_earlier_notebook_will_run_is_shared(tmp_path, own_store):
    root = one_notebook(tmp_path, IMPORTS, RUNS)
    folder = root / "notebooks" / "toy"
    (folder / "02_again.ipynb").write_bytes((folder / "01_fine.ipynb").read_bytes())
    config = root / "conf" / "paper" / "toy.yaml"
    config.write_text(config.read_text() + "quick:\n  again:\n    seeds: 3\n")
    made = planned(root, "scale=quick")
    assert [(row["runs"], row["shared"], row["missing"]) for row in made["notebooks"]] == [(2, 0, 2), (3, 2, 1)]
    assert (made["total"]["runs"], made["total"]["missing"]) == (5, 3)


def test_a_cell_that_fails_ends_the_plan_of_its_notebook_with_a_note(tmp_path, own_store, monkeypatch):
    root = one_notebook(tmp_path, IMPORTS, RUNS, "half = frame['nothing'] / 2", "study.execute(runs * int(half.sum()))")
    made = planned(root)
    (row,) = made["notebooks"]
    assert row["runs"] == 2
    why = "cell 5 needs half, but cell 4 failed: KeyError: 'nothing'"
    assert row["note"] == f"not all runs are planned: {why}"
    assert f"toy.fine: {row['note']}" in command.text(made)
    monkeypatch.setattr(measure, "measured", lambda runs, seconds: free(runs))
    assert main(["plan"], root) == 1


def test_runs_are_found_behind_functions_and_in_what_is_shown(tmp_path, own_store):
    helper = "def both(runs):\n    return study.execute(runs)"
    shown = "show.show(both([replace(run, seed=7) for run in runs]))"
    root = one_notebook(tmp_path, f"{IMPORTS}\nfrom dataclasses import replace", RUNS, helper, shown)
    (row,) = planned(root)["notebooks"]
    assert (row["runs"], row["note"]) == (3, None)


def test_what_only_shows_is_not_run_and_what_fails_takes_its_names_along(tmp_path):
    shown = "show.show(1 / 0)"
    stale = "options = {'lr': 0.1}\noptions = {'lr': 1 / 0}\nruns = [options]"
    path = one_notebook(tmp_path, IMPORTS, shown, stale, "study.execute(runs)") / "notebooks/toy/01_fine.ipynb"
    names: dict = {}
    note = dry_run.run_all(Notebook.of(path), names)
    why = "cell 5 needs runs, but cell 4 needs options, but cell 4 failed: ZeroDivisionError: division by zero"
    assert note == f"not all runs are planned: {why}"
    assert "options" not in names and "runs" not in names


def test_a_computation_that_is_not_on_record_is_not_computed_and_what_needs_it_left_out(tmp_path, own_store):
    held = "from fedlib.report import holdings\nheld = holdings.held(federation, 0)\ncounts = held.counts"
    root = one_notebook(tmp_path, IMPORTS, RUNS, held, "print(counts)", "study.execute(runs[:int(counts.sum())])")
    (row,) = planned(root, "record=ignore")["notebooks"]
    assert row["runs"] == 2
    assert "cell 6 needs counts, but cell 4 needs held, but cell 4 failed: NotComputed" in row["note"]
    assert not own_store.exists()


def test_the_longest_run_left_goes_to_the_first_free_worker():
    durations = [2.0, 3.0, 7.0, 4.0]
    assert planner.makespan(durations, 1) == 16
    assert planner.makespan(durations, 2) == 9  # 7 + 2 beside 4 + 3: not 8
    assert planner.makespan(durations, 3) == 7  # the long run shows
    assert planner.makespan(durations, 32) == 7
    assert planner.makespan([], 4) == 0


def test_numbers_are_written_for_people():
    shown = [command.duration(seconds) for seconds in (0.42, 99.7, 125, 5990, 9000, 86400 * 1234.5)]
    assert shown == ["0.42 s", "100 s", "2.1 min", "100 min", "2.5 h", "1234 days"]
    assert [command.size(count) for count in (0, 999, 1234, 999_999_999)] == ["0 B", "999 B", "1.2 kB", "1000 MB"]
    assert [command.number(value) for value in (0.00025, 1.234, 99.96, 4160.7)] == ["0.00025", "1.23", "100", "4161"]


def test_workers_wait_at_the_end_of_each_study(tmp_path, own_store):
    root = one_notebook(tmp_path, IMPORTS, RUNS, MORE)
    cost = replace(FREE, setup=1.0, base=2.0, loop=10.0, evaluation=0.5, memory=7)
    made = planned(root, measuring=lambda runs: (cost for _ in runs))
    (row,) = made["notebooks"]
    long, last = 1 + 3 * (2 + 10 * 2) + 4 * 0.5, 1 + 5 * (2 + 10 * 1) + 6 * 0.5
    assert row["wall_seconds"] == {"1": 2 * long + last, "2": long + last}
    assert row["core_hours"] == pytest.approx((2 * long + last) / 3600)
    assert row["longest_seconds"] == long
    assert row["memory_bytes"] == made["total"]["memory_bytes"] == 7


def test_rates_seeds_moments_and_passes_make_no_new_kind_and_counts_do():
    kind = kinds.kind(a_run())
    same = [{"lr": 0.5}, {"momentum": 0.9}, {"final_lr": 0.01, "schedule": 3}, {"epochs": 7}]
    other = [{"batch": 5}, {"participation": 0.5}, {"epochs": None, "steps": 3}]
    for options in same:
        assert kinds.kind(a_run(options=a_run().options | options)) == kind
    for options in other:
        assert kinds.kind(a_run(options=a_run().options | options)) != kind
    assert kinds.kind(a_run(seed=5, rounds=9, every=2, label={"method": "a"})) == kind
    assert kinds.kind(a_run(algorithm="fedprox")) != kind
    assert kinds.kind(a_run(federation=a_run().federation | {"samples": 200})) != kind


def test_sizes_of_clients_matter_only_where_clients_train_stacked():
    def of(network: str, partitioner: str, **options) -> str:
        return kinds.kind(
            a_run(federation=a_run().federation | {"network": network, "partitioner": partitioner} | options)
        )

    uneven, shards = {"partitioner": "dirichlet", "alpha": 0.1}, {"partitioner": "shards", "per_client": 2}
    assert of("mlp200", "iid") == of("mlp200", **shards) != of("mlp200", **uneven)
    assert of("cnn_fedsr", "iid") == of("cnn_fedsr", **shards) == of("cnn_fedsr", **uneven)


def test_made_up_records_have_the_rounds_and_scores_of_real_ones_and_options_differ(own_store):
    run = a_run(rounds=7, every=3)
    real = study.execute([run], backend="inprocess").drop(columns="seed")
    made = dry.made_up_records(run)
    assert made["round"].tolist() == real["round"].tolist() == [0, 3, 6, 7]
    assert set(made.columns) <= set(real.columns)
    other = dry.made_up_records(replace(run, options=run.options | {"lr": 0.2}))
    assert (made["accuracy"] != other["accuracy"]).all()
    assert made["accuracy"].equals(dry.made_up_records(replace(run, seed=5))["accuracy"])


def test_the_size_of_results_is_that_of_their_files(own_store):
    run = a_run(rounds=7, every=3)
    record = study.execute([run], backend="inprocess").drop(columns=["seed", "round"]).iloc[-1].to_dict()
    on_disk = sum((store.folder_of(run) / file).stat().st_size for file in ("records.csv", "run.json"))
    assert kinds.result_bytes(run, record) == pytest.approx(on_disk, rel=0.1)


def test_a_measurement_runs_in_a_process_of_its_own_and_says_why_it_could_not(own_store):
    wrong = a_run(federation=a_run().federation | {"data_set": "no_such_data"})
    cost, reason = measure.measured([a_run(), wrong], seconds=0.05)
    assert cost.part == 1 and cost.seconds(a_run()) > 0
    assert 5e7 < cost.memory < 2e10
    assert {"accuracy", "loss"} <= set(cost.record)
    assert reason.startswith("DataNotFound: no data set 'no_such_data'")
    assert not own_store.exists()


def test_a_round_is_projected_from_parts_on_the_line_that_its_time_follows(monkeypatch):
    """With a clock that passes over a share of the data move by 0.1 + share * (2 + 3 * passes), the whole comes out."""
    run = a_run(options=a_run().options | {"epochs": 20, "batch": 5})
    shares = {}

    def trial(of: Run, federation, seconds: float, evaluate: bool = True) -> measure.Trial:
        share = shares.setdefault(int(federation.sizes.sum()), float(federation.sizes.sum()) / 100)
        return measure.Trial(0.0, 0.0, 0.1 + share * (2 + 3 * of.options["epochs"]), 0.25, {})

    monkeypatch.setattr(measure, "trial", trial)
    found = measure.cost(run, seconds=20.0)
    assert sorted(shares.values()) == [pytest.approx(0.2), pytest.approx(0.4)]
    assert found.part == pytest.approx(0.4 * 9 / 20)
    assert (found.base, found.loop, found.evaluation) == (pytest.approx(2.1), pytest.approx(3.0), 0.25)


def test_a_round_too_long_for_its_least_part_is_projected_from_fewer_clients(monkeypatch):
    """A participant's round takes 3 + 50 * passes seconds, the first one twice as long: the whole comes out."""
    federation = a_run().federation | {"clients": 48, "samples": 480, "partitioner": "iid"}
    run = a_run(federation=federation, options=a_run().options | {"epochs": 4, "participation": 0.5})
    asked = []

    def trial(of: Run, federation, seconds: float, evaluate: bool = True) -> measure.Trial:
        clients = round(48 * of.options["participation"])
        asked.append((clients, of.options["epochs"]))
        cold = 2 if len(asked) == 1 else 1
        return measure.Trial(0.0, 0.0, cold * clients * (3 + 50 * of.options["epochs"]), 0.25, {})

    monkeypatch.setattr(measure, "trial", trial)
    found = measure.cost(run, seconds=200.0)
    assert asked == [(24, 1), (3, 1), (3, 2)]
    assert (found.base, found.loop) == (pytest.approx(24 * 3), pytest.approx(24 * 50))
    assert found.part == pytest.approx(3 / 24 * 2 / 4)


def test_passes_are_made_by_the_option_that_makes_most():
    run = a_run(algorithm="fedsr", options={"epochs": 1, "passes": 5, "cluster_size": 2})
    assert kinds.loops(run.config["options"]) == 5
    assert measure.with_passes(run, 2).options == {"epochs": 1, "passes": 2, "cluster_size": 2}
    assert measure.with_passes(a_run(options={"steps": 3}), 2) == a_run(options={"steps": 3})


def test_json_and_text_tell_the_same(tmp_path, own_store, capsys, monkeypatch):
    root = one_notebook(tmp_path, IMPORTS, RUNS, MORE)
    cost = replace(FREE, base=3600.0, memory=123_000_000, part=0.25)
    answers = [cost, "no data"]
    monkeypatch.setattr(measure, "measured", lambda runs, seconds: (answers[run.rounds == 5] for run in runs))
    assert main(["plan", "--json", "--workers", "4,2"], root) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["workers"] == [2, 4]
    assert made["total"]["unmeasured"] == 1
    assert [each["runs"] for each in made["kinds"]] == [2, 1]
    assert made["total"]["core_hours"] == pytest.approx(6)
    assert main(["plan", "--workers=4,2"], root) == 0
    text = capsys.readouterr().out
    assert text.rstrip("\n") == command.text(made)
    cells = next(line for line in text.splitlines() if line.startswith("toy.fine")).split()
    assert cells[1:6] == ["3", "0", "0", "3", ">"] and cells[6] == "6"
    assert "123 MB" in text and "3 h" in text
    assert "at least 0.25 of its work" in text
    assert "Not measured, and so not counted in times and sizes: 1 runs. no data" in text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["paper=tyo"], "Did you mean toy?"),
        (["scale=desc"], "Did you mean desk?"),
        (["notebooks=[fime]"], "Did you mean fine?"),
        (["toy.fine.sedes=2"], "Did you mean seeds?"),
        (["--workers", "two"], "'two' is not a number of workers: write 8, or 2,32"),
        (["--workers", "0"], "is not a number of workers"),
        (["--workers"], "expected one argument"),
        (["--seconds", "-1"], "is not a positive number of seconds"),
        (["--jsn"], "options are --json, --workers, --seconds"),
        (["-m", "seed=0,1"], "plan -m: settings are written name=value"),
        (["everything"], "settings are written name=value"),
    ],
)
def test_a_wrong_word_after_plan_is_answered_with_what_would_be_right(tmp_path, capsys, words, answer):
    assert main(["plan", *words], make_workbook(tmp_path)) == 2
    complaint = capsys.readouterr().err
    assert answer in complaint and "Traceback" not in complaint


def test_the_command_measures_a_notebook_and_leaves_nothing_behind(tmp_path):
    root = one_notebook(tmp_path / "book", IMPORTS, RUNS)
    code = "import sys, pathlib, fedlib.__main__ as app; sys.exit(app.main(sys.argv[2:], pathlib.Path(sys.argv[1])))"
    places = {"FEDLIB_RUNS": str(tmp_path / "runs"), "FEDLIB_REPORT": str(tmp_path / "report")}
    variables = os.environ | places | {"FEDLIB_PROGRESS": "0"}
    call = [sys.executable, "-c", code, str(root), "plan", "--seconds", "0.05", "--json"]
    done = subprocess.run(call, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    made = json.loads(done.stdout)
    assert made["notebooks"][0]["missing"] == 2
    assert 0 < made["total"]["wall_seconds"]["2"] < made["total"]["wall_seconds"]["1"]
    assert made["total"]["memory_bytes"] > 0 and made["total"]["result_bytes"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book"]
    assert not (root / "reports").exists()
