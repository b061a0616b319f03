"""The allowed values of an option, stated in its type: `lr: Positive = 0.1`, `steps: Count | None = None`.

`checked` compares a value with such a type and raises an error that says what would be right; `check_fields` does so
for the fields of a dataclass, `validated` for the arguments of a function. Methods, runs, `federate` and `simulate` all
use it, so a bad option fails before anything runs.

>>> checked("lr", float("nan"), Positive)
Traceback (most recent call last):
ValueError: lr=nan must be a number above 0
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, wraps
from inspect import BoundArguments, Parameter, signature
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Limit:
    """A range of numbers; `low_open` and `high_open` exclude the ends."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def holds(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below

    def __str__(self) -> str:
        if self.high == math.inf:
            return (
                "" if self.low == -math.inf else f"above {self.low:g}" if self.low_open else f"of at least {self.low:g}"
            )
        return f"in {'(' if self.low_open else '['}{self.low:.10g}, {self.high:.10g}{')' if self.high_open else ']'}"


Count = Annotated[int, Limit(1)]  # clients, rounds, samples per minibatch
Whole = Annotated[int, Limit(0)]  # counts that may be zero
Seed = Annotated[int, Limit(0, 2**32 - 1)]
Positive = Annotated[float, Limit(0, low_open=True)]  # rates, temperatures
NonNegative = Annotated[float, Limit(0)]  # weights of terms; 0 leaves the term out
Share = Annotated[float, Limit(0, 1, low_open=True)]  # a part of something, never nothing
Part = Annotated[float, Limit(0, 1, low_open=True, high_open=True)]  # neither nothing nor everything
Fraction = Annotated[float, Limit(0, 1)]
Decay = Annotated[
    float, Limit(0, 1, high_open=True)
]  # what is kept of an older value; 1 would keep everything for ever


def checked(name: str, value: Any, kind: Any) -> Any:
    """The value as plain Python, or a ValueError that names it and what would be right."""
    for choice in _choices(kind):
        try:
            return _plain(value, choice)
        except ValueError:
            continue
    raise ValueError(f"{name}={value!r} must be {describe(kind)}")


def describe(kind: Any) -> str:
    """The kind in words."""
    return " or ".join(_words(choice) for choice in _choices(kind))


def is_count(kind: Any) -> bool:
    """Whether the values of this kind are whole numbers (or None)."""
    return any(_unwrapped(choice)[0] is int for choice in _choices(kind))


@cache
def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


@cache
def _unwrapped(kind: Any) -> tuple[Any, Limit]:
    """The plain type and its range."""
    if get_origin(kind) is not Annotated:
        return kind, Limit()
    plain, *extras = get_args(kind)
    return plain, next((extra for extra in extras if isinstance(extra, Limit)), Limit())


def _plain(value: Any, kind: Any) -> Any:
    plain, limit = _unwrapped(kind)
    if plain in (int, float):
        return _number(value, plain, limit)
    if get_origin(plain) is Literal:
        accepted = isinstance(value, str | int) and value in get_args(plain)
    elif plain is NoneType:
        accepted = value is None
    else:
        accepted = plain is Any or isinstance(value, get_origin(plain) or plain)
    if not accepted:
        raise ValueError
    return value


def _number(value: Any, plain: type, limit: Limit) -> int | float:
    fits = not isinstance(value, bool) and _is_finite(value, Integral if plain is int else Real)
    if not fits or not limit.holds(value):
        raise ValueError
    return int(value) if plain is int else float(value)


def _is_finite(value: Any, number: type) -> bool:
    try:
        return isinstance(value, number) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _words(kind: Any) -> str:
    plain, limit = _unwrapped(kind)
    if plain is int:
        return f"a whole number {limit}".strip()
    if plain is float:
        return f"a number {limit}".strip()
    if get_origin(plain) is Literal:
        return "one of " + ", ".join(map(repr, get_args(plain)))
    names = {NoneType: "None", bool: "True or False", str: "a name", dict: "a dictionary of names and values"}
    origin = get_origin(plain) or plain
    return names.get(origin, f"a {getattr(origin, '__name__', origin)}")


def check_fields(instance: Any) -> None:
    """Check the fields of a frozen dataclass against their types; call it from `__post_init__`. NumPy's numbers become
    Python's."""
    for name, kind in _kinds(type(instance)).items():
        object.__setattr__(instance, name, checked(name, getattr(instance, name), kind))


@cache
def _kinds(dataclass: type) -> dict[str, Any]:
    hints = get_type_hints(dataclass, include_extras=True)
    return {field.name: hints[field.name] for field in fields(dataclass)}


Function = TypeVar("Function", bound=Callable[..., Any])


def validated(function: Function) -> Function:
    """Check the arguments of every call against the annotations, and missing or unknown ones against the signature."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        bound = checked_arguments(function, arguments, options)
        return function(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]  # the same signature, kept by `wraps`


def checked_arguments(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> BoundArguments:
    """The arguments of a call by name, each checked against its annotation."""
    bound = bind(function, arguments, options)
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in signature(function).parameters.items():
        if name in bound.arguments and _is_checked(parameter, hints):
            bound.arguments[name] = checked(name, bound.arguments[name], hints[name])
    return bound


def _is_checked(parameter: Parameter, hints: dict[str, Any]) -> bool:
    return parameter.name in hints and parameter.kind is not Parameter.VAR_KEYWORD


def bind(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> BoundArguments:
    """The arguments by name, or a ValueError that says which one is missing or unknown and which there are."""
    try:
        return signature(function).bind(*arguments, **options)
    except TypeError as problem:
        parameters = signature(function).parameters.values()
        names = ", ".join(str(parameter).split(":")[0].split("=")[0].strip() for parameter in parameters)
        name = getattr(function, "__name__", str(function))
        raise ValueError(f"{name}: {problem}; its arguments are: {names}") from None
