"""`fedlib [choice=name ...] [setting=value ...]`: execute the notebooks and write their pages.

Everything on the command line is checked first, in every job of a sweep (`-m seed=0,1`); then the jobs run one after
another.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from fedlib.commands import COMMANDS, FAILED, FINE, allowed, manual
from fedlib.report.notebooks import Notebook, discover, selection
from fedlib.report.settings import combinations, compose_job
from fedlib.report.usage import UsageError
from fedlib.runs import backends

if TYPE_CHECKING:
    from fedlib.report.execute import Outcome

LOCAL = ("report", "data", "backend", "record")  # settings that concern this machine only and do not change results
LONGEST_NAME = 150  # bytes; most systems allow 255
HELP, SWEEP = ("-h", "--help"), ("-m", "--multirun")


@dataclass(frozen=True)
class Job:
    """One report: the words typed for it, and the config and notebooks they mean."""

    words: list[str]
    config: DictConfig
    notebooks: list[Notebook]
    sweep: bool = False  # whether it is one of several


def run(words: list[str], root: Path) -> int:
    """Check the command line, regenerate, and print where the reports are."""
    if any(word in HELP for word in words):
        print(manual.text(root))
        return FINE
    jobs = jobs_of(words, root)
    from fedlib.report.produce import build  # seconds of imports that --help and a wrong name need not wait for

    reports = []
    for job in jobs:
        folder = report_folder(job, root)
        reports.append((folder, build(root, job.notebooks, job.config, folder, command(job.words))))
    return summary(reports)


def jobs_of(words: list[str], root: Path) -> list[Job]:
    """Every job with its names and values checked: a mistake in the last job of a sweep stops the first."""
    if not (root / "conf" / "config.yaml").exists():
        raise UsageError("conf/ is missing: run from a checkout, installed with pip install -e .")
    settings = [word for word in words if word not in SWEEP]
    for word in settings:
        if "=" not in word or word.startswith("-"):
            raise UsageError(f"{word}: settings are written name=value. The commands there are: {', '.join(COMMANDS)}.")
    if len(settings) == len(words):
        return [_job(settings, root)]
    return [_job(job, root, sweep=True) for job in combinations(settings)]


def _job(words: list[str], root: Path, sweep: bool = False) -> Job:
    config = compose_job(root, words)
    notebooks = selection(root, config)
    allowed.check(config, root)
    _check_backend(config.backend.name)
    return Job(words, config, notebooks, sweep)


def _check_backend(name: str) -> None:
    try:
        backends.require(name)
    except ImportError as problem:
        raise UsageError(str(problem)) from problem


def report_folder(job: Job, root: Path) -> Path:
    """`reports/<scale>`, or the one given; in a sweep, or where a parameter was changed, a folder named after the job's
    words: a report with other parameters does not replace the one without. In a sweep it is in the folder given."""
    given = any(_first_name(word) == "report" for word in job.words)
    if job.sweep:
        return (Path(job.config.report).resolve() if given else root / "reports" / "sweeps") / _named_after(job.words)
    if changes_parameters(job.words, root):
        return root / "reports" / "changed" / _named_after(job.words)
    return Path(job.config.report).resolve()


def _named_after(words: list[str]) -> str:
    """A name for the folder of a job: its words, or as much of them as a file name may have, and their hash."""
    text = ",".join(word for word in words if _first_name(word) != "report")
    name = re.sub(r"[^\w.,=+-]+", "_", text) or "defaults"
    if len(name.encode()) <= LONGEST_NAME:
        return name
    return f"{name.encode()[:LONGEST_NAME].decode(errors='ignore')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def changes_parameters(words: list[str], root: Path) -> bool:
    """Whether the words set a parameter of a notebook or the seed, and do not say themselves where the report goes."""
    papers = {notebook.paper for notebook in discover(root)}
    names = [_first_name(word) for word in words]
    return "report" not in names and any(name == "seed" or name in papers for name in names)


def command(words: list[str]) -> str:
    """What to type for the same results."""
    return shlex.join(["python", "-m", "fedlib", *(word for word in words if not _is_local(word))])


def _is_local(word: str) -> bool:
    return _first_name(word) in LOCAL


def _first_name(word: str) -> str:
    """`acfmo` of `acfmo.mnist.rounds=20`."""
    return re.split(r"[.=]", word.lstrip("+"))[0]


def summary(reports: list[tuple[Path, list[Outcome]]]) -> int:
    """Print what failed and where the pages are; returns the exit code."""
    failed = [outcome for _, outcomes in reports for outcome in outcomes if outcome.error]
    for outcome in failed:
        print(f"{outcome.notebook.label} failed in {outcome.error}", file=sys.stderr)
        print(f"    executed notebook: {_short(outcome.executed)}", file=sys.stderr)
    for folder, _ in reports:
        print(f"Report: {_short(folder / 'index.html')}")
    return FAILED if failed else FINE


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
