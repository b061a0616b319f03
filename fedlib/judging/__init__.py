"""From measured numbers to verdicts: what a paper prints, what we measured, and whether the two agree.

- `ledger`: what the papers print, joined with the numbers of a report. Call `load(paper)` for a paper and its entries,
  `judge(entry, report)` for one verdict, `write(report, papers, scale)` for all of them. Its docstring has the format.
- `entries`: what the papers print (`papers/<paper>/paper.yaml`), read and validated.
- `facts`: the parameters that numbers were computed with, what claims need of them, settings of printed numbers.
- `checks`: a sentence of a paper as comparisons. `CHECKS` holds those that a YAML file may name; `audit` makes the
  frame of an audit: quantity, printed, found, holds.
- `claims`: comparisons judged, and the verdict of a claim by its quantifier. Call `decide(comparisons, quantifier)`.
- `statistics`: intervals and tests of paired differences, families of them, races to a target. Call `estimate`.
- `curves`: where curves over rounds end, when they reach a target, how rough they are. Call `final`, `mean_curves`.
- `transfers`: how many models are sent per round, counted from who sends to whom. Call `per_round`.

Frames are tidy: one row per seed, one column per number. Only `ledger.judge` decides a verdict.
"""
