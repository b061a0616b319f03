"""The record: what is committed is found, checked, vouched for, and computed again."""

import gzip
import json
import shutil
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import synthetic_arrays
from hypothesis import given
from hypothesis import strategies as st

import fedlib
from fedlib import algorithms, data
from fedlib.algorithms.fedprox import FedProx
from fedlib.commands import record_cli, verify_cli
from fedlib.data.files import write_text
from fedlib.papers.fedgs.experiments import Park, participations
from fedlib.problem.federation import federate
from fedlib.report import holdings
from fedlib.report.usage import UsageError
from fedlib.runs import Run, computation, durations, execute, maker, record, store, study, tables, verify, versions
from fedlib.runs.backends.processes import WorkersDied
from fedlib.runs.simulation import simulate
from fedlib.runs.study import NotRecorded

pytestmark = pytest.mark.usefixtures("folders")
DEAL = {"data_set": "toy", "partitioner": "dirichlet", "clients": 6, "alpha": 0.5}


def toy_run(algorithm: str = "fedprox", seed: int = 0, rounds: int = 8, **options) -> Run:
    return Run(algorithm, DEAL, rounds, seed, {"lr": 0.2, "batch": 7, "steps": 3} | options, 2, {"method": algorithm})


def recorded(*runs: Run, paper: str = "toy", scale: str = "desk") -> None:
    """Compute runs and put them on record."""
    execute(runs)
    record.add(paper, scale, [store.finished(run.name) for run in runs], "0123abcd")


def without_store(folders: Path) -> None:
    shutil.rmtree(folders / "runs")


def test_clock_readings_on_record_stay_when_a_run_is_recorded_again(folders):
    run = toy_run()
    recorded(run)
    facts, content = store.finished(run.name)
    assert record.add("toy", "desk", [(facts | {"seconds": 99.0}, content.replace(b"0.", b"1."))], "4567") == []
    (kept,) = record.runs_of("toy").values()
    assert (kept.commit, kept.scales) == ("0123abcd", "desk") and kept.seconds != 99.0
    assert len(record.records_of("toy", kept)) > 0, "its table is the old one, with the old checksum"
    record.add("toy", "quick", [(facts, content)], "4567")
    assert record.runs_of("toy")[run.name].scales == "desk quick"


# Lookup


def test_a_recorded_run_is_read_to_the_last_bit_and_neither_computed_nor_stored(folders):
    runs = [toy_run(), toy_run("fedavg", seed=3)]
    before = execute(runs)
    recorded(*runs)
    without_store(folders)
    pd.testing.assert_frame_equal(execute(runs), before, check_exact=True)
    assert not (folders / "runs").exists()


def test_reading_needs_no_data_where_the_name_stands_for_known_bytes(folders, monkeypatch):
    run = replace(toy_run(), federation=DEAL | {"data_set": "cifar100"})
    facts = {"seconds": 1.0, "partition": "p", "versions": versions.versions(), "processor": "x"}
    facts |= {"name": run.name, "kind": run.kind, "asked": run.asked, "maker": run.maker}
    record.add("toy", "desk", [(facts, b"round,loss\n0,1.5\n")], "0123abcd")
    monkeypatch.setattr(data.chain, "load", lambda name: pytest.fail("the data were loaded"))
    assert execute([run])["loss"].tolist() == [1.5]


@pytest.mark.slow
def test_known_fingerprints_are_those_of_the_data():
    for name in ("handwriting",):
        assert data.load(name).fingerprint == data.fingerprint_of(name)


def test_only_what_is_recorded_may_be_asked_for_fails_at_once(folders, monkeypatch):
    recorded(toy_run())
    monkeypatch.setenv("FEDLIB_RECORD", "only")
    execute([toy_run()])
    monkeypatch.setattr(study.store, "compute", lambda *task: pytest.fail("it was computed"))
    with pytest.raises(NotRecorded, match=r"not on record: fedprox\(batch, lr, mu, steps\) toy dirichlet"):
        execute([toy_run(mu=0.5)])


