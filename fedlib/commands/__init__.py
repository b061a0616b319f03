"""The commands of `python -m fedlib`: one module per command, each with `run(words, root) -> exit code`.

    reports     no command, only settings: execute the notebooks and write their pages
    catalogue   `list`: papers, notebooks, methods, data sets
    explain     `explain`: how one verdict came about
    plan_cli    `plan`: what the runs will cost; `dry_run` finds the runs that a notebook asks for
    record_cli  `record`: put finished runs into the record
    verify_cli  `verify`: recompute recorded runs and compare
    findings_cli  `findings`: the table of findings in README.md
    dask_cli    `dask`: a scheduler or workers on other machines

`allowed` has the allowed values of each setting, `manual` the text of `--help`. A command is imported when it is
called, so that a wrong word does not wait for torch.
"""

FINE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130  # exit codes
COMMANDS = {  # word -> module
    "list": "catalogue",
    "explain": "explain",
    "plan": "plan_cli",
    "record": "record_cli",
    "verify": "verify_cli",
    "findings": "findings_cli",
    "dask": "dask_cli",
}
