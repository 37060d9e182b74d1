"""Listing of the runs of a directory: filters, order, columns."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

from phmrun.errors import unknown
from phmrun.ledger.directory import CONFIG, STATUS
from phmrun.ledger.recorded_run import DAMAGED, RecordedRun
from phmrun.ledger.run import Run
from phmrun.ledger.status import State


def recorded_run(path: Path) -> RecordedRun | None:
    """Return a directory's run; ``None`` if it has neither a status nor a config."""
    # Run.create writes the config first, so it was interrupted if there is only a config.
    return RecordedRun(Run(path)) if any(os.path.lexists(path / name) for name in (STATUS, CONFIG)) else None


def list_runs(runs_dir: Path) -> list[RecordedRun]:
    """Return a directory's runs, sorted by name.

    Hidden directories and those that are not runs are left out. The list is empty if there is no such directory. Inside
    :func:`unchanged`, a directory is read once.
    """
    listed = _LISTED.get()
    if listed is not None and runs_dir in listed:
        return listed[runs_dir]
    try:
        with os.scandir(runs_dir) as entries:
            paths = [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    runs = [run for run in map(recorded_run, sorted(paths)) if run is not None]
    if listed is not None:
        listed[runs_dir] = runs
    return runs


_LISTED: ContextVar[dict[Path, list[RecordedRun]] | None] = ContextVar("listed", default=None)


@contextmanager
def unchanged() -> Iterator[None]:
    """Context in which :func:`list_runs` reads each directory once.

    Runs that change or appear within it are not noticed.
    """
    token = _LISTED.set({})
    try:
        yield
    finally:
        _LISTED.reset(token)


def select(
    runs: Iterable[RecordedRun],
    *,
    task: str | None = None,
    layer: str | None = None,
    data: str | None = None,
    state: str | None = None,
) -> list[RecordedRun]:
    """Return the runs that match all filters, in order.

    A filter that is ``None`` matches every run.

    Args:
        runs: Runs to filter.
        task: Name of the task.
        layer: Words of the network's label in any order, all of which must occur: ``phm``, ``n=8``, ``phm n=8``.
        data: Name of the data.
        state: A state of :class:`State`, or ``damaged``.

    Raises:
        PhmrunError: (exit 2) There is no such state.
    """
    states = [*State, DAMAGED]
    if state is not None and state not in states:
        raise unknown("state", state, states, where="--state")
    words = set(layer.split()) if layer else set()
    return [
        run
        for run in runs
        if (state is None or run.state == state)
        and (task is None or run.about("task") == task)
        and (data is None or run.about("data") == data)
        and words <= set(str(run.network).replace(",", " ").split())
    ]


def sort(runs: Iterable[RecordedRun], key: str) -> list[RecordedRun]:
    """Return runs sorted by a column or score.

    Columns are name, state, task, data, layer, seed, parameters, step, seconds, updated, started and ended. Ties are in
    order of the id, which ``-`` reverses, too. Numbers are compared as numbers, texts as texts. Without runs, any key
    is accepted.

    Args:
        runs: Runs to sort.
        key: Name of the column or score; a leading ``-`` reverses the order.

    Returns:
        Sorted runs; those without a value, or with NaN, come last in either order.

    Raises:
        PhmrunError: (exit 2) There is no such column or score.
    """
    runs = list(runs)
    name = key.removeprefix("-")
    scores = {score for run in runs for score in run.metrics}
    if runs and name not in (*COLUMNS, *scores):
        raise unknown("column", name, [*COLUMNS, *scores], where="--sort")
    column = COLUMNS.get(name, lambda run: run.score(name))
    valued = [(column(run), run.id, run) for run in runs]
    missing = [item for item in valued if item[0] is None or item[0] != item[0]]  # no value, or NaN: never best
    present = sorted((item for item in valued if item not in missing), key=lambda item: item[:2])
    if key.startswith("-"):
        present.reverse()
    return [item[2] for item in [*present, *missing]]


def score_names(runs: Sequence[RecordedRun]) -> list[str]:
    """Return the names of all numeric scores in order of first appearance."""
    return list(dict.fromkeys(name for run in runs for name in run.metrics if run.score(name) is not None))


def _status_column(key: str) -> Callable[[RecordedRun], Any]:
    """Return a function that reads a field of a run's status.

    The function returns ``None`` without a status.
    """
    return lambda run: getattr(run.status, key, None)


COLUMNS: dict[str, Callable[[RecordedRun], Any]] = {
    "name": attrgetter("id"),
    "state": attrgetter("state"),
    **{key: methodcaller("about", key) for key in ("task", "data", "seed", "parameters")},
    "layer": attrgetter("network"),
    **{key: _status_column(key) for key in ("step", "seconds", "updated", "started", "ended")},
}
"""Columns by which runs can be sorted."""
