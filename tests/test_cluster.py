"""Runs on a Dask cluster: a real scheduler and worker processes on loopback, which lose workers, clients and data."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pytest
from conftest import empty_cache, synthetic_arrays
from distributed import KilledWorker
from toy_workbook import REPOSITORY

from fedlib.commands.dask_cli import with_defaults
from fedlib.report.produce import kernel_environment
from fedlib.report.settings import compose_job
from fedlib.report.usage import UsageError
from fedlib.runs import backends, store, study, versions
from fedlib.runs.backends import dask as client
from fedlib.runs.backends import legs, slurm
from fedlib.runs.run import Run, federation_of
from fedlib.runs.simulation import Progress

pytestmark = pytest.mark.slow

DEAL = {"data_set": "toy", "partitioner": "dirichlet", "clients": 6, "alpha": 0.5, "l2": 0.01}  # ragged clients
LOCAL = {"participation": 0.5, "lr": 0.2, "batch": 7, "steps": 3}
PATIENCE = 300  # seconds; only a test that hangs waits that long


def write_data(folder: Path, seed: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "toy.npz", **synthetic_arrays(samples=120, features=9, classes=3, seed=seed))
    return folder


def wait_for(condition, what: str):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


class Cluster:
    """A scheduler and workers, each worker with folders of its own for data and for the store it must not touch."""

    def __init__(self, folder: Path):
        self.folder, self.workers = folder, {}
        log = folder / "scheduler.log"
        self.scheduler = self._start("scheduler", log, "--port", "0")
        self.address = wait_for(lambda: re.search(r"Scheduler at: +(\S+)", log.read_text()), "no scheduler")[1]

    def _start(self, command: str, log: Path, *options: str, **environment: str) -> subprocess.Popen:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FEDLIB_")}
        call = [sys.executable, "-m", "fedlib", "dask", command, *options]
        with log.open("w") as file:
            return subprocess.Popen(
                call, cwd=REPOSITORY, env=inherited | environment, stdout=file, stderr=subprocess.STDOUT
            )

    def start_worker(self, name: str) -> subprocess.Popen:
        """Without a nanny, which would start it again; with `toy` unless a data folder of that name is there."""
        home = self.folder / name
        if not home.exists():
            write_data(home / "data")
        if not (home / "cache").exists():
            empty_cache(home / "cache")
        places = {f"FEDLIB_{place.upper()}": str(home / place) for place in ("data", "cache", "runs")}
        options = (self.address, "--name", name, "--no-nanny", "--local-directory", str(home))
        self.workers[name] = self._start("worker", home / "log", *options, FEDLIB_OFFLINE="1", **places)
        wait_for(lambda: "Registered to" in (home / "log").read_text(), f"worker {name} did not start")
        return self.workers[name]

    def stop(self, name: str) -> None:
        process = self.workers.pop(name)
        process.kill()
        process.wait()

    def replace_the_lost(self) -> "Cluster":
        """Two workers that are alive."""
        lost = [name for name, process in self.workers.items() if process.poll() is not None]
        for name in lost:
            self.stop(name)
        while len(self.workers) < 2:
            self.start_worker(f"worker-{len(list(self.folder.iterdir()))}")
        return self


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    client.disconnect()
    for process in [*running.workers.values(), running.scheduler]:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
def patience():
    """A study waits for workers as long as it takes; a test does not."""

    def give_up(number, frame):
        raise TimeoutError(f"nothing came back within {2 * PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(2 * PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def cluster(scheduler, store_folder, monkeypatch) -> Cluster:
    """Two workers; legs of one round."""
    monkeypatch.setenv("FEDLIB_ADDRESS", scheduler.address)
    monkeypatch.setenv("FEDLIB_LEG", "0.000001")
    return scheduler.replace_the_lost()


@pytest.fixture
def store_folder(tmp_path, monkeypatch) -> Path:
    """The client's own data and an empty store."""
    for name in ("FEDLIB_ADDRESS", "FEDLIB_LEG", "FEDLIB_BACKEND", "FEDLIB_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FEDLIB_DATA", str(write_data(tmp_path / "data")))
    monkeypatch.setenv("FEDLIB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def toy_run(algorithm: str = "fedavg", rounds: int = 5, seed: int = 0, every: int = 2, **changes) -> Run:
    options = {"participation": 0.5} if algorithm in ("fedgh", "serveradam") else LOCAL
    options = {"participation": 0.5, "steps": 3, "batch": 5} if algorithm == "acfmo" else options
    return replace(Run(algorithm, DEAL, rounds, seed, options, every, {"method": algorithm}), **changes)


def long_runs() -> list[Run]:
    """Seconds each, in many legs of a tenth of a second."""
    return [toy_run(rounds=1000, every=500, seed=seed) for seed in (0, 1)]


def records_bytes(run: Run) -> bytes:
    return (store.folder_of(run) / "records.csv").read_bytes()


def computed_elsewhere(runs: list[Run], folder: Path, monkeypatch) -> list[bytes]:
    """The records of the same runs by the in-process backend, in a store of its own."""
    with monkeypatch.context() as patch:
        patch.setenv("FEDLIB_RUNS", str(folder))
        study.execute(runs, backend="inprocess")
        return [records_bytes(run) for run in runs]


def under_way(run: Run) -> bool:
    return (store.folder_of(run) / "checkpoint.npz").exists()


def about(run: Run) -> dict:
    return json.loads((store.folder_of(run) / "run.json").read_text())


# Same bytes


def test_legs_of_one_round_give_the_bytes_of_the_in_process_backend_and_leave_only_results(
    cluster, store_folder, tmp_path, monkeypatch
):
    methods = ("fedavg", "acfmo", "fedala", "feddbe", "fedpac", "fedgh", "serveradam")
    runs = [toy_run(name, seed=seed) for name in methods for seed in (0, 1)]
    expected = computed_elsewhere(runs, tmp_path / "other", monkeypatch)
    frame = study.execute(runs, backend="dask")
    assert [records_bytes(run) for run in runs] == expected
    assert frame["method"].drop_duplicates().tolist() == list(methods)
    assert {file.name for run in runs for file in store.folder_of(run).iterdir()} == {"records.csv", "run.json"}
    assert not any((cluster.folder / name / "runs").exists() for name in cluster.workers)
    facts = about(runs[0])
    assert facts["partition"] == federation_of(runs[0]).fingerprint
    assert facts["versions"] == versions.versions() and facts["seconds"] > 0 and facts["resumed"] is False


def test_a_checkpoint_of_the_store_is_continued_and_only_the_rest_is_counted(
    cluster, store_folder, tmp_path, monkeypatch
):
    run, counted = toy_run("fedpac", rounds=7), []
    (expected,) = computed_elsewhere([run], tmp_path / "other", monkeypatch)

    def stop(progress: Progress) -> None:
        if progress.round == 3:
            store.write_checkpoint(store.folder_of(run) / "checkpoint.npz", progress)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.compute(None, stop)
    assert [found.name for found, _ in client.outcomes([run], 2, counted.append)] == [run.name]
    assert counted == [1, 1, 1, 1]
    assert records_bytes(run) == expected
    assert about(run)["resumed"] is True


def test_without_an_address_workers_of_this_machine_compute_and_nobody_else_reaches_them(
    store_folder, tmp_path, monkeypatch
):
    runs = [toy_run(seed=seed) for seed in range(4)]
    expected = computed_elsewhere(runs, tmp_path / "other", monkeypatch)
    study.execute(runs, backend="dask", workers=2)
    assert [records_bytes(run) for run in runs] == expected
    connection = client.connect(2)
    addresses = [connection.scheduler.address, *connection.nthreads()]
    assert len(addresses) == 3 and all(address.startswith("tcp://127.0.0.1:") for address in addresses)
    assert list(connection.nthreads().values()) == [1, 1]
    assert client.connect(2) is connection, "the next study uses the same workers"
    client.disconnect()


# Lost workers and clients


def test_a_worker_killed_in_the_middle_costs_no_byte(cluster, store_folder, tmp_path, monkeypatch):
    runs = long_runs()
    expected = computed_elsewhere(runs, tmp_path / "other", monkeypatch)
    monkeypatch.setenv("FEDLIB_LEG", "0.1")
    connection = client.connect(2)
    processes, killed = connection.run(os.getpid), []

    def kill() -> None:
        """The worker that has a leg in hand, once some leg is filed."""
        wait_for(lambda: any(under_way(run) for run in runs), "no checkpoint")
        busy = wait_for(lambda: [worker for worker, tasks in connection.processing().items() if tasks], "all idle")
        killed.append(processes[busy[0]])
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    study.execute(runs, backend="dask")
    killer.join()
    (lost,) = [worker for worker in cluster.workers.values() if worker.pid in killed]
    assert lost.wait() == -signal.SIGKILL
    assert [records_bytes(run) for run in runs] == expected


EXECUTE = """
import fedlib, json, sys
from fedlib.runs import study
study.execute([study.Run(**run) for run in json.loads(sys.argv[1])], backend="dask")
"""


def test_a_killed_client_continues_from_what_its_runs_had_sent(cluster, store_folder, tmp_path, monkeypatch):
    runs = long_runs()
    expected = computed_elsewhere(runs, tmp_path / "other", monkeypatch)
    monkeypatch.setenv("FEDLIB_LEG", "0.1")
    told = json.dumps([vars(run) | {"label": {}} for run in map(replace, runs)])
    process = subprocess.Popen([sys.executable, "-c", EXECUTE, told], cwd=REPOSITORY)
    wait_for(lambda: any(under_way(run) for run in runs), "no checkpoint")
    process.send_signal(signal.SIGKILL)
    process.wait()
    begun = [run for run in runs if under_way(run)]
    assert begun and all(store.load(run) is None for run in begun)
    study.execute(runs, backend="dask")
    assert [records_bytes(run) for run in runs] == expected
    assert all(about(run)["resumed"] for run in begun)


def test_an_interrupted_study_keeps_what_is_filed_and_calls_back_the_rest(cluster, store_folder):
    runs = [toy_run(rounds=3), *long_runs()]
    begun = client.outcomes(runs, 2, lambda rounds: None)
    first, _ = next(begun)
    begun.close()
    assert store.load(first) is not None
    assert [store.load(run) for run in runs if run.name != first.name] == [None, None]
    connection = client.connect(2)
    wait_for(lambda: connection.run_on_scheduler(lambda dask_scheduler: not dask_scheduler.tasks), "tasks are left")


def test_a_scheduler_that_does_not_answer_is_named(store_folder, monkeypatch):
    monkeypatch.setenv("FEDLIB_ADDRESS", "tcp://127.0.0.1:9")
    complaint = "no Dask scheduler answers at tcp://127.0.0.1:9.*backend.address"
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "500ms"}),
        pytest.raises(ConnectionError, match=complaint),
    ):
        study.execute([toy_run()], backend="dask")