def test_what_other_code_recorded_is_computed_anew_or_marked_or_refused(folders, monkeypatch):
    recorded(toy_run())
    by_other_code(toy_run())
    expected = execute([toy_run()])
    assert expected["loss"].iloc[-1] != 99.0, "the store has it by the present code"
    used = folders / "used.csv"
    monkeypatch.setenv("FEDLIB_USED", str(used))
    monkeypatch.setenv("FEDLIB_RECORD", "stale")
    assert execute([toy_run()])["loss"].iloc[-1] == 99.0
    assert used.read_text() == f"{toy_run().name},stale\n"
    monkeypatch.setenv("FEDLIB_RECORD", "only")
    with pytest.raises(NotRecorded, match="recorded by other code than the present"):
        execute([toy_run()])
    monkeypatch.setenv("FEDLIB_RECORD", "ignore")
    pd.testing.assert_frame_equal(execute([toy_run()]), expected)


def by_other_code(run: Run, loss: float = 99.0) -> None:
    """Replace the recorded run by one of another maker with another last loss."""
    frame = store.load(run)
    frame.loc[frame.index[-1], "loss"] = loss
    facts, _ = store.finished(run.name)
    record.add("toy", "desk", [(facts | {"maker": "f" * 16}, tables.to_csv(frame))], "0123abcd")


def test_a_wrong_word_for_the_record_is_answered_with_the_right_ones(monkeypatch):
    monkeypatch.setenv("FEDLIB_RECORD", "never")
    with pytest.raises(ValueError, match="FEDLIB_RECORD=never must be one of use, stale, only, ignore"):
        execute([toy_run()])


@pytest.mark.parametrize("harm", ["records", "line", "truncated"])
def test_a_damaged_or_edited_record_is_noticed_and_not_used(folders, monkeypatch, capsys, harm):
    recorded(toy_run())
    expected = execute([toy_run()])
    place = folders / "recorded" / "toy"
    file = place / f"{toy_run().name}.csv.gz"
    if harm == "records":
        file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(b"0,", b"1,", 1)))
    elif harm == "truncated":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        text = (place / "runs.csv").read_text()
        (place / "runs.csv").write_text(text.replace("0123abcd", "4567cdef"))
    pd.testing.assert_frame_equal(execute([toy_run()]), expected)
    assert "git checkout" in capsys.readouterr().err
    monkeypatch.setenv("FEDLIB_RECORD", "only")
    with pytest.raises(record.DamagedRecord):
        execute([toy_run()])


def cut_off(text: str) -> str:
    return text[: len(text) - 120]


def with_conflict(text: str) -> str:
    header, line = text.splitlines()
    return "\n".join([header, "<<<<<<< HEAD", line, "=======", line, ">>>>>>> theirs", ""])


def with_open_quote(text: str) -> str:
    return text + '"' + "x" * 200_000


def with_a_word_for_seconds(text: str) -> str:
    return text.replace(",0123abcd,", ",0123abcd,long")


@pytest.mark.parametrize("harm", [cut_off, with_conflict, with_open_quote, with_a_word_for_seconds])
def test_a_damaged_table_is_noticed_and_not_used_and_other_papers_are_still_read(folders, monkeypatch, capsys, harm):
    recorded(toy_run(), paper="aaa")
    recorded(toy_run("fedavg"), paper="toy")
    expected = execute([toy_run()])
    file = folders / "recorded" / "aaa" / "runs.csv"
    file.write_text(harm(file.read_text()))
    damaged = file.read_bytes()
    pd.testing.assert_frame_equal(execute([toy_run()]), expected)
    assert f"git checkout -- {file} It is not used." in capsys.readouterr().err
    assert "the record is damaged" in durations.forecast([toy_run(seed=7)], 2)
    execute([toy_run(seed=7)])
    assert f"git checkout -- {file} It is not used." not in capsys.readouterr().err, "it is not said for every run"
    monkeypatch.setenv("FEDLIB_RECORD", "only")
    execute([toy_run("fedavg")])
    with pytest.raises(record.DamagedRecord):
        execute([toy_run()])
    with pytest.raises(UsageError, match="git checkout"):
        verify_cli.run([], folders)
    assert verify_cli.run(["paper=toy"], folders) == 0
    with pytest.raises(record.DamagedRecord):
        recorded(toy_run(seed=8), paper="aaa")
    assert file.read_bytes() == damaged, "and what is left of it can be looked at"


