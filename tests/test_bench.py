"""The benchmark: contestants do the same work, the referee survives failures, the page says what was measured."""

import json
import re
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

from fedlib.bench import __main__ as command
from fedlib.bench import growth, overhead, page, peers, referee, summary, workloads
from fedlib.bench.contestants import CONTESTANTS, Contestant, limit, loop
from fedlib.bench.contestants import fedlib_engine as ours
from fedlib.bench.workloads import W1, W2, W3, W4, WORKLOADS
from fedlib.engine.minibatches import client_minibatches
from fedlib.problem import layout
from fedlib.surroundings import REPOSITORY

pytestmark = pytest.mark.slow

SMALL = {
    "W1": replace(W1, clients=5, size=41, participants=3, batch=16),
    "W2": replace(W2, clients=3, size=11, participants=3, batch=4),
    "W3": replace(W3, clients=6, size=9, participants=4, batch=5, steps=7),
    "W4": replace(
        W4, network="lenet_tutorial", shape=(3, 32, 32), clients=6, participants=6, size=8, batch=3, groups=2
    ),
}
INSTANT = """
import os, fedlib
def run(workload, serve):
    serve({"round": play}, {"pinned": os.environ.get("MKL_CBWR"), "file": getattr(fedlib, "__file__", None)})
def play(round):
    print("noise on standard output")
    return 7
"""
CRASHES = """
import os
def run(workload, serve):
    serve({"round": play}, {})
def play(round):
    if round > 3:
        os.write(2, b"out of luck")
        os._exit(9)
    return 1
"""
RAISES = "def run(workload, serve):\n    raise RuntimeError('no such network')\n"
ABSENT = """
from fedlib.bench.contestants import NotAvailable
def run(workload, serve):
    raise NotAvailable("no convolutions")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Contestants from source text."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(referee, "TURN_SECONDS", 1e-9)  # one round, however fast
    monkeypatch.setattr(referee, "WAKE_SECONDS", 0)

    def write(name: str, source: str, **options) -> Contestant:
        (tmp_path / f"{name}.py").write_text(source)
        return Contestant(name, name, "", name, **options)

    return write


def record(times: dict[str, dict[str, list[float]]], **changes) -> dict:
    """A finished benchmark record with these milliseconds."""
    measured = {
        name: {
            "workload": WORKLOADS[name].as_dict(),
            "measured": {
                own: {
                    "ms": ms,
                    "samples": 10,
                    "rounds": 1,
                    "facts": {"threads": "2 threads"},
                    "missing": None if ms else "failed: oh",
                }
                for own, ms in contestants.items()
            },
        }
        for name, contestants in times.items()
    }
    machine = {
        "processor": "a processor",
        "cores": 2,
        "memory": "8 GiB",
        "system": "Linux",
        "load": 0.1,
        "commit": "abc",
        "date": "today",
        "versions": {"torch": "2"},
        "peers": {},
    }
    return {
        "machine": machine,
        "repetitions": 5,
        "turn_seconds": 0.5,
        "contestants": list(CONTESTANTS),
        "interrupted": False,
        "workloads": measured,
        "growth": {},
        "seconds": 1.0,
        **changes,
    }


@pytest.mark.parametrize(
    ("workload", "weights", "client_steps", "samples"),
    [(W1, 199_210, 19, 6_000), (W2, 122_570, 16, 10_000), (W3, 5_770, 10, 3_200), (W4, 6_603_710, 1, 3_200)],
    ids=lambda value: getattr(value, "name", None),
)
def test_workloads_have_the_printed_sizes(workload, weights, client_steps, samples):
    assert (workload.weights, workload.client_steps, workload.samples) == (weights, client_steps, samples)


@pytest.mark.parametrize("name", SMALL)
def test_data_have_the_shape_that_the_network_takes(name):
    workload = SMALL[name]
    x, y = workloads.tensors(workload)
    assert len(x) == len(y) == workload.clients * workload.size
    assert x.dtype == torch.float32 and x.min() >= 0 and x.max() <= 1
    assert workloads.build(workload)(x[:2]).shape == (2, workload.classes)


def loaders_like_the_engine(workload, federated, clients, round):
    """The loop's loaders with the engine's minibatches."""
    data = TensorDataset(*workloads.tensors(workload))
    for client in clients:
        drawn = [batch.tolist() for batch in client_minibatches(federated, client, ours.work(workload), round)]
        yield DataLoader(Subset(data, workloads.rows(workload, client)), batch_sampler=drawn)


def assert_close(found: torch.Tensor, expected: torch.Tensor, start: torch.Tensor) -> None:
    """Equal to 1e-4 of the distance the weights have moved."""
    assert (found - expected).norm() < 1e-4 * (expected - start).norm()


@pytest.mark.parametrize("name", ["W1", "W2", "W3"])
def test_engine_and_loop_reach_the_same_weights_from_the_same_minibatches(name):
    workload = SMALL[name]
    federated, fedavg = ours.federate(workload), ours.method(workload)
    server, state = workloads.build(workload), fedavg.init(federated)
    for round in (1, 2):
        state = fedavg.round(federated, state, round)
        chosen = fedavg.participants(federated, round)
        seen = loop.train_round(server, loaders_like_the_engine(workload, federated, chosen, round), workload)
        assert seen == workload.samples
    assert_close(state["weights"], layout.flatten(server), federated.start)


def test_engine_and_loop_agree_on_groups_that_synchronise_after_every_step():
    workload = SMALL["W4"]
    federated = ours.federate(workload)
    models = federated.start.repeat(workload.groups, 1)
    servers = [workloads.build(workload) for _ in range(workload.groups)]
    for round in (1, 2, 3):
        models = ours.synchronise(workload, federated, models, round)
        for server, members in zip(servers, np.split(np.arange(workload.participants), workload.groups), strict=True):
            loop.train_round(server, loaders_like_the_engine(workload, federated, members, round), workload)
    for found, server in zip(models, servers, strict=True):
        assert_close(found, layout.flatten(server), federated.start)


@pytest.mark.parametrize("contestant", [ours, loop, limit], ids=lambda module: module.__name__.rsplit(".")[-1])
@pytest.mark.parametrize("name", SMALL)
def test_our_contestants_take_the_sample_gradients_that_the_workload_promises(contestant, name):
    taken = []
    contestant.run(
        SMALL[name], lambda plays, facts: taken.append((plays["round"](1), plays["round"](2), facts["threads"]))
    )
    assert taken[0][:2] == (SMALL[name].samples, SMALL[name].samples) and "thread" in taken[0][2]


def test_the_limit_takes_as_many_steps_as_a_client():
    sizes = [len(batch) for batch in limit.union_batches(W1, np.random.default_rng(0))]
    assert sizes == [320] * 18 + [240]


def test_ratios_are_those_of_the_medians_with_quartiles_of_pairs():
    found = summary.ratios("W1", {"engine": [10, 20, 30], "loop": [100, 80, 90], "limit": [15, 16, 10], "pfl": []})
    assert set(found) == {"loop", "limit"}
    loop_ratio = found["loop"]
    assert loop_ratio.value == 90 / 20 and loop_ratio.aim == 4.8 and not loop_ratio.reached
    assert (loop_ratio.first, loop_ratio.third) == (3.5, 7)  # pairs 10, 4, 3
    assert found["limit"].value == 15 / 20 and not found["limit"].reached
    assert summary.ratios("W4", {"engine": [1.0], "fedjax": [2.0]})["fedjax"].reached is None


def test_without_the_engine_there_are_no_ratios():
    assert summary.ratios("W1", {"engine": [], "loop": [1.0]}) == {}


def test_spread_of_five_numbers():
    assert summary.spread([5.0, 1.0, 4.0, 2.0, 3.0]) == summary.Spread(median=3, low=1, first=2, third=4)


def test_slope_is_the_exponent_of_a_power():
    assert growth.slope({10: 3.0, 100: 3.0, 1000: 3.0}) == pytest.approx(0)
    assert growth.slope({10: 5.0, 30: 15.0, 100: 50.0}) == pytest.approx(1)


def test_growth_is_measured_for_clients_and_for_cohorts(module):
    results, lines = {}, []
    study = replace(growth.STUDIES["softmax"], clients=100, size=3, shape=(12,), batch=2, steps=2)
    growth.measure({"small": study}, 2, results, lines.append)
    times = results["small"]["ms"]
    assert set(growth.series(times, "clients")) == {10, 100} and set(growth.series(times, "cohort")) == {10, 30, 100}
    assert all(len(values) == 2 and min(values) > 0 for values in times.values())
    assert lines[-1] == "growth small  2/2"


def test_a_broken_contestant_leaves_and_the_others_go_on(module):
    contestants = [
        module("crashes", CRASHES),
        module("raises", RAISES),
        module("absent", ABSENT),
        module("instant", INSTANT),
    ]
    results, lines = {}, []
    referee.contest(W3, contestants, 3, results, {}, lines.append)
    assert results["crashes"].missing == "failed: the process ended with code 9: out of luck"
    assert len(results["crashes"].ms) == 1
    assert results["raises"].missing == "failed: RuntimeError: no such network"
    assert results["absent"].missing == "not available: no convolutions"
    assert results["instant"].missing is None and len(results["instant"].ms) == 3 and results["instant"].samples == 7
    assert sum("3/3" in line and "instant" in line for line in lines) == 1


def test_rivals_run_without_our_settings_and_the_engine_with_them(module):
    results = {}
    contestants = [module("rival", INSTANT), module("pinned", INSTANT, pinned=True)]
    referee.contest(W3, contestants, 1, results, {}, lambda line: None)
    assert results["rival"].facts["pinned"] is None and results["rival"].facts["file"] is None
    assert results["pinned"].facts["pinned"] in ("AVX2", "COMPATIBLE") and results["pinned"].facts["file"]


def test_the_loop_gets_all_cores_and_the_limit_the_keeping_allocator(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")  # as Dask's nanny leaves it
    environments = {name: referee.environment(CONTESTANTS[name]) for name in ("engine", "loop", "limit")}
    assert environments["loop"]["OMP_NUM_THREADS"] == str(referee.cores()) == environments["limit"]["OMP_NUM_THREADS"]
    assert "OMP_NUM_THREADS" not in environments["engine"]
    assert "MALLOC_TRIM_THRESHOLD_" in environments["limit"] and "MALLOC_TRIM_THRESHOLD_" not in environments["loop"]


def comes_to_a_stop(process) -> bool:
    """Whether the process is stopped, or soon will be: the signal is on its way."""
    for _ in range(1000):
        if Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].startswith("T"):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux for the state of a process")
def test_who_waits_is_stopped_and_wakes_for_its_turn(module):
    with referee.started({}) as running:
        running["instant"] = worker = referee.Worker(module("instant", INSTANT), W3)
        referee.prepare(worker, referee.Measured())
        for _ in range(2):
            assert comes_to_a_stop(worker.process)
            assert worker.turn() >= 0
    assert worker.process.poll() is not None


def test_each_repetition_begins_with_another_contestant():
    orders = [referee.rotated(["a", "b", "c"], repetition) for repetition in range(4)]
    assert [order[0] for order in orders] == ["a", "b", "c", "a"] and all(
        sorted(order) == ["a", "b", "c"] for order in orders
    )


def test_the_page_shows_every_contestant_with_alt_text_and_loads_nothing():
    times = {name: [float(10 + place)] * 5 for place, name in enumerate(CONTESTANTS)}
    studies = {
        "softmax": {
            "title": "Softmax",
            "ms": {"clients 10": [1.0], "clients 100": [1.0], "cohort 10": [1.0], "cohort 30": [3.0]},
        }
    }
    markup = page.html(record({"W1": times, "W3": times}, growth=studies))
    assert all(contestant.label in markup for contestant in CONTESTANTS.values())
    pictures = re.findall(r'<img src="([^"]{30})[^"]*" alt="([^"]+)">', markup)
    assert len(pictures) == 2 == markup.count("<img") and all(
        source.startswith("data:image/png;base64,") for source, _ in pictures
    )
    assert "FedJAX 14" in pictures[0][1] and "softmax against participants: 1 ms at 10, 3 ms at 30" in pictures[1][1]
    assert (
        not re.search(r'(src|href)="(?!data:|#|bench\.json)', markup)
        and "url(" not in markup
        and "<script" not in markup
    )


def test_the_page_prints_ratios_beside_aims():
    text = re.sub(
        r"<[^>]+>", " ", page.html(record({"W1": {"engine": [10.0] * 5, "loop": [52.0] * 5, "limit": [7.0] * 5}}))
    )
    assert re.search(r"5\.2x.*4\.8x\s+reached", text) and re.search(r"70% of its speed.*80%\s+below", text)


def test_the_page_owns_up_to_a_busy_machine_few_repetitions_and_interruption():
    quiet = record({"W1": {"engine": [1.0] * 5}})
    assert 'role="alert"' not in page.html(quiet)
    assert "Do not trust these numbers" in page.html(quiet | {"machine": quiet["machine"] | {"load": 2.0}})
    assert "Only 2 repetitions" in page.html(quiet | {"repetitions": 2})
    assert "interrupted" in page.html(quiet | {"interrupted": True})


def test_failed_contestants_keep_their_line_on_the_page():
    markup = page.html(record({"W1": {"engine": [], "loop": [1.0]}}))
    assert re.search(r"fedlib engine</th>\s*<td[^>]*>failed: oh", markup)


def test_peers_that_are_not_installed_are_reported_with_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(peers, "versions", lambda python: {})
    monkeypatch.setattr(command, "WORKLOADS", {"W3": SMALL["W3"]})
    assert (
        command.main(["--only", "W3", "--contestants", "engine,flower,pfl,fedjax", "--repetitions", "1"], tmp_path) == 0
    )
    measured = json.loads((tmp_path / "bench.json").read_text())["workloads"]["W3"]["measured"]
    assert len(measured["engine"]["ms"]) == 1 and measured["engine"]["samples"] == SMALL["W3"].samples
    for name in ("flower", "pfl", "fedjax"):
        assert measured[name]["missing"] == f"not installed; to install: {peers.INSTALL}"
    assert (tmp_path / "index.html").read_text().count("not installed; to install") == 3
    assert "W3  1/1  ms per round: engine" in capsys.readouterr().err


def test_the_install_command_names_the_extra_that_pyproject_pins():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "'.[peers]'" in peers.INSTALL
    assert all("==" in requirement for requirement in project["peers"])
    names = {re.split(r"[\[=]", requirement)[0] for requirement in project["peers"]}
    assert {contestant.package for contestant in CONTESTANTS.values() if contestant.package} <= names


def test_the_peers_interpreter_can_be_named_and_a_wrong_one_is_explained(monkeypatch):
    monkeypatch.setenv("FEDLIB_PEERS_PYTHON", sys.executable)
    assert peers.interpreter() == sys.executable and peers.versions(sys.executable)["torch"]
    with pytest.raises(SystemExit, match="FEDLIB_PEERS_PYTHON must name a Python interpreter"):
        peers.versions("no-such-python")


def test_an_interruption_keeps_what_was_measured(tmp_path, monkeypatch):
    def interrupted(workload, contestants, repetitions, results, pythons, say):
        results["engine"].ms += [4.0, 5.0]
        results["engine"].samples = 1
        raise KeyboardInterrupt

    monkeypatch.setattr(referee, "contest", interrupted)
    assert command.main(["--only", "W1,W3", "--contestants", "engine"], tmp_path) == 130
    saved = json.loads((tmp_path / "bench.json").read_text())
    assert saved["interrupted"] and list(saved["workloads"]) == ["W1"]
    assert saved["workloads"]["W1"]["measured"]["engine"]["ms"] == [4.0, 5.0]
    assert "interrupted" in (tmp_path / "index.html").read_text()


def test_unknown_names_are_answered_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        command.parse(["--only", "W1,W9"])
    assert "unknown: W9; known: W1, W2, W3, W4, growth" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.parse(["--repetitions", "0"])
    assert "at least 1" in capsys.readouterr().err


# Runs sent away


def test_efficiency_and_overhead_of_a_backend_are_those_of_its_workers_time():
    times = {("inprocess", 1): [10.0, 30.0, 10.0], ("dask", 1): [10.4, 10.4, 10.4], ("dask", 2): [6.25, 6.0, 7.0]}
    alone, one, two = overhead.compare(times, runs=40)
    assert (alone.seconds, alone.efficiency, alone.overhead_ms) == (10.0, 1.0, 0.0)
    assert (one.efficiency, one.overhead_ms) == (pytest.approx(10 / 10.4), pytest.approx(10.0))
    assert (two.efficiency, two.overhead_ms) == (pytest.approx(0.8), pytest.approx(62.5))
    assert two.row() == "dask       2 workers    6.25 s    80 %    62.5 ms per run"
