"""What ``phmrun sweep search`` does and says. Imported when the verb runs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phmrun.cli import console, sweep_work
from phmrun.errors import ExitCode, PhmrunError
from phmrun.progress import note
from phmrun.sweeps import Cell, Plan
from phmrun.sweeps.cell_status import look
from phmrun.sweeps.plan import varied
from phmrun.sweeps.search import Search, Trial, Variation

JOURNAL = "search.journal"
"""Beside the sweep's other files: what was tried."""


def maker(made: Plan, ledger: Path | None = None) -> Callable[[Cell, Mapping[str, Any]], Cell]:
    """From a cell and the values of a trial to the trial's cell.

    Args:
        made: The plan.
        ledger: A directory of runs, which know the checksums of data that are not here.
    """
    inspect, options_of = sweep_work.by_torch(made.sweep, ledger)
    return lambda cell, values: varied(cell, values, inspect, options_of)


def search_around(
    made: Plan,
    runs_dir: Path,
    variations: Sequence[Variation],
    *,
    trials: int,
    jobs: int | None,
    threads: int,
) -> list[Search]:
    """Runs the trials around every cell of a plan, one cell after the other.

    Raises:
        PhmrunError: No cell can be run, a value is none that its key may have, or a trial was stopped before its end.
    """
    place = sweep_work.workplace(made, runs_dir)
    statuses = [look(cell, runs_dir) for cell in made.cells]
    sweep_work.require_cells(statuses)
    executor = sweep_work.local_executor(made, jobs)
    slots = executor.room()
    share = threads or sweep_work.threads_of_a_run(slots)
    make = maker(made)
    searches = []
    for cell in made.runs.values():
        search = Search(cell, variations, place.path / JOURNAL, make)
        searches.append(search)
        while batch := search.next(slots, trials):
            _require_valid(batch)
            tried = [look(trial.cell, runs_dir) for trial in batch]
            sweep_work.carry_out(tried, place, executor, slots=slots, threads=share, retry_failed=False, limit=None)
            settled = [search.settle(trial, look(trial.cell, runs_dir)) for trial in batch]
            if not all(settled):
                raise PhmrunError(
                    f"a trial around {cell.label} was stopped before its end",
                    code=ExitCode.SWEEP,
                    hint="The same command goes on with it.",
                )
            _note_best(search, trials)
    return searches


def show(searches: Sequence[Search], as_json: bool) -> ExitCode:
    """Prints what came of the trials, the best first; the exit code: whether every search has a trial with a score."""
    if as_json:
        console.print_json([_facts(search) for search in searches])
    else:
        for search in searches:
            _show(search)
    return ExitCode.OK if all(_found(search) for search in searches) else ExitCode.SWEEP


def _show(search: Search) -> None:
    results = search.results()
    keys = list(results[0].values)
    rows = [[one.number, *one.values.values(), one.score, search.run_of(one).run_id] for one in results]
    console.print_table(["trial", *keys, search.monitor, "run"], rows, title=search.cell.label)
    if _found(search):
        best = " ".join(f"--set {key}={value}" for key, value in results[0].values.items())
        console.stdout().print(f"best: {best}", markup=False, soft_wrap=True)


def _facts(search: Search) -> dict[str, Any]:
    trials = [
        {"number": one.number, "values": dict(one.values), "score": one.score, "run_id": search.run_of(one).run_id}
        for one in search.results()
    ]
    return {"at": dict(search.cell.at), "score": search.monitor, "trials": trials}


def _require_valid(batch: Sequence[Trial]) -> None:
    """Refuses values that no configuration may have: a range is wrong, not a trial unlucky."""
    for trial in batch:
        if trial.cell.config is None and trial.cell.fault is not None:
            raise trial.cell.fault


def _found(search: Search) -> bool:
    results = search.results()
    return bool(results) and results[0].score is not None


def _note_best(search: Search, trials: int) -> None:
    results = search.results()
    best = results[0]
    said = (
        "none has a score" if best.score is None else f"best {search.monitor} {best.score:.4g} of trial {best.number}"
    )
    note(f"{search.cell.label}: {len(results)} of {trials} trials, {said}")
