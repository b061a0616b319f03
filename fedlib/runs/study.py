"""A study: many runs in, one tidy frame out. Finished runs are read back, missing ones go to the backend in use."""

from collections.abc import Iterable

import pandas as pd
from tqdm import tqdm

from fedlib.problem.limits import Count, checked
from fedlib.runs import backends, store
from fedlib.runs.bars import quiet
from fedlib.runs.store import Run

__all__ = ["Run", "RunFailed", "execute", "labelled"]


class RunFailed(RuntimeError):
    """Some runs raised; the others are finished and stored."""


def execute(runs: Iterable[Run], backend: str | None = None, workers: int | None = None) -> pd.DataFrame:
    """All runs as one tidy frame: the label of each run, its seed, and one row per measured round.

    The backend is named here, or by FEDLIB_BACKEND and FEDLIB_WORKERS (set from the Hydra config); by default runs are
    shared by one process per core.
    """
    runs = list(runs)
    chosen = backends.load(backend)
    many: int = backends.cores() if workers is None else checked("workers", workers, Count)
    unique = list({run.key: run for run in runs}.values())
    records = {run.key: stored for run in unique if (stored := store.load(run)) is not None}
    missing = [run for run in unique if run.key not in records]
    failures: dict[str, str] = {}
    with _bar(missing) as bar:
        for run, outcome in chosen.outcomes(missing, many, bar.update):
            if isinstance(outcome, str):
                failures[run.key] = outcome
            else:
                records[run.key] = outcome
    if failures:
        raise RunFailed(_complaint(missing, failures))
    return pd.concat([labelled(run, records[run.key]) for run in runs], ignore_index=True)


def labelled(run: Run, records: pd.DataFrame) -> pd.DataFrame:
    """The records of a run with its label and seed in front."""
    return records.assign(**run.label, seed=run.seed)[[*run.label, "seed", *records.columns]]


def _complaint(runs: list[Run], failures: dict[str, str]) -> str:
    reports = [f"{run.config}\n{failures[run.key]}" for run in runs if run.key in failures]
    return f"{len(reports)} of {len(runs)} runs failed, the others are stored.\n\n" + "\n\n".join(reports)


def _bar(runs: list[Run]) -> tqdm:
    rounds = sum(run.rounds for run in runs)
    return tqdm(total=rounds, desc=f"{len(runs)} runs", unit="round", leave=False, disable=quiet() or not runs)
