"""What a notebook shows: figures with alt text and their numbers, tables, verdicts. All of them are also written into
the report folder.

Each figure is followed by its numbers: readers who cannot see it need them, and so does nbval, which skips images.
"""

import base64
import inspect
import io
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn
from IPython.display import display, update_display
from matplotlib.figure import Figure

from fedlib import surroundings
from fedlib.data.files import write_atomically
from fedlib.judging import facts, ledger
from fedlib.report import comparisons, forest, prose
from fedlib.report.usage import valid_names
from fedlib.report.verdicts import account, cells

PALETTE = "colorblind"
DPI = 110
OPENING = "opening"  # identifies the display at the top of a notebook
PLAIN = (bool, int, float, str, list, type(None))  # what a parameter may be


@dataclass
class Caller:
    """The notebook that calls: its variables, and the names among them that are its parameters."""

    variables: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    lines: dict[tuple[Path, str], dict[str, Any]] = field(default_factory=dict)  # of the ledger, judged so far

    def parameters(self) -> dict[str, Any]:
        """The values that the parameters have now."""
        return {name: self.variables[name] for name in self.names if name in self.variables}


_caller = Caller()


def style() -> None:
    """Set the look of plots: colour-blind palette, light grid, no frame. To be called right after the parameters.

    The plain variables that the notebook has by then are its parameters: they are stored with all numbers it shows, and
    decide which claims a run can judge.
    """
    seaborn.set_theme(context="notebook", style="whitegrid", palette=PALETTE)
    plt.rcParams.update({"figure.dpi": DPI, "axes.spines.top": False, "axes.spines.right": False})
    _caller.lines.clear()
    _caller.variables = inspect.stack(0)[1].frame.f_globals
    plain = {name for name, value in _caller.variables.items() if isinstance(value, PLAIN)}
    _caller.names = sorted(name for name in plain if not name.startswith("_") and name != "In")


def report_folder() -> Path:
    """Where the numbers go: the folder of the report that is being built, by default reports/lab."""
    return surroundings.report_folder()


def figure(id: str, fig: Figure, data: pd.DataFrame, text: pd.DataFrame, curves: pd.DataFrame | None = None) -> None:
    """Show a figure with its alt text, then `text`, its numbers for reading.

    `data` (one row per seed) is what the ledger judges, `curves` what the lines show; both are written as CSV.
    """
    entry = _entry(id)
    image = _display(fig, entry.alt or entry.statement, f"<{id}>", id=id, title=entry.statement)
    _write("figures", id, ".png", lambda path: path.write_bytes(image))
    if curves is not None:
        _write("data", f"{id}-curves", ".csv", lambda path: curves.to_csv(path, index=False))
    _numbers(id, data, text)


def picture(fig: Figure, alt: str, text: pd.DataFrame | None = None) -> None:
    """Show an illustration that is not a figure of a paper, with its alt text and its numbers, if any."""
    _display(fig, alt, "<picture>")
    if text is not None:
        show(text)


def _display(fig: Figure, alt: str, plain: str, **about: str) -> bytes:
    """Send a figure to the page as PNG and close it; returns the bytes of the PNG."""
    image = png(fig)
    encoded = base64.b64encode(image).decode()
    display(
        {"image/png": encoded, "text/plain": plain}, raw=True, metadata={"image/png": {"alt": alt}, "fedlib": about}
    )
    return image


def png(fig: Figure) -> bytes:
    """The figure as bytes, for a page or an image widget; it is closed."""
    image = io.BytesIO()
    fig.savefig(image, format="png", dpi=DPI, bbox_inches="tight", metadata={"Software": None})
    plt.close(fig)
    return image.getvalue()


def table(id: str, data: pd.DataFrame, text: pd.DataFrame) -> None:
    """Show a table; `data` as for `figure`."""
    _numbers(id, data, text)


def _numbers(id: str, data: pd.DataFrame, text: pd.DataFrame) -> None:
    keep(id, data)
    show(text, fedlib={"id": id, "title": _entry(id).statement})


def keep(id: str, data: pd.DataFrame) -> None:
    """Write an entry's numbers without showing them, for claims that use them."""
    _write("data", _entry(id).id, ".csv", lambda path: data.to_csv(path, index=False))
    _caller.lines = {place: told for place, told in _caller.lines.items() if id not in ledger.sources(_entry(place[1]))}
    facts.write_facts(report_folder(), id, _caller.parameters())


def show(frame: pd.DataFrame, **metadata: Any) -> None:
    """Display a frame in full."""
    with pd.option_context(
        "display.max_rows", None, "display.max_columns", None, "display.width", 160, "display.max_colwidth", None
    ):
        display(frame, metadata=metadata)


def _write(kind: str, id: str, suffix: str, write: Callable[[Path], object]) -> None:
    write_atomically(report_folder() / kind / f"{id.replace('/', '-')}{suffix}", write)


