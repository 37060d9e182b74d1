"""Plan of a sweep: cells resolved, named and checked before the start.

Imports no torch. Callers pass in the two parts that need torch: the options of structures, and an inspector that counts
parameters and checksums data. The inspector may cache its answers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from phmrun.config import Source, Task, config_source, nested, resolve, run_id, task_defaults
from phmrun.config.layering import OptionsOf
from phmrun.documents import below
from phmrun.errors import PhmrunError
from phmrun.papers.table import PaperTable, column_groups, is_trained
from phmrun.registry import TASKS
from phmrun.sweeps.cell import Cell, Inspect
from phmrun.sweeps.file import Sweep
from phmrun.sweeps.selection import SEED, Selection, fits, label_of, listed, pattern_of

LAYERS = {"layer", "embedding", "output"}  # keys whose value is a layer with options of its own
MOST_CELLS = 100_000  # limit of cells of a sweep


@dataclass(frozen=True)
class Plan:
    """All cells of a sweep, in order."""

    sweep: Sweep
    cells: Sequence[Cell]  # all cells, also those that cannot be run
    trials: Sequence[Cell] = ()  # trials of tuning, as far as their values are known
    inspect: Inspect | None = None  # the inspector that it was made with
    ledger: Path | None = None  # directory of runs of earlier versions that may replace cells; None: none may


def plan(
    sweep: Sweep, inspect: Inspect, options_of: OptionsOf, *, seeds: int | None = None, only: Selection | None = None
) -> Plan:
    """Return the plan of a sweep.

    Faults of cells are kept in the cells, not raised. Seeds vary fastest, then the last grid key. Cells that match an
    entry of ``exclude`` are left out. With a key ``baseline``, each cell is marked as fitting it or not.

    Args:
        sweep: The sweep.
        inspect: Inspector, called once for all seeds of an experiment.
        options_of: Options of a structure.
        seeds: Number of seeds; the file's if not given.
        only: Values by key that select cells, see :func:`fits`; all cells if not given.

    Raises:
        PhmrunError: (exit 2) The sweep has more than 100,000 cells, names an unknown task or a missing configuration
            file, has several seeds but a command without ``{seed}``, or no cell is left. Its key ``exclude`` fits no
            cell, ``baseline`` none or all; cells are counted before ``only``, without excluded ones.
    """
    numbers, only = sweep.seeds(seeds), only or {}
    _require_few(sweep, len(numbers))
    every = _marked(sweep, list(_without_seeds(sweep, options_of)))
    for cell in every:
        _check_seed_placeholder(cell, numbers)
    wanted = {key: values for key, values in only.items() if key != SEED}
    baseline = pattern_of(sweep.file.baseline)
    hint = _hint(every, {**wanted, **baseline})
    if baseline and len({cell.baseline for cell in every}) == 1:
        what = f"{listed(baseline)} fits {'every' if every[0].baseline else 'no'} cell of the sweep"
        raise PhmrunError(what, where=sweep.source.at("baseline"), hint=hint)
    if not every:
        raise PhmrunError("every cell of the sweep is excluded", where=sweep.where)
    kept_seeds = [seed for seed in numbers if fits({SEED: seed}, None, {SEED: only.get(SEED, [seed])})]
    fitting = [cell for cell in every if fits(cell.at, cell.config, wanted)]
    cells = [seeded for cell in fitting for seeded in _with_seeds(cell, kept_seeds, inspect)]
    if not cells:
        raise PhmrunError(f"no cell of the sweep fits {listed(only)}", where=sweep.where, hint=hint)
    return Plan(sweep, cells, inspect=inspect)


def _require_few(sweep: Sweep, seeds: int) -> None:
    """Check the number of cells, before their product is built.

    Raises:
        PhmrunError: (exit 2) There are more than 100,000.
    """
    file = sweep.file
    count = (prod(len(values) for values in file.grid.values()) + len(file.include)) * seeds
    if count > MOST_CELLS:
        many = f"{count:,}" if count < 10**15 else "far too many"
        what = f"{many} cells are more than the {MOST_CELLS:,} of one sweep"
        raise PhmrunError(what, where=sweep.source.at("grid"), hint="Take fewer seeds or values, or several files.")


def _marked(sweep: Sweep, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that the sweep does not exclude, each marked as its baseline or not, if it names one.

    Raises:
        PhmrunError: (exit 2) An entry of ``exclude`` fits no cell.
    """
    left_out, baseline = [pattern_of(values) for values in sweep.file.exclude], pattern_of(sweep.file.baseline)
    for pattern in left_out:
        if not any(fits(cell.at, cell.config, pattern) for cell in cells):
            what = f"{listed(pattern)} fits no cell of the sweep"
            raise PhmrunError(what, where=sweep.source.at("exclude"), hint=_hint(cells, pattern))
    return [
        replace(cell, baseline=fits(cell.at, cell.config, baseline) if baseline else None)
        for cell in cells
        if not any(fits(cell.at, cell.config, pattern) for pattern in left_out)
    ]


