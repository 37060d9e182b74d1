"""Table of scores: rows, columns, and one score per seed in each cell.

Imports no torch.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean, median, stdev
from typing import NamedTuple

from phmrun.errors import PhmrunError, unknown
from phmrun.ledger.listing import score_names
from phmrun.ledger.recorded_run import TIMES, RecordedRun
from phmrun.ledger.wording import row_name
from phmrun.metric import metric_of
from phmrun.results.entries import Entry, require_seeds
from phmrun.results.printed import Printed, PrintedColumn

Aggregate = Callable[[Sequence[float]], float]
AGGREGATES: Mapping[str, Aggregate] = {"mean": fmean, "median": median, "best": max, "worst": min}
BUILTIN = "builtin"


@dataclass(frozen=True)
class Heading:
    """Column of a table."""

    name: str  # text of the heading
    scores: tuple[str, ...]  # names of the scores that it shows
    where: Mapping[str, str] = field(default_factory=dict)  # values by key of the column's experiments
    published: PrintedColumn | None = None  # the paper's column, if any


@dataclass(frozen=True)
class Numbers:
    """Values of one score of a cell, one per seed."""

    values: tuple[float, ...]  # one per run that has the score
    signatures: tuple[str, ...]  # signatures of the score; several if runs differ
    published: float | None  # the paper's number; ``None`` if it prints none
    lower_is_better: bool = False  # direction of the score

    @property
    def mean(self) -> float | None:
        """Mean over runs; ``None`` without runs."""
        return fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over runs; ``None`` for fewer than two."""
        return stdev(self.values) if len(self.values) > 1 else None

    def aggregate(self, how: str) -> float | None:
        """Return the "mean", "median", "best" or "worst" value.

        The best is the smallest if lower is better. The result is ``None`` without values.

        Raises:
            KeyError: There is no such aggregate.
        """
        opposite = {"best": "worst", "worst": "best"} if self.lower_is_better else {}
        return AGGREGATES[opposite.get(how, how)](self.values) if self.values else None

    @property
    def delta(self) -> float | None:
        """Mean minus the published number; ``None`` if either is missing."""
        return None if self.mean is None or self.published is None else self.mean - self.published


@dataclass(frozen=True)
class Figure:
    """Cell of a table."""

    numbers: tuple[Numbers, ...]  # one per score of the column
    entries: tuple[Entry, ...]  # its experiments, also those without a score
    comparable: bool = False  # True if the paper's scores have the same signature and settings
    printed: str | None = None  # the paper's cell as printed

    @property
    def parameters(self) -> tuple[int, ...]:
        """Distinct parameter counts of its runs' networks, ascending."""
        return parameters_of(self.entries)

    @property
    def lengths(self) -> tuple[str, ...]:
        """Distinct training lengths of its runs, diverged ones included, sorted as text."""
        return tuple(sorted({entry.length for entry in self.entries if entry.run or entry.diverged}))

    @property
    def runs(self) -> int:
        """Number of seeds that have every score; 0 without scores."""
        return min((len(number.values) for number in self.numbers), default=0)

    @property
    def has_ended(self) -> bool:
        """True if a seed has every score, or has diverged."""
        return self.runs > 0 or any(entry.diverged for entry in self.entries)


@dataclass(frozen=True)
class ResultTable:
    """Table of results: rows times columns."""

    title: str  # its title
    keys: tuple[str, ...]  # keys of the rows
    headings: tuple[Heading, ...]  # its columns
    rows: tuple[tuple[str, ...], ...]  # labels of each row, one per key
    figures: tuple[tuple[Figure, ...], ...]  # cells of each row, one per column
    parameters: tuple[tuple[int, ...], ...]  # parameter counts of each row; several if they differ
    reduced: str = ""  # how the settings are smaller than the paper's; empty if they are equal

    @property
    def names(self) -> list[str]:
        """Names of the rows, made of their keys: "phm n=4, lr 0.006"."""
        return [row_name(dict(zip(self.keys, labels, strict=True))) for labels in self.rows]

    def entries(self, row: int) -> list[Entry]:
        """Return the experiments of all cells of a row, by its index.

        Each occurs once, also if several cells show its scores.
        """
        return list({id(entry): entry for figure in self.figures[row] for entry in figure.entries}.values())


