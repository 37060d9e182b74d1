"""Table of the page on the architecture: packages from top to bottom, made of their order and their docstrings."""

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
    """Return picture and table of the packages as Markdown."""
    floors = [line.split() for line in ORDER.splitlines()]
    boxes = "".join(f"<div>{''.join(f'<span>{name}</span>' for name in floor)}</div>" for floor in floors)
    rows = [f"| `{name}` | {summary(name)} |" for floor in floors for name in floor]
    table = "\n".join(["| package | content |", "|---|---|", *rows])
    return f'<div class="floors">{boxes}</div>\n\n{table}\n'


def summary(name: str) -> str:
    """Return the first line of a package's docstring."""
    folder = ROOT / ("tasks" if name == "tasks" else f"phmrun/{name}")
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if not file.is_file():
        return "One package for each task: data, module, predictor and configuration."
    lines = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").splitlines()
    return html.escape(lines[0]) if lines else ""