class Lost:
    """A future whose workers died, or whose scheduler did."""

    def __init__(self, error: Exception):
        self.error = error

    def result(self):
        raise self.error


def test_a_run_whose_workers_die_again_and_again_is_told_with_its_round_and_what_to_do():
    dispatched = client.DispatchedRun(toy_run(), saved=b"", round=41, resumed=False)
    error = KilledWorker("task", type("Worker", (), {"address": "tcp://10.0.0.7:4711"}), 3)
    told = client.answer(Lost(error), dispatched)
    assert "died 4 times in a row, the last at tcp://10.0.0.7:4711" in told
    assert "--memory-limit" in told and "state after round 41 is stored" in told


# Failures and refusals


def test_a_raising_run_is_told_with_its_config_and_worker_and_stops_no_other(cluster, store_folder):
    impossible = toy_run(seed=3, federation=DEAL | {"clients": 5000})
    runs = [toy_run(), impossible, toy_run(seed=1)]
    with pytest.raises(study.RunFailed) as failure:
        study.execute(runs, backend="dask")
    told = str(failure.value)
    assert told.startswith("1 of 3 runs failed, the others are stored.")
    assert "'clients': 5000" in told and "5000 clients for 120 samples" in told
    assert "on worker tcp://127.0.0.1:" in told
    assert [store.load(run) is None for run in runs] == [False, True, False]


