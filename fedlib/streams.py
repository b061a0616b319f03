"""Where randomness comes from: one independent stream for each (seed, purpose, round, client).

Because no stream is shared, the order of clients, the number of processes and a stop in the middle change nothing.
"""

import zlib

import numpy as np


def generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """The stream for one purpose ("partition", "participants", "batches", ...) of one round and one client."""
    words = [seed, zlib.crc32(purpose.encode()), round, client]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