def test_a_damaged_table_of_equivalents_vouches_for_what_is_left_in_it(folders):
    recorded(toy_run())
    line = record.runs_of("toy")[toy_run().name]
    record.accept(line, "a" * 16, "0123abcd")
    file = folders / "recorded" / "equivalents.csv"
    file.write_text("<<<<<<< HEAD\n" + file.read_text() + "=======\nfedprox(")
    assert (line.kind, line.maker, "a" * 16) in record.equivalents()
    record.accept(line, "b" * 16, "0123abcd")
    assert (line.kind, line.maker, "b" * 16) in record.equivalents()


def test_commands_at_the_same_time_lose_none_of_each_others_lines(folders, monkeypatch):
    execute([toy_run(seed=seed) for seed in range(4)])
    finished = [store.finished(toy_run(seed=seed).name) for seed in range(4)]
    real = record.write_text
    monkeypatch.setattr(record, "write_text", lambda path, text: (time.sleep(0.05), real(path, text)))
    recorded(toy_run())
    line = record.runs_of("toy")[toy_run().name]
    calls = [partial(record.add, "toy", "desk", [facts], "0123abcd") for facts in finished]
    calls += [partial(record.accept, line, maker * 16, "0123abcd") for maker in "abcd"]
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(record.runs_of("toy")) == 4
    assert {accepted[0] for _, _, accepted in record.equivalents()} >= set("abcd")


def test_recording_again_changes_no_byte_and_another_scale_is_added(folders):
    recorded(toy_run())
    files = {file: file.read_bytes() for file in (folders / "recorded").rglob("*") if file.is_file()}
    recorded(toy_run())
    assert {file: file.read_bytes() for file in files} == files
    recorded(toy_run(), scale="quick")
    assert record.runs_of("toy")[toy_run().name].scales == "desk quick"


def test_without_git_the_record_cannot_name_a_commit_and_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="record: there is no git on the path"):
        record_cli.commit_of_code("record")


def test_what_a_scale_does_not_use_is_dropped_on_demand(folders):
    recorded(toy_run(), toy_run("fedavg"))
    assert record.keep_only("toy", "desk", [toy_run().name]) == 1
    assert list(record.runs_of("toy")) == [toy_run().name]
    assert [file.name for file in (folders / "recorded" / "toy").glob("*.gz")] == [f"{toy_run().name}.csv.gz"]
    execute([toy_run()])


# Studies


def test_a_run_stops_at_its_target_and_is_another_run_than_one_that_does_not(folders):
    whole = execute([toy_run()])
    target = float(whole["accuracy"].iloc[2])
    first = int(whole.loc[whole["accuracy"] >= target, "round"].iloc[0])
    stopped = execute([replace(toy_run(), stop_at={"accuracy": target})])
    assert stopped["round"].iloc[-1] == first
    assert len(stopped) < len(whole)
    pd.testing.assert_frame_equal(stopped, whole.head(len(stopped)))
    assert replace(toy_run(), stop_at={"accuracy": target}).name != toy_run().name


def test_a_loss_is_reached_from_above(folders):
    whole = execute([toy_run()])
    target = float(whole["loss"].iloc[2])
    stopped = execute([replace(toy_run(), stop_at={"loss": target})])
    assert stopped["loss"].iloc[-1] <= target < stopped["loss"].iloc[-2]


@pytest.mark.parametrize("wrong", [{}, 0.9, {"accuracy": "high"}, {"accuracy": float("nan")}])
def test_what_is_no_target_is_refused(wrong):
    with pytest.raises(ValueError, match="stop_at"):
        replace(toy_run(), stop_at=wrong)


def test_a_target_that_is_not_measured_is_answered_with_what_is():
    with pytest.raises(study.RunFailed, match="stop_at names precision, which is not measured; there is: round, loss"):
        execute([replace(toy_run(), stop_at={"precision": 0.5})])


def test_the_forecast_says_how_many_why_and_how_long(folders):
    assert (
        durations.forecast([toy_run()], 2)
        == "1 to compute (not on record); the progress bar will tell how long it takes"
    )
    recorded(toy_run())
    line = record.runs_of("toy")[toy_run().name]
    record.write_runs("toy", [replace(line, seconds=400.0, line="").sealed()])
    assert durations.expected(toy_run(seed=5)) == pytest.approx(400)
    assert durations.expected(toy_run(seed=5, rounds=16)) == pytest.approx(800)
    assert durations.expected(toy_run("fedavg")) is None
    told = durations.forecast([toy_run(), toy_run(seed=5), toy_run(seed=6), toy_run(seed=7)], 2)
    assert (
        told
        == "4 to compute (1 recorded by other code, at commit 0123abcd; 3 not on record); about 13 min with 2 at a time"
    )


