"""``phmrun report``: what a sweep has come to, as one page."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import RunsDirectory

EPILOG = """Example:

phmrun report configs/papers/phm/table5-small.yaml --out table5.html"""


def report(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A sweep's or a paper table's file.", autocompletion=completion.configs),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="The page (default: named for the sweep); the others stand beside it.",
            dir_okay=False,
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="So many seeds of every cell (default: the file's).")] = None,
    significance: Annotated[
        bool, typer.Option("--significance/--no-significance", help="Mark what differs from the dense cell.")
    ] = True,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Writes a page with table, pictures, runs, settings and environment: HTML that needs no network, and Markdown."""
    from phmrun.cli.sweep_work import planned
    from phmrun.papers.significance import differences
    from phmrun.report.content import write_report
    from phmrun.sweeps.results import table_of_sweep
    from phmrun.sweeps.standing import survey

    made = planned(file, seeds=seeds)
    stands = survey(made, runs_dir)
    table = table_of_sweep(made, stands)
    found = differences(table) if significance else {}
    for path in write_report(made, stands, table, found, out or Path(f"{Path(file).stem}.html")):
        console.stdout().print(str(path), markup=False, soft_wrap=True)