def _hint(cells: Sequence[Cell], asked: Iterable[str]) -> str:
    """Return which keys select cells, with the values of those ``asked`` for."""
    keys = dict.fromkeys(key for cell in cells for key in cell.at)
    values = {key: ", ".join(dict.fromkeys(cell.labels.get(key, "") for cell in cells)) for key in keys}
    hint = f"A key is one of the sweep ({', '.join([*values, SEED])}) or a dotted one of the configuration."
    return hint + "".join(f" Values of {key}: {values[key]}." for key in asked if key in values)


def _check_seed_placeholder(cell: Cell, seeds: Sequence[int]) -> None:
    """Check that a script's command has the placeholder ``{seed}`` if there are several seeds.

    Raises:
        PhmrunError: (exit 2) It has none.
    """
    command = getattr(cell.config, "command", None)
    if command and len(seeds) > 1 and not re.search(r"\{seed[|}]", command):
        what = f"{len(seeds)} seeds would run the same command: it has no placeholder {{seed}}"
        raise PhmrunError(what, where=cell.origin.get("command"), hint="Add --seed {seed}, or take seeds: 1.")


def varied(cell: Cell, values: Mapping[str, Any], inspect: Inspect, options_of: OptionsOf) -> Cell:
    """Return a cell with other values by dotted key.

    It is resolved, inspected and named again; invalid values become its fault. Its ``at`` gains the values, which may
    change its labels. Its seed, baseline mark and difference from the paper stay, marks of tuning are reset.

    Raises:
        ValueError: The cell has no valid configuration.
    """
    if cell.config is None:
        raise ValueError(f"the cell {cell.label} cannot be run")
    sources = [Source(cell.label, cell.config.model_dump(mode="json")), Source("tune", nested(values))]
    varied_cell = _resolved({**cell.at, **values}, cell.config.task, sources, options_of)
    origin = {**cell.origin, **{key: varied_cell.origin[key] for key in values if key in varied_cell.origin}}
    marked = replace(varied_cell, origin=origin, baseline=cell.baseline, departs=cell.departs)
    (seeded,) = _with_seeds(marked, [cell.config.seed], inspect)
    return seeded


def _with_seeds(cell: Cell, seeds: Iterable[int], inspect: Inspect) -> Iterator[Cell]:
    """Yield a cell once per seed; it is inspected once.

    An error of the inspection becomes the cells' fault. Parameters and checksums are those of the inspection. A cell
    without a configuration is not inspected.
    """
    try:
        if cell.config:
            size, marks, exact = inspect(cell.config)
            cell = replace(cell, parameters=size, marks=marks, exact=exact)
    except PhmrunError as error:
        cell = replace(cell, fault=error)
    for seed in seeds:
        yield reseeded(cell, seed)


def reseeded(cell: Cell, seed: int) -> Cell:
    """Return a cell with another seed and its run id.

    Network and data stay the same. A cell with a fault or without a configuration has no run id. ``chose_settings``
    becomes False.
    """
    config = cell.config.model_copy(update={SEED: seed}) if cell.config else None
    name = run_id(config, fingerprints=cell.marks) if config and cell.fault is None else None
    return replace(cell, at={**cell.at, SEED: seed}, config=config, run_id=name, chose_settings=False)


def _resolved(
    at: dict[str, Any], task: str, sources: list[Source], options_of: OptionsOf, published: Sequence[Source] = ()
) -> Cell:
    """Return a cell that is not inspected yet.

    Invalid settings become its fault, and it has no configuration. ``published`` are the sources of a paper's row
    without the sweep's own. The cell departs from the paper if they resolve to another ``model.network``; if they are
    invalid, it does not. Defaults are left out of its origin.

    Raises:
        PhmrunError: (exit 2) The task is unknown.
    """
    schema = TASKS.get(task).load("schema")
    try:
        resolved = resolve(schema, sources, options_of)
    except PhmrunError as error:
        return Cell(at, None, {}, None, None, error)
    origin = {key: label for key, label in resolved.origin.items() if label != "default"}
    departs = ""
    with suppress(PhmrunError):
        paper = resolve(schema, published, None).config if published else resolved.config
        ours, theirs = (getattr(config.model, "network", None) for config in (resolved.config, paper))
        departs = "" if ours == theirs else f"{ours} for the paper's {theirs}"
    return Cell(at, resolved.config, origin, None, None, None, departs=departs)


