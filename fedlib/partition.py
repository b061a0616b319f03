"""The partitioners under the name others rely on; they are defined in `fedlib.problem.partition`."""

from fedlib.problem.partition import (
    PARTITIONERS,
    by_writer,
    dirichlet,
    dirichlet_clients,
    dirichlet_skew,
    dominance,
    few_class_skew,
    fingerprint,
    iid,
    inverse_pareto_skew,
    shards,
    uniform_skew,
)

__all__ = [
    "PARTITIONERS",
    "by_writer",
    "dirichlet",
    "dirichlet_clients",
    "dirichlet_skew",
    "dominance",
    "few_class_skew",
    "fingerprint",
    "iid",
    "inverse_pareto_skew",
    "shards",
    "uniform_skew",
]
