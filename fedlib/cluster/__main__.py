"""`python -m fedlib.cluster ...`: the command `dask ...`, with the numerics pinned before NumPy loads.

    python -m fedlib.cluster scheduler --host 127.0.0.1
    python -m fedlib.cluster worker tcp://127.0.0.1:8786 --nworkers 8 --nthreads 1
"""

import sys

from dask.cli import run_cli

if __name__ == "__main__":
    sys.argv[0] = "python -m fedlib.cluster"
    run_cli()
