"""fedlib comes first, so that numerics are pinned before NumPy and torch load."""

import fedlib  # noqa: F401
