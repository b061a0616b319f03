"""Pages and index: everything is in the file, nothing is loaded, what is shown can be found again."""

import html
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from judged_page import displayed, show_verdicts, write_page
from ledger_lines import cell, claim, comparison, line, printed
from toy_workbook import REPOSITORY, make_workbook

from fedlib.__main__ import main
from fedlib.data.files import write_text
from fedlib.report import execute, index, produce, provenance, scatter, show
from fedlib.report.execute import clean
from fedlib.report.execute import main as execute_main
from fedlib.report.html import page_of, scrubbed
from fedlib.report.maths import mathml
from fedlib.report.notebooks import discover, lessons, parameters
from fedlib.report.verdicts import LOOKS, badge

pytestmark = pytest.mark.slow


class Elements(HTMLParser):
    """All start tags with their attributes."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.found if attributes.get("id")]


def without_code(markup: str) -> str:
    return re.sub(r"<details class=\"code\">.*?</details>", "", markup, flags=re.DOTALL)


CELLS = [
    cell("ACFMO, 5", 0.94, 0.931, [0.927, 0.935], "matches"),
    cell("FedGH, 5", "0.85..0.87", 0.9, None, "differs (ours higher)"),
    cell("FedPAC, 5", "<0.85", 0.8, [0.79, 0.81], "matches"),
    cell("FedALA, 5", 0.9, 0.7, [0.69, 0.71], "not comparable", "rounds 6, printed 500"),
    cell("FedAvg, 5", 0.9, None, None, "not run"),
]
ROWS = [
    comparison("FedGH, 5", 0.02, 0.008, "holds"),
    comparison("FedPAC, 5", 0.031, 0.01, "holds"),
    comparison("FedALA, 5", -0.004, 0.012, "undecided"),
    comparison("FedAvg, 5", -0.02, 0.01, "reversed"),
    comparison("FedProx, 5", None, None, "not run"),
]
NEEDS = [
    {"name": "rounds", "value": 300, "have": 6, "met": False, "because": "the methods part late"},
    {"name": "units", "value": 3, "have": 5, "met": True, "because": "fewer decide nothing"},
]
UNMET = "Needs rounds 300, has 6: the methods part late."
LEDGER = [
    printed("toy/fig1", "figure", CELLS, note="Read from the text. Not comparable: rounds 6, printed 500."),
    line("toy/table2", "table", "not run"),
    claim("toy/claim", "undecided", ROWS, note="Smallest gain < 0 & spread"),
    claim("toy/claim-late", "not judged at this scale", ROWS[:2], needs=NEEDS, note=f"As printed. {UNMET}"),
    claim("toy/claim-blank", "not judged at this scale", [], note="Its numbers are not in this report."),
    line("toy/sum", "audit", "does not hold", reported=0.59, measured=0.4712345),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """The toy workbook's report, with one notebook that fails, and a ledger laid beside it."""
    root = make_workbook(tmp_path_factory.mktemp("workbook"))
    assert main([], root) == 1
    folder = root / "reports" / "desk"
    (folder / "ledger.json").write_text(json.dumps(LEDGER))
    index.write(folder)
    return folder


@pytest.fixture(scope="module")
def page(report) -> str:
    return (report / "toy-fine.html").read_text()


@pytest.fixture(scope="module")
def overview(report) -> str:
    return (report / "index.html").read_text()


@pytest.mark.parametrize("name", ["toy-fine.html", "toy-broken.html", "index.html"])
def test_a_page_loads_nothing_and_its_local_links_exist(report, name):
    markup = (report / name).read_text()
    elements = Elements(markup)
    loading = [a for tag in ("img", "script", "link", "iframe", "source") for a in elements.all(tag)]
    assert all((a.get("src") or a.get("href") or "data:").startswith("data:") for a in loading)
    assert not re.search(r"@import|url\((?!data:)|fetch\(|XMLHttpRequest", markup)
    for href in (a["href"] for a in elements.all("a")):
        file, _, anchor = href.partition("#")
        if not href.startswith("https://"):
            target = (report / file) if file else report / name
            assert target.exists(), href
            assert not anchor or anchor in Elements(target.read_text()).ids(), href
    assert len(markup) < 1_000_000


