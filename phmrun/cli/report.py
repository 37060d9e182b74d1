"""``phmrun report``: report of a sweep or of runs as one page."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.errors import PhmrunError, counted
from phmrun.progress import note

SECONDS = 10.0
"""Least seconds between two writings of a page with ``--watch``, and between two loadings by a browser."""


def report(
    names: Annotated[list[str], typer.Argument(metavar="FILE|RUN…", autocompletion=completion.runs)],
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", dir_okay=False)] = None,
    watch: Annotated[bool, typer.Option("--watch")] = False,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Write a report of a sweep or of runs (table, plots, settings, environment) as HTML and Markdown.

    The page begins with its outcome in one sentence. The paths of the files are printed.

    Args:
        names: Sweep file, a paper table's file, or runs.
        out: Page to write (default: named after the sweep); other files are written next to it.
        watch: Write the page again every 10 seconds while runs are left, until Ctrl-C; the browser loads it again. A
            page that takes longer to write is written less often.

    Examples:
        phmrun report configs/papers/phm/table5-small.yaml --out table5.html
        phmrun report sweep.yaml --watch
    """
    stem = Path(names[0]).name.removesuffix(".yaml").removesuffix(".yml") if len(names) == 1 else "report"
    place = out or Path(f"{stem}.html")
    if place.suffix not in ("", ".html"):
        raise PhmrunError("the page is HTML; Markdown is written beside it", where="--out", valid=["page.html"])
    place = place.with_suffix(".html")
    with suppress(KeyboardInterrupt):
        pause = SECONDS
        while watch:
            began = time.monotonic()
            written, left = _write(names, place, runs_dir, refresh=pause)
            if not left:
                break
            pause = max(SECONDS, 4 * (time.monotonic() - began))  # at most a fifth of a core
            note(f"{written[0]}: {counted(left, 'run')} left; again in {pause:.0f} s (Ctrl-C ends)")
            time.sleep(pause)
    written, _ = _write(names, place, runs_dir, refresh=0.0 if watch else None)
    if as_json:
        console.print_json({"files": written})
        return
    for path in written:
        console.print_line(str(path))


def _write(names: list[str], path: Path, runs_dir: Path, *, refresh: float | None) -> tuple[list[Path], int]:
    """Write the page; return its files, and the number of runs left.

    ``refresh`` is None without ``--watch``: a page without any score is then an error.

    Raises:
        PhmrunError: (exit 2) A name does not exist; (exit 3) a run is damaged, or no cell has a finished run.
    """
    from phmrun.cli.sweep_output import tell_faults
    from phmrun.ledger import Run
    from phmrun.report.content import Subject, cells_of, subject_of, write_report
    from phmrun.results.plots.runs import heading
    from phmrun.sweeps.cell_status import LEFT, CellStatus, look
    from phmrun.sweeps.results import Asked, view, view_of_sweep

    trials: list[CellStatus] = []
    if len(names) == 1 and names[0].endswith((".yaml", ".yml")):
        selection, plan = view_of_sweep(names[0], runs_dir, Asked())
        statuses, subject = list(selection.statuses), subject_of(plan)
        tell_faults(statuses)
        trials = [look(cell, runs_dir) for cell in plan.trials]
    else:
        selection = view(names, runs_dir, Asked())
        statuses = cells_of(selection)
        runs = [Run.find(runs_dir, name) for name in names]
        commands = [f"phmrun runs reproduce {run.reference}" for run in runs]
        subject = Subject(f"{heading(runs)}, {counted(len(runs), 'run')}", "\n".join(commands))
    if refresh is None:
        selection.require_runs(names[0], runs_dir)
    written = write_report(subject, statuses, selection.table, path, trials, refresh=refresh or 0.0)
    return written, sum(status.state in LEFT for status in (*statuses, *trials))
