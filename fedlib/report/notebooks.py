"""Which notebooks there are and which ones a config asks for. Imports little: bad names are answered at once."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from omegaconf import DictConfig

from fedlib.report.settings import UsageError, valid_names


@dataclass(frozen=True)
class Notebook:
    """`notebooks/acfmo/01_mnist.ipynb` is notebook `mnist` of paper `acfmo`; its config node is `acfmo.mnist`."""

    paper: str
    name: str
    path: Path

    @property
    def label(self) -> str:
        return f"{self.paper}.{self.name}"

    @property
    def slug(self) -> str:
        return f"{self.paper}-{self.name}"


def discover(root: Path) -> list[Notebook]:
    """All notebooks of papers, in reading order."""
    paths = sorted((root / "notebooks").glob("*/[0-9][0-9]_*.ipynb"))
    return [Notebook(path.parent.name, path.stem[3:], path) for path in paths]


def parameters(path: Path) -> dict[str, Any]:
    """Names and literals of the cell tagged `parameters`, with the notebook's own values."""
    notebook = nbformat.read(path, as_version=4)
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assignments = [node for cell in tagged for node in ast.parse(cell.source).body if isinstance(node, ast.Assign)]
    return {node.targets[0].id: ast.literal_eval(node.value) for node in assignments}


def selection(root: Path, config: DictConfig) -> list[Notebook]:
    """The notebooks that the config asks for, in reading order."""
    available = [notebook for notebook in discover(root) if notebook.paper in config]
    for notebook in available:
        _check_agreement(notebook, config)
    wanted = [config.notebooks] if isinstance(config.notebooks, str) else config.notebooks
    if wanted is None:
        return available
    for name in wanted:
        if not any(name in (notebook.name, notebook.label) for notebook in available):
            names = dict.fromkeys(notebook.name for notebook in available)
            raise UsageError(f"notebooks={name}: no such notebook. {valid_names(names, name)}")
    return [notebook for notebook in available if notebook.name in wanted or notebook.label in wanted]


def _check_agreement(notebook: Notebook, config: DictConfig) -> None:
    """A notebook has a node in its paper's config, and gets only names of its parameters cell."""
    if notebook.name not in config[notebook.paper]:
        raise UsageError(f"{notebook.label} is missing in conf/paper/{notebook.paper}.yaml.")
    names = parameters(notebook.path)
    for key in config[notebook.paper][notebook.name]:
        if key not in names:
            wrong = f"{notebook.label}.{key}: no such parameter in {notebook.path.name}."
            raise UsageError(f"{wrong} {valid_names(names, key)}")
