"""The five papers, one package each, all of the same shape: what only the notebooks of that paper need.

- `paper.yaml`: what the paper prints, its claims as named checks, its audits (`fedlib.judging.ledger`).
- `experiments`: settings, lists of runs, and computations without training.
- `results`: numbers for tables, from the tidy frames that the runs return.
- `pictures`: figures, sliders included.
- `audits`: tests of its sentences, numbers and formulas, as frames with quantity, printed, found and holds.

A notebook starts with `from fedlib.papers.fedsr import audits, experiments, pictures, results`.
"""
