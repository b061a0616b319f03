"""FedSR: Huang, Ye and Kang, "FedSR: A Semi-Decentralized Federated Learning Algorithm for Non-IIDness in IoT System",
arXiv 2403.14718, 2024.

- `paper.yaml`: what the paper prints; read by `fedlib.judging.ledger.load("fedsr")`.
- `experiments`: `TrainingProblem` and the runs on it: `two_methods` (Table I), `central_check` and `tune`, `comparison`
  (Tables II and III), `crowd` (Table IV), `epochs_and_passes` (Fig. 9), `ring_shares` (Fig. 10); data on devices and
  rings: `first_rings`, `ring_draws` (Fig. 7), `device_counts` (Fig. 8); `plan`: what the desk scale runs and skips.
- `results`: from curves to the numbers of the tables: `ends`, `prices` in five currencies, `reaching` a target,
  `at_equal_budgets`, differences of differences (`ring_leads`, `share_gains`) and others.
- `pictures`: the topologies (Figs. 1, 2 and 4), curves, heat maps, effects of a setting.
- `audits`: the paper's own numbers and formulas, checked.

Notebooks: `01_ring_idea`, `02_comparison`, `03_sensitivity`, `04_images`. The method itself is
`fedlib/algorithms/fedsr.py`; `literalfedsr.py` is its Algorithm 1 exactly as printed.
"""
