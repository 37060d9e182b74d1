"""Generated pages of the documentation: the command line, and the pages and pictures of results."""

import re
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

from phmrun.cli.app import whole

PAGE = "reference/cli.md"
ROLE = re.compile(":(?:meth|class|func|data|mod|attr|exc):(?=<code>)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the page of all commands and their options, from their help texts, and what the page of results shows."""
    command = whole()
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="phmrun", title="Command line")
    files.append(File.generated(config, PAGE, content=text))
    project = Path(config["config_file_path"]).parent
    for path in sorted(
        [*project.glob("results/*/*.svg"), *project.glob("results/*/README.md"), *project.glob("results/*.md")]
    ):
        files.append(File.generated(config, path.relative_to(project).as_posix(), abs_src_path=str(path)))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without the roles that docstrings have for editors, as in ``:meth:`check```."""
    return ROLE.sub("", html)
