"""Our scores in the shape of a table: rows, columns, and in each cell one score per seed. Imports no torch."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean, median, stdev
from typing import NamedTuple

from phmrun.errors import PhmrunError, unknown
from phmrun.ledger.listing import RunSummary, score_names
from phmrun.results.entries import Entry, require_seeds
from phmrun.results.printed import Printed, PrintedColumn

Aggregate = Callable[[Sequence[float]], float]
AGGREGATES: Mapping[str, Aggregate] = {"mean": fmean, "median": median, "best": max, "worst": min}
BUILTIN = "builtin"


@dataclass(frozen=True)
class Heading:
    """A column."""

    name: str  # what stands above it
    scores: tuple[str, ...]  # the scores of a run that it shows, by their names
    where: Mapping[str, str] = field(default_factory=dict)  # what an experiment must have at some keys to stand in it
    published: PrintedColumn | None = None  # the paper's column, if it is one


@dataclass(frozen=True)
class Numbers:
    """One number of a cell: a score of all seeds."""

    values: tuple[float, ...]  # one per run that has it
    signatures: tuple[str, ...]  # how they were computed; one, unless runs differ
    published: float | None  # what the paper prints there; ``None``: nothing

    @property
    def mean(self) -> float | None:
        """Of the runs."""
        return fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Of a sample, over the runs; ``None`` of fewer than two."""
        return stdev(self.values) if len(self.values) > 1 else None

    def aggregate(self, how: str) -> float | None:
        """One number of all runs: "mean", "median", "best" (the largest) or "worst"."""
        return AGGREGATES[how](self.values) if self.values else None

    @property
    def delta(self) -> float | None:
        """The mean minus what is published."""
        return None if self.mean is None or self.published is None else self.mean - self.published


@dataclass(frozen=True)
class Figure:
    """A cell."""

    numbers: tuple[Numbers, ...]  # one for each score of the column
    entries: tuple[Entry, ...]  # the experiments in it, those without a score too
    comparable: bool = False  # whether its scores and the paper's were computed in the same way, in the same settings
    printed: str | None = None  # what the paper prints there, as it prints it

    @property
    def parameters(self) -> tuple[int, ...]:
        """Of the networks of its runs; several where they differ."""
        return parameters_of(self.entries)

    @property
    def lengths(self) -> tuple[str, ...]:
        """Lengths of the training of its runs; several if they differ."""
        return tuple(sorted({entry.length for entry in self.entries if entry.run}))

    @property
    def runs(self) -> int:
        """Number of seeds that have all scores."""
        return min((len(number.values) for number in self.numbers), default=0)


@dataclass(frozen=True)
class ResultTable:
    """Rows times columns."""

    title: str  # what it shows
    keys: tuple[str, ...]  # what makes a row
    headings: tuple[Heading, ...]  # the columns
    rows: tuple[tuple[str, ...], ...]  # the labels of each row, one per key
    figures: tuple[tuple[Figure, ...], ...]  # the cells of each row, one per column
    parameters: tuple[tuple[int, ...], ...]  # of the networks of each row; several where they differ
    reduced: str = ""  # in what the settings fall short of the paper's; empty: in nothing

    def entries(self, row: int) -> list[Entry]:
        """The experiments in all cells of a row, by its place."""
        return [entry for figure in self.figures[row] for entry in figure.entries]


class Effect(NamedTuple):
    """A row beside the dense one, as plots and pages show it."""

    label: str  # what the row is called
    value: float  # the difference of its score
    low: float  # the lower end of its 95 % interval
    high: float  # the upper end
    seeds: int  # so many pairs of runs
    different: bool  # whether the comparison has decided that it differs


