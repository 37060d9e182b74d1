"""Page on the architecture: the packages from top to bottom, made of their order and their docstrings."""

import ast
import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.imports import ORDER

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent
PAGE = "architecture.md"
HEAD = """# Architecture

phmrun is a command line over typed packages. This page shows which package answers which question, and what may import
what. `CONTRIBUTING.md` has the recipes for adding a part.

## Three ideas

1. **A structure is a recipe for a dense matrix** `W [out_features, in_features]` from fewer numbers. It owns its
   parameters, and it can build `W`. A module such as `Linear`, `Embedding` or `LSTM` is written once over any
   structure, so every structure works in every task.
2. **One experiment is one directory.** `runs/<run-id>/` holds the configuration, status, environment, scores,
   predictions and checkpoints. The run id is a hash of every setting that changes the result. The same command
   continues the run, or says that it is done. See [The run directory](run-directory.md).
3. **Parts are registered, not listed.** Tasks, structures, embeddings, networks, losses, metrics, optimizers, schedules
   and datasets come from registries, so a third-party part is used like a built-in one.

## Packages

A package imports packages of lower rows only; packages in one row are independent. A test holds this order.
"""


def on_files(files: "Files", config: Any) -> "Files":
    """Add the page to the documentation (a hook of mkdocs)."""
    from mkdocs.structure.files import File  # only the build of the documentation needs it

    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """Return the page as Markdown with a picture of the packages."""
    floors = [line.split() for line in ORDER.splitlines()]
    boxes = "".join(f"<div>{''.join(f'<span>{name}</span>' for name in floor)}</div>" for floor in floors)
    rows = [f"| `{name}` | {summary(name)} |" for floor in floors for name in floor]
    table = "\n".join(["| package | content |", "|---|---|", *rows])
    return f'{HEAD}\n<div class="floors">{boxes}</div>\n\n{table}\n'


def summary(name: str) -> str:
    """Return the first line of a package's docstring."""
    folder = ROOT / ("tasks" if name == "tasks" else f"phmrun/{name}")
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if not file.is_file():
        return "One package for each task: data, module, predictor and configuration."
    lines = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").splitlines()
    return html.escape(lines[0]) if lines else ""
