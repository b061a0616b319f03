"""Who may run when: every contestant in its own process, one at a time, taking turns repetition by repetition.

Taking turns spreads disturbances by other programs evenly over all contestants. Those who wait are stopped by a signal:
some simulators keep threads and servers busy even when idle. A turn is one untimed round to wake up, if rounds are
short, then as many rounds as take half a second (at least one); its time divided by its rounds is one measurement.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedlib import numerics
from fedlib.bench.contestants import Contestant, NotAvailable
from fedlib.bench.workloads import Workload

WORKER = Path(__file__).with_name("worker.py")
TURN_SECONDS = 0.5
MOST_ROUNDS = 200  # in a turn
WAKE_SECONDS = 0.2  # from the signal to the first round
PATIENCE_SECONDS = 900
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "JAX_PLATFORMS": "cpu"}
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
}  # as numerics.keep_memory


class Failed(Exception):
    """A contestant failed; the message is its last line of output."""


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(contestant: Contestant) -> dict[str, str]:
    """None of fedlib's pins, which the engine's own process sets again, and nobody else's allocator (Dask leaves its
    settings behind); all cores for the others."""
    ours = {**numerics.settings(numerics.processor_flags()), **KEEP_MEMORY}
    free = {name: value for name, value in os.environ.items() if name not in ours}
    threads = {} if contestant.pinned else dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(cores()))
    return free | threads | QUIET | (KEEP_MEMORY if contestant.keeps_memory else {}) | dict(contestant.settings)


class Worker:
    """The referee's end of the line to one contestant."""

    def __init__(self, contestant: Contestant, workload: Workload, python: str = sys.executable) -> None:
        job = {"module": contestant.module, "pinned": contestant.pinned, "workload": workload.as_dict()}
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  closed with the worker
        # A session of its own: Ctrl-C reaches the referee alone, which then ends everything in order.
        self.process = subprocess.Popen(
            [python, "-P", str(WORKER), json.dumps(job)],
            env=environment(contestant),
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        assert self.process.stdin and self.process.stdout  # both are pipes
        self.requests, self.answers = self.process.stdin, self.process.stdout
        self.rounds: dict[str, int] = {}

    def ready(self) -> dict[str, str]:
        """Wait until the contestant is prepared; returns its facts."""
        return self._answer()["ready"]

    def play(self, case: str, rounds: int) -> dict[str, Any]:
        """Let the contestant play; returns seconds and samples."""
        try:
            self.requests.write(json.dumps({"case": case, "rounds": rounds}) + "\n")
            self.requests.flush()
        except OSError:
            raise Failed(self._last_words()) from None
        return self._answer()

    def warm_up(self, case: str = "round") -> int:
        """Two untimed rounds, the second of which decides how many make a turn; returns the samples of a round."""
        self.play(case, 1)
        answer = self.play(case, 1)
        self.rounds[case] = min(MOST_ROUNDS, max(1, math.ceil(TURN_SECONDS / answer["seconds"])))
        return answer["samples"]

    def turn(self, case: str = "round") -> float:
        """One measurement: milliseconds per round."""
        rounds = self.rounds[case]
        self.signal(signal.SIGCONT)
        time.sleep(WAKE_SECONDS)
        if rounds > 1:
            self.play(case, 1)
        seconds = self.play(case, rounds)["seconds"]
        self.signal(signal.SIGSTOP)
        return 1000 * seconds / rounds

    def signal(self, number: int) -> None:
        """Stop, continue or kill the contestant with everything it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _answer(self) -> dict[str, Any]:
        if not select.select([self.answers], [], [], PATIENCE_SECONDS)[0]:
            raise Failed(f"no answer within {PATIENCE_SECONDS} s")
        answer = json.loads(self.answers.readline() or "{}")
        if "unavailable" in answer:
            raise NotAvailable(answer["unavailable"])
        if "error" in answer or not answer:
            raise Failed(answer.get("error") or self._last_words())
        return answer

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        return f"the process ended with code {self.process.poll()}" + (f": {lines[-1]}" if lines else "")

    def close(self) -> None:
        """End the contestant and whatever it started."""
        self.signal(signal.SIGCONT)
        with suppress(OSError):
            self.requests.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.answers.close()
        self.errors.close()


@dataclass
class Measured:
    """One contestant on one workload: milliseconds per round by repetition; `missing` says why there are no more."""

    ms: list[float] = field(default_factory=list)
    samples: int | None = None  # sample gradients of a round, as counted by the contestant
    rounds: int | None = None  # of a turn
    facts: dict[str, str] = field(default_factory=dict)
    missing: str | None = None


@contextmanager
def started(processes: dict[str, Worker]) -> Iterator[dict[str, Worker]]:
    """Close all processes that were added, at the end."""
    try:
        yield processes
    finally:
        for worker in processes.values():
            worker.close()


def contest(
    workload: Workload,
    contestants: list[Contestant],
    repetitions: int,
    results: dict[str, Measured],
    pythons: dict[str, str],
    say: Callable[[str], None],
) -> None:
    """All contestants on one workload. `results` is filled step by step, so that an interruption loses nothing."""
    with started({}) as running:
        for contestant in contestants:
            say(f"{workload.name}  {contestant.name} prepares and warms up")
            name, results[contestant.name] = contestant.name, Measured()
            running[name] = Worker(contestant, workload, pythons.get(name, sys.executable))
            _guarded(running, name, results, lambda name=name: prepare(running[name], results[name]))
        for repetition in range(repetitions):
            for name in rotated(list(running), repetition):
                _guarded(running, name, results, lambda name=name: results[name].ms.append(running[name].turn()))
            shown = "  ".join(f"{name} {results[name].ms[-1]:.1f}" for name in running)
            say(f"{workload.name}  {repetition + 1}/{repetitions}  ms per round: {shown}")


def prepare(worker: Worker, result: Measured) -> None:
    result.facts = worker.ready()
    result.samples = worker.warm_up()
    result.rounds = worker.rounds["round"]
    worker.signal(signal.SIGSTOP)


def rotated(names: list[str], by: int) -> list[str]:
    """Start with another one each time, so that none always follows the same rival."""
    first = by % max(1, len(names))
    return names[first:] + names[:first]


def _guarded(running: dict[str, Worker], name: str, results: dict[str, Measured], act: Callable[[], None]) -> None:
    """Remove a contestant that fails; the others continue."""
    try:
        act()
    except (Failed, NotAvailable) as reason:
        word = "not available" if isinstance(reason, NotAvailable) else "failed"
        results[name].missing = f"{word}: {reason}"
        running.pop(name).close()
