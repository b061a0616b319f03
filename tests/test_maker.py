"""Who computed a run: what changes its maker and what does not, in every supported Python."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedlib import algorithms
from fedlib.runs import maker
from fedlib.runs.run import ROOTS, Run

pytestmark = pytest.mark.slow

SKEWED = {"data_set": "cifar10", "partitioner": "uniform_skew", "clients": 10, "client_samples": 50}
RUNS = {
    "fedavg": Run("fedavg", {"data_set": "mnist", "partitioner": "shards", "clients": 10, "per_client": 2}, 3, 0),
    "fedprox": Run("fedprox", {"data_set": "mnist", "partitioner": "iid", "clients": 10, "network": "mlp200"}, 3, 0),
    "fedsr": Run("fedsr", {"data_set": "mnist", "partitioner": "iid", "clients": 10, "network": "cnn_fedsr"}, 3, 0),
    "fedacs": Run("fedacs", SKEWED | {"network": "lenet_tutorial"}, 3, 0),
}


@pytest.fixture
def tree(tmp_path) -> Path:
    """A copy of the package that may be edited."""
    return shutil.copytree(maker.PACKAGE, tmp_path / "fedlib", ignore=shutil.ignore_patterns("__pycache__"))


def roots_of(run: Run) -> list[tuple[str, str]]:
    from fedlib.problem import models, partition

    network = run.config["federation"]["network"]
    used = (algorithms.REGISTRY[run.algorithm], partition.PARTITIONERS[run.federation["partitioner"]])
    return [(part.__module__, part.__name__) for part in (*used, models.NETWORKS[network])] + list(ROOTS)


def makers(package: Path, mode: str = "reproducible") -> dict[str, str]:
    sources = maker.Sources(package)
    return {name: sources.maker(roots_of(run), mode) for name, run in RUNS.items()}


def edit(package: Path, file: str, old: str, new: str) -> None:
    path = package / file
    assert old in path.read_text(), f"the test edits a line that {file} no longer has"
    path.write_text(path.read_text().replace(old, new, 1))


def changed(package: Path, *edits: tuple[str, str, str]) -> set[str]:
    """The runs that get another maker by these edits."""
    before = makers(package)
    for one in edits:
        edit(package, *one)
    after = makers(package)
    return {name for name in RUNS if before[name] != after[name]}


def test_a_run_has_the_maker_of_the_code_that_is_running():
    assert {name: run.maker for name, run in RUNS.items()} == makers(maker.PACKAGE)
    assert len(set(makers(maker.PACKAGE).values())) == len(RUNS)


def test_comments_docstrings_and_layout_change_no_maker(tree):
    edits = [
        ("algorithms/fedprox.py", "@dataclass(frozen=True)\n", "# a remark\n\n\n@dataclass(\n    frozen=True\n)\n"),
        ("algorithms/fedavg.py", '"""Plain federated averaging;', '"""Averaging;'),
        ("engine/training.py", '"""', '"""Another first line.\n\n'),
        ("engine/compiled/dense_loops.py", '"""', '"""Another first line.\n\n'),
    ]
    assert changed(tree, *edits) == set()


def test_a_new_method_network_or_partitioner_changes_no_maker(tree):
    (tree / "algorithms" / "fednew.py").write_text(
        "from dataclasses import dataclass\nfrom fedlib.algorithms.fedavg import FedAvg\n\n\n"
        "@dataclass(frozen=True)\nclass FedNew(FedAvg):\n    strength: float = 1.0\n"
    )
    edits = [
        ("problem/models.py", "StartRule =", "def tiny(classes, shape):\n    return None\n\n\nStartRule ="),
        ("problem/models.py", "(softmax, mlp200,", "(tiny, softmax, mlp200,"),
        ("problem/partition/__init__.py", '    "iid": iid,\n', '    "iid": iid,\n    "again": iid,\n'),
    ]
    assert changed(tree, *edits) == set()


def test_a_changed_line_of_a_method_changes_its_runs_and_those_built_on_it(tree):
    assert changed(tree, ("algorithms/fedprox.py", "mu: NonNegative = ", "mu: NonNegative = 1 + ")) == {"fedprox"}
    assert changed(tree, ("algorithms/fedavg.py", "lr: Positive = 0.1", "lr: Positive = 0.2")) == set(RUNS)


def test_an_added_option_changes_the_maker_of_its_method_alone_and_no_name(tree):
    edit_of_fedprox = ("algorithms/fedprox.py", "    mu: NonNegative", "    extra: float = 0.0\n    mu: NonNegative")
    assert changed(tree, edit_of_fedprox) == {"fedprox"}
    source = (
        "import fedlib; from fedlib.runs.run import Run; import json, sys; print(Run(**json.loads(sys.argv[1])).name)"
    )
    named = [
        subprocess.run(
            [sys.executable, "-c", source, json.dumps(RUNS["fedprox"].asked)],
            cwd=package.parent,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(package.parent), "PATH": "", "HOME": str(tree.parent)},
        ).stdout.strip()
        for package in (tree, maker.PACKAGE)
    ]
    assert named[0] == named[1] == RUNS["fedprox"].name


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("engine/training.py", "STACK_BYTES = 2**30", "STACK_BYTES = 2**29"),
        ("engine/compiled/__init__.py", 'error_model="numpy"', 'error_model="python"'),
        ("problem/streams.py", "zlib.crc32", "zlib.adler32"),
        ("runs/simulation.py", "round % every == 0", "round % every == 1"),
        ("problem/federation.py", "l2: NonNegative = 0.0", "l2: NonNegative = 0.1"),
    ],
)
def test_a_change_of_the_engine_or_of_the_problem_changes_all(tree, file, old, new):
    assert changed(tree, (file, old, new)) == set(RUNS)


def test_a_network_or_partitioner_changes_the_runs_that_use_it(tree):
    assert changed(tree, ("problem/models.py", "nn.Linear(200, 200)", "nn.Linear(200, 200, False)")) == {"fedprox"}
    assert changed(tree, ("problem/partition/disjoint.py", "def iid(labels", "def iid(the_labels")) == {
        "fedprox",
        "fedsr",
    }


def test_what_keeps_shows_and_judges_runs_changes_nothing(tree):
    edits = [
        ("runs/store.py", "CHECKPOINT_SECONDS = 5.0", "CHECKPOINT_SECONDS = 6.0"),
        ("runs/bars.py", "return not bar", "return bar is False"),
        ("data/known.py", "one_of_many: bool = False", "one_of_many: bool = True"),
        ("selection/bestswap.py", "def best_swap(", "def best_swap(*, "),
    ]
    assert changed(tree, *edits) == set()


def test_another_numerics_mode_is_another_maker():
    before, after = makers(maker.PACKAGE), makers(maker.PACKAGE, "native")
    assert all(before[name] != after[name] for name in RUNS)


def test_imports_inside_functions_and_through_packages_are_followed(tmp_path):
    package = tmp_path / "fedlib"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "__init__.py").write_text("from fedlib.inner.deep import helper as exported\n")
    (package / "inner" / "deep.py").write_text(
        "SIZE = 3\n\ndef helper():\n    return SIZE\n\ndef unused():\n    pass\n"
    )
    (package / "top.py").write_text("def root():\n    from fedlib.inner import exported\n    return exported()\n")
    reached = set(maker.Sources(package).reached([("fedlib.top", "root")]))
    assert {("fedlib.inner.deep", "helper"), ("fedlib.inner.deep", "SIZE")} <= reached
    assert ("fedlib.inner.deep", "unused") not in reached
    before = maker.Sources(package).maker([("fedlib.top", "root")], "")
    (package / "inner" / "deep.py").write_text("SIZE = 4\n\ndef helper():\n    return SIZE\n")
    assert maker.Sources(package).maker([("fedlib.top", "root")], "") != before


def test_a_module_that_is_handed_on_counts_as_a_whole(tmp_path):
    package = tmp_path / "fedlib"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tools.py").write_text("def one():\n    pass\n\ndef two():\n    pass\n")
    (package / "top.py").write_text("from fedlib import tools\n\ndef root(name):\n    return getattr(tools, name)\n")
    reached = set(maker.Sources(package).reached([("fedlib.top", "root")]))
    assert {("fedlib.tools", "one"), ("fedlib.tools", "two")} <= reached


def test_an_import_of_everything_is_refused(tmp_path):
    package = tmp_path / "fedlib"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "top.py").write_text("from fedlib.tools import *\n\ndef root():\n    pass\n")
    with pytest.raises(ValueError, match="imports must name what they take"):
        maker.Sources(package).reached([("fedlib.top", "root")])


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_supported_python_computes_the_same_maker(version):
    """Needs no package, so an interpreter alone will do; those that are not here are skipped."""
    interpreter = find_python(version)
    if interpreter is None:
        pytest.skip(f"no Python {version} here")
    script = (
        "import importlib.util, json, sys\n"
        "spec = importlib.util.spec_from_file_location('maker', sys.argv[1])\n"
        "module = sys.modules['maker'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "sources = module.Sources()\n"
        "print(json.dumps([sources.maker([tuple(root) for root in roots], 'reproducible')"
        " for roots in json.loads(sys.argv[2])]))\n"
    )
    roots = [roots_of(run) for run in RUNS.values()]
    told = subprocess.run(
        [interpreter, "-c", script, maker.__file__, json.dumps(roots)], capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout) == [run.maker for run in RUNS.values()]


def find_python(version: str) -> str | None:
    """An interpreter of this version that runs: pyenv's placeholders answer to the name but may not."""
    candidates = [shutil.which(f"python{version}")]
    candidates += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for candidate in filter(None, candidates):
        asked = subprocess.run(
            [candidate, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True
        )
        if asked.returncode == 0 and asked.stdout.strip() == str(tuple(map(int, version.split(".")))):
            return candidate
    return None
