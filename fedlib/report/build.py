"""One batch: execute the chosen notebooks, write their pages, the ledger and the index into one report folder."""

import sys
from pathlib import Path
from typing import Any

import nbformat
from omegaconf import DictConfig, OmegaConf

from fedlib import ledger, study
from fedlib.report import html, index, provenance
from fedlib.report.execute import Outcome, environment, execute, write_atomically
from fedlib.report.notebooks import Notebook, selection


def kernel_environment(config: DictConfig, folder: Path) -> dict[str, str]:
    """What notebooks learn from the config apart from their parameters."""
    variables = {
        "FEDLIB_REPORT": str(folder),
        "FEDLIB_ENGINE": config.engine.name,
        "FEDLIB_WORKERS": str(config.engine.workers or study.cores()),
        "FEDLIB_DATA": config.data.folder and str(Path(config.data.folder).resolve()),
        "FEDLIB_CACHE": config.data.cache and str(Path(config.data.cache).resolve()),
        "FEDLIB_OFFLINE": "1" if config.data.offline else None,
    }
    return {name: value for name, value in variables.items() if value}


def build(root: Path, config: DictConfig, folder: Path) -> list[Outcome]:
    """Regenerate into `folder`; a notebook that fails still gets its page and does not stop the others."""
    outcomes = []
    with environment(kernel_environment(config, folder)):
        for notebook in selection(root, config):
            values = OmegaConf.to_container(config[notebook.paper][notebook.name], resolve=True)
            outcomes.append(_one(root, notebook, values, config.scale.name, folder))
    _write_ledger(folder, config.scale.name)
    for executed in sorted((folder / "executed").glob("*.ipynb")):
        html.write(executed, folder, root)  # once more: now the verdicts are known
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
        "command": f"python -m fedlib paper={notebook.paper} scale={scale} notebooks=[{notebook.name}]",
        **provenance.record(root, values, scale, outcome.seconds),
    }
    executed.metadata.pop("papermill", None)
    write_atomically(outcome.executed, nbformat.writes(executed) + "\n")
    html.write(outcome.executed, folder, root)
    state = "FAILED" if outcome.error else "done"
    print(f"{notebook.label}  {state}  {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    return outcome


def _write_ledger(folder: Path, scale: str) -> None:
    """All papers with a page in this folder, also from earlier batches; somebody's own notebooks print nothing to compare."""
    shown = {path.stem.split("-")[0] for path in (folder / "executed").glob("*.ipynb")}
    papers = [paper for paper in ledger.papers() if paper in shown]
    if papers:
        ledger.write(folder, papers, scale)
