"""What one can type after `python -m fedlib`: one module per command, each with `run(words, root) -> exit code`.

    reports     no command, only settings: execute the notebooks and write their pages
    catalogue   `list`: what there is
    explain     `explain`: the story of one verdict
    plan_cli    `plan`: what the runs will cost; `dry_run` finds out which runs a notebook asks for
    record_cli  `record`: put finished runs into the record
    verify_cli  `verify`: recompute what is recorded, and compare
    dask_cli    `dask`: a scheduler or workers on other machines

`allowed` says what each setting may be, `manual` is what `--help` prints. A command is imported when it is called: a
wrong word need not wait for torch.
"""

FINE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130  # exit codes
COMMANDS = {  # word -> module
    "list": "catalogue",
    "explain": "explain",
    "plan": "plan_cli",
    "record": "record_cli",
    "verify": "verify_cli",
    "dask": "dask_cli",
}