@pytest.mark.parametrize("name", ["toy-fine.html", "toy-broken.html", "index.html"])
def test_a_page_has_landmarks_a_language_unique_ids_and_alt_texts(report, name):
    elements = Elements((report / name).read_text())
    assert elements.all("html")[0]["lang"] == "en"
    assert all(len(elements.all(tag)) == 1 for tag in ("main", "footer", "h1"))
    assert len(set(elements.ids())) == len(elements.ids())
    assert all("alt" in image for image in elements.all("img"))


def test_a_figure_has_its_alt_text_anchor_and_data(page):
    elements = Elements(page)
    assert [image["alt"] for image in elements.all("img")] == ['A "rising" line']
    assert "toy-fig1" in elements.ids()
    assert {"href": "data/toy-fig1.csv"} in elements.all("a")


def test_contents_list_headings_once_each_even_when_names_repeat(page):
    contents = re.search(r"<nav class=\"contents\".*?</nav>", page, flags=re.DOTALL)[0]
    links = [a["href"] for a in Elements(contents).all("a")]
    assert links == ["#first-part", "#detail", "#first-part-2"]


def test_code_is_folded_and_progress_and_machine_paths_are_gone(page, report):
    assert all("open" not in fold for fold in Elements(page).all("details") if fold.get("class") == "code")
    assert "Parameters of this run" in page
    assert "12 runs" not in without_code(page)
    assert str(report.parents[1]) not in page
    assert "a path: ./notebooks/toy/file.txt" in page


def test_a_verdict_can_be_linked_to_and_wears_a_badge_as_in_tables_under_one_header(page):
    text = without_code(page)
    section = re.search(r'<section class="verdict" id="toy-claim".*?</section>', text, flags=re.DOTALL)[0]
    assert badge("undecided") in section and "Ours is above" in section
    assert f"<td>{badge('undecided')}</td>" in text
    assert "<tr><th>id</th><th>verdict</th></tr></thead>" in text
    assert "color: red" not in text


def test_what_a_failed_rerun_no_longer_shows_is_not_judged_as_new(tmp_path):
    root = make_workbook(tmp_path)
    assert main(["notebooks=fine"], root) == 0
    csv = root / "reports" / "desk" / "data" / "toy-fig1.csv"
    assert csv.exists()
    path = root / "notebooks" / "toy" / "01_fine.ipynb"
    path.write_text(path.read_text().replace("import os, sys", "raise OSError"))
    assert main(["notebooks=fine"], root) == 1
    assert not csv.exists()


def test_pages_of_notebooks_that_are_no_more_and_notebooks_that_say_nothing_of_themselves_are_removed(tmp_path):
    root = make_workbook(tmp_path)
    assert main(["notebooks=fine"], root) == 0
    report, executed = root / "reports" / "desk", root / "reports" / "desk" / "executed"
    (executed / "toy-broken.ipynb").write_text((root / "notebooks" / "toy" / "02_broken.ipynb").read_text())
    (root / "notebooks" / "toy" / "01_fine.ipynb").rename(root / "notebooks" / "toy" / "01_better.ipynb")
    (root / "conf" / "paper" / "toy.yaml").write_text("# @package toy\ndesk: {}\n")
    assert "toy-fine.html" in index.write(report).read_text(), "nor do they stop the index"
    assert main(["notebooks=better"], root) == 0
    assert [file.name for file in executed.iterdir()] == ["toy-better.ipynb"]
    assert [file.name for file in report.glob("toy-*.html")] == ["toy-better.html"]
    assert (report / "data" / "toy-fig1.csv").exists(), "the new notebook shows it, too"


def test_an_executed_notebook_appears_with_what_is_said_about_it_or_not_at_all(tmp_path, monkeypatch):
    root = make_workbook(tmp_path)
    monkeypatch.setattr(provenance, "record", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["notebooks=fine"], root)
    assert list((root / "reports" / "desk" / "executed").iterdir()) == []


