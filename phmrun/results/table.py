"""Table of scores: rows, columns, and one value per seed in each cell.

Imports no torch.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from phmrun.errors import PhmrunError, unknown
from phmrun.ledger.listing import score_names
from phmrun.ledger.scores import TIMES, signature_of
from phmrun.ledger.wording import row_name
from phmrun.papers.published import Printed
from phmrun.results.entries import Entry, require_seeds
from phmrun.statistics.welch import deviation_of

BUILTIN = "builtin"
MISSING = "–"
REDUCED = "‡"
TEST_LOSS = "test/loss"


@dataclass(frozen=True)
class Heading:
    """Column of a table.

    Attributes:
        name: Text of the heading.
        score: Name of the score that it shows.
        where: Values by key of the column's experiments.
        printed: A paper's cells by row; ``None`` if the column is of no paper.
        signature: The paper's settings as parts of our signatures; empty if not stated.
        measured: Metric and settings of the paper, for readers.
        factor: Factor on our score: 100 for seconds per 100 steps.
    """

    name: str
    score: str
    where: Mapping[str, str] = field(default_factory=dict)
    printed: Mapping[str, str] | None = None
    signature: str = ""
    measured: str = ""
    factor: float = 1.0


@dataclass(frozen=True)
class Figure:
    """Cell of a table: the seeds of one experiment, with their values of one score."""

    score: str  # name of the score
    entries: tuple[Entry, ...]  # its experiments, also those without a score
    values: tuple[float, ...]  # one per run that has the score
    signatures: tuple[str, ...]  # signatures of the score; several if runs differ
    printed: str | None  # the paper's cell as printed
    published: float | None  # the paper's number; ``None`` if it prints none
    comparable: bool  # True if the paper's score has the same signature and settings
    factor: float = 1.0  # factor of its column on the score, as in ``values``

    @cached_property
    def mean(self) -> float | None:
        """Mean over runs; ``None`` without runs."""
        return fmean(self.values) if self.values else None

    @cached_property
    def deviation(self) -> float | None:
        """Sample standard deviation over runs; ``None`` for fewer than two, or if a score is not finite."""
        return deviation_of(self.values)

    @property
    def delta(self) -> float | None:
        """Mean minus the published number; ``None`` if either is missing."""
        return None if self.mean is None or self.published is None else self.mean - self.published

    @property
    def text(self) -> str:
        """Mean ± deviation with two decimals, the former alone for a single value; "–" without values."""
        if self.mean is None:
            return MISSING
        return rounded(self.mean) + ("" if self.deviation is None else f" ± {rounded(self.deviation)}")

    @cached_property
    def lengths(self) -> tuple[str, ...]:
        """Distinct training lengths of its runs, diverged ones included, sorted as text."""
        return tuple(sorted({entry.length for entry in self.entries if entry.run or entry.diverged}))

    @cached_property
    def data(self) -> set[str]:
        """Distinct texts "TASK DATA" of its experiments."""
        return {f"{entry.label('task')} {entry.label('data')}" for entry in self.entries}

    @cached_property
    def has_ended(self) -> bool:
        """True if a seed has the score, or has diverged."""
        return bool(self.values) or any(entry.diverged for entry in self.entries)


@dataclass(frozen=True)
class ResultTable:
    """Table of results: rows times columns."""

    title: str
    keys: tuple[str, ...]  # keys of the rows
    headings: tuple[Heading, ...]  # its columns
    rows: tuple[tuple[str, ...], ...]  # labels of each row, one per key
    figures: tuple[tuple[Figure, ...], ...]  # cells of each row, one per column
    reduced: str = ""  # how the settings are smaller than the paper's; empty if they are equal

    @cached_property
    def names(self) -> list[str]:
        """Names of the rows, made of their keys: "phm n=4, lr 0.006"."""
        return [row_name(dict(zip(self.keys, labels, strict=True))) for labels in self.rows]

    @cached_property
    def cells(self) -> dict[tuple[int, int], Figure]:
        """Cells by row and column."""
        return {(row, column): cell for row, line in enumerate(self.figures) for column, cell in enumerate(line)}

    def entries(self, row: int | None = None) -> list[Entry]:
        """Return the experiments of a row by its index, or of all rows; each once."""
        lines = self.figures if row is None else [self.figures[row]]
        return list({id(entry): entry for line in lines for figure in line for entry in figure.entries}.values())

    def parameters(self, row: int, column: int | None = None) -> tuple[int, ...]:
        """Return the distinct parameter counts of a row's networks, or of one of its cells, ascending."""
        entries = self.entries(row) if column is None else self.cells[row, column].entries
        counts = {entry.run.about("parameters") for entry in entries if entry.run}
        return tuple(sorted(count for count in counts if isinstance(count, int)))

    def under(self, column: int) -> str:
        """Return ", NAME" with a column's name if there are several columns, else an empty text."""
        return f", {self.headings[column].name}" if len(self.headings) > 1 else ""


