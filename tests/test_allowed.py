"""Limits: every parameter of every notebook has one, and what lies beyond it is answered before anything runs."""

import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from omegaconf import DictConfig, OmegaConf
from toy_workbook import REPOSITORY, make_workbook

from fedlib import data
from fedlib.__main__ import main
from fedlib.commands import allowed
from fedlib.commands.allowed import ALLOWED, RULES, SETTINGS, Allowed
from fedlib.data.known import FEATURES, KNOWN
from fedlib.papers.fedacs import experiments as fedacs
from fedlib.papers.fedgs.experiments import comparison as fedgs
from fedlib.papers.fedsr import experiments as fedsr
from fedlib.report.notebooks import discover, parameters
from fedlib.report.settings import compose_job
from fedlib.report.usage import UsageError

pytestmark = pytest.mark.slow

NOTEBOOKS = discover(REPOSITORY)
PARAMETERS = [(notebook.label, name, own) for notebook in NOTEBOOKS for name, own in parameters(notebook.path).items()]
NAMED = pytest.mark.parametrize(
    ("label", "name", "own"), PARAMETERS, ids=lambda value: value if isinstance(value, str) else ""
)


MAY_BE_EMPTY = (  # all of them; none; none is given; MNIST only
    "fedgs.hyperparameters.left_out",
    *("fedgs.comparison.methods", "fedgs.comparison.close_rows", "fedacs.comparison.targets"),
    "fedsr.ring_idea.cnn_data",
    *("fedsr.comparison.few_partitions", "fedsr.images.control_data", "fedsr.images.check_again"),
    "fedsr.sensitivity.crowd_control",
)


@pytest.fixture(scope="module", params=["quick", "desk", "paper"])
def config(request) -> DictConfig:
    return compose_job(REPOSITORY, [f"scale={request.param}"])


def wrong_values(limit: Allowed) -> some.SearchStrategy[Any]:
    """What a single value must not be: another kind, not finite, beyond its range, no known name."""
    others: list[some.SearchStrategy[Any]] = [some.just(math.nan), some.just(math.inf), some.just(-math.inf)]
    others += [some.booleans(), some.just([1.0]), some.just({"a": 1})] + [some.none()] * (not limit.optional)
    if limit.kind is str:
        unknown = some.text(min_size=1).filter(lambda text: not limit.fits(text))
        return some.one_of(*others, some.integers(), *([unknown] if limit.names else []))
    others += [some.text(), some.just("3")]
    if limit.kind is int:
        others += [some.floats(), some.just(1.5)]
    for bound, beyond in ((limit.least, -1), (limit.above, 0), (limit.above, -1), (limit.most, 1), (limit.below, 0)):
        if math.isfinite(bound):
            others.append(some.just(limit.kind(bound + beyond)))
    return some.one_of(*others)


def refused(setting: str, value: object, limit: Allowed, is_list: bool) -> str:
    with pytest.raises(UsageError) as error:
        allowed.check_parameter(setting, value, limit, is_list)
    return str(error.value)


def test_every_parameter_has_a_limit_and_no_limit_is_without_a_parameter():
    labels = {f"{label}.{name}" for label, name, _ in PARAMETERS}
    assert [f"{label}.{name}" for label, name, _ in PARAMETERS if allowed.allowed_for(label, name) is None] == []
    assert [name for name in ALLOWED if name not in labels | {name for _, name, _ in PARAMETERS}] == []
    assert set(RULES) <= {notebook.label for notebook in NOTEBOOKS}


def test_every_scale_keeps_all_limits_and_rules(config):
    allowed.check(config, REPOSITORY)


@NAMED
@settings(max_examples=25, deadline=None, database=None)
@given(draw=some.data())
def test_a_wrong_value_is_answered_with_the_setting_and_what_would_be_right(draw, label, name, own):
    setting, limit, is_list = f"{label}.{name}", allowed.allowed_for(label, name), isinstance(own, list)
    wrong = draw.draw(wrong_values(limit))
    complaint = refused(setting, [*own, wrong] if is_list else wrong, limit, is_list)
    assert complaint.startswith(f"{setting}=")
    assert "expected" in complaint


