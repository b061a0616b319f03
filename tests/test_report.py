"""Pages and index: everything is in the file, nothing is loaded, what is shown can be found again."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from toy_workbook import make_workbook

from fedlib.__main__ import main
from fedlib.report import index, scatter
from fedlib.report.execute import clean
from fedlib.report.execute import main as execute_main
from fedlib.report.html import page_of, scrubbed
from fedlib.report.maths import mathml
from fedlib.report.notebooks import parameters
from fedlib.report.verdicts import LOOKS, badge


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


def line(id: str, kind: str, verdict: str, **more) -> dict:
    numbers = {"reported": None, "measured": None, "effect": None, "interval": None, "seeds": 3, "cells": []}
    words = {"id": id, "paper": id.split("/")[0], "kind": kind, "statement": f"statement of {id}", "note": ""}
    return words | numbers | {"verdict": verdict, "printed_in": ""} | more


def cell(label: str, reported, measured, interval, verdict: str) -> dict:
    return {"label": label, "reported": reported, "measured": measured, "interval": interval, "verdict": verdict}


CELLS = [
    cell("ACFMO, 5", 0.94, 0.931, [0.927, 0.935], "matches"),
    cell("FedGH, 5", "0.85..0.87", 0.9, None, "differs (ours higher)"),
    cell("FedPAC, 5", "<0.85", 0.8, [0.79, 0.81], "matches"),
    cell("FedALA, 5", 0.9, 0.7, [0.69, 0.71], "not comparable"),
    cell("FedAvg, 5", 0.9, None, None, "not run"),
]
LEDGER = [
    line("toy/fig1", "figure", "differs", cells=CELLS),
    line("toy/table2", "table", "not run"),
    line("toy/claim", "claim", "undecided", measured="3 hold, 1 undecided, of 4", note="Smallest gain < 0 & spread"),
    line("toy/sum", "audit", "does not hold", reported=0.59, measured=0.4712345, interval=[0.46, 0.48]),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """The toy workbook's report, with one notebook that fails, and a ledger laid beside it."""
    root = make_workbook(tmp_path_factory.mktemp("workbook"))
    assert main([], root) == 1
    folder = root / "reports" / "quick"
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


def test_a_judged_row_can_be_linked_to_and_wears_a_badge_under_one_header(page):
    text = without_code(page)
    assert re.search(r'<tr id="toy-claim">\s*<th scope="row">toy/claim</th><td>' + re.escape(badge("undecided")), text)
    assert "<tr><th>id</th><th>verdict</th></tr></thead>" in text
    assert "color: red" not in text


def test_what_a_failed_rerun_no_longer_shows_is_not_judged_as_new(tmp_path):
    root = make_workbook(tmp_path)
    assert main(["notebooks=fine"], root) == 0
    csv = root / "reports" / "quick" / "data" / "toy-fig1.csv"
    assert csv.exists()
    path = root / "notebooks" / "toy" / "01_fine.ipynb"
    path.write_text(path.read_text().replace("import os, sys", "raise OSError"))
    assert main(["notebooks=fine"], root) == 1
    assert not csv.exists()


def test_the_footer_says_where_the_page_comes_from(page):
    footer = page[page.index("<footer>") :]
    for part in ("notebooks/toy/01_fine.ipynb", "seeds = 3", "quick, seed 0", "Commit", "python 3.11", "torch", "took"):
        assert part in footer


def test_a_failing_notebook_still_gets_a_page_with_the_error_on_top(report):
    markup = (report / "toy-broken.html").read_text()
    alarm = markup.index('role="alert"')
    assert "ZeroDivisionError: division by zero" in markup[alarm : alarm + 400]
    assert alarm < markup.index("<h1")
    assert 'id="stopped-here"' in markup
    assert "toy-broken.html" in (report / "index.html").read_text()


def test_links_between_notebooks_become_links_between_pages_where_there_is_one(tmp_path):
    (tmp_path / "acfmo-mnist.ipynb").touch()
    (tmp_path / "start-here.ipynb").touch()
    of = {
        ("acfmo/01_mnist.ipynb", "notebooks/00_start_here.ipynb"): "acfmo-mnist.html",
        ("01_mnist.ipynb", "notebooks/acfmo/02_cifar10.ipynb"): "acfmo-mnist.html",
        ("../00_start_here.ipynb", "notebooks/acfmo/02_cifar10.ipynb"): "start-here.html",
        ("fedgs/01_selection.ipynb", "notebooks/00_start_here.ipynb"): None,
    }
    assert {key: page_of(*key, tmp_path) for key in of} == of


def test_formulas_become_mathml_and_what_cannot_stays_readable(page):
    assert "<mfrac>" in page
    assert "$$" not in page
    assert "<mtable" in mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}")
    assert mathml(r"\text{if } x < \frac{") == r'<code class="latex">\text{if } x &lt; \frac{</code>'


def test_the_index_shows_every_entry_with_its_verdict_in_words(overview):
    rows = {a["id"]: a for a in Elements(overview).all("tr") if a.get("class") == "entry"}
    for entry in LEDGER:
        row = rows[f"entry-{entry['id'].replace('/', '-')}"]
        assert (row["data-kind"], row["data-verdict"]) == (entry["kind"], entry["verdict"])
        assert html.escape(entry["statement"]) in overview
        assert badge(entry["verdict"]) in overview


def test_the_index_shows_each_printed_number_beside_ours_with_its_interval(overview):
    cells = re.findall(r"<tr><th scope=\"row\">(.*?)</th><td>(.*?)</td><td>(.*?)</td>", overview)
    assert ("ACFMO, 5", "0.94", "0.931 (0.927 to 0.935)") in cells
    assert ("FedGH, 5", "0.85..0.87", "0.9") in cells
    assert ("FedPAC, 5", "&lt;0.85", "0.8 (0.79 to 0.81)") in cells
    assert "0.4712" in overview


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


def test_cleaning_twice_changes_nothing_more(tmp_path):
    path = make_workbook(tmp_path) / "notebooks" / "toy" / "01_fine.ipynb"
    once = nbformat.writes(clean(nbformat.read(path, as_version=4)))
    assert nbformat.writes(clean(nbformat.reads(once, as_version=4))) == once


def test_folders_of_the_machine_get_short_names_but_pictures_are_not_touched(tmp_path):
    output = {"data": {"image/png": f"{tmp_path}/x", "text/plain": f"{tmp_path}/x and {Path.home()}/y"}}
    assert scrubbed(output, tmp_path) == {"data": {"image/png": f"{tmp_path}/x", "text/plain": "./x and ~/y"}}
