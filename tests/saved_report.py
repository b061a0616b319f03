"""A report made of the outputs saved in the notebooks: real pages and figures in a second, without computing anything.

Verdicts are the session's own where `make test` has run the notebooks; elsewhere they are invented, all kinds of them,
since the browser tests ask how pages behave, not what is true.
"""

import base64
import itertools
import json
import os
import shutil
from pathlib import Path

import nbformat
from ledger_lines import claim, comparison

from fedlib.data.files import write_text
from fedlib.judging import ledger
from fedlib.report import html, index, provenance
from fedlib.report.notebooks import Notebook, discover, parameters

INVENTED = {
    "figure": ("matches", "differs", "not comparable", "regenerated", "redrawn"),
    "claim": ("reproduced", "contradicted", "undecided", "not judged at this scale"),
    "audit": ("holds", "does not hold"),
}


def make_report(root: Path, folder: Path) -> Path:
    """The pages of all notebooks below `root`, a ledger and the index."""
    notebooks = discover(root)
    for notebook in notebooks:
        _keep_executed(root, notebook, folder)
    _write_ledger(folder, sorted({notebook.paper for notebook in notebooks} & set(ledger.papers())))
    for executed in sorted((folder / "executed").glob("*.ipynb")):
        html.write(executed, folder, root)
    index.write(folder)
    return folder


def _keep_executed(root: Path, notebook: Notebook, folder: Path) -> None:
    node = nbformat.read(notebook.path, as_version=4)
    source = notebook.path.relative_to(root).as_posix()
    about = {"paper": notebook.paper, "notebook": notebook.name, "source": source, "scale": "quick", "error": None}
    node.metadata["fedlib"] = about | provenance.record(root, parameters(notebook.path), 60.0)
    write_text(folder / "executed" / f"{notebook.slug}.ipynb", nbformat.writes(node))
    for output in (output for cell in node.cells for output in cell.get("outputs", [])):
        mark = output.get("metadata", {}).get("fedlib", {})
        if "id" in mark and "role" not in mark and "image/png" in output.get("data", {}):
            picture = folder / "figures" / f"{mark['id'].replace('/', '-')}.png"
            picture.parent.mkdir(exist_ok=True)
            picture.write_bytes(base64.b64decode(output["data"]["image/png"]))


def _write_ledger(folder: Path, papers: list[str]) -> None:
    measured = Path(os.environ.get("FEDLIB_REPORT", "missing")) / "data"
    if measured.is_dir():
        shutil.copytree(measured, folder / "data")
        ledger.write(folder, dict.fromkeys(papers, "quick"))
        return
    entries = [entry for paper in papers for entry in ledger.load(paper).entries]
    verdicts = {kind: itertools.cycle(INVENTED.get(kind, INVENTED["figure"])) for kind in ledger.KINDS}
    lines = [
        ledger.judge(entry, folder) | {"verdict": next(verdicts[entry.kind]), "cells": _cells(entry)} | _compared(entry)
        for entry in entries
    ]
    write_text(folder / "ledger.json", json.dumps(lines))


def _cells(entry: ledger.Entry) -> list[dict]:
    """The entry's first printed numbers with made-up measurements a little below."""
    rows = [(name, value) for block in entry.blocks for name, values in block.printed.items() for value in values[:1]]
    numbers = [(name, value) for name, value in rows if isinstance(value, int | float)]
    return [
        {"label": name, "reported": value, "measured": 0.97 * value, "n": 5, "verdict": "matches", "why": ""}
        | {"interval": sorted([0.96 * value, 0.98 * value])}
        for name, value in numbers
    ]


def _compared(entry: ledger.Entry) -> dict:
    """Made-up comparisons of a claim, as many as its id has letters, with what the ledger says of them."""
    if entry.kind != "claim":
        return {}
    sizes = [(0.004 * (at % 7 - 2), ("undecided", "holds", "reversed")[at % 3]) for at in range(len(entry.id))]
    rows = [comparison(f"method {at}", size, 0.003, outcome) for at, (size, outcome) in enumerate(sizes)]
    invented = claim(entry.id, "undecided", rows)
    return {key: invented[key] for key in ("measured", "effect", "interval", "seeds", "counts", "comparisons")}
