"""`index.html`: what every paper printed, what we measured, and the verdict, with links into the pages.

Made from the report folder: `ledger.json`, the executed notebooks (which page shows what) and `figures/`. It is a
single file: thumbnails are embedded, the picture is inline SVG, filters are a few lines of script.
"""

import base64
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import nbformat
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from PIL import Image

from fedlib.data.files import write_text
from fedlib.judging import ledger
from fedlib.report import comparisons, findings, provenance, scatter, verdicts
from fedlib.report.html import TEMPLATES, exhibits, inline
from fedlib.report.notebooks import COURSE, START, title

JUDGED = {
    "claim": ("reproduced", "contradicted", "undecided", ledger.NOT_JUDGED),
    "audit": ("holds", "does not hold"),
}
OURS = "our question"  # a claim or an audit that the paper does not make: counted apart
THUMBNAIL = (480, 320)


@dataclass(frozen=True)
class Page:
    """One notebook's page and the ids that can be found on it."""

    file: str
    title: str
    about: dict[str, Any]
    shows: set[str]
    findings: list[dict[str, Any]]  # the outputs that say what was found


def write(folder: Path) -> Path:
    """Build the index of a report folder."""
    entries = verdicts.entries(folder)
    executed = [_page(file) for file in (folder / "executed").glob("*.ipynb") if "source" in provenance.about(file)]
    pages = sorted(executed, key=lambda page: page.about["source"])
    names = dict.fromkeys([entry["paper"] for entry in entries] + [page.about["paper"] for page in pages])
    names.pop(START, None)
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True)
    environment.filters["known_as"] = {name: ledger.known_as(name) for name in names}.__getitem__
    markup = environment.get_template("overview.html.j2").render(
        course=(folder.parent / COURSE / "index.html").exists(),
        start=[page for page in pages if page.about["paper"] == START],
        papers=[_card(folder, number, name, entries, pages) for number, name in enumerate(names)],
        entries=[_row(folder, entry, pages) for entry in entries],
        totals=_totals(entries, pages),
        glance=_glance(entries),
        scatter=Markup(scatter.svg(entries)),
        about=pages[-1].about if pages else {},
        scales=_scales(pages),
        looks=verdicts.LOOKS,
        plurals=verdicts.PLURALS,
        badge=lambda verdict: Markup(verdicts.badge(verdict)),
        style=Markup(inline("base.css", "overview.css")),
        script=Markup(inline("overview.js")),
    )
    path = folder / "index.html"
    write_text(path, markup)
    return path


def _scales(pages: list[Page]) -> dict[str, str]:
    """The papers of each scale, {"desk": "FCBAFL", "quick": "ACFMO, FedSR"}; a single scale needs no names."""
    papers: dict[str, list[str]] = {}
    for page in pages:
        if page.about.get("scale") and page.about["paper"] != START:
            papers.setdefault(page.about["scale"], []).append(ledger.known_as(page.about["paper"]))
    return {scale: ", ".join(dict.fromkeys(names)) if len(papers) > 1 else "" for scale, names in papers.items()}


