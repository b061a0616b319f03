"""Runs: stop and resume at any moment, share, fail alone, and never change by how they are executed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from conftest import empty_cache, synthetic_arrays

import fedlib
from fedlib import algorithms, simulate
from fedlib.data.files import write_atomically
from fedlib.problem import federation
from fedlib.runs import backends, store, study
from fedlib.runs.backends import inprocess, processes
from fedlib.runs.run import Run
from fedlib.runs.simulation import Progress
from fedlib.surroundings import REPOSITORY

pytestmark = pytest.mark.slow

DEAL = {"data_set": "toy", "partitioner": "dirichlet", "clients": 6, "alpha": 0.5, "l2": 0.01}
LOCAL = {"participation": 0.5, "lr": 0.2, "batch": 7, "steps": 3}
METHODS = {
    "acfmo": {"participation": 0.5, "steps": 3, "batch": 5},
    "fedavg": LOCAL,
    "fedala": LOCAL,
    "feddbe": LOCAL,
    "fedpac": LOCAL,
    "fedgh": {"participation": 0.5},
    "serveradam": {"participation": 0.5},
}


def write_data(folder: Path, seed: int = 0) -> None:
    np.savez(folder / "toy.npz", **synthetic_arrays(samples=120, features=9, classes=3, seed=seed))


@pytest.fixture
def store_folder(tmp_path, monkeypatch) -> Path:
    """A data set `toy` that worker processes can load by name, and an empty store of runs."""
    (tmp_path / "data").mkdir()
    write_data(tmp_path / "data")
    monkeypatch.setenv("FEDLIB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDLIB_CACHE", str(empty_cache(tmp_path / "cache")))
    monkeypatch.setenv("FEDLIB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FEDLIB_OFFLINE", "1")
    monkeypatch.delenv("FEDLIB_BACKEND", raising=False)
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def stop_workers():
    yield
    processes.stop_pool()


def toy_run(algorithm: str = "fedavg", rounds: int = 6, seed: int = 0, every: int = 1, label=None, **options) -> Run:
    return Run(algorithm, DEAL, rounds, seed, METHODS[algorithm] | options, every, label or {})


def records_bytes(run: Run) -> bytes:
    return (store.folder_of(run) / "records.csv").read_bytes()


def computed_elsewhere(run: Run, folder: Path, monkeypatch) -> bytes:
    """The records of the same run, uninterrupted, in a store of its own."""
    with monkeypatch.context() as patch:
        patch.setenv("FEDLIB_RUNS", str(folder))
        store.compute(run)
        return records_bytes(run)


# simulate


def test_one_record_for_each_measured_round_from_the_start_to_the_last(make_federation):
    fed, algorithm = make_federation(), algorithms.create("fedavg", **LOCAL)
    assert simulate(algorithm, fed, 5)["round"].tolist() == [0, 1, 2, 3, 4, 5]
    sparse = simulate(algorithm, fed, 7, every=3)
    assert sparse["round"].tolist() == [0, 3, 6, 7]
    dense = simulate(algorithm, fed, 7).set_index("round").loc[[0, 3, 6, 7]].reset_index()
    pd.testing.assert_frame_equal(sparse, dense)


def test_the_records_are_the_measures_of_the_states(make_federation):
    fed, algorithm = make_federation(), algorithms.create("fedavg", **LOCAL)
    records = simulate(algorithm, fed, 2)
    state = algorithm.init(fed)
    for round in (0, 1, 2):
        assert records.iloc[round].to_dict() == {"round": round} | algorithm.measure(fed, state)
        state = algorithm.round(fed, state, round + 1)


@pytest.mark.parametrize("arguments", [{"rounds": 0}, {"rounds": 3, "every": 0}])
def test_rounds_are_counted_from_one(make_federation, arguments):
    with pytest.raises(ValueError, match="must be a whole number of at least 1"):
        simulate(algorithms.create("fedavg", **LOCAL), make_federation(), **arguments)


@pytest.mark.parametrize("name", ["rounds", "every"])
@pytest.mark.parametrize("value", [1.5, "3", None, True, float("nan"), -2])
def test_rounds_are_whole_numbers_and_the_error_says_so(make_federation, name, value):
    arguments = {"rounds": 3, name: value}
    with pytest.raises(ValueError, match=rf"^{name}={value!r} must be .*1"):
        simulate(algorithms.create("fedavg", **LOCAL), make_federation(), **arguments)


def test_a_name_instead_of_a_method_or_a_description_instead_of_a_federation_is_explained(make_federation):
    with pytest.raises(
        TypeError, match=r"algorithm='fedavg' must be a method with its options, such as create\('fedavg'\)"
    ):
        simulate("fedavg", make_federation(), 3)
    with pytest.raises(TypeError, match="algorithm=.*FedAvg.* must be a method"):
        simulate(type(algorithms.create("fedavg")), make_federation(), 3)
    with pytest.raises(TypeError, match=r"federation is a dict: it must be what `fedlib.federate\(...\)` returns"):
        simulate(algorithms.create("fedavg", **LOCAL), DEAL, 3)


def test_numpys_whole_numbers_are_whole_numbers(make_federation, store_folder):
    assert simulate(algorithms.create("fedavg", **LOCAL), make_federation(), np.int64(2))["round"].tolist() == [0, 1, 2]
    assert toy_run(rounds=np.int64(6), seed=np.int32(0)).name == toy_run().name


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"seed": "one"}, "seed='one' must be a whole number in \\[0, 4294967295\\]"),
        ({"seed": -1}, "seed=-1 must be a whole number in \\[0, 4294967295\\]"),
        ({"seed": 0.0}, "seed=0.0 must be a whole number"),
        ({"rounds": 0}, "rounds=0 must be a whole number of at least 1"),
        ({"rounds": 1.5}, "rounds=1.5 must be a whole number of at least 1"),
        ({"every": 0}, "every=0 must be a whole number of at least 1"),
        ({"algorithm": algorithms.REGISTRY["fedavg"]}, "algorithm=.*FedAvg.* must be a name"),
        ({"federation": "toy"}, "federation='toy' must be a dictionary"),
        ({"options": [0.1]}, r"options=\[0.1\] must be a dictionary"),
        ({"label": "FedAvg"}, "label='FedAvg' must be a dictionary"),
    ],
)
def test_a_run_that_could_only_fail_later_is_not_made(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        replace(toy_run(), **changes)


class Stop(Exception):
    pass


@pytest.mark.parametrize("name", METHODS)
def test_resuming_after_any_round_equals_the_uninterrupted_run(make_federation, tmp_path, name):
    fed, algorithm = make_federation(l2=0.01), algorithms.create(name, **METHODS[name])
    whole = simulate(algorithm, fed, 5, every=2)

    def stop(progress: Progress) -> None:
        store.write_checkpoint(tmp_path / "checkpoint.npz", progress)
        if progress.round == stopping_at:
            raise Stop

    for stopping_at in (1, 2, 3, 4, 5):
        with pytest.raises(Stop):
            simulate(algorithm, fed, 5, every=2, after_round=stop)
        saved, _ = store.read_checkpoint(tmp_path / "checkpoint.npz")
        assert saved.round == stopping_at
        pd.testing.assert_frame_equal(simulate(algorithm, fed, 5, every=2, progress=saved), whole, check_exact=True)


def test_an_interrupt_inside_a_round_costs_that_round_only(make_federation):
    fed = make_federation()
    whole = simulate(algorithms.create("fedavg", **LOCAL), fed, 4)
    algorithm, progress = algorithms.create("fedavg", **LOCAL), Progress()
    interrupted = type("Interrupted", (type(algorithm),), {"measure": interrupt_at_call(3, type(algorithm).measure)})
    with pytest.raises(KeyboardInterrupt):
        simulate(interrupted(**LOCAL), fed, 4, progress=progress)
    assert progress.round == 1
    pd.testing.assert_frame_equal(simulate(algorithm, fed, 4, progress=progress), whole, check_exact=True)


def interrupt_at_call(number: int, measure):
    calls = iter(range(1, 100))

    def interrupted(self, fed, state):
        if next(calls) == number:
            raise KeyboardInterrupt
        return measure(self, fed, state)

    return interrupted


def test_checkpoints_keep_every_bit(tmp_path):
    state = {"weights": torch.rand(7), "seen": torch.tensor([True, False]), "count": torch.tensor(3)}
    records = [{"round": 0, "loss": 0.1 + 0.2}, {"round": 1, "loss": float("nan")}, {"round": 2, "loss": 1e-300}]
    store.write_checkpoint(tmp_path / "checkpoint.npz", Progress(1, state, records))
    back, _ = store.read_checkpoint(tmp_path / "checkpoint.npz")
    assert back.round == 1
    assert repr(back.records) == repr(records)
    for name, tensor in state.items():
        assert torch.equal(back.state[name], tensor)
        assert back.state[name].dtype == tensor.dtype
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]


# Damage


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    """One bit of one of the weights, all of which are 1."""
    return content.replace(b"\0\0\x80\x3f", b"\0\0\x80\x3e", 1)


def encrypt(content: bytes) -> bytes:
    """Set the bit that calls the first entry of a zip directory encrypted."""
    flags = content.index(b"PK\1\2") + 8
    return content[:flags] + bytes([content[flags] | 1]) + content[flags + 1 :]


def empty(content: bytes) -> bytes:
    return b""


def junk(content: bytes) -> bytes:
    return b"no checkpoint at all"


@pytest.mark.parametrize("damage", [cut, flip, encrypt, empty, junk])
def test_an_unreadable_checkpoint_is_set_aside_and_the_run_starts_afresh(
    store_folder, tmp_path, monkeypatch, capsys, damage
):
    run = toy_run()
    expected = computed_elsewhere(run, tmp_path / "other", monkeypatch)
    store.folder_of(run).mkdir(parents=True)
    checkpoint = store.folder_of(run) / "checkpoint.npz"
    state = {"weights": torch.ones(30)}
    store.write_checkpoint(checkpoint, Progress(2, state, [{"round": 0, "loss": 1.0}]))
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    damaged = checkpoint.read_bytes()
    store.compute(run)
    assert records_bytes(run) == expected
    assert (store.folder_of(run) / "checkpoint.unreadable").read_bytes() == damaged
    assert f"checkpoint of run {run.name} set aside" in capsys.readouterr().out


@pytest.mark.parametrize("damage", [cut, empty, lambda content: b"\0" * len(content)], ids=["cut", "empty", "zeros"])
@pytest.mark.parametrize("name", ["run.json", "records.csv"])
def test_a_torn_entry_of_the_store_is_set_aside_and_the_run_is_computed_again(store_folder, capsys, name, damage):
    run = toy_run()
    store.compute(run)
    file, expected = store.folder_of(run) / name, records_bytes(run)
    file.write_bytes(torn := damage(file.read_bytes()))
    assert store.finished(run.name) is None
    assert f"run {run.name} set aside in the store" in capsys.readouterr().out
    assert file.with_name(f"{name}.unreadable").read_bytes() == torn
    study.execute([run])
    assert records_bytes(run) == expected
    assert store.finished(run.name) is not None


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "records.csv"
    write_atomically(target, lambda part: part.write_text("old"))

    def disk_full(part: Path) -> None:
        part.write_text("half of the n")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_atomically(target, disk_full)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_run_whose_last_write_fails_is_not_finished_and_can_be_repeated(store_folder, tmp_path, monkeypatch):
    run = toy_run()
    expected = computed_elsewhere(run, tmp_path / "other", monkeypatch)

    def full_for_the_last(path, text):
        assert path.name == "run.json"
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_text", full_for_the_last)
        with pytest.raises(OSError, match="No space left"):
            store.compute(run)
    assert store.load(run) is None
    store.compute(run)
    assert records_bytes(run) == expected


# Killed processes

COMPUTE_SLOWLY = """
import fedlib, json, sys, time
from fedlib.runs import store
from fedlib.runs.run import Run
store.CHECKPOINT_SECONDS = 0.0
store.compute(Run(**json.loads(sys.argv[1])), after_round=lambda progress: time.sleep(0.05))
"""


def compute_in_a_process(run: Run) -> subprocess.Popen:
    arguments = {"algorithm": run.algorithm, "federation": run.federation, "rounds": run.rounds, "seed": run.seed}
    told = json.dumps(arguments | {"options": run.options, "every": run.every})
    return subprocess.Popen([sys.executable, "-c", COMPUTE_SLOWLY, told], cwd=Path(fedlib.__file__).parents[1])


def wait_for(condition, process: subprocess.Popen, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the process ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.005)


def further(checkpoint: Path, round: int) -> bool:
    """Whether the checkpoint of a run is past this round."""
    progress, _ = store.read_checkpoint(checkpoint)
    return progress is not None and progress.round > round


def test_a_killed_run_continues_to_the_same_bytes(store_folder, tmp_path, monkeypatch):
    run = toy_run("acfmo", rounds=200, every=7)
    expected = computed_elsewhere(run, tmp_path / "other", monkeypatch)
    checkpoint, reached = store.folder_of(run) / "checkpoint.npz", 0
    for _ in range(2):
        process = compute_in_a_process(run)
        wait_for(partial(further, checkpoint, reached), process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert store.load(run) is None
        reached = store.read_checkpoint(checkpoint)[0].round
        assert 0 < reached < run.rounds
    seen = []
    store.compute(run, after_round=lambda progress: seen.append(progress.round))
    assert seen[0] == reached + 1, "it continues where it was killed"
    assert records_bytes(run) == expected
    assert json.loads((store.folder_of(run) / "run.json").read_text())["resumed"] is True
    assert not checkpoint.exists()


def test_a_run_that_another_process_computes_is_waited_for(store_folder):
    run = toy_run(rounds=30)
    process = compute_in_a_process(run)
    wait_for((store.folder_of(run) / "checkpoint.npz").exists, process)
    seen = []
    records = store.compute(run, after_round=lambda progress: seen.append(progress.round))
    assert process.wait() == 0
    assert seen == []
    assert len(records) == 31


def test_threads_that_ask_for_the_same_run_compute_it_once(store_folder):
    run, seen, found = toy_run(rounds=10), [], []

    def ask() -> None:
        found.append(store.compute(run, after_round=lambda progress: seen.append(progress.round)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == list(range(1, 11))
    assert len(found) == 4
    for records in found[1:]:
        pd.testing.assert_frame_equal(records, found[0], check_exact=True)


# The name


def test_the_label_is_no_part_of_the_name_but_all_that_changes_results_is(store_folder):
    run = toy_run()
    assert toy_run(label={"method": "FedAvg"}).name == run.name
    others = [
        toy_run(lr=0.3),
        toy_run(rounds=7),
        toy_run(seed=1),
        toy_run(every=2),
        Run("fedala", DEAL, 6, 0, METHODS["fedala"]),
        Run("fedavg", DEAL | {"alpha": 0.4}, 6, 0, METHODS["fedavg"]),
    ]
    names = [run.name, *(other.name for other in others)]
    assert len(set(names)) == len(names)


def test_defaults_spelled_out_or_not_give_the_same_name(store_folder):
    run = toy_run()
    assert toy_run(momentum=0.0, epochs=None).name == run.name
    spelled = DEAL | {"network": "softmax", "samples": None, "min_size": 1}
    assert Run("fedavg", spelled, 6, 0, METHODS["fedavg"]).name == run.name
    assert Run("fedavg", dict(reversed(DEAL.items())), 6, 0, METHODS["fedavg"]).name == run.name
    assert Run("fedavg", DEAL | {"min_size": 2}, 6, 0, METHODS["fedavg"]).name != run.name


def test_replaced_data_gives_another_name_and_other_records(store_folder, tmp_path):
    first = store.compute(toy_run())
    write_data(tmp_path / "data", seed=1)
    second = store.compute(toy_run())
    assert not first["loss"].equals(second["loss"]), "the federation of the old data must not be used again"
    expected = simulate(algorithms.create("fedavg", **LOCAL), federation.federate(**DEAL, seed=0), 6)
    pd.testing.assert_frame_equal(second, expected, check_exact=True)


def test_an_unknown_method_or_option_is_answered_before_anything_runs(store_folder):
    with pytest.raises(ValueError, match="unknown algorithm 'fedawg'; known: acfmo"):
        study.execute([toy_run(), Run("fedawg", DEAL, 5, 0)])
    with pytest.raises(ValueError, match="fedavg has no option rate; it has: participation, lr"):
        study.execute([toy_run(), toy_run(rate=0.1)])
    assert not store_folder.exists()


# Studies


def grid() -> list[Run]:
    """Six runs with labels; the fifth repeats the first under another name."""
    named = [("fedavg", "fedavg", 0), ("fedavg", "fedavg", 1), ("acfmo", "acfmo", 0), ("acfmo", "acfmo", 1)]
    named += [("fedavg", "again", 0), ("fedpac", "fedpac", 0)]
    return [toy_run(name, seed=seed, label={"method": called, "share": 50}) for name, called, seed in named]


def test_the_number_of_processes_changes_no_byte(store_folder, tmp_path, monkeypatch):
    runs = grid()
    frames, files = [], []
    for backend, workers in (("inprocess", None), ("processes", 2)):
        monkeypatch.setenv("FEDLIB_RUNS", str(tmp_path / backend))
        frames.append(study.execute(runs, backend=backend, workers=workers))
        files.append({run.name: records_bytes(run) for run in runs})
    assert len(files[0]) == 5
    assert files[0] == files[1]
    pd.testing.assert_frame_equal(*frames, check_exact=True)


def test_a_study_is_one_tidy_frame_in_the_order_of_its_runs(store_folder):
    frame = study.execute(grid(), backend="inprocess")
    assert frame.columns[:4].tolist() == ["method", "share", "seed", "round"]
    assert frame["method"].drop_duplicates().tolist() == ["fedavg", "acfmo", "again", "fedpac"]
    assert len(frame) == 6 * 7
    first = frame[(frame["method"] == "fedavg") & (frame["seed"] == 0)].drop(columns="method").reset_index(drop=True)
    again = frame[frame["method"] == "again"].drop(columns="method").reset_index(drop=True)
    pd.testing.assert_frame_equal(first, again, check_exact=True)


def test_finished_runs_are_read_back_to_the_last_bit_and_not_repeated(store_folder, monkeypatch):
    first = study.execute(grid(), backend="inprocess")
    monkeypatch.setattr(fedlib.runs.run, "simulate", None)  # would fail if called
    pd.testing.assert_frame_equal(study.execute(grid(), backend="inprocess"), first, check_exact=True)


@pytest.mark.parametrize("backend", ["inprocess", "processes"])
def test_a_failing_run_is_told_with_its_config_and_stops_no_other(store_folder, backend):
    impossible = Run("fedavg", DEAL | {"clients": 5000}, 4, 3, METHODS["fedavg"])
    runs = [toy_run(), impossible, toy_run(seed=1)]
    with pytest.raises(study.RunFailed) as failure:
        study.execute(runs, backend=backend, workers=2)
    told = str(failure.value)
    assert told.startswith("1 of 3 runs failed, the others are stored.")
    assert "'clients': 5000" in told
    assert "5000 clients for 120 samples" in told
    assert store.load(runs[0]) is not None
    assert store.load(runs[2]) is not None
    assert store.load(impossible) is None


def test_when_a_worker_is_killed_new_ones_continue_and_nothing_changes(store_folder, tmp_path, monkeypatch):
    runs = [toy_run(rounds=800, every=400, seed=seed) for seed in (0, 1)]
    expected = [computed_elsewhere(run, tmp_path / "other", monkeypatch) for run in runs]

    def kill_a_worker() -> None:
        while not store_folder.exists() or not any(store_folder.iterdir()):
            time.sleep(0.01)
        os.kill(next(iter(processes._pool.executor._processes)), signal.SIGKILL)

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    assert len(study.execute(runs, backend="processes", workers=2)) == 2 * 3
    killer.join()
    assert [records_bytes(run) for run in runs] == expected


def kill_worker(folder: Path) -> str:
    """Work that kills its process, the first time or each time."""
    if folder.name != "once" or not any(folder.iterdir()):
        (folder / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def test_after_three_deaths_a_study_gives_up_and_says_what_helps(tmp_path):
    for name in ("once", "always"):
        (tmp_path / name).mkdir()
    work = [tmp_path / "once", tmp_path / "once"]
    assert [answer for _, answer in processes.in_workers(kill_worker, work, 2, lambda rounds: None)] == ["done", "done"]
    with pytest.raises(processes.WorkersDied, match="killed 3 times, with 1 to do. Most often that is memory"):
        list(processes.in_workers(kill_worker, [tmp_path / "always"], 1, lambda rounds: None))
    assert len(list((tmp_path / "always").iterdir())) == 3
    assert processes._pool is None, "the next study starts workers of its own"


def test_an_unknown_backend_is_answered_with_the_known_ones(store_folder, monkeypatch):
    with pytest.raises(ValueError, match="unknown backend 'cluster'; known: inprocess, processes"):
        study.execute([toy_run()], backend="cluster")
    monkeypatch.setenv("FEDLIB_BACKEND", "cloud")
    with pytest.raises(ValueError, match="unknown backend 'cloud'"):
        study.execute([toy_run()])


def test_the_old_name_of_the_variable_is_answered_with_the_new_one(store_folder, monkeypatch):
    monkeypatch.setenv("FEDLIB_ENGINE", "inprocess")
    with pytest.raises(ValueError, match="FEDLIB_ENGINE is now called FEDLIB_BACKEND"):
        study.execute([toy_run()])


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2"])
def test_workers_are_counted_from_one(store_folder, monkeypatch, workers):
    with pytest.raises(ValueError, match=f"workers={workers!r} must be"):
        study.execute([toy_run()], workers=workers)
    monkeypatch.setenv("FEDLIB_WORKERS", str(workers) if workers != "2" else "two")
    with pytest.raises(ValueError, match="FEDLIB_WORKERS=.* must be a whole number, 1 or more"):
        study.execute([toy_run()])


def parameter_names(function) -> list[str]:
    return [name for name in signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", backends.BACKENDS)
def test_every_backend_has_the_documented_functions_and_a_config(name):
    module = backends.load(name)
    for function in ("outcomes", "serving"):
        wanted = parameter_names(getattr(backends.Backend, function))
        assert parameter_names(getattr(module, function)) == wanted
    config = yaml.safe_load((REPOSITORY / "conf" / "backend" / f"{name}.yaml").read_text())
    assert config["name"] == name and "workers" in config
    assert list(module.outcomes([], 2, lambda rounds: None)) == []


@pytest.mark.parametrize("backend", ["inprocess", "processes"])
def test_a_backend_counts_the_rounds_it_computes(store_folder, backend):
    runs, counted = [toy_run(seed=seed) for seed in (0, 1)], []
    outcomes = list(backends.load(backend).outcomes(runs, 2, counted.append))
    assert {run.name for run, _ in outcomes} == {run.name for run in runs}
    assert sum(counted) == 12


def test_slurm_says_where_its_scheduler_comes_from(store_folder, monkeypatch):
    monkeypatch.delenv("FEDLIB_ADDRESS", raising=False)
    with pytest.raises(ConnectionError, match="python -m fedlib backend=slurm` starts one"):
        study.execute([toy_run()], backend="slurm")


def test_the_environment_names_backend_and_workers(store_folder, monkeypatch):
    asked = []

    def outcomes(runs, workers, count):
        asked.append(workers)
        yield from inprocess.outcomes(runs, workers, count)

    monkeypatch.setitem(backends.BACKENDS, "mine", "my_backend")
    monkeypatch.setitem(sys.modules, "my_backend", SimpleNamespace(outcomes=outcomes))
    monkeypatch.setenv("FEDLIB_BACKEND", "mine")
    monkeypatch.setenv("FEDLIB_WORKERS", "7")
    assert len(study.execute([toy_run()])) == 7
    assert asked == [7]


def test_what_was_run_is_told_beside_the_records(store_folder):
    run = toy_run()
    store.compute(run)
    about = json.loads((store.folder_of(run) / "run.json").read_text())
    assert (about["name"], about["maker"], about["kind"]) == (run.name, run.maker, run.kind)
    assert about["asked"]["algorithm"] == "fedavg"
    assert about["asked"]["options"] == METHODS["fedavg"]
    assert about["asked"]["federation"] == DEAL
    assert about["partition"] == federation.federate(**DEAL, seed=0).fingerprint
    assert about["versions"]["torch"] == torch.__version__.split("+")[0]
    assert about["resumed"] is False
