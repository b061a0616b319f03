"""`python -m fedlib`: names and values are checked, parameters reach notebooks, exit codes tell what happened."""

import doctest
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from omegaconf import OmegaConf
from toy_workbook import REPOSITORY, make_workbook

from fedlib.__main__ import main
from fedlib.commands import catalogue, dask_cli, reports
from fedlib.report import usage
from fedlib.report.notebooks import discover, parameters
from fedlib.report.settings import compose_job
from fedlib.report.usage import UsageError

pytestmark = pytest.mark.slow


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    return make_workbook(tmp_path)


def printed(executed: Path) -> str:
    """All that an executed notebook wrote to its standard output."""
    cells = nbformat.read(executed, as_version=4).cells
    return "".join(o.text for cell in cells for o in cell.get("outputs", []) if o.get("name") == "stdout")


@pytest.mark.parametrize(
    ("override", "valid", "guess"),
    [
        ("paper=tyo", "all, toy", "toy"),
        ("scale=quik", "desk, paper, quick, recorded", "quick"),
        ("backend=process", "dask, inprocess, processes, slurm", "processes"),
        ("papper=toy", "backend, data, notebooks, paper, record, report, scale, seed, toy", "paper"),
        ("toy.fien.seeds=2", "fine, broken", "fine"),
        ("toy.fine.sedes=2", "seed, seeds, rates, method", "seeds"),
        ("+toy.fine.rate=2", "seed, seeds, rates, method", "rates"),
        ("notebooks=[fime]", "fine, broken", "fine"),
    ],
)
def test_an_unknown_name_is_answered_with_the_valid_ones_and_the_nearest(workbook, capsys, override, valid, guess):
    assert main([override], workbook) == 2
    complaint = capsys.readouterr().err
    assert f"Did you mean {guess}? Valid: {valid}." in complaint
    assert "Traceback" not in complaint
    assert not (workbook / "reports").exists()


@pytest.mark.parametrize(
    ("override", "now"),
    [("engine=dask", "backend=dask"), ("engine.workers=2", "backend.workers=2"), ("+engine.leg=5", "+backend.leg=5")],
)
@pytest.mark.parametrize("command", [[], ["plan"], ["list"], ["-m"]], ids=lambda command: " ".join(command))
def test_the_old_word_for_a_backend_is_answered_with_the_new_one(workbook, capsys, command, override, now):
    assert main([*command, override], workbook) == 2
    assert f"fedlib: 'engine' is now called 'backend': write {now}\n" in capsys.readouterr().err
    assert not (workbook / "reports").exists()


def test_a_backend_that_is_not_installed_is_answered_before_anything_runs(workbook, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    assert main(["backend=slurm"], workbook) == 2
    assert "backend slurm needs Dask (there is no dask_jobqueue): pip install" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["dask", "scheduler"], workbook) == 2
    assert "backend dask needs Dask (there is no distributed): pip install" in capsys.readouterr().err
    assert not (workbook / "reports").exists()


DASK = """
import sys
from fedlib.__main__ import main
try:
    main(["dask", "worker", "--help"])
finally:
    assert "torch" not in sys.modules and "hydra" not in sys.modules, "a worker needs torch with its first run"
"""


