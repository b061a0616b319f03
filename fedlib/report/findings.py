"""What was found of each paper, in a sentence, with the counts of its verdicts: for index, README and start page.

All are read from the outputs of notebooks. README and start page use the saved ones, which the tests compare with a
fresh execution, so their table cannot drift from the record.
"""

import base64
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

from fedlib.judging import ledger
from fedlib.report.notebooks import Notebook, cells, discover
from fedlib.report.verdicts import LOOKS, PLURALS

BEGIN, END = "<!-- findings: written by `python -m fedlib findings` -->", "<!-- end of findings -->"
COLUMNS = ("claim", "ours", "audit")  # what the paper claims, what only we ask, audits of what it says
FEATURED, PICTURE = "acfmo", "docs/finding.png"  # the paper whose picture README.md shows, and where it lies
ANSWERS = {"reproduced": "Mostly yes", "contradicted": "Mostly no", "undecided": "Neither"}
OPEN = "Not decided yet: its long runs are not on record, and its pages show the quick scale."


def marks(outputs: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """What fedlib noted beside each output, and the output as text."""
    texts = [(output.get("metadata", {}).get("fedlib", {}), output.get("data", {})) for output in outputs]
    return [(about, "".join(data.get("text/markdown", ""))) for about, data in texts if about]


def sentence(outputs: Iterable[dict[str, Any]]) -> str:
    """The findings among outputs, the one that leads before the others; "" where none was said."""
    told = [(not about.get("leads"), text) for about, text in marks(outputs) if about.get("role") == "finding"]
    return " ".join(text for _, text in sorted(told, key=itemgetter(0)))


def in_a_word(verdicts: Counter[str]) -> str:
    """The answer that most of a paper's judged claims give; "" where none is judged.

    >>> in_a_word(Counter({"reproduced": 7, "contradicted": 1, "not judged at this scale": 16}))
    'Mostly yes, where judged'
    """
    judged = verdicts["reproduced"] + verdicts["contradicted"] + verdicts["undecided"]
    if not judged:
        return ""
    most = next((word for word in ANSWERS if 2 * verdicts[word] > judged), "undecided")
    return ANSWERS[most] + (", where judged" if verdicts[ledger.NOT_JUDGED] > judged else "")


def picture(root: Path, paper: str) -> tuple[bytes, str]:
    """The picture of a paper's finding as its notebooks show it, and the lines that embed it in README.md."""
    outputs = [output for notebook in _by_paper(root)[paper] for output in _saved(notebook)]
    (output,) = (
        output for output in outputs if output.get("metadata", {}).get("fedlib", {}).get("role") == "finding picture"
    )
    alt, caption = output["metadata"]["image/png"]["alt"], output["metadata"]["fedlib"]["caption"]
    image = base64.b64decode("".join(output["data"]["image/png"]))
    return image, f"![{alt}]({PICTURE})\n\n*{caption}*"


def table(root: Path, decided: Iterable[str], folder: str = ".") -> str:
    """One row per paper: what was found, how often claims, our own questions and audits got each verdict, a link.

    Audits that ask what the paper does not say are among our questions.

    The table is for a file in this folder of the workbook. Beside the notebooks, whose pages lead from one to the next,
    it links to the first of a paper; elsewhere to their folder.
    """
    papers = _by_paper(root)
    rows = [
        "| paper | does it hold up? | its claims | our questions | audits of what it says |",
        "|---|---|---|---|---|",
    ]
    rows += [_row(root / folder, paper, papers[paper], paper in decided) for paper in papers]
    done = sum(paper in decided for paper in papers)
    begun = f"{done} of {len(papers)} papers are decided so far.\n\n" if done < len(papers) else ""
    return begun + "\n".join(rows)


def _by_paper(root: Path) -> dict[str, list[Notebook]]:
    papers: dict[str, list[Notebook]] = {}
    for notebook in discover(root):
        if notebook.paper in ledger.papers():
            papers.setdefault(notebook.paper, []).append(notebook)
    return papers


def _saved(notebook: Notebook) -> list[dict[str, Any]]:
    """The outputs of a notebook as it is saved."""
    return [output for cell in cells(notebook.path) for output in cell.get("outputs", [])]


def _row(folder: Path, paper: str, notebooks: list[Notebook], decided: bool) -> str:
    saved = [output for notebook in notebooks for output in _saved(notebook)]
    first = notebooks[0].path
    target = first if folder == first.parent.parent else first.parent
    link = f"[{ledger.known_as(paper)}]({target.relative_to(folder).as_posix()})"
    if not decided:
        return f"| {link} | {OPEN} | | | |"
    verdicts = {about["id"]: about["verdict"] for about, _ in marks(saved) if about.get("role") == "verdict"}
    columns = {entry.id: column_of(entry.kind, entry.ours) for entry in ledger.load(paper).entries}
    counts = [Counter(verdict for id, verdict in verdicts.items() if columns[id] == column) for column in COLUMNS]
    told = [", ".join(_counted(verdict, count[verdict]) for verdict in LOOKS if count[verdict]) for count in counts]
    return f"| {link} | **{in_a_word(counts[0])}.** {' '.join(sentence(saved).split())} | {' | '.join(told)} |"


def column_of(kind: str, ours: bool) -> str:
    """Where the table counts an entry of this kind: claims and audits apart from those that only we ask."""
    return "ours" if ours and kind in COLUMNS else kind


def _counted(verdict: str, count: int) -> str:
    return f"{count} {verdict if count == 1 else PLURALS.get(verdict, verdict)}"


def replaced(text: str, new: str) -> str:
    """The text with its table of findings replaced; a ValueError where the two marks are missing."""
    if BEGIN not in text or END not in text:
        raise ValueError(f"the place of the findings is not marked: it stands between {BEGIN!r} and {END!r}")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{new}\n{END}{rest.partition(END)[2]}"
