"""fedlib: rerun and judge papers on federated learning with heterogeneous data."""

from fedlib import numerics  # noqa: F401  first: it pins numerics before torch and NumPy load

__version__ = "0.1.0"
