"""The networks under the name others rely on; they are defined in `fedlib.problem.models`."""

from fedlib.problem.models import NETWORKS, build, initialise

__all__ = ["NETWORKS", "build", "initialise"]
