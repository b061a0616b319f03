"""One notebook, executed through papermill: in a report with the config's parameters, or in place with its own.

The kernel always belongs to the interpreter that runs this module, whatever kernels are registered on the machine. Its
working directory is the notebook's folder, as in JupyterLab and nbval, so a notebook behaves the same in all three.
"""

import argparse
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import papermill
import zmq
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from traitlets import default

from fedlib.data.files import write_text
from fedlib.report.notebooks import Notebook, discover, lessons
from fedlib.surroundings import REPOSITORY

NO_PROGRESS = {"FEDLIB_PROGRESS": "0", "TQDM_DISABLE": "1"}
PAPERMILL_MARK = "papermill-error-cell-tag"


@dataclass(frozen=True)
class Outcome:
    """The result of one execution; `error` is None or a sentence with the cell and the exception."""

    notebook: Notebook
    executed: Path
    seconds: float
    error: str | None = None


class OwnKernel(AsyncKernelManager):
    """A kernel of this interpreter, which leaves Ctrl-C to us."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(**get_kernel_dict())

    @default("transport_encryption")
    def _transport_encryption_default(self) -> str:
        return "auto" if zmq.has("curve") else "disabled"

    async def _async_pre_start_kernel(self, **options: Any) -> tuple[list[str], dict[str, Any]]:
        # nbclient answers signals by shutting the kernel down and then reports a dead kernel, as if it had crashed
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        return await super()._async_pre_start_kernel(**options)

    pre_start_kernel = _async_pre_start_kernel


class Watched:
    """While a cell runs, shows the kernel's own progress bars in place of the bar of cells, and nothing else."""

    def write(self, text: str) -> None:
        latest = text.rstrip().rsplit("\r", 1)[-1]
        if "%|" in latest:
            sys.stderr.write(f"\r{latest[: shutil.get_terminal_size().columns - 1]}\x1b[K")

    def flush(self) -> None:
        sys.stderr.flush()


@contextlib.contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Kernels inherit these while the block runs."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def execute(
    notebook: Notebook, values: dict[str, Any], folder: Path, about: Callable[[Outcome], dict[str, Any]]
) -> Outcome:
    """Run with these parameters; `folder/<slug>.ipynb` appears when it is complete, or failed with the error inside,
    and has what is said `about` it in its metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    running, final = folder / f"{notebook.slug}.running.json", folder / f"{notebook.slug}.ipynb"
    started = time.monotonic()
    try:
        error = _papermill(notebook, running, values)
        outcome = Outcome(notebook, final, time.monotonic() - started, error)
        executed = nbformat.read(running, as_version=4)
        executed.metadata["fedlib"] = about(outcome)
        executed.metadata.pop("papermill", None)
        running.write_text(nbformat.writes(executed) + "\n", encoding="utf-8")
        os.replace(running, final)
    finally:
        running.unlink(missing_ok=True)
    return outcome


def _papermill(notebook: Notebook, output: Path, values: dict[str, Any] | None) -> str | None:
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        papermill.execute_notebook(
            notebook.path,
            output,
            parameters=values,
            kernel_name="python3",
            language="python",
            cwd=notebook.path.parent,
            kernel_manager_class=OwnKernel,
            shutdown_kernel="immediate",  # with its worker processes; everything that matters is on disk by then
            progress_bar={"desc": notebook.label, "leave": False, "file": sys.stderr},
            stderr_file=Watched() if sys.stderr.isatty() else None,
        )
    except papermill.PapermillExecutionError as failure:
        return f"cell {failure.exec_count}: {failure.ename}: {failure.evalue}".strip(": ")
    except DeadKernelError:
        return "the kernel died (out of memory?)"
    return None


def save(notebook: Notebook) -> str | None:
    """Execute in place with the notebook's own parameters, from an empty run store, and keep comparable outputs."""
    with tempfile.TemporaryDirectory() as fresh:
        output = Path(fresh) / "saved.ipynb"
        folders = {"FEDLIB_RUNS": f"{fresh}/runs", "FEDLIB_REPORT": f"{fresh}/report"}
        with environment(folders | NO_PROGRESS):
            error = _papermill(notebook, output, None)
        cleaned = clean(nbformat.read(output, as_version=4))
    if error is None:
        write_text(notebook.path, nbformat.writes(cleaned) + "\n")
    return error


def clean(notebook: NotebookNode) -> NotebookNode:
    """Without what changes from run to run or names the machine: timings, progress, paths, interpreter versions."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({"tags": cell.metadata.tags} if cell.metadata.get("tags") else {})
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main(arguments: list[str] | None = None) -> int:
    """`python -m fedlib.report.execute --save [notebook ...]`: renew the outputs saved in the notebooks."""
    parser = argparse.ArgumentParser(prog="python -m fedlib.report.execute", description=main.__doc__)
    parser.add_argument("--save", action="store_true", required=True, help="execute in place and keep the outputs")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks; default: all below notebooks/")
    everything = [*discover(REPOSITORY), *lessons(REPOSITORY)]
    chosen = parser.parse_args(arguments).paths or [notebook.path for notebook in everything]
    failures = 0
    for path in chosen:
        started = time.monotonic()
        error = save(Notebook.of(path.resolve()))
        failures += error is not None
        print(f"{path}  {error or 'saved'}  ({time.monotonic() - started:.0f} s)", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
