"""FedGS: Li, He, Yu, Kang, Li, Xu, Niyato, "Data Heterogeneity-Robust Federated Learning via Group Client Selection in
Industrial IoT", IEEE Internet of Things Journal 9(18), 2022.

- `paper.yaml`: what the paper prints and claims; the ledger judges against it.
- `experiments`: one module per notebook. `sampling`: the selection problems and what each sampler makes of them;
  `comparison`: the rows of Table II; `hyperparameters`: the grids of Figs. 5 and 7; `timing`: the time of a round.
- `results`: from records to numbers and tables.
- `pictures`: the figures, one module per notebook, sliders included.
- `audits`: the paper's own arithmetic, checked.

A notebook writes `from fedlib.papers.fedgs import audits, experiments, pictures, results` and calls what these export:
`study.execute(experiments.table2(...))`, `results.final_scores(...)`, `pictures.family_panels(...)`.
"""
