"""fedlib comes first, so that numerics are pinned before NumPy and torch load.

`make test` shares the tests out to two processes (pytest-xdist), file by file: what a file builds is built once.
"""

import fedlib  # noqa: F401  isort: skip

import os
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from filelock import FileLock
from torch import nn

from fedlib.data.dataset import Dataset, from_arrays
from fedlib.problem import federation, partition

# Minutes each: these go first, papers and lessons one by one, and no process is left alone with them at the end.
FIRST = ("test_evidence.py", "test_lessons_executed.py", "test_browser.py", "test_cluster.py", "test_course.py")
ONE_BY_ONE = FIRST[:2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest first; all else as it stands."""
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(FIRST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A process takes a file, or one paper or lesson of it: tests with the same parameter stay together."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            return file + test.partition("[")[2] if file.endswith(ONE_BY_ONE) else file

    return ByFile(config, log)


def empty_cache(folder: Path) -> Path:
    """A cache without data. It shares this machine's compiled loops, which take a process most of a minute."""
    compiled = Path(numba.config.CACHE_DIR).parent  # pyright: ignore
    compiled.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True)
    (folder / "compiled").symlink_to(compiled, target_is_directory=True)
    return folder


def synthetic_arrays(samples: int, features: int, classes: int, seed: int) -> dict[str, np.ndarray]:
    """Learnable sparse features: a third of them belong to one class only, so that some clients never see them."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(samples + samples // 2) % classes)
    centres = rng.normal(0.5, 0.6, (classes, features))
    for feature in range(features // 3):
        centres[:, feature] = np.where(np.arange(classes) == feature % classes, 1.5, -9)
    values = np.maximum(centres[labels] + 0.4 * rng.normal(size=(len(labels), features)), 0).astype(np.float32)
    x, y = np.split(values, [samples]), np.split(labels, [samples])
    return {"x_train": x[0], "y_train": y[0], "x_test": x[1], "y_test": y[1]}


@pytest.fixture(scope="session")
def make_dataset():
    """A small data set in memory."""

    def make(samples: int = 240, features: int = 12, classes: int = 4, seed: int = 0) -> Dataset:
        arrays = synthetic_arrays(samples, features, classes, seed)
        return from_arrays("synthetic", arrays, tuple(str(label) for label in range(classes)), fingerprint="synthetic")

    return make


def small_network(kind: str, features: int, classes: int) -> nn.Sequential:
    """Softmax regression, or a dense network with two hidden layers like mlp200, but small."""
    widths = {"softmax": [features, classes], "dense": [features, 9, 7, classes]}[kind]
    pairs = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *pairs[:-1])


@pytest.fixture(scope="session")
def make_federation(make_dataset):
    """A small federation; its Dirichlet clients are ragged, some smaller than a batch. `parts` deals otherwise."""

    def make(kind="softmax", clients=10, alpha=0.5, seed=0, l2=0.0, parts=None, **data) -> federation.Federation:
        dataset = make_dataset(**data)
        labels = dataset.y_train.numpy()
        parts = parts or partition.dirichlet(labels, clients, alpha, rng=np.random.default_rng(seed))
        network = small_network(kind, dataset.x_train.shape[1], len(dataset.classes))
        return federation.assemble(dataset, parts, network, seed, l2)

    return make


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory) -> Iterator[Path]:
    """A store of its own, and nothing on record: computations are computed, once for all tests of a file."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        _set_folders(patch, folder, "RUNS", "RECORDED")
        yield folder


@pytest.fixture
def folders(tmp_path, monkeypatch) -> Path:
    """A data set `toy`, an empty store and an empty record."""
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "toy.npz", **synthetic_arrays(samples=120, features=9, classes=3, seed=0))
    _set_folders(monkeypatch, tmp_path, "DATA", "CACHE", "RUNS", "RECORDED")
    monkeypatch.setenv("FEDLIB_OFFLINE", "1")
    monkeypatch.setenv("FEDLIB_BACKEND", "inprocess")
    monkeypatch.setenv("FEDLIB_WORKERS", "1")
    return tmp_path


def _set_folders(patch: pytest.MonkeyPatch, folder: Path, *names: str) -> None:
    for name in names:
        patch.setenv(f"FEDLIB_{name}", str(folder / name.lower()))
    patch.delenv("FEDLIB_RECORD", raising=False)


@pytest.fixture(scope="session")
def course(tmp_path_factory) -> Path:
    """Both versions of all lessons, their pages and the students' package, built from the saved outputs.

    Processes that share the tests out share this folder, too: who comes first builds it. Nobody writes to it later.
    """
    from fedlib.course.__main__ import main  # seconds of imports that most tests need not wait for

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "course"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            assert main(["--folder", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def unpacked(course, tmp_path_factory) -> Path:
    """The students' package, unpacked where nothing else is, and where no other file of tests has run anything."""
    from fedlib.course import package

    folder = tmp_path_factory.mktemp("student")
    with zipfile.ZipFile(course / package.NAME) as packed:
        packed.extractall(folder)
    return folder / package.FOLDER
