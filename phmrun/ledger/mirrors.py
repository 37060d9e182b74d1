"""Mirror of a run for TensorBoard.

A mirror is a folder in the run directory, written by the program's own package from the run's files. It replaces the
previous mirror of that name. Nothing is sent to a server.
"""

import calendar
import logging
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from phmrun.errors import PhmrunError, unknown
from phmrun.files import replacing_directory
from phmrun.ledger.card import write_card
from phmrun.ledger.history import in_shown_units
from phmrun.ledger.run import Run
from phmrun.ledger.scores import score_value
from phmrun.ledger.wandb_mirror import Mirror

LOG = logging.getLogger("phmrun.ledger")
TENSORBOARD = "tensorboard"


def write_mirror(run: Run, name: str) -> Path:
    """Write a mirror of a run for another program.

    It has history and scores, not the config. ``name`` is "tensorboard". It replaces the run's folder of that name;
    after an error of writing, the previous mirror is kept.

    Returns:
        Folder of the mirror, as ``tensorboard --logdir`` reads it.

    Raises:
        PhmrunError: (exit 2) The name is unknown, or the program's package cannot be imported. (exit 3) A symbolic link
            leads out of the run.
    """
    if name != TENSORBOARD:
        raise unknown("mirror", name, [TENSORBOARD], where="--to")
    folder = run.own_folder(name)
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise PhmrunError(
            f"the mirror {name} needs a package that is not installed, or cannot be imported: {error}",
            where="--to",
            hint=f"pip install 'phmrun[{name}]'",
        ) from error
    with replacing_directory(folder) as fresh:
        writer = EventFileWriter(str(fresh))
        for step, moment, named in _figures(run):
            values = [Summary.Value(tag=key, simple_value=value) for key, value in named.items()]
            writer.add_event(Event(wall_time=moment, step=step, summary=Summary(value=values)))
        writer.close()
    return folder


def close_run(run: Run, mirror: Mirror, names: Iterable[str]) -> None:
    """Close the W&B mirror of a finished run; write its card, and each named mirror.

    A mirror that fails is only a warning.
    """
    mirror.finish()
    write_card(run)
    for name in names:
        try:
            LOG.info("mirrored in %s", write_mirror(run, name))
        except PhmrunError as error:
            LOG.warning("not mirrored: %s", error)


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
