"""A page whose notebook shows lines of the ledger made by hand: what `show.verdicts` displays, without a kernel."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import nbformat
from IPython.core.formatters import format_display_data
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from fedlib.data.files import write_text
from fedlib.judging import ledger
from fedlib.report import html, show


def displayed(action: Callable[[], object]) -> list[nbformat.NotebookNode]:
    """What a notebook would have below the cell that does this."""
    outputs = []

    def display(shown, raw=False, metadata=None):
        data = shown if raw else format_display_data(shown)[0]
        outputs.append(new_output("display_data", data, metadata=metadata or {}))

    with mock.patch.object(show, "display", display):
        action()
    return outputs


def show_verdicts(lines: list[dict]) -> list[nbformat.NotebookNode]:
    """What `show.verdicts` displays of these lines."""
    by_id = {line["id"]: line for line in lines}
    with (
        mock.patch.object(show, "_entry", lambda id: SimpleNamespace(id=id, data="")),
        mock.patch.object(ledger, "judge", lambda entry, report: by_id[entry.id]),
    ):
        return displayed(lambda: show.verdicts(*by_id))


def write_page(folder: Path, *outputs: list[nbformat.NotebookNode]) -> Path:
    """`folder/toy-judged.html` of a notebook with one cell for each of these lists of outputs."""
    cells = [new_markdown_cell("# Judged"), *(new_code_cell("show", outputs=shown) for shown in outputs)]
    notebook = new_notebook(cells=cells)
    about = {"paper": "toy", "notebook": "judged", "source": "notebooks/toy/03_judged.ipynb", "seconds": 1.0}
    notebook.metadata["fedlib"] = about | {"versions": {}}
    executed = folder / "executed" / "toy-judged.ipynb"
    write_text(executed, nbformat.writes(notebook))
    return html.write(executed, folder, folder)
