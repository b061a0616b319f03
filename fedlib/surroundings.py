"""The environment variables of fedlib. They are read here and at the edges only: the command line, the backends, and
where a process starts. Through them notebooks learn the folders and the use of recorded runs that the config sets.

    FEDLIB_DATA       drop-in data sets, the user's own files           data/
    FEDLIB_CACHE      checked copies of data, shared by all clones      the user's cache folder
    FEDLIB_OFFLINE    1: never touch the network
    FEDLIB_RUNS       finished and interrupted runs of this machine     reports/runs
    FEDLIB_RECORDED   recorded runs                                     reports/recorded
    FEDLIB_RECORD     how to use recorded runs (`runs.study`)           use
    FEDLIB_REPORT     where a notebook's numbers and figures go         reports/lab
    FEDLIB_USED       file that notes the runs a notebook uses
    FEDLIB_PLANNED    file that notes the studies of a plan
    FEDLIB_PROGRESS   0: no progress bars
"""

import os
import re
from pathlib import Path

from platformdirs import user_cache_dir

REPOSITORY = Path(__file__).resolve().parents[1]


def data_folder() -> Path:
    """The user's own files, which are only ever read."""
    return Path(os.environ.get("FEDLIB_DATA") or REPOSITORY / "data").expanduser()


def is_name_of_data(text: str) -> bool:
    """Whether a data set may have this name."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", text) is not None


def drop_ins(folder: Path) -> list[str]:
    """The names of the data sets in a folder of the user; a file that can be no name is none."""
    return sorted(file.stem for file in folder.glob("*.npz") if is_name_of_data(file.stem))


def cache_folder() -> Path:
    """Where data are kept for all clones."""
    return Path(os.environ.get("FEDLIB_CACHE") or user_cache_dir("fedlib")).expanduser() / "data"


def offline() -> bool:
    """Whether any use of the network is forbidden."""
    return os.environ.get("FEDLIB_OFFLINE", "0") not in ("", "0")


def runs_folder() -> Path:
    """Where this machine keeps runs."""
    return Path(os.environ.get("FEDLIB_RUNS") or REPOSITORY / "reports" / "runs")


def recorded_folder() -> Path:
    """Where the recorded runs are."""
    return Path(os.environ.get("FEDLIB_RECORDED") or REPOSITORY / "reports" / "recorded")


def record_policy() -> str | None:
    """How to use recorded runs, if the environment says so."""
    return os.environ.get("FEDLIB_RECORD") or None


def report_folder() -> Path:
    """Where a notebook's numbers and figures go."""
    return Path(os.environ.get("FEDLIB_REPORT") or REPOSITORY / "reports" / "lab")


def used_file() -> Path | None:
    """Where to note the runs that a notebook uses, while a report is built."""
    return _file("FEDLIB_USED")


def planned_file() -> Path | None:
    """Where to note what studies ask for, while runs are planned."""
    return _file("FEDLIB_PLANNED")


def _file(name: str) -> Path | None:
    return Path(os.environ[name]) if os.environ.get(name) else None


def progress_is_hidden() -> bool:
    """Whether progress bars are unwanted."""
    return os.environ.get("FEDLIB_PROGRESS", "1") == "0"
