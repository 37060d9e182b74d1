"""A sweep that stops when it is decided: its design, fixed before the first look, and what is known so far.

Nothing but the design is remembered: what has been looked at follows from the scores of the runs, in the order of the
seeds. A design cannot be changed once a look is possible, since its boundaries were drawn for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError
from phmrun.files import write_json
from phmrun.ledger.wording import row_name
from phmrun.metric import metric_of
from phmrun.results.entries import Entry
from phmrun.results.table import ResultTable
from phmrun.statistics.decision import Verdict, detectable
from phmrun.statistics.hierarchical import compare_scores
from phmrun.statistics.sequential import Decision, Design, Looked, decisions, looked_at
from phmrun.sweeps.cell_status import NOT_BEGUN, CellState, CellStatus
from phmrun.sweeps.plan import SEED, Cell

FILE = "design.json"


@dataclass(frozen=True)
class Row:
    """One row of a family."""

    label: str  # what tells it from the others
    statuses: tuple[CellStatus, ...]  # its cells by seed, in the order of the seeds
    dense: bool  # whether it is what the others are compared with


@dataclass(frozen=True)
class Family:
    """The rows that are compared with one dense row."""

    label: str  # their task and data
    baseline: Row | None  # the dense row; ``None``: there is none, and nothing can be decided
    rows: tuple[Row, ...]  # the others


@dataclass(frozen=True)
class Known:
    """What is known of a row."""

    family: str  # its family's label
    row: Row
    decision: Decision  # by the looks so far
    scores: tuple[float, ...]  # of its seeds, in their order; those after a missing one are not counted
    open: bool  # whether further seeds are of use
    looked: Looked  # the same for a table


@dataclass(frozen=True)
class Terms:
    """What is fixed before the first look; kept in the sweep's folder."""

    max_seeds: int  # of a row
    # δ as it was asked for; ``None``: the usual one of the score; 0: only differences are sought
    margin: float | None = None

    def design(self, score: str) -> Design:
        """The design for a score, whose name says direction and usual margin."""
        metric = metric_of(score)
        margin = metric.margin if self.margin is None else self.margin
        return Design(max_seeds=self.max_seeds, margin=margin or None, lower_is_better=metric.lower_is_better)