def tabulate(
    entries: Sequence[Entry],
    keys: Sequence[str],
    headings: Sequence[Heading],
    *,
    title: str = "",
    rows: Sequence[str] | None = None,
    reduced: str = "",
) -> ResultTable:
    """Return the table of experiments.

    Each cell holds the seeds of one experiment. Rows are those of a paper in its order, if any, then others in the
    order of their first experiments. The checksums of all runs are checked first. A row whose experiments depart from
    the paper's network says so in its last label. A paper's table with the built-in corpus is marked as reduced.

    Args:
        entries: The experiments.
        keys: Keys of the rows, of the sweep or dotted ones of the configuration.
        headings: The columns.
        title: Title of the table.
        rows: Rows of a paper's table, shown even if empty.
        reduced: How the settings are smaller than the paper's; empty if they are equal.

    Raises:
        PhmrunError: (exit 2) A cell holds more than one experiment; (exit 3) a run's file differs from its manifest.
    """
    for entry in entries:
        if entry.run is not None:
            entry.run.require_unbroken()
    groups: dict[tuple[str, ...], list[Entry]] = {(name,): [] for name in rows or ()}
    for entry in entries:
        groups.setdefault(tuple(entry.label(key) for key in keys), []).append(entry)
    figures, shown = [], []
    for labels, members in groups.items():
        departures = "; ".join(dict.fromkeys(entry.departs for entry in members if entry.departs))
        shown.append((*labels[:-1], f"{labels[-1]} ({departures})" if departures else labels[-1]))
        figures.append(tuple(_figure(heading, members, labels[0], reduced) for heading in headings))
    short = reduced or ("on the built-in corpus" if rows is not None and _made_up(entries) else "")
    return ResultTable(title, tuple(keys), tuple(headings), tuple(shown), tuple(figures), short)


def score_headings(
    entries: Sequence[Entry], keys: Sequence[str], scores: Sequence[str], measure: str = ""
) -> list[Heading]:
    """Return the columns: values of keys times scores.

    They are in order of first appearance among experiments. Without ``scores``, each experiment's main score counts,
    and its loss on the test set if no scored run lacks it, as older ones do; ``measure``, the score that decides, goes
    first. A heading is the keys' values, then the score.

    Raises:
        PhmrunError: (exit 2) No run has one of the scores. Times, which may be measured later, are not checked, nor
            anything if there are no scores at all.
    """
    runs = [entry.run for entry in entries if entry.run]
    existing = score_names(runs)
    for score in scores:
        if existing and score not in existing and score not in TIMES:
            raise unknown("score", score, existing, where="--score")
    second = [TEST_LOSS] if all(run.score(TEST_LOSS) is not None for run in runs if run.main_score) else []
    columns = dict.fromkeys(
        (tuple(entry.label(key) for key in keys), score)
        for entry in entries
        if (run := entry.run)
        for score in scores or (name for name in (measure, run.main_score, *second) if name and name in run.scores())
    )
    return [
        Heading(" ".join([*filter(None, labels), score]), score, dict(zip(keys, labels, strict=True)))
        for labels, score in columns
    ]


def _figure(heading: Heading, entries: Iterable[Entry], row: str, reduced: str) -> Figure:
    """Return the cell of a row's experiments under a heading.

    Experiments that share a run count once. Scores are multiplied by the paper column's factor. The cell is comparable
    if the paper states a signature, all of ours (if any) have its parts, and neither settings nor data are reduced.

    Raises:
        PhmrunError: (exit 2) The experiments are not seeds of one.
    """
    chosen = tuple(e for e in entries if all(e.label(key) == value for key, value in heading.where.items()))
    require_seeds(chosen, heading.name)
    # Experiments that share a run count as one seed; each one without a run is a planned seed.
    chosen = tuple({entry.run.id if entry.run else id(entry): entry for entry in chosen}.values())
    score, printed, published = heading.score, (heading.printed or {}).get(row), None
    with suppress(PhmrunError):
        published = float(Printed.parse(printed or "").amount)
    scored = [(entry.run, value) for entry in chosen if entry.run and (value := entry.run.score(score)) is not None]
    values = tuple(value * heading.factor for _, value in scored)
    signatures = tuple(dict.fromkeys(signature_of(run.entry(score)) for run, _ in scored))
    agree = bool(heading.signature) and all(
        {*heading.signature.split("|")} <= {*signature.split("|")} for signature in signatures
    )
    comparable = agree and not reduced and not _made_up(chosen)
    return Figure(score, chosen, values, signatures, printed, published, comparable, heading.factor)


def _made_up(entries: Iterable[Entry]) -> bool:
    """True if any experiment uses the built-in corpus."""
    return any(entry.label("data") == BUILTIN for entry in entries)


def rounded(value: float) -> str:
    """Return a score with two decimals; "nan", "inf" or "-inf" if it is not finite."""
    return f"{value:.2f}" if math.isfinite(value) else str(value)
