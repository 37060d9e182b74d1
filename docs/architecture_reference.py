"""End of the page on the architecture: packages from top to bottom with their files, made of their docstrings."""

import ast
import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.imports import ORDER

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGE = "architecture.md"


def on_page_markdown(markdown: str, page: "Page", **_: Any) -> str:
    """Return the page with the table of packages at its end (a hook of mkdocs)."""
    return f"{markdown}\n{packages()}" if page.file.src_uri == PAGE else markdown


def packages() -> str:
    """Return picture and table of the packages, and the files of each, as Markdown."""
    floors = [line.split() for line in ORDER.splitlines()]
    boxes = "".join(f"<div>{''.join(f'<span>{name}</span>' for name in floor)}</div>" for floor in floors)
    names = [name for floor in floors for name in floor]
    rows = [f"| `{name}` | {summary(place(name))} |" for name in names]
    table = "\n".join(["| package | content |", "|---|---|", *rows])
    parts = [f'<div class="floors">{boxes}</div>', table, "## Files", *map(files, names)]
    return "\n\n".join(parts) + "\n"


def files(name: str) -> str:
    """Return the files of a package with what they hold, folded; empty for a module."""
    folder = ROOT / ("tasks" if name == "tasks" else f"phmrun/{name}")
    paths = [path for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py"]
    lines = "\n".join(f"- `{path.relative_to(folder)}`: {summary(path)}" for path in paths)
    return f'<details markdown="1"><summary>{name}</summary>\n\n{lines}\n\n</details>' if paths else ""


def place(name: str) -> Path:
    """Return the file with the docstring of a package or module."""
    folder = ROOT / ("tasks" if name == "tasks" else f"phmrun/{name}")
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def summary(file: Path) -> str:
    """Return the first line of a file's docstring."""
    if not file.is_file():
        return "One package for each task: data, module, predictor and configuration."
    lines = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").splitlines()
    return html.escape(lines[0]) if lines else ""
