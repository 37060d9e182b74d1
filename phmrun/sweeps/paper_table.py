"""A paper's table as a file: the settings of each row, and every cell as printed. Imports no torch."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from phmrun.config import Section, Source, config_source, packaged_names
from phmrun.config.provenance import provenance_of
from phmrun.errors import PhmrunError, unknown
from phmrun.results.printed import Printed

FOLDER = "configs/papers/"
File = TypeVar("File", bound=Section)


class Column(Section):
    """What the cells of a column say: a count of parameters, something derived from one, or a score."""

    counts: str | list[str] | None = Field(
        None,
        description='Which parameters: "total"; "matrices", the weight matrices of the blocks; "blocks", all but '
        "embedding and output; or scopes by name.",
    )
    without: list[str] = Field([], description='Scopes left out of it, or "norms".')
    follows: list[str] = Field(
        [], description="Counting columns whose printed cells may add up to this one's; taken off with a - in front."
    )
    unit: Literal["", "K", "M", "B", "MB"] = Field("", description="Unit of cells that print none.")
    bytes_each: int = Field(1, ge=1, description="Bytes per parameter, where the column is in bytes.")
    derived: Literal["percent", "saving", "fold"] | None = Field(
        None, description="Instead: the count as per cent of another row's, what is saved of it, how often it goes in."
    )
    of: str | None = Field(None, description="The counting column that it derives from.")
    against: str | None = Field(None, description="The row that it is compared with.")
    metric: str | None = Field(None, description="Or the score that the cells are, such as bleu; unit and settings.")
    score: str | list[str] | None = Field(
        None,
        description="What a run of ours calls that score: test/bleu; several where a cell has several numbers; of "
        "times, in seconds, by `phmrun bench table`: time/step, time/epoch, time/batch, time/line, time/test.",
    )
    factor: float = Field(1, gt=0, description="What our score is multiplied by: 100 for seconds per 100 steps.")
    signature: str = Field("", description="How the paper computed it, as parts of our signatures; empty: unsaid.")
    set: dict[str, Any] = Field({}, description="Settings of the experiments that fill the column: their data.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [kind for kind in ("counts", "derived", "metric") if getattr(self, kind)]
        if len(kinds) != 1:
            raise ValueError(f"a column is exactly one of counts, derived, metric; given: {', '.join(kinds) or 'none'}")
        if self.derived and not (self.of and self.against):
            raise ValueError("a derived column needs of (a column) and against (a row)")
        if not self.score and self.factor != 1:
            raise ValueError("factor belongs to a score")
        if not self.metric and (self.score or self.signature or self.set):
            raise ValueError("score, signature and set belong to a metric")
        return self


class PaperRow(Section):
    """One row: how its network is built, and what is printed."""

    name: str = Field(min_length=1, description="As in the paper.")
    network: str | None = Field(None, description="Another network than the table's, without its base.")
    config: list[str] = Field([], description="Configuration files laid over the table's base.")
    set: dict[str, Any] = Field({}, description="Laid over them.")
    cells: dict[str, dict[str, Any]] = Field({}, description="By column: settings of one cell, laid over the row's.")
    vocabulary: list[int] | None = Field(None, description="Vocabulary entries, source and target, where data decide.")
    counts: dict[str, str | list[str]] = Field({}, description="By column: which parameters, other than the column's.")
    against: str | None = Field(None, description="The row that this one is compared with, other than the columns'.")
    published: dict[str, str] = Field(description="By column: the cell as printed.")
    quoted: str | dict[str, str] = Field(
        {}, description="Whose numbers these are, where they are not the paper's own; for the row, or by column."
    )
    missing: str | dict[str, str] = Field({}, description="What the paper does not say; for all counts, or by column.")
    reading: str = Field("as configured", description="What stands in for it here.")
    readings: dict[str, dict[str, Any]] = Field({}, description="Others: laid over the row's settings, by name.")
    inferred: dict[str, str] = Field(
        {}, description="By column: what of the network no text says, and was chosen to meet the printed number."
    )
    digits: dict[str, int] = Field(
        {}, description="By column: how many digits of the printed number count, where zeros behind them only fill up."
    )
    repeats: dict[str, tuple[str, str]] = Field(
        {}, description="By column: row and column that print the same number of the same parameters."
    )
    note: str | dict[str, str] = Field("", description="Why a count is not exact; for all counts, or by column.")

    def missing_in(self, column: str) -> str:
        """What the paper does not say that this column's count depends on."""
        return self.missing if isinstance(self.missing, str) else self.missing.get(column, "")

    def quoted_in(self, column: str) -> str:
        """Whose number a cell is, where it is not the paper's own."""
        return self.quoted if isinstance(self.quoted, str) else self.quoted.get(column, "")

    def note_on(self, column: str) -> str:
        """The remark on a cell."""
        return self.note if isinstance(self.note, str) else self.note.get(column, "")


