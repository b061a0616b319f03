"""The Hydra config, checked before anything runs: a name nobody knows is answered with the valid ones.

Hydra finds such mistakes too, but late in a sweep and in its own words. Here every job of the command line is composed
first, and the first mistake becomes one `UsageError`.
"""

from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fedlib.report.usage import UsageError, valid_names

HYDRA_VERSION = "1.3"
RENAMED = {"engine": "backend"}  # an engine is arithmetic; where runs execute is a backend


def register_resolvers(root: Path) -> None:
    """`${root:}` is the repository, `${by_scale:{quick:3,desk:5,paper:10}}` picks by the chosen scale."""
    OmegaConf.register_new_resolver("root", lambda: str(root), replace=True)
    OmegaConf.register_new_resolver("by_scale", _by_scale, replace=True)


def scale_of(config: DictConfig, paper: str) -> str:
    """The scale at which a paper is shown: the chosen one, or quick where only recorded runs are to be shown and none
    are."""
    recorded = config.scale.get("recorded")
    return config.scale.name if recorded is None or paper in recorded else "quick"


def _by_scale(values: DictConfig, *, _root_: DictConfig, _parent_: DictConfig) -> Any:
    scale = scale_of(_root_, str(_parent_._get_full_key(None)).split(".")[0])
    if scale not in values:
        raise ValueError(f"by_scale has no value for scale {scale}; it knows {', '.join(values)}")
    return values[scale]


def compose_jobs(root: Path, overrides: list[str], multirun: bool = False) -> list[DictConfig]:
    """The config of every job that the overrides ask for: one, or one per combination of a sweep."""
    with initialize_config_dir(str(root / "conf"), version_base=HYDRA_VERSION):
        try:
            loader = GlobalHydra.instance().config_loader()
            parsed = OverridesParser.create(config_loader=loader).parse_overrides(overrides)
            _check_renamed(parsed)
            _check_choices(parsed)
            _check_keys(parsed)
            jobs = BasicSweeper.split_arguments(parsed, None)[0] if multirun else [overrides]
            return [_resolved(job) for job in jobs]
        except (HydraException, OmegaConfBaseException) as error:
            raise UsageError(str(error).strip()) from error


def _resolved(overrides: list[str]) -> DictConfig:
    return DictConfig(OmegaConf.to_container(compose("config", overrides), resolve=True))


def _groups() -> dict[str, list[str]]:
    loader = GlobalHydra.instance().config_loader()
    names = [name for name in loader.list_groups("") if name != "hydra"]
    return {name: loader.get_group_options(name) for name in names}


def _values(override: Override) -> list[Any]:
    return list(override.sweep_iterator()) if override.is_sweep_override() else [override.value()]


def _check_renamed(overrides: list[Override]) -> None:
    """A word that was in use before is answered with the present one."""
    for override in overrides:
        old = override.key_or_group.split(".")[0]
        if old in RENAMED:
            line = str(override.input_line).replace(old, RENAMED[old], 1)
            raise UsageError(f"{old!r} is now called {RENAMED[old]!r}: write {line}")


def _check_choices(overrides: list[Override]) -> None:
    for override in overrides:
        name = override.key_or_group
        options = _groups().get(name, [])
        for value in _values(override) if options else []:
            if value not in options:
                raise UsageError(f"{name}={value}: no such {name}. {valid_names(options, value)}")


def _check_keys(overrides: list[Override]) -> None:
    groups = _groups()
    choices = [f"{o.key_or_group}={_values(o)[0]}" for o in overrides if o.key_or_group in groups]
    config = compose("config", choices)
    for override in overrides:
        key = override.key_or_group
        if key not in groups and not key.startswith("hydra"):
            known = _look_up(config, override)
            for value in _values(override):
                _check_kind(str(override.input_line), known, value)


def _look_up(config: DictConfig, override: Override) -> Any:
    """The value that the override replaces, or an error with the names valid at the level where the path breaks."""
    node: Any = config
    walked: list[str] = []
    for name in override.key_or_group.split("."):
        if not isinstance(node, DictConfig) or name not in node:
            names = list(node) if isinstance(node, DictConfig) else []
            names = sorted({*names, *_groups()}) if node is config else names
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
    if known is None or value is None or line.startswith("~") or _kind(known) == _kind(value):
        return
    raise UsageError(f"{line}: expected {_kind(known)} (such as {known}), got {_kind(value)}.")
