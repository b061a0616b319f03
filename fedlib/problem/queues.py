"""Data that arrive over time: each device has a queue of samples, and a batch is removed once it is used.

A device's samples arrive in a random order. A data set is finite but a queue must never be empty: when all samples have
arrived, they arrive again in a new order, so every batch has the same size. Until then no sample is used twice.
"""

import numpy as np

from fedlib.problem.federation import Federation
from fedlib.problem.streams import generator


class SampleQueues:
    """The next batch of every device, first in, first out. `taken` counts the batches that each device has used."""

    def __init__(self, federation: Federation, batch: int, taken: np.ndarray):
        self.federation, self.batch = federation, batch
        self.taken = np.array(taken)
        self.labels = federation.y.numpy()
        self.rows = np.empty((federation.clients, batch), dtype=np.int64)  # the next batch, as rows of x
        self.counts = np.empty((federation.clients, federation.classes), dtype=np.int64)  # a_t^{m,k}, its class counts
        self.orders: dict[int, tuple[int, np.ndarray]] = {}  # device -> number and order of its current pass
        self.fetch(np.arange(federation.clients))

    def advance(self, devices: np.ndarray) -> None:
        """These devices have used their batch: fetch their next one."""
        self.taken[devices] += 1
        self.fetch(devices)

    def fetch(self, devices: np.ndarray) -> None:
        """Fill in the next batch of these devices and its class counts."""
        for device in devices.tolist():
            self.rows[device] = self.next_rows(device)
        classes = self.federation.classes
        labels = self.labels[self.rows[devices]] + classes * np.arange(len(devices))[:, None]
        self.counts[devices] = np.bincount(labels.ravel(), minlength=classes * len(devices)).reshape(-1, classes)

    def next_rows(self, device: int) -> np.ndarray:
        """The device's next batch, as rows of x: positions taken * n ... taken * n + n - 1 of its endless queue."""
        device_rows = self.federation.rows[device].numpy()
        first = int(self.taken[device]) * self.batch
        passes, positions = np.divmod(np.arange(first, first + self.batch), len(device_rows))
        parts = [
            self.order(device, number, len(device_rows))[positions[passes == number]]
            for number in np.unique(passes).tolist()
        ]
        return device_rows[np.concatenate(parts)]

    def order(self, device: int, number: int, size: int) -> np.ndarray:
        """The order in which the device's samples arrive on their pass `number`."""
        if self.orders.get(device, (None,))[0] != number:
            permutation = generator(self.federation.seed, "stream", number, device).permutation(size)
            self.orders[device] = number, permutation
        return self.orders[device][1]