@NAMED
def test_the_notebooks_own_value_fits_and_a_list_stays_a_list_that_is_not_empty(label, name, own):
    setting, limit, is_list = f"{label}.{name}", allowed.allowed_for(label, name), isinstance(own, list)
    allowed.check_parameter(setting, own, limit, is_list)
    assert "expected" in refused(setting, (own or ["x"])[0] if is_list else [own], limit, is_list)
    if is_list and setting not in MAY_BE_EMPTY:
        assert "in the list, not 0" in refused(setting, [], limit, is_list)


@pytest.mark.parametrize("bad", [-3, 1.5, math.nan, math.inf, "ten", None, True, []], ids=str)
def test_a_wrong_value_is_found_in_the_config_of_any_notebook(config, bad):
    for notebook in NOTEBOOKS:
        name = "rounds" if "rounds" in config[notebook.paper][notebook.name] else "seed"
        job = OmegaConf.merge(config, {notebook.paper: {notebook.name: {name: bad}}})
        with pytest.raises(UsageError, match=rf"^{notebook.label}.{name}=.*: expected a whole number"):
            allowed.check(job, REPOSITORY)


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("acfmo.mnist.rounds=-3", "acfmo.mnist.rounds=-3: expected a whole number, 1 or more."),
        ("acfmo.mnist.rounds=1.5", "acfmo.mnist.rounds=1.5: expected a whole number, 1 or more."),
        ("acfmo.mnist.alpha=nan", "acfmo.mnist.alpha=nan: expected a finite number, above 0."),
        ("fcbafl.learning.target=inf", "fcbafl.learning.target=inf: expected a finite number, above 0, below 1."),
        ("acfmo.mnist.rates=[]", "acfmo.mnist.rates=[]: expected at least 1 in the list, not 0."),
        (
            "acfmo.mnist.rates=[0.1,0]",
            "acfmo.mnist.rates=[0.1,0]: 0 in it is wrong; expected a finite number, above 0.",
        ),
        ("acfmo.mnist.rounds=ten", "acfmo.mnist.rounds=ten: expected a number"),
        ("fedsr.comparison.samples=0", "fedsr.comparison.samples=0: expected a whole number, 1 or more, or null."),
        ("fedgs.comparison.data_set=femnits", "Did you mean femnist? Valid: femnist, handwriting."),
        ("fedsr.images.cnn_methods=[FedAgv]", "Did you mean FedAvg?"),
        ("fedgs.comparison.methods=[FedAvg]", "methods=[FedAvg]: FedAvg in it is wrong"),
        ("fedgs.comparison.start=hee", "Did you mean he?"),
        ("fedacs.comparison.kappa=150", "kappa=150, clients=200, but kappa <= 0.4 * clients must hold."),
        (f"seed=1{'0' * 400}", "0: expected a whole number, 0 or more, at most 4294967295."),
        ("fedacs.comparison.every=7", "every=7, last=5, full_last=5, but every <= min(last, full_last) must hold."),
        ("seed=-1", "fedlib: seed=-1: expected a whole number, 0 or more"),
        ("backend.workers=0", "backend.workers=0: expected a whole number, 1 or more, or null."),
        ("backend.name=slrm", "Did you mean slurm?"),
        ("notebooks=[]", "notebooks=[]: expected at least one name"),
        ("notebooks=3", "notebooks=3: no such notebook."),
        ("data.folder=5", "data.folder=5: expected a text, or null."),
    ],
)
def test_the_command_line_answers_before_anything_runs(capsys, tmp_path, override, complaint):
    assert main([override, f"report={tmp_path / 'report'}"]) == 2
    told = capsys.readouterr().err
    assert complaint in told and "Traceback" not in told
    assert not (tmp_path / "report").exists()


def test_slurm_cannot_count_the_cores_of_a_cluster(capsys):
    assert main(["backend=slurm", "backend.workers=null"]) == 2
    assert "backend.workers=null: expected a whole number, 1 or more." in capsys.readouterr().err
    assert main(["backend=slurm", "backend.slurm.cores=0"]) == 2
    assert "backend.slurm.cores=0: expected a whole number, 1 or more." in capsys.readouterr().err


def test_a_wrong_value_late_in_a_sweep_stops_the_sweep_before_it_starts(capsys):
    assert main(["-m", "acfmo.mnist.rounds=20,0"]) == 2
    assert "acfmo.mnist.rounds=0: expected" in capsys.readouterr().err