class Effect(NamedTuple):
    """Difference of a row from dense, as plots and pages show it."""

    label: str  # name of the row
    value: float  # difference of its score
    low: float  # lower end of its 95 % interval
    high: float  # upper end
    seeds: int  # number of seeds
    different: bool  # True if the verdict is "different"


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
    groups: dict[tuple[str, ...], list[Entry]] = {}
    if rows is not None:
        groups = {(name,): [] for name in rows}
    for entry in entries:
        groups.setdefault(tuple(entry.label(key) for key in keys), []).append(entry)
    figures, parameters, shown = [], [], []
    for labels, members in groups.items():
        departures = dict.fromkeys(entry.departs for entry in members if entry.departs)
        shown.append((*labels[:-1], f"{labels[-1]} ({'; '.join(departures)})" if departures else labels[-1]))
        figures.append(tuple(_figure(heading, members, labels[0], reduced) for heading in headings))
        parameters.append(parameters_of(members))
    short = reduced or (_made_up(entries) if rows is not None else "")
    return ResultTable(title, tuple(keys), tuple(headings), tuple(shown), tuple(figures), tuple(parameters), short)


def score_headings(entries: Sequence[Entry], keys: Sequence[str], scores: Sequence[str]) -> list[Heading]:
    """Return the columns: values of keys times scores.

    They are in order of first appearance among experiments. Without ``scores``, each experiment's main score counts. A
    heading is the keys' values, then the score.

    Raises:
        PhmrunError: (exit 2) No run has one of the scores. Times, which may be measured later, are not checked, nor
            anything if there are no scores at all.
    """
    existing = score_names([entry.run for entry in entries if entry.run])
    for score in scores:
        if existing and score not in existing and score not in TIMES:
            raise unknown("score", score, existing, where="--score")
    columns: dict[tuple[tuple[str, ...], str], None] = {}
    for entry in entries:
        shown = scores or ([entry.run.main_score] if entry.run and entry.run.main_score else [])
        for score in shown:
            columns[(tuple(entry.label(key) for key in keys), score)] = None
    headings = []
    for labels, score in columns:
        where = dict(zip(keys, labels, strict=True))
        headings.append(Heading(" ".join([*filter(None, labels), score]), (score,), where))
    return headings


def _figure(heading: Heading, entries: Iterable[Entry], row: str, reduced: str) -> Figure:
    """Return the cell of a row's experiments under a heading.

    Experiments that share a run count once. Scores are multiplied by the paper column's factor. The cell is comparable
    if the paper states a signature, all of ours (if any) have its parts, and neither settings nor data are reduced.

    Raises:
        PhmrunError: (exit 2) The experiments are not seeds of one.
    """
    paper = heading.published or PrintedColumn()
    printed = paper.cells.get(row)
    chosen = tuple(e for e in entries if all(e.label(key) == value for key, value in heading.where.items()))
    require_seeds(chosen, heading.name)
    # Experiments that share a run count as one seed; each one without a run is a planned seed.
    chosen = tuple({entry.run.id if entry.run else id(entry): entry for entry in chosen}.values())
    published = _published(printed, len(heading.scores))
    numbers = []
    for place, score in enumerate(heading.scores):
        values: list[float] = []
        signatures: dict[str, None] = {}
        for entry in chosen:
            value = entry.run.score(score) if entry.run else None
            if value is not None and entry.run is not None:
                values.append(value * paper.factor)
                signatures[_signature(entry.run, score)] = None
        lower = metric_of(score).lower_is_better
        numbers.append(Numbers(tuple(values), tuple(signatures), published[place], lower))
    ours = [signature.split("|") for number in numbers for signature in number.signatures]
    agree = bool(paper.signature) and all({*paper.signature.split("|")} <= {*signature} for signature in ours)
    return Figure(tuple(numbers), chosen, agree and not reduced and not _made_up(chosen), printed)


def _published(printed: str | None, count: int) -> list[float | None]:
    """Return the numbers of a printed cell, "71.82 / 71.89".

    Each of the ``count`` is ``None`` if the cell has another count of numbers, or one cannot be parsed.
    """
    parts = (printed or "").split("/")
    if len(parts) == count:
        with suppress(PhmrunError):
            return [float(Printed.parse(part).amount) for part in parts]
    return [None] * count


def _signature(run: RecordedRun, score: str) -> str:
    """Return the signature of a score without the checkpoint's step.

    The result is empty if it has none.
    """
    entry = run.entry(score)
    return re.sub(r"@\d+", "", str(entry.get("signature", ""))) if isinstance(entry, Mapping) else ""


def _made_up(entries: Iterable[Entry]) -> str:
    """Return a note if any experiment uses the built-in corpus.

    Else, the result is an empty text.
    """
    return "on the built-in corpus" if any(entry.label("data") == BUILTIN for entry in entries) else ""


def parameters_of(entries: Iterable[Entry]) -> tuple[int, ...]:
    """Return the distinct parameter counts of runs, ascending.

    Unknown ones are left out.
    """
    counts = {entry.run.about("parameters") for entry in entries if entry.run}
    return tuple(sorted(count for count in counts if isinstance(count, int)))


def rounded(value: float) -> str:
    """Return a score with two decimals.

    The result is "nan", "inf" or "-inf" if it is not finite.
    """
    return f"{value:.2f}" if math.isfinite(value) else str(value)