def test_the_forecast_grows_with_the_passes_over_the_data(folders):
    two_epochs = toy_run(steps=None, epochs=2)
    recorded(two_epochs)
    line = record.runs_of("toy")[two_epochs.name]
    record.write_runs("toy", [replace(line, seconds=400.0, line="").sealed()])
    assert durations.expected(toy_run(seed=5, steps=None, epochs=6)) == pytest.approx(1200)
    assert durations.expected(toy_run(seed=5, rounds=16, steps=None, epochs=2)) == pytest.approx(800)


def test_one_more_seed_costs_the_mean_of_the_seeds_of_the_largest_scale_and_tuning_nothing(folders):
    assert durations.seconds_per_seed("toy") is None
    tuning = replace(toy_run(seed=9), federation=DEAL | {"validation_share": 0.2})
    recorded(toy_run(), toy_run("fedavg"), toy_run(seed=1), toy_run("fedavg", seed=1), tuning)
    recorded(toy_run(seed=2), scale="quick")
    seconds = dict.fromkeys(record.runs_of("toy"), 30.0) | {tuning.name: 5000.0, toy_run(seed=2).name: 1.0}
    lines = record.runs_of("toy").values()
    record.write_runs("toy", [replace(line, seconds=seconds[line.name], line="").sealed() for line in lines])
    assert durations.seconds_per_seed("toy") == pytest.approx(60)


# Verification


def test_what_is_recorded_comes_out_again_by_its_first_rounds_and_whole(folders):
    recorded(toy_run(), toy_run(seed=1), toy_run("fedavg"))
    chosen = verify.one_of_each_kind(record.everything())
    assert sorted(run.kind.split("(")[0] for _, run in chosen) == ["fedavg", "fedprox"]
    first = list(verify.check_all(chosen, "first rounds", workers=1))
    assert [(result.outcome, result.rows, result.of) for result in first] == [("equal", 3, 5)] * 2
    whole = list(verify.check_all(list(record.everything()), "whole", workers=1))
    assert [(result.outcome, result.rows) for result in whole] == [("equal", 5)] * 3


@pytest.mark.parametrize(
    ("run", "seconds", "rounds"),
    [
        (toy_run(), 59, None),
        (toy_run(), 120, 2),
        (Run("rexp3", DEAL, 8, 0, {"restart": 3}), 120, None),
        (Run("fedacs", DEAL, 8, 0), 120, 2),
        (Run("fedacs", DEAL, 8, 0, {"stop": 3}), 120, None),
    ],
    ids=["short", "long", "restarts", "never stops", "stops"],
)
def test_a_minute_of_a_long_run_is_enough_unless_its_method_changes_later(run, seconds, rounds):
    recorded = pd.DataFrame({"round": range(5)})
    assert verify.rounds_of(run, "beginning", recorded, seconds) == rounds
    assert verify.rounds_of(run, "whole", recorded, seconds) is None


def test_the_beginning_of_a_run_is_compared_with_as_much_of_its_record(folders):
    recorded(toy_run())
    line = replace(record.runs_of("toy")[toy_run().name], seconds=80.0, line="").sealed()
    record.write_runs("toy", [line])
    result = verify.check("toy", line, "beginning")
    assert (result.outcome, result.rows, result.of) == ("equal", 4, 5)


def test_a_broken_method_is_caught(folders, monkeypatch):
    recorded(toy_run(), toy_run("fedavg"))
    real = FedProx.round
    monkeypatch.setattr(FedProx, "round", lambda self, *given: {"weights": real(self, *given)["weights"] * 1.0000001})
    outcomes = {run.kind.split("(")[0]: verify.check(paper, run, "first rounds") for paper, run in record.everything()}
    assert (outcomes["fedavg"].outcome, outcomes["fedprox"].outcome) == ("equal", "differs")
    assert "in round" in outcomes["fedprox"].note
    assert verify_cli.run([], Path()) == 1