@pytest.mark.parametrize("part", ["torch", "code", "kernels of NumPy"])
def test_workers_of_another_toolchain_are_refused(cluster, store_folder, monkeypatch, part):
    ours = legs.toolchain(toy_run())
    monkeypatch.setattr(legs, "toolchain", lambda run: ours | {part: "another"})
    with pytest.raises(study.RunFailed) as failure:
        study.execute([toy_run()], backend="dask")
    told = str(failure.value)
    assert told.count(f"{part}: {ours[part]} there, another here") == 2, "both workers"
    assert "no worker is fit for this run" in told and "python -m fedlib dask worker" in told
    assert "'algorithm': 'fedavg'" in told


def test_a_worker_with_other_data_or_none_is_not_used_and_says_why(
    cluster, store_folder, tmp_path, monkeypatch, capsys
):
    runs = [toy_run(seed=seed) for seed in range(8)]
    expected = computed_elsewhere(runs, tmp_path / "other", monkeypatch)
    write_data(cluster.folder / "other" / "data", seed=1)
    (cluster.folder / "none").mkdir()
    for name in ("other", "none"):
        cluster.start_worker(name)
    study.execute(runs, backend="dask")
    assert [records_bytes(run) for run in runs] == expected
    told = capsys.readouterr().err
    assert re.search(r"worker tcp://\S+ is not used: its data set toy is another one \(fingerprint", told)
    assert re.search(r"worker tcp://\S+ is not used: it has no data set toy: no data set 'toy'\. Known: mnist", told)
    assert told.count("is not used") == 2, "each is asked once"
    for name in ("other", "none"):
        cluster.stop(name)


