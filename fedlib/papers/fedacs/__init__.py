"""FedACS: Wang, Zhu, Wang and Han, "Federated Analytics Informed Distributed Industrial IoT Learning with Non-IID
Data", IEEE Transactions on Network Science and Engineering, 2023.

- `paper.yaml`: what the paper prints; read by `fedlib.judging.ledger.load("fedacs")`.
- `experiments`: `PopulationSetting`, the settings that all runs of a notebook share; lists of runs: `environments`
  (Fig. 2), `observation` (Fig. 4), `client_counts` (Fig. 5), `comparison` and `variants` (Fig. 6, Tables II and III),
  `tolerances` (Figs. 7 to 9), `early_stop` (Fig. 10), `poisoned`, `target_trials`; other computations, kept like runs:
  `relevances`, from which CMFL's threshold follows, `clients_at_fixed_models`, `rehearsal`, `beta_parameters`,
  `poisoners_at_fixed_models`.
- `results`: terminal accuracy, relative improvement, rounds to a target, speed-ups, clients' signals, who was chosen.
- `pictures`: the figures.
- `audits`: the paper's printed numbers and formulas, checked; the text compared with the released code.

Notebooks: `01_skewness`, `02_comparison`, `03_bandit`. The method itself is `fedlib/algorithms/fedacs.py`; its estimate
and its bandit are in `fedlib/selection`.
"""
