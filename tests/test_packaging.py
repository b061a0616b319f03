"""Set-up: the same versions everywhere, and the commands that the README names exist."""

import fnmatch
import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
LINTERS = {
    "ruff format": "ruff format --check",
    "ruff check": "ruff check",
    "lint-imports": "lint-imports",
    "basedpyright": "basedpyright",
}


def pins(lines: list[str]) -> dict[str, str]:
    """Exact versions by package name."""
    found = (re.fullmatch(r"([A-Za-z0-9_.-]+)==([^\s;]+)", line.strip()) for line in lines)
    return {match[1].lower().replace("_", "-"): match[2] for match in found if match}


def declared() -> list[str]:
    return PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["test"]


def make_targets() -> set[str]:
    text = (REPOSITORY / "Makefile").read_text()
    return set(re.findall(r"^([a-z]+):", text, flags=re.MULTILINE))


def test_every_dependency_is_pinned_exactly():
    assert len(pins(declared())) == len(declared())


def test_environment_yml_has_the_pins_of_pyproject():
    environment = yaml.safe_load((REPOSITORY / "environment.yml").read_text())["dependencies"]
    (installed,) = [item["pip"] for item in environment if isinstance(item, dict)]
    assert pins(installed) == pins(declared())
    assert installed[:2] == ["-c constraints.txt", "-e ."]
    assert f"python={PROJECT['project']['requires-python'][2:6]}" in environment


def test_constraints_agree_with_pyproject():
    constraints = pins((REPOSITORY / "constraints.txt").read_text().splitlines())
    assert {name: constraints.get(name) for name in pins(declared())} == pins(declared())


def needed_by(package: str) -> set[str]:
    """The packages that one needs here, directly or through others."""
    requirements = [Requirement(line) for line in requires(package) or ()]
    direct = {item.name for item in requirements if item.marker is None or item.marker.evaluate({"extra": ""})}
    return direct.union(*map(needed_by, direct))


@pytest.mark.parametrize("tool", ["ruff", "basedpyright", "import-linter", "pre-commit"])
def test_the_tools_of_lint_are_pinned_with_all_they_need(tool):
    assert tool in pins(PROJECT["project"]["optional-dependencies"]["test"])
    constraints = pins((REPOSITORY / "constraints.txt").read_text().splitlines())
    assert {name.lower().replace("_", "-") for name in needed_by(tool)} <= set(constraints)


def test_lint_says_the_name_of_each_tool_and_runs_it_and_test_begins_with_lint():
    makefile = (REPOSITORY / "Makefile").read_text()
    recipe = re.search(r"^lint: \$\(READY\)\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)[1]
    expected = [line for name, command in LINTERS.items() for line in (f'@echo "{name}"', f"@{command}")]
    assert [line.strip() for line in recipe.splitlines()] == expected
    assert re.search(r"^test: .*\blint$", makefile, flags=re.MULTILINE) and "make lint " in makefile


def test_the_hooks_before_a_commit_are_the_commands_of_lint_and_download_nothing():
    (repository,) = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    assert {hook["name"]: hook["entry"] for hook in repository["hooks"]} == LINTERS
    assert all(hook["language"] == "system" and not hook["pass_filenames"] for hook in repository["hooks"])


def test_slow_tests_can_be_left_out():
    markers = PROJECT["tool"]["pytest"]["ini_options"]["markers"]
    assert [marker.split(":")[0] for marker in markers] == ["slow"]


def test_torch_and_torchvision_are_installed_by_one_command():
    recipe = (REPOSITORY / "Makefile").read_text()
    assert recipe.count("pip install") == 1
    assert {"torch", "torchvision"} <= set(pins(PROJECT["project"]["dependencies"]))


def test_the_commands_in_the_readme_are_targets_of_the_makefile():
    readme = (REPOSITORY / "README.md").read_text()
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    named = {word for block in blocks for word in re.findall(r"^(?:\$ )?make ([a-z]+)", block, flags=re.MULTILINE)}
    assert {"reports", "test"} <= named <= make_targets()


def test_the_promised_targets_exist_and_ci_runs_the_tests():
    assert {"reports", "course", "lint", "test", "lab", "bench", "notebooks", "clean"} <= make_targets()
    commands = (REPOSITORY / ".ci" / "run").read_text().splitlines()
    assert [line for line in commands if line.startswith(("make", "pytest", "python"))] == ["make test"]
    assert (REPOSITORY / ".ci" / "run").stat().st_mode & 0o111


def test_every_template_is_part_of_the_package():
    patterns = [Path(pattern).name for pattern in PROJECT["tool"]["setuptools"]["package-data"]["fedlib"]]
    files = [path for path in (REPOSITORY / "fedlib" / "report" / "templates").rglob("*") if path.is_file()]
    assert files and all(any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns) for path in files)
