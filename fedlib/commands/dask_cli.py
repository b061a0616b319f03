"""`fedlib dask ...`: the command `dask ...` with the numerics pinned before NumPy loads, and on loopback.

    python -m fedlib dask scheduler
    python -m fedlib dask worker tcp://127.0.0.1:8786 --nworkers 8

A scheduler listens to this machine only unless `--host` or `--interface` says otherwise; so does a worker whose
scheduler is on this machine. Workers take one run at a time. All options are those of `dask scheduler` and of
`dask worker`.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any, cast

from fedlib.commands import FINE
from fedlib.report.usage import UsageError
from fedlib.runs import backends

PROGRAM = "python -m fedlib dask"
LOOPBACK = "127.0.0.1"
WEB = {"scheduler": f"{LOOPBACK}:8787", "worker": f"{LOOPBACK}:0"}  # status pages, never for others
LISTENS = ("--host", "--interface", "--contact-address")


def run(words: list[str], root: Path) -> int:
    """Run Dask's command; it ends with the scheduler or the workers."""
    try:
        backends.require("dask")
    except ImportError as problem:
        raise UsageError(str(problem)) from problem
    from dask.cli import cli, run_cli

    cast(Any, cli).main = partial(cli.main, prog_name=PROGRAM)  # otherwise its help names another program
    sys.argv = [PROGRAM, *with_defaults(words)]
    run_cli()
    return FINE


def with_defaults(words: list[str]) -> list[str]:
    """The command line with our defaults first: if an option comes twice, the later one counts.

    >>> with_defaults(["scheduler", "--port", "0"])
    ['scheduler', '--dashboard-address', '127.0.0.1:8787', '--host', '127.0.0.1', '--port', '0']
    >>> with_defaults(["worker", "tls://10.0.0.5:8786", "--nworkers", "8"])
    ['worker', '--dashboard-address', '127.0.0.1:0', '--nthreads', '1', 'tls://10.0.0.5:8786', '--nworkers', '8']
    """
    command, *options = words or ["--help"]
    if command not in WEB:
        return [command, *options]
    defaults = ["--dashboard-address", WEB[command]]
    defaults += ["--nthreads", "1"] if command == "worker" else []
    has_host = any(word.split("=")[0] in LISTENS for word in options)
    local = command == "scheduler" or any(name in word for word in options for name in (f"{LOOPBACK}:", "localhost:"))
    return [command, *defaults, *(["--host", LOOPBACK] if local and not has_host else []), *options]