def _without_seeds(sweep: Sweep, options_of: OptionsOf) -> Iterator[Cell]:
    """Yield each cell without its seed, not inspected yet.

    Settings by rising precedence: the task's defaults, ``config``, ``base``, the cell's. Among the cell's, presets come
    first, then keys with fewer dots. In a task ``script``, the first value of each tuned key precedes ``base``. Cells
    of a paper's table are those of :func:`_of_table`.

    Raises:
        PhmrunError: (exit 2) The task is unknown, a configuration file is missing or malformed, or a table has no
            column to fill.
    """
    file = sweep.file
    files = [config_source(name) for name in file.config]
    base = Source(sweep.where, file.base, below(sweep.source.lines, "base"))
    if sweep.table:
        yield from _of_table(sweep, sweep.table, [*files, base], options_of)
        return
    task: Task = TASKS.get(str(file.task), where=sweep.source.at("task"))
    if task.runner and file.space is not True:  # a command needs a value before the trials have chosen one
        files.append(Source(sweep.where, nested({key: values[0] for key, values in file.space.items()})))
    first = [task_defaults(task.name), *files, base]
    for values in _combinations(sweep, options_of):
        # presets first, then shorter keys, so that `layer.n` refines `layer` in either order
        ordered = sorted(values.items(), key=lambda item: (not item[0].endswith("preset"), item[0].count(".")))
        cell = [Source(f"{sweep.where} ({key}={label_of(v)})", nested({key: v})) for key, v in ordered]
        yield _resolved(values, task.name, [*first, *cell], options_of)


def _combinations(sweep: Sweep, options_of: OptionsOf) -> Iterator[dict[str, Any]]:
    """Yield the values of each cell.

    They are the grid's combinations, the last key varying fastest, then the included ones as they are. An empty grid
    gives one cell without values, unless there are included ones. An option varies only for the layers that have it:
    ``layer: [dense, phm]`` times ``layer.n: [2, 4]`` is dense, phm n=2, phm n=4. Combinations that become equal by
    this are yielded once.
    """
    grid = sweep.file.grid

    def options(key: str, value: Any) -> set[str]:
        """Return the grid's keys of a layer's options; all of them for an unknown layer, which its cell reports."""
        structure = value.get("structure") if isinstance(value, Mapping) else value
        try:
            names = options_of(str(structure), table=key == "embedding").model_fields
        except PhmrunError:
            return {*grid}
        return {f"{key}.{name}" for name in names} & grid.keys()

    layers = [key for key in LAYERS & grid.keys() if any(name.startswith(f"{key}.") for name in grid)]
    by_layer = {key: [options(key, value) for value in grid[key]] for key in layers}
    somewhere = {key: set[str]().union(*(names for names in by_layer[key] if names != {*grid})) for key in layers}
    seen: list[dict[str, Any]] = []
    for combination in product(*grid.values()) if grid or not sweep.file.include else ():
        values = dict(zip(grid, combination, strict=True))
        foreign = {name for key in layers for name in somewhere[key] - options(key, values[key])}
        if foreign:
            values = {key: value for key, value in values.items() if key not in foreign}
            if values in seen:
                continue
            seen.append(values)
        yield values
    yield from sweep.file.include


def _of_table(sweep: Sweep, table: PaperTable, over: Sequence[Source], options_of: OptionsOf) -> Iterator[Cell]:
    """Yield the cells of a paper's table: rows times columns.

    Columns of the same experiment are merged. Rows that are not trained are left out, as are those missing from the
    file's grid, if it names any. ``at`` has the row, and the column if there are several. Settings by rising
    precedence: table, column, row, cell, ``over``. Rows vary slowest.

    Raises:
        PhmrunError: (exit 2) No column is a score of ours, the task is unknown, or a configuration file is missing.
    """
    file, task = sweep.file, str(table.task)
    where = str(file.table)
    columns = list(dict.fromkeys(column_groups(table, file.columns).values()))
    if not columns:
        hint = "Columns that runs fill have a key `score`; `phmrun count-params --paper all` has published counts."
        raise PhmrunError("no column of this table is a score of ours", where=where, hint=hint)
    first = table.sources(where)
    for row in table.rows:
        if not is_trained(row) or row.name not in file.grid.get("row", [row.name]):
            continue
        for heading in columns:
            at = {"row": row.name, **({"column": heading} if len(columns) > 1 else {})}
            settings = table.columns[heading].set
            sources = [table.source(f"{where}, column {heading}", settings)]
            sources += table.row_sources(row, f"{where}, row {row.name}", heading)
            yield _resolved(at, task, [*first, *sources, *over], options_of, [*first, *sources])