def test_the_dask_command_is_dasks_own_and_starts_without_torch():
    done = subprocess.run([sys.executable, "-c", DASK], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout.startswith("Usage: python -m fedlib dask worker [OPTIONS]")
    assert "--nworkers" in done.stdout and "--memory-limit" in done.stdout


def test_a_bad_name_late_in_a_sweep_stops_the_sweep_before_it_starts(workbook, capsys):
    assert main(["-m", "seed=0,1", "scale=quick,desc"], workbook) == 2
    assert "Did you mean desk?" in capsys.readouterr().err
    assert not (workbook / "reports").exists()


@pytest.mark.parametrize("override", ["toy.fine.seeds=three", "seed=[1,2]", "toy.fine.rates=0.5", "data.offline=3"])
def test_a_value_of_another_kind_is_refused_with_an_example(workbook, capsys, override):
    assert main([override], workbook) == 2
    assert "expected" in capsys.readouterr().err


@pytest.mark.parametrize("override", ["seed", "seed=1,2"])
def test_what_is_no_override_is_explained_without_a_traceback(workbook, capsys, override):
    assert main([override], workbook) == 2
    assert "Traceback" not in capsys.readouterr().err


def fine_at(workbook: Path, *words: str) -> dict:
    """The parameters of the toy notebook."""
    config = compose_job(workbook, list(words))
    return dict(config.toy.fine)


def test_a_scale_changes_what_the_notebook_states_and_the_paper_scale_changes_the_desk(workbook):
    own = {"seed": 0, "seeds": 3, "rates": [0.1, 0.2], "method": "fedavg"}
    assert fine_at(workbook, "scale=quick") == own
    assert fine_at(workbook, "scale=desk") == own | {"seeds": 5, "rates": [0.1]}
    assert fine_at(workbook, "scale=paper") == own | {"seeds": 10, "rates": [0.1]}
    assert fine_at(workbook, "scale=paper", "seed=4", "toy.fine.seeds=2") == own | {
        "seed": 4,
        "seeds": 2,
        "rates": [0.1],
    }


def test_by_default_a_paper_is_shown_at_desk_scale_once_that_is_recorded(workbook):
    assert fine_at(workbook)["seeds"] == 3
    assert fine_at(workbook, "scale.recorded=[toy]")["seeds"] == 5


def test_once_the_notebook_states_desk_values_quick_is_what_changes_them(workbook):
    """Moving a paper to desk scale: its cell and its first block change places, `paper` stays as it is."""
    notebook, file = workbook / "notebooks" / "toy" / "01_fine.ipynb", workbook / "conf" / "paper" / "toy.yaml"
    before = {scale: fine_at(workbook, f"scale={scale}") for scale in ("quick", "desk", "paper")}
    notebook.write_text(notebook.read_text().replace("seeds = 3", "seeds = 5").replace("[0.1, 0.2]", "[0.1]"))
    file.write_text(
        file.read_text().replace("desk:", "quick:").replace("seeds: 5", "seeds: 3").replace("[0.1]", "[0.1, 0.2]")
    )
    assert {scale: fine_at(workbook, f"scale={scale}") for scale in before} == before


@pytest.mark.parametrize(
    ("wrong", "right", "complaint"),
    [
        ("dsk:", "desk:", "conf/paper/toy.yaml: dsk: no such scale. Did you mean desk?"),
        ("fin:", "fine:", "conf/paper/toy.yaml: desk.fin: no such notebook. Did you mean fine?"),
        ("sedes:", "seeds:", "conf/paper/toy.yaml: desk.fine.sedes: no such parameter. Did you mean seeds?"),
    ],
)
def test_a_scale_can_only_change_what_there_is(workbook, wrong, right, complaint):
    file = workbook / "conf" / "paper" / "toy.yaml"
    file.write_text(file.read_text().replace(right, wrong, 1))
    with pytest.raises(UsageError) as error:
        compose_job(workbook, [])
    assert complaint in str(error.value)


def test_overrides_and_environment_reach_the_notebook(workbook, capsys):
    arguments = ["notebooks=[fine]", "seed=7", "toy.fine.rates=[0.5]", "toy.fine.method=acfmo", "backend.workers=3"]
    assert main(arguments, workbook) == 0
    (folder,) = (workbook / "reports" / "changed").iterdir()
    text = printed(folder / "executed" / "toy-fine.ipynb")
    assert "7 3 [0.5] acfmo" in text
    assert "working in toy with processes 3" in text
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"reports/changed/{folder.name}/index.html")
    assert sorted(path.name for path in workbook.iterdir()) == ["conf", "notebooks", "reports"]


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["notebooks=[fine]", "backend.workers=1", "record=ignore"], "desk"),
        (["scale=quick"], "quick"),
        (["toy.fine.rates=[0.5]"], "changed/toy.fine.rates=_0.5_"),
        (["paper=toy", "seed=1"], "changed/paper=toy,seed=1"),
        (["seed=1", "report=reports/mine"], "mine"),
    ],
)
def test_a_report_with_changed_parameters_replaces_no_other(workbook, monkeypatch, words, folder):
    monkeypatch.chdir(workbook)
    (job,) = reports.jobs_of(words, workbook)
    assert reports.report_folder(job, workbook) == workbook / "reports" / folder


