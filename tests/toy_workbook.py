"""A workbook of one paper and a few tiny notebooks, with the real conf/ around it."""

import shutil
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

REPOSITORY = Path(__file__).resolve().parents[1]

CONFIG = """# @package toy
desk:
  fine:
    seeds: 5
    rates: [0.1]
paper:
  fine:
    seeds: 10
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = """# The toy paper

Inline $\\beta_1 < 1$ and displayed

$$\\hat{w} = \\frac{1}{N} \\sum_{i=1}^{N} w_i$$

## First part

A [plain link](https://example.org/paper) stays a link.

| method | value |
|---|---|
| a | 1 |

### Detail

## First part
"""
SHOWING = f"""
import os, sys
from pathlib import Path
from IPython.display import display
print(seed, seeds, rates, method)
print("working in", Path.cwd().name, "with", os.environ["FEDLIB_BACKEND"], os.environ["FEDLIB_WORKERS"])
print("a path:", Path.cwd() / "file.txt")
print("12 runs:  40%|####      |", file=sys.stderr)
report = Path(os.environ["FEDLIB_REPORT"])
for folder in ("data", "figures"):
    (report / folder).mkdir(parents=True, exist_ok=True)
(report / "data" / "toy-fig1.csv").write_text("seed,accuracy\\n0,0.9\\n")
mark = {{"fedlib": {{"id": "toy/fig1"}}, "image/png": {{"alt": 'A "rising" line'}}}}
display({{"image/png": "{PIXEL}", "text/plain": "<toy/fig1>"}}, raw=True, metadata=mark)
"""
TABLE = """
frame = '<style>td {color: red}</style><table border="1" class="dataframe"><thead>'
frame += '<tr><th></th><th>verdict</th></tr><tr><th>id</th><th></th></tr></thead>'
frame += '<tr>\\n<th>a comparison</th><td>undecided</td></tr></table>'
said = "**○ undecided** `toy/claim` Ours is above"
mark = {"id": "toy/claim", "role": "verdict"}
display({"text/markdown": said, "text/plain": said}, raw=True, metadata={"fedlib": mark})
display({"text/html": frame}, raw=True, metadata={"fedlib": mark | {"role": "comparisons", "rows": 1}})
"""


def tagged(source: str) -> nbformat.NotebookNode:
    return new_code_cell(source, metadata={"tags": ["parameters"]})


def make_workbook(root: Path) -> Path:
    """`notebooks/toy` with one notebook that works and one that fails, and a config that knows only them."""
    shutil.copytree(REPOSITORY / "conf", root / "conf", ignore=shutil.ignore_patterns("paper"))
    (root / "conf" / "paper").mkdir()
    (root / "conf" / "paper" / "toy.yaml").write_text(CONFIG)
    (root / "conf" / "paper" / "all.yaml").write_text("# @package _global_\ndefaults:\n  - toy\n")
    folder = root / "notebooks" / "toy"
    folder.mkdir(parents=True)
    own = tagged("seed = 0\nseeds = 3  # how many\nrates = [0.1, 0.2]\nmethod = 'fedavg'")
    cells = [new_markdown_cell(TEXT), own, new_code_cell(SHOWING), new_code_cell(TABLE)]
    nbformat.write(new_notebook(cells=cells), folder / "01_fine.ipynb")
    cells = [new_markdown_cell("# Broken"), tagged("seed = 0"), new_code_cell("1 / 0"), new_code_cell("print('never')")]
    nbformat.write(new_notebook(cells=cells), folder / "02_broken.ipynb")
    return root