def test_the_ledger_says_at_which_scale_each_paper_is_shown(tmp_path):
    for paper, scale in (("acfmo", "desk"), ("fedgs", "quick")):
        about = {"paper": paper, "scale": scale, "source": f"notebooks/{paper}/01_first.ipynb"}
        write_text(tmp_path / "executed" / f"{paper}-first.ipynb", json.dumps({"metadata": {"fedlib": about}}))
    produce._write_ledger(tmp_path)
    lines = json.loads((tmp_path / "ledger.json").read_text())
    assert {(line["paper"], line["scale"]) for line in lines} == {("acfmo", "desk"), ("fedgs", "quick")}


def test_the_footer_says_where_the_page_comes_from(page):
    footer = page[page.index("<footer>") :]
    for part in ("notebooks/toy/01_fine.ipynb", "seeds = 3", "quick, seed 0", "Commit", "python 3.", "torch", "took"):
        assert part in footer
    assert "Shown at quick scale: the runs of the desk scale are not on record yet." in page


def test_a_failing_notebook_still_gets_a_page_with_the_error_on_top(report):
    markup = (report / "toy-broken.html").read_text()
    alarm = markup.index('role="alert"')
    assert "ZeroDivisionError: division by zero" in markup[alarm : alarm + 400]
    assert alarm < markup.index("<h1")
    assert 'id="stopped-here"' in markup
    assert "toy-broken.html" in (report / "index.html").read_text()


def test_links_between_notebooks_become_links_between_pages_where_there_is_one(tmp_path):
    executed, rules = tmp_path / "reports" / "desk" / "executed", tmp_path / "docs" / "judging.md"
    for file in (executed / "acfmo-mnist.ipynb", executed / "start-here.ipynb", rules):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    of = {
        ("acfmo/01_mnist.ipynb", "notebooks/00_start_here.ipynb"): "acfmo-mnist.html",
        ("01_mnist.ipynb", "notebooks/acfmo/02_cifar10.ipynb"): "acfmo-mnist.html",
        ("../00_start_here.ipynb", "notebooks/acfmo/02_cifar10.ipynb"): "start-here.html",
        ("fedgs/01_selection.ipynb", "notebooks/00_start_here.ipynb"): None,
        ("../docs/judging.md", "notebooks/00_start_here.ipynb"): "../../docs/judging.md",
        ("../../docs/judging.md#words", "notebooks/acfmo/02_cifar10.ipynb"): "../../docs/judging.md#words",
        ("../docs/nothing.md", "notebooks/00_start_here.ipynb"): None,
    }
    assert {key: page_of(*key, executed, tmp_path) for key in of} == of


def test_formulas_become_mathml_and_what_cannot_stays_readable(page):
    assert "<mfrac>" in page
    assert "$$" not in page
    assert "<mtable" in mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}")
    assert mathml(r"\lVert w \rVert^2").count('<mo fence="false" stretchy="false">&#x02016;</mo>') == 2
    assert mathml(r"\lvert w \rvert^2").count('<mo fence="false" stretchy="false">&#x0007C;</mo>') == 2
    for norm in (r"\Big\lVert w \Big\rVert^2", r"\big\|w\big\|_2", r"\Bigl\| w \Bigr\|"):
        assert mathml(norm).count('<mo fence="false" stretchy="false">&#x02016;</mo>') == 2
    assert mathml(r"\text{if } x < \frac{") == r'<code class="latex">\text{if } x &lt; \frac{</code>'


def test_the_index_shows_every_entry_with_its_verdict_in_words(overview):
    rows = {a["id"]: a for a in Elements(overview).all("tr") if a.get("class") == "entry"}
    for entry in LEDGER:
        row = rows[f"entry-{entry['id'].replace('/', '-')}"]
        assert (row["data-kind"], row["data-verdict"]) == (entry["kind"], entry["verdict"])
        assert html.escape(entry["statement"]) in overview
        assert badge(entry["verdict"]) in overview


def row_of(overview: str, id: str) -> str:
    return re.search(rf'<tr role="row" id="entry-{id}".*?\n</tr>', overview, flags=re.DOTALL)[0]


