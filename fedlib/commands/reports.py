"""`fedlib [choice=name ...] [setting=value ...]`: the Hydra app that executes the notebooks and writes their pages.

Everything on the command line is checked first, in every job of a sweep; then Hydra takes over.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from fedlib.commands import COMMANDS, FAILED, FINE, allowed
from fedlib.report.notebooks import selection
from fedlib.report.settings import HYDRA_VERSION, compose_jobs, register_resolvers
from fedlib.report.usage import UsageError
from fedlib.runs import backends

if TYPE_CHECKING:
    from fedlib.report.execute import Outcome

LOCAL = ("report", "data", "backend", "record")  # settings that do not change results: this machine's own affair


def run(words: list[str], root: Path) -> int:
    """Check the command line, regenerate, say where to look."""
    check(words, root)
    return summary(launch(words, root))


def check(words: list[str], root: Path) -> None:
    """Compose every job and check its names and values: a mistake in the last job of a sweep stops the first."""
    if not (root / "conf" / "config.yaml").exists():
        raise UsageError("conf/ is missing: run from a checkout, installed with pip install -e .")
    register_resolvers(root)
    parsed = get_args_parser().parse_args(words)
    for word in parsed.overrides:
        if "=" not in word and not word.startswith("~"):
            raise UsageError(f"{word}: settings are written name=value. The commands there are: {', '.join(COMMANDS)}.")
    for config in compose_jobs(root, parsed.overrides, parsed.multirun):
        selection(root, config)
        allowed.check(config, root)
        _check_backend(config.backend.name)


def _check_backend(name: str) -> None:
    try:
        backends.require(name)
    except ImportError as problem:
        raise UsageError(str(problem)) from problem


def launch(words: list[str], root: Path) -> list[tuple[Path, list[Outcome]]]:
    """Hand over to Hydra, which calls `report` once, or once per job of a sweep."""
    reports: list[tuple[Path, list[Outcome]]] = []

    def report(config: DictConfig) -> None:
        from fedlib.report.produce import build  # seconds of imports that --help and a wrong name need not wait for

        folder = report_folder(config)
        reports.append((folder, build(root, config, folder, command())))

    before, sys.argv = sys.argv, ["fedlib", *words]
    try:
        hydra.main(version_base=HYDRA_VERSION, config_path=str(root / "conf"), config_name="config")(report)()
    finally:
        sys.argv = before
    return reports


def report_folder(config: DictConfig) -> Path:
    """`reports/<scale>`, or in a sweep a folder named after the job's overrides."""
    job = HydraConfig.get()
    if job.mode != RunMode.MULTIRUN:
        return Path(config.report).resolve()
    name = re.sub(r"[^\w.,=+-]+", "_", ",".join(job.overrides.task))
    return Path(job.sweep.dir) / (name or "defaults")


def command() -> str:
    """What to type for the same results."""
    overrides = [override for override in HydraConfig.get().overrides.task if not _is_local(override)]
    return shlex.join(["python", "-m", "fedlib", *overrides])


def _is_local(override: str) -> bool:
    return re.split(r"[.=]", override.lstrip("+~"))[0] in LOCAL


def summary(reports: list[tuple[Path, list[Outcome]]]) -> int:
    """What failed and where the pages are, last of all that is printed; the exit code."""
    failed = [outcome for _, outcomes in reports for outcome in outcomes if outcome.error]
    for outcome in failed:
        print(f"{outcome.notebook.label} failed in {outcome.error}", file=sys.stderr)
        print(f"    executed notebook: {_short(outcome.executed)}", file=sys.stderr)
    for folder, _ in reports:
        print(f"Report: {_short(folder / 'index.html')}")
    return FAILED if failed else FINE


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
