"""fedlib: rerun and judge papers on federated learning with heterogeneous data."""

from fedlib import numerics  # noqa: F401  first: it pins numerics before torch and NumPy load

__version__ = "0.1.0"


def __getattr__(name: str):
    """`fedlib.simulate` and `fedlib.federate`, loaded when first asked for: the command line need not wait for torch."""
    if name == "simulate":
        from fedlib.runs.simulation import simulate

        return simulate
    if name == "federate":
        from fedlib.problem.federation import federate

        return federate
    raise AttributeError(f"module 'fedlib' has no attribute {name!r}")
