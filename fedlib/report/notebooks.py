"""Which notebooks there are and which ones a config asks for. Imports little, so that wrong names fail at once."""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from fedlib.report.usage import UsageError, valid_names

START = "start"  # in place of a paper: `00_start_here.ipynb` belongs to none
COURSE = "course"  # the folder of the lessons: they belong to no paper, no report and no config
NUMBERED = "[0-9][0-9]_*.ipynb"


@dataclass(frozen=True)
class Notebook:
    """`notebooks/acfmo/01_mnist.ipynb` is notebook `mnist` of paper `acfmo`; its config node is `acfmo.mnist`.

    Directly below `notebooks/` the file's name has both: `00_start_here.ipynb` is notebook `here` of `start`.
    """

    paper: str
    name: str
    path: Path

    @classmethod
    def of(cls, path: Path) -> "Notebook":
        """The notebook in this file."""
        folder, name = path.parent.name, path.stem[3:]
        if folder == "notebooks":
            folder, _, name = name.partition("_")
        return cls(folder, name, path)

    @property
    def label(self) -> str:
        return f"{self.paper}.{self.name}"

    @property
    def slug(self) -> str:
        return f"{self.paper}-{self.name}"


def discover(root: Path) -> list[Notebook]:
    """All notebooks of reports in reading order, without lessons and copies in JupyterLab's hidden folders."""
    patterns = (NUMBERED, f"[!.]*/{NUMBERED}")
    paths = [path for pattern in patterns for path in sorted((root / "notebooks").glob(pattern))]
    return [Notebook.of(path) for path in paths if path.parent.name != COURSE]


def lessons(root: Path) -> list[Notebook]:
    """The notebooks of the course in teaching order."""
    return [Notebook.of(path) for path in sorted((root / "notebooks" / COURSE).glob(NUMBERED))]


def cells(path: Path) -> list[dict[str, Any]]:
    """The cells as they are stored. nbformat would take a second to import."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def title(cells: list[dict[str, Any]]) -> str:
    """The first top-level heading."""
    sources = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    headings = (re.search(r"^# +(.+)$", source, flags=re.MULTILINE) for source in sources)
    return next((match[1].strip() for match in headings if match), "Notebook")


def parameters(path: Path) -> dict[str, Any]:
    """Names and literals of the cell tagged `parameters`, with the notebook's own values."""
    tagged = ["".join(cell["source"]) for cell in cells(path) if "parameters" in cell["metadata"].get("tags", [])]
    assignments = [node for source in tagged for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    targets = [(target, node.value) for node in assignments for target in node.targets]
    return {target.id: ast.literal_eval(value) for target, value in targets if isinstance(target, ast.Name)}


def values_of(notebook: Notebook, config: DictConfig) -> dict[str, Any]:
    """The parameters that the config gives to a notebook, as plain data."""
    values = OmegaConf.to_container(config[notebook.paper][notebook.name], resolve=True)
    assert isinstance(values, dict), "a node of the config names parameters"
    return {str(name): value for name, value in values.items()}


def selection(root: Path, config: DictConfig) -> list[Notebook]:
    """The notebooks that the config asks for, in reading order."""
    available = [notebook for notebook in discover(root) if notebook.paper in config]
    if config.notebooks is None:
        return available
    wanted = list(config.notebooks) if isinstance(config.notebooks, ListConfig) else [config.notebooks]
    names = dict.fromkeys(notebook.name for notebook in available)
    if not wanted:
        raise UsageError(f"notebooks=[]: expected at least one name, or null for all. {valid_names(names, '')}")
    for name in wanted:
        if not any(name in (notebook.name, notebook.label) for notebook in available):
            raise UsageError(f"notebooks={name}: no such notebook. {valid_names(names, name)}")
    return [notebook for notebook in available if notebook.name in wanted or notebook.label in wanted]
