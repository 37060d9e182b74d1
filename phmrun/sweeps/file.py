"""Sweep files: a base with a grid, or a paper's table.

Imports no torch.
"""

import glob
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from phmrun.config import SWEEPS, ConfigError, Section, Source, config_source
from phmrun.config.problems import from_validation, unknown_key
from phmrun.errors import PhmrunError, unknown
from phmrun.escaping import one_line
from phmrun.metric import metrics_of
from phmrun.papers.table import PaperTable, load_table, setting_names
from phmrun.registry import TASKS

Seed = Annotated[int, Field(ge=0, lt=2**32)]
Values = Annotated[list[Any], Field(min_length=1)]
RATE = "training.optimizer.lr"  # tuned key if ``tune`` names none
OF_TABLE = ("row", "column")  # keys of the grid of a paper's table
REPLICATES = "replicates"


class SweepFile(Section):
    """Content of a sweep's file.

    Settings by rising precedence: the task's defaults, ``config``, ``base``, the cell (grid values, or row and column
    of a table), the seed. If ``table`` is set, ``config`` and ``base`` override the table's own settings.
    """

    title: str = ""
    """Title of the sweep, one line."""
    task: str | None = None
    """Task of all cells."""
    table: str | None = None
    """A paper's table, instead of a task; its rows and columns are the cells."""
    reduced: str = ""
    """How the settings are smaller than the table's; shown in a footnote."""
    config: list[str] = Field([])
    """Configuration files; later ones override earlier ones."""
    base: dict[str, Any] = Field({})
    """Settings of all cells, nested as in a configuration file."""
    grid: dict[str, Values] = Field({})
    """Values by dotted key; every combination is a cell. A value may be a section: {structure: phm}. The grid of a
    table selects its cells, as in grid: {row: [PHM], column: [BLEU]}; default: all.
    """
    include: list[dict[str, Any]] = Field([])
    """Further cells, each with its own settings."""
    exclude: list[dict[str, Any]] = Field([])
    """Cells to leave out: those that match all values of an entry."""
    baseline: dict[str, Any] = Field({})
    """Values of the cells that the others are compared with, as in baseline: {training.loss: focal}; default: the dense
    ones.
    """
    seeds: Annotated[int, Field(ge=1, le=10_000)] | Annotated[list[Seed], Field(min_length=1, max_length=10_000)] = 1
    """Number of seeds of each cell, counted from 1, or a list of seeds."""
    tune: Literal[True] | dict[str, Any] = Field({})
    """true: every row tries five learning rates around its own with its first seed, then two around the best. The best
    validation score decides. Or values by dotted key, as in tune: {training.optimizer.lr: [0.0003, 0.001, 0.003, 0.01,
    0.03]}. The first seed is a pilot; it is not counted. Every further seed trains with the pilot's best value and its
    two neighbors, and keeps the one with the best validation score. With replicates: false among the keys, with one or
    two seeds, or with several tuned keys, all seeds take the pilot's best value.
    """
    measure: str = ""
    """Score that decides, as in measure: test/loss; it stands first in the table. Default: the task's first score."""
    plugins: list[str] = Field([])
    """Python files that register custom layers."""

    @property
    def space(self) -> Literal[True] | dict[str, list[Any]]:
        """Tuned values by dotted key; True: learning rates around the row's own; empty if nothing is tuned."""
        if self.tune is True or self.tune.keys() == {REPLICATES}:
            return True
        return {key: values for key, values in self.tune.items() if key != REPLICATES}

    @property
    def replicates(self) -> bool:
        """True if every seed after the first chooses its own value.

        The default is True for one tuned key with positive numbers and at least three seeds.
        """
        if self.tune is not True and REPLICATES in self.tune:
            return self.tune[REPLICATES] is True
        tuned = [[1.0]] if self.space is True else [*self.space.values()]
        seeds = self.seeds if isinstance(self.seeds, int) else len(self.seeds)
        return seeds > 2 and len(tuned) == 1 and all(isinstance(v, int | float) and v > 0 for v in tuned[0])

    @property
    def columns(self) -> list[str]:
        """Columns of the table to run; all if empty."""
        return self.grid.get("column", [])

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that the keys of the file fit together.

        Raises:
            ValueError: Not exactly one of ``task`` and ``table`` is set. A table has other keys in its grid, or no
                table is set for ``reduced``. Seeds are among the settings or named twice. A tuned key is varied
                elsewhere, or has no list. ``replicates`` do not tune exactly one key.
        """
        if bool(self.task) == bool(self.table):
            raise ValueError(f"a sweep names exactly one of task, table; given: {'both' if self.task else 'none'}")
        if self.table and (self.include or not self.grid.keys() <= {*OF_TABLE}):
            what = "the cells of a table are its rows and columns: grid has row and column only, and no include"
            raise ValueError(what)
        if self.reduced and not self.table:
            raise ValueError("reduced belongs to a table: set table, too")
        if any("seed" in values for values in (self.grid, self.base, *self.include, *self.exclude)):
            raise ValueError("seeds are given by the key seeds, not among the settings")
        if isinstance(self.seeds, list) and len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a seed is named twice in {self.seeds}")
        tuned = {RATE} if self.space is True else self.space.keys()
        # ``tune: true`` searches around the rate that a cell sets; a list replaces the cell's value
        cells = [{key: value} for key, values in self.grid.items() for value in values] + self.include
        fixed = {name for cell in cells for name in setting_names(cell) if self.space is not True}
        if tuned & (self.grid.keys() | fixed | {"seed"}):
            raise ValueError("what is tuned is neither the seed nor a key of the grid or of include")
        keys = {} if self.tune is True else self.tune
        if not isinstance(keys.get(REPLICATES, True), bool):
            raise ValueError("replicates is true or false")
        if self.tune == {} and "tune" in self.model_fields_set:
            raise ValueError("tune is empty: name a key with its values, or write tune: true for learning rates")
        for key, values in keys.items():
            if key != REPLICATES and (not isinstance(values, list) or not values):
                raise ValueError(f"tune.{key} is {values!r}, not a list of values; replicates is true or false")
        if self.replicates and len(tuned) != 1:
            raise ValueError("replicates choose the value of one tuned key: replicates alone, or with one key")
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
        count, following = count or len(seeds), max(seeds) + 1
        return [*seeds, *range(following, following + count - len(seeds))][:count]


def _check_measure(measure: str, task: str, source: Source) -> None:
    """Check that a task has a score.

    Raises:
        PhmrunError: (exit 2) It has none of this name.
    """
    scores = [f"test/{metric.name}" for metric in metrics_of(task)]
    if not any(measure == name or measure.startswith(f"{name}-") for name in scores):
        raise unknown("score", measure, scores, where=source.at("measure"))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a sweep's file, of draft 2020-12."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **SweepFile.model_json_schema(), "title": "phmrun sweep"}


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
    source = config_source(name, SWEEPS)
    path = Path(source.label)
    is_table = "paper" in source.values and "rows" in source.values
    file = SweepFile(table=source.label) if is_table else _placed(_validated(source), path)
    table = load_table(file.table) if file.table else None
    task = table.task if table else file.task
    if file.measure and task and task in TASKS and task != "script":
        _check_measure(file.measure, task, source)
    if table and table.task is None:
        what = "this table has no task: it says how its networks are counted, not how they are trained"
        hint = f"`phmrun count-params --paper {table.paper}` sets its counts beside ours."
        raise PhmrunError(what, where=file.table, hint=hint)
    for key, there in {"row": [row.name for row in table.rows], "column": [*table.columns]}.items() if table else ():
        for name_in_table in file.grid.get(key, ()):
            if name_in_table not in there:
                raise unknown(key, str(name_in_table), there, where=source.at(f"grid.{key}"))
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

    Paths are ``config``, ``plugins``, ``table``, and those below ``data`` in ``base``, ``include``, ``exclude``,
    ``baseline`` and ``grid``. Only
    names that exist there are changed, see :func:`_beside`. A script's working directory becomes absolute, by default
    the folder. A packaged file is returned unchanged.
    """
    if not path.is_file():
        return file  # a packaged file
    folder = path.parent
    place = (folder / (file.base.get("directory") or "")).absolute()
    resolved = {
        "config": [_beside(name, folder) for name in file.config],
        "plugins": [_beside(name, folder) for name in file.plugins],
        "table": file.table and _beside(file.table, folder),
        "base": _with_data(file.base, folder) | ({"directory": str(place)} if file.task == "script" else {}),
        "include": [_with_data(settings, folder) for settings in file.include],
        "exclude": [_with_data(settings, folder) for settings in file.exclude],
        "baseline": _with_data(file.baseline, folder),
        "grid": {key: [_with_data({key: value}, folder)[key] for value in values] for key, values in file.grid.items()},
    }
    return file.model_copy(update=resolved)


