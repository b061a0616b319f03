"""Sentences whose numbers come from the ledger: `{acfmo/claim-best-mnist.effect:+.2f}` and `{gap:.1f}` are filled in.

A field names a line of the ledger and one of its facts (`verdict`, `measured`, `effect`, `interval`, `counts[holds]`,
`seeds`, `comparisons[FedGH, 5].effect`, all others that `judging.ledger` lists), or a value that the caller computed.
After the colon comes a format as in an f-string; it applies to both ends of an interval. `pp` at its end writes a share
as percentage points: 0.021 with `+.1pp` is "+2.1 points". Formulas (`$...$`) and code stay as they are.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from string import Formatter
from typing import Any

from fedlib.report.usage import valid_names

LITERAL = re.compile(r"(\$\$.+?\$\$|\$[^$]+\$|`[^`]+`)", re.DOTALL)  # LaTeX and code have braces of their own
NAMES = ("label", "reading", "name")  # what the parts of a list in the ledger are called by
POINTS = "pp"
MISSING = "not measured"
NO_INTERVAL = "no interval"  # exact, or a single unit


def fill(text: str, line_of: Callable[[str], dict[str, Any]], values: Mapping[str, Any]) -> str:
    """The text with its fields filled in; `line_of` gives the ledger's line of an id, or raises LookupError."""
    parts = LITERAL.split(inspect.cleandoc(text))
    fields = _Fields(line_of)
    return "".join(part if at % 2 else fields.vformat(part, (), values) for at, part in enumerate(parts))


class Facts:
    """A line of the ledger, or a part of one; its facts are accessed by `.name` or `[name]`."""

    def __init__(self, place: str, facts: Mapping[Any, Any]) -> None:
        self._place = place
        self._facts = {str(name): value for name, value in facts.items()}

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __getitem__(self, name: object) -> Any:
        place = f"{self._place}.{name}"
        if str(name) not in self._facts:
            raise LookupError(f"{{{place}}}: {self._place} has no {name}. {valid_names(self._facts, name)}")
        value = self._facts[str(name)]
        exact = name == "interval" and value is None and self._facts.get("effect") is not None
        return NO_INTERVAL if exact else _within(place, value)

    def __format__(self, spec: str) -> str:
        raise LookupError(f"{{{self._place}}} is not a single fact. {valid_names(self._facts, '')}")


def _within(place: str, value: Any) -> Any:
    """Mappings, and lists of named parts, become `Facts`; anything else is a value."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        name = next(name for name in NAMES if name in value[0])
        value = {part[name]: part for part in value}
    return Facts(place, value) if isinstance(value, dict) else value


class _Fields(Formatter):
    """Python's own format strings, with lines of the ledger as further names."""

    def __init__(self, line_of: Callable[[str], dict[str, Any]]) -> None:
        self.line_of = line_of

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if key in kwargs:
            return kwargs[str(key)]
        if "/" in str(key):
            return Facts(str(key), self.line_of(str(key)))
        raise LookupError(f"{{{key}}}: no value of this name was given. {valid_names(kwargs, key)}")

    def format_field(self, value: Any, format_spec: str) -> str:
        return written(value, format_spec)


def written(value: Any, spec: str = "") -> str:
    """A value as written in prose.

    >>> written(0.0213, "+.1pp"), written([0.012, 0.0334], ".1%"), written(0.123456), written(None)
    ('+2.1 points', '1.2% to 3.3%', '0.1235', 'not measured')
    """
    if value is None:
        return MISSING
    if value == NO_INTERVAL:
        return NO_INTERVAL
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(end, Real) for end in value):
        low, high = (written(end, spec) for end in value)
        return f"{low.removesuffix(' points')} to {high}"
    if spec.endswith(POINTS):
        return f"{100 * value:{spec.removesuffix(POINTS)}f} points"
    if not spec and isinstance(value, Real) and not isinstance(value, Integral):
        return f"{float(value):.0f}" if abs(float(value)) >= 1e4 else f"{float(value):.4g}"
    return format(value, spec)
