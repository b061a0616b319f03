"""One batch: execute the chosen notebooks, write their pages, the ledger and the index into one report folder."""

import sys
from pathlib import Path

import nbformat
from omegaconf import DictConfig

from fedlib.data.files import write_text
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
    about = {"command": command}
    with (
        backends.load(config.backend.name).serving(config.backend) as address,
        environment(kernel_environment(config, address) | {"FEDLIB_REPORT": str(folder)}),
    ):
        outcomes = [_regenerate(root, notebook, config, about, folder) for notebook in notebooks]
    _write_ledger(folder, config.scale.name)
    for executed in sorted((folder / "executed").glob("*.ipynb")):
        html.write(executed, folder, root)  # pages show verdicts, which are known only now
    index.write(folder)
    return outcomes


def _regenerate(root: Path, notebook: Notebook, config: DictConfig, about: dict[str, str], folder: Path) -> Outcome:
    before = _shown(folder / "executed" / f"{notebook.slug}.ipynb")
    values, scale, used = values_of(notebook, config), scale_of(config, notebook.paper), folder / "used"
    (used / f"{notebook.slug}.csv").unlink(missing_ok=True)
    with environment({"FEDLIB_USED": str(used / f"{notebook.slug}.csv")}):
        outcome = execute(notebook, values, folder / "executed")
    _forget(folder, before - _shown(outcome.executed))
    executed = nbformat.read(outcome.executed, as_version=4)
    executed.metadata["fedlib"] = about | {
        "paper": notebook.paper,
        "notebook": notebook.name,
        "source": notebook.path.relative_to(root).as_posix(),
        "error": html.scrubbed(outcome.error, root),
        "scale": scale,
        "scale_not_recorded": config.scale.name if scale != config.scale.name else None,
        "runs": provenance.runs_used(used / f"{notebook.slug}.csv"),
        **provenance.record(root, values, outcome.seconds),
    }
    executed.metadata.pop("papermill", None)
    write_text(outcome.executed, nbformat.writes(executed) + "\n")
    state = "FAILED" if outcome.error else "done"
    print(f"{notebook.label}  {state}  {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    return outcome


def _shown(executed: Path) -> set[str]:
    return html.exhibits(nbformat.read(executed, as_version=4)) if executed.exists() else set()


def _forget(folder: Path, ids: set[str]) -> None:
    """Remove what a notebook showed before but not this time (it failed, or changed), so that it is not judged."""
    for slug in (id.replace("/", "-") for id in ids):
        data = [f"data/{slug}{ending}" for ending in (".csv", ".json", "-curves.csv", "-printed.csv")]
        for file in (*data, f"figures/{slug}.png"):
            (folder / file).unlink(missing_ok=True)


def _write_ledger(folder: Path, scale: str) -> None:
    """Judge all papers with a page in this folder, also from earlier batches; other notebooks have no entries."""
    shown = {path.stem.split("-")[0] for path in (folder / "executed").glob("*.ipynb")}
    papers = [paper for paper in ledger.papers() if paper in shown]
    if papers:
        ledger.write(folder, papers, scale)
