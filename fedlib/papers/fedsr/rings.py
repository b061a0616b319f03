"""How evenly the data fall on the rings: the weights |D_m| / |D| of Eq. (11) over Dirichlet draws (Fig. 7)."""

import numpy as np
import pandas as pd

from fedlib.papers.fedsr.experiments import deal
from fedlib.problem import partition
from fedlib.problem.streams import generator


def sum_of_squares(sizes: np.ndarray, ring: int, rng: np.random.Generator) -> float:
    """sum_m (|D_m| / |D|)^2 when devices of these sizes are dealt at random into rings of `ring`."""
    order = rng.permutation(len(sizes))
    weights = np.array([sizes[order[first : first + ring]].sum() for first in range(0, len(order), ring)]) / sizes.sum()
    return float((weights**2).sum())


def draws(labels: np.ndarray, partitions: list[str], devices: int, ring: int, count: int, seed: int) -> pd.DataFrame:
    """One row a draw of partition and rings."""
    rows = []
    for name in partitions:
        options = deal(name)
        dealer = partition.PARTITIONERS[options.pop("partitioner")]
        for draw in range(count):
            rng = generator(seed, "fig7", draw)
            sizes = np.array([len(part) for part in dealer(labels, devices, **options, rng=rng)])
            rows.append({"partition": name, "seed": draw, "sum_of_squares": sum_of_squares(sizes, ring, rng)})
    return pd.DataFrame(rows)
