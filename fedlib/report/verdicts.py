"""How a verdict looks and reads: a sign and a word, never colour alone, and the same in notebooks, pages and index.

`account` is the text of a line of the ledger in a notebook, as Markdown; `cells` is the table of printed numbers that
could be compared, `quiet` the one line about those that could not.
"""

import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from fedlib.judging import ledger
from fedlib.judging.facts import UNITS

# of the marks in pictures; as in base.css, and distinguishable for colour-blind readers
COLOURS = {"good": "#00694d", "bad": "#a8380a", "open": "#5a3fa0", "calm": "#44515e"}
# verdict: (name of its colour, sign, meaning for readers of the index)
LOOKS = {
    "reproduced": ("good", "✓", "Our runs confirm it, as often as the text says."),
    "contradicted": ("bad", "✗", "Our runs show the opposite, beyond chance."),
    "undecided": ("open", "○", "These runs do not decide it; the note says how many would."),
    "not judged at this scale": (
        "calm",
        "–",
        "The runs are too short, too small or too few to judge it; the needs say why.",
    ),
    "matches": ("good", "=", "The printed number lies within the stated tolerance of ours."),
    "within bound": (
        "calm",
        "≤",
        "Print gives a bound alone, and ours lies within it; how near print was, it does not say.",
    ),
    "differs": ("bad", "≠", "Some of its printed numbers differ from ours."),
    "differs (ours higher)": ("bad", "▲", "Ours is higher than the printed number, beyond chance."),
    "differs (ours lower)": ("bad", "▼", "Ours is lower than the printed number, beyond chance."),
    "not comparable": ("calm", "∥", "Measured in another setting, or there is nothing to compare."),
    "holds": (
        "good",
        "✓",
        "What is audited stands; for a comparison: it came out as claimed, beyond chance.",
    ),
    "does not hold": ("bad", "✗", "What is audited, mostly a sentence, number or formula of the paper, fails."),
    "reversed": ("bad", "✗", "This comparison came out the other way, beyond chance."),
    "regenerated": ("calm", "●", "Drawn from our runs; the paper prints no numbers to compare with."),
    "redrawn": ("calm", "✎", "A diagram, redrawn."),
    "not run": ("calm", "…", "Its numbers are not in this report."),
}
PLURALS = {"holds": "hold", "does not hold": "do not hold", "matches": "match", "differs": "differ"}
PLURALS |= {word: word.replace("differs", "differ") for word in (ledger.HIGHER, ledger.LOWER)}
QUANTIFIED = {"all": "all must hold", "most": "more than half must hold", "average": "the average decides"}


def badge(verdict: str) -> str:
    """The verdict as inline HTML."""
    colour, sign, meaning = LOOKS.get(verdict, ("calm", "?", ""))
    words = f'<span aria-hidden="true">{sign}</span> {escape(verdict)}'
    return f'<span class="badge {colour}" title="{escape(meaning)}">{words}</span>'


def marked(verdict: str) -> str:
    """The verdict as Markdown, which pages turn into a badge."""
    return f"**{LOOKS[verdict][1]} {verdict}**"


def entries(folder: Path) -> list[dict[str, Any]]:
    """The lines of a report folder's ledger, none before it is written."""
    file = folder / "ledger.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


# Numbers


def digits(value: float, interval: Sequence[float] | None = None) -> int:
    """Decimals that show two figures of an interval's half-width, or three of a value without one.

    Up to two more where an end of the interval would read as zero without being it.

    >>> digits(0.0123), digits(246.6, (245.5, 247.7)), digits(0.5, (0.499, 0.501)), digits(0.11, (0.003, 0.219))
    (4, 1, 4, 3)
    """
    half = (interval[1] - interval[0]) / 2 if interval else 0.0
    size, figures = (half, 2) if half > 0 else (abs(value), 3)
    places = max(0, figures - 1 - math.floor(math.log10(size))) if size > 0 else 0
    closest = min((abs(end) for end in interval or () if end), default=1.0)
    for _ in range(2):
        places += closest < 0.5 * 10**-places
    return min(6, places)


