"""What a sweep, or some runs, have come to, as a table. Imports no torch."""

from collections.abc import Iterable, Mapping, Sequence

from phmrun.config.layering import OptionsOf
from phmrun.errors import PhmrunError
from phmrun.ledger.listing import RunSummary
from phmrun.ledger.run import State
from phmrun.results.entries import Entry, entry_of_run, recorded_marks, settings_of, telling_keys
from phmrun.results.printed import PrintedColumn
from phmrun.results.table import Heading, ResultTable, score_headings, tabulate
from phmrun.sweeps.cell_status import CellStatus
from phmrun.sweeps.paper_table import PaperTable
from phmrun.sweeps.plan import SEED, Plan, column_groups

Keys = Sequence[str]
COLUMN_KEYS = ("task", "data", "data.name")
"""Keys of a sweep whose values make columns unless asked otherwise: other data is another score."""


def table_of_sweep(
    plan: Plan, statuses: Iterable[CellStatus], *, rows: Keys = (), columns: Keys = (), scores: Keys = ()
) -> ResultTable:
    """The results of a sweep; of a paper's table in its shape, else the keys of the grid as rows.

    Other keys make a row or a column if they are named, and of every run only the scores named are shown.
    """
    entries = [_entry(status) for status in statuses]
    sweep, table, asked = plan.sweep, plan.sweep.table, plan.sweep.file.columns
    if table and not (rows or columns or scores):
        groups = column_groups(table, asked)
        headings = paper_headings(table, groups if len(set(groups.values())) > 1 else {}, asked)
        names = [row.name for row in table.rows]
        return tabulate(entries, ["row"], headings, title=sweep.title, rows=names, reduced=sweep.file.reduced)
    keys = list(dict.fromkeys(key for entry in entries for key in entry.at if key != SEED))
    return _pivot(entries, keys, rows, columns, scores, sweep.title)


def table_of_runs(
    runs: Iterable[RunSummary],
    *,
    rows: Keys = (),
    columns: Keys = (),
    scores: Keys = (),
    options_of: OptionsOf | None = None,
) -> ResultTable:
    """The results of some runs, by layer and by what else tells them apart; arguments as for :func:`table_of_sweep`."""
    entries = [entry_of_run(run, options_of) for run in runs]
    varied = [key for key in ("task", "data") if len({entry.label(key) for entry in entries}) > 1]
    return _pivot(entries, ["layer", *varied], rows, columns, scores, "")


def paper_headings(table: PaperTable, groups: Mapping[str, str], only: Sequence[str] = ()) -> list[Heading]:
    """Columns of a paper's table that are scores of ours, or those of them that are named.

    ``groups`` maps a heading to the column under which the sweep names its experiments; it is empty if there is one.
    """
    headings = []
    for name, column in table.columns.items():
        if not column.score or (only and name not in only):
            continue
        cells = {row.name: row.published[name] for row in table.rows if name in row.published}
        paper = PrintedColumn(cells, column.metric or "", column.signature, column.factor)
        scores = (column.score,) if isinstance(column.score, str) else tuple(column.score)
        headings.append(Heading(name, scores, {"column": groups[name]} if name in groups else {}, paper))
    return headings


def _pivot(entries: list[Entry], keys: Keys, rows: Keys, columns: Keys, scores: Keys, title: str) -> ResultTable:
    """A table whose rows and columns are those asked for, or else the keys of the sweep."""
    for key in (*rows, *columns):
        if not any(entry.label(key) for entry in entries):
            raise PhmrunError(
                f"no experiment has a value at {key!r}",
                where="--rows" if key in rows else "--cols",
                hint=f"A key is one of {', '.join([*keys, SEED])} or a dotted one of the configuration.",
            )
    told = {row.partition(".")[0] for row in rows}  # data.copies tells what the column data would
    across = list(columns) or [key for key in keys if key in COLUMN_KEYS and key not in told]
    down = list(rows) or [key for key in keys if key not in across] or ["layer"]
    down += telling_keys(entries, [*down, *across])
    return tabulate(entries, down, score_headings(entries, across, scores), title=title)


def _entry(status: CellStatus) -> Entry:
    """A cell; the scores of a run count once it is done."""
    cell = status.cell
    run = status.run if status.run and status.run.status and status.run.status.state is State.DONE else None
    if cell.config is None:
        return Entry(cell.labels, {}, run)
    config, settings = cell.config.model_dump(mode="json"), settings_of(cell.config)
    marks = cell.marks or (recorded_marks(run) if run else {})
    return Entry(cell.labels, config, run, settings, marks, cell.departs, cell.at_edge)
