"""What ``phmrun sweep search`` does and says. Imported when the verb runs."""

from collections.abc import Sequence
from pathlib import Path

from phmrun.cli import console, sweep_work
from phmrun.errors import ExitCode, PhmrunError
from phmrun.progress import note
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import look
from phmrun.sweeps.planning import maker
from phmrun.sweeps.search import Search, Variation

JOURNAL = "search.journal"  # beside the sweep's other files: what was tried


def search_around(
    made: Plan, runs_dir: Path, variations: Sequence[Variation], *, trials: int, jobs: int | None, threads: int
) -> list[Search]:
    """Runs the trials around every cell of a plan, one cell after the other.

    It is an error if no cell can be run, a value is none that its key may have, or a trial was stopped before its end.
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
                    hint="The same command goes on with it.",
                )
            results = search.results()
            best, said = results[0], "none has a score"
            if best.score is not None:
                said = f"best {search.monitor} {best.score:.4g} of trial {best.number}"
            note(f"{cell.label}: {len(results)} of {trials} trials, {said}")
    return searches


def show(searches: Sequence[Search], as_json: bool) -> ExitCode:
    """Prints what came of the trials, the best first; the exit code: whether every search has a trial with a score."""
    found = [(search, search.results()) for search in searches]
    if as_json:
        facts = []
        for search, results in found:
            trials = [{**one._asdict(), "run_id": search.run_of(one).run_id} for one in results]
            facts.append({"at": dict(search.cell.at), "score": search.monitor, "trials": trials})
        console.print_json(facts)
    else:
        for search, results in found:
            rows = [[one.number, *one.values.values(), one.score, search.run_of(one).run_id] for one in results]
            console.print_table(["trial", *results[0].values, search.monitor, "run"], rows, title=search.cell.label)
            if results[0].score is not None:
                best = " ".join(f"--set {key}={value}" for key, value in results[0].values.items())
                console.stdout().print(f"best: {best}", markup=False, soft_wrap=True)
    return ExitCode.OK if all(results and results[0].score is not None for _, results in found) else ExitCode.SWEEP
