"""One batch: execute the chosen notebooks, write their pages, the ledger and the index into one report folder."""

import sys
from pathlib import Path
from typing import Any

import nbformat
from omegaconf import DictConfig

from fedlib.judging import ledger
from fedlib.report import html, index, provenance
from fedlib.report.execute import Outcome, environment, execute
from fedlib.report.notebooks import Notebook, values_of
from fedlib.report.settings import scale_of
from fedlib.runs import backends


def kernel_environment(config: DictConfig, address: str | None = None) -> dict[str, str]:
    """What notebooks get from the config besides their parameters; `address` is that of a Dask scheduler."""
    variables = {
        "FEDLIB_RECORD": config.record,
        "FEDLIB_BACKEND": config.backend.name,
        "FEDLIB_WORKERS": str(config.backend.workers or backends.cores()),
        "FEDLIB_ADDRESS": address,
        "FEDLIB_LEG": str(config.backend.get("leg") or ""),
        "FEDLIB_DATA": config.data.folder and str(Path(config.data.folder).resolve()),
        "FEDLIB_CACHE": config.data.cache and str(Path(config.data.cache).resolve()),
        "FEDLIB_OFFLINE": "1" if config.data.offline else None,
    }
    return {name: value for name, value in variables.items() if value}


def build(root: Path, notebooks: list[Notebook], config: DictConfig, folder: Path, command: str) -> list[Outcome]:
    """Regenerate into `folder`; a notebook that fails still gets its page and does not stop the others."""
    with (
        backends.load(config.backend.name).serving(config.backend) as address,
        environment(kernel_environment(config, address) | {"FEDLIB_REPORT": str(folder)}),
    ):
        outcomes = [_regenerate(root, notebook, config, command, folder) for notebook in notebooks]
    _drop_strays(root, folder)
    _write_ledger(folder)
    for executed in sorted((folder / "executed").glob("*.ipynb")):
        html.write(executed, folder, root)  # pages show verdicts, which are known only now
    index.write(folder)
    return outcomes


def _regenerate(root: Path, notebook: Notebook, config: DictConfig, command: str, folder: Path) -> Outcome:
    before = _shown(folder / "executed" / f"{notebook.slug}.ipynb")
    values, scale = values_of(notebook, config), scale_of(config, notebook.paper)
    used = folder / "used" / f"{notebook.slug}.csv"
    used.unlink(missing_ok=True)

    def about(outcome: Outcome) -> dict[str, Any]:
        return {
            "command": command,
            "paper": notebook.paper,
            "notebook": notebook.name,
            "source": notebook.path.relative_to(root).as_posix(),
            "error": html.scrubbed(outcome.error, root),
            "scale": scale,
            "scale_not_recorded": config.scale.name if scale != config.scale.name else None,
            "runs": provenance.runs_used(used),
            **provenance.record(root, values, outcome.seconds),
        }

    with environment({"FEDLIB_USED": str(used)}):
        outcome = execute(notebook, values, folder / "executed", about)
    _forget(folder, before - _shown(outcome.executed))
    state = "FAILED" if outcome.error else "done"
    print(f"{notebook.label}  {state}  {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    return outcome


def _drop_strays(root: Path, folder: Path) -> None:
    """Remove the pages of notebooks that are no more, and executed notebooks that do not say what they are."""
    executed = set((folder / "executed").glob("*.ipynb"))
    strays = {file for file in executed if not (root / provenance.about(file).get("source", root)).is_file()}
    gone, kept = ({id for file in files for id in _shown(file)} for files in (strays, executed - strays))
    _forget(folder, gone - kept)
    for stray in strays:
        for file in (stray, folder / f"{stray.stem}.html", folder / "used" / f"{stray.stem}.csv"):
            file.unlink(missing_ok=True)


def _shown(executed: Path) -> set[str]:
    return html.exhibits(nbformat.read(executed, as_version=4)) if executed.exists() else set()


def _forget(folder: Path, ids: set[str]) -> None:
    """Remove what a notebook showed before but not this time (it failed, or changed), so that it is not judged."""
    for slug in (id.replace("/", "-") for id in ids):
        data = [f"data/{slug}{ending}" for ending in (".csv", ".json", "-curves.csv", "-printed.csv")]
        for file in (*data, f"figures/{slug}.png"):
            (folder / file).unlink(missing_ok=True)


def _write_ledger(folder: Path) -> None:
    """Judge all papers with a page in this folder, also from earlier batches; other notebooks have no entries."""
    pages = map(provenance.about, sorted((folder / "executed").glob("*.ipynb")))
    shown = {about["paper"]: about["scale"] for about in pages}
    scales = {paper: shown[paper] for paper in ledger.papers() if paper in shown}
    if scales:
        ledger.write(folder, scales)
