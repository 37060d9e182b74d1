"""Search of ``phmrun sweep search``, and its output.

Imported when the verb runs.
"""

from collections.abc import Sequence
from pathlib import Path

from phmrun.cli import console, sweep_work
from phmrun.errors import ExitCode, PhmrunError
from phmrun.progress import note
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import look
from phmrun.sweeps.planning import maker
from phmrun.sweeps.search import Search, Variation

JOURNAL = "search.journal"  # record of the trials, in the sweep's folder


def search_around(
    made: Plan, runs_dir: Path, variations: Sequence[Variation], *, trials: int, jobs: int | None, threads: int
) -> list[Search]:
    """Run the trials of each cell of a plan, one cell after the other.

    Returns a search for each cell that can run; each has ``trials`` trials, earlier ones on disk included. The progress
    is logged. ``jobs`` and ``threads`` are those of :func:`phmrun.cli.sweep_work.local_workers`.

    Raises:
        PhmrunError: No cell can run, a value is invalid for its key, or a trial was interrupted (exit 5).
    """
    sweep_work.require_cells([look(cell, runs_dir) for cell in made.cells])
    workers = sweep_work.local_workers(made, runs_dir, jobs, threads)
    make = maker(made)
    searches = []
    for cell in made.runs.values():
        search = Search(cell, variations, workers.place.path / JOURNAL, make)
        searches.append(search)
        while batch := search.next(workers.slots, trials):
            for trial in batch:
                if trial.cell.config is None and trial.cell.fault is not None:
                    raise trial.cell.fault  # the range is wrong, not the trial unlucky
            workers.carry_out([look(trial.cell, runs_dir) for trial in batch])
            settled = [search.settle(trial, look(trial.cell, runs_dir)) for trial in batch]
            if not all(settled):
                raise PhmrunError(
                    f"a trial around {cell.label} was stopped before its end",
                    code=ExitCode.SWEEP,
                    hint="The same command continues it.",
                )
            results = search.results()
            best, best_text = results[0], "none has a score"
            if best.score is not None:
                best_text = f"best {search.monitor} {best.score:.4g} of trial {best.number}"
            note(f"{cell.label}: {len(results)} of {trials} trials, {best_text}")
    return searches


def show(searches: Sequence[Search], as_json: bool) -> ExitCode:
    """Print the trials, best first, as tables or JSON.

    JSON is a list of searches. Keys: at (values of the cell), score (its name), trials (number, values, score, run_id).
    The table is followed by the ``--set`` options of the best trial. Return ``ExitCode.SWEEP`` if a search has no trial
    with a score.
    """
    outcomes = [(search, search.results()) for search in searches]
    if as_json:
        facts = []
        for search, results in outcomes:
            trials = [{**trial._asdict(), "run_id": search.run_of(trial).run_id} for trial in results]
            facts.append({"at": dict(search.cell.at), "score": search.monitor, "trials": trials})
        console.print_json(facts)
    else:
        for search, results in outcomes:
            rows = [
                [trial.number, *trial.values.values(), trial.score, search.run_of(trial).run_id] for trial in results
            ]
            console.print_table(["trial", *results[0].values, search.monitor, "run"], rows, title=search.cell.label)
            if results[0].score is not None:
                best = " ".join(f"--set {key}={value}" for key, value in results[0].values.items())
                console.stdout().print(f"best: {best}", markup=False, soft_wrap=True)
    return ExitCode.OK if all(results and results[0].score is not None for _, results in outcomes) else ExitCode.SWEEP
