"""An executed notebook as one HTML page that opens from disk: code folded, contents list, figures with text and data.

nbconvert walks the cells, `templates/page/index.html.j2` says how each looks. Nothing is loaded from the network: style
and script are inlined, formulas become MathML (`maths`), pictures are embedded.
"""

import base64
import html
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import TemplateExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from PIL import Image
from traitlets import default
from traitlets.config import Config

from fedlib.data.files import write_text
from fedlib.judging import ledger
from fedlib.report.execute import PAPERMILL_MARK
from fedlib.report.maths import mathml
from fedlib.report.notebooks import Notebook, title
from fedlib.report.verdicts import LOOKS, badge, entries

TEMPLATES = Path(__file__).parent / "templates"
RICHEST_FIRST = ["text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/latex", "text/plain"]
# pandas puts the index's name into a row of its own; if the corner above it is empty, the name is moved there
INDEX_NAME_ROW = (
    r"<tr([^>]*)>\s*<th></th>((?:(?!</tr>).)*)</tr>\s*<tr>\s*<th>([^<]+)</th>(?:\s*<th></th>)*\s*</tr>\s*</thead>"
)
PageOf = Callable[[str], str | None]
PROGRESS = "application/vnd.jupyter.widget-view+json"


@dataclass
class Contents:
    """Headings in order of appearance, each with an id that no other heading of the page has."""

    entries: list[dict[str, Any]] = field(default_factory=list)

    def add(self, text: str, level: int) -> str:
        plain = html.unescape(re.sub(r"<[^>]+>", "", text)).strip()
        slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-") or "section"
        taken = {entry["id"] for entry in self.entries}
        name = next(n for n in (slug, *(f"{slug}-{i}" for i in range(2, 1000))) if n not in taken)
        self.entries.append({"id": name, "html": text, "text": plain, "level": level})
        return name


class Renderer(IPythonRenderer):
    """Markdown to HTML with MathML formulas, headings that the contents list can reach and links to other pages."""

    def __init__(self, contents: Contents, page_of: PageOf, **options: Any) -> None:
        super().__init__(escape=False, **options)
        self.contents = contents
        self.page_of = page_of

    def heading(self, text: str, level: int, **attributes: Any) -> str:
        return f'<h{level} id="{self.contents.add(text, level)}">{text}</h{level}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """A link to another notebook leads to its page, one to another file to the file; if there is none, only the
        text is left."""
        if "://" in url or url.startswith("#"):
            return super().link(text, url, title)
        page = self.page_of(url)
        return super().link(text, page, title) if page else text

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return mathml(body, display=True)

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)

    def table(self, text: str) -> str:
        return scrolling(f"<table>\n{text}</table>\n")


def embedded(png: str) -> str:
    """The picture as a data URL. Lossless WebP is half the size of PNG; a palette is smaller but alters colours."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        small = io.BytesIO()
        image.save(small, "WEBP", lossless=True)
    return "data:image/webp;base64," + base64.b64encode(small.getvalue()).decode()


def scrolling(table: str) -> str:
    """A wide table scrolls inside its own box, also by keyboard, so that the page itself never does."""
    return f'<div class="scroll" role="region" aria-label="Table" tabindex="0">{table}</div>'


class PageExporter(TemplateExporter):
    """nbconvert with our template and filters."""

    styles = ("base.css", "page/page.css")
    output_mimetype = "text/html"
    file_extension = ".html"

    @default("template_name")
    def _template_name_default(self) -> str:
        return "page"

    @default("extra_template_basedirs")
    def _extra_template_basedirs_default(self) -> list[str]:
        return [str(TEMPLATES)]

    @property
    def default_config(self) -> Config:
        return Config({"NbConvertBase": {"display_data_priority": RICHEST_FIRST}})

    def page(self, notebook: NotebookNode, page_of: PageOf, **resources: Any) -> str:
        contents = Contents()
        render = MarkdownWithMath(renderer=Renderer(contents, page_of)).render
        self.register_filter("markdown2html", render)
        self.register_filter("highlight_code", Highlight2HTML(pygments_lexer="ipython3", parent=self))
        self.register_filter("table2html", tidy_table)
        self.register_filter("badge", badge)
        self.register_filter("badges", badges)
        self.register_filter("embedded", embedded)
        inlined = {"style": inline(*self.styles), "script": inline("page/page.js")}
        # resources are copied on the way, so what fills while cells render is global to the template
        self.environment.globals.update(contents=contents.entries, anchored=[])
        return self.from_notebook_node(notebook, resources=resources | inlined)[0]


