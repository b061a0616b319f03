"""How many models are sent per round, counted from who sends them to whom (FedSR, Table III, in units of one model).

The printed costs divide into whole rounds under one rule: a model counts whenever a device sends it and whenever the
cloud exchanges it with its partners; what an edge server sends to its own devices is free. Without that rule HierFAVG
costs nearly twice as much. Both counts are here.
"""

from collections.abc import Callable, Iterator
from typing import Any

from fedlib.algorithms.algorithm import Algorithm, round_half_up
from fedlib.algorithms.fedsr import FedSR
from fedlib.algorithms.hierfavg import HierFAVG

Hop = tuple[str, str]  # sender, receiver: cloud, edge or device


def star_hops(algorithm: Algorithm, clusters: list[int]) -> Iterator[Hop]:
    """FedAvg and similar methods: the cloud sends the model to each device, and each sends its model back."""
    for _ in range(sum(clusters)):
        yield "cloud", "device"
        yield "device", "cloud"


def ring_hops(algorithm: Algorithm, clusters: list[int]) -> Iterator[Hop]:
    """Ring-optimization: each device sends to the next, the last to the first; there is no server."""
    for _ in range(sum(clusters)):
        yield "device", "device"


def star_of_rings_hops(algorithm: FedSR, clusters: list[int]) -> Iterator[Hop]:
    """FedSR: down to the ring's first device, from device to device through all passes, and up again from the last."""
    for devices in clusters:
        yield "cloud", "edge"
        yield "edge", "device"
        for _ in range(algorithm.passes * devices - 1):
            yield "device", "device"
        yield "device", "edge"
        yield "edge", "cloud"


def tree_hops(algorithm: HierFAVG, clusters: list[int]) -> Iterator[Hop]:
    """HierFAVG: each edge iteration goes down to the edge server's devices and up again."""
    for devices in clusters:
        yield "cloud", "edge"
        for _ in range(algorithm.iterations * devices):
            yield "edge", "device"
            yield "device", "edge"
        yield "edge", "cloud"


TOPOLOGY: dict[str, Callable[[Any, list[int]], Iterator[Hop]]] = {
    "fedavg": star_hops,
    "fedprox": star_hops,
    "moon": star_hops,
    "hierfavg": tree_hops,
    "ring": ring_hops,
    "fedsr": star_of_rings_hops,
}


def hops(algorithm: Algorithm, devices: int) -> list[Hop]:
    """Every sending of a model in one round of a method, for a federation with this number of devices."""
    name = type(algorithm).__name__.lower()
    if name not in TOPOLOGY:
        raise ValueError(f"no topology is known for {name}; known: {', '.join(TOPOLOGY)}")
    present = max(1, round_half_up(algorithm.participation * devices))
    size = getattr(algorithm, "cluster_size", present)
    return list(TOPOLOGY[name](algorithm, [min(size, present - first) for first in range(0, present, size)]))


def per_round(algorithm: Algorithm, devices: int, edge_broadcasts: bool = False) -> int:
    """Models sent per round, as Table III counts them; `edge_broadcasts` adds what edge servers send to devices."""
    return sum(edge_broadcasts or hop != ("edge", "device") for hop in hops(algorithm, devices))
