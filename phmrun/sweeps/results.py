"""Results of a sweep or of named runs as one long table."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phmrun.errors import PhmrunError, data_error
from phmrun.ledger import Run
from phmrun.ledger.listing import list_runs, unchanged
from phmrun.ledger.status import State
from phmrun.papers.table import PaperTable, column_groups
from phmrun.results.entries import Entry, recorded_marks, settings_of
from phmrun.results.long_table import PaperShape, Results, done
from phmrun.results.table import Heading, ResultTable
from phmrun.sweeps.cell_status import CellStatus, survey
from phmrun.sweeps.plan import Plan
from phmrun.sweeps.planning import recorded_plan
from phmrun.sweeps.selection import SEED

Keys = Sequence[str]


@dataclass(frozen=True)
class Asked:
    """Selection and shape of results, from the command line."""

    only: Sequence[str] | None = None  # `key=value` of the cells of a sweep to keep
    seeds: int | None = None  # number of seeds of a sweep; all recorded ones if None
    rows: Keys = ()  # keys of the rows; the usual ones if empty
    columns: Keys = ()  # keys of the columns
    scores: Keys = ()  # names of the scores; the main ones if empty


@dataclass(frozen=True)
class View:
    """Table of results with the data behind it."""

    results: Results
    table: ResultTable
    statuses: Sequence[CellStatus] = ()  # cells of a sweep

    def by_task(self, asked: Asked) -> list["View"]:
        """Return a view for each task.

        Tasks are in the order of their first cells. It is this view alone if there is one task, a paper's shape, or
        ``asked`` names scores.
        """
        tasks = list(dict.fromkeys(entry.label("task") for entry in self.results.entries))
        if len(tasks) < 2 or self.results.paper or asked.scores:
            return [self]
        parts = [self.results.select(task=task) for task in tasks]
        return [replace(self, results=part, table=part.pivot(asked.rows, asked.columns)) for part in parts]

    def require_runs(self, file: str, runs_dir: Path) -> None:
        """Check that at least one cell has a run with its score.

        It is called after all that exists was shown. ``file``, the sweep's, and ``runs_dir`` are for the message.

        Raises:
            PhmrunError: (exit 3) No cell has one.
        """
        if not any(figure.values for figure in self.table.cells.values()):
            what = f"none of its cells has a finished run in {runs_dir}"
            if any(status.cell.searching for status in self.statuses):
                what = "no row has a result before the trials of all rows have ended"
            command = f"phmrun sweep {shlex.quote(file)} --plan" if self.statuses else "phmrun runs list"
            hint = f"`{command}` shows how far they are; --runs-dir names another directory of runs."
            raise data_error(what, self.table.title or None, hint)


def view(names: Sequence[str], runs_dir: Path, asked: Asked | None = None) -> View:
    """Return the results of a sweep's file or of runs.

    A single name that ends with ``.yaml`` or ``.yml`` is a sweep's file; other names are runs, whatever their state; no
    name stands for all finished runs.

    Raises:
        PhmrunError: (exit 2) A name does not exist, no run is done, or cells or seeds of runs are asked for.
    """
    asked = asked or Asked()
    if len(names) == 1 and names[0].endswith((".yaml", ".yml")):
        return view_of_sweep(names[0], runs_dir, asked)[0]
    if asked.only or asked.seeds is not None:
        hint = "Name a sweep's file, or the runs themselves; `phmrun runs list --where KEY=VALUE` lists some."
        raise PhmrunError("only cells of a sweep are chosen by these", where="--only, --seeds", hint=hint)
    runs = [Run.find(runs_dir, name, lenient=True) for name in names] if names else done(list_runs(runs_dir))
    if not runs:
        what = f"no run in {runs_dir} is done"
        raise PhmrunError(what, hint="`phmrun train TASK` makes one; --runs-dir names another directory of runs.")
    results = Results.load(runs)
    return View(results, results.pivot(asked.rows, asked.columns, asked.scores))


def view_of_sweep(file: str, runs_dir: Path, asked: Asked) -> tuple[View, Plan]:
    """Return the results of a sweep, and its plan.

    Tuned values come from the runs.

    Raises:
        PhmrunError: (exit 2) The file is invalid; (exit 3) a run is damaged.
    """
    with unchanged():
        plan = recorded_plan(file, runs_dir, asked.only, asked.seeds)
        statuses = survey(plan, runs_dir)
    for status in statuses:
        if status.run is not None:
            status.run.require_intact()
    results = results_of(plan, statuses)
    return View(results, results.pivot(asked.rows, asked.columns, asked.scores), statuses), plan


def results_of(plan: Plan, statuses: Iterable[CellStatus]) -> Results:
    """Return the results of a sweep's cells, in their order.

    A paper's table keeps its shape.
    """
    entries = tuple(_entry(status) for status in statuses)
    keys = tuple(dict.fromkeys(key for entry in entries for key in entry.at if key != SEED))
    sweep, table, shape = plan.sweep, plan.sweep.table, None
    if table:
        groups = column_groups(table, sweep.file.columns)
        headings = paper_headings(table, groups if len(set(groups.values())) > 1 else {}, sweep.file.columns)
        shape = PaperShape(headings, [row.name for row in table.rows], sweep.file.reduced)
    measure = sweep.file.measure
    title = " – decided by ".join(filter(None, (sweep.title, measure)))
    return Results(entries, keys, title, measure, shape)


def paper_headings(table: PaperTable, groups: Mapping[str, str], only: Sequence[str] = ()) -> list[Heading]:
    """Return the columns of a paper's table with scores of ours.

    They are in its order, and have its printed cells.

    Args:
        table: The paper's table.
        groups: Column that holds the experiments of each heading; empty if there is only one.
        only: Columns to keep; all if empty.
    """
    headings = []
    for name, column in table.columns.items():
        if not column.score or (only and name not in only):
            continue
        cells = {row.name: row.published[name] for row in table.rows if name in row.published}
        where = {"column": groups[name]} if name in groups else {}
        headings.append(Heading(name, column.score, where, cells, column.signature, column.metric or "", column.factor))
    return headings


def _entry(status: CellStatus) -> Entry:
    """Return the table entry of a cell.

    Only finished runs have scores. The value that a replicate's seed chose is no setting of it. Missing checksums are
    taken from the run. A cell without a configuration has its labels only.
    """
    cell = status.cell
    run: Run | None = status.run if status.run and status.run.state == State.DONE else None
    if cell.config is None:
        return Entry(cell.labels, {}, run)
    config, settings = cell.config.model_dump(mode="json"), settings_of(cell.config)
    # A replicate samples the whole tuning procedure: the value that its seed chose is no setting. A script's keys are
    # below "settings".
    settings = {key: value for key, value in settings.items() if key.removeprefix("settings.") not in cell.own_choice}
    marks = cell.marks or (recorded_marks(status.run) if status.run else {})
    return Entry(
        cell.labels,
        config,
        run,
        settings,
        marks,
        baseline=cell.baseline,
        departs="; ".join(filter(None, (cell.departs, *cell.versions))),
        at_edge=cell.at_edge,
        chose_settings=cell.chose_settings,
        choices=cell.choices,
        diverged=status.diverged,
    )
