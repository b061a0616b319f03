"""How fast the engine is, compared with a plain PyTorch loop, other simulators and the machine's limit.

`python -m fedlib.bench` (or `make bench`) lets every contestant do the same federated rounds, in turns within one run,
and writes `reports/bench/bench.json` and `reports/bench/index.html`. A contestant is one module in `contestants/`; each
runs in a process of its own (`worker`), and the `referee` lets one of them run at a time. `workloads` says what is
measured, `growth` how time grows with clients and participants, `page` writes the report.

`python -m fedlib.bench.overhead` measures what it costs to send runs to other processes and machines.
"""
