"""Where randomness comes from: one independent stream for each (seed, purpose, round, client).

Because no stream is shared, the order of clients, the number of processes and a stop in the middle change nothing.
"""

import zlib

import numpy as np


def generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """The stream for one purpose ("partition", "participants", "batches", ...) of one round and one client."""
    words = [seed, zlib.crc32(purpose.encode()), round, client]
    if 0 <= seed < 2**32:  # as an array, which NumPy takes as it is: a third of the time
        words = np.array(words, dtype=np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
