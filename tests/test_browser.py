"""Pages and JupyterLab in a real browser, Debian's Chromium driven by Playwright. Screenshots go to
artifacts/browser."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from saved_report import make_report
from toy_workbook import REPOSITORY

from fedlib.course.build import VERSIONS
from fedlib.report.notebooks import START, discover, lessons

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install -e '.[test]'")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (on Debian: apt install chromium)"),
]

SCREENSHOTS = Path(os.environ.get("FEDLIB_SCREENSHOTS") or REPOSITORY / "artifacts" / "browser")
PAPER_PAGES = [f"{notebook.slug}.html" for notebook in discover(REPOSITORY)]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
START_NOTEBOOK = REPOSITORY / "notebooks" / "00_start_here.ipynb"
LESSON_NOTEBOOK = next(notebook.path for notebook in lessons(REPOSITORY))
ENERGY_NOTEBOOK = REPOSITORY / "notebooks" / "fcbafl" / "02_energy.ipynb"
TIME_NOTEBOOK = REPOSITORY / "notebooks" / "fedgs" / "04_time.ipynb"
COURSE_PAGES = [f"{version}/{notebook.path.stem}.html" for version in VERSIONS for notebook in lessons(REPOSITORY)]
LAB_SECONDS = 240  # a busy machine may need that long; a quiet one needs a tenth


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    return make_report(REPOSITORY, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page with everything that it complained about or asked of the network."""

    def __init__(self, page) -> None:
        self.page, self.complaints, self.requests = page, [], []
        page.on(
            "console", lambda message: message.type in ("error", "warning") and self.complaints.append(message.text)
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def outside(self) -> list[str]:
        return [url for url in self.requests if not url.startswith(("file:", "data:"))]


def open_page(chromium, report: Path, name: str, **look) -> Visit:
    """A file of the report in a window of its own: `open_page(..., "index.html", viewport=PHONE)`."""
    context = chromium.new_context(**{"viewport": DESK, "reduced_motion": "reduce"} | look)
    opened = Visit(context.new_page())
    opened.page.goto((report / name).as_uri())
    return opened


def close(opened: Visit, name: str) -> None:
    keep_screenshot(opened.page, name)
    opened.page.context.close()


@pytest.fixture
def visit(chromium, report, request):
    """`visit("index.html")`: a fresh window for tests that click and type. Its last view is kept as a screenshot."""
    opened: list[Visit] = []

    def fresh(name: str, **look) -> Visit:
        opened.append(open_page(chromium, report, name, **look))
        return opened[-1]

    yield fresh
    for number, each in enumerate(opened):
        close(each, f"{request.node.name}-{number}")


@pytest.fixture(scope="module")
def window(chromium, report):
    """`window("acfmo-mnist.html")`: one window a page, shared by the tests that leave it as it was."""
    opened: dict[str, Visit] = {}

    def shared(name: str) -> Visit:
        if name not in opened:
            opened[name] = open_page(chromium, report, name)
        return opened[name]

    yield shared
    for name, each in opened.items():
        close(each, name)


def keep_screenshot(page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{''.join(c if c.isalnum() else '-' for c in name)}.png")


@pytest.mark.parametrize("name", ["index.html", *PAPER_PAGES])
def test_a_page_opens_from_disk_without_a_complaint_or_a_request(window, name):
    opened = window(name)
    assert opened.page.title()
    assert opened.complaints == []
    assert opened.outside() == []


@pytest.mark.parametrize("name", PAPER_PAGES)
def test_a_page_shows_all_figures_of_its_notebook_with_alt_text(window, report, name):
    node = nbformat.read(report / "executed" / name.replace(".html", ".ipynb"), as_version=4)
    outputs = [output for cell in node.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    shown = window(name).page.evaluate("""() => Promise.all([...document.querySelectorAll("figure img")].map(
        image => image.decode().then(() => ({alt: image.alt, width: image.naturalWidth}))))""")
    assert [image["alt"] for image in shown] == [output.metadata["image/png"]["alt"] for output in pictures]
    assert all(image["width"] > 100 and len(image["alt"]) > 20 for image in shown)


def test_every_figure_id_of_a_page_is_an_anchor_that_the_index_leads_to(visit):
    page = visit("index.html").page
    links = page.locator(".thumbs a")
    assert links.count() > 20
    for number in (0, links.count() - 1):
        links.nth(number).click()
        target = page.locator(":target")
        playwright.expect(target).to_have_count(1)
        assert "exhibit" in target.get_attribute("class")
        playwright.expect(target).to_be_in_viewport(timeout=30_000)  # a busy machine takes its time to draw the page
        page.go_back()


def test_the_index_answers_first_for_every_paper(window):
    page = window("index.html").page
    assert page.locator("h2").first.inner_text() == "Does it hold up?"
    papers = {notebook.paper for notebook in discover(REPOSITORY)} - {START}
    assert page.locator(".answers dt").count() == len(papers)
    assert all(len(answer) > 40 for answer in page.locator(".answers dd").all_inner_texts())


def test_figures_that_show_the_same_curves_share_one_thumbnail(window):
    labels = window("index.html").page.locator("#paper-acfmo .thumbs b").all_inner_texts()
    assert "Fig. 1, Fig. 3, Fig. 4" in labels and "Fig. 5, Fig. 6, Fig. 7" in labels
    assert not {"Fig. 3", "Fig. 4", "Fig. 6", "Fig. 7"} & set(labels)


def test_filters_show_exactly_the_lines_they_name(visit):
    page = visit("index.html").page
    lines = page.locator("tr.entry")
    facts = lines.evaluate_all("rows => rows.map(row => ({...row.dataset}))")
    for key in ("paper", "kind", "verdict"):
        values = page.locator(f"#{key} option").evaluate_all("options => options.map(option => option.value)")
        assert len(values) > 2 and values[0] == ""
        for value in values[1:]:
            page.select_option(f"#{key}", value)
            wanted = [fact for fact in facts if fact[key] == value]
            assert wanted
            expect_lines(page, len(wanted))
            playwright.expect(page.locator("#shown")).to_have_text(f"{len(wanted)} of {len(facts)} shown")
        page.select_option(f"#{key}", "")
    page.select_option("#paper", facts[0]["paper"])
    page.select_option("#kind", "audit")
    expect_lines(page, sum(fact["paper"] == facts[0]["paper"] and fact["kind"] == "audit" for fact in facts))
    page.click("button[type=reset]")
    expect_lines(page, len(facts))


def expect_lines(page, number: int) -> None:
    """So many lines of the table are to be seen, at once or a moment later."""
    playwright.expect(page.locator("tr.entry:visible")).to_have_count(number)


def test_the_search_box_finds_all_words_and_says_when_nothing_matches(visit):
    page = visit("index.html").page
    searched = page.locator("tr.entry").evaluate_all("rows => rows.map(row => row.dataset.search)")
    page.fill("#search", "Accuracy FIG")
    found = sum("accuracy" in text and "fig" in text for text in searched)
    assert found
    expect_lines(page, found)
    assert not page.locator("#nothing").is_visible()
    page.fill("#search", "no such thing at all")
    expect_lines(page, 0)
    assert page.locator("#nothing").is_visible()


def test_the_picture_has_an_identity_line_and_follows_the_filters(visit):
    page = visit("index.html").page
    points = page.locator(".point").count()
    assert page.locator(".scatter .identity").count() == 1 and points > 0
    first = page.locator(".point").first.get_attribute("data-entry").split("-")[0]
    own = page.locator(f".point[data-entry^='{first}-']").count()
    page.select_option("#paper", first)
    assert own <= points
    playwright.expect(page.locator(".point:not([hidden])")).to_have_count(own)
    page.click("button[type=reset]")
    playwright.expect(page.locator(".point:not([hidden])")).to_have_count(points)
    point = page.locator(".point").first
    point.scroll_into_view_if_needed()  # first: pictures on the way load late, and the page moves
    point.click(force=True)
    playwright.expect(page.locator("tr.entry:target")).to_be_visible()


def test_a_count_leads_to_the_lines_it_counts(visit):
    page = visit("index.html").page
    count = page.locator(".card a.badge[data-kind=claim]").first
    number = int(count.inner_text().split()[1])
    count.click()
    expect_lines(page, number)
    assert page.input_value("#kind") == "claim" and page.input_value("#verdict") == count.get_attribute("data-verdict")


def test_a_link_to_a_line_shows_its_numbers_even_if_a_filter_hid_them(visit):
    page = visit("index.html").page
    line = page.locator("tr.entry:has(details)").first
    assert not line.locator("details").evaluate("fold => fold.open")
    page.fill("#search", "no such thing at all")
    page.evaluate("id => { location.hash = id; }", line.get_attribute("id"))
    playwright.expect(line).to_be_visible()
    playwright.expect(line.locator("table.cells")).to_be_visible()


def test_a_claim_has_a_drawing_of_its_comparisons_that_reads_its_counts_aloud(visit):
    page = visit("index.html").page
    drawing = page.locator("tr.entry[data-kind=claim] svg.forest").first
    playwright.expect(drawing).to_be_visible()
    assert re.search(r"(\d+ (hold|holds|reversed|undecided|not \w+), )+of \d+", drawing.get_attribute("aria-label"))
    filled, hollow = (
        page.locator(f"svg.forest .{outcome} circle").first.evaluate("mark => getComputedStyle(mark).fill")
        for outcome in ("holds", "undecided")
    )
    assert filled != hollow


@pytest.mark.parametrize("name", PAPER_PAGES)
def test_the_code_toggle_opens_and_closes_all_code(window, name):
    page = window(name).page
    code, toggle = page.locator("details.code > .highlight"), page.locator("#toggle-code")
    assert code.count() > 2 and page.locator("details.code > .highlight:visible").count() == 0
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "true"
    assert page.locator("details.code > .highlight:visible").count() == code.count()
    toggle.click()
    assert page.locator("details.code > .highlight:visible").count() == 0


@pytest.mark.parametrize("name", ["index.html", *PAPER_PAGES])
def test_a_phone_scrolls_down_only(visit, name):
    page = visit(name, viewport=PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("name", ["index.html", PAPER_PAGES[-1]])
def test_dark_and_light_have_enough_contrast(visit, name):
    for scheme, dark in (("light", False), ("dark", True)):
        page = visit(name, color_scheme=scheme).page
        ink, paper = page.evaluate("""() => ["color", "backgroundColor"].map(key =>
            getComputedStyle(document.documentElement)[key].match(/\\d+/g).slice(0, 3).map(Number))""")
        light, shade = sorted([luminance(ink), luminance(paper)], reverse=True)
        assert (luminance(ink) > luminance(paper)) == dark
        assert (light + 0.05) / (shade + 0.05) > 7


def luminance(colour: list[int]) -> float:
    """Relative luminance as WCAG defines it."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_keyboard_reaches_the_results_and_filters_them(visit):
    page = visit("index.html").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").evaluate("link => link.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("audit")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.input_value("#paper") != ""
    assert 0 < page.locator("tr.entry:visible").count() < page.locator("tr.entry").count()


def test_the_start_page_leads_to_the_papers_and_back(visit, report):
    page = visit("index.html").page
    page.click(f"#paper-{START} a")
    assert page.url.endswith("start-here.html")
    page.wait_for_load_state()  # `evaluate_all` takes what is there and does not wait
    hrefs = page.locator("main table a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert hrefs and all((report / href).exists() for href in hrefs)
    page.locator("main table a").first.click()
    page.click("text=All results")
    assert page.url.endswith("index.html")


@pytest.mark.parametrize("name", ["index.html", "student/index.html", *COURSE_PAGES])
def test_a_page_of_the_course_opens_from_disk_on_a_phone_without_a_complaint_or_a_request(chromium, course, name):
    opened = open_page(chromium, course, name, viewport=PHONE)
    shown = opened.page.evaluate("""() => Promise.all([...document.querySelectorAll("img")].map(
        image => image.decode().then(() => ({alt: image.alt, width: image.naturalWidth}))))""")
    assert shown and all(image["width"] > 100 and len(image["alt"]) > 20 for image in shown)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.complaints == [] and opened.outside() == []
    close(opened, f"course-{name}")


def test_the_page_of_a_lesson_has_a_picture_where_the_notebook_has_sliders(chromium, course):
    opened = open_page(chromium, course, COURSE_PAGES[0])
    still = opened.page.locator("figure img[alt*='ten clients with Dirichlet mixtures at alpha 1']")
    assert still.is_visible()
    assert opened.page.locator("text=VBox(").count() == 0
    close(opened, "course-static")


def test_solutions_wait_until_the_instructor_asks_for_them(chromium, course):
    opened = open_page(chromium, course, COURSE_PAGES[0].replace("student", "instructor"))
    solutions = opened.page.locator("details.solution")
    assert solutions.count() >= 5 and solutions.locator(".highlight:visible").count() == 0
    solutions.first.locator("summary").click()
    assert "counts / counts.sum(" in solutions.first.locator(".highlight").inner_text()
    close(opened, "course-solutions")


@pytest.fixture(scope="module")
def lab(tmp_path_factory, course) -> Iterator[Callable[[str], str]]:
    """JupyterLab on copies of the notebooks with sliders (of FCBAFL's energy notebook only these) and of a lesson, with
    settings of its own; `lab(name)` is an address."""
    folder, home = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("jupyter")
    for notebook in (START_NOTEBOOK, TIME_NOTEBOOK, course / "instructor" / LESSON_NOTEBOOK.name):
        nbformat.write(without_outputs(notebook), folder / notebook.name)
    nbformat.write(only_sliders(ENERGY_NOTEBOOK), folder / ENERGY_NOTEBOOK.name)
    news = home / "lab" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    places = {f"JUPYTER_{kind}_DIR": str(home) for kind in ("CONFIG", "DATA", "RUNTIME")}
    places |= {f"JUPYTERLAB_{kind}_DIR": str(home / "lab") for kind in ("SETTINGS", "WORKSPACES")}
    places["IPYTHONDIR"] = str(home)
    places |= {"FEDLIB_RUNS": os.environ.get("FEDLIB_RUNS", str(home / "runs")), "FEDLIB_REPORT": str(home / "report")}
    token, port = secrets.token_hex(16), free_port()
    options = [f"--IdentityProvider.token={token}", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    flags = ["--no-browser", "--allow-root", "--expose-app-in-browser"]
    command = [sys.executable, "-m", "jupyterlab", *flags, *options, str(folder)]
    with open(home / "lab.log", "w") as log:
        server = subprocess.Popen(command, env=os.environ | places, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/api/status?token={token}", server, home / "lab.log")
        yield lambda name: f"{address}/lab/workspaces/{name[:2]}/tree/{name}?token={token}"
    finally:
        server.send_signal(signal.SIGTERM)  # it stops its kernels
        server.wait(timeout=60)


def without_outputs(path: Path) -> nbformat.NotebookNode:
    node = nbformat.read(path, as_version=4)
    for cell in (cell for cell in node.cells if cell.cell_type == "code"):
        cell.outputs, cell.execution_count = [], None
    return node


def only_sliders(path: Path) -> nbformat.NotebookNode:
    """The cells with parameters, imports and sliders: what the sliders need, and nothing that takes long."""
    node = without_outputs(path)
    code = [cell for cell in node.cells if cell.cell_type == "code"]
    tagged = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    imports = [cell for cell in code if "import fedlib" in cell.source]
    node.cells = [*tagged, *imports, *(cell for cell in code if "_explorer(" in cell.source)]
    return node


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(address: str, server: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + LAB_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


# What a notebook that has run looks like to JupyterLab: every code cell has its number, and the kernel rests.
CELLS = "window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status"
FINISHED = f"{KERNEL} === 'idle' && {CELLS}.every(cell => cell.cell_type !== 'code' || cell.execution_count)"


@contextlib.contextmanager
def notebook_that_has_run(chromium, address: str, name: str):
    """The page of a notebook in JupyterLab, all cells run without an error, and its outputs."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(LAB_SECONDS * 1000)
    try:
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        page.wait_for_function(f"{KERNEL} === 'idle'")
        page.click(".lm-MenuBar-itemLabel:text-is('Run')")
        page.click(".lm-Menu-itemLabel:text-is('Run All Cells')")
        page.wait_for_function(FINISHED, polling=500)
        outputs = [output for cell in page.evaluate(CELLS) for output in cell.get("outputs", [])]
        assert not [output for output in outputs if output["output_type"] == "error"]
        yield page, outputs
    finally:
        keep_screenshot(page, f"jupyterlab-{name}")
        context.close()


@pytest.mark.parametrize(
    ("notebook", "words"),
    [(START_NOTEBOOK, "digits"), (LESSON_NOTEBOOK, "digits"), (TIME_NOTEBOOK, "TL/(M(L-1))")],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_jupyterlab_runs_a_notebook_and_its_sliders_answer(chromium, lab, notebook, words):
    with notebook_that_has_run(chromium, lab(notebook.name), notebook.stem) as (page, outputs):
        assert sum("image/png" in output.get("data", {}) for output in outputs) >= 3
        answer, _ = sliders_answer(page, words)
        changes_with_a_key(page, page.locator(".noUi-handle").first, answer)


def test_every_slider_of_the_energy_notebook_redraws_the_cell_and_names_who_is_late(chromium, lab):
    with notebook_that_has_run(chromium, lab(ENERGY_NOTEBOOK.name), ENERGY_NOTEBOOK.stem) as (page, _):
        answer, picture = sliders_answer(page, "All 100 devices meet the deadline")
        deadline, radius, devices, sigma = page.locator(".noUi-handle").all()
        for handle in (deadline, radius, devices, sigma):
            changes_with_a_key(page, handle, picture, attribute="src")
        playwright.expect(answer).to_contain_text("All 101 devices meet the deadline")
        changes_with_a_key(page, deadline, answer, key="Home")  # the shortest deadline: 20 s
        playwright.expect(answer).to_contain_text("The deadline cannot be met; late even with the whole band: devices")


def sliders_answer(page, words: str) -> tuple:
    """The sentence below the sliders, which has these words, and the picture below it."""
    page.locator(".noUi-handle").first.scroll_into_view_if_needed()
    answer, picture = page.locator(".widget-html-content").first, page.locator("img.widget-image").first
    playwright.expect(answer).to_contain_text(words, timeout=LAB_SECONDS * 1000)
    return answer, picture


def changes_with_a_key(page, handle, shown, key: str = "ArrowRight", attribute: str = "textContent") -> None:
    """A key pressed on a slider changes what is shown, its text or its source, and the picture below the sliders."""
    picture = page.locator("img.widget-image").first
    before = shown.evaluate(f"element => element.{attribute}"), picture.evaluate("image => image.src")
    handle.focus()
    page.keyboard.press(key)
    page.wait_for_function(
        f"([element, before]) => element.{attribute} !== before", arg=[shown.element_handle(), before[0]]
    )
    page.wait_for_function("([image, before]) => image.src !== before", arg=[picture.element_handle(), before[1]])
