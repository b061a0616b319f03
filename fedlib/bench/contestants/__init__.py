"""Who takes part: `CONTESTANTS` by name, one module each, with `run(workload, serve)`.

`run` prepares the data and the model and passes `serve` a function that plays one round and returns the number of
sample gradients it took. A contestant that does not offer a workload raises `NotAvailable`.
"""

from fedlib.bench.contestants.roster import CONTESTANTS, GROWTH, Contestant, NotAvailable, Play, Serve

__all__ = ["CONTESTANTS", "GROWTH", "Contestant", "NotAvailable", "Play", "Serve"]