def number(value: Any) -> str:
    """A float with four figures; anything else as it is."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def effect(value: float | None, interval: Sequence[float] | None = None) -> str:
    """+0.012, with as many decimals as its interval justifies."""
    return "" if value is None else f"{value:+.{digits(value, interval)}f}"


def between(interval: Sequence[float] | None, value: float = 0.0) -> str:
    """0.002 to 0.022; empty if there is none. `value` is the value that the interval belongs to."""
    return f"{interval[0]:.{digits(value, interval)}f} to {interval[1]:.{digits(value, interval)}f}" if interval else ""


def measured(line: dict[str, Any]) -> str:
    """The counts of a claim: 12 hold, 1 reversed, of 13; marked if it is not judged."""
    return f"not judged, shown only: {line['measured']}" if line["verdict"] == ledger.NOT_JUDGED else line["measured"]


def weighed(line: dict[str, Any]) -> str:
    """The effect that decided a claim, in one sentence; empty if nothing was compared."""
    if line["effect"] is None:
        return ""
    near = any(row["near"] for row in line["comparisons"])  # the largest difference supports "near" least
    which = "Average effect" if line["averaged"] else "Largest difference" if near else "Smallest effect"
    quantity = f" on {line['quantity'].replace('_', ' ')}" if line["quantity"] else ""
    spread = f" ({between(line['interval'], line['effect'])})" if line["interval"] else ""
    over = f", {line['seeds']} {line['unit']}{'s' if line['seeds'] != 1 else ''}" if line["seeds"] else ""
    return f"{which}{quantity} {effect(line['effect'], line['interval'])}{spread}{over}."


def counted(counts: dict[str, int]) -> str:
    """3 match, 1 undecided, of 4."""
    told = [f"{n} {word if n == 1 else PLURALS.get(word, word)}" for word, n in counts.items() if n and word != "of"]
    return f"{', '.join(told)}, of {counts['of']}" if told else ""


# The text of a line


def account(line: dict[str, Any]) -> str:
    """What a page says about a line: its verdict and statement, the result, and what the run lacked."""
    if line["verdict"] == ledger.NOT_COMPARABLE and line["cells"]:
        return f"`{line['id']}`: {quiet(line)}"
    said = [f"{marked(line['verdict'])} `{line['id']}` {line['statement']}", " ".join(filter(None, _outcome(line)))]
    said += ["\n".join(f"- {lack}" for lack in lacking(line)), remark(line), other_readings(line)]
    said += [quiet(line) if line["cells"] else ""]
    return "\n\n".join(filter(None, said))


def _outcome(line: dict[str, Any]) -> list[str]:
    if line["kind"] == "claim":
        rule = f" ({QUANTIFIED[line['quantifier']]})" if line["quantifier"] in QUANTIFIED else ""
        counts = measured(line)
        return [f"{counts[0].upper()}{counts[1:]}{rule}." if line["comparisons"] else "", weighed(line)]
    if line["cells"]:
        tolerance = " ".join([number(line["tolerance"]), line["printed_in"]]).strip()
        within = f" within {tolerance} of print" if any(line["counts"][word] for word in ledger.DECIDED) else ""
        return [f"Printed numbers{within}: {counted(line['counts'])}."]
    told = {"Printed": line["reported"], "found": line["measured"]}
    if any(";" in str(value) for value in told.values()):
        return []  # several quantities: they are in the audit's table, above its verdict
    return [", ".join(f"{word} {number(value)}" for word, value in told.items() if value is not None)]


def lacking(line: dict[str, Any]) -> list[str]:
    """What a claim needs and the run did not have, one short line each."""
    return [_lack(need, line["unit"]) for need in line["needs"] if not need["met"]]


def _lack(need: dict[str, Any], unit: str) -> str:
    """needs 3 seeds, has 1: fewer decide nothing."""
    wanted, have = _listed(need["value"]), _listed(need["have"])
    needed = f"{wanted} {unit}s" if need["name"] == UNITS else f"{need['name']} {wanted}"
    return f"needs {needed}, has {have}: {need['because']}"


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def other_readings(line: dict[str, Any]) -> str:
    """What a claim would be read otherwise: a list item per verdict; empty if it has one reading."""
    told = [f"- {marked(word)} as: {'; '.join(names)}" for word, names in ledger.otherwise(line["readings"]).items()]
    return "\n".join(["Other readings:", "", *told]) if told else ""


def remark(line: dict[str, Any]) -> str:
    """The note of a line without what `lacking`, `other_readings` and `quiet` already say."""
    note = line["note"].replace(ledger.said_otherwise(line["readings"]), "")
    for need in line["needs"]:
        note = note.replace(ledger.lack(need), "")
    reasons = "; ".join(
        dict.fromkeys(cell["why"] for cell in line["cells"] if cell["verdict"] == ledger.NOT_COMPARABLE)
    )
    return " ".join(note.replace(f"Not comparable: {reasons}.", "").split())


def quiet(line: dict[str, Any]) -> str:
    """One line about the printed numbers that could not be compared; empty if all were."""
    unlike = [cell for cell in line["cells"] if cell["verdict"] == ledger.NOT_COMPARABLE]
    apart = [cell for cell in unlike if cell["why"] != ledger.INCOMPLETE]
    incomplete = len(unlike) - len(apart)
    blank = sum(cell["verdict"] == ledger.NOT_RUN for cell in line["cells"])
    told = []
    if apart:
        reasons = "; ".join(dict.fromkeys(cell["why"] for cell in apart))
        several = len(apart) > 1
        belong = f"printed number{'s' if several else ''} belong{'' if several else 's'} to"
        told.append(f"{len(apart)} {belong} {'other settings' if several else 'another setting'} ({reasons}).")
    if incomplete:
        told.append(f"{incomplete} cannot be compared, because {ledger.INCOMPLETE}.")
    if blank:
        told.append(f"{blank} {'were' if blank > 1 else 'was'} not run.")
    return " ".join(told)


def cells(line: dict[str, Any], verdicts: Sequence[str] = ledger.DECIDED) -> pd.DataFrame:
    """Printed numbers with one of these verdicts, beside ours with its interval."""
    unit = f", {line['printed_in']}" if line["printed_in"] else ""
    rows = [
        {
            "": cell["label"],
            f"printed{unit}": number(cell["reported"]),
            f"ours{unit}": ours(cell),
            "interval": between(cell["interval"], cell["measured"] or 0.0),
            "n": cell["n"],
            "verdict": cell["verdict"],
        }
        for cell in line["cells"]
        if cell["verdict"] in verdicts
    ]
    return pd.DataFrame(rows).set_index("") if rows else pd.DataFrame()


def ours(cell: dict[str, Any]) -> str:
    """What we measured in place of a printed number, with as many decimals as its interval justifies."""
    return "" if cell["measured"] is None else f"{cell['measured']:.{digits(cell['measured'], cell['interval'])}f}"
