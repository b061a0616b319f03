"""Which client holds which classes. Kept and read like a run, so that a page that shows it needs no data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedlib.problem import skew
from fedlib.problem.federation import federate
from fedlib.runs.computations import computation

PARTITION = "partition "  # before the fingerprint in a table: otherwise, one of digits only would be read as a number


@dataclass(frozen=True)
class Holdings:
    """The samples of the clients of a federation, by class, and other facts that pages show without its data."""

    counts: np.ndarray  # samples of each class that each client holds, (clients, classes)
    different: int  # samples in use; clients may share some
    weights: int  # of the network
    fingerprint: str  # of the partition

    @property
    def clients(self) -> int:
        return len(self.counts)

    @property
    def sizes(self) -> np.ndarray:
        """Samples per client."""
        return self.counts.sum(axis=1)

    @property
    def samples(self) -> int:
        """Samples of all clients together; one that clients share counts for each of them."""
        return int(self.counts.sum())

    def measures(self) -> pd.DataFrame:
        """How heterogeneous they are: mean, min and max over the clients of each measure of `problem.skew`."""
        return skew.summary(self.counts)


def held(federation: dict[str, Any], seed: int) -> Holdings:
    """What the clients hold, given the arguments of `federate`."""
    frame = class_counts(federation, seed)
    about = frame.iloc[0]
    return Holdings(
        frame.filter(regex=r"^class_\d+$").to_numpy().astype(int, order="C"),  # the order in which sums are rounded
        int(about["different"]),
        int(about["weights"]),
        about["partition"].removeprefix(PARTITION),
    )


@computation
def class_counts(federation: dict, seed: int) -> pd.DataFrame:
    """One row per client, one column per class; further columns, equal in all rows, describe the federation."""
    built = federate(**federation, seed=seed)
    counts = built.class_counts.numpy().astype(int)
    frame = pd.DataFrame(counts, columns=[f"class_{label}" for label in range(built.classes)])
    different = len(np.unique(np.concatenate([rows.numpy() for rows in built.rows])))
    about = {"different": different, "weights": built.start.numel(), "partition": PARTITION + built.fingerprint}
    return frame.assign(**about)
