"""Prose never states a measured result by hand: runs decide results, and `show.say` writes their numbers into the page.

How a sentence is judged. Equations, code, tables and the paragraphs that say where a page comes from and how long it
takes are left out, and so are the phrases of `SET_UP`. What is left states a result where it matches a pattern of
`NUMBERS` or `OUTCOMES`. Two marks, natural in prose, allow it: a sentence that quotes ("the paper prints ...") and does
not speak of our runs may give numbers and outcomes; one that asks, compares or sets a condition may name outcomes. The
text that a notebook gives to `show.say` is prose, too, but for its fields: a sentence with a field may name outcomes.
"""

import ast
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from string import Formatter

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from fedlib.judging import ledger
from fedlib.report.notebooks import discover

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = [notebook.path for notebook in discover(ROOT) if notebook.path.parent.name != "course"]

COUNT = (
    r"(?:\d[\d.,/]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty"
    r"|hundred|thousand|a million|a dozen|several|a few)"
)
PART = r"(?:half|third|quarter|fifth|tenth|twentieth|hundredth|thousandth|millionth)"
SIZE = r"(?:as|the|those|more|less|fewer|further|faster|slower|larger|smaller|longer|shorter|higher|lower|below|above)"
CASES = r"(?:claims|comparisons|columns|rows|cells|cases|environments|problems|seeds|runs|methods|factories|levels)"
UNIT = r"(?:ms|s|(?:milli|micro)?seconds?|minutes?|(?:core-)?hours?)"
NUMBERS = {
    "percentage": rf"\b{COUNT} ?%(?! (?:confidence|interval))|\b(?:{COUNT}|half a) percent\b",
    "points of accuracy": rf"\b(?:{COUNT}|half a|{PART}s? of a|fraction of a|by a)(?: percentage)? points?\b",
    "spread": r"± ?\d",
    "ratio": rf"\b{COUNT} times {SIZE}\b|\b(?:twice|half) (?:as|the)\b",
    "factor": rf"\bfactors? of (?:about )?{COUNT}|orders? of magnitude",
    "fraction": rf"\b(?:about|almost|nearly|roughly|more than|less than|over|by|some) (?:a|an|{COUNT}) {PART}s?\b",
    "count": rf"\b{COUNT} (?:out )?of (?:the |all )*{COUNT}(?: \w+)? {CASES}\b",
    "duration": rf"\b(?:{COUNT}|fraction of a|below a) {UNIT}\b|\bin milliseconds\b",
}
OUTCOMES = {
    "race": r"\b(?:draws? away|overtak\w+|catches up|lags? behind|(?:is|are|far) ahead|leads(?! to)|beats?|wins?)\b",
    "end": r"\bends? (?:\w+ )?(?:above|below|higher|lower|closer|up)\b|\bout of reach\b",
    "verdict": r"\b(?:claims?|orders?|argument) (?:does not )?(?:comes? out|holds?)\b|\b(?:do|does) not come out\b",
    "history": r"\b(?:earlier edition|loops were compiled|saved with this page)\b",
}
QUOTES = r"\bprint(?:s|ed)?\b|\bthe (?:paper|text) [a-z]+s\b"
OF_OURS = r"\b(?:ours?|here|this scale|we (?:find|get|measure|see)|measured)\b"
ASKS = r"\?|\b(?:if|whether|when|where|unless|look|compare|expect|should|would|could|can|may|might|must|shall)\b"
PREAMBLE = ("**Paper.**", "**Regenerates**", "**Time.**")
FIELD = "…"  # stands for what `show.say` fills in
SET_UP = {  # phrase: why it is no result
    "one percent participation": "the setting of ACFMO's third notebook, in its title",
    "four times the samples": "what an exercise sets",
}


def prose(node: nbformat.NotebookNode) -> Iterator[str]:
    """The text of the markdown cells, and of what code cells give to `show.say`."""
    for cell in node.cells:
        if cell.cell_type == "markdown":
            yield cell.source
        elif cell.cell_type == "code" and re.search(r"show\.(?:say|answer|finding)", cell.source):
            yield from (re.sub(r"\{[^{}]*\}", FIELD, text) for text in said(cell.source))


def said(source: str) -> Iterator[str]:
    """The strings in calls of `show.say` and its kin."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("show.say", "show.answer", "show.finding"):
            strings = (part.value for part in ast.walk(call) if isinstance(part, ast.Constant))
            yield from (cleandoc(text) for text in strings if isinstance(text, str))


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text in Markdown; equations and code become a dash, tables and the preamble are left out."""
    text = re.sub(r"\$\$.+?\$\$|\$[^$]+\$|`[^`]+`", "–", text, flags=re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d\.) )", text):
        if not paragraph.strip().startswith(PREAMBLE):
            flat = re.sub(r"[*_]", "", " ".join(paragraph.split()))
            yield from re.split(r"(?<=[.?!])(?<!Eq\.)(?<!Eqs\.)\)? +(?=[A-Z(\"])", flat)


