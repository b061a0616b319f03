"""ACFMO: Zhao, Lu and Cai, "Adaptive Central Acceleration with Variance Control for Robust Federated Optimization in
Ubiquitous Intelligence", IEEE Internet of Things Journal, 2025.

- `paper.yaml`: what the paper prints; read by `fedlib.judging.ledger.load("acfmo")`.
- `experiments`: the three readings of the method; `papers_rates` and `tune` (two sets of step sizes), `comparison`
  (Figs. 1 to 7), `ablation`, `momentum` (Figs. 8 and 9), `step_sizes`: lists of runs; `optimum`, where all methods
  would end, and what the audits measure, kept like runs.
- `results`: leads, speed and traffic, what coincides, the grid of decay rates; the stability of momentum and the
  convergence theory in numbers.
- `pictures`: curves with bands on the axis they are drawn on, the grids of Fig. 8, and the rest.
- `audits`: the paper's equations and printed numbers, checked against each other and against measurements.

Notebooks: `01_mnist`, `02_cifar10`, `03_momentum`. The method itself is `fedlib/algorithms/acfmo.py`.
"""
