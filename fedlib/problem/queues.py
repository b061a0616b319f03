"""Data that arrive as a stream: every device has a queue of samples, and a batch leaves it for good once it is used.

A device's samples come in a random order. A finite data set is not an endless stream: when all samples have come, they
come again in a new order, so the queue never runs dry and every batch has the same size. Until then no sample is used
twice.
"""

import numpy as np

from fedlib.problem.streams import generator


class Streams:
    """The next batch of every device, first in, first out. `taken` counts the batches each device has used before."""

    def __init__(self, federation, batch: int, taken: np.ndarray):
        self.federation, self.batch = federation, batch
        self.taken = np.array(taken)
        self.labels = federation.y.numpy()
        self.rows = np.empty((federation.clients, batch), dtype=np.int64)  # rows of x in the next batch
        self.counts = np.empty((federation.clients, federation.classes), dtype=np.int64)  # a_t^{m,k}, its classes
        self.orders: dict[int, tuple[int, np.ndarray]] = {}  # of each device, the order of its current pass
        self.fetch(np.arange(federation.clients))

    def advance(self, devices: np.ndarray) -> None:
        """These devices have used their batch; the next one moves up."""
        self.taken[devices] += 1
        self.fetch(devices)

    def fetch(self, devices: np.ndarray) -> None:
        for device in devices.tolist():
            self.rows[device] = self.next_rows(device)
        classes = self.federation.classes
        labels = self.labels[self.rows[devices]] + classes * np.arange(len(devices))[:, None]
        self.counts[devices] = np.bincount(labels.ravel(), minlength=classes * len(devices)).reshape(-1, classes)

    def next_rows(self, device: int) -> np.ndarray:
        """Places taken * n ... taken * n + n - 1 of the device's endless stream, as rows of x."""
        own = self.federation.rows[device].numpy()
        first = int(self.taken[device]) * self.batch
        passes, places = np.divmod(np.arange(first, first + self.batch), len(own))
        numbers = np.unique(passes).tolist()
        parts = [self.order(device, number, len(own))[places[passes == number]] for number in numbers]
        return own[np.concatenate(parts)]

    def order(self, device: int, number: int, size: int) -> np.ndarray:
        """In which order the device's samples come on their pass `number`."""
        if self.orders.get(device, (None,))[0] != number:
            draw = generator(self.federation.seed, "stream", number, device).permutation(size)
            self.orders[device] = number, draw
        return self.orders[device][1]