def test_a_sweep_stays_below_the_report_that_is_asked_for(workbook, monkeypatch):
    monkeypatch.chdir(workbook)
    jobs = reports.jobs_of(["-m", "seed=1,2", "report=mine"], workbook)
    assert [reports.report_folder(job, workbook) for job in jobs] == [workbook / "mine" / f"seed={n}" for n in (1, 2)]


def test_many_changed_parameters_still_make_a_name_that_a_folder_can_have_and_no_other_has(workbook):
    longs = [["toy.fine.rates=[" + ",".join(["0.1"] * 90) + f",{last}]"] for last in (0.2, 0.3)]
    folders = [reports.report_folder(reports.jobs_of(words, workbook)[0], workbook) for words in longs]
    assert folders[0] != folders[1]
    for folder in folders:
        folder.mkdir(parents=True)
        assert folder.name.startswith("toy.fine.rates=_0.1,0.1")


def test_a_value_that_needs_quotes_is_answered_with_the_quotes(workbook, capsys):
    assert main(["data.folder=/my data (1)"], workbook) == 2
    complaint = capsys.readouterr().err
    assert """two pairs of quotes: 'data.folder="/my data (1)"'""" in complaint
    assert compose_job(workbook, ['data.folder="/my data (1)"']).data.folder == "/my data (1)"


def test_a_sweep_writes_one_report_folder_a_job(workbook):
    assert main(["-m", "notebooks=fine", "toy.fine.seeds=1,2"], workbook) == 0
    for seeds in (1, 2):
        folder = workbook / "reports" / "sweeps" / f"notebooks=fine,toy.fine.seeds={seeds}"
        assert (folder / "index.html").exists()
        assert f"0 {seeds} [0.1, 0.2]" in printed(folder / "executed" / "toy-fine.ipynb")


