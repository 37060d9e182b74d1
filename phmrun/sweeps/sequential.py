"""Group-sequential sweep: its design, fixed before the first look, and its verdicts so far.

Only the design is stored. The looks follow from the scores of the runs, in the order of the seeds. The design cannot
change after the first look, since the boundaries were computed for it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError
from phmrun.files import write_json
from phmrun.ledger.wording import row_name
from phmrun.metric import metric_of
from phmrun.results.baselines import has_diverged
from phmrun.results.comparison import best_floor, floor_scores, pairs
from phmrun.results.entries import Entry
from phmrun.results.horizons import HORIZON, with_turns
from phmrun.results.late_gain import late_gain, validation_curve
from phmrun.results.row_comparison import RowComparison
from phmrun.results.table import ResultTable
from phmrun.results.validations import at_equal_time
from phmrun.statistics.verdict import DECIDED, Judgement, Question, judge
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.cell_status import NOT_BEGUN, CellState, CellStatus
from phmrun.sweeps.file import Sweep
from phmrun.sweeps.selection import SEED

FILE = "design.json"
TRAVELS = "sweep.design"  # the design beside a sweep's file, in a folder of small results
FIRST = 5  # seeds of the first look


@dataclass(frozen=True)
class Row:
    """Row of a family."""

    label: str  # its varied values
    statuses: tuple[CellStatus, ...]  # its cells, in the order of the seeds
    dense: bool  # True if it is the baseline of the others


@dataclass(frozen=True)
class Family:
    """Rows that are compared with the same dense row."""

    key: tuple[str, str]  # their task, data and multiple of the length of training; and that length
    label: str  # the first part of the key, and the length if several families share that part
    baseline: Row | None  # dense row; ``None`` if there is none, so that nothing can be decided
    rows: tuple[Row, ...]  # the other rows


Sizes = Mapping[tuple[str, str], int]  # number of rows that share the level, by the key of their family


@dataclass(frozen=True)
class Known:
    """State of a row after the looks so far.

    Attributes:
        family: Label of its family.
        score: Name of the score that its family is compared by; empty before the first run.
        row: The row.
        comparison: Its comparison with the dense row.
        scores: Scores of its counted seeds, up to the first missing one; NaN if diverged.
    """

    family: str
    score: str
    row: Row
    comparison: RowComparison
    scores: tuple[float, ...]

    @property
    def judgement(self) -> Judgement:
        """Verdict with its interval."""
        return self.comparison.judgement

    @property
    def open(self) -> bool:
        """True if the row is undecided and a planned look is left."""
        return self.comparison.open

    @property
    def looked_at(self) -> int:
        """Seeds at the deciding or last look.

        If the verdict names no look, it is the last one that the row's scores reach; 0 before the first.
        """
        shown = self.judgement.difference
        if shown is not None and shown.look is not None:
            return shown.look
        return reached(self.comparison.question.looks, len(self.scores))


@dataclass(frozen=True)
class Terms:
    """Design of a sweep, fixed before the first look, and kept in its folder."""

    max_seeds: int  # maximum of seeds of a row
    margin: float | None = None  # δ; ``None``: the default of the score; 0: test for differences only

    def question(self, score: str, dropped: int = 0) -> Question:
        """Return the question on a score, with its direction and margin.

        A margin of ``None`` is the metric's; 0 becomes ``None``. The looks are those of :func:`planned_looks` for the
        counted seeds.

        Args:
            score: Name of the score.
            dropped: Seeds of a row that chose its settings and are not counted.
        """
        metric = metric_of(score)
        margin = metric.margin if self.margin is None else self.margin
        return Question(margin or None, metric.lower_is_better, looks=planned_looks(self.max_seeds - dropped))


def planned_seeds(terms: Terms, sweep: Sweep) -> int:
    """Return the number of seeds of each row in a sequential sweep's plan.

    It is the maximum; with replicates, one more for the pilot.
    """
    return terms.max_seeds + int(sweep.file.replicates)


def planned_looks(most: int) -> tuple[int, ...]:
    """Return the number of seeds at each look, ascending.

    The first look is at 5 seeds, or at ``most`` if fewer. Others follow in steps of two; the last is at ``most``.
    """
    return (*range(min(FIRST, most), most, 2), most)


def reached(looks: Sequence[int], *counts: int) -> int:
    """Return the last look that all these counts reach.

    A look is a number of seeds; the result is 0 before the first.
    """
    return max((look for look in looks if look <= min(counts)), default=0)


def kept_terms(folder: Path, file: str | None = None) -> Terms | None:
    """Return the recorded terms.

    They are in ``design.json`` in the sweep's folder, else in ``sweep.design`` beside the sweep's ``file``, if given.
    The result is ``None`` if there are none.

    Raises:
        PhmrunError: (exit 2) The record is damaged.
    """
    beside = [Path(file).parent / TRAVELS] if file else []
    for path in (folder / FILE, *beside):
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
            margin = content["margin"]
            return Terms(int(content["max_seeds"]), None if margin is None else float(margin))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise PhmrunError(f"the design of the sweep cannot be read: {error}", where=str(path)) from error
    return None


def write_design(folder: Path, terms: Terms, statuses: Sequence[CellStatus]) -> Path:
    """Write a sweep's design to ``sweep.design`` in a folder, and return the path.

    The folder holds small results, and the design travels with them. Keys: max_seeds, margin, level, looks (numbers of
    counted seeds), rows (the most of any family, without its dense row).
    """
    dropped = int(any(status.cell.chose_settings for status in statuses))
    question = terms.question(main_score(statuses), dropped)
    rows = max((len(family.rows) for family in families(statuses)), default=0)
    facts = {"max_seeds": terms.max_seeds, "margin": terms.margin}
    write_json(folder / TRAVELS, {**facts, "level": question.level, "looks": list(question.looks), "rows": rows})
    return folder / TRAVELS


def terms_of(
    folder: Path, max_seeds: int | None, margin: float | None, seeds: int | None, file: str | None = None
) -> Terms | None:
    """Return the recorded terms of a sweep, else the requested ones.

    ``None`` if none are recorded and ``max_seeds`` is None: the sweep is not sequential. A request of ``None`` agrees
    with any record. Nothing is written.

    Args:
        folder: The sweep's folder.
        max_seeds: Requested maximum of seeds of a row.
        margin: Requested margin.
        seeds: Number of seeds set by the user; must be None if terms are recorded, and is not used otherwise.
        file: The sweep's file; a design may lie beside it.

    Raises:
        PhmrunError: (exit 2) The request differs from the record, the record is damaged, or ``seeds`` is set although
            terms are recorded.
    """
    kept = kept_terms(folder, file)
    if kept is None:
        return None if max_seeds is None else Terms(max_seeds, margin)
    if seeds is not None:
        raise PhmrunError("the seeds of this sweep were chosen by --until-decided", where="--seeds")
    asked = Terms(kept.max_seeds if max_seeds is None else max_seeds, kept.margin if margin is None else margin)
    if asked != kept:
        raise _fixed_before(kept, folder)
    return kept


def fix_terms(folder: Path, asked: Terms, file: str | None = None) -> None:
    """Record the terms of a sweep before its first look.

    They are written to ``design.json`` in the sweep's folder, unless the same are on record. Keys: max_seeds, margin.

    Raises:
        PhmrunError: (exit 2) Other terms are on record, or the record is damaged.
    """
    kept = kept_terms(folder, file)
    if kept is None:
        write_json(folder / FILE, asdict(asked))
    elif kept != asked:
        raise _fixed_before(kept, folder)


def _fixed_before(kept: Terms, folder: Path) -> PhmrunError:
    """Return the error for terms that differ from the recorded ones.

    It names the recorded options, and the file to remove.
    """
    before = f"--max-seeds {kept.max_seeds}" + (f" --margin {kept.margin:g}" if kept.margin is not None else "")
    return PhmrunError(
        f"the design of this sweep was fixed before its first look: {before}",
        where="--until-decided",
        hint=f"Another one would look at the same runs twice. To begin anew, remove {folder / FILE}.",
    )


def families(statuses: Iterable[CellStatus]) -> list[Family]:
    """Group the rows of a sweep by task, data and length of training.

    The length is the multiple of ``horizons``, and the configured steps and epochs, or the budget of time. Groups and
    their rows are in the order of their first cells. A row has cells that differ in the seed only, sorted
    by it. The first dense row of a group is its baseline, ``None`` without one; further dense rows stay among the
    others.
    """
    rows: dict[tuple[str, str], dict[tuple[tuple[str, str], ...], list[CellStatus]]] = {}
    for status in statuses:
        entry = _entry(status.cell)
        multiple = f"{HORIZON} {status.cell.labels[HORIZON]}" if HORIZON in status.cell.labels else ""
        family = " ".join(filter(None, (entry.label("task"), entry.label("data"), multiple)))
        rows.setdefault((family, entry.length), {}).setdefault(status.cell.row, []).append(status)
    names = [family for family, _ in rows]
    grouped = []
    for key, by_labels in rows.items():
        family = key[0] if names.count(key[0]) == 1 else " ".join(key)
        members = []
        for labels, cells in by_labels.items():
            ordered = sorted(cells, key=lambda status: int(status.cell.at[SEED]))
            members.append(Row(row_name(dict(labels)), tuple(ordered), _entry(cells[0].cell).is_baseline))
        baseline = next((row for row in members if row.dense), None)
        grouped.append(Family(key, family, baseline, tuple(row for row in members if row is not baseline)))
    return grouped


def known(statuses: Sequence[CellStatus], terms: Terms, sizes: Sizes | None = None) -> list[Known]:
    """Return the state of each row compared with a dense row.

    Rows are in the order of :func:`families`; those of a family are judged together, by the main score of its runs.
    Seeds that chose settings are not
    counted. A row is open if it is not decided, and it or the dense row has not reached the last look. Rows of a family
    without a dense row are left out, as are the dense rows themselves.

    Args:
        statuses: Cells of the sweep.
        terms: Its design.
        sizes: Rows of each family that share the level, by its key, where ``statuses`` are a selection; by default
            those of ``statuses``.
    """
    compared = []
    for family in families(statuses):
        if family.baseline is None:
            continue
        score = main_score(status for row in (family.baseline, *family.rows) for status in row.statuses)
        shared = max(len(family.rows), (sizes or {}).get(family.key, 0))
        dropped = max(len(row.statuses) - len(counted_seeds(row)) for row in (family.baseline, *family.rows))
        question = terms.question(score, dropped)
        cells = [status.cell for row in (family.baseline, *family.rows) for status in row.statuses]
        base = scores_of(family.baseline)
        values = {str(place): scores_of(row) for place, row in enumerate(family.rows)}
        floors = floor_scores(family.baseline.statuses, score) if score else {}
        judged = judge(values, base, question, floors=list(floors.values()), rows=shared)
        best = best_floor(floors, lower_is_better=question.lower_is_better)
        for place, row in enumerate(family.rows):
            judgement, scores = judged[str(place)], values[str(place)]
            seen = reached(question.looks, len(scores), len(base))
            is_open = judgement.verdict not in DECIDED and seen < question.looks[-1]
            comparison = RowComparison(
                judgement, question, shared, best, dropped, is_open, max(cell.choices for cell in cells)
            )
            compared.append(Known(family.label, score, row, comparison, tuple(scores)))
    return compared


def family_sizes(statuses: Iterable[CellStatus]) -> Sizes:
    """Return the number of rows that share the level in each family, by its key, without the dense row."""
    return {family.key: len(family.rows) for family in families(statuses)}


def wanted(statuses: Sequence[CellStatus], terms: Terms, sizes: Sizes | None = None) -> list[CellStatus]:
    """Return the unfinished cells up to the next look.

    They are of open rows, each up to its next look, and of their baselines, up to the furthest. In each family, the
    baseline's come first. Families without a baseline have none. Cells of any state but done are unfinished, also
    failed ones; diverged ones are left out. ``sizes`` is that of :func:`known`.
    """
    chosen: list[CellStatus] = []
    judged = known(statuses, terms, sizes)
    for family in families(statuses):
        if family.baseline is None:
            continue
        still_open = [row for row in judged if row.family == family.label and row.open]
        if not still_open:
            continue
        looks = still_open[0].comparison.question.looks
        base = len(scores_of(family.baseline))
        nexts = [next(look for look in looks if look > reached(looks, len(row.scores), base)) for row in still_open]
        chosen += counted_seeds(family.baseline)[: max(nexts)]
        for row, look in zip(still_open, nexts, strict=True):
            chosen += counted_seeds(row.row)[:look]
    return [status for status in chosen if status.state is not CellState.DONE and not status.diverged]


def replayed(table: ResultTable, statuses: Sequence[CellStatus], terms: Terms) -> dict[tuple[int, int], RowComparison]:
    """Return the sequential comparisons by row and column of a table.

    A cell of the table has that of its first run; only columns of the main score have them, and no dense cell. The
    dense cell's gain at the end of training, its budget, validations at equal time, and turns between lengths are
    added. ``statuses`` are all cells of the sweep, since rows outside the table share the level, too.
    """
    compared: dict[tuple[int, int], RowComparison] = {}
    by_run = {
        (status.run.id, row.score): row.comparison
        for row in known(statuses, terms)
        for status in row.row.statuses
        if status.run
    }
    for row, figures in enumerate(table.figures):
        for column, figure in enumerate(figures):
            first = next((entry.run.id for entry in figure.entries if entry.run), "")
            if (looked := by_run.get((first, table.headings[column].scores[0]))) is not None:
                compared[row, column] = looked
    for place, figure, dense, score in pairs(table):
        if place in compared:
            gain = late_gain(*validation_curve(dense, score), compared[place].question.margin)
            equal = at_equal_time(figure, dense, score)
            compared[place] = replace(compared[place], late_gain=gain, equal_time=equal, budget=dense.budget)
    return with_turns(table, compared)


def without_spared(statuses: Sequence[CellStatus], terms: Terms) -> list[CellStatus]:
    """Return the cells without those that no look needs.

    Only missing and queued cells are left out; the others stay, whether needed or not.
    """
    needed = {id(status) for status in wanted(statuses, terms)}
    return [status for status in statuses if status.state not in NOT_BEGUN or id(status) in needed]


def counted_seeds(row: Row) -> list[CellStatus]:
    """Return the cells of a row that count, by seed.

    Those whose seed chose the row's settings are left out.
    """
    return [status for status in row.statuses if not status.cell.chose_settings]


def scores_of(row: Row) -> list[float]:
    """Return the main scores of a row's counted, done runs by seed.

    They end before the first missing one. A seed that diverged, or whose score is worse than the divergence floor, is
    NaN.
    """
    values = []
    for status in counted_seeds(row):
        run = status.run if status.state is CellState.DONE else None
        name = run.main_score if run else None
        value = run.score(name) if run and name else None
        if value is None and not status.diverged:
            break
        values.append(math.nan if value is None or has_diverged(run, name or "") else value)
    return values


def main_score(statuses: Iterable[CellStatus]) -> str:
    """Return the main score of the first run that has one.

    Else, the result is an empty text.
    """
    names = (status.run.main_score for status in statuses if status.run is not None)
    return next((name for name in names if name), "")


def _entry(cell: Cell) -> Entry:
    """Return a cell's configuration and checksums as an entry without a run.

    The configuration is empty if the cell has none.
    """
    config: Mapping[str, object] = cell.config.model_dump(mode="json") if cell.config else {}
    return Entry({}, config, None, marks=cell.marks, baseline=cell.baseline, budget=cell.budget)