def inline(*names: str) -> str:
    """Style or script files, to stand inside the page itself."""
    return "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def badges(markup: str) -> str:
    """A verdict in bold with its sign (`verdicts.marked`) becomes a badge."""
    for verdict, (_, sign, _) in LOOKS.items():
        markup = markup.replace(f"<strong>{sign} {verdict}</strong>", badge(verdict))
    return markup


def tidy_table(markup: str, mark: dict[str, Any]) -> str:
    """A data frame in the page's own style. If the output has metadata (`mark`), verdicts become badges."""
    markup = re.sub(r"<style.*?</style>", "", markup, flags=re.DOTALL)
    markup = re.sub(r'<table[^>]*class="dataframe"[^>]*>', '<table class="dataframe">', markup)
    markup = re.sub(INDEX_NAME_ROW, r"<tr\1><th>\3</th>\2</tr></thead>", markup, flags=re.DOTALL)
    if mark:
        markup = re.sub(r"<td>([a-z ()]+)</td>", lambda m: f"<td>{badge(m[1])}</td>" if m[1] in LOOKS else m[0], markup)
    return scrolling(markup) if "<table" in markup else markup


def presentable(notebook: NotebookNode, root: Path) -> NotebookNode:
    """The notebook without progress bars, warnings, papermill's own marks and the machine's paths."""
    notebook.cells = [cell for cell in notebook.cells if PAPERMILL_MARK not in cell.metadata.get("tags", [])]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [_displayed(scrubbed(output, root)) for output in cell.outputs if _shows(output)]
    return notebook


def _displayed(output: NotebookNode) -> NotebookNode:
    """The value of a cell's last line looks like anything else that is displayed."""
    if output.output_type == "execute_result":
        output.output_type = "display_data"
        del output["execution_count"]
    return output


def _shows(output: NotebookNode) -> bool:
    return output.get("name") != "stderr" and PROGRESS not in output.get("data", {})


def scrubbed(value: Any, root: Path) -> Any:
    """The same output with the machine's folders replaced by short names."""
    if isinstance(value, dict):
        return NotebookNode({key: item if key == "image/png" else scrubbed(item, root) for key, item in value.items()})
    if isinstance(value, list):
        return [scrubbed(item, root) for item in value]
    if isinstance(value, str):
        for folder, name in _folders(root):
            value = value.replace(folder, name)
    return value


def _folders(root: Path) -> list[tuple[str, str]]:
    named = {str(root): ".", sys.prefix: "[python]", sys.base_prefix: "[python]"}
    named |= {tempfile.gettempdir(): "[temporary]", str(Path.home()): "~"}
    long_first = sorted(named.items(), key=lambda pair: -len(pair[0]))
    return [(folder + "/", name + "/") for folder, name in long_first if len(folder) > 4]


def exhibits(notebook: NotebookNode) -> set[str]:
    """Ids of the figures and tables that the notebook shows."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    marks = [output.get("metadata", {}).get("fedlib", {}) for output in outputs]
    return {mark["id"] for mark in marks if "id" in mark and "role" not in mark}


def page_of(link: str, source: str, executed: Path, root: Path) -> str | None:
    """Where a link of the notebook `source` leads on its page: to the page of a notebook that was executed for this
    report, or to another file of the repository."""
    link, *anchor = link.split("#", 1)
    file = root / os.path.normpath(Path(source).parent / link)
    if file.suffix != ".ipynb":
        place = Path(os.path.relpath(file, executed.parent)).as_posix()
        return "#".join([place, *anchor]) if file.exists() else None
    name = Notebook.of(file).slug
    return f"{name}.html" if (executed / f"{name}.ipynb").exists() else None


def write(executed: Path, folder: Path, root: Path) -> Path:
    """`folder/<paper>-<notebook>.html` from the executed notebook and the data files beside it."""
    notebook = presentable(nbformat.read(executed, as_version=4), root)
    about = notebook.metadata.get("fedlib", {})
    markup = PageExporter().page(
        notebook,
        page_of=lambda link: page_of(link, about.get("source", ""), executed.parent, root),
        title=title(notebook.cells),
        about=about,
        known_as=ledger.known_as(about.get("paper", "")),
        csv={path.stem for path in (folder / "data").glob("*.csv")},
        exhibits=exhibits(notebook),
        verdicts={entry["id"]: entry["verdict"] for entry in entries(folder)},
    )
    path = folder / f"{executed.stem}.html"
    write_text(path, markup)
    return path
