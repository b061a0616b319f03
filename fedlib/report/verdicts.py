"""How a verdict looks: a sign and a word, never colour alone."""

import json
from html import escape
from pathlib import Path
from typing import Any

# verdict: (colour name in base.css, sign, meaning for readers of the index)
LOOKS = {
    "reproduced": ("good", "✓", "It came out here, as often as the text says."),
    "contradicted": ("bad", "✗", "The opposite came out here, beyond chance."),
    "undecided": ("part", "○", "These runs do not decide it; the note says how many would."),
    "not judged at this scale": (
        "calm",
        "–",
        "The runs are too short, too small or too few for it; the note says why.",
    ),
    "matches": ("good", "=", "The printed number lies within the stated tolerance of ours."),
    "differs": ("bad", "≠", "Some printed numbers of it are not ours."),
    "differs (ours higher)": ("bad", "▲", "Ours is higher than the printed number, beyond chance."),
    "differs (ours lower)": ("bad", "▼", "Ours is lower than the printed number, beyond chance."),
    "not comparable": ("calm", "∥", "Measured in another setting than the printed number."),
    "holds": ("good", "✓", "The paper's own arithmetic agrees."),
    "does not hold": ("bad", "✗", "The paper's own numbers or formulas contradict each other."),
    "reversed": ("bad", "✗", "This comparison came out the other way, beyond chance."),
    "regenerated": ("calm", "●", "Drawn from our runs; the paper prints no numbers to compare with."),
    "redrawn": ("calm", "✎", "A diagram, drawn anew."),
    "not run": ("calm", "…", "Its numbers are not in this report."),
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
