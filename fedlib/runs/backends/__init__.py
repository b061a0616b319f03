"""Runs of a study on other machines, as tasks of a Dask cluster.

A run travels in legs: a task takes it a minute further and hands back where it stands (`legs`), the client files that in the
store and sends the run on (`client`). So nothing that matters stays on a worker, and one that is lost costs a leg. Workers
compute with their own copy of fedlib and of the data; one whose digits might differ is refused.

`python -m fedlib.runs.backends worker ...` is the command `dask worker ...` with the numerics pinned; `slurm` lets Slurm start it.
"""
