"""``phmrun report``: report of a sweep as one page."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.errors import PhmrunError


def report(
    file: Annotated[str, typer.Argument(metavar="FILE", autocompletion=completion.configs)],
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", dir_okay=False)] = None,
    seeds: Annotated[int | None, typer.Option(min=1)] = None,
    significance: Annotated[bool, typer.Option("--significance/--no-significance")] = True,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Write a report of a sweep (table, plots, runs, settings, environment) as HTML and Markdown.

    The paths of the files are printed. A run in place of the sweep's file is an error.

    Args:
        file: Sweep file, or a paper table's file.
        out: Page to write (default: named after the sweep); other files are written next to it.
        seeds: Seeds per cell (default: the file's).
        significance: Mark cells that differ significantly from the dense cell.

    Example:
        phmrun report configs/papers/phm/table5-small.yaml --out table5.html
    """
    from phmrun.cli.sweep_output import tell_faults
    from phmrun.ledger import Run
    from phmrun.report.content import write_report
    from phmrun.sweeps.cell_status import look
    from phmrun.sweeps.results import Asked, view_of_sweep

    run = None
    if not file.endswith((".yaml", ".yml")):
        # If it is not a run either, reading it as a sweep file fails below.
        with suppress(PhmrunError):
            run = Run.find(runs_dir, file)
    if run:
        raise PhmrunError(
            f"this is a run, but a report needs a sweep file; the run's own page is {run.card_path}",
            where=file,
            hint=f"`phmrun runs show {run.reference}` prints it, "
            f"`phmrun table {run.reference} OTHER…` compares it with others.",
        )
    selection, plan = view_of_sweep(file, runs_dir, Asked(seeds=seeds))
    tell_faults(selection.statuses)
    selection.require_runs(runs_dir)
    differences = selection.differences() if significance else {}
    trials = [look(cell, runs_dir) for cell in plan.trials]
    written = write_report(
        plan, selection.statuses, selection.table, differences, out or Path(f"{Path(file).stem}.html"), trials
    )
    if as_json:
        console.print_json({"files": written})
        return
    for path in written:
        console.stdout().print(str(path), markup=False, soft_wrap=True)
