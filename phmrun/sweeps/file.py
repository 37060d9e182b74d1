"""What a sweep's file says: a base and a grid, or a paper's table, or a table in smaller settings. Imports no torch."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from phmrun.config import ConfigError, Section, Source, config_source
from phmrun.config.problems import from_validation, unknown_key
from phmrun.errors import PhmrunError, unknown
from phmrun.escaping import one_line
from phmrun.sweeps.paper_table import PaperTable, load_table

MOST_SEEDS = 10_000
EXAMPLE: dict[str, Any] = {
    "title": "What does 1/n of the weights cost?",
    "task": "nmt",
    "base": {"training": {"max_steps": 200}},
    "grid": {"layer": ["dense", "phm"], "layer.n": [2, 4]},
    "seeds": 3,
}
"""A sweep over three models: dense, phm n=2, phm n=4."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]
RATE = "training.optimizer.lr"  # what is tuned unless the file says otherwise


class SweepFile(Section):
    """Which experiments belong together.

    Their settings, in rising order of strength: the task's defaults, ``config``, ``base``, ``tasks``, and what makes a
    cell: the values of the grid (or the row and the column of a table), the seed. Where a table is named, its own
    settings come first and ``config`` and ``base`` are laid over them.
    """

    title: str = Field("", description="What it is to show, in one line.")
    task: str | None = Field(None, description="The task of all cells.")
    tasks: dict[str, dict[str, Any]] = Field({}, description="Or several, each with settings of its own.")
    table: str | None = Field(None, description="Or a paper's table, whose rows and columns are the cells.")
    rows: list[str] = Field([], description="Of the table: only these rows.")
    columns: list[str] = Field([], description="Of the table: only these columns.")
    reduced: str = Field("", description="In what the settings fall short of the table's; the mark of its numbers.")
    config: list[str] = Field([], description="Configuration files, the last one strongest.")
    base: dict[str, Any] = Field({}, description="Settings of all cells, nested as in a configuration file.")
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        {}, description="Values by dotted key; every combination is a cell. A value may be a section: {structure: phm}."
    )
    include: list[dict[str, Any]] = Field([], description="Further cells, each by its own settings.")
    exclude: list[dict[str, Any]] = Field([], description="Cells left out: those that have all of these values.")
    seeds: Annotated[int, Field(ge=1)] | Annotated[list[Seed], Field(min_length=1)] = Field(
        1, description="Every cell is run with so many seeds, from 1 on, or with these."
    )
    tune: Literal[True] | dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        {},
        description="true: every row tries five learning rates around its own with its first seed, then two around the "
        "best, and the best validation chooses. Or values by dotted key, as in "
        "tune: {training.optimizer.lr: [0.0003, 0.001, 0.003, 0.01, 0.03]}.",
    )
    replicates: bool = Field(
        False,
        description="With tune: the first seed is a pilot, which fixes three values for each row and is never counted. "
        "Every further seed trains these three and keeps the one that its own validation prefers.",
    )
    plugins: list[str] = Field([], description="Python files that register layers of your own.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = [name for name in ("task", "tasks", "table") if getattr(self, name)]
        settings = (self.base, *self.tasks.values(), *self.include, *self.exclude)
        several = {"task"} & (self.grid.keys() | {key for cell in self.include for key in cell})
        if len(given) != 1:
            raise ValueError(f"a sweep names exactly one of task, tasks, table; given: {', '.join(given) or 'none'}")
        if several:
            raise ValueError("write several tasks as tasks: {nmt: {…}, sva: {…}}, each with settings of its own")
        if self.table and (self.grid or self.include):
            raise ValueError("the cells of a table are its rows and columns: it takes no grid and no include")
        if not self.table and (self.rows or self.columns or self.reduced):
            raise ValueError("rows, columns and reduced say something of a table: name it in table")
        if "seed" in self.grid or any("seed" in values for values in settings):
            raise ValueError("seeds are given by the key seeds, not among the settings")
        count = self.seeds if isinstance(self.seeds, int) else len(self.seeds)
        if count > MOST_SEEDS:
            raise ValueError(f"{count:,} seeds are more than the {MOST_SEEDS:,} of one sweep")
        # "tune: true" stands for the learning rate.
        if ({RATE} if self.tune is True else self.tune.keys()) & (self.grid.keys() | {"seed"}):
            raise ValueError("what is tuned is neither the seed nor a key of the grid")
        if self.replicates and not (self.tune is True or len(self.tune) == 1):
            raise ValueError("replicates choose the value of one tuned key: tune: true, or one key with its values")
        if isinstance(self.seeds, list) and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a seed is named twice")
        return self


@dataclass(frozen=True)
class Sweep:
    """A sweep's file, read."""

    name: str  # short and unique to the file; where the sweep keeps what is its own
    where: str  # the file, for messages
    source: Source  # its values with their lines
    file: SweepFile  # what it says
    table: PaperTable | None  # the table that it names or is

    @property
    def title(self) -> str:
        """What it shows, on one line."""
        return one_line(self.file.title or (self.table.title if self.table else ""))

    def seeds(self, count: int | None = None) -> list[int]:
        """The seeds of every cell, or so many instead: the file's, then the next numbers after them."""
        given = self.file.seeds
        seeds = list(range(1, given + 1)) if isinstance(given, int) else list(given)
        missing = 0 if count is None else count - len(seeds)
        if missing > 0:
            seeds += range(max(seeds) + 1, max(seeds) + 1 + missing)
        return seeds if count is None else seeds[:count]


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a sweep's file, with an example."""
    said = {"title": "phmrun sweep", "examples": [EXAMPLE]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **SweepFile.model_json_schema(), **said}


def load_sweep(name: str) -> Sweep:
    """A sweep by its file: a path, or a name among the packaged ones.

    Raises:
        PhmrunError: The file is missing or malformed, or the table that it names is, or cannot be trained.
    """
    source = config_source(name)
    path = Path(source.label)
    is_table = "paper" in source.values and "rows" in source.values
    file = SweepFile(table=source.label) if is_table else _placed(_validated(source), path)
    table = load_table(file.table) if file.table else None
    if table and table.task is None:
        raise PhmrunError(
            "this table says how its networks are counted, not how they are trained: it has no task",
            where=file.table,
            hint=f"`phmrun count-params --paper {table.paper}` sets its counts beside ours.",
        )
    parts = {"rows": [row.name for row in table.rows], "columns": list(table.columns)} if table else {}
    for key, there in parts.items():
        for one in getattr(file, key):
            if one not in there:
                raise unknown(key.removesuffix("s"), one, there, where=source.at(key))
    place = str(path.resolve()) if path.exists() else source.label
    own = f"{path.stem}-{hashlib.sha256(place.encode()).hexdigest()[:6]}"  # with a checksum of its place
    return Sweep(own, source.label, source, file, table)


def _validated(source: Source) -> SweepFile:
    """The file's content, or all that is wrong with it."""
    fields = SweepFile.model_fields
    extra = [unknown_key(key, fields, source.at(key)) for key in source.values if key not in fields]
    known = {key: value for key, value in source.values.items() if key in fields}
    try:
        file = SweepFile.model_validate(known)
    except ValidationError as error:
        places = {key: source.at(key) for key in source.lines} | {"configuration": source.label}
        raise ConfigError([*extra, *from_validation(error, SweepFile, places)]) from None
    if extra:
        raise ConfigError(extra)
    return file


def _placed(file: SweepFile, path: Path) -> SweepFile:
    """The file's content, its paths taken from the folder that it lies in."""
    if not path.is_file():
        return file  # it comes with the package
    folder = path.parent
    found = {
        "config": [_beside(name, folder) for name in file.config],
        "plugins": [_beside(name, folder) for name in file.plugins],
        "table": file.table and _beside(file.table, folder),
        "base": _with_data(file.base, folder),
        "tasks": {name: _with_data(settings, folder) for name, settings in file.tasks.items()},
        "include": [_with_data(settings, folder) for settings in file.include],
        "grid": {key: [_with_data({key: one}, folder)[key] for one in values] for key, values in file.grid.items()},
    }
    return file.model_copy(update=found)


def _with_data(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Settings whose data are the files of a folder, where these are there."""
    return {key: _files(one, folder) if key.partition(".")[0] == "data" else one for key, one in settings.items()}


def _files(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {key: each if key == "name" else _files(each, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [_files(each, folder) for each in value]
    return _beside(value, folder) if isinstance(value, str) else value


def _beside(name: str, folder: Path) -> str:
    """A path from a folder; a name that is no file there, such as that of a packaged file, stays as it is."""
    path = folder / name
    try:
        return str(path) if path.is_file() or any(path.parent.glob(f"{path.name}.*")) else name
    except OSError:  # too long to be one
        return name
