"""Made-up data for a claim of the ledger, from its own options: what clearly supports it, what clearly contradicts."""

from itertools import product
from typing import Any

import pandas as pd

from fedlib.judging import checks
from fedlib.judging.entries import Entry, reading_needs, reading_options
from fedlib.judging.facts import UNITS, Need

GOOD, BAD = 9000.0, 3000.0  # of a score; of rounds and other costs the other way round


def parameters(entry: Entry) -> dict[str, Any]:
    """Parameters that meet every need of the claim, only just."""
    return {need.name: need.value[0] if isinstance(need.value, list) else need.value for need in _all_needs(entry)}


def _all_needs(entry: Entry) -> list[Need]:
    """Those of all readings, but for the units; of a parameter that several of them need, the most."""
    needs = [need for name in entry.readings or [""] for need in reading_needs(entry, name) if need.name != UNITS]
    return sorted(needs, key=lambda need: need.value if isinstance(need.value, int | float) else 0)


def frame(entry: Entry, supports: bool) -> pd.DataFrame:
    """As many units as the claim needs; under every reading the same answer."""
    readings = [reading_options(entry, name) for name in entry.readings or [""]]
    parts = [pd.DataFrame(MAKERS[entry.check](entry, options, supports)) for options in readings]
    settings = pd.concat(parts, ignore_index=True).drop_duplicates(ignore_index=True)
    return pd.concat([_unit(settings, entry, number) for number in range(_count(entry))], ignore_index=True)


def _count(entry: Entry) -> int:
    needs = [need for name in entry.readings or [""] for need in reading_needs(entry, name)]
    needed = max([need.value for need in needs if need.name == UNITS], default=5)
    return {checks.EXACT: 1, "draw": 100}.get(entry.unit, max(needed, 5))


def _unit(settings: pd.DataFrame, entry: Entry, number: int) -> pd.DataFrame:
    """One unit: every side moves a little of its own, as runs do."""
    value = entry.options["value"]
    width = 0.1 * (entry.margin or 0.2)
    wobble = pd.Series([((7 * number + 3 * row) % 5 - 2) for row in range(len(settings))], settings.index) * width / 2
    moved = settings[value] + (0.0 if entry.unit == checks.EXACT else wobble)
    extra = {entry.options[name]: given for name, given in (("reached", True), ("guess", 0.1)) if name in entry.options}
    columns = {"seed": number} if entry.unit != "problem" else {"seed": number // 5, "factory": number % 5}
    inside = {options["in_every"] for options in (entry.options, *entry.readings.values()) if "in_every" in options}
    columns |= dict.fromkeys(inside, 0)
    return settings.assign(**{value: moved}, **columns, **extra)


def _places(options: dict[str, Any]) -> list[dict[str, Any]]:
    over = {axis: [1, 2] if levels == checks.ALL else levels for axis, levels in options["over"].items()}
    where = {column: values[0] for column, values in options.get("where", {}).items()}
    return [where | dict(zip(over, combination, strict=True)) for combination in product(*over.values())]


def _falls(options: dict[str, Any]) -> bool:
    return bool(options.get("lower_is_better") or options.get("reached"))


def _above(entry: Entry, options: dict[str, Any], supports: bool) -> list[dict[str, Any]]:
    first, others = (GOOD, BAD) if supports != _falls(options) else (BAD, GOOD)
    sides = {options["first"]: first} | dict.fromkeys(options["others"], others)
    return [
        place | {options["key"]: side, options["value"]: number}
        for place in _places(options)
        for side, number in sides.items()
    ]


def _below(entry: Entry, options: dict[str, Any], supports: bool) -> list[dict[str, Any]]:
    return _above(entry, options, not supports)


def _near(entry: Entry, options: dict[str, Any], supports: bool) -> list[dict[str, Any]]:
    assert entry.margin is not None
    sides = options.get("among") or [options["first"], *options["others"]]
    apart = 0.0 if supports else 10 * entry.margin
    return [
        place | {options["key"]: side, options["value"]: 0.5 + apart * number}
        for place in _places(options)
        for number, side in enumerate(sides)
    ]


def _rises(entry: Entry, options: dict[str, Any], supports: bool) -> list[dict[str, Any]]:
    along = [1, 2, 3] if options["along"] == checks.ALL else options["along"]
    up = supports != _falls(options)
    return [
        place | {options["key"]: level, options["value"]: 10.0 * (number + 1 if up else len(along) - number)}
        for place in _places(options)
        for number, level in enumerate(along)
    ]


def _gap_grows(entry: Entry, options: dict[str, Any], supports: bool) -> list[dict[str, Any]]:
    ((axis, along),) = options["along"].items()
    (where,) = _places(options | {"over": {}})
    rows = []
    for number, level in enumerate(along):
        sides = {options["first"]: 50 + (number if supports else -5)} | dict.fromkeys(options["others"], 49.0)
        rows += [where | {axis: level, options["key"]: side, options["value"]: at} for side, at in sides.items()]
    return rows


def _at_least(entry: Entry, options: dict[str, Any], supports: bool) -> list[dict[str, Any]]:
    return [place | {options["value"]: options["least"] + (1 if supports else -1)} for place in _places(options)]


def _stays_below(entry: Entry, options: dict[str, Any], supports: bool) -> list[dict[str, Any]]:
    return [place | {options["value"]: options["limit"] * (0.9 if supports else 1.1)} for place in _places(options)]


def _ratio(entry: Entry, options: dict[str, Any], supports: bool) -> list[dict[str, Any]]:
    times = (options["least"] + options["most"]) / 2 if supports else 10 * options["most"]
    sides = {options["first"]: 100 * times, options["second"]: 100.0}
    return [
        place | {options["key"]: side, options["value"]: number}
        for place in _places(options)
        for side, number in sides.items()
    ]


MAKERS = {
    "above": _above,
    "below": _below,
    "near": _near,
    "flat": _near,
    "rises": _rises,
    "gap_grows": _gap_grows,
    "at_least": _at_least,
    "stays_below": _stays_below,
    "ratio": _ratio,
}
