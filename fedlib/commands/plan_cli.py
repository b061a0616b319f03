"""`fedlib plan`: the plan of the chosen notebooks, as a table or as JSON.

    python -m fedlib plan paper=fedsr scale=desk
    python -m fedlib plan paper=fedsr scale=paper --workers 32 --json

For each notebook: its runs and how many of them are in the store, core-hours, memory per worker, size of the results,
and the time that n workers need. Only runs are counted, not what notebooks compute besides. Nothing is written.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from fedlib.commands import FAILED, FINE
from fedlib.commands.reports import jobs_of
from fedlib.report.usage import UsageError

WORKERS = (1, 2, 4, 8, 16, 32)
SECONDS = 2.0  # about how long each kind is measured
MEANING = """Times are those of one core of this machine. A worker is one core; it takes the longest run left and waits
at the end of a study. Only runs count; other computations of notebooks come on top. Shared: with a notebook above."""


def run(words: list[str], root: Path) -> int:
    """Print the plan that the command line asks for; fails if some notebook could not be planned completely."""
    options, overrides = read(words)
    (job,) = jobs_of(overrides, root)
    from fedlib.commands.planner import plan  # imports torch, which a wrong name need not wait for
    from fedlib.runs.plan.measure import measured

    made = plan(job.notebooks, job.config, options.workers or WORKERS, partial(measured, seconds=options.seconds))
    print(json.dumps(made, indent=1) if options.json else text(made))
    return FINE if all(notebook["note"] is None for notebook in made["notebooks"]) else FAILED


def read(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of `plan`, and the overrides."""
    parser = argparse.ArgumentParser(
        prog="python -m fedlib plan",
        usage="%(prog)s [choice=name ...] [setting=value ...] [options]",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--json", action="store_true", help="the same for programs to read")
    parser.add_argument(
        "--workers", type=_workers, metavar="N[,N...]", help="workers to share the runs (1,2,4,8,16,32)"
    )
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="time to measure each kind of run (about 2)")
    try:
        options, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise UsageError(f"plan: {error}") from None
    for word in rest:
        if word.startswith("-") or "=" not in word:
            raise UsageError(f"plan {word}: settings are written name=value; options are --json, --workers, --seconds.")
    return options, rest


def _workers(word: str) -> tuple[int, ...]:
    numbers = [int(number) if number.isdecimal() else 0 for number in word.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of workers: write 8, or 2,32")
    return tuple(sorted(set(numbers)))


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{word!r} is not a positive number of seconds")
    return seconds


def text(made: dict[str, Any]) -> str:
    """The plan as a table for reading."""
    head = ["", "runs", "stored", "shared", "to do", "core-hours", "longest", "memory", "results"]
    head += [f"{n} worker{'s' * (n > 1)}" for n in made["workers"]]
    rows = [*made["notebooks"], {"notebook": "all", "note": None} | made["total"]]
    lines = [f"PLAN at {made['scale']} scale", *_aligned([head, *map(_cells, rows)]), ""]
    lines += [f"{row['notebook']}: {row['note']}" for row in rows if row["note"]]
    lines += _what_was_measured(made["kinds"])
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    if not row["runs"]:
        return [row["notebook"], "no runs"]
    counts = [str(row[name]) for name in ("runs", "stored", "shared", "missing")]
    least = "> " if row["unmeasured"] else ""
    hours, longest = least + number(row["core_hours"]), duration(row["longest_seconds"])
    sizes = [size(row["memory_bytes"]), size(row["result_bytes"])]
    walls = [least + duration(seconds) for seconds in row["wall_seconds"].values()]
    return [row["notebook"], *counts, hours, longest, *sizes, *walls]


def _aligned(rows: list[list[str]]) -> list[str]:
    full = [row + [""] * (len(rows[0]) - len(row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in full]
    return ["  ".join([row[0].ljust(widths[0]), *line[1:]]).rstrip() for row, line in zip(full, lines, strict=True)]


def _what_was_measured(kinds: list[dict[str, Any]]) -> list[str]:
    known = [kind["part"] for kind in kinds if "error" not in kind]
    parts = [part for part in known if part < 1]
    lines = []
    if known:
        lines.append(f"Measured: {len(known)} kinds of runs, {len(known) - len(parts)} of them by whole rounds.")
    if parts:
        lines.append(
            f"The others by parts of a round, at least {min(parts):.2g} of its work, and projected to the whole."
        )
    for error in dict.fromkeys(kind["error"] for kind in kinds if "error" in kind):
        count = sum(kind["runs"] for kind in kinds if kind.get("error") == error)
        lines.append(f"Not measured, and so not counted in times and sizes: {count} runs. {error}")
    return [*lines, MEANING]


def duration(seconds: float) -> str:
    """0.4 s, 12 s, 3.5 min, 7.2 h, 12 days."""
    for unit, name, most in ((1, "s", 100), (60, "min", 100), (3600, "h", 72)):
        if seconds < unit * most:
            return f"{number(seconds / unit, 2)} {name}"
    return f"{number(seconds / 86400, 2)} days"


def size(count: int) -> str:
    """512 B, 3.4 MB."""
    unit, name = next(
        ((unit, name) for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= unit), (1, "B")
    )
    return f"{number(count / unit, 2)} {name}"


def number(value: float, digits: int = 3) -> str:
    """With this many significant digits, and without an exponent for a large number: 0.012, 1.23, 123, 4161."""
    return f"{value:.{digits}g}" if value < 10 ** (digits - 1) else f"{value:.0f}"
