"""Where a page comes from: commit, versions, parameters, date and duration, recorded and computed runs."""

import csv
import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedlib.runs import record as recorded
from fedlib.runs.versions import differences

PACKAGES = ("fedlib", "torch", "numba", "numpy", "scipy", "pandas")


def commit(root: Path) -> str:
    """The checked-out commit, marked when files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()

    try:
        changed = " with uncommitted changes" if git("status", "--porcelain") else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.SubprocessError):
        return "unknown (not a git checkout)"


def versions() -> dict[str, str]:
    """Python's and the packages' versions, without importing them."""
    listed = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in PACKAGES:
        try:
            listed[name] = version(name)
        except PackageNotFoundError:
            listed[name] = "not installed"
    return listed


def record(root: Path, parameters: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Everything the footer of a page shows."""
    return {
        "commit": commit(root),
        "versions": versions(),
        "parameters": [[name, value] for name, value in parameters.items()],  # a list keeps the order of the config
        "seed": parameters.get("seed"),
        "seconds": round(seconds, 1),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def about(executed: Path) -> dict[str, Any]:
    """What an executed notebook of a report says of itself; nothing if it does not, or is not there."""
    return json.loads(executed.read_text(encoding="utf-8"))["metadata"].get("fedlib", {}) if executed.exists() else {}


def used(file: Path) -> dict[str, str]:
    """The runs that a notebook noted in `file`, each with where it came from; none if it noted none."""
    return dict(csv.reader(file.read_text(encoding="utf-8").splitlines())) if file.exists() else {}


def runs_used(file: Path) -> dict[str, Any]:
    """Where the runs behind a page came from, as the notebook noted in `file`: how many, and from which commits.

    `other_versions` says how the libraries that computed recorded runs differ from those here.
    """
    origins = used(file)
    counts = Counter(origins.values())
    names = [name for name, origin in origins.items() if origin in ("recorded", "stale")]
    lines = [line for name in names for _, line in filter(None, [recorded.find(name)])]
    return {
        "recorded": counts["recorded"],
        "stale": counts["stale"],
        "computed": counts["stored"] + counts["computed"],
        "commits": sorted({line.commit for line in lines}),
        "other_versions": sorted({text for line in lines if (text := differences(line.versions_on_record()))}),
    }