def tabulate(
    entries: Sequence[Entry],
    keys: Sequence[str],
    headings: Sequence[Heading],
    *,
    title: str = "",
    rows: Sequence[str] | None = None,
    reduced: str = "",
) -> ResultTable:
    """The table of some experiments; a cell holds the seeds of one, and a `PhmrunError` says what else would be in it.

    A row is made by keys of the sweep or dotted keys of the configuration. ``rows`` are those of a paper's table, also
    if no experiment is in them; ``reduced`` says in what the settings fall short of its.

    Raises:
        PhmrunError: (exit 3) A file of a run is not as the run has written it.
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
    for labels, found in groups.items():
        departures = dict.fromkeys(entry.departs for entry in found if entry.departs)
        shown.append((*labels[:-1], f"{labels[-1]} ({'; '.join(departures)})" if departures else labels[-1]))
        figures.append(tuple(_figure(heading, found, labels[0], reduced) for heading in headings))
        parameters.append(parameters_of(found))
    short = reduced or (_made_up(entries) if rows is not None else "")
    return ResultTable(title, tuple(keys), tuple(headings), tuple(shown), tuple(figures), tuple(parameters), short)


def score_headings(entries: Sequence[Entry], keys: Sequence[str], scores: Sequence[str]) -> list[Heading]:
    """The columns of a sweep: every value of some keys, times every score, or else the main one of each experiment.

    Refuses a score that no run has.
    """
    known = score_names([entry.run for entry in entries if entry.run])
    for score in scores:
        if known and score not in known:
            raise unknown("score", score, known, where="--score")
    found: dict[tuple[tuple[str, ...], str], None] = {}
    for entry in entries:
        own = scores or ([entry.run.main_score] if entry.run and entry.run.main_score else [])
        for score in own:
            found[(tuple(entry.label(key) for key in keys), score)] = None
    headings = []
    for labels, score in found:
        where = dict(zip(keys, labels, strict=True))
        headings.append(Heading(" ".join([*filter(None, labels), score]), (score,), where))
    return headings


def _figure(heading: Heading, entries: Iterable[Entry], row: str, reduced: str) -> Figure:
    """Cell of some experiments of a row, under a heading."""
    paper = heading.published or PrintedColumn()
    printed = paper.cells.get(row)
    chosen = tuple(e for e in entries if all(e.label(key) == value for key, value in heading.where.items()))
    require_seeds(chosen, heading.name)
    # Experiments that share a run count as one seed; those without a run stay apart, as seeds that are planned.
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
        numbers.append(Numbers(tuple(values), tuple(signatures), published[place]))
    ours = [given.split("|") for number in numbers for given in number.signatures]
    agree = bool(paper.signature) and all({*paper.signature.split("|")} <= {*given} for given in ours)
    return Figure(tuple(numbers), chosen, agree and not reduced and not _made_up(chosen), printed)


def _published(printed: str | None, count: int) -> list[float | None]:
    """The numbers in a printed cell, "71.82 / 71.89"; none where it has another count of them."""
    parts = (printed or "").split("/")
    if len(parts) == count:
        with suppress(PhmrunError):
            return [float(Printed.parse(part).amount) for part in parts]
    return [None] * count


def _signature(run: RunSummary, score: str) -> str:
    """How a score was computed; the step of a checkpoint, which differs from seed to seed, is left out."""
    entry = run.entry(score)
    return re.sub(r"@\d+", "", str(entry.get("signature", ""))) if isinstance(entry, Mapping) else ""


def _made_up(entries: Iterable[Entry]) -> str:
    """What is to be said of experiments on a built-in corpus, beside numbers of a real one."""
    return "on the built-in corpus" if any(entry.label("data") == BUILTIN for entry in entries) else ""


def parameters_of(entries: Iterable[Entry]) -> tuple[int, ...]:
    """The sizes of the networks of some runs, each once, rising."""
    counts = {entry.run.about("parameters") for entry in entries if entry.run}
    return tuple(sorted(count for count in counts if isinstance(count, int)))


def rounded(value: float) -> str:
    """A score with the digits that tables have."""
    return f"{value:.2f}" if math.isfinite(value) else str(value)
