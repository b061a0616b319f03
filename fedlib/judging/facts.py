"""The parameters that numbers were computed with, and what claims and printed numbers ask of them.

A report keeps the parameters of the notebook as `data/<id>.json` beside `data/<id>.csv`. A claim *needs* some of them
(a number of rounds, these data); a printed number belongs to a *setting*, the values it was measured with.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedlib.data.files import write_text

UNITS = "units"  # a need of this name is about the units of the comparisons, not about a parameter


@dataclass(frozen=True)
class Need:
    """A parameter (or the units) and what it must be.

    A number is a minimum; a string must be equal. If a list is given, a single parameter must be one of it, and a
    parameter that is a list must contain all of it.
    """

    name: str
    value: Any
    because: str


@dataclass(frozen=True)
class Checked:
    """A need, and what the run had."""

    name: str
    value: Any
    have: Any
    met: bool
    because: str

    def told(self) -> dict[str, Any]:
        return asdict(self)


def facts_file(report: Path, id: str) -> Path:
    """Where a report keeps the parameters behind an entry."""
    return Path(report) / "data" / f"{id.replace('/', '-')}.json"


def write_facts(report: Path, id: str, parameters: dict[str, Any]) -> None:
    """Keep the parameters that an entry's numbers were computed with."""
    write_text(facts_file(report, id), json.dumps({"parameters": parameters}, indent=1, default=str) + "\n")


def parameters(report: Path, id: str) -> dict[str, Any]:
    """The parameters behind an entry's numbers; none if the report does not have them."""
    file = facts_file(report, id)
    return json.loads(file.read_text(encoding="utf-8"))["parameters"] if file.exists() else {}


def check(need: Need, have: dict[str, Any]) -> Checked:
    """Whether the run meets a need; a parameter that is null means everything, which is always enough."""
    if need.name not in have:
        return Checked(need.name, need.value, "unknown", False, need.because)
    value = have[need.name]
    return Checked(need.name, need.value, "all" if value is None else value, _meets(value, need.value), need.because)


def _meets(have: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return set(wanted) <= set(have) if isinstance(have, list) else have in wanted
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        return have is None or (isinstance(have, int | float) and have >= wanted)
    return have == wanted


def differing(setting: dict[str, Any], have: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Parameters in which a run differs from a printed setting: name -> (printed, ours)."""
    return {name: (value, have.get(name, "unknown")) for name, value in setting.items() if _differs(name, value, have)}


def _differs(name: str, value: Any, have: dict[str, Any]) -> bool:
    return name not in have or have[name] != value


def resolution(stated: float | str | list[str], have: dict[str, Any]) -> float:
    """The smallest difference that a measurement shows: a number, or the largest of parameters such as `every`."""
    if isinstance(stated, int | float):
        return float(stated)
    names = [stated] if isinstance(stated, str) else stated
    return max(float(have.get(name) or 0.0) for name in names)
