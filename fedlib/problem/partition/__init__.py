"""How samples are dealt to clients: labels in, one array of sample indices per client out.

Every partitioner has the signature (labels, clients, ..., rng) -> list of index arrays. Each paper has its own:

- FedSR (Section IV-C): `iid`; pathological `shards`; `dirichlet`, which splits every class over the clients.
- ACFMO (Section V-A): `dirichlet_clients`, where every client draws its own class proportions.
- FEDL, the source of FCBAFL: `lognormal_labels`, a few classes per client in log-normal amounts.
- FedGS: `by_writer`, the devices that the data came from.
- FedACS (Definitions 1 to 5 and Section VII): `dominance` clients, and the environments `uniform_skew`,
  `inverse_pareto_skew`, `dirichlet_skew` and `few_class_skew`, in which clients differ in *how* skewed they are.

The first six (`disjoint`) give no sample to two clients and leave none over (`by_writer`: unless only some of the
writers are asked for). In the FedACS family (`environments`) every client holds `samples` samples; clients share some
where more samples of a class are needed than there are.

Every index array is sorted. All randomness comes from `rng`. Sorting is stable and counts are whole numbers, so a split
does not depend on the instruction set that NumPy uses; equal splits have equal `fingerprint`s. An impossible argument
raises a ValueError that names it and says what would be right.

>>> import numpy as np
>>> labels = np.repeat(np.arange(10), 100)
>>> parts = shards(labels, 5, per_client=2, rng=np.random.default_rng(0))
>>> [len(part) for part in parts], fingerprint(parts) == fingerprint(parts[::-1])
([200, 200, 200, 200, 200], False)
"""

from collections.abc import Callable

import numpy as np

from fedlib.problem.partition.assignment import fingerprint
from fedlib.problem.partition.disjoint import by_writer, dirichlet, dirichlet_clients, iid, lognormal_labels, shards
from fedlib.problem.partition.environments import (
    dirichlet_betas,
    dirichlet_skew,
    dominance,
    few_class_skew,
    inverse_pareto_alphas,
    inverse_pareto_density,
    inverse_pareto_skew,
    uniform_alphas,
    uniform_skew,
)

PARTITIONERS: dict[str, Callable[..., list[np.ndarray]]] = {
    "iid": iid,
    "shards": shards,
    "dirichlet": dirichlet,
    "dirichlet_clients": dirichlet_clients,
    "lognormal_labels": lognormal_labels,
    "dominance": dominance,
    "uniform_skew": uniform_skew,
    "inverse_pareto_skew": inverse_pareto_skew,
    "dirichlet_skew": dirichlet_skew,
    "few_class_skew": few_class_skew,
    "by_writer": by_writer,
}

__all__ = [
    "PARTITIONERS",
    "by_writer",
    "dirichlet",
    "dirichlet_betas",
    "dirichlet_clients",
    "dirichlet_skew",
    "dominance",
    "few_class_skew",
    "fingerprint",
    "iid",
    "inverse_pareto_alphas",
    "inverse_pareto_density",
    "inverse_pareto_skew",
    "lognormal_labels",
    "shards",
    "uniform_alphas",
    "uniform_skew",
]
