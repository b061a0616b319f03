"""What a notebook shows is written with the parameters it was computed with, whatever else the notebook has named."""

import json

import pandas as pd
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from fedlib.algorithms.fcbafl import FCBAFL
from fedlib.judging import checks, facts, ledger
from fedlib.report import show

CELLS = """
rounds = 50
samples = None
names = ["a", "b"]
_hidden = 1
In = ["source"]
import fedlib
from fedlib.report import show
show.style()
"""


@pytest.fixture
def notebook(tmp_path, monkeypatch) -> dict:
    """The variables of a notebook that has just called `show.style`."""
    monkeypatch.setenv("FEDLIB_REPORT", str(tmp_path))
    variables: dict = {}
    exec(CELLS, variables)
    return variables


def test_parameters_are_the_plain_variables_before_the_style_with_their_present_values(notebook, tmp_path):
    notebook["rounds"] = 60  # the reader changed it and ran on
    notebook["later"] = 1
    audit = checks.audit(("total", 1, 1, True))
    show.table("acfmo/audit-micro", audit, audit)
    assert facts.parameters(tmp_path, "acfmo/audit-micro") == {"rounds": 60, "samples": None, "names": ["a", "b"]}
    assert ledger.data_file(tmp_path, "acfmo/audit-micro").exists()


def test_verdicts_are_judged_on_what_was_just_written(notebook, tmp_path, capsys):
    rows = [
        {
            "rates": "tuned",
            "method": method,
            "participation": level,
            "seed": seed,
            "accuracy": 0.9 + 0.001 * seed - 0.1 * (method != "ACFMO, current"),
        }
        for method in ("ACFMO, current", "FedAvg", "Server Adam")
        for level in (5, 10, 15, 20)
        for seed in range(5)
    ]
    frame = pd.DataFrame(rows)
    show.table("acfmo/fig1", frame, frame.head(1))
    show.verdicts("acfmo/claim-extras-mnist")
    said = capsys.readouterr().out
    assert "not judged at this scale" in said and "rounds 200, has 50" in said, said
    notebook["rounds"] = 200
    show.table("acfmo/fig1", frame, frame.head(1))
    line = ledger.judge(ledger.load("acfmo").entry("acfmo/claim-extras-mnist"), tmp_path)
    readings = {one["reading"]: one["verdict"] for one in line["readings"]}
    assert readings["this round's moments, each tuned"] == "reproduced"
    evidence = pd.read_csv(ledger.data_file(tmp_path, "acfmo/claim-extras-mnist"))
    assert set(evidence["outcome"]) == {"not run"}  # the printed reading was not run


def test_parameters_are_kept_as_json(notebook, tmp_path):
    audit = checks.audit(("total", 1, 1, True))
    show.table("acfmo/audit-micro", audit, audit)
    kept = json.loads((tmp_path / "data" / "acfmo-audit-micro.json").read_text())
    assert kept["parameters"]["rounds"] == 50


def test_numbers_kept_before_they_are_shown_answer_at_once(notebook, tmp_path, capsys):
    audit = checks.audit(("total", 1, 2, False))
    show.keep("acfmo/audit-micro", audit)
    assert capsys.readouterr().out == ""
    assert facts.parameters(tmp_path, "acfmo/audit-micro")["rounds"] == 50
    show.say("It {acfmo/audit-micro.verdict}.")
    assert "It does not hold." in capsys.readouterr().out
    with pytest.raises(LookupError, match="acfmo/audit-micro"):
        show.keep("acfmo/audit-micr", audit)


@pytest.mark.slow
def test_the_answer_stands_at_the_end_and_at_the_opening(tmp_path):
    cells = [
        "import os\nos.environ['FEDLIB_REPORT'] = " + repr(str(tmp_path)),
        "from fedlib.report import show\nshow.opening()",
        "show.answer('It takes **{rounds}** rounds.', rounds=7)",
    ]
    executed = NotebookClient(new_notebook(cells=list(map(new_code_cell, cells))), timeout=120).execute()
    texts = [cell.outputs[0].data["text/markdown"] for cell in executed.cells[1:]]
    assert texts == ["It takes **7** rounds."] * 2


def test_the_source_of_a_method_is_shown_as_it_runs(capsys):
    show.source(FCBAFL.round)
    text = capsys.readouterr().out
    assert "def round(self" in text and "# (10)" in text and "local_accuracy(gradients + shift" in text
