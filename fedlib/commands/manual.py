"""What `python -m fedlib --help` prints."""

from pathlib import Path

from fedlib.report.settings import groups

TEXT = """Regenerate the reports: execute the notebooks, write one HTML page each and an index.

  python -m fedlib [choice=name ...] [setting=value ...]
  python -m fedlib list                  papers, notebooks, figures, methods, data sets (and whether on disk)
  python -m fedlib list settings         every parameter of every notebook, ready to be typed here
  python -m fedlib plan scale=paper      what it will cost: runs, core-hours, memory, time for n workers
                                         (--workers 2,32  --json  --seconds 2, the time to measure each kind)
  python -m fedlib verify                recompute the first rounds of each kind of recorded run, and compare
                                         (paper=fedsr  --sample 5  --all  --accept)
  python -m fedlib record paper=.. scale=..   put finished runs of this machine into the record
  python -m fedlib findings              write the findings of README.md and the start page
  python -m fedlib explain fedsr/claim-above
                                         how a verdict came about: needs, comparisons, intervals, data
                                         (--scale desk  --report folder)
  python -m fedlib dask worker ...       workers on another machine, for backend=dask; dask scheduler: their scheduler

Choices (one of each)
{choices}

Settings
  record=stale        how to use recorded runs: stale (use all, mark those of other code), use (recompute those),
                      ignore (use none), only (compute nothing)
  seed=0              every random draw of every notebook follows from it
  notebooks=[mnist]   only these notebooks of the chosen papers
  backend.workers=2   processes (null: one per core); backend=dask backend.address=tcp://... uses a cluster
  data.folder=...     drop-in data sets; data.cache, data.offline=true
  report=...          where the pages go (reports/<scale>; with changed parameters a folder in reports/changed;
                      in a sweep, a folder per job is made in it)
  acfmo.mnist.rounds=20
                      any parameter of any notebook, as <paper>.<notebook>.<parameter>

Examples
  python -m fedlib                                   everything, from the record
  python -m fedlib scale=quick record=ignore         everything from scratch, in about ten minutes
  python -m fedlib paper=acfmo notebooks=[mnist]     one notebook
  python -m fedlib acfmo.mnist.rounds=20             one parameter changed
  python -m fedlib -m seed=0,1,2                     a sweep: one report folder per job in reports/sweeps

Exit codes: 0 fine, 1 a notebook failed, 2 a name or value was wrong, 130 interrupted (finished runs are kept)."""


def text(root: Path) -> str:
    """The manual, with the choices that `conf/` offers."""
    return TEXT.replace("{choices}", "\n".join(f"  {name}: {', '.join(files)}" for name, files in groups(root).items()))
