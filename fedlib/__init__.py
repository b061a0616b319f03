"""fedlib: rerun and judge papers on federated learning with heterogeneous data.

The packages are listed in the order in which data pass through them; none imports from a later one.

| package | what is in it |
|---|---|
| `data` | data sets: sources, checksums, loading |
| `problem` | what is learned, and by whom: partitions, networks, federations |
| `engine` | the arithmetic of local training |
| `selection`, `wireless` | who takes part; channel, delay and energy |
| `algorithms` | one file per method |
| `runs` | runs, their store, studies, and the backends where they execute |
| `judging` | what papers print, what was measured, and the verdict |
| `report` | what notebooks show, and how they become pages |
| `papers` | what only the notebooks of one paper need |
| `course` | the lessons |
| `bench` | how fast the engine is |
| `commands` | the commands of `python -m fedlib` |

`fedlib.federate(...)` makes a federation, `fedlib.simulate(algorithm, federation, rounds)` runs a method on it.
"""

from fedlib import numerics  # noqa: F401  first: it pins numerics before torch and NumPy load

__version__ = "0.1.0"


def __getattr__(name: str):
    """`simulate` and `federate`, loaded when first asked for: the command line need not wait for torch."""
    if name == "simulate":
        from fedlib.runs.simulation import simulate

        return simulate
    if name == "federate":
        from fedlib.problem import federate

        return federate
    raise AttributeError(f"module 'fedlib' has no attribute {name!r}")