def test_a_worker_without_the_data_fetches_it_into_its_own_folder_once(cluster, store_folder, tmp_path, monkeypatch):
    deal = {"data_set": "handwriting", "partitioner": "iid", "clients": 4, "samples": 400, "test_samples": 100}
    run = Run("fedavg", deal, 3, 0, {"epochs": 1})
    for name in list(cluster.workers)[1:]:
        cluster.stop(name)
    study.execute([run], backend="dask")
    assert [records_bytes(run)] == computed_elsewhere([run], tmp_path / "other", monkeypatch)
    (name,) = cluster.workers
    (hashes,) = (cluster.folder / name / "cache" / "data").glob("handwriting-*/hashes.json")
    written = hashes.stat().st_mtime_ns
    study.execute([replace(run, seed=1)], backend="dask")
    assert hashes.stat().st_mtime_ns == written


def test_without_dask_the_error_says_what_to_install(store_folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "fedlib.runs.backends.dask")
    monkeypatch.delattr("fedlib.runs.backends.dask")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"backend dask needs Dask .*pip install .*\[cluster\]"):
        study.execute([toy_run()], backend="dask")


# Commands and configs


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("scheduler", True),
        ("scheduler --host 10.0.0.5", False),
        ("scheduler --interface=ib0", False),
        ("worker tcp://127.0.0.1:8786", True),
        ("worker tcp://10.0.0.5:8786", False),
    ],
)
def test_schedulers_and_local_workers_listen_to_this_machine_unless_told_otherwise(given, host):
    completed = with_defaults(given.split())
    assert (completed.count("127.0.0.1") == 1) is host
    assert completed[-len(given.split()[1:]) or len(completed) :] == given.split()[1:]
    assert ("--nthreads" in completed) is given.startswith("worker")


def backend_config(*overrides: str):
    return compose_job(REPOSITORY, ["paper=start", *overrides])


