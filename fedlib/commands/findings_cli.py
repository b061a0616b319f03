"""`fedlib findings`: write the table of findings in README.md from the notebooks as they are saved."""

from pathlib import Path

from fedlib.commands import FINE
from fedlib.data.files import write_text
from fedlib.report import findings
from fedlib.report.settings import decided_papers
from fedlib.report.usage import UsageError


def run(words: list[str], root: Path) -> int:
    """Write the table anew; it takes no words."""
    if words:
        raise UsageError(f"findings {' '.join(words)}: it takes no settings.")
    readme = root / "README.md"
    old = readme.read_text(encoding="utf-8")
    new = findings.replaced(old, findings.table(root, decided_papers(root)))
    if new != old:
        write_text(readme, new)
    print("README.md: findings " + ("written" if new != old else "are as they were"))
    return FINE
