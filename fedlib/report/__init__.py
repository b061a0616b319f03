"""From notebooks to HTML: execute with parameters, one page a notebook, one index for all.

`build` runs the whole batch, `execute` runs one notebook through papermill, `html` turns an executed notebook into a
page, `index` joins ledger and pages, `show` is what notebooks use. This file imports nothing: kernels need only `show`.
"""