def _entry(id: str) -> ledger.Entry:
    """The entry of this id; an unknown one is a LookupError that names the nearest."""
    paper = id.split("/")[0]
    if paper not in ledger.papers():
        raise LookupError(f"{id}: no paper {paper}. {valid_names(ledger.papers(), paper)}")
    entries = {entry.id: entry for entry in ledger.load(paper).entries}
    if id not in entries:
        raise LookupError(f"{id}: not in the ledger. {valid_names(entries, id)}")
    return entries[id]


def mean_sd(
    frame: pd.DataFrame, value: str, rows: str | list[str], columns: str, scale: float = 100, digits: int = 1
) -> pd.DataFrame:
    """A table of "mean ± standard deviation over seeds", rows in order of appearance; one seed has no deviation."""
    grouped = frame.groupby([*([rows] if isinstance(rows, str) else rows), columns], sort=False)[value]
    mean, deviation = grouped.mean() * scale, grouped.std() * scale
    told = [
        f"{m:.{digits}f}" + ("" if math.isnan(d) else f" ± {d:.{digits}f}")
        for m, d in zip(mean, deviation, strict=True)
    ]
    return pd.Series(told, mean.index).unstack(sort=False)


def say(text: str, **values: Any) -> None:
    """Show Markdown whose numbers are not typed but looked up: `{fedsr/claim-above.measured}`, `{gap:.1f}`.

    Lines of the ledger are judged on the numbers that this notebook has written so far; `prose` lists what a field may
    be. An unknown name is a LookupError with the nearest ones.
    """
    _markdown(prose.fill(text, line, values), role="said")


def opening() -> None:
    """The place at the top of a notebook where its answer appears, once `answer` has been called below."""
    text = "*The answer appears here once all cells have run.*"
    display(_as_markdown(text), raw=True, metadata={"fedlib": {"role": "opening"}}, display_id=OPENING)


def answer(text: str, **values: Any) -> None:
    """What the notebook found, shown here and at its `opening`; text and values as for `say`."""
    filled = prose.fill(text, line, values)
    _markdown(filled, role="said")
    update_display(_as_markdown(filled), raw=True, metadata={"fedlib": {"role": "opening"}}, display_id=OPENING)


def finding(text: str, leads: bool = False, **values: Any) -> None:
    """What was found of the paper, in a sentence or two: `findings` carries it to the index and to README.md. Of the
    findings of a paper's notebooks the one that `leads` comes first."""
    _markdown(prose.fill(text, line, values), role="finding", **({"leads": True} if leads else {}))


def finding_picture(fig: Figure, alt: str, caption: str, **values: Any) -> None:
    """The picture that carries the finding; `findings` may carry it to README.md, with alt text and caption."""
    alt, caption = (" ".join(prose.fill(text, line, values).split()) for text in (alt, caption))
    _display(fig, alt, "<picture>", role="finding picture", caption=caption)
    _markdown(f"*{caption}*")


def line(id: str) -> dict[str, Any]:
    """The ledger's line of an entry, judged on what this report has now; once, until its numbers are written again."""
    place = report_folder(), id
    if place not in _caller.lines:
        _caller.lines[place] = ledger.judge(_entry(id), report_folder())
    return _caller.lines[place]


def source(*functions: Callable[..., Any]) -> None:
    """Show the code of functions, methods or classes of the library."""
    texts = [textwrap.dedent(inspect.getsource(function)).strip() for function in functions]
    _markdown("\n\n".join(f"```python\n{text}\n```" for text in texts), role="source")


def verdicts(*ids: str) -> None:
    """The ledger's lines for these ids, judged on the numbers this notebook has just written.

    Each gives its verdict and the result. A claim shows its comparisons, a figure or table the printed numbers that
    could be compared; all of them are in `data/<id>-printed.csv`.
    """
    for entry in map(_entry, ids):
        judged = line(entry.id)
        ledger.write_evidence(entry, report_folder(), judged)
        _markdown(account(judged), id=judged["id"], role="verdict", verdict=judged["verdict"])
        if any(row["effect"] is not None for row in judged["comparisons"]):
            _comparisons(judged)
        if judged["cells"]:
            _printed(judged)


def _markdown(text: str, **about: Any) -> None:
    display(_as_markdown(text), raw=True, metadata={"fedlib": about})


def _as_markdown(text: str) -> dict[str, str]:
    return {"text/markdown": text, "text/plain": text}


def _comparisons(line: dict[str, Any]) -> None:
    _display(forest.draw(line), comparisons.description(line), f"<{line['id']}>", id=line["id"], role="forest")
    _folding(comparisons.table(line), line, "comparisons")


def _printed(line: dict[str, Any]) -> None:
    everything = cells(line, ledger.CELL_VERDICTS)
    _write("data", f"{line['id']}-printed", ".csv", lambda path: everything.to_csv(path, index_label="label"))
    compared = cells(line)
    if not compared.empty:
        _folding(compared, line, "cells")


def _folding(frame: pd.DataFrame, line: dict[str, Any], role: str) -> None:
    """A table that a page folds if it is long."""
    show(frame, fedlib={"id": line["id"], "role": role, "rows": len(frame)})
