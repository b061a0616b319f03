"""`fedlib explain` tells the whole story of a verdict, finds the report that has it, and answers wrong ids kindly."""

import pytest
import synthetic_claims

from fedlib.__main__ import main
from fedlib.judging import facts, ledger
from fedlib.report import verdicts

CLAIM = "fedsr/claim-ring-share"


@pytest.fixture
def told(tmp_path, capsys, monkeypatch):
    """What `explain` prints in a checkout with these reports."""
    monkeypatch.setenv("COLUMNS", "110")

    def explain(*words: str) -> str:
        assert main(["explain", *words], tmp_path) == 0
        return capsys.readouterr().out

    return explain


def report(folder, id: str, supports: bool = True, **parameters) -> None:
    entry = ledger.load(id.split("/")[0]).entry(id)
    file = ledger.data_file(folder, entry.data)
    file.parent.mkdir(parents=True, exist_ok=True)
    synthetic_claims.frame(entry, supports).to_csv(file, index=False)
    facts.write_facts(folder, entry.data, synthetic_claims.parameters(entry) | parameters)


def test_the_story_has_sentence_needs_comparisons_verdict_and_data(told, tmp_path):
    report(tmp_path / "reports" / "desk", CLAIM)
    story = told(CLAIM)
    assert "says     On CIFAR-10, the accuracy rises with the share of devices in a ring" in story
    assert "share_rounds 500, has 500: met. a longer ring takes more steps per round" in story
    assert story.count("  holds") == 6 and "share 0.1 to 0.2, iid" in story and "n 5" in story
    assert "verdict  reproduced" in story
    assert "found    6 hold, of 6. Smallest effect on accuracy +10.0" in story
    unwrapped = "".join(story.split())  # a long path may be broken
    assert "reports/desk/data/fedsr-fig10.csv" in unwrapped and "fedsr-fig10.json" in unwrapped


def test_what_is_not_met_stands_out_and_the_numbers_are_shown_all_the_same(told, tmp_path):
    report(tmp_path / "reports" / "quick", CLAIM, share_rounds=4)
    story = told(CLAIM)
    assert "share_rounds 500, has 4: NOT MET" in story
    assert "verdict  not judged at this scale" in story
    assert story.count("  holds") == 6


def test_the_largest_scale_is_told_unless_another_is_asked_for(told, tmp_path):
    report(tmp_path / "reports" / "desk", CLAIM)
    report(tmp_path / "reports" / "quick", CLAIM, supports=False)
    assert "verdict  reproduced" in told(CLAIM)
    assert "verdict  contradicted" in told(CLAIM, "--scale", "quick")
    report(tmp_path / "elsewhere", CLAIM, supports=False)
    assert "verdict  contradicted" in told(CLAIM, "--report", str(tmp_path / "elsewhere"))


def test_the_terminal_shows_the_same_digits_as_the_page(told, tmp_path):
    desk = tmp_path / "reports" / "desk"
    report(desk, CLAIM)
    line = ledger.judge(ledger.load("fedsr").entry(CLAIM), desk)
    story, row = told(CLAIM), line["comparisons"][0]
    assert verdicts.weighed(line) in " ".join(story.split())
    assert (
        f"{verdicts.effect(row['effect'], row['interval'])} ({verdicts.between(row['interval'], row['effect'])})"
        in story
    )


def test_every_reading_is_told(told, tmp_path):
    report(tmp_path / "reports" / "desk", "acfmo/claim-best-mnist")
    story = told("acfmo/claim-best-mnist")
    assert story.count("Read as ") == 13  # twelve readings, and the note that says which decides
    assert story.count("  holds") == 12 * 16


def test_a_reading_tells_needs_of_its_own_and_the_runs_are_named(told, tmp_path):
    desk = tmp_path / "reports" / "desk"
    report(desk, "fedacs/claim-lambda", samples=250)
    (desk / "used").mkdir()
    (desk / "used" / "fedacs-bandit.csv").write_text("abc,recorded\ndef,recorded\nabc,recorded\n")
    story = told("fedacs/claim-lambda")
    assert "verdict  not judged at this scale" in story and "samples 2000, has 250: NOT MET" in story
    second = story.split("Read as ")[2]
    assert second.splitlines()[0].endswith(": reproduced") and "samples 250, has 250: met" in second
    assert "runs     2 behind the page" in story and "reports/recorded/fedacs/runs.csv" in "".join(story.split())


def test_a_reading_without_numbers_is_told_as_such(told, tmp_path):
    report(tmp_path / "reports" / "desk", "fedacs/claim-above-baseline")
    story = told("fedacs/claim-above-baseline")
    assert "uniform environment': not judged at this scale" in story and 'all environments": reproduced' in story


def test_printed_numbers_have_a_story_too(told, tmp_path):
    file = ledger.data_file(tmp_path / "reports" / "quick", "fedsr/fig6")
    file.parent.mkdir(parents=True)
    file.write_text("curve,round,lr\ncosine,1,0.01\ncosine,500,0.002\n")
    story = told("fedsr/fig6")
    assert "cosine, 1    printed      0.01  ours    0.0100" in story
    assert story.count("matches") == 2 and "differs (ours higher)" in story and "verdict  differs" in story


def test_without_a_report_one_is_told_how_to_make_it(told):
    story = told(CLAIM)
    assert "No report has its numbers yet" in story
    assert "python -m fedlib paper=fedsr notebooks=[sensitivity]" in story


def test_an_unknown_id_is_answered_with_near_ones(tmp_path, capsys):
    assert main(["explain", "fedsr/claim-ring-shares"], tmp_path) == 2
    assert "Did you mean fedsr/claim-ring-share" in capsys.readouterr().err
    assert main(["explain", "qqqq"], tmp_path) == 2
    assert "The papers are acfmo, fcbafl" in capsys.readouterr().err
