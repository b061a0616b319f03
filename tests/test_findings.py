"""What was found of each paper: the table at the top of README.md, and the sentence on a paper's card."""

import re
from collections import Counter
from pathlib import Path

import pytest

from fedlib.__main__ import main
from fedlib.commands import findings_cli
from fedlib.judging import ledger
from fedlib.report import findings
from fedlib.report.settings import decided_papers
from fedlib.surroundings import REPOSITORY as ROOT


def output(text: str, **about: str) -> dict:
    return {"metadata": {"fedlib": about}, "data": {"text/markdown": [text]}}


def rows() -> dict[str, str]:
    """The rows of README's table by the name in their link."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = text.partition(findings.BEGIN)[2].partition(findings.END)[0].strip().splitlines()
    table = lines[lines.index("|---|---|---|---|---|") + 1 :]
    return {line.split("[")[1].split("]")[0]: line for line in table if line.startswith("|")}


@pytest.mark.parametrize(
    ("file", "text"), [(Path("README.md"), findings_cli.readme), (findings_cli.START, findings_cli.start_page)]
)
def test_readme_and_start_page_say_what_the_saved_notebooks_say(file, text):
    assert (ROOT / file).read_text(encoding="utf-8") == text(ROOT), "python -m fedlib findings"


def test_readme_shows_the_picture_that_the_featured_paper_has_saved():
    image, lines = findings.picture(ROOT, findings.FEATURED)
    assert (ROOT / findings.PICTURE).read_bytes() == image, "python -m fedlib findings"
    assert image.startswith(b"\x89PNG")
    assert re.fullmatch(rf"!\[.{{40,}}\]\({re.escape(findings.PICTURE)}\)\n\n\*.{{40,}}\*", lines)
    assert findings.FEATURED in decided_papers(ROOT)


def test_links_of_the_table_lead_to_a_papers_folder_or_beside_the_notebooks_to_its_first():
    for folder, wanted in ((".", Path.is_dir), ("notebooks", Path.is_file)):
        links = re.findall(r"^\| \[\w+\]\((.+?)\)", findings.table(ROOT, [], folder), re.MULTILINE)
        assert len(links) == len(ledger.papers())
        assert all(wanted(ROOT / folder / link) for link in links)


def test_every_paper_has_a_row_and_only_decided_ones_have_a_finding():
    decided = {ledger.known_as(paper) for paper in decided_papers(ROOT)}
    assert set(rows()) == {ledger.known_as(paper) for paper in ledger.papers()}
    for name, line in rows().items():
        assert (findings.OPEN in line) == (name not in decided)


def test_a_decided_paper_counts_all_its_claims_and_audits():
    for paper in decided_papers(ROOT):
        counts = rows()[ledger.known_as(paper)].strip("| ").split(" | ")[-3:]
        for column, told in zip(findings.COLUMNS, counts, strict=True):
            of_paper = ledger.load(paper).entries
            entries = [entry for entry in of_paper if findings.column_of(entry.kind, entry.ours) == column]
            assert sum(int(part.split()[0]) for part in told.split(", ")) == len(entries), (paper, column)


def test_audits_of_what_a_paper_does_not_say_are_among_our_questions():
    assert [findings.column_of(kind, True) for kind in ("claim", "audit", "table")] == ["ours", "ours", "table"]
    assert [findings.column_of(kind, False) for kind in ("claim", "audit", "table")] == ["claim", "audit", "table"]


def test_only_what_was_said_as_a_finding_counts():
    outputs = [output("Not this.", role="said"), output("It **holds**.", role="finding"), {"output_type": "stream"}]
    assert findings.sentence(outputs) == "It **holds**."
    assert findings.sentence(outputs[:1]) == ""


def test_of_the_findings_of_a_papers_notebooks_the_one_that_leads_comes_first():
    first, second, third = output("One.", role="finding"), output("Two.", role="finding"), output("0.", role="finding")
    third["metadata"]["fedlib"]["leads"] = True
    assert findings.sentence([first, second, third]) == "0. One. Two."


def test_the_table_is_replaced_and_nothing_else():
    text = f"before\n{findings.BEGIN}\nold\n{findings.END}\nafter\n"
    assert findings.replaced(text, "new") == f"before\n{findings.BEGIN}\nnew\n{findings.END}\nafter\n"
    with pytest.raises(ValueError, match="not marked"):
        findings.replaced("a README without marks", "new")


def test_the_command_takes_no_words(tmp_path: Path, capsys: pytest.CaptureFixture):
    assert main(["findings", "paper=acfmo"], tmp_path) == 2
    assert "it takes no settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ({"reproduced": 3, "contradicted": 12, "undecided": 4}, "Mostly no"),
        ({"reproduced": 14, "contradicted": 2, "undecided": 4}, "Mostly yes"),
        ({"reproduced": 7, "contradicted": 1, "not judged at this scale": 16}, "Mostly yes, where judged"),
        ({"reproduced": 2, "contradicted": 2}, "Neither"),
        ({"reproduced": 1, "undecided": 2}, "Neither"),
        ({"not judged at this scale": 9}, ""),
    ],
)
def test_the_word_before_a_finding_is_that_of_most_judged_claims(counts, word):
    assert findings.in_a_word(Counter(counts)) == word
