"""One batch: execute the chosen notebooks, write their pages, the ledger and the index into one report folder."""

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from omegaconf import DictConfig, OmegaConf

from fedlib.report import html, index, provenance
from fedlib.report.execute import Notebook, Outcome, discover, environment, execute, parameters, write_atomically
from fedlib.report.settings import UsageError, valid_names


def selection(root: Path, config: DictConfig) -> list[Notebook]:
    """The notebooks that the config asks for, in reading order; config and files must agree."""
    available = [notebook for notebook in discover(root) if notebook.paper in config]
    _check_agreement(config, available)
    wanted = [config.notebooks] if isinstance(config.notebooks, str) else config.notebooks
    if wanted is None:
        return available
    for name in wanted:
        if not any(_answers(notebook, name) for notebook in available):
            raise UsageError(f"notebooks={name}: no such notebook. {valid_names([n.name for n in available], name)}")
    return [notebook for notebook in available if any(_answers(notebook, name) for name in wanted)]


def _answers(notebook: Notebook, name: str) -> bool:
    return name in (notebook.name, f"{notebook.paper}.{notebook.name}", f"{notebook.paper}/{notebook.name}")


def _check_agreement(config: DictConfig, notebooks: list[Notebook]) -> None:
    """A notebook gets exactly the names of its parameters cell."""
    for notebook in notebooks:
        if notebook.name not in config[notebook.paper]:
            raise UsageError(f"{notebook.paper}.{notebook.name} is missing in conf/paper/{notebook.paper}.yaml.")
        names = parameters(notebook.path)
        for key in config[notebook.paper][notebook.name]:
            if key not in names:
                where = f"{notebook.paper}.{notebook.name}.{key}"
                raise UsageError(f"{where}: no such parameter in {notebook.path.name}. {valid_names(names, key)}")


def kernel_environment(config: DictConfig, folder: Path) -> dict[str, str]:
    """What notebooks learn from the config apart from their parameters."""
    variables = {
        "FEDLIB_REPORT": str(folder),
        "FEDLIB_ENGINE": config.engine.name,
        "FEDLIB_WORKERS": str(config.engine.workers or _cores()),
        "FEDLIB_DATA": config.data.folder and str(Path(config.data.folder).resolve()),
        "FEDLIB_CACHE": config.data.cache and str(Path(config.data.cache).resolve()),
        "FEDLIB_OFFLINE": "1" if config.data.offline else None,
    }
    return {name: value for name, value in variables.items() if value}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def build(root: Path, config: DictConfig, folder: Path) -> list[Outcome]:
    """Regenerate into `folder`; a notebook that fails still gets its page and does not stop the others."""
    folder = folder.resolve()
    notebooks = selection(root, config)
    outcomes = []
    with environment(kernel_environment(config, folder)):
        for notebook in notebooks:
            values = OmegaConf.to_container(config[notebook.paper][notebook.name], resolve=True)
            outcomes.append(_one(root, notebook, values, config.scale.name, folder))
    _write_ledger(folder, sorted({notebook.paper for notebook in notebooks}), config.scale.name)
    index.write(folder)
    return outcomes


def _one(root: Path, notebook: Notebook, values: dict[str, Any], scale: str, folder: Path) -> Outcome:
    outcome = execute(notebook, values, folder / "executed")
    executed = nbformat.read(outcome.executed, as_version=4)
    executed.metadata["fedlib"] = {
        "paper": notebook.paper,
        "notebook": notebook.name,
        "source": notebook.path.relative_to(root).as_posix(),
        "error": outcome.error,
        **provenance.record(root, values, scale, outcome.seconds),
    }
    executed.metadata.pop("papermill", None)
    write_atomically(outcome.executed, nbformat.writes(executed) + "\n")
    html.write(outcome.executed, folder, root)
    state = "FAILED" if outcome.error else "done"
    print(f"{notebook.paper}/{notebook.name}  {state}  {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    return outcome


def _write_ledger(folder: Path, papers: list[str], scale: str) -> None:
    """Papers without a file of printed values (somebody's own notebooks) have pages but no ledger entries."""
    try:
        from fedlib import ledger
    except ImportError:
        return
    known = [paper for paper in papers if paper in ledger.papers()]
    if known:
        ledger.write(folder, known, scale)
