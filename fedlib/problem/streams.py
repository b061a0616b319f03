"""Random streams: an independent generator for each (seed, purpose, round, client).

No stream is shared, so the order of clients, the number of processes and a stop in the middle change nothing.
"""

import zlib

import numpy as np


def generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """The stream for one purpose ("partition", "participants", "batches", ...) of one round and one client."""
    entropy = [seed, zlib.crc32(purpose.encode()), round, client]
    if 0 <= seed < 2**32:  # NumPy need not convert an array of words, which takes a third of the time
        entropy = np.array(entropy, dtype=np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