def test_another_processor_or_library_is_forgiven_its_rounding_and_nothing_more(folders, monkeypatch):
    recorded(toy_run())
    line = replace(record.runs_of("toy")[toy_run().name], processor="another machine", line="").sealed()
    record.write_runs("toy", [line])
    assert verify.check("toy", line, "whole").outcome == "equal"
    real = FedProx.round
    monkeypatch.setattr(FedProx, "round", lambda self, *given: {"weights": real(self, *given)["weights"] * 1.000001})
    near = verify.check("toy", line, "whole")
    assert near.outcome == "equal within rounding"
    assert "another machine" in near.note
    monkeypatch.setattr(FedProx, "round", lambda self, *given: {"weights": real(self, *given)["weights"] * 1.1})
    assert verify.check("toy", line, "whole").outcome == "differs"


def test_without_its_data_a_run_is_not_checked(folders):
    recorded(toy_run("fedavg"))
    line = record.runs_of("toy")[toy_run("fedavg").name]
    asked = json.loads(line.asked)
    asked["federation"]["data_set"] = "cifar100"
    other = Run(**asked)
    facts = {"seconds": 1.0, "partition": "p", "versions": versions.versions(), "processor": "x"}
    facts |= {"name": other.name, "kind": other.kind, "asked": other.asked, "maker": other.maker}
    record.add("toy", "desk", [(facts, b"round,loss\n0,1.5\n")], "0123abcd")
    result = verify.check("toy", record.runs_of("toy")[other.name], "first rounds")
    assert (result.outcome, result.note) == ("not checked", "needs cifar100, which is not here")


def test_code_is_accepted_for_a_kind_when_a_whole_run_of_it_comes_out_equal(folders, monkeypatch, capsys):
    recorded(toy_run(), toy_run(seed=1))
    recorded(toy_run("fedavg"))
    lines = [replace(run, maker="f" * 16, line="").sealed() for _, run in record.everything()]
    record.write_runs("toy", lines)
    by_other_code(toy_run("fedavg"))  # and its digits are not those of the present code
    monkeypatch.setattr(record, "commit", lambda: "89abcdef")
    assert verify_cli.run(["paper=toy", "--accept"], Path()) == 1
    told = capsys.readouterr().out
    assert "1 equal" in told
    assert "1 differs" in told
    monkeypatch.setenv("FEDLIB_RECORD", "only")
    execute([toy_run(), toy_run(seed=1)])
    with pytest.raises(NotRecorded):
        execute([toy_run("fedavg")])
    assert [run.kind.split("(")[0] for _, run in verify.not_vouched_for(record.everything())] == ["fedavg"]


def of_another_version(run: Run) -> None:
    """Put a run on record under the name it would have with other data."""
    facts, content = store.finished(run.name)
    record.add("toy", "desk", [(facts | {"name": "0" * 20}, content)], "0123abcd")


def test_another_version_of_the_data_is_no_damage(folders, monkeypatch):
    execute([toy_run()])
    of_another_version(toy_run())
    (line,) = record.runs_of("toy").values()
    result = verify.check("toy", line, "first rounds")
    assert (result.outcome, result.rows) == ("not checked", 0)
    assert result.note == "another version of toy is here than the one behind it"
    monkeypatch.setitem(verify.FINGERPRINTS, "toy", data.fingerprint_of("toy"))
    assert verify.check("toy", line, "first rounds").outcome == "damaged", "the data are those behind it"


def that_cannot_be_made_again(run: Run, asked: str) -> None:
    line = replace(record.runs_of("toy")[run.name], kind="old", asked=asked, line="").sealed()
    record.write_runs("toy", [*(line for line in record.runs_of("toy").values() if line.name != run.name), line])


@pytest.mark.parametrize(
    "asked", ['{"algorithm": "forgotten"', '{"algorithm": "forgotten", "federation": {}, "rounds": 1, "seed": 0}']
)
@pytest.mark.parametrize("words", [[], ["--all"], ["--accept"]], ids=" ".join)
def test_a_run_that_cannot_be_made_again_does_not_end_the_others(folders, monkeypatch, capsys, words, asked):
    recorded(toy_run(), toy_run("fedavg"))
    that_cannot_be_made_again(toy_run("fedavg"), asked)
    by_other_code(toy_run(), loss=store.load(toy_run())["loss"].iloc[-1])
    monkeypatch.setattr(record, "commit", lambda: "89abcdef")
    assert verify_cli.run(words, folders) == 1
    told = capsys.readouterr().out
    assert "failed   " in told and "the present code cannot compute it: " in told
    assert "1 equal" in told and "Checked: 1 kinds, 1 runs," in told


