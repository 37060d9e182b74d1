"""``phmrun results``: store finished runs as small files, and restore runs from them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.options import Json, RunsDirectory
from phmrun.errors import counted, data_error
from phmrun.files import read_text, write_text
from phmrun.progress import note

if TYPE_CHECKING:
    from phmrun.ledger import Run

app = VerbGroup(
    epilog="Examples:\n\n"
    "phmrun results add sweep.yaml --to results/agreement\n\n"
    "phmrun results restore results --runs-dir runs",
)

SWEEP = "sweep.yaml"
MOST_SEEDS = 20  # of each cell of a sweep

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder with a subfolder for each sweep: sweep.yaml, <run-id>.json.")
]


@app.command("add")
def add(
    what: Annotated[list[str], typer.Argument(metavar="FILE|RUN…", autocompletion=completion.runs)],
    to: Annotated[Path, typer.Option("--out", "--to", metavar="DIR")],
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Write a file <run-id>.json for each finished run, and the sweep's file with what it names beside them.

    It contains settings, data checksums, environment, scores and histories. Existing files of a run are replaced; an
    existing sweep.yaml stays. Exit code 3 if no run is done.

    Args:
        what: Sweep file, for all its finished runs and trials; or runs.
        to: Folder to write to: results/NAME.
    """
    from phmrun.ledger.record import record_of, write_record
    from phmrun.progress import progress

    trials, cells = _finished(what, runs_dir)
    runs = [*trials, *cells]
    if not runs:
        raise data_error(f"none of these runs is done in {runs_dir}")
    from phmrun.engine.checkpoints import weights_checksums
    from phmrun.results.items import items_of

    written, weightless = [], 0
    with progress("reading", len(runs), "runs") as advance:
        for run in runs:
            weights = weights_checksums(run.checkpoints)
            written.append(write_record(record_of(run, items=items_of(run), weights=weights), to))
            weightless += not weights
            advance(1)
    if weightless:
        note(f"{counted(weightless, 'run')} without weights here; their records have no checksums of weights")
    written += _design(what, to)
    if as_json:
        console.print_json({"files": written})
        return
    size = sum(path.stat().st_size for path in written)
    console.print_line(f"{counted(len(runs), 'result')} in {to}, {size / 1024:,.0f} KiB")


def _design(what: list[str], to: Path) -> list[Path]:
    """Copy a sweep's file to ``sweep.yaml`` beside its results, with the settings and plug-ins of its folder.

    Returns:
        The files written; none if ``what`` is not a single sweep file, or there is a ``sweep.yaml``.
    """
    from phmrun.sweeps.file import load_sweep

    path, is_sweep = Path(what[0]), len(what) == 1 and what[0].endswith((".yaml", ".yml"))
    if not is_sweep or not path.is_file():
        return []
    if (to / SWEEP).exists():
        if read_text(to / SWEEP) != read_text(path):
            note(f"{to / SWEEP} stays as it is, which differs from {path}: the results may be of other cells")
        return []
    file = load_sweep(what[0]).file
    beside = [Path(name) for name in (*file.config, *file.plugins) if Path(name).is_relative_to(path.parent)]
    copies = {part: to / part.relative_to(path.parent) for part in beside if part.is_file()} | {path: to / SWEEP}
    for part, copy in copies.items():
        write_text(copy, read_text(part))
    return [*copies.values()]


def _finished(what: list[str], runs_dir: Path) -> "tuple[list[Run], list[Run]]":
    """Return the finished runs that a user names, diverged ones included: (trials, other runs).

    A sweep file stands for its runs with at most 20 seeds. Unfinished runs are left out; a trial that is a cell, too,
    is among the other runs.

    Raises:
        PhmrunError: A run that is named does not exist.
    """
    from phmrun.ledger import Run, State

    if len(what) == 1 and what[0].endswith((".yaml", ".yml")):
        from phmrun.sweeps.cell_status import CellState, look, survey
        from phmrun.sweeps.planning import chosen, planned

        plan = chosen(planned(what[0], seeds=MOST_SEEDS, ledger=runs_dir), runs_dir)
        tried, cells = [look(cell, runs_dir) for cell in plan.trials], survey(plan, runs_dir)
        paths = [
            dict.fromkeys(s.run.path for s in statuses if s.run and (s.state is CellState.DONE or s.diverged))
            for statuses in (tried, cells)
        ]
        return [Run(path) for path in paths[0] if path not in paths[1]], [Run(path) for path in paths[1]]
    runs = [Run.find(runs_dir, reference) for reference in what]
    return [], [run for run in runs if run.status.state is State.DONE or run.status.diverged]


@app.command("restore")
def restore(
    folder: Folder,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Restore run directories from results.

    All verbs that read runs can use them, and a sweep can add seeds. They have no weights: `runs reproduce` trains one
    again and compares. Existing runs stay unchanged.
    """
    from phmrun.ledger.record import record_paths, restore

    restored = restore(record_paths(folder), runs_dir)
    if as_json:
        console.print_json({"runs": [run.id for run in restored]})
        return
    console.print_line(f"{counted(len(restored), 'run')} in {runs_dir}")
