"""Listing of the runs of a directory: filters, order, columns."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError, nearest
from phmrun.ledger.directory import is_run
from phmrun.ledger.history import shown
from phmrun.ledger.run import Run
from phmrun.ledger.scores import score_value, signature_of


def recorded_run(path: Path) -> Run | None:
    """Return a directory's run; ``None`` if it is not one.

    Inside :func:`unchanged`, it is the one that :func:`list_runs` has returned.
    """
    if (listed := (_LISTED.get() or {}).get(path.parent)) is not None:
        return listed.get(path)
    # Run.create writes the config first, so it was interrupted if there is only a config.
    return Run(path, lenient=True) if is_run(path) else None


def list_runs(runs_dir: Path) -> list[Run]:
    """Return a directory's runs, sorted by name.

    Hidden directories and those that are not runs are left out. The list is empty if there is no such directory. Inside
    :func:`unchanged`, a directory is read once.
    """
    listed = _LISTED.get()
    if listed is not None and runs_dir in listed:
        return list(listed[runs_dir].values())
    try:
        with os.scandir(runs_dir) as entries:
            paths = [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    runs = [run for run in map(recorded_run, sorted(paths)) if run is not None]
    if listed is not None:
        listed[runs_dir] = {run.path: run for run in runs}
    return runs


_LISTED: ContextVar[dict[Path, dict[Path, Run]] | None] = ContextVar("listed", default=None)


@contextmanager
def unchanged(known: Mapping[Path, Sequence[Run]] | None = None) -> Iterator[None]:
    """Context in which :func:`list_runs` reads each directory once, and none of those whose runs are ``known``.

    Runs that change or appear within it are not noticed. An inner context is part of the outer one, and so are the runs
    that it knows.
    """
    listed = {} if (outer := _LISTED.get()) is None else outer
    listed |= {folder: {run.path: run for run in runs} for folder, runs in (known or {}).items()}
    token = _LISTED.set(listed)
    try:
        yield
    finally:
        _LISTED.reset(token)


def where(runs: Sequence[Run], texts: Iterable[str]) -> list[Run]:
    """Return the runs that have these values, in order.

    Args:
        runs: Runs to filter.
        texts: ``key=value`` each; keys are those of :func:`value_of`, values are YAML or the text of the run's value.

    Raises:
        PhmrunError: (exit 2) A text has another form, or no run has the key.
    """
    kept = list(runs)
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or value.startswith(("<", "=", ">")):
            hint = "As in --where seed=1; --sort=-test/bleu has the highest scores first."
            raise PhmrunError(f"{text!r} is not of the form key=value", where="--where", hint=hint)
        require_column(runs, key, "--where")
        wanted = parse_yaml(value, f"--where {text}")
        kept = [run for run in kept if (actual := value_of(run, key)) == wanted or str(actual) == value]
    return kept


def value_of(run: Run, name: str) -> Any:
    """Return the value of a run in a column; ``None`` if it has none.

    A name is one of :data:`COLUMNS`, a score, or a setting by its dotted key or the end of it: lr for
    training.optimizer.lr. Of several keys with that end, the shortest counts.
    """
    if name in COLUMNS:
        return COLUMNS[name](run)
    if "/" in name:
        return run.score(name)
    keys = [key for key in run.settings if f".{key}".endswith(f".{name}")]
    return run.settings[min(keys, key=len)] if keys else None


def require_column(runs: Sequence[Run], name: str, where: str) -> None:
    """Check that a column exists.

    Without runs, any name is accepted.

    Raises:
        PhmrunError: (exit 2) No run has a value in it, and it is none of :data:`COLUMNS`. ``where`` names the option.
    """
    if runs and name not in COLUMNS and all(value_of(run, name) is None for run in runs):
        ends = {key.rpartition(".")[2] for run in runs for key in run.settings}
        valid = [*COLUMNS, *score_names(runs)]
        close = f"Did you mean {' or '.join(map(repr, close))}? " if (close := nearest(name, {*ends, *valid})) else ""
        hint = f"{close}Settings are columns, too: training.optimizer.lr, or its end, lr."
        raise PhmrunError(f"there is no column {name!r}", where=where, valid=valid, hint=hint)


def telling_settings(runs: Sequence[Run]) -> list[str]:
    """Return the keys of settings that differ between runs of one task: data, seed and learning rate, then others.

    Settings that a network's label covers, those of hardware and logging, and lists are left out, as are all of more
    than 200 runs, whose configs take seconds to read.
    """
    values: dict[tuple[str, str], set[str]] = {}
    for run in runs if len(runs) <= MOST_READ else ():
        for key, value in run.settings.items():
            if not isinstance(value, list | dict):
                values.setdefault((run.about("task"), key), set()).add(str(value))
    keys = dict.fromkeys(key for (_, key), texts in values.items() if len(texts) > 1)
    shown = [key for key in keys if key.partition(".")[0] not in _UNTOLD]
    shown.sort(key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
    return ["data" if key == "data.name" else key for key in shown]


def sort(runs: Iterable[Run], key: str) -> list[Run]:
    """Return runs sorted by a column, score or setting, see :func:`value_of`.

    Ties are in order of the id, which ``-`` reverses, too. Numbers are compared as numbers, if there are no texts.
    Without runs, any key is accepted.

    Args:
        runs: Runs to sort.
        key: Name of the column; a leading ``-`` reverses the order.

    Returns:
        Sorted runs; those without a value, or with NaN, come last in either order.

    Raises:
        PhmrunError: (exit 2) There is no such column.
    """
    runs = list(runs)
    name = key.removeprefix("-")
    require_column(runs, name, "--sort")
    valued = [(value_of(run, name), run.id, run) for run in runs]
    lacks = [item[0] is None or item[0] != item[0] for item in valued]  # no value, or NaN: never best
    missing = [item for item, lacking in zip(valued, lacks, strict=True) if lacking]
    present = [item for item, lacking in zip(valued, lacks, strict=True) if not lacking]
    numeric = all(isinstance(item[0], int | float) for item in present)
    present.sort(key=lambda item: (item[0] if numeric else str(item[0]), item[1]))
    if key.startswith("-"):
        present.reverse()
    return [item[2] for item in [*present, *missing]]


def score_names(runs: Sequence[Run]) -> list[str]:
    """Return the names of all numeric scores in order of first appearance."""
    return list(dict.fromkeys(name for run in runs for name in run.scores()))


def _status_column(key: str) -> Callable[[Run], Any]:
    """Return a function that reads a field of a run's status.

    The function returns ``None`` without a status.
    """
    return lambda run: getattr(run.status, key) if run.status else None


COLUMNS: dict[str, Callable[[Run], Any]] = {
    **dict.fromkeys(("name", "run"), attrgetter("id")),
    "state": attrgetter("state"),
    **{key: methodcaller("about", key) for key in ("task", "data", "seed", "parameters")},
    "layer": attrgetter("network"),
    **{key: _status_column(key) for key in ("step", "seconds", "updated", "started", "ended")},
}
"""Columns by which runs can be sorted."""
MOST_READ = 200
_UNTOLD = ("layer", "embedding", "output", "hardware", "logging", "provenance", "score_on")
_FIRST = ("data.name", "seed", "training.optimizer.lr")


def configurations(runs: Sequence[Run]) -> dict[str, tuple[Any, ...]]:
    """Return the dotted keys whose values differ between runs, with each run's value.

    They are in order of first appearance. A missing key has the value ``None``.

    Raises:
        PhmrunError: (exit 3) A configuration cannot be read.
    """
    configs = [run.settings for run in runs]
    keys = dict.fromkeys(key for values in configs for key in values)
    rows = {key: tuple(values.get(key) for values in configs) for key in keys}
    return {key: values for key, values in rows.items() if any(value != values[0] for value in values)}


def scores(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return the scores that at least one run has.

    They are in order of first appearance. A score that is a number in no run is left out; one that is a number in some
    has ``None`` for the others.

    Returns:
        By name of the score: "values", one for each run, and "alike", True if all signatures are equal, except for the
        optimizer step of the weights. Runs without the score, and bare numbers, do not count.

    Raises:
        PhmrunError: (exit 3) The scores of a run are damaged.
    """
    metrics = [run.metrics() for run in runs]
    names = dict.fromkeys(name for scores in metrics for name in scores)
    rows = {}
    for name in names:
        entries = [scores.get(name) for scores in metrics]
        signatures = {signature_of(entry) for entry in entries if isinstance(entry, Mapping)}
        values = tuple(score_value(entry) for entry in entries)
        if any(value is not None for value in values):
            rows[name] = {"values": values, "alike": len(signatures) <= 1}
    return rows


def curves(runs: Sequence[Run], figure: str) -> list[tuple[int, list[float | None]]]:
    """Return a figure of several runs, such as "val/loss", by optimizer step.

    Args:
        runs: Runs to compare.
        figure: Name of the figure.

    Returns:
        A pair of step and values for each step that any run has, ascending; ``None`` if a run has no value at that
        step. Shares are in percent. If a step occurs twice in a history, its last row counts.
    """
    rows_of = [(row for row in run.history.rows(figure) if figure in row) for run in runs]
    by_run = [{row["step"]: shown(figure, row[figure]) for row in rows} for rows in rows_of]
    steps = sorted({step for values in by_run for step in values})
    return [(step, [values.get(step) for values in by_run]) for step in steps]


def figures(runs: Sequence[Run]) -> list[str]:
    """Return the names of all validation figures ("val/…") of runs.

    They are in order of first appearance.
    """
    names = dict.fromkeys(name for run in runs for row in run.history.rows("val/") for name in row)
    return [name for name in names if name.startswith("val/")]