def test_a_run_that_raises_is_an_outcome_with_its_message(folders, monkeypatch):
    recorded(toy_run())
    (line,) = record.runs_of("toy").values()
    monkeypatch.setattr(FedProx, "round", lambda self, *given: 1 / 0)
    result = verify.check("toy", line, "whole")
    assert (result.outcome, result.note) == (
        "failed",
        "the present code cannot compute it: ZeroDivisionError: division by zero",
    )


def test_where_nothing_could_be_compared_verify_fails_and_counts_nothing(folders, capsys):
    assert verify_cli.run([], folders) == 1, "nothing is on record"
    execute([toy_run()])
    of_another_version(toy_run())
    assert verify_cli.run([], folders) == 1
    told = capsys.readouterr().out
    assert "1 not checked. Checked: 0 kinds, 0 runs, 0 measurements; of 1 kinds, 1 runs on record." in told
    assert "No run could be compared" in told


def test_where_there_is_no_new_code_to_accept_all_is_fine(folders, monkeypatch):
    recorded(toy_run())
    monkeypatch.setattr(record, "commit", lambda: "89abcdef")
    assert verify_cli.run(["--accept"], folders) == 0


@pytest.mark.parametrize(
    ("reason", "code", "said"),
    [(KeyboardInterrupt(), 130, "Interrupted, before 1 of 2 runs were checked."), (WorkersDied("memory"), 1, "memory")],
)
def test_a_verification_that_is_cut_short_shows_what_it_checked(folders, monkeypatch, capsys, reason, code, said):
    recorded(toy_run(), toy_run("fedavg"))

    def cut_short(runs, extent, workers, count):
        yield verify.check(*runs[0], extent)
        raise reason

    monkeypatch.setattr(verify, "check_all", cut_short)
    assert verify_cli.run([], folders) == code
    told = capsys.readouterr()
    assert "equal      " in told.out and "1 equal. Checked: 1 kinds, 1 runs, 3 measurements" in told.out
    assert said in told.err and "Finished runs are kept" not in told.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["paper=nobody"], "it has no recorded runs"),
        (["--sample", "0"], "1 or more"),
        (["--everything"], "it takes paper=name"),
        (["--all", "--accept"], "not allowed with"),
    ],
)
def test_verify_answers_wrong_words(words, complaint):
    with pytest.raises(UsageError, match=complaint):
        verify_cli.run(words, Path())


def test_code_that_is_not_committed_is_not_accepted_and_nothing_is_computed_first(folders, monkeypatch):
    def uncommitted() -> str:
        raise ValueError("fedlib/ has changes that are not committed")

    recorded(toy_run())
    monkeypatch.setattr(record, "commit", uncommitted)
    monkeypatch.setattr(verify_cli, "carry_out", lambda *_: pytest.fail("it computed before it asked"))
    with pytest.raises(UsageError, match="verify --accept: fedlib/ has changes that are not committed"):
        verify_cli.run(["paper=toy", "--accept"], Path())


def test_record_takes_what_the_reports_of_a_paper_used(folders, monkeypatch, capsys):
    monkeypatch.setattr(record, "commit", lambda: "89abcdef")
    with pytest.raises(UsageError, match="build it first"):
        record_cli.run(["paper=toy", "scale=desk"], folders)
    monkeypatch.setenv("FEDLIB_USED", str(folders / "reports" / "desk" / "used" / "toy-fine.csv"))
    execute([toy_run()])
    monkeypatch.delenv("FEDLIB_USED")
    execute([toy_run(seed=4)])
    record_cli.run(["paper=toy", "scale=desk"], folders)
    assert list(record.runs_of("toy")) == [toy_run().name]
    assert "1 recorded" in capsys.readouterr().out
    assert record.runs_of("toy")[toy_run().name].commit == "89abcdef"
    with pytest.raises(UsageError, match="it takes paper=name scale=name"):
        record_cli.run(["paper=toy"], folders)


@pytest.fixture
def built(folders, monkeypatch) -> Path:
    """A report of two notebooks, each with a run, and a third run on record that neither uses."""
    monkeypatch.setattr(record, "commit", lambda: "89abcdef")
    recorded(toy_run(seed=9))
    report = folders / "reports" / "desk"
    for number, name in enumerate(("fine", "wide")):
        (folders / "notebooks" / "toy").mkdir(parents=True, exist_ok=True)
        (folders / "notebooks" / "toy" / f"0{number}_{name}.ipynb").touch()
        with monkeypatch.context() as patch:
            patch.setenv("FEDLIB_USED", str(report / "used" / f"toy-{name}.csv"))
            execute([toy_run(seed=number)])
        execution(report, name)
    return folders


