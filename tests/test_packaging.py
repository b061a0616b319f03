"""Set-up: the same versions everywhere, and the commands that the README names exist."""

import fnmatch
import re
import tomllib
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


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
    assert {"reports", "course", "test", "lab", "bench", "notebooks", "clean"} <= make_targets()
    commands = (REPOSITORY / ".ci" / "run").read_text().splitlines()
    assert [line for line in commands if line.startswith(("make", "pytest", "python"))] == ["make test"]
    assert (REPOSITORY / ".ci" / "run").stat().st_mode & 0o111


def test_every_template_is_part_of_the_package():
    patterns = [Path(pattern).name for pattern in PROJECT["tool"]["setuptools"]["package-data"]["fedlib"]]
    files = [path for path in (REPOSITORY / "fedlib" / "report" / "templates").rglob("*") if path.is_file()]
    assert files and all(any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns) for path in files)
