"""`python -m fedlib.runs.backends ...`: the command `dask ...` with the numerics pinned before NumPy loads, and on loopback.

    python -m fedlib.runs.backends scheduler
    python -m fedlib.runs.backends worker tcp://127.0.0.1:8786 --nworkers 8

A scheduler listens to this machine only unless `--host` or `--interface` says otherwise; so does a worker whose scheduler is
on this machine. Workers take one run at a time. All options are those of `dask scheduler` and `dask worker`.
"""

import sys

LOOPBACK = "127.0.0.1"
WEB = {"scheduler": f"{LOOPBACK}:8787", "worker": f"{LOOPBACK}:0"}  # status pages, never for others
LISTENS = ("--host", "--interface", "--contact-address")


def arguments(given: list[str]) -> list[str]:
    """The command line with our defaults first: where an option comes twice, the later one counts.

    >>> arguments(["scheduler", "--port", "0"])
    ['scheduler', '--dashboard-address', '127.0.0.1:8787', '--host', '127.0.0.1', '--port', '0']
    >>> arguments(["worker", "tls://10.0.0.5:8786", "--nworkers", "8"])
    ['worker', '--dashboard-address', '127.0.0.1:0', '--nthreads', '1', 'tls://10.0.0.5:8786', '--nworkers', '8']
    """
    command, *rest = given or ["--help"]
    if command not in WEB:
        return [command, *rest]
    defaults = ["--dashboard-address", WEB[command]]
    defaults += ["--nthreads", "1"] if command == "worker" else []
    told = any(word.split("=")[0] in LISTENS for word in rest)
    local = command == "scheduler" or any(name in word for word in rest for name in (f"{LOOPBACK}:", "localhost:"))
    return [command, *defaults, *(["--host", LOOPBACK] if local and not told else []), *rest]


if __name__ == "__main__":
    from dask.cli import run_cli

    sys.argv = ["python -m fedlib.runs.backends", *arguments(sys.argv[1:])]
    run_cli()