def test_the_address_and_the_leg_reach_the_notebooks():
    config = backend_config("backend=dask", "backend.address=tcp://scheduler:8786", "backend.leg=30")
    with client.serving(config.backend) as address:
        variables = kernel_environment(config, address)
    assert variables["FEDLIB_BACKEND"] == "dask"
    assert variables["FEDLIB_ADDRESS"] == "tcp://scheduler:8786"
    assert variables["FEDLIB_LEG"] == "30"
    with backends.load("processes").serving(backend_config("backend=processes").backend) as address:
        assert address is None
    with slurm.serving(backend_config("backend=slurm", "backend.address=tcp://there:1").backend) as address:
        assert address == "tcp://there:1"
    with pytest.raises(UsageError, match="Did you mean address"):
        backend_config("backend=dask", "backend.adress=tcp://scheduler:8786")


def test_the_slurm_config_becomes_a_job_script():
    overrides = ["queue=long", "account=physics", "cores=4", "memory=8GB", "walltime='12:00:00'", "protocol=tcp://"]
    overrides += ["job_extra_directives=['--constraint=avx2']", "job_script_prologue=['module load python']"]
    overrides += ["python=/shared/python", "worker_extra_args=['--lifetime','11h']"]
    config = backend_config("backend=slurm", *(f"backend.slurm.{override}" for override in overrides))
    with slurm.cluster(config.backend.slurm) as cluster:
        lines = cluster.job_script().splitlines()
    for line in ("-p long", "-A physics", "--cpus-per-task=4", "--mem=8G", "-t 12:00:00", "--constraint=avx2"):
        assert f"#SBATCH {line}" in lines
    prologue, command = [line for line in lines if line and not line.startswith("#")]
    assert prologue == "module load python"
    assert command.startswith("/shared/python -m fedlib dask worker tcp://")
    assert "--nthreads 1 --memory-limit 1.86GiB" in command
    assert "--nworkers 4 --nanny --lifetime 11h" in command


SBATCH = """#!/usr/bin/env bash
cp "$1" "{0}/job.sh"
setsid bash "{0}/job.sh" > "{0}/job.log" 2>&1 &
echo $! > "{0}/job.pid"
echo "Submitted batch job $!"
"""
ROLES = ("scheduler", "worker", "client")
SCANCEL = """#!/usr/bin/env bash
kill -- -"$1"
"""


@pytest.fixture
def fake_slurm(tmp_path, monkeypatch) -> Path:
    """`sbatch` and `scancel` that run jobs on this machine, and certificates for TLS."""
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (tmp_path / name).write_text(text.format(tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    call = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=fedlib -keyout key.pem -out cert.pem"
    subprocess.run(call.split(), cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_slurm_jobs_join_over_tls_compute_the_same_bytes_and_are_cancelled(
    fake_slurm, store_folder, tmp_path, monkeypatch
):
    runs = [toy_run(seed=seed) for seed in range(3)]
    expected = computed_elsewhere(runs, tmp_path / "other", monkeypatch)
    files = {"ca-file": "cert.pem"} | {f"{role}.{part}": f"{part}.pem" for role in ROLES for part in ("cert", "key")}
    tls = {f"distributed.comm.tls.{name}": str(fake_slurm / file) for name, file in files.items()}
    config = backend_config("backend=slurm", "backend.workers=1", "backend.slurm.cores=1", "backend.slurm.interface=lo")
    with dask.config.set(tls), slurm.serving(config.backend) as address:
        assert address.startswith("tls://127.0.0.1:")
        monkeypatch.setenv("FEDLIB_ADDRESS", address)
        study.execute(runs, backend="dask")
        client.disconnect()
    assert [records_bytes(run) for run in runs] == expected
    job = int((fake_slurm / "job.pid").read_text())
    assert "--tls-ca-file" in (fake_slurm / "job.sh").read_text()

    def gone() -> bool:
        try:
            os.killpg(job, 0)
        except ProcessLookupError:
            return True
        return False

    wait_for(gone, "the job is still there")