def states(sentence: str) -> str | None:
    """What kind of result the sentence states, or None."""
    for phrase in SET_UP:
        sentence = sentence.replace(phrase, "–")
    quoted = has(QUOTES, sentence) and not has(OF_OURS, sentence)
    asked = FIELD in sentence or has(ASKS, sentence)
    patterns = ({} if quoted else NUMBERS) | ({} if quoted or asked else OUTCOMES)
    return next((kind for kind, pattern in patterns.items() if has(pattern, sentence)), None)


def has(pattern: str, sentence: str) -> bool:
    return re.search(pattern, sentence, re.IGNORECASE) is not None


def typed_results(node: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """(kind, sentence) of each result that is typed into a notebook's prose."""
    found = [(states(sentence), sentence) for text in prose(node) for sentence in sentences(text)]
    return [(kind, sentence) for kind, sentence in found if kind]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
class TestNotebook:
    def test_no_result_is_typed_into_prose(self, path):
        assert typed_results(nbformat.read(path, 4)) == []

    def test_fields_name_facts_of_entries_on_this_page(self, path):
        cells = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        fields = [field for source in cells for text in said(source) for _, field, *_ in Formatter().parse(text)]
        for id, fact, *_ in (field.split(".") for field in fields if field and "/" in field):
            entry = ledger.load(id.split("/")[0]).entry(id)
            assert (path.parent.name, path.stem[3:]) == (id.split("/")[0], entry.page)
            assert fact.split("[")[0] in ledger.judge(entry, Path("nowhere"))

    def test_time_is_told_in_one_line(self, path):
        opening = nbformat.read(path, 4).cells[0].source
        (told,) = [text for text in re.split(r"\n\s*\n", opening) if text.startswith("**Time.**")]
        assert len(told) <= 125 and "\n" not in told.strip()


def test_every_phrase_that_is_allowed_is_in_use():
    pages = [sentence for path in NOTEBOOKS for text in prose(nbformat.read(path, 4)) for sentence in sentences(text)]
    assert len(SET_UP) < 20
    assert [phrase for phrase in SET_UP if not any(phrase in sentence for sentence in pages)] == []


TYPED = [
    "FedGS ends {} points above FedAvg.",
    "On this problem FedAvg takes {} times as long.",
    "Of all devices {}% are late.",
    "The accuracy at the end is 0 ± {}.",
    "Of the paper, {} of 16 claims hold.",
    "A selection takes {} ms on one core.",
    "Ours are {} times the printed ones.",
    "Compare the two: where the data are skewed, the gap is {} percentage points.",
]


def toy(*cells: nbformat.NotebookNode) -> nbformat.NotebookNode:
    return new_notebook(cells=list(cells))


@given(st.sampled_from(TYPED), st.one_of(st.integers(2, 99), st.floats(0.1, 99).map(lambda x: round(x, 1))))
def test_a_typed_result_is_found_and_a_computed_one_is_not(sentence, number):
    typed = sentence.format(number)
    assert typed_results(toy(new_markdown_cell(f"We ran it.\n\n{typed}")))
    assert typed_results(toy(new_code_cell(f"show.say({typed!r})")))
    assert not typed_results(toy(new_code_cell(f"show.say({sentence.format('{value:.1f}')!r}, value={number})")))


@pytest.mark.parametrize(
    "sentence",
    [
        "Random sampling takes twice as long.",
        "That closes about a third of the gap.",
        "It comes out in three of the four environments.",
        "The estimate is off by two orders of magnitude.",
        "The gain is half a point.",
        "FedGS draws away from FedAvg in the first rounds.",
        "Only CGAU is ahead of it for a while.",
        "The best swap ends much closer to the optimum.",
        "It took an hour before the loops were compiled.",
    ],
)
def test_results_in_words_are_found(sentence):
    assert typed_results(toy(new_markdown_cell(sentence)))


@pytest.mark.parametrize(
    "text",
    [
        "Each round 100 of 350 devices train for five epochs with batches of 20.",
        "The paper prints 82.1% for FedAvg and 3.5 points more for FedGS.",
        "The lag costs a factor of $2(1+\\beta)/(1-\\beta) = 38$, and `97%` is code.",
        "| method | accuracy |\n|---|---|\n| FedAvg | 82.1 ± 0.3% |",
        "**Time.** About 20 seconds on two cores; `scale=desk` overnight.",
        "Look at the order, not at the gap: does FedGS end above FedAvg?",
        "If HierFAVG lags behind, think of momentum.",
        "Intervals have 95% confidence.",
    ],
)
def test_set_up_print_and_questions_are_no_results(text):
    assert typed_results(toy(new_markdown_cell(text))) == []
