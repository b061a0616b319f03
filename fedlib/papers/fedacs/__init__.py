"""FedACS: Wang, Zhu, Wang, Han, "Federated Analytics Informed Distributed Industrial IoT Learning with Non-IID Data",
IEEE Transactions on Network Science and Engineering, 2023.

- `paper.yaml`: what the paper prints and claims; the ledger judges against it.
- `experiments`: the environments and the lists of runs behind each figure and table (`PopulationSetting`,
  `comparison`, `tolerances`, `poisoned`, ...), and selectors at a fixed model (`choose_at_fixed_model`).
- `results`: from records to numbers: terminal accuracy, relative improvement, rounds to a target, who was chosen.
- `pictures`: the figures.
- `audits`: the paper's own arithmetic, checked.

A notebook writes `experiments.execute(experiments.comparison(...))`, scores the frame with `results`, draws it with
`pictures`, and shows both with `fedlib.report.show`.
"""
