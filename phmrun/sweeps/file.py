"""Sweep files: a base with a grid, or a paper's table.

Imports no torch.
"""

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
SCRIPT = ("command", "shell", "scores", "inputs", "directory")
"""Keys of the task script."""
RATE = "training.optimizer.lr"  # tuned key with ``tune: true``


class SweepFile(Section):
    """Content of a sweep's file.

    Settings by rising precedence: the task's defaults, ``config``, ``base``, ``tasks``, the cell (grid values, or row
    and column of a table), the seed. If ``table`` is set, ``config`` and ``base`` override the table's own settings.
    """

    title: str = ""
    """Title of the sweep, one line."""
    task: str | None = None
    """Task of all cells."""
    tasks: dict[str, dict[str, Any]] = Field({})
    """Several tasks, each with its own settings."""
    table: str | None = None
    """A paper's table; its rows and columns are the cells."""
    rows: list[str] = Field([])
    """Rows of the table to run; all if empty."""
    columns: list[str] = Field([])
    """Columns of the table to run; all if empty."""
    reduced: str = ""
    """How the settings are smaller than the table's; shown in a footnote."""
    config: list[str] = Field([])
    """Configuration files; later ones override earlier ones."""
    base: dict[str, Any] = Field({})
    """Settings of all cells, nested as in a configuration file."""
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field({})
    """Values by dotted key; every combination is a cell. A value may be a section: {structure: phm}."""
    include: list[dict[str, Any]] = Field([])
    """Further cells, each with its own settings."""
    exclude: list[dict[str, Any]] = Field([])
    """Cells to leave out: those that match all values of an entry."""
    baseline: dict[str, Any] = Field({})
    """Values of the cells that the others are compared with, as in baseline: {training.loss: focal}; default: the dense
    ones.
    """
    seeds: Annotated[int, Field(ge=1)] | Annotated[list[Seed], Field(min_length=1)] = 1
    """Number of seeds of each cell, counted from 1, or a list of seeds."""
    tune: Literal[True] | dict[str, Annotated[list[Any], Field(min_length=1)]] = Field({})
    """true: every row tries five learning rates around its own with its first seed, then two around the best. The best
    validation score decides. Or values by dotted key, as in tune: {training.optimizer.lr: [0.0003, 0.001, 0.003, 0.01,
    0.03]}.
    """
    replicates: bool = False
    """With tune: the first seed is a pilot; it fixes three values for each row and is not counted. Every further seed
    trains with all three and keeps the one with the best validation score.
    """
    plugins: list[str] = Field([])
    """Python files that register custom layers."""
    command: str | None = None
    """Task script: command with placeholders {key} or {key|default}, {seed} and {run}."""
    shell: bool | None = None
    """Task script: run the command by `sh -c`."""
    scores: str | None = None
    """Task script: file of scores that the command writes."""
    inputs: list[str] | None = None
    """Task script: files that the command reads."""
    directory: str | None = None
    """Task script: working directory (default: the folder of the file)."""

    @property
    def script(self) -> dict[str, Any]:
        """Keys of the task ``script`` that are not None, with their values."""
        values = {name: getattr(self, name) for name in SCRIPT}
        return {name: value for name, value in values.items() if value is not None}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that the keys of the file fit together.

        Raises:
            ValueError: Not exactly one of ``task``, ``tasks``, ``table`` is set, or a task is varied among the
                settings. Script keys belong to no task ``script``. Table keys stand without a table, or a table has a
                grid. Seeds are among the settings, too many, or named twice. A tuned key is varied elsewhere.
                ``replicates`` do not tune exactly one key.
        """
        kinds = [name for name in ("task", "tasks", "table") if getattr(self, name)]
        settings = (self.base, *self.tasks.values(), *self.include, *self.exclude)
        several = {"task"} & (self.grid.keys() | {key for cell in self.include for key in cell})
        if len(kinds) != 1:
            raise ValueError(f"a sweep names exactly one of task, tasks, table; given: {', '.join(kinds) or 'none'}")
        if several:
            raise ValueError("write several tasks as tasks: {nmt: {…}, sva: {…}}, each with settings of its own")
        if self.script and "script" not in (self.task, *self.tasks):
            raise ValueError(f"{', '.join(self.script)} belong to task: script")
        if self.table and (self.grid or self.include):
            raise ValueError("the cells of a table are its rows and columns: it takes no grid and no include")
        if not self.table and (self.rows or self.columns or self.reduced):
            raise ValueError("rows, columns and reduced belong to a table: set table, too")
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
    """Loaded sweep file."""

    name: str  # unique name of the file; the sweep's folder is called so
    where: str  # the file, for messages
    source: Source  # its values with their line numbers
    file: SweepFile  # its validated content
    table: PaperTable | None  # the paper's table, if any

    @property
    def title(self) -> str:
        """Title, on one line.

        It is the file's, else its table's, else empty.
        """
        return one_line(self.file.title or (self.table.title if self.table else ""))

    def seeds(self, count: int | None = None) -> list[int]:
        """Return the seeds of every cell.

        A number in the file stands for 1, 2, ….

        Args:
            count: Number of seeds; the file's if not given. Fewer keep the first; missing ones follow the greatest
                seed.
        """
        listed = self.file.seeds
        seeds = list(range(1, listed + 1)) if isinstance(listed, int) else list(listed)
        missing = 0 if count is None else count - len(seeds)
        if missing > 0:
            seeds += range(max(seeds) + 1, max(seeds) + 1 + missing)
        return seeds if count is None else seeds[:count]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a sweep's file, with an example.

    The draft is 2020-12.
    """
    extra = {"title": "phmrun sweep", "examples": [EXAMPLE]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **SweepFile.model_json_schema(), **extra}


