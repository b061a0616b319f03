"""FedSR: Huang, Ye and Kang, "FedSR: A Semi-Decentralized Federated Learning Algorithm for Non-IIDness in IoT System",
arXiv 2403.14718, 2024.

- `paper.yaml`: what the paper prints; read by `fedlib.judging.ledger.load("fedsr")`.
- `experiments`: `TrainingProblem` and the runs on it: `two_methods` (Table I), `tuning`, `comparison` (Table II),
  `crowd` (Table IV), `epochs_and_passes` (Fig. 9), `ring_shares` (Fig. 10); who holds what:
  `first_rings`, `ring_draws` (Fig. 7), `device_counts` (Fig. 8).
- `results`: from curves to the numbers of the tables: `ends`, `judged`, `lost_against_iid`, `transfers_to` and others.
- `pictures`: the topologies (Figs. 1, 2 and 4), curves, heat maps, what a setting does.
- `audits`: the paper's own numbers and formulas, checked.

Notebooks: `01_ring_idea`, `02_comparison`, `03_sensitivity`. The method itself is `fedlib/algorithms/fedsr.py`.
"""
