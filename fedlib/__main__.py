"""`python -m fedlib`: regenerate the reports; `list` shows what there is, `plan` what it will cost, `dask` starts
schedulers and workers of a cluster, `explain` shows how a verdict came about.

    python -m fedlib list
    python -m fedlib explain fedsr/claim-above
    python -m fedlib plan paper=acfmo scale=desk
    python -m fedlib paper=acfmo scale=quick seed=0
    python -m fedlib acfmo.mnist.rounds=20
    python -m fedlib -m seed=0,1,2
    python -m fedlib dask worker tcp://10.0.0.5:8786 --nworkers 8

Exit codes: 0 fine, 1 a notebook failed, 2 a name or value was wrong, 130 interrupted.
"""

import logging
import sys
from importlib import import_module
from pathlib import Path

from fedlib.commands import COMMANDS, INTERRUPTED, USAGE
from fedlib.report.usage import UsageError
from fedlib.surroundings import REPOSITORY


def main(arguments: list[str] | None = None, root: Path = REPOSITORY) -> int:
    """Carry out the command; its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    module, words = (COMMANDS[words[0]], words[1:]) if words and words[0] in COMMANDS else ("reports", words)
    try:
        return import_module(f"fedlib.commands.{module}").run(words, root)
    except UsageError as error:
        print(f"fedlib: {error}\nfedlib: python -m fedlib --help shows all choices and settings.", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # else it reports the cell that was cut short
        kept = " Finished runs are kept; the same command continues where it stopped." if module == "reports" else ""
        print(f"\nInterrupted.{kept}", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
