"""`python -m fedlib`: the Hydra app that regenerates the reports; `list` says what there is, `plan` what it will cost.

    python -m fedlib list
    python -m fedlib plan paper=acfmo scale=desk
    python -m fedlib paper=acfmo scale=quick seed=0
    python -m fedlib acfmo.mnist.rounds=20
    python -m fedlib -m seed=0,1,2

Exit codes: 0 fine, 1 a notebook failed, 2 a name or value was wrong, 130 interrupted.
"""

from __future__ import annotations

import logging
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

import fedlib
from fedlib.commands import catalogue
from fedlib.report.notebooks import selection
from fedlib.report.settings import HYDRA_VERSION, UsageError, compose_jobs, register_resolvers

if TYPE_CHECKING:
    from fedlib.report.execute import Outcome

ROOT = Path(fedlib.__file__).resolve().parents[1]
FINE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check the command line, regenerate, say where to look; the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == ["list"]:
            catalogue.show(arguments[1:], root)
            return FINE
        if arguments[:1] == ["plan"]:
            check([word for word in arguments[1:] if "=" in word and not word.startswith("-")], root)
            from fedlib.commands.plan import show  # brings torch: a wrong name need not wait for it

            return FINE if show(arguments[1:], root) else FAILED
        check(arguments, root)
        return summary(launch(arguments, root))
    except UsageError as error:
        print(f"fedlib: {error}\nfedlib: python -m fedlib --help shows all choices and settings.", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # else it reports the cell that was cut short
        print("\nInterrupted. Finished runs are kept; the same command continues where it stopped.", file=sys.stderr)
        return INTERRUPTED


def check(arguments: list[str], root: Path) -> None:
    """Compose every job and find its notebooks, so that a mistake in the last job of a sweep stops the first."""
    if not (root / "conf" / "config.yaml").exists():
        raise UsageError("conf/ is missing: run from a checkout, installed with pip install -e .")
    register_resolvers(root)
    given = get_args_parser().parse_args(arguments)
    for word in given.overrides:
        if "=" not in word and not word.startswith("~"):
            raise UsageError(f"{word}: settings are written name=value. The commands there are: list, plan.")
    for config in compose_jobs(root, given.overrides, given.multirun):
        selection(root, config)


def launch(arguments: list[str], root: Path) -> list[tuple[Path, list[Outcome]]]:
    """Hand over to Hydra, which calls `report` once, or once a job of a sweep."""
    reports: list[tuple[Path, list[Outcome]]] = []

    def report(config: DictConfig) -> None:
        from fedlib.report.build import build  # seconds of imports that --help and a wrong name need not wait for

        folder = report_folder(config)
        reports.append((folder, build(root, config, folder, command())))

    before, sys.argv = sys.argv, ["fedlib", *arguments]
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
    """What to type for the same results: places and processors are this machine's own affair."""
    local = ("report=", "data", "engine")
    overrides = [override for override in HydraConfig.get().overrides.task if not override.startswith(local)]
    return shlex.join(["python", "-m", "fedlib", *overrides])


def summary(reports: list[tuple[Path, list[Outcome]]]) -> int:
    """What failed and where the pages are, last of all that is printed."""
    failed = [outcome for _, outcomes in reports for outcome in outcomes if outcome.error]
    for outcome in failed:
        print(f"{outcome.notebook.label} failed in {outcome.error}", file=sys.stderr)
        print(f"    executed notebook: {_short(outcome.executed)}", file=sys.stderr)
    for folder, _ in reports:
        print(f"Report: {_short(folder / 'index.html')}")
    return FAILED if failed else FINE


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    sys.exit(main())