def execution(report: Path, name: str, **about) -> None:
    """The executed notebook of a report, in which one run was used."""
    runs = {"recorded": 0, "stale": 0, "computed": 1}
    told = {"paper": "toy", "notebook": name, "scale": "desk", "error": None, "runs": runs} | about
    write_text(report / "executed" / f"toy-{name}.ipynb", json.dumps({"metadata": {"fedlib": told}}))


def record_only(folders: Path) -> int:
    return record_cli.run(["paper=toy", "scale=desk", "--only"], folders)


def test_what_no_notebook_of_a_whole_report_used_is_dropped(built, capsys):
    assert record_only(built) == 0
    assert set(record.runs_of("toy")) == {toy_run(seed=0).name, toy_run(seed=1).name}
    assert "2 recorded, 1 dropped" in capsys.readouterr().out


def not_built(report: Path) -> None:
    (report / "used" / "toy-wide.csv").unlink()
    (report / "executed" / "toy-wide.ipynb").unlink()


def interrupted(report: Path) -> None:
    (report / "used" / "toy-wide.csv").write_text("")


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (not_built, "toy.wide not built to the end"),
        (interrupted, "toy.wide not built to the end"),
        (lambda report: execution(report, "wide", error="cell 3: OSError"), "toy.wide failed"),
    ],
)
def test_nothing_is_dropped_by_a_report_that_lacks_a_notebook(built, harm, complaint):
    harm(built / "reports" / "desk")
    with pytest.raises(UsageError, match=complaint):
        record_only(built)
    assert list(record.runs_of("toy")) == [toy_run(seed=9).name]
    assert record_cli.run(["paper=toy", "scale=desk"], built) == 0, "but what is finished can be recorded"


def test_runs_of_a_paper_that_is_shown_at_another_scale_are_not_recorded_as_of_this_one(built):
    execution(built / "reports" / "desk", "fine", scale="quick")
    with pytest.raises(UsageError, match="shows toy-fine at quick scale, so its runs are not those of scale=desk"):
        record_cli.run(["paper=toy", "scale=desk"], built)
    assert list(record.runs_of("toy")) == [toy_run(seed=9).name]


# Computations


@dataclass(frozen=True)
class Dice:
    sides: int = 6
    count: int = 2


CALLS = []


@computation(clock=("seconds",))
def throws(dice: Dice, seed: int, scale: float = 1.0) -> pd.DataFrame:
    CALLS.append(seed)
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"eyes": rng.integers(1, dice.sides + 1, dice.count) * scale, "seconds": float(len(CALLS))})


def test_a_computation_is_kept_by_its_arguments_recorded_and_verified(folders):
    CALLS.clear()
    first = throws(Dice(), seed=3)
    pd.testing.assert_frame_equal(throws(Dice(6, 2), 3), first)
    assert CALLS == [3]
    assert not throws(Dice(count=2, sides=20), 3).equals(first)
    call = throws.call(Dice(), seed=np.int64(3))
    record.add("toy", "desk", [store.finished(call.name)], "0123abcd")
    without_store(folders)
    pd.testing.assert_frame_equal(throws(Dice(), 3), first)
    assert CALLS == [3, 3]
    result = verify.check("toy", record.runs_of("toy")[call.name], "first rounds")
    assert (result.outcome, result.rows) == ("equal", 2), "clock readings are not compared"


@dataclass(frozen=True)
class Cell:
    radius: float = 2.0
    range: tuple[float, float] = (1.0, 3.0)


@computation
def kinds_of(cell: Cell, share: float, count: int) -> pd.DataFrame:
    values = {"radius": cell.radius, "range": cell.range, "low": cell.range[0], "share": share, "count": count}
    return pd.DataFrame([{name: type(value).__name__ for name, value in values.items()}])


def test_plain_arguments_become_again_what_they_stood_for():
    found = kinds_of(Cell(), 1.0, 1).iloc[0].to_dict()
    assert found == {"radius": "float", "range": "tuple", "low": "float", "share": "float", "count": "int"}


