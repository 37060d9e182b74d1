"""Mirror of a run for TensorBoard.

A mirror is a folder in the run directory, written by the program's own package from the run's files. It replaces the
previous mirror of that name. Nothing is sent to a server.
"""

import calendar
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from phmrun.errors import PhmrunError, unknown
from phmrun.ledger.history import in_shown_units
from phmrun.ledger.run import Run
from phmrun.ledger.scores import score_value

Figures = Sequence[tuple[int, float, dict[str, float]]]
"""Triples of step, Unix time in seconds, and figures by name."""


def write_mirror(run: Run, name: str) -> Path:
    """Write a mirror of a run for another program.

    It has history and scores. ``name`` is "tensorboard". It replaces the run's folder of that name; after an error of
    writing, the previous mirror is kept.

    Returns:
        Folder of the mirror.

    Raises:
        PhmrunError: (exit 2) The name is unknown, or the program's package cannot be imported. (exit 3) A symbolic link
            leads out of the run.
    """
    if name not in MIRRORS:
        raise unknown("mirror", name, MIRRORS, where="--to")
    folder = run.own_folder(name)
    fresh = run.path / f".{name}.{secrets.token_hex(4)}.tmp"
    try:
        MIRRORS[name](fresh, list(_figures(run)))
    except ImportError as error:
        raise PhmrunError(
            f"the mirror {name} needs a package that is not installed, or cannot be imported: {error}",
            where="--to",
            hint=f"pip install 'phmrun[{name}]'",
        ) from error
    else:
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _tensorboard(folder: Path, figures: Figures) -> None:
    """Write event files for ``tensorboard --logdir`` into ``folder``.

    They have history and scores, not the config.

    Raises:
        ImportError: tensorboard cannot be imported.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step, moment, named in figures:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in named.items()]
        writer.add_event(Event(wall_time=moment, step=step, summary=Summary(value=values)))
    writer.close()


MIRRORS: dict[str, Callable[[Path, Figures], None]] = {"tensorboard": _tensorboard}
"""Writers of mirrors by name of the package."""


def _figures(run: Run) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Yield (step, Unix time in seconds, figures by name).

    There is one for each row of the history, then one for the scores. Figures are the numbers whose keys contain a
    slash, with shares in percent; rows without any are skipped. The scores have the last row's step and time. Time
    begins at 0 if the run's start is unknown.
    """
    started = run.status.started
    began = calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ")) if started else 0
    step, seconds = 0, 0.0
    for row in map(in_shown_units, run.history.rows()):
        step, seconds = int(row.get("step", step)), float(row.get("time", seconds))
        figures = {key: float(value) for key, value in row.items() if "/" in key and isinstance(value, int | float)}
        if figures:
            yield step, began + seconds, figures
    scores = {name: value for name, score in run.metrics().items() if (value := score_value(score)) is not None}
    if scores:
        yield step, began + seconds, scores