def load_sweep(name: str) -> Sweep:
    """Load a sweep.

    A paper's table becomes a sweep over its cells. The sweep is named after the file, with six digits of the SHA-256 of
    its absolute path (of its name if packaged). Paths are resolved by :func:`_placed`.

    Args:
        name: Path of a sweep's file or a paper's table, or the name of a packaged one.

    Raises:
        PhmrunError: (exit 2) The file or its table is missing or malformed, the table has no task, or the file names a
            row or column that the table lacks.
    """
    source = config_source(name)
    path = Path(source.label)
    is_table = "paper" in source.values and "rows" in source.values
    file = SweepFile(table=source.label) if is_table else _placed(_validated(source), path)
    table = load_table(file.table) if file.table else None
    if table and table.task is None:
        raise PhmrunError(
            "this table has no task: it says how its networks are counted, not how they are trained",
            where=file.table,
            hint=f"`phmrun count-params --paper {table.paper}` sets its counts beside ours.",
        )
    parts = {"rows": [row.name for row in table.rows], "columns": list(table.columns)} if table else {}
    for key, there in parts.items():
        for name_in_table in getattr(file, key):
            if name_in_table not in there:
                raise unknown(key.removesuffix("s"), name_in_table, there, where=source.at(key))
    place = str(path.resolve()) if path.exists() else source.label
    unique = f"{path.stem}-{hashlib.sha256(place.encode()).hexdigest()[:6]}"  # with a checksum of its path
    return Sweep(unique, source.label, source, file, table)


def _validated(source: Source) -> SweepFile:
    """Return the validated content of a sweep's file.

    Raises:
        ConfigError: A key is unknown or a value invalid; names all faults.
    """
    fields = SweepFile.model_fields
    extra = [unknown_key(key, fields, source.at(key)) for key in source.values if key not in fields]
    fields_by_name = {key: value for key, value in source.values.items() if key in fields}
    try:
        file = SweepFile.model_validate(fields_by_name)
    except ValidationError as error:
        places = {key: source.at(key) for key in source.lines} | {"configuration": source.label}
        raise ConfigError([*extra, *from_validation(error, SweepFile, places)]) from None
    if extra:
        raise ConfigError(extra)
    return file


def _placed(file: SweepFile, path: Path) -> SweepFile:
    """Return a sweep's file with paths resolved relative to its folder.

    Paths are ``config``, ``plugins``, ``table``, and those below ``data`` in ``base``, ``tasks``, ``include`` and
    ``grid``. Only names that exist there are changed, see :func:`_beside`. A script's working directory becomes
    absolute, by default the folder. A packaged file is returned unchanged.
    """
    if not path.is_file():
        return file  # a packaged file
    folder = path.parent
    place = {"directory": str((folder / (file.directory or "")).absolute())} if file.command else {}
    resolved = {
        **place,
        "config": [_beside(name, folder) for name in file.config],
        "plugins": [_beside(name, folder) for name in file.plugins],
        "table": file.table and _beside(file.table, folder),
        "base": _with_data(file.base, folder),
        "tasks": {name: _with_data(settings, folder) for name, settings in file.tasks.items()},
        "include": [_with_data(settings, folder) for settings in file.include],
        "grid": {key: [_with_data({key: value}, folder)[key] for value in values] for key, values in file.grid.items()},
    }
    return file.model_copy(update=resolved)


def _with_data(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings with data files resolved relative to a folder.

    Those are file names below the key ``data`` and dotted keys that begin with it; see :func:`_files`.
    """
    return {key: _files(value, folder) if key.partition(".")[0] == "data" else value for key, value in settings.items()}


def _files(value: Any, folder: Path) -> Any:
    """Return nested values with texts resolved by :func:`_beside`.

    The value of the key ``name``, and values that are no text, are unchanged.
    """
    if isinstance(value, dict):
        return {key: item if key == "name" else _files(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_files(item, folder) for item in value]
    return _beside(value, folder) if isinstance(value, str) else value


def _beside(name: str, folder: Path) -> str:
    """Return a name as a path below a folder, if it exists.

    It exists if it is a file there, or if files ``name.*`` are. Else, or if too long for a path, the name is unchanged.
    """
    path = folder / name
    try:
        return str(path) if path.is_file() or any(path.parent.glob(f"{path.name}.*")) else name
    except OSError:  # too long for a path
        return name