@computation
def listed(things: dict) -> pd.DataFrame:
    return pd.DataFrame({"thing": list(things)})


def test_a_dictionary_has_one_order_however_it_was_written():
    """Its name has none, so that the frame must not have another."""
    assert listed({"b": 1, "a": 2}).equals(listed.call({"b": 1, "a": 2}).compute())
    assert listed.call({"b": 1, "a": 2}).compute()["thing"].tolist() == ["a", "b"]


@computation
def sizes_of(federation: dict, seed: int) -> pd.DataFrame:
    return pd.DataFrame({"samples": federate(**federation, seed=seed).sizes.tolist()})


def test_what_a_computation_names_counts_for_its_maker_and_nothing_else():
    """In its arguments, and in the texts of its code."""
    sources = maker.sources()

    def counts(call, function):
        before, known = call.maker, sources._digests.copy()
        for place, (_, used) in known.items():
            if place[1] == function:
                sources._digests[place] = "changed", used
        sources._makers.clear()
        try:
            return replace(call).maker != before
        finally:
            sources._digests.update(known)
            sources._makers.clear()

    named = holdings.class_counts.call(DEAL, 0)
    assert [name for name in ("federate", "dirichlet", "softmax", "shards", "mlp200") if counts(named, name)] == [
        "federate",
        "dirichlet",
        "softmax",  # the default
    ]
    written = participations.call(Park("handwriting"), 0, 3)
    assert [name for name in ("FedGS", "by_writer", "cnn_leaf", "dirichlet") if counts(written, name)] == [
        "FedGS",
        "by_writer",
        "cnn_leaf",
    ]


def test_where_only_data_are_missing_the_study_says_what_to_do_about_them(folders):
    (folders / "data" / "toy.npz").rename(folders / "toy.npz")
    with pytest.raises(data.DataNotFound, match=r"mnist was not found(.|\n)*What you can do"):
        execute([replace(toy_run(), federation=DEAL | {"data_set": "mnist"})])
    with pytest.raises(data.DataNotFound, match="mnist was not found"):
        sizes_of(DEAL | {"data_set": "mnist"}, 0)


def test_what_is_no_plain_argument_is_refused():
    with pytest.raises(TypeError, match="seed is a ndarray: a computation is kept by its arguments"):
        throws(Dice(), seed=np.arange(3))


def test_the_data_of_a_computation_are_part_of_its_name(folders):
    call = throws.call({"data_set": "toy"}, 1)
    before = call.name
    assert call.data_sets == ["toy"]
    np.savez(folders / "data" / "toy.npz", **synthetic_arrays(samples=120, features=9, classes=3, seed=1))
    assert throws.call({"data_set": "toy"}, 1).name != before


# Tables


@given(
    st.lists(st.lists(st.floats(width=64), min_size=12, max_size=12), min_size=1, max_size=6),
    st.lists(st.floats(allow_infinity=True), min_size=6, max_size=6),
)
def test_records_survive_as_csv_to_the_last_bit(rows, scores):
    frame = pd.DataFrame(rows, columns=[f"times_{client}" for client in range(12)])
    frame.insert(0, "round", range(len(frame)))
    frame["accuracy"] = scores[: len(frame)]
    frame["group_1"] = 0.5
    back = tables.from_csv(tables.to_csv(frame))
    pd.testing.assert_frame_equal(back.astype(float), frame.astype(float), check_exact=True)


def test_one_column_per_client_is_folded_into_what_changed():
    counts = np.zeros((3, 20))
    counts[1:, 4] += 1
    counts[2:, [4, 7]] += 1
    frame = pd.DataFrame(counts, columns=[f"times_{client}" for client in range(20)])
    lines = tables.to_csv(frame).decode().splitlines()
    assert lines[0] == "times by number"
    assert lines[2:] == ["4=1.0", "4=2.0 7=1.0"]


def test_a_frame_of_few_numbered_columns_stays_as_it_is():
    frame = pd.DataFrame({"round": [0], "group_0": [1.0], "group_1": [2.0]})
    assert tables.to_csv(frame) == b"round,group_0,group_1\n0,1.0,2.0\n"


def test_simulate_stops_at_once_where_the_start_is_good_enough(make_federation):
    frame = simulate(algorithms.create("fedavg"), make_federation(), 5, stop_at={"accuracy": 0.0})
    assert frame["round"].tolist() == [0]
    assert fedlib.simulate is simulate