def kept_terms(folder: Path) -> Terms | None:
    """The terms of a sweep that was begun; ``None``: it was not. Refuses a damaged record."""
    path = folder / FILE
    try:
        return Terms(**parse_json(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise PhmrunError(f"the design of the sweep cannot be read: {error}", where=str(path)) from error


def terms_of(folder: Path, max_seeds: int | None, margin: float | None, seeds: int | None) -> Terms | None:
    """The terms by which a sweep was stopped, on record or asked for; ``None``: it was not.

    Refuses others than those on record, and another number of ``seeds``.
    """
    kept = kept_terms(folder)
    if kept is None:
        return None if max_seeds is None else Terms(max_seeds, margin)
    if seeds is not None:
        raise PhmrunError("the seeds of this sweep were chosen by --until-decided", where="--seeds")
    asked = Terms(kept.max_seeds if max_seeds is None else max_seeds, kept.margin if margin is None else margin)
    if asked != kept:
        raise _fixed_before(kept, folder)
    return kept


def fix_terms(folder: Path, asked: Terms) -> None:
    """Keeps the terms of a sweep before its first look; refuses others than those on record."""
    kept = kept_terms(folder)
    if kept is None:
        write_json(folder / FILE, asdict(asked))
    elif kept != asked:
        raise _fixed_before(kept, folder)


def _fixed_before(kept: Terms, folder: Path) -> PhmrunError:
    before = f"--max-seeds {kept.max_seeds}" + (f" --margin {kept.margin:g}" if kept.margin is not None else "")
    return PhmrunError(
        f"the design of this sweep was fixed before its first look: {before}",
        where="--until-decided",
        hint=f"Another one would look at the same runs twice. To begin anew, remove {folder / FILE}.",
    )


def families(statuses: Iterable[CellStatus]) -> list[Family]:
    """The rows of a sweep by task and data."""
    rows: dict[str, dict[tuple[tuple[str, str], ...], list[CellStatus]]] = {}
    for status in statuses:
        entry = _entry(status.cell)
        family = " ".join(filter(None, (entry.label("task"), entry.label("data"))))
        labels = tuple((key, text) for key, text in status.cell.labels.items() if key != SEED)
        rows.setdefault(family, {}).setdefault(labels, []).append(status)
    found = []
    for family, by_labels in rows.items():
        made = []
        for labels, each in by_labels.items():
            ordered = sorted(each, key=lambda status: int(status.cell.at[SEED]))
            made.append(Row(row_name(dict(labels)), tuple(ordered), _entry(each[0].cell).dense))
        baseline = next((row for row in made if row.dense), None)
        found.append(Family(family, baseline, tuple(row for row in made if row is not baseline)))
    return found


def known(statuses: Sequence[CellStatus], terms: Terms) -> list[Known]:
    """What is known of every row but the dense ones."""
    design = terms.design(main_score(statuses))
    found = []
    for family in families(statuses):
        if family.baseline is None:
            continue
        base = scores_of(family.baseline)
        values = [scores_of(row) for row in family.rows]
        made = decisions(design, values, base)
        for row, scores, decision in zip(family.rows, values, made, strict=True):
            seen = looked_at(design, len(scores), len(base))
            is_open = decision.verdict is Verdict.UNDECIDED and seen < design.max_seeds
            # Only of the seeds at the look that decided, or else at the last: later scores had no part in the decision.
            shown = compare_scores(scores[: decision.seeds], base[: decision.seeds], paired=False)
            least = detectable(shown, design.level / len(family.rows)) if shown else None
            looked = Looked(decision, design, shown.value if shown else None, least, is_open)
            found.append(Known(family.label, row, decision, tuple(scores), is_open, looked))
    return found


def wanted(statuses: Sequence[CellStatus], terms: Terms) -> list[CellStatus]:
    """The cells to run until the next look: of the rows that are open, and of what they are compared with."""
    looks = terms.design("").looks
    chosen: list[CellStatus] = []
    for family in families(statuses):
        if family.baseline is None:
            continue
        everything = [status for row in (family.baseline, *family.rows) for status in row.statuses]
        still_open = [each for each in known(everything, terms) if each.open]
        if not still_open:
            continue
        nexts = [next(look for look in looks if look > each.decision.seeds) for each in still_open]
        chosen += family.baseline.statuses[: max(nexts)]
        for each, look in zip(still_open, nexts, strict=True):
            chosen += each.row.statuses[:look]
    return [status for status in chosen if status.state is not CellState.DONE]


def replayed(table: ResultTable, statuses: Sequence[CellStatus], terms: Terms) -> dict[tuple[int, int], Looked]:
    """The decisions of the looks so far, by row and column of a table; of the score that decides alone.

    ``statuses`` are all cells of the sweep: those that the table leaves out have their share of the level, too.
    """
    score, found = main_score(statuses), {}
    by_run = {each.run.id: one.looked for one in known(statuses, terms) for each in one.row.statuses if each.run}
    for row, figures in enumerate(table.figures):
        for column, figure in enumerate(figures):
            runs = [entry.run.id for entry in figure.entries if entry.run]
            if table.headings[column].scores[0] == score and runs and runs[0] in by_run:
                found[row, column] = by_run[runs[0]]
    return found


def without_spared(statuses: Sequence[CellStatus], terms: Terms) -> list[CellStatus]:
    """The cells without the seeds that nobody needs any more."""
    needed = {id(status) for status in wanted(statuses, terms)}
    return [status for status in statuses if status.state not in NOT_BEGUN or id(status) in needed]


def scores_of(row: Row) -> list[float]:
    """The scores of a row's seeds in their order, up to the first that is missing."""
    values = []
    for status in row.statuses:
        run = status.run if status.state is CellState.DONE else None
        name = run.main_score if run else None
        value = run.score(name) if run and name else None
        if value is None:
            break
        values.append(value)
    return values


def main_score(statuses: Iterable[CellStatus]) -> str:
    """The name of the score that decides, the main one of the runs; empty before there is one."""
    names = (status.run.main_score for status in statuses if status.run is not None)
    return next((name for name in names if name), "")


def _entry(cell: Cell) -> Entry:
    config: Mapping[str, object] = cell.config.model_dump(mode="json") if cell.config else {}
    return Entry({}, config, None, marks=cell.marks)
