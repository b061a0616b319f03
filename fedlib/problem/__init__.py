"""What is learned, and by whom.

| here | what it holds |
|---|---|
| `federation` | `federate(...)` -> `Federation`: data dealt to clients, network, seed |
| `partition` | ways to deal samples to clients: `iid`, `shards`, `dirichlet`, ... |
| `skew` | how heterogeneous a partition is, in numbers |
| `models` | the papers' networks by name: `build` |
| `network`, `layout` | a network as the engine trains it; where its weights lie in a flat vector |
| `inputs` | standardising, random crop and flip |
| `queues` | samples that arrive one batch after another |
| `streams` | `generator(seed, purpose, round, client)`: the random streams |
| `limits` | allowed values of options, stated in their types |
"""

from fedlib.problem.federation import Federation, check_federation, federate
from fedlib.problem.layout import Block
from fedlib.problem.network import Network
from fedlib.problem.queues import SampleQueues
from fedlib.problem.streams import generator

__all__ = ["Block", "Federation", "Network", "SampleQueues", "check_federation", "federate", "generator"]