def test_ctrl_c_stops_the_kernel_and_says_how_to_continue(workbook):
    notebook = workbook / "notebooks" / "toy" / "01_fine.ipynb"
    node = nbformat.read(notebook, as_version=4)
    node.cells[2].source = f"import time; open(r'{workbook / 'began'}', 'w').close(); time.sleep(60)"
    nbformat.write(node, notebook)
    code = "import sys, pathlib, fedlib.__main__ as app; sys.exit(app.main([], pathlib.Path(sys.argv[1])))"
    call = [sys.executable, "-c", code, str(workbook)]
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 50
    while not (workbook / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Finished runs are kept; the same command continues" in complaint
    assert "Traceback" not in complaint
    assert list((workbook / "reports" / "desk" / "executed").iterdir()) == []


def test_an_interrupted_command_promises_nothing_that_it_does_not_keep(monkeypatch, capsys):
    def interrupted(words, root):
        raise KeyboardInterrupt

    monkeypatch.setattr(catalogue, "run", interrupted)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "\nInterrupted.\n"


PAPERS = [notebook.paper for notebook in discover(REPOSITORY)]
RECORDED = OmegaConf.load(REPOSITORY / "conf" / "scale" / "recorded.yaml").recorded


@pytest.mark.parametrize("paper", dict.fromkeys(PAPERS))
def test_every_change_of_a_scale_changes_a_parameter_that_there_is(paper):
    """A default is stated once, in the notebook; the paper scale changes desk's values."""
    changes = OmegaConf.to_container(OmegaConf.load(REPOSITORY / "conf" / "paper" / f"{paper}.yaml"))
    cells = {notebook.name: parameters(notebook.path) for notebook in discover(REPOSITORY) if notebook.paper == paper}
    desk = {name: values | changes.get("desk", {}).get(name, {}) for name, values in cells.items()}
    for scale, of_scale in changes.items():
        for notebook, values in of_scale.items():
            stated = (desk if scale == "paper" else cells)[notebook]
            assert values.keys() <= stated.keys()
            assert {name: value for name, value in values.items() if stated[name] == value} == {}


@pytest.mark.parametrize("paper", dict.fromkeys(PAPERS))
def test_notebooks_state_the_values_of_the_scale_at_which_their_paper_is_shown(paper):
    """quick, or desk once the paper's desk runs are recorded: a saved notebook is what the report shows."""
    config = compose_job(REPOSITORY, ["scale=recorded"])
    assert OmegaConf.to_container(config[paper]) == {
        notebook.name: parameters(notebook.path) for notebook in discover(REPOSITORY) if notebook.paper == paper
    }
    file = OmegaConf.load(REPOSITORY / "conf" / "paper" / f"{paper}.yaml")
    assert set(file) <= ({"quick", "paper"} if paper in RECORDED else {"desk", "paper"})


def test_list_shows_papers_notebooks_figures_methods_and_data_sets_and_fetches_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDLIB_CACHE", str(tmp_path))
    monkeypatch.setenv("FEDLIB_DATA", str(tmp_path))
    (tmp_path / "mine.npz").touch()
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    words = " ".join(text.split())
    for notebook in discover(REPOSITORY):
        assert notebook.label in text and notebook.path.relative_to(REPOSITORY).as_posix() in text
    assert "Figs. 1-4; 10 claims, 3 audits" in words
    assert "fedavg FedAvg (McMahan et al., 2017)" in words
    assert "mine on disk: drop-in file" in words
    assert "mnist not on disk: fetched from torchvision's download" in words
    assert "femnist not on disk: missing, needs a drop-in file" in words
    assert "mnist_hog not on disk: computed from mnist" in words


def test_list_settings_can_be_typed_as_they_are_printed(capsys):
    assert main(["list", "settings", "paper=acfmo", "scale=desk"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert "acfmo.mnist.participation=[5,10,15,20]" in lines and "acfmo.mnist.rounds=200" in lines
    typed = compose_job(REPOSITORY, ["paper=acfmo", *lines])
    meant = compose_job(REPOSITORY, ["paper=acfmo", "scale=desk"])
    assert typed.acfmo == meant.acfmo


@pytest.mark.parametrize(("words", "guess"), [(["list", "metods"], "methods"), (["list", "scale=desc"], "desk")])
def test_a_wrong_word_after_list_is_answered_with_the_valid_ones(capsys, words, guess):
    assert main(words) == 2
    assert f"Did you mean {guess}?" in capsys.readouterr().err


def test_a_word_that_is_no_command_is_answered_with_what_there_is(workbook, capsys):
    assert main(["lst"], workbook) == 2
    assert "The commands there are: list, explain, plan, record, verify, findings, dask" in capsys.readouterr().err


def test_help_says_how_to_call_it_and_what_the_exit_codes_mean():
    done = subprocess.run([sys.executable, "-m", "fedlib", "--help"], capture_output=True, text=True, check=True)
    for part in (
        "python -m fedlib list",
        "python -m fedlib plan",
        "python -m fedlib dask",
        "Examples",
        "Exit codes: 0 fine",
        "paper: acfmo",
    ):
        assert part in done.stdout
    assert len(done.stdout.splitlines()) < 45


@pytest.mark.parametrize("module", [usage, dask_cli])
def test_the_examples_in_docstrings_come_out(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


def test_list_ends_quietly_when_its_reader_does():
    pipe = f"{sys.executable} -m fedlib list papers | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "PAPERS\n", "")
