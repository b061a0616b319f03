"""Records as CSV, exact to the last bit, and narrow enough to read.

Numbered columns (`times_0`, `times_1`, ...: one per client) are folded into one, which holds what changed since the row
above: `3=1.0 17=2.0`. All other columns stay as they are.
"""

import io
import re
from itertools import groupby

import pandas as pd

NUMBERED = re.compile(r"(.+)_(\d+)")
FEW = 8  # numbered columns that may stay side by side
FOLDED = " by number"  # ends the name of a folded column


def to_csv(frame: pd.DataFrame) -> bytes:
    """The frame as the bytes of a CSV file."""
    return folded(frame).to_csv(index=False, lineterminator="\n").encode()


def from_csv(content: bytes) -> pd.DataFrame:
    """The inverse of `to_csv`."""
    return unfolded(pd.read_csv(io.BytesIO(content)))


def folded(frame: pd.DataFrame) -> pd.DataFrame:
    """Without wide groups of numbered columns."""
    columns: dict[str, list] = {}
    for stem, members in groupby(frame.columns, _stem):
        names = list(members)
        if stem is None or len(names) <= FEW or names != [f"{stem}_{number}" for number in range(len(names))]:
            columns |= {name: frame[name] for name in names}
        else:
            columns[stem + FOLDED] = _changes(frame[names])
    return pd.DataFrame(columns)


def unfolded(frame: pd.DataFrame) -> pd.DataFrame:
    """With the columns that `folded` had folded."""
    if not any(name.endswith(FOLDED) for name in frame.columns):
        return frame
    parts = [_wide(frame[name]) if name.endswith(FOLDED) else frame[[name]] for name in frame.columns]
    return pd.concat(parts, axis=1)


def _stem(column: str) -> str | None:
    match = NUMBERED.fullmatch(str(column))
    return match[1] if match else None


def _changes(group: pd.DataFrame) -> list[str]:
    """For each row, what differs from the row above; the first row in full."""
    rows, before = [], [None] * group.shape[1]
    for row in group.itertuples(index=False):
        texts = [repr(float(value)) for value in row]
        rows.append(
            " ".join(f"{n}={text}" for n, (text, old) in enumerate(zip(texts, before, strict=True)) if text != old)
        )
        before = texts
    return rows


def _wide(column: pd.Series) -> pd.DataFrame:
    stem, rows, now = str(column.name).removesuffix(FOLDED), [], {}
    for text in column.fillna("").astype(str):
        now = now | {int(pair.split("=")[0]): float(pair.split("=")[1]) for pair in text.split()}
        rows.append([now[number] for number in range(len(now))])
    return pd.DataFrame(rows, columns=[f"{stem}_{number}" for number in range(len(now))], index=column.index)
