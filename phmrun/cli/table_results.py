"""What ``phmrun table``, ``report`` and ``plot pareto`` show of a sweep or of some runs. Imported when a verb runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phmrun.cli.sweep_output import tell_faults
from phmrun.cli.sweep_work import recorded
from phmrun.errors import ExitCode, PhmrunError
from phmrun.layers import options_of
from phmrun.ledger import Run
from phmrun.ledger.listing import list_runs, summarise
from phmrun.ledger.run import State
from phmrun.results.layout import Differences
from phmrun.results.table import ResultTable
from phmrun.sweeps import Plan, load_sweep
from phmrun.sweeps.cell_status import CellStatus, survey
from phmrun.sweeps.results import table_of_runs, table_of_sweep
from phmrun.sweeps.sequential import replayed, terms_of, without_spared
from phmrun.sweeps.workplace import Workplace


@dataclass(frozen=True)
class Asked:
    """Which results are wanted, and in what shape."""

    only: Sequence[str] | None = None  # of a sweep: `key=value` of the cells to keep
    seeds: int | None = None  # of a sweep: so many seeds of every cell
    rows: Sequence[str] = ()  # keys that make a row, instead of the usual ones
    columns: Sequence[str] = ()  # keys that make a column
    scores: Sequence[str] = ()  # their names, instead of the main ones
    max_seeds: int | None = None  # of a sweep that was stopped by its looks, where that is not on record
    margin: float | None = None  # its δ, likewise


@dataclass(frozen=True)
class Results:
    """A table's scores, and what the looks of `sweep --until-decided` have decided where they stopped the sweep."""

    table: ResultTable
    looked: Differences | None = None


def decided(found: Results, margin: float | None = None) -> Differences:
    """What the cells are to the dense ones: by the looks that stopped the sweep, else by one test of all runs."""
    if found.looked is not None:
        return found.looked
    from phmrun.results.comparison import differences

    return differences(found.table, margin)


def require_runs(found: ResultTable, runs_dir: Path) -> None:
    """Refuses (exit 3), after all that is known was shown, a table in which no cell has a run."""
    if not any(figure.runs for line in found.figures for figure in line):
        raise PhmrunError(
            f"none of its cells has a finished run in {runs_dir}",
            where=found.title or None,
            hint="`phmrun sweep FILE --plan` shows how far the cells are; --runs-dir names another directory of runs.",
            code=ExitCode.DATA,
        )


def results(what: Sequence[str], runs_dir: Path, asked: Asked) -> Results:
    """The results of what a user names: a file is a sweep, everything else are runs; nothing means all runs.

    An error says that what is named does not exist, that no run is done, or that another design is on record.
    """
    if len(what) == 1 and what[0].endswith((".yaml", ".yml")):
        return results_of_sweep(what[0], runs_dir, asked)[0]
    summaries = [summarise(Run.find(runs_dir, name).path) for name in what] if what else list_runs(runs_dir)
    done = [run for run in summaries if run is not None and (what or run.state == State.DONE)]
    if not done:
        raise PhmrunError(
            f"no run in {runs_dir} is done",
            hint="`phmrun train TASK` makes one; --runs-dir names another directory of runs.",
        )
    return Results(
        table_of_runs(done, rows=asked.rows, columns=asked.columns, scores=asked.scores, options_of=options_of)
    )


def results_of_sweep(file: str, runs_dir: Path, asked: Asked) -> tuple[Results, Plan, list[CellStatus]]:
    """The results of a sweep, where it was stopped by its looks with what these have decided; its plan and its cells.

    Seeds that nobody needs any more are left out of the cells. Errors: as for :func:`results`.
    """
    terms = terms_of(Workplace(runs_dir, load_sweep(file).name).path, asked.max_seeds, asked.margin, asked.seeds)
    seeds = terms.max_seeds if terms else asked.seeds
    made = recorded(file, runs_dir, asked.only, seeds)
    statuses = everything = survey(made, runs_dir)
    tell_faults(statuses)
    if terms:
        if asked.only:
            everything = survey(recorded(file, runs_dir, None, seeds), runs_dir)
        statuses = without_spared(statuses, terms)
    table = table_of_sweep(made, statuses, rows=asked.rows, columns=asked.columns, scores=asked.scores)
    return Results(table, replayed(table, everything, terms) if terms else None), made, statuses
