"""Lines of the ledger made by hand, with counts that one can check by eye."""

from collections import Counter

from fedlib.judging.claims import OUTCOMES
from fedlib.judging.ledger import CELL_VERDICTS, overall


def line(id: str, kind: str, verdict: str, **more) -> dict:
    """A line with nothing in it but what is given."""
    numbers = {"reported": None, "measured": None, "effect": None, "interval": None, "seeds": None}
    words = {"statement": f"Statement of {id}", "page": "fine", "ours": False, "note": "", "scale": "quick"}
    claim = {"unit": "seed", "quantity": "", "quantifier": "", "currency": "", "margin": None, "averaged": None}
    parts = {
        "counts": {},
        "comparisons": [],
        "needs": [],
        "readings": [],
        "cells": [],
        "printed_in": "",
        "tolerance": 0.0,
    }
    about = {"id": id, "paper": id.split("/")[0], "kind": kind, "verdict": verdict}
    return about | words | numbers | claim | parts | more


def comparison(label: str, effect: float | None, half: float | None, outcome: str, **more) -> dict:
    """One comparison, its interval `half` to either side of the effect."""
    interval = None if effect is None or half is None else [effect - half, effect + half]
    told = {"label": label, "effect": effect, "interval": interval, "n": 5 if interval else 0, "outcome": outcome}
    return told | {"margin": 0.0, "near": False, "detectable": None, "needed": None, "note": ""} | more


def claim(id: str, verdict: str, comparisons: list[dict], quantifier: str = "all", **more) -> dict:
    """A claim with its counts, and the smallest effect."""
    counter = Counter(row["outcome"] for row in comparisons)
    counts = {outcome: counter[outcome] for outcome in OUTCOMES} | {"of": len(comparisons)}
    told = [f"{n} {'hold' if word == 'holds' and n > 1 else word}" for word, n in counts.items() if n and word != "of"]
    measured = [row for row in comparisons if row["effect"] is not None]
    least = min(measured, key=lambda row: row["effect"], default=comparison("", None, None, "not run"))
    said = {"measured": f"{', '.join(told)}, of {len(comparisons)}", "counts": counts, "comparisons": comparisons}
    said |= {"effect": least["effect"], "interval": least["interval"], "seeds": least["n"] or None}
    return line(id, "claim", verdict, quantifier=quantifier, **{"quantity": "accuracy"} | said | more)


def cell(label: str, reported, measured, interval, verdict: str, why: str = "") -> dict:
    """One printed number beside ours."""
    told = {"label": label, "reported": reported, "measured": measured, "interval": interval}
    return told | {"n": 0 if measured is None else 5, "verdict": verdict, "why": why}


def printed(id: str, kind: str, cells: list[dict], **more) -> dict:
    """A figure or table with its printed numbers."""
    counter = Counter(one["verdict"] for one in cells)
    counts = {verdict: counter[verdict] for verdict in CELL_VERDICTS} | {"of": len(cells)}
    return line(id, kind, overall([one["verdict"] for one in cells]), cells=cells, counts=counts, seeds=5, **more)
