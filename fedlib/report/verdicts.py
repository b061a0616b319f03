"""How a verdict looks: a sign and a word, never colour alone."""

import json
from html import escape
from pathlib import Path
from typing import Any

# verdict: (colour name in base.css, sign, meaning for readers of the index)
LOOKS = {
    "matches": ("good", "✓", "The printed number lies within tolerance and spread of ours."),
    "reproduced": ("good", "✓", "What is printed came out, within tolerance and spread over seeds."),
    "better than printed": ("over", "▲", "Every number came out as printed or better."),
    "partly": ("part", "◐", "Some numbers or comparisons came out as printed, others did not."),
    "worse than printed": ("bad", "▼", "Ours falls short of the printed number."),
    "not reproduced": ("bad", "✗", "It did not come out here."),
    "regenerated": ("calm", "●", "Drawn from our runs; the paper prints no numbers to compare with."),
    "redrawn": ("calm", "✎", "A diagram, drawn anew."),
    "holds": ("good", "✓", "The paper's own arithmetic agrees."),
    "does not hold": ("bad", "✗", "The paper's own numbers or formulas contradict each other."),
    "not tested": ("calm", "–", "No run at this scale decides it; the note says why."),
}


def badge(verdict: str) -> str:
    """The verdict as inline HTML."""
    colour, sign, meaning = LOOKS.get(verdict, ("calm", "?", ""))
    words = f'<span aria-hidden="true">{sign}</span> {escape(verdict)}'
    return f'<span class="badge {colour}" title="{escape(meaning)}">{words}</span>'


def entries(folder: Path) -> list[dict[str, Any]]:
    """The lines of a report folder's ledger, none before it is written."""
    file = folder / "ledger.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