def _with_data(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings with data files resolved relative to a folder.

    Those are file names below the key ``data`` and dotted keys that begin with it; see :func:`_files`.
    """
    return {key: _files(key, item, folder) if key.split(".")[0] == "data" else item for key, item in settings.items()}


def _files(key: str, value: Any, folder: Path) -> Any:
    """Return nested values with texts resolved by :func:`_beside`.

    The value of the key ``name``, and values that are no text, are unchanged.
    """
    if isinstance(value, dict):
        return {name: _files(name, item, folder) for name, item in value.items()}
    if isinstance(value, list):
        return [_files(key, item, folder) for item in value]
    last = key.rpartition(".")[2]
    return _beside(value, folder, last) if isinstance(value, str) and last != "name" else value


def _beside(name: str, folder: Path, key: str = "") -> str:
    """Return a name as a path below a folder, if it is a file there.

    A prefix (``key``) is one if files there begin with it. Else, or if too long for a path, the name is unchanged.
    """
    path = folder / name
    try:
        exists = path.is_file() or (key == "prefix" and any(folder.glob(f"{glob.escape(name)}*")))
    except (NotImplementedError, OSError, ValueError):  # an absolute prefix, or too long for a path
        return name
    return f"{path}{'/' * name.endswith('/')}" if exists else name
