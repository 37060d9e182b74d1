"""Execution of a script's command as a run."""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from signal import Signals

from phmrun.config.sections import seconds_of
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import last_lines
from phmrun.ledger import Run, State
from phmrun.registry import plugin_marks
from phmrun.tasks.script.command import check, scores_path, words_of
from phmrun.tasks.script.config import ScriptExperiment
from phmrun.tasks.script.process import execute
from phmrun.tasks.script.recording import Recording, input_checksums, recording
from phmrun.tasks.script.scores import read_scores

LOG = logging.getLogger("phmrun.script")
OUTPUT = "script.log"
"""Log of the script's output in its run directory."""


class ScriptRunner:
    """Runner of scripts; see :class:`phmrun.task.Runner`."""

    def fingerprints(self, config: ScriptExperiment) -> dict[str, str]:
        """Return the checksums of the script's input files, by "input PATH".

        Raises:
            PhmrunError: (exit 2) Command and settings do not fit. (exit 3) An input file is missing.
        """
        check(config)
        return input_checksums(config)

    def run(
        self,
        config: ScriptExperiment,
        *,
        origin: Mapping[str, str],
        runs_dir: Path,
        plugins: Mapping[Path, str],
        restart: Callable[[Run], None] | None = None,
    ) -> Path:
        """Run a script, read its scores, and return the run directory.

        At the time limit the run is interrupted, and no error is raised. A run that is done is left unchanged.

        Raises:
            PhmrunError: (exit 4) The script failed, or its scores are missing or malformed. (exit 2) The command does
                not fit the settings. (exit 3) An input file is missing.
            Interrupted: A signal ended the script.
        """
        marks = {**self.fingerprints(config), **plugin_marks(plugins)}
        with recording(config, marks, origin=origin, runs_dir=runs_dir, plugins=plugins, restart=restart) as record:
            if not record.done:
                _execute(record)
        return record.run.path


RUNNER = ScriptRunner()


def _execute(record: Recording) -> None:
    """Run the command of a run and set its scores.

    Command, directory and exit code are kept in the environment's record. An old file of scores is deleted first. At
    the time limit, the run's state becomes interrupted instead, with a warning.

    Raises:
        PhmrunError: (exit 4) The command failed, or its scores are missing or malformed. (exit 2) It cannot be started.
        Interrupted: A signal ended the script.
    """
    config, limit = record.config, seconds_of(record.config.training.max_time)
    words, scores = words_of(config, record.directory), scores_path(config, record.directory)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if config.hardware.threads:
        environment["OMP_NUM_THREADS"] = str(config.hardware.threads)
    segment = record.segment
    segment.entry["script"] = {"command": words, "directory": str(config.folder), "exit_code": None}
    segment.write()
    if scores.is_file():
        scores.unlink()
    log = record.run.path / OUTPUT
    code, timed_out = execute(
        words, folder=config.folder, environment=environment, log=log, seconds=limit, beat=record.beat
    )
    segment.entry["script"]["exit_code"] = code
    if timed_out:
        reason = f"stopped by the time limit {config.training.max_time}"
        record.run.set_state(State.INTERRUPTED, reason, seconds=record.seconds)
        LOG.warning("the script was %s; the same command continues it", reason)
        return
    if code:
        raise _failed(log, code)
    record.scores = read_scores(scores)


def _failed(log: Path, code: int) -> PhmrunError:
    """Return the error (exit 4) of a script that failed.

    It names the exit code or, if negative, the signal, and has the last lines of the output, if any.
    """
    what = f"the script ended with exit code {code}"
    if code < 0:
        what = f"the script was ended by {Signals(-code).name}"
        what += " (out of memory?)" if code == -Signals.SIGKILL else ""
    lines = last_lines(log)
    what = f"{what}: {lines[-1][:200]}" if lines else what
    hint = "\n".join(["Its last lines:", *lines]) if lines else "It has written no output."
    return PhmrunError(what, where=str(log), hint=hint, code=ExitCode.TRAINING)
