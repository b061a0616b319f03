"""ACFMO: Zhao, Lu and Cai, "Adaptive Central Acceleration with Variance Control for Robust Federated Optimization in
Ubiquitous Intelligence", IEEE Internet of Things Journal, 2025.

- `paper.yaml`: what the paper prints; read by `fedlib.judging.ledger.load("acfmo")`.
- `experiments`: `tuning` and `comparison` (Figs. 1 to 7), `momentum` (Figs. 8 and 9), `step_sizes`: lists of runs;
  `first_moves`, `local_weight`, `gradient_ratios`, `curvature`: what the audits measure, kept like runs.
- `results`: `ablation`, `printed`; the stability and the convergence theory in numbers.
- `pictures`: what the notebooks draw besides `fedlib.report.plots.panels`.
- `audits`: the paper's equations and printed numbers, checked against each other and against measurements.

Notebooks: `01_mnist`, `02_cifar10`, `03_momentum`. The method itself is `fedlib/algorithms/acfmo.py`.
"""
