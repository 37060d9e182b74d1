"""Outcome of a run: its state after the block that works on it, its log, a new beginning.

Only the first process of a run writes.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import Signals

from phmrun.documents import parse_yaml, yaml_text
from phmrun.errors import Interrupted, PhmrunError
from phmrun.files import remove, remove_unfinished
from phmrun.ledger.environment import DataRecord, Split
from phmrun.ledger.lock import LOCK
from phmrun.ledger.run import Run
from phmrun.ledger.status import State
from phmrun.plugin_errors import plugin_error

LOG = logging.getLogger("phmrun.ledger")


def is_leader() -> bool:
    """True if this process is the first on all machines, which writes.

    ``LOCAL_RANK``, ``NODE_RANK`` and ``GROUP_RANK`` are each 0 or not set.
    """
    return all(os.environ.get(name, "0") == "0" for name in ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK"))


@contextmanager
def outcome_kept(run: Run, failed: State = State.FAILED, before: str = "") -> Iterator[None]:
    """Write the state and its reason into the status if the block raises.

    The exception is raised again, an interrupt with its outcome. Interrupts ("by SIGTERM", else "by SIGINT"), broken
    pipes and ``SystemExit`` give the state ``interrupted``. A `PhmrunError` gives the state of the argument ``failed``,
    with its message; another error also with its type, as does ``SystemExit`` in a plug-in. A run that is no longer
    ``running`` is left unchanged.

    Args:
        run: Run in training.
        failed: State after an error. Default: ``failed``.
        before: Prefix of the reason.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        which = error.which if isinstance(error, Interrupted) else Signals.SIGINT
        reason = f"{before}by {which.name}"  # of the user, or of a sweep at its time limit
        set_outcome(run, State.INTERRUPTED, reason)
        if isinstance(error, Interrupted) and error.outcome:
            raise
        raise Interrupted(which, reason if before else f"interrupted {reason}") from error
    except PhmrunError as error:
        set_outcome(run, failed, before + error.what)
        raise
    except BrokenPipeError:
        set_outcome(run, State.INTERRUPTED, f"{before}the reader of its output closed the pipe")
        raise
    except (Exception, SystemExit) as error:
        fault = plugin_error(error)
        reason = f"{fault.where}: {fault.what}" if fault else f"{type(error).__name__}: {error}"
        if fault or isinstance(error, Exception):
            set_outcome(run, failed, before + reason)
        else:
            set_outcome(run, State.INTERRUPTED, f"{before}the process was exited")
        raise


def set_outcome(run: Run, state: State, reason: str) -> None:
    """Write the state of a running run.

    Nothing is written by processes other than the leader, by a fork, or if the run is not running. A failure is logged,
    not raised.
    """
    try:
        if is_leader() and not run.access.lock.forked and run.status.state is State.RUNNING:
            run.set_state(state, reason)
    except (OSError, PhmrunError) as error:
        LOG.warning("%s could not be written: %s", run.status_path, error)


@contextmanager
def log_file(run: Run) -> Iterator[None]:
    """Append phmrun's messages within the block to the run's ``train.log``.

    An error that ends the block is appended, too, with its traceback unless it is a `PhmrunError` or an interrupt; it
    is raised again. Nothing is written on processes other than the leader, or once another process has taken the run
    over. A file that cannot be written is left as it is.
    """
    if not is_leader():
        yield
        return
    handler = logging.FileHandler(run.path / "train.log", encoding="utf-8")
    handler.handleError = lambda record: None  # type: ignore[method-assign]  # a full disk stops the training itself
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"))
    # If another process has taken the run over, the log belongs to it.
    handler.addFilter(lambda _: not run.access.lock.lost)
    logger = logging.getLogger("phmrun")
    logger.addHandler(handler)
    try:
        yield
    except BaseException as error:
        expected = isinstance(error, PhmrunError | KeyboardInterrupt)
        trace = None if expected else (type(error), error, error.__traceback__)
        text = str(error) or type(error).__name__
        handler.handle(logging.LogRecord(LOG.name, logging.ERROR, __file__, 0, text, None, trace))
        raise
    finally:
        logger.removeHandler(handler)
        handler.close()


def begin(run: Run, config_yaml: str, identity: str, restart: Callable[[Run], None] | None) -> None:
    """Begin or continue a run whose lock this process holds: remove unfinished files, and check its manifest.

    Args:
        run: Run to begin.
        config_yaml: Resolved config of a new run.
        identity: Canonical identity of the run.
        restart: Called before the run's files are deleted for a new beginning; may raise to prevent it. None: the run
            is continued.

    Raises:
        PhmrunError: (exit 3) A checksum differs, or a file is missing.
    """
    if restart:
        restart(run)
        for path in run.path.iterdir():
            if path.name != LOCK:
                remove(path)
        Run.create(run.path.parent, run.id, config_yaml)
    remove_unfinished(run.path)
    run.begin(identity)


def keep_data(run: Run, config_yaml: str, files: Mapping[str, Sequence[Path]], marks: Mapping[str, str]) -> None:
    """Write the config and the record of the data's files.

    The config of a run that is done keeps all but the section of the data, which may have moved. If the config is the
    same and there is a record, the record stays as it is. Otherwise new splits are added, and paths of splits with
    unchanged content are updated. Splits whose content has changed keep their record; those without files are left out.

    Args:
        run: Run to write into.
        config_yaml: Resolved config with the present paths.
        files: Files of the run's data by split.
        marks: Checksums that the run id depends on.
    """
    if run.status.state is State.DONE:
        values = {**run.values, "data": parse_yaml(config_yaml, "the request")["data"]}
        config_yaml = run.config_text if values == run.values else yaml_text(values)
    record = run.data()
    if record is None or config_yaml != run.config_text:
        splits = {split: Split.of(paths) for split, paths in files.items()}
        recorded = record.splits if record else {}
        same = {name: split for name, split in splits.items() if recorded.get(name, split).sha256 == split.sha256}
        present = {name: split for name, split in same.items() if split.files}
        run.write_data(DataRecord({**recorded, **present}, dict(marks)))
    run.write_config(config_yaml)  # last: an interrupted call is made up for by the next
