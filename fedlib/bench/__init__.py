"""How fast the engine is, beside the loop people write, the field's simulators and the machine's limit.

`python -m fedlib.bench` (or `make bench`) lets every contestant do the same federated rounds, turn by turn in one run,
and writes `reports/bench/bench.json` and `reports/bench/index.html`. A contestant is one module in `contestants/`; each
works in a process of its own (`worker`), and the `referee` gives one of them at a time the word.
"""
