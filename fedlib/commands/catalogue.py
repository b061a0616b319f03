"""`fedlib list`: the papers with their notebooks and figures, the methods, the data sets and whether each is on disk.

`fedlib list settings` prints every parameter as the command line takes it. Nothing is computed and nothing is fetched.
"""

import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from fedlib.commands import FINE
from fedlib.commands.reports import jobs_of
from fedlib.judging import ledger
from fedlib.report.notebooks import START, Notebook, cells, discover, title, values_of
from fedlib.report.usage import UsageError, typed, valid_names


def run(words: list[str], root: Path) -> int:
    """Print the sections named, by default papers, methods and data; `setting=value` applies to the settings."""
    sections = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    for name in sections:
        if name not in SECTIONS:
            raise UsageError(f"list {name}: no such list. {valid_names(SECTIONS, name)}")
    sections = sections or (["settings"] if overrides else ["papers", "methods", "data"])
    text = "\n\n".join("\n".join([name.upper(), *SECTIONS[name](root, overrides)]) for name in sections)
    try:
        print(text, flush=True)
    except BrokenPipeError:  # as in `fedlib list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FINE


def papers(root: Path, overrides: list[str]) -> list[str]:
    """Each paper, and below it its notebooks by their names on the command line, with what they regenerate."""
    notebooks = discover(root)
    names = dict.fromkeys([*(notebook.paper for notebook in notebooks), *ledger.papers()])
    lines = []
    for name in names:
        facts = ledger.load(name) if name in ledger.papers() else None
        lines += ["", *_wrapped(name, 10, f"{facts.title}. {facts.venue}." if facts else FIRST_WORDS.get(name, ""))]
        of_paper = [notebook for notebook in notebooks if notebook.paper == name]
        for notebook in of_paper:
            shows = regenerates(facts.entries, notebook) if facts else title(cells(notebook.path))
            place = notebook.path.relative_to(root).as_posix()
            lines += _wrapped(f"  {notebook.label}", 26, "; ".join(filter(None, [place, shows])))
        if not of_paper:
            lines.append("  (its notebooks are not in this checkout)")
    return lines[1:]


FIRST_WORDS = {START: "Where to begin: two minutes on what heterogeneous data does."}


def regenerates(entries: Iterable[ledger.Entry], notebook: Notebook) -> str:
    """What a notebook shows of its paper: "Figs. 1-4, Table 1; 3 claims, 1 audit; 2 pictures of our own"."""
    shown = [entry for entry in entries if entry.page == notebook.name]
    counts = Counter(entry.kind for entry in shown)
    judged = [counted(counts[kind], kind) for kind in ("claim", "audit") if counts[kind]]
    ours = sum(entry.ours for entry in shown if entry.kind in ledger.DRAWN)
    drawn = f"{counted(ours, 'picture')} of our own" if ours else ""
    return "; ".join(filter(None, [printed(shown), ", ".join(judged), drawn]))


def printed(entries: Iterable[ledger.Entry]) -> str:
    """The paper's figures and tables among the entries, parts of them as the whole: "Figs. 1-4, Tables 2, 3"."""
    drawn = [ledger.in_print(entry.id) for entry in entries if entry.kind in ledger.DRAWN and not entry.ours]
    numbers = {kind: sorted({place[1] for place in drawn if place and place[0] == kind}) for kind in ("fig", "table")}
    words = {"fig": ("Fig.", "Figs."), "table": ("Table", "Tables")}
    named = {words[kind][len(listed) > 1]: ranges(listed) for kind, listed in numbers.items() if listed}
    return ", ".join(f"{word} {', '.join(listed)}" for word, listed in named.items())


def ranges(numbers: list[int]) -> list[str]:
    """1, 2, 3, 5 -> 1-3, 5."""
    chains: list[list[int]] = []
    for number in numbers:
        if chains and number == chains[-1][-1] + 1:
            chains[-1].append(number)
        else:
            chains.append([number])
    return [text for chain in chains for text in ([f"{chain[0]}-{chain[-1]}"] if len(chain) > 2 else map(str, chain))]


def counted(number: int, noun: str) -> str:
    """1 claim, 2 claims."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def methods(root: Path, overrides: list[str]) -> list[str]:
    """Each method by the name that `create` and `Run` take."""
    from fedlib.algorithms import REGISTRY  # imports torch: a wrong name need not wait for it

    alone = Counter(method.__module__ for method in REGISTRY.values())
    lines = []
    for name, method in sorted(REGISTRY.items()):
        text = sys.modules[method.__module__].__doc__ if alone[method.__module__] == 1 else method.__doc__
        summary = (text or "").split("\n\n")[0]
        lines += _wrapped(name, 16, textwrap.shorten(summary, 2 * _width() - 40, placeholder=" ..."))
    return lines


def data_sets(root: Path, overrides: list[str]) -> list[str]:
    """Each data set and where `load` would take it from."""
    from fedlib import data
    from fedlib.data.known import FEATURES

    places = data.available()
    lines = []
    for name, place in places.items():
        here = places[FEATURES.get(name, name)] in ("cache", "drop-in file")
        lines += _wrapped(name, 16, f"{'on disk' if here else 'not on disk'}: {place}")
    return lines


def settings(root: Path, overrides: list[str]) -> list[str]:
    """Every parameter of every notebook with its value under these overrides, as typed on the command line."""
    (job,) = jobs_of(overrides, root)
    chosen = [(notebook.label, values_of(notebook, job.config)) for notebook in job.notebooks]
    return [f"{label}.{name}={typed(value)}" for label, values in chosen for name, value in values.items()]


SECTIONS: dict[str, Callable[[Path, list[str]], list[str]]] = {
    "papers": papers,
    "methods": methods,
    "data": data_sets,
    "settings": settings,
}


def _width() -> int:
    return min(shutil.get_terminal_size((110, 24)).columns, 120)


def _wrapped(name: str, column: int, text: str) -> list[str]:
    """The name, and the text beside it in a column of its own."""
    head = f"{name:{column - 1}} "
    return textwrap.wrap(text, _width(), initial_indent=head, subsequent_indent=" " * column) or [name]
