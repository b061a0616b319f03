"""Errors for wrong words on the command line."""

import difflib
import json
import re
from collections.abc import Iterable


class UsageError(Exception):
    """Something on the command line is wrong; the message says what would be right."""


def valid_names(names: Iterable[object], wrong: object) -> str:
    """The valid names, and the nearest to a wrong one.

    >>> valid_names(["rounds", "seed"], "ronds")
    'Did you mean rounds? Valid: rounds, seed.'
    """
    known = [str(name) for name in names]
    near = difflib.get_close_matches(str(wrong), known, n=1, cutoff=0.5)
    guess = f"Did you mean {near[0]}? " if near else ""
    return f"{guess}Valid: {', '.join(known) or '(none)'}."


def typed(value: object) -> str:
    """A value as one types it on the command line.

    >>> typed(["mnist", "xi=2", 0.5, None])
    '[mnist,"xi=2",0.5,null]'
    """
    text = json.dumps(value, separators=(",", ":"), default=str)
    return re.sub(r'"([A-Za-z_]\w*)"', r"\1", text).replace("NaN", "nan").replace("Infinity", "inf")