def _page(executed: Path) -> Page:
    notebook = nbformat.read(executed, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    marks = [output.get("metadata", {}).get("fedlib", {}) for output in outputs]
    judged = {mark["id"] for mark in marks if mark.get("role") == "verdict"}
    told = [output for output, mark in zip(outputs, marks, strict=True) if mark.get("role") == "finding"]
    about = notebook.metadata.get("fedlib", {})
    return Page(f"{executed.stem}.html", title(notebook.cells), about, exhibits(notebook) | judged, told)


def _link(id: str, pages: list[Page]) -> str | None:
    return next((f"{page.file}#{id.replace('/', '-')}" for page in pages if id in page.shows), None)


def _card(folder: Path, number: int, name: str, entries: list[dict[str, Any]], pages: list[Page]) -> dict[str, Any]:
    of_paper = [entry for entry in entries if entry["paper"] == name]
    drawn = [entry for entry in of_paper if entry["kind"] in ledger.DRAWN]
    facts = ledger.load(name) if name in ledger.papers() else None
    of_pages = [page for page in pages if page.about.get("paper") == name]
    shown = _folded([entry for entry in drawn if _link(entry["id"], pages)], facts)
    return {
        "name": name,
        "facts": facts,
        "marker": Markup(_marker(number)),
        "pages": of_pages,
        "finding": Markup(markdown2html_mistune(_finding(of_pages, of_paper))),
        "drawn": len(drawn),
        "regenerated": sum(_link(entry["id"], pages) is not None for entry in drawn),
        "compared": _counts(entry["verdict"] for entry in drawn if entry["cells"]),
        "claims": _counts(entry["verdict"] for entry in of_paper if _group(entry) == "claim"),
        "audits": _counts(entry["verdict"] for entry in of_paper if _group(entry) == "audit"),
        "questions": _counts(entry["verdict"] for entry in of_paper if _group(entry) == OURS),
        "exhibits": [_exhibit(folder, alike, pages) for alike in shown],
    }


def _group(entry: dict[str, Any]) -> str:
    """What an entry is counted as: its kind, or a question of ours."""
    column = findings.column_of(entry["kind"], entry["ours"])
    return OURS if column == "ours" else column


def _finding(pages: list[Page], entries: list[dict[str, Any]]) -> str:
    """What the pages of a paper say was found; at quick scale, that nothing is decided yet."""
    if any(page.about.get("scale") == "quick" for page in pages):
        return findings.OPEN
    told = findings.sentence(output for page in pages for output in page.findings)
    word = findings.in_a_word(Counter(entry["verdict"] for entry in entries if _group(entry) == "claim"))
    return f"**{word}.** {told}" if word and told else told


def _folded(drawn: list[dict[str, Any]], facts: ledger.Paper | None) -> list[list[dict[str, Any]]]:
    """Figures and tables in their order, those that show the same together."""
    like = {entry.id: entry.like for entry in facts.entries if entry.like} if facts else {}
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in drawn:
        id = str(entry["id"])
        groups.setdefault(like.get(id, id), []).append(entry)
    return list(groups.values())


def _marker(series: int) -> str:
    drawn = scatter.shape(series, 8, 8, 5)
    return f'<svg class="marker series-{series}" viewBox="0 0 16 16" aria-hidden="true">{drawn}</svg>'


def _counts(listed: Iterable[str]) -> list[tuple[str, int]]:
    """How often each verdict occurs, best first."""
    counter = Counter(listed)
    return [(verdict, counter[verdict]) for verdict in verdicts.LOOKS if counter[verdict]]


def _exhibit(folder: Path, alike: list[dict[str, Any]], pages: list[Page]) -> dict[str, Any]:
    """A figure or table, with the numbers of those that show the same in its label."""
    entry = alike[0]
    picture = folder / "figures" / f"{entry['id'].replace('/', '-')}.png"
    return {
        "href": _link(entry["id"], pages),
        "label": ", ".join(ledger.label(entry["id"]) for entry in alike),
        "statement": entry["statement"],
        "picture": small(picture.read_bytes()) if picture.exists() else None,
    }


def small(picture: bytes) -> str:
    """A picture of a few kilobytes, embedded in the page."""
    with Image.open(io.BytesIO(picture)) as image:
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
    flat.thumbnail(THUMBNAIL)
    small = io.BytesIO()
    flat.save(small, "WEBP", quality=70)
    return "data:image/webp;base64," + base64.b64encode(small.getvalue()).decode()


def _row(folder: Path, entry: dict[str, Any], pages: list[Page]) -> dict[str, Any]:
    slug, label = entry["id"].replace("/", "-"), ledger.label(entry["id"])
    searched = [entry[key] for key in ("id", "statement", "note", "verdict", "kind")]
    searched += [label, *(part["label"] for part in entry["cells"] + entry["comparisons"])]
    compared, apart = verdicts.cells(entry), verdicts.cells(entry, (ledger.NOT_COMPARABLE, ledger.NOT_RUN))
    return entry | {
        "group": _group(entry),
        "slug": slug,
        "label": label,
        "href": _link(entry["id"], pages),
        "csv": f"data/{slug}.csv" if (folder / "data" / f"{slug}.csv").exists() else None,
        "columns": list((apart if compared.empty else compared).columns),
        "compared": compared.reset_index().to_numpy().tolist(),
        "apart": apart.reset_index().to_numpy().tolist(),
        "reported": verdicts.number(entry["reported"]),
        "measured": verdicts.measured(entry) if entry["comparisons"] else verdicts.number(entry["measured"]),
        "rule": verdicts.QUANTIFIED.get(entry["quantifier"], ""),
        "counted": verdicts.counted(entry["counts"]) if entry["cells"] else "",
        "weighed": verdicts.weighed(entry) if entry["kind"] == "claim" else "",
        "forest": Markup(comparisons.svg(entry)),
        "lacking": verdicts.lacking(entry),
        "quiet": verdicts.quiet(entry),
        "remark": verdicts.remark(entry),
        "otherwise": ledger.otherwise(entry["readings"]),
        "search": " ".join(searched).lower(),
    }


def _glance(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """How often the papers' claims and the audits of what they say got each verdict: columns (kind, verdict), and their
    counts by paper and in total."""
    counter = Counter((entry["paper"], _group(entry), entry["verdict"]) for entry in entries)
    columns = [(kind, verdict) for kind in JUDGED for verdict in JUDGED[kind]]
    columns += [("audit", ledger.NOT_RUN)] if any(key[1:] == ("audit", ledger.NOT_RUN) for key in counter) else []
    papers = dict.fromkeys(entry["paper"] for entry in entries if entry["kind"] in JUDGED)
    rows = {paper: [counter[paper, kind, verdict] for kind, verdict in columns] for paper in papers}
    return {"columns": columns, "rows": rows, "total": [sum(counts) for counts in zip(*rows.values(), strict=True)]}


def _totals(entries: list[dict[str, Any]], pages: list[Page]) -> dict[str, Any]:
    drawn = [entry for entry in entries if entry["kind"] in ledger.DRAWN]
    ours = [entry for entry in drawn if entry["ours"] or ledger.in_print(entry["id"]) is None]
    places: dict[tuple, list[str | None]] = {}
    for entry in drawn:
        if entry not in ours:
            places.setdefault((entry["paper"], ledger.in_print(entry["id"])), []).append(_link(entry["id"], pages))
    return {
        "printed": len(places),
        "regenerated": sum(any(links) for links in places.values()),
        "added": sum(_link(entry["id"], pages) is not None for entry in ours),
        "kinds": sorted({_group(entry) for entry in entries}),
        "verdicts": [verdict for verdict, _ in _counts(entry["verdict"] for entry in entries)],
        "failed": [page for page in pages if page.about.get("error")],
    }
