"""What a kind of run costs on this machine: a few rounds in a separate process with one thread, like a worker's.

The clock counts the process's own processor time, so that a busy machine disturbs little. If a whole round would take
too long, one pass over a part of each client's data is timed first, then several passes and larger parts as time
allows, or fewer clients if it does not. A round's time is linear in all three, so the time of a whole round follows.

    python -m fedlib.runs.plan.measure     reads {"seconds": ..., "runs": [...]} and prints a line of JSON per run
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import lru_cache
from math import floor, log2
from typing import Any, NamedTuple

import torch

from fedlib import surroundings
from fedlib.algorithms import create
from fedlib.problem.federation import Federation, federate
from fedlib.runs.plan.kinds import LOOPS, Cost, loops
from fedlib.runs.run import Run

COMPILING = 20  # seconds: the longest that compiling or loading machine code takes, at its first use in a process
SOME_ROUNDS = 30  # of a trial, however short they are
clock = time.process_time


def measured(runs: list[Run], seconds: float) -> Iterator[Cost | str]:
    """The cost of each run's kind, or why it could not be measured, one by one from a child process."""
    fields = [{name: value for name, value in asdict(run).items() if name != "label"} for run in runs]
    child = subprocess.Popen(
        [sys.executable, "-m", "fedlib.runs.plan.measure"],
        cwd=surroundings.REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin and child.stdout, "both are pipes"
    try:
        child.stdin.write(json.dumps({"seconds": seconds, "runs": fields}))
        child.stdin.close()
        for _ in runs:
            line = child.stdout.readline()
            yield _answer(line) if line else f"the measuring process ended with code {child.wait()}"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def _answer(line: str) -> Cost | str:
    answer: dict[str, Any] = json.loads(line)
    return answer["error"] if "error" in answer else Cost(**answer)


class Trial(NamedTuple):
    """Seconds of parts of a run: the first state, the extra time of a first round, a usual round, an evaluation."""

    init: float
    first: float
    round: float
    evaluation: float
    record: dict[str, float]


def cost(run: Run, seconds: float) -> Cost:
    """Measure a run for about this many seconds, or longer if even the smallest part of a round takes longer."""
    arguments = json.dumps(run.federation, sort_keys=True)
    whole, build = _federation(arguments, run.seed)
    passes = loops(run.config["options"])
    share = _least_share(run, whole)
    federation = part_of(whole, share)
    single_pass, cohort = trial(with_passes(run, 1), federation, seconds / 4), 1.0
    if single_pass.round <= max(seconds, COMPILING):  # that may have included compiling, so once more
        single_pass = trial(with_passes(run, 1), federation, seconds / 4)
    points = [(share, single_pass.round)]  # share of the data, seconds of a round of one pass
    if single_pass.round > seconds:  # its memory is known by now, so fewer clients are enough
        run, cohort = with_fewer_clients(run, federation)
        points = [(share, trial(with_passes(run, 1), federation, seconds / 4, evaluate=False).round / cohort)]
    elif (larger := _affordable(share, single_pass.round, seconds / 8)) > share:
        share, federation = larger, part_of(whole, larger)
        single_pass = trial(with_passes(run, 1), federation, seconds / 4)
        points.append((share, single_pass.round))
    whole_pass, took = _at_whole(points), points[-1][1]
    loop, part = whole_pass, share * cohort / passes
    if passes > 1 and took * cohort < seconds:
        more = min(passes, max(2, int(seconds / (took * cohort))))
        many = trial(with_passes(run, more), federation, seconds / 4, evaluate=False).round / cohort
        loop, part = max(0.0, many - took) / (more - 1) / share, part * more
    setup = build + single_pass.init / share + single_pass.first
    return Cost(
        setup, max(0.0, whole_pass - loop), loop, single_pass.evaluation, peak_memory(), part, single_pass.record
    )


def _least_share(run: Run, whole: Federation) -> float:
    """The part of the data that leaves about one batch per client; all of it if a round is not a pass over the data."""
    options = run.config["options"]
    return min(1.0, options["batch"] / float(whole.sizes.mean())) if options.get("epochs") else 1.0


def _affordable(least: float, took: float, seconds: float) -> float:
    """The largest part, doubled from the least one, whose round should fit into the time; the least `took` seconds."""
    doublings = max(0, floor(log2(seconds / max(took, 1e-6))))
    return 1.0 if least * 2**doublings > 0.5 else least * 2**doublings


def _at_whole(points: list[tuple[float, float]]) -> float:
    """A round of one pass over all data: the line through the last two points, or proportional to the only one."""
    share, last = points[-1]
    if len(points) == 1:
        return last / share
    before, earlier = points[-2]
    return last + (1 - share) * max(0.0, last - earlier) / (share - before)


def with_fewer_clients(run: Run, federation: Federation) -> tuple[Run, float]:
    """The run with an eighth of its participants, and their share of all participants' data."""
    taking_part = run.config["options"]["participation"]
    if taking_part == 1:
        return run, 1.0
    fewer = replace(run, options=run.options | {"participation": taking_part / 8})
    chosen = create(fewer.algorithm, **fewer.options).participants(federation, 1)
    data_share = float(federation.sizes[chosen].sum() / federation.sizes.sum())
    return fewer, data_share / taking_part


def with_passes(run: Run, passes: int) -> Run:
    """The run with this many passes over the data per round, set through the option that has most of them."""
    counts = {name: value for name in LOOPS if (value := run.config["options"].get(name))}
    if not counts:
        return run
    most = max(counts, key=lambda name: counts[name])
    return replace(run, options=run.options | dict.fromkeys(counts, 1) | {most: passes})


def trial(run: Run, federation: Federation, seconds: float, evaluate: bool = True) -> Trial:
    """Times the first state, as many rounds as fit into the time (at least one), and up to two evaluations."""
    algorithm = create(run.algorithm, **run.options)
    began = clock()
    state = algorithm.init(federation)
    init, times, checks, record = clock() - began, [], [], {}
    while not times or (sum(times) < seconds and len(times) < min(run.rounds, SOME_ROUNDS)):
        began = clock()
        state = algorithm.round(federation, state, len(times) + 1)
        times.append(clock() - began)
    while evaluate and (not checks or (len(checks) < 2 and checks[0] < seconds)):
        began = clock()
        record = algorithm.measure(federation, state)
        checks.append(clock() - began)
    usual = sum(times[1:]) / len(times[1:]) if times[1:] else times[0]
    first = max(0.0, times[0] - usual) + (max(0.0, checks[0] - checks[-1]) if checks else 0.0)
    return Trial(init, first, usual, checks[-1] if checks else 0.0, record)


@lru_cache(maxsize=1)
def _federation(arguments: str, seed: int) -> tuple[Federation, float]:
    """A federation, kept as workers do, and the seconds it took to build."""
    began = clock()
    return federate(**json.loads(arguments), seed=seed), clock() - began


def part_of(whole: Federation, share: float) -> Federation:
    """The federation with this share of every client's samples, at least one."""
    kept = [rows[: max(1, round(share * len(rows)))] for rows in whole.rows]
    if not whole.contiguous:  # clients share samples
        return replace(whole, rows=tuple(kept))
    order = torch.cat(kept)
    return replace(whole, x=whole.x[order], y=whole.y[order], rows=torch.arange(len(order)).split(list(map(len, kept))))


def peak_memory() -> int:
    """The peak memory of this process in bytes. On Linux, `ru_maxrss` would include its parent's."""
    try:
        with open("/proc/self/status") as lines:
            return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def main() -> None:
    """Measure what the parent asks for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends us
    os.environ["FEDLIB_THREADS"] = "1"  # like a worker's
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever libraries print
    order = json.load(sys.stdin)
    for fields in order["runs"]:
        try:
            answer = asdict(cost(Run(**fields), order["seconds"]))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
