"""Records of a run's process: its entry in ``environment.json``, its mirrors and card. Imports no torch."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from phmrun.config import Experiment
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.ledger.card import write_card
from phmrun.ledger.mirrors import write_mirror
from phmrun.ledger.segment import Segment
from phmrun.ledger.wandb_mirror import Mirror

LOG = logging.getLogger("phmrun.engine")


@contextmanager
def segment_of(run: Run, facts: Mapping[str, Any]) -> Iterator[Segment]:
    """Record the block in ``environment.json``, and yield the entry.

    It ends with the state of the run. If the block raises, it ends with "interrupted" (by Ctrl-C, exit or the run's
    state) or "failed"; errors of writing are then ignored. A fork of the process writes nothing.

    Args:
        run: Run whose lock this process holds.
        facts: Facts of the environment.
    """
    segment = Segment(run, facts)
    try:
        yield segment
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt | SystemExit) or run.status.state is State.INTERRUPTED
        if not run.forked:
            with suppress(OSError, PhmrunError):  # a full disk may be the cause
                segment.end("interrupted" if stopped else "failed")
        raise
    if not run.forked:
        segment.end(run.status.state.value)


def open_mirror(run: Run, config: Experiment, tags: Sequence[str]) -> Mirror:
    """Open the W&B mirror of a run.

    Raises:
        PhmrunError: (exit 2) The mode is unknown, or W&B cannot be used.
    """
    return Mirror(
        run,
        config.logging.wandb,
        project=config.logging.project,
        entity=config.logging.entity,
        config=config.model_dump(mode="json"),
        tags=tags,
        group=f"{config.task}-{config.data.name}",
        job_type=config.task,
    )


def close_run(run: Run, config: Experiment, mirror: Mirror) -> None:
    """Close the W&B mirror, write the card of a finished run and each mirror of ``logging.mirrors``.

    A mirror that fails is only a warning.
    """
    mirror.finish()
    write_card(run)
    for name in config.logging.mirrors:
        try:
            LOG.info("mirrored in %s", write_mirror(run, name))
        except PhmrunError as error:
            LOG.warning("not mirrored: %s", error)
