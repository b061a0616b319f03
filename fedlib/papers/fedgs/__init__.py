"""FedGS: Li, He, Yu, Kang, Li, Xu and Niyato, "Data Heterogeneity-Robust Federated Learning via Group Client Selection
in Industrial IoT", IEEE Internet of Things Journal 9(18), 2022.

- `paper.yaml`: what the paper prints; read by `fedlib.judging.ledger.load("fedgs")`.
- `experiments`: one module per notebook. `sampling`: selection problems and how each sampler solves them;
  `comparison`: the rows of Table II; `hyperparameters`: the grids of Figs. 5 and 7; `timing`: the time of a round.
- `results`: `gaps_to_optimum`, `final_scores`, `at_equal_price`, `best_rates`, `break_even`, ...: numbers and tables.
- `pictures`: the figures, one module per notebook, sliders included.
- `audits`: the paper's printed numbers, its stopping rule and its algebra, checked.

Notebooks: `01_selection`, `02_comparison`, `03_hyperparameters`, `04_time`; they call what these export, such as
`experiments.table2(...)`. The method itself is `fedlib/algorithms/fedgs.py`; its samplers are in `fedlib/selection`.
"""
