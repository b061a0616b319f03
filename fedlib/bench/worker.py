"""A contestant's process: prepares, reports that it is ready, then plays rounds on request.

Started by file name, `python -P worker.py '{"module": ..., "workload": ..., "pinned": ...}'`, so that contestants that
are not ours have neither fedlib's numeric settings nor its allocator settings. Lines of JSON go in and out; whatever
else a library prints goes to standard error.
"""

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

PACKAGE = Path(__file__).resolve().parents[1]
PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


def import_without_settings() -> None:
    """Make fedlib's modules importable without running its `__init__`, which pins threads and instruction sets."""
    package = types.ModuleType("fedlib")
    package.__path__ = [str(PACKAGE)]
    sys.modules["fedlib"] = package


def import_as_usual() -> None:
    """fedlib with its settings, as in a notebook."""
    sys.path.insert(0, str(PACKAGE.parent))
    importlib.import_module("fedlib")


def die_with_referee() -> None:
    """If the referee is killed, let the system end its stopped contestants (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def private_stdout() -> TextIO:
    """The connection to the referee; from here on, prints and logs of libraries go to standard error."""
    line = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return line


def serve(line: TextIO, plays: dict[str, Callable[[int], int]], facts: dict[str, str]) -> None:
    """Answer the referee: each request names a case and a number of rounds, each answer gives seconds and samples."""
    print(json.dumps({"ready": facts}), file=line)
    played = dict.fromkeys(plays, 0)
    for request in map(json.loads, sys.stdin):
        case, rounds = request["case"], request["rounds"]
        samples, began = 0, time.perf_counter()
        for _ in range(rounds):
            played[case] += 1
            samples = plays[case](played[case])
        print(json.dumps({"seconds": time.perf_counter() - began, "samples": samples}), file=line)


def main() -> None:
    """Import one contestant and let it play."""
    job = json.loads(sys.argv[1])
    die_with_referee()
    line = private_stdout()
    (import_as_usual if job["pinned"] else import_without_settings)()
    from fedlib.bench.contestants import NotAvailable
    from fedlib.bench.workloads import Workload

    try:
        contestant = importlib.import_module(job["module"])
        contestant.run(Workload.from_dict(job["workload"]), lambda plays, facts: serve(line, plays, facts))
    except NotAvailable as reason:
        print(json.dumps({"unavailable": str(reason)}), file=line)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=line)
        raise


if __name__ == "__main__":
    main()
