"""`fedlib findings`: write the findings into README.md and the start page, from the notebooks as saved."""

import json
from pathlib import Path

from fedlib.commands import FINE
from fedlib.data.files import write_atomically, write_text
from fedlib.report import findings
from fedlib.report.settings import decided_papers
from fedlib.report.usage import UsageError

START = Path("notebooks", "00_start_here.ipynb")


def run(words: list[str], root: Path) -> int:
    """Write table and picture anew; it takes no words."""
    if words:
        raise UsageError(f"findings {' '.join(words)}: it takes no settings.")
    for file, text in ((Path("README.md"), readme(root)), (START, start_page(root))):
        old = (root / file).read_text(encoding="utf-8")
        if text != old:
            write_text(root / file, text)
        print(f"{file}: findings " + ("written" if text != old else "are as they were"))
    image, _ = findings.picture(root, findings.FEATURED)
    write_atomically(root / findings.PICTURE, lambda path: path.write_bytes(image))
    return FINE


def readme(root: Path) -> str:
    """The text of README.md with table and picture as they should be."""
    text = (root / "README.md").read_text(encoding="utf-8")
    parts = findings.table(root, decided_papers(root)), findings.picture(root, findings.FEATURED)[1]
    return findings.replaced(text, "\n\n".join(parts))


def start_page(root: Path) -> str:
    """The text of the start page, a notebook, with the table as it should be."""
    notebook = json.loads((root / START).read_text(encoding="utf-8"))
    table = findings.table(root, decided_papers(root), START.parent.as_posix())
    (place,) = (cell for cell in notebook["cells"] if findings.BEGIN in "".join(cell["source"]))
    place["source"] = findings.replaced("".join(place["source"]), table).splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
