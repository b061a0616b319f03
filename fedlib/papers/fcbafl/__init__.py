"""FCBAFL: Qiu, Li, Li and Xiao, "FCBAFL: An Energy-Conserving Federated Learning Approach in Industrial Internet of
Things", KSII Transactions on Internet and Information Systems 18(9), 2024.

- `paper.yaml`: what the paper prints; read by `fedlib.judging.ledger.load("fcbafl")`.
- `experiments`: the runs of Figs. 2 to 5 (`tuning`, `comparison`), the sweeps of Figs. 6 to 8 (`over_deadlines`,
  `over_devices`), and what we add: `sensitivity`, `closest`, `joint_gap`, `solvers`, `one_round`, `round_energy`.
- `results`: `theta_after`, `figures`, `late_rounds`, `closest_cell`, `per_round`: numbers from the results of the
  experiments.
- `pictures`: the system, a toy with two devices, curves, energies, maps, sliders (`cell_explorer`).
- `audits`: the paper's formulas and constants, checked.

Notebooks: `01_learning`, `02_energy`. The method is `fedlib/algorithms/fcbafl.py`, the radio is `fedlib/wireless`.
"""