class PaperTable(Section):
    """One table of a paper."""

    paper: str = Field(min_length=1, description="Short name of the paper.")
    table: str = Field(min_length=1, description="Number of the table.")
    title: str = Field(min_length=1, description="What it shows.")
    task: str | None = Field(None, description="Its rows are experiments of this task …")
    network: str | None = Field(None, description="… or networks of this name.")
    config: list[str] = Field([], description="Configuration files under the base of an experiment.")
    base: dict[str, Any] = Field({}, description="Settings of all rows: configuration keys, or a network's arguments.")
    provenance: dict[str, str] = Field(
        {}, description="Where the settings of base, columns and rows are from, unless these say so themselves."
    )
    vocabulary: list[int] | None = Field(None, description="Vocabulary entries, source and target, where data decide.")
    columns: dict[str, Column] = Field(description="By their headings.")
    rows: list[PaperRow] = Field(min_length=1, description="In the order of the paper.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.task is None) == (self.network is None):
            raise ValueError("a table names either a task or a network")
        names = [row.name for row in self.rows]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ValueError(f"two rows are called {', '.join(double)}")
        for name, column in self.columns.items():
            if column.derived and (column.against not in names or column.of not in self.columns):
                raise ValueError(f"column {name}: there is no row {column.against!r} or no column {column.of!r}")
        for row in self.rows:
            self._check_row(row)
        return self

    def _check_row(self, row: PaperRow) -> None:
        if row.against is not None and row.against not in [other.name for other in self.rows]:
            raise ValueError(f"row {row.name}: there is no row {row.against!r} to compare with")
        by_column = [keys for keys in (row.missing, row.note, row.quoted) if isinstance(keys, dict)]
        named: list[dict[str, Any]] = [row.published, row.counts, row.inferred, row.digits, row.repeats, row.cells]
        named += by_column
        for key in [key for keys in named for key in keys]:
            if key not in self.columns:
                raise ValueError(f"row {row.name}: there is no column {key!r}")
        for other, column in row.repeats.values():
            if column not in next((one.published for one in self.rows if one.name == other), ()):
                raise ValueError(f"row {row.name}: no row {other!r} prints {column!r}, which it is said to repeat")
        for key, cell in row.published.items():
            try:
                if not self.columns[key].metric:
                    Printed.parse(cell, self.columns[key].unit)
            except PhmrunError as error:
                raise ValueError(f"row {row.name}, column {key}: {error.what}") from error
        if row.missing and not isinstance(row.quoted, str) and not row.readings:
            raise ValueError(f"row {row.name}: something is missing, but no other reading is given")

    def sources(self, where: str) -> list[Source]:
        """What all rows are laid over: the files of the table ``where`` alone, never a task's quick start."""
        return [*(config_source(name) for name in self.config), self.source(where, self.base)]

    def row_sources(self, row: PaperRow, where: str, column: str | None = None) -> list[Source]:
        """Sources of a row, or of one of its cells, over the table's own; ``where`` is table and row."""
        cell = [self.source(f"{where}, column {column}", row.cells[column])] if column in row.cells else []
        return [*(config_source(name) for name in row.config), self.source(where, row.set), *cell]

    def source(self, where: str, values: Mapping[str, Any]) -> Source:
        """Settings of this table with their provenance: what they say themselves, and what the table says of others."""
        own = values.get("provenance", {})
        texts = {key: provenance_of(key, own) or provenance_of(key, self.provenance) for key in setting_names(values)}
        known = {key: text for key, text in texts.items() if text is not None}
        return Source(where, {**values, "provenance": {**own, **known}} if known else values)

    def row(self, name: str) -> PaperRow:
        """A row by its name."""
        return next(row for row in self.rows if row.name == name)


def setting_names(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted keys of nested settings, their provenance left out."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value and key != "provenance":
            yield from setting_names(value, f"{prefix}{key}.")
        elif key != "provenance":
            yield f"{prefix}{key}"


def table_names(paper: str = "all") -> list[str]:
    """Files (``configs/papers/phm/table2.yaml``) of the tables of one paper, or of all; refuses unknown papers."""
    files = [name for name in packaged_names() if name.startswith(FOLDER)]
    names = [name for name in files if not name.endswith(("-small.yaml", "/claims.yaml"))]
    if paper == "all":
        return names
    if paper not in paper_names():
        raise unknown("paper", paper, [*paper_names(), "all"], where="--paper")
    return [name for name in names if name.startswith(f"{FOLDER}{paper}/")]


def paper_names() -> list[str]:
    """Short names of the papers."""
    return sorted({name.removeprefix(FOLDER).split("/")[0] for name in packaged_names() if name.startswith(FOLDER)})


def load_table(name: str) -> PaperTable:
    """A table by its file, a path or one of :func:`table_names`; a `PhmrunError` says what is wrong in it."""
    return validated(PaperTable, name)


def validated(kind: type[File], name: str) -> File:
    """The content of a file; refuses a malformed one with the first place that is."""
    try:
        return kind.model_validate(config_source(name).values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise PhmrunError(f"{place}: {what}" if place else what, where=name) from None
