"""The config of a report, checked while it is made: for an unknown name, the error lists the valid ones.

Hydra composes the chosen files of `conf/`. A notebook's parameters come from its parameters cell, changed by what
`conf/paper/<paper>.yaml` says about the scale, and last by the words of the command line. Every job of a sweep is
composed, once, before the first one runs, and the first mistake becomes a `UsageError`.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fedlib.report.notebooks import discover, parameters
from fedlib.report.usage import UsageError, valid_names

HYDRA_VERSION = "1.3"
RENAMED = {"engine": "backend"}  # the engine is arithmetic; runs execute on a backend
LAYERS = {"quick": ["quick"], "desk": ["desk"], "paper": ["desk", "paper"]}  # scale -> the changes it is made of
Groups = dict[str, list[str]]  # folder of conf/ -> its files


def combinations(words: list[str]) -> list[list[str]]:
    """The words of each job of a sweep: `seed=0,1` makes two."""
    with _usage_errors():
        return [list(job) for job in product(*map(_alternatives, OverridesParser.create().parse_overrides(words)))]


def _alternatives(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [str(override.input_line)]
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Errors of Hydra become errors of usage."""
    try:
        yield
    except OverrideParseException as error:
        name, _, value = error.override.partition("=")
        quoted = '{}="{}"'.format(name, value.replace('"', '\\"'))
        raise UsageError(
            f"{error.override} is not understood. A list needs both its brackets, and a value with special characters "
            f"two pairs of quotes: {shlex.quote(quoted)}"
        ) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(str(error).strip()) from error


def compose_job(root: Path, words: list[str]) -> DictConfig:
    """The config that the words ask for, in plain values; parameters are `<paper>.<notebook>.<parameter>`."""
    choices = groups(root)
    with _usage_errors():
        typed = OverridesParser.create().parse_overrides(words)
        _check_words(typed, choices)
        chosen = [str(override.input_line) for override in typed if override.key_or_group in choices]
        rest = [override for override in typed if override.key_or_group not in choices]
        config = _composed(root, chosen)
        papers = [paper for paper in dict.fromkeys(notebook.paper for notebook in discover(root)) if paper in config]
        _enter(config, [override for override in rest if _first_name(override) not in papers], choices)
        for paper in papers:
            changes = OmegaConf.to_container(config[paper])
            config[paper] = notebook_values(root, paper, scale_of(config, paper), changes)
        _enter(config, [override for override in rest if _first_name(override) in papers], choices)
        return DictConfig(OmegaConf.to_container(config, resolve=True))


def _composed(root: Path, choices: list[str]) -> DictConfig:
    """The chosen files of `conf/` as one; `${root:}` in them is the repository."""
    OmegaConf.register_new_resolver("root", lambda: str(root), replace=True)
    with initialize_config_dir(str(root / "conf"), version_base=HYDRA_VERSION):
        config = compose("config", choices)
    OmegaConf.set_struct(config, False)
    return config


def scale_of(config: DictConfig, paper: str) -> str:
    """The scale at which a paper is shown: the chosen one, or quick if recorded runs are asked for and the paper has
    none."""
    recorded = config.scale.get("recorded")
    return config.scale.name if recorded is None or paper in recorded else "quick"


def decided_papers(root: Path) -> list[str]:
    """The papers whose desk runs are on record, as `conf/scale/recorded.yaml` lists them."""
    return list(_composed(root, ["scale=recorded"]).scale.recorded)


def notebook_values(root: Path, paper: str, scale: str, changes: Any) -> dict[str, dict[str, Any]]:
    """The parameters of each of a paper's notebooks at a scale; `seed` is that of the report.

    `changes` are those of `conf/paper/<paper>.yaml`: scale -> notebook -> parameter -> value.
    """
    notebooks = {notebook.name: parameters(notebook.path) for notebook in discover(root) if notebook.paper == paper}
    _check_changes(f"conf/paper/{paper}.yaml", changes, notebooks)
    for layer in LAYERS.get(scale, ()):
        for name, values in changes.get(layer, {}).items():
            notebooks[name] |= values
    return {name: values | ({"seed": "${seed}"} if "seed" in values else {}) for name, values in notebooks.items()}


def _check_changes(file: str, changes: Mapping[str, Any], notebooks: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse changes of scales, notebooks or parameters that do not exist."""
    for scale, of_scale in changes.items():
        _check_name(f"{file}: {scale}", "scale", scale, LAYERS)
        for notebook, values in of_scale.items():
            _check_name(f"{file}: {scale}.{notebook}", "notebook", notebook, notebooks)
            for parameter in values:
                _check_name(f"{file}: {scale}.{notebook}.{parameter}", "parameter", parameter, notebooks[notebook])


def _check_name(place: str, noun: str, name: str, names: Mapping[str, object]) -> None:
    if name not in names:
        raise UsageError(f"{place}: no such {noun}. {valid_names(names, name)}")


def groups(root: Path) -> Groups:
    """The choices that the folders of `conf/` offer."""
    folders = sorted(path for path in (root / "conf").iterdir() if path.is_dir())
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


def _first_name(override: Override) -> str:
    return override.key_or_group.split(".")[0]


def _check_words(typed: list[Override], groups: Groups) -> None:
    """Refuse renamed words, with the present one, and unknown choices, with the valid ones."""
    for override in typed:
        name, line = override.key_or_group, str(override.input_line)
        if (old := _first_name(override)) in RENAMED:
            raise UsageError(f"{old!r} is now called {RENAMED[old]!r}: write {line.replace(old, RENAMED[old], 1)}")
        if override.is_sweep_override() or override.is_delete():
            raise UsageError(f"{line}: settings are written name=value; several values are a sweep, which needs -m.")
        if name in groups and override.value() not in groups[name]:
            raise UsageError(
                f"{name}={override.value()}: no such {name}. {valid_names(groups[name], override.value())}"
            )


def _enter(config: DictConfig, typed: list[Override], groups: Groups) -> None:
    """Replace values by typed ones of the same kind."""
    for override in typed:
        _check_kind(str(override.input_line), _look_up(config, override, groups), override.value())
        OmegaConf.update(config, override.key_or_group, override.value())


def _look_up(config: DictConfig, override: Override, groups: Groups) -> Any:
    """The value that the override replaces, or an error with the names valid at the level where the path breaks."""
    node: Any = config
    walked: list[str] = []
    for name in override.key_or_group.split("."):
        if not isinstance(node, DictConfig) or name not in node:
            names = list(node) if isinstance(node, DictConfig) else []
            names = sorted({*map(str, names), *groups}) if node is config else names
            where = f"in {'.'.join(walked)}" if walked else "at the top level"
            raise UsageError(f"{override.input_line}: no key {name} {where}. {valid_names(names, name)}")
        node = node[name]
        walked.append(name)
    return node


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if hasattr(value, "append") else "a mapping"


def _check_kind(line: str, known: Any, value: Any) -> None:
    """A number stays a number: `rounds=ten` must not reach a notebook."""
    if known is None or value is None or _kind(known) == _kind(value):
        return
    raise UsageError(f"{line}: expected {_kind(known)} (such as {known}), got {_kind(value)}.")