def test_the_index_shows_each_comparable_number_beside_ours_with_interval_and_verdict(overview):
    row = row_of(overview, "toy-fig1")
    numbers = [re.findall(r">([^<>]+)</t[dh]>", one) for one in re.findall(r"<tr><th scope=\"row\">.*?</tr>", row)]
    assert numbers[:3] == [
        ["ACFMO, 5", "0.94", "0.9310", "0.9270 to 0.9350", "5"],
        ["FedGH, 5", "0.85..0.87", "0.900", "5"],
        ["FedPAC, 5", "&lt;0.85", "0.800", "0.790 to 0.810", "5"],
    ]
    assert row.count(badge("matches")) == 2 and row.count(badge("differs (ours higher)")) == 1
    assert "2 match, 1 differs (ours higher), 1 not comparable, 1 not run, of 5" in row


def test_numbers_that_could_not_be_compared_get_one_quiet_line_and_no_badge(overview):
    row = row_of(overview, "toy-fig1")
    assert "1 printed number belongs to another setting (rounds 6, printed 500). 1 was not run." in row
    assert '<tr class="soft"><th scope="row">FedALA, 5</th><td>0.9</td><td>0.700</td>' in row
    assert badge("not comparable") not in row
    assert "Read from the text.</p>" in row, "the note does not say it again"


def test_a_claim_has_counts_effect_interval_and_a_small_drawing_in_the_index(overview):
    row = row_of(overview, "toy-claim")
    assert "2 hold, 1 reversed, 1 undecided, 1 not run, of 5" in row and "all must hold" in row
    assert "Smallest effect on accuracy -0.020 (-0.030 to -0.010), 5 seeds." in row
    drawn = Elements(row)
    assert [a["class"] for a in drawn.all("g")] == ["holds", "holds", "undecided", "reversed"], "sorted by effect"
    assert len(drawn.all("circle")) == 3 and len(drawn.all("path")) == 1, "reversed is a cross"
    assert "2 hold, 1 reversed, 1 undecided, 1 not run, of 5" in drawn.all("svg")[0]["aria-label"]


def test_a_claim_that_is_not_judged_lists_its_needs_once_and_still_shows_its_numbers(overview):
    row = row_of(overview, "toy-claim-late")
    assert "<li>needs rounds 300, has 6: the methods part late</li>" in row
    assert "needs units" not in row and UNMET not in row and "As printed.</p>" in row
    assert "not judged, shown only: 2 hold, of 2" in row
    assert {a["style"] for a in Elements(row).all("g")} == {"--hue: var(--calm)"}


def test_the_index_counts_claims_and_audits_by_paper_and_in_total(overview):
    glance = re.search(r'<table class="glance">.*?</table>', overview, flags=re.DOTALL)[0]
    heads = re.findall(r"</span> ([^<]+)</span></th>", glance)
    assert heads == [
        *("reproduced", "contradicted", "undecided", "not judged at this scale"),
        *("hold", "do not hold"),
    ]
    for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", glance):
        assert re.findall(r">(\d+)<", row) == ["0", "0", "1", "2", "0", "1"]
    links = [a for a in Elements(glance).all("a") if a.get("data-verdict")]
    assert {(a["data-paper"], a["data-kind"], a["data-verdict"]) for a in links} == {
        (paper, *of)
        for paper in ("toy", "")
        for of in [("claim", "undecided"), ("claim", "not judged at this scale"), ("audit", "does not hold")]
    }


def test_the_index_counts_what_a_paper_does_not_say_among_our_questions(tmp_path):
    (tmp_path / "executed").mkdir()
    lines = [line("toy/audit-a", "audit", "holds"), line("toy/audit-b", "audit", "does not hold", ours=True)]
    (tmp_path / "ledger.json").write_text(json.dumps([*lines, line("toy/claim", "claim", "reproduced", ours=True)]))
    markup = index.write(tmp_path).read_text()
    rows = {a["id"]: a["data-kind"] for a in Elements(markup).all("tr") if a.get("class") == "entry"}
    assert list(rows.values()) == ["audit", "our question", "our question"]
    links = [a for a in Elements(markup).all("a") if a.get("data-verdict") and a["data-paper"] == "toy"]
    counted = {(a["data-kind"], a["data-verdict"]) for a in links}
    assert counted == {("audit", "holds"), ("our question", "does not hold"), ("our question", "reproduced")}


def test_without_a_comparable_number_the_index_says_so_instead_of_an_empty_picture(tmp_path):
    (tmp_path / "executed").mkdir()
    (tmp_path / "ledger.json").write_text(json.dumps([printed("toy/fig1", "figure", CELLS[3:])]))
    markup = index.write(tmp_path).read_text()
    assert "No printed number was measured in its printed setting" in markup
    assert 'class="scatter"' not in markup


