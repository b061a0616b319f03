"""Where the other simulators are installed: an environment of their own, because their requirements differ from ours.

`FEDLIB_PEERS_PYTHON` names its interpreter; otherwise `.venv-peers` in the repository is used if it exists, or ours.
"""

import json
import os
import subprocess
import sys

from fedlib.bench.contestants import Contestant
from fedlib.surroundings import REPOSITORY

INSTALL = "python3.11 -m venv .venv-peers && .venv-peers/bin/pip install -e '.[peers]'"
PACKAGES = ("flwr", "ray", "pfl", "fedjax", "jax", "jaxlib", "dm-haiku", "torch", "numpy")
ASK = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
installed = {}
for name in sys.argv[1:]:
    try:
        installed[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(installed))
"""


def interpreter() -> str:
    """The Python that has the peers."""
    beside = REPOSITORY / ".venv-peers" / "bin" / "python"
    return os.environ.get("FEDLIB_PEERS_PYTHON") or (str(beside) if beside.exists() else sys.executable)


def versions(python: str) -> dict[str, str]:
    """Versions of the peers and of the libraries they use, if installed."""
    try:
        answer = subprocess.run([python, "-c", ASK, *PACKAGES], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SystemExit(
            f"FEDLIB_PEERS_PYTHON must name a Python interpreter; {python!r} does not start: {error}"
        ) from None
    return json.loads(answer.stdout)


def missing(contestant: Contestant, installed: dict[str, str]) -> str | None:
    """Why a peer cannot take part, with the command that helps; None if it can."""
    if contestant.package is None or contestant.package in installed:
        return None
    return f"not installed; to install: {INSTALL}"
