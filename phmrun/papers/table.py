"""Paper's table as a file: settings of rows, printed cells.

Imports no torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from phmrun.config import Section, Source, config_source, packaged_names
from phmrun.config.provenance import provenance_of
from phmrun.errors import PhmrunError, unknown
from phmrun.papers.published import Printed

FOLDER = "configs/papers/"


class Column(Section):
    """Column of a paper's table: a count, a derived value, or a score."""

    counts: str | list[str] | None = None
    """Parameters counted: "total"; "matrices", the weight matrices of the blocks; "blocks", all but embedding and
    output; or scopes by name.
    """
    without: list[str] = Field([])
    """Scopes left out of the count, or "norms"."""
    follows: list[str] = Field([])
    """Counting columns whose printed cells may add up to this one's; a - in front subtracts one."""
    unit: Literal["", "K", "M", "B", "MB"] = ""
    """Unit of cells printed without one."""
    bytes_each: int = Field(1, ge=1)
    """Bytes per parameter, if the column is in bytes."""
    derived: Literal["percent", "saving", "fold"] | None = None
    """Derived from a count: percent of another row's, percent saved, or how many times smaller."""
    of: str | None = None
    """Counting column of a derived column."""
    against: str | None = None
    """Reference row of a derived column."""
    metric: str | None = None
    """Metric of a score column, such as bleu, with its unit and settings."""
    score: str | None = None
    """Name of that score in our runs, as test/bleu. Times in seconds, by `phmrun bench run RUN`: time/step, time/epoch,
    time/batch, time/line, time/test.
    """
    factor: float = Field(1, gt=0)
    """Factor on our score: 100 for seconds per 100 steps."""
    signature: str = ""
    """Settings of the paper's score, as parts of our signatures; empty if not stated."""
    set: dict[str, Any] = Field({})
    """Settings of the column's experiments, such as their data."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        """Check that the column is of one kind, and its keys belong to it.

        Raises:
            ValueError: It is not exactly one of counts, derived, metric; a derived column lacks ``of`` or ``against``;
                or a key of scores stands without a score or metric.
        """
        kinds = [kind for kind in ("counts", "derived", "metric") if getattr(self, kind)]
        if len(kinds) != 1:
            raise ValueError(f"a column is exactly one of counts, derived, metric; given: {', '.join(kinds) or 'none'}")
        if self.derived and not (self.of and self.against):
            raise ValueError("a derived column needs of (a column) and against (a row)")
        if not self.metric and (self.score or self.signature or self.set or self.factor != 1):
            raise ValueError("score, signature, set and factor belong to a metric")
        return self


class PaperRow(Section):
    """Row of a paper's table: settings of its network, and the printed cells."""

    name: str = Field(min_length=1)
    """Name in the paper."""
    network: str | None = None
    """Network of this row instead of the table's; the table's base is not used."""
    config: list[str] = Field([])
    """Configuration files laid over the table's base."""
    set: dict[str, Any] = Field({})
    """Settings that override these files."""
    cells: dict[str, dict[str, Any]] = Field({})
    """By column: settings of one cell, which override the row's."""
    vocabulary: list[int] | None = None
    """Vocabulary entries, source and target, where data decide."""
    counts: dict[str, str | list[str]] = Field({})
    """By column: parameters counted instead of the column's."""
    against: str | None = None
    """Reference row instead of the column's."""
    published: dict[str, str]
    """By column: the cell as printed."""
    quoted: str | dict[str, str] = Field({})
    """Source of numbers that are not the paper's own; for the row, or by column."""
    missing: str | dict[str, str] = Field({})
    """Facts that the paper does not state; for all counts, or by column."""
    reading: str = "as configured"
    """Our reading of the missing facts."""
    readings: dict[str, dict[str, Any]] = Field({})
    """Other readings by name: settings that override the row's."""
    inferred: dict[str, str] = Field({})
    """By column: property of the network that no text states, chosen to match the printed number."""
    digits: dict[str, int] = Field({})
    """By column: number of significant digits of the printed number, if it ends in padding zeros."""
    repeats: dict[str, tuple[str, str]] = Field({})
    """By column: row and column that print the same number for the same parameters."""
    note: str | dict[str, str] = ""
    """Reason why a count is not exact; for all counts, or by column."""


def of_column(text: str | Mapping[str, str], column: str) -> str:
    """Return the text of a column: a text for all columns, or its own by heading; empty without one."""
    return text if isinstance(text, str) else text.get(column, "")