def test_plan_and_list_check_values_too(capsys):
    for command in ("plan", "list"):
        assert main([command, "acfmo.mnist.rounds=-3"]) == 2
        assert "acfmo.mnist.rounds=-3: expected" in capsys.readouterr().err


def test_a_data_set_of_ones_own_is_a_name_once_its_file_is_there(config, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLIB_DATA", str(tmp_path))
    job = OmegaConf.merge(config, {"fedgs": {"time": {"data_set": "mine"}}})
    with pytest.raises(
        UsageError, match=r"data_set=mine: expected a name, or that of a file in the data folder\. Valid"
    ):
        allowed.check(job, REPOSITORY)
    (tmp_path / "mine.npz").touch()
    allowed.check(job, REPOSITORY)


@pytest.mark.parametrize("name", ["my data", "._mine", "-mine"])
def test_a_file_that_load_would_refuse_is_neither_accepted_nor_listed(config, tmp_path, monkeypatch, name):
    monkeypatch.setenv("FEDLIB_DATA", str(tmp_path))
    (tmp_path / f"{name}.npz").touch()
    with pytest.raises(ValueError, match="is not a valid name"):
        data.load(name)
    job = OmegaConf.merge(config, {"fedgs": {"time": {"data_set": name}}})
    with pytest.raises(UsageError, match="expected a name"):
        allowed.check(job, REPOSITORY)
    assert name not in data.available()


def test_a_parameter_that_nobody_thought_of_must_be_finite_at_least(tmp_path, capsys):
    root = make_workbook(tmp_path)
    assert allowed.allowed_for("toy.fine", "method") is None
    assert main(["toy.fine.rates=[0.1,nan]"], root) == 2
    allowed.check_parameter("toy.fine.unheard_of", 3.5, None, is_list=False)
    with pytest.raises(UsageError, match="toy.fine.unheard_of=inf: expected a finite number"):
        allowed.check_parameter("toy.fine.unheard_of", math.inf, None, is_list=False)


def test_names_are_those_of_the_papers_and_of_the_data():
    assert tuple(fedsr.METHODS) == allowed.FEDSR_METHODS
    assert tuple(fedsr.VARIANTS) == allowed.FEDSR_VARIANTS
    assert tuple(fedsr.TARGETS) == allowed.FEDSR_DATA
    assert allowed.ALLOWED["check_data"].names == tuple(fedsr.CANDIDATES)
    assert tuple(row.name for row in fedgs.rivals(64)) == allowed.FEDGS_RIVALS
    assert tuple(name for name in fedacs.ENVIRONMENTS if name != "iid") == allowed.SKEWED_ENVIRONMENTS
    assert allowed.IMAGES.names == tuple(name for name in KNOWN if name not in FEATURES)


@pytest.mark.parametrize("name", ["iid", "xi=1", "xi=20", "alpha=0.05", "alpha=3"])
def test_partitions_that_fedsr_can_deal_are_names(name):
    assert allowed.PARTITION.fits(name)
    assert fedsr.partition_options(name)


@pytest.mark.parametrize(
    "name", ["xi=0", "xi=1.5", "xi=", "alpha=0", "alpha=0.0", "alpha=-1", "alpha=nan", "IID", "beta=2"]
)
def test_other_partitions_are_not(name):
    assert not allowed.PARTITION.fits(name)


def test_settings_outside_notebooks_are_those_of_the_config():
    known = {name for choice in ("dask", "slurm") for name in flat(compose_job(REPOSITORY, [f"backend={choice}"]))}
    assert set(SETTINGS) <= known


def flat(config: DictConfig) -> set[str]:
    plain = OmegaConf.to_container(config)

    def names(node: object, before: str) -> set[str]:
        if not isinstance(node, dict):
            return {before.rstrip(".")}
        return {before.rstrip(".")} | {name for key, value in node.items() for name in names(value, f"{before}{key}.")}

    return names(plain, "")


FAST = """
import sys
from fedlib.__main__ import main
code = main(sys.argv[1:])
assert "torch" not in sys.modules and "pandas" not in sys.modules, "a usage error must not wait for them"
sys.exit(code)
"""


@pytest.mark.parametrize("words", [["acfmo.mnist.rounds=-3"], ["plan", "paper=tyo"], ["engine=dask"], ["lst"]])
def test_a_usage_error_does_not_wait_for_torch(words):
    done = subprocess.run(
        [sys.executable, "-c", FAST, *words], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert done.returncode == 2, done.stderr