def test_the_index_counts_what_was_regenerated_and_links_it(overview):
    assert "1 of 2 regenerated" in overview
    assert "1 does not hold" in overview
    assert "toy-fine.html#toy-fig1" in overview
    assert "toy-fine.html#toy-claim" in overview


def test_filters_offer_what_is_there_and_nothing_depends_on_them(overview):
    form = re.search(r"<form id=\"filters\".*?</form>", overview, flags=re.DOTALL)[0]
    values = [option.get("value") for option in Elements(form).all("option")]
    assert {"toy", "undecided", "does not hold", "differs"} <= set(values)
    assert len(Elements(form).all("select")) == 3
    assert 'type="search"' in form
    assert "hidden" in Elements(form).all("form")[0]


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> str:
    """The page of a notebook that says something and shows the verdicts of the ledger."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "ledger.json").write_text(json.dumps(LEDGER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDLIB_REPORT", str(folder))
        said = displayed(lambda: show.say("The gap is **{gap:.1f} points** at $x_{i}$.", gap=3.21))
        return write_page(folder, said, show_verdicts(LEDGER)).read_text()


def section_of(page: str, slug: str) -> str:
    return re.search(rf'<section class="verdict" id="{slug}".*?</section>', page, flags=re.DOTALL)[0]


def test_what_is_said_is_markdown_on_the_page(judged):
    assert "The gap is <strong>3.2 points</strong> at <math" in judged


def test_a_claim_on_a_page_has_verdict_counts_effect_and_a_forest_with_alt_text(judged):
    section = section_of(judged, "toy-claim")
    assert badge("undecided") in section
    assert "2 hold, 1 reversed, 1 undecided, 1 not run, of 5 (all must hold)." in section
    assert "Smallest effect on accuracy -0.020 (-0.030 to -0.010), 5 seeds." in section
    forests = [image["alt"] for image in Elements(judged).all("img")]
    assert len(forests) == 2, "one per claim that has comparisons"
    assert "2 hold, 1 reversed, 1 undecided, 1 not run, of 5" in forests[0]
    assert "filled circle holds, cross reversed, hollow circle undecided" in forests[0]


def test_the_numbers_of_a_forest_stand_below_it_sorted_with_their_outcomes_in_words(judged):
    table = next(part for part in re.findall(r"<table.*?</table>", judged, flags=re.DOTALL) if "FedProx, 5" in part)
    labels = re.findall(r"<th>(\w+, 5)</th>", table)
    assert labels == ["FedPAC, 5", "FedGH, 5", "FedALA, 5", "FedAvg, 5", "FedProx, 5"]
    outcomes = ["holds", "holds", "undecided", "reversed", "not run"]
    assert re.findall(r"</span> ([a-z ]+)</span></td>", table) == outcomes


def test_a_claim_that_is_not_judged_wears_no_verdict_of_its_comparisons_on_the_page(judged):
    section = section_of(judged, "toy-claim-late")
    assert badge("not judged at this scale") in section and "Not judged, shown only: 2 hold, of 2" in section
    assert "<li>needs rounds 300, has 6: the methods part late</li>" in section and UNMET not in section
    late = judged[judged.index('id="toy-claim-late"') : judged.index('id="toy-claim-blank"')]
    assert late.count("<td>(holds)</td>") == 2 and badge("holds") not in late


def test_printed_numbers_on_a_page_are_a_table_of_those_compared_and_one_line_of_the_rest(judged):
    section = section_of(judged, "toy-fig1")
    assert badge("differs") in section
    assert "1 printed number belongs to another setting (rounds 6, printed 500). 1 was not run." in section
    assert "data/toy-fig1-printed.csv" in section and "index.html#entry-toy-fig1" in section
    table = next(part for part in re.findall(r"<table.*?</table>", judged, flags=re.DOTALL) if "ACFMO, 5" in part)
    assert "FedALA, 5" not in table and "0.9270 to 0.9350" in table and badge("matches") in table


def test_every_verdict_has_its_own_words_and_a_sign():
    assert all(sign and meaning for _, sign, meaning in LOOKS.values())
    assert "?" in badge("unheard of")


def test_the_picture_shows_shares_as_percent_and_leaves_out_bounds_and_what_is_not_comparable():
    shown = scatter.points(LEDGER)
    assert [p.middle for p in shown] == pytest.approx([94, 86])
    assert [p.measured for p in shown] == pytest.approx([93.1, 90])
    assert [p.interval for p in shown] == [pytest.approx((92.7, 93.5)), pytest.approx((90, 90))]


def test_other_units_are_scaled_to_their_largest_printed_value():
    cells = [cell("a", 200, 220.0, [210.0, 230.0], "matches"), cell("b", 50, 50.0, None, "matches")]
    shown = scatter.points([line("toy/rounds", "table", "matches", cells=cells, printed_in="rounds")])
    assert [(p.middle, p.measured, p.interval) for p in shown] == [(100, 110, (105, 115)), (25, 25, (25, 25))]


def test_a_point_on_the_identity_line_is_drawn_there():
    axes = scatter.Axes([20.0, 97.0])
    assert (axes.low, axes.high) == (20, 100)
    assert axes.x(20) - scatter.MARGIN == 0 and axes.y(20) - scatter.TOP == scatter.SIZE
    assert axes.x(60) - scatter.MARGIN == scatter.TOP + scatter.SIZE - axes.y(60)


def test_the_index_says_which_papers_are_shown_at_which_scale(report, tmp_path):
    folder = shutil.copytree(report, tmp_path / "report")
    assert re.search(r"Scale <strong>quick</strong>, 20\d\d-", index.write(folder).read_text())
    other = (folder / "executed" / "toy-fine.ipynb").read_text().replace('"scale": "quick"', '"scale": "desk"')
    (folder / "executed" / "fcbafl-fine.ipynb").write_text(other.replace('"paper": "toy"', '"paper": "fcbafl"'))
    assert "Scale <strong>quick</strong> (TOY), <strong>desk</strong> (FCBAFL), 20" in index.write(folder).read_text()


def test_an_empty_report_has_an_index_too(tmp_path):
    (tmp_path / "executed").mkdir()
    assert "<h1>" in index.write(tmp_path).read_text()


def test_saving_in_place_keeps_results_and_drops_what_changes_from_run_to_run(tmp_path, capsys):
    path = make_workbook(tmp_path) / "notebooks" / "toy" / "02_broken.ipynb"
    before = path.read_text()
    assert execute_main(["--save", str(path)]) == 1
    assert path.read_text() == before
    node = nbformat.read(path, as_version=4)
    node.cells[2].source = "import sys; print(6 * 7); print('progress', file=sys.stderr)"
    nbformat.write(node, path)
    assert execute_main(["--save", str(path)]) == 0
    saved = nbformat.read(path, as_version=4)
    assert [output.text for output in saved.cells[2].outputs] == ["42\n"]
    assert set(saved.metadata) == {"kernelspec", "language_info"}
    assert [dict(cell.metadata) for cell in saved.cells] == [{}, {"tags": ["parameters"]}, {}, {}]
    assert parameters(path) == {"seed": 0}


def test_saving_everything_means_this_repository_wherever_one_is(tmp_path, monkeypatch):
    saved = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(execute, "save", saved.append)
    assert execute_main(["--save"]) == 0
    assert [notebook.path for notebook in saved] == [
        notebook.path for notebook in (*discover(REPOSITORY), *lessons(REPOSITORY))
    ]


def test_cleaning_twice_changes_nothing_more(tmp_path):
    path = make_workbook(tmp_path) / "notebooks" / "toy" / "01_fine.ipynb"
    once = nbformat.writes(clean(nbformat.read(path, as_version=4)))
    assert nbformat.writes(clean(nbformat.reads(once, as_version=4))) == once


def test_folders_of_the_machine_get_short_names_but_pictures_are_not_touched(tmp_path):
    output = {"data": {"image/png": f"{tmp_path}/x", "text/plain": f"{tmp_path}/x and {Path.home()}/y"}}
    assert scrubbed(output, tmp_path) == {"data": {"image/png": f"{tmp_path}/x", "text/plain": "./x and ~/y"}}