class PaperTable(Section):
    """Paper's table: settings and printed cells of its rows."""

    paper: str = Field(min_length=1)
    """Short name of the paper."""
    table: str = Field(min_length=1)
    """Number of the table."""
    title: str = Field(min_length=1)
    """Title of the table."""
    task: str | None = None
    """Task of the rows' experiments; a table has a task or a network."""
    network: str | None = None
    """Name of the rows' network."""
    config: list[str] = Field([])
    """Configuration files under the base of an experiment."""
    base: dict[str, Any] = Field({})
    """Settings of all rows: configuration keys, or a network's arguments."""
    provenance: dict[str, str] = Field({})
    """Default source of the settings in base, columns and rows."""
    vocabulary: list[int] | None = None
    """Vocabulary entries, source and target, where data decide."""
    columns: dict[str, Column]
    """Columns by heading."""
    rows: list[PaperRow] = Field(min_length=1)
    """Rows, in the order of the paper."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that the table names a task or a network, and its references.

        Raises:
            ValueError: It names both or none, two rows have the same name, a derived column refers to nothing, or a row
                is invalid.
        """
        if (self.task is None) == (self.network is None):
            raise ValueError("a table names either a task or a network")
        names = [row.name for row in self.rows]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ValueError(f"two rows are called {', '.join(double)}")
        for name, column in self.columns.items():
            if column.derived and (column.against not in names or column.of not in self.columns):
                raise ValueError(f"column {name}: there is no row {column.against!r} or no column {column.of!r}")
            for key in column.follows:
                if key.removeprefix("-") not in self.columns:
                    raise ValueError(f"column {name}: there is no column {key.removeprefix('-')!r} to follow")
        for row in self.rows:
            self._check_row(row)
        return self

    def _check_row(self, row: PaperRow) -> None:
        """Check a row: references to rows and columns, numbers, readings.

        A row with missing facts needs another reading, unless the whole row is quoted. Cells of a column with a metric
        are not parsed.

        Raises:
            ValueError: A reference leads nowhere, a printed number cannot be parsed, or another reading is missing.
        """
        by_column = [keys for keys in (row.missing, row.note, row.quoted) if isinstance(keys, dict)]
        named: list[dict[str, Any]] = [row.published, row.counts, row.inferred, row.digits, row.repeats, row.cells]
        named += by_column
        for key in [*(key for keys in named for key in keys), *(key for _, key in row.repeats.values())]:
            if key not in self.columns:
                raise ValueError(f"row {row.name}: there is no column {key!r}")
        for name in [row.against or row.name, *(name for name, _ in row.repeats.values())]:
            if name not in [other.name for other in self.rows]:
                raise ValueError(f"row {row.name}: there is no row {name!r}")
        for key, cell in row.published.items():
            try:
                if not self.columns[key].metric:
                    Printed.parse(cell, self.columns[key].unit)
            except PhmrunError as error:
                raise ValueError(f"row {row.name}, column {key}: {error.what}") from error
        if row.missing and not isinstance(row.quoted, str) and not row.readings:
            raise ValueError(f"row {row.name}: something is missing, but no other reading is given")

    def sources(self, where: str) -> list[Source]:
        """Return the sources below all rows, weakest first.

        They are the table's files, then its base. A task's defaults are not among them. ``where`` names the table in
        messages.
        """
        return [*(config_source(name) for name in self.config), self.source(where, self.base)]

    def row_sources(self, row: PaperRow, where: str, column: str | None = None) -> list[Source]:
        """Return the sources of a row or one of its cells, weakest first.

        They are the row's files, its settings, then those of the cell if it has any. They override the table's own.

        Args:
            row: The row.
            where: Table and row, for messages.
            column: Column of the cell; only the row if not given.
        """
        cell = [self.source(f"{where}, column {column}", row.cells[column])] if column in row.cells else []
        return [*(config_source(name) for name in row.config), self.source(where, row.set), *cell]

    def source(self, where: str, values: Mapping[str, Any]) -> Source:
        """Return settings as a source, with a provenance for each of their keys.

        It is their own, or else the table's default. Keys without either have none. ``where`` names the source in
        messages.
        """
        stated = values.get("provenance", {})
        texts = {
            key: provenance_of(key, stated) or provenance_of(key, self.provenance) for key in setting_names(values)
        }
        sources = {key: text for key, text in texts.items() if text is not None}
        return Source(where, {**values, "provenance": {**stated, **sources}} if sources else values)

    def row(self, name: str) -> PaperRow:
        """Return a row by name.

        Raises:
            PhmrunError: (exit 2) There is no such row.
        """
        rows = {row.name: row for row in self.rows}
        if name not in rows:
            raise unknown("row", name, rows)
        return rows[name]


def setting_names(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of nested settings.

    An empty section is a key; ``provenance`` is left out at each level.
    """
    for key, value in values.items():
        if isinstance(value, Mapping) and value and key != "provenance":
            yield from setting_names(value, f"{prefix}{key}.")
        elif key != "provenance":
            yield f"{prefix}{key}"


def table_names(paper: str = "all") -> list[str]:
    """Return the packaged table files of papers, sorted.

    They are of one paper, or of "all". Reduced versions (``…-small.yaml``) are left out.

    Raises:
        PhmrunError: (exit 2) The paper is unknown.
    """
    names = [name for name in packaged_names() if name.startswith(FOLDER) and not name.endswith("-small.yaml")]
    if paper == "all":
        return names
    if paper not in paper_names():
        raise unknown("paper", paper, [*paper_names(), "all"], where="--paper")
    return [name for name in names if name.startswith(f"{FOLDER}{paper}/")]


def paper_names() -> list[str]:
    """Return the short names of the papers with packaged tables, sorted."""
    return sorted({name.removeprefix(FOLDER).split("/")[0] for name in packaged_names() if name.startswith(FOLDER)})


def load_table(name: str) -> PaperTable:
    """Load a table from a path or one of :func:`table_names`.

    Raises:
        PhmrunError: (exit 2) The file is missing or malformed; names its first fault.
    """
    try:
        return PaperTable.model_validate(config_source(name).values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise PhmrunError(f"{place}: {what}" if place else what, where=name) from None


def is_trained(row: PaperRow) -> bool:
    """True if a row is an experiment of ours.

    Rows that are quoted as a whole or set ``network`` are not.
    """
    return row.network is None and not isinstance(row.quoted, str)


def column_groups(table: PaperTable, asked: Sequence[str] = ()) -> dict[str, str]:
    """Map each score column to the first one with the same settings, also those of its cells.

    That may be the column itself. Columns without a score, or not asked for, are left out, also as first ones.

    Args:
        table: The table.
        asked: Headings to keep; all if empty.
    """
    groups, seen = dict[str, str](), dict[str, list[Any]]()
    for heading, column in table.columns.items():
        if column.score and (not asked or heading in asked):
            settings = [column.set, *(row.cells.get(heading) for row in table.rows)]
            groups[heading] = next((name for name, its in seen.items() if its == settings), heading)
            seen[heading] = settings
    return groups
