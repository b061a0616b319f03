"""What a student expects, written down before the result is seen, and kept.

    predict("2a", "They will arrive, but slowly.")

writes a row into `predictions.csv` beside the notebook. Nothing is ever overwritten: whoever changes a prediction adds
a row, and `looked_back` shows the first one beside the last.
"""

import csv
from datetime import datetime
from pathlib import Path

FILE = Path("predictions.csv")
COLUMNS = ("prediction", "written", "text")


def predict(number: str, text: str) -> None:
    """Keep the prediction; without a text, say that there is none yet."""
    text = " ".join(text.split())
    earlier = [row["text"] for row in kept() if row["prediction"] == number]
    if not text and not earlier:
        print(f"{number}: nothing written down yet. Put your expectation between the quotes and run this cell.")
    elif not text or text in earlier[-1:]:
        print(f"{number}: kept: {earlier[-1]}")
    else:
        _add(number, text)
        print(f"{number}: kept in {FILE}." + (f" Your first thought was: {earlier[0]}" if earlier else ""))


def looked_back(lesson: int) -> None:
    """Print what was expected in a lesson: each prediction as it was first written, and the last where it changed."""
    texts: dict[str, list[str]] = {}
    for row in kept():
        if row["prediction"].startswith(str(lesson)):
            texts.setdefault(row["prediction"], []).append(row["text"])
    print(f"{len(texts)} predictions written down." if len(texts) != 1 else "1 prediction written down.")
    for number, written in sorted(texts.items()):
        print(f"  {number}: {written[0]}" + (f" Later: {written[-1]}" if len(written) > 1 else ""))


def kept() -> list[dict[str, str]]:
    """All rows of the file, the oldest first."""
    if not FILE.exists():
        return []
    with open(FILE, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _add(number: str, text: str) -> None:
    new = not FILE.exists()
    with open(FILE, "a", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        if new:
            rows.writerow(COLUMNS)
        rows.writerow([number, datetime.now().isoformat(" ", "minutes"), text])
