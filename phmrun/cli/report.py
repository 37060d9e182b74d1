"""``phmrun report``: what a sweep has come to, as one page."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import DecidedSeeds, Json, RunsDirectory
from phmrun.errors import PhmrunError, unknown

if TYPE_CHECKING:
    from phmrun.sweeps import Plan
    from phmrun.sweeps.cell_status import CellStatus

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
    max_seeds: DecidedSeeds = None,
    significance: Annotated[
        bool, typer.Option("--significance/--no-significance", help="Mark what differs from the dense cell.")
    ] = True,
    checklist: Annotated[
        str | None,
        typer.Option(
            metavar="acl|neurips",
            help="Instead: a conference's reproducibility checklist, filled from the runs; blanks are marked.",
        ),
    ] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Writes a page with table, pictures, runs, settings and environment: HTML that needs no network, and Markdown."""
    from phmrun.cli.table_results import decided, require_runs, results_of_sweep
    from phmrun.report.content import write_report

    _refuse_run(file, runs_dir)
    found, made, statuses = results_of_sweep(file, runs_dir, seeds=seeds, max_seeds=max_seeds)
    if checklist is not None:
        page = out or Path(f"{Path(file).stem}-checklist-{checklist}.html")
        _checklist(checklist, made, statuses, runs_dir, page, as_json)
        return
    require_runs(found.table, runs_dir)
    differences = decided(found) if significance else {}
    written = write_report(made, statuses, found.table, differences, out or Path(f"{Path(file).stem}.html"))
    if as_json:
        console.print_json({"files": written})
        return
    for path in written:
        console.stdout().print(str(path), markup=False, soft_wrap=True)


def _refuse_run(name: str, runs_dir: Path) -> None:
    """Says where a single run's page is.

    Raises:
        PhmrunError: It is a run that is named.
    """
    from phmrun.ledger import Run

    found = None
    if not name.endswith((".yaml", ".yml")):
        with suppress(PhmrunError):
            found = Run.find(runs_dir, name)
    if found:
        raise PhmrunError(
            f"this is a run, and a report is of a sweep; the run's own page is {found.card_path}",
            where=name,
            hint=f"`phmrun runs show {name}` prints it, `phmrun table {name} OTHER…` sets it beside others.",
        )


def _checklist(
    name: str, made: "Plan", statuses: "Sequence[CellStatus]", runs_dir: Path, out: Path, as_json: bool
) -> None:
    """Writes a filled checklist as HTML and as Markdown.

    Raises:
        PhmrunError: There is no such checklist.
    """
    from phmrun.cli.sweep_tuning import rows_of
    from phmrun.cli.sweep_work import planned
    from phmrun.files import write_text
    from phmrun.report import checklist
    from phmrun.report.document import to_html, to_markdown

    if name not in checklist.CHECKLISTS:
        raise unknown("checklist", name, checklist.CHECKLISTS, where="--checklist")
    tuned = rows_of(planned(made.sweep.where, ledger=runs_dir), runs_dir) if made.sweep.file.tune else []
    items = checklist.fill(name, made, statuses, tuned)
    page = checklist.document(name, made, items)
    files = {out: to_html(page), out.with_suffix(".md"): to_markdown(page)}
    for path, text in files.items():
        write_text(path, text)
    filled = sum(bool(item.answer) for item in items)
    if as_json:
        rows = [item._asdict() for item in items]
        console.print_json({"items": rows, "filled": filled, "of": len(items), "files": list(files)})
        return
    for path in files:
        console.stdout().print(str(path), markup=False, soft_wrap=True)
    console.stdout().print(f"{filled} of {len(items)} items filled", markup=False)
