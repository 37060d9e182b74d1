"""Execution of a script's command as a run: its process, log, signals and time limit."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from phmrun.config.sections import seconds_of
from phmrun.errors import ExitCode, Interrupted, PhmrunError
from phmrun.files import last_lines
from phmrun.ledger import Run, State
from phmrun.ledger.child import end, start
from phmrun.tasks.script.command import check, words_and_scores
from phmrun.tasks.script.config import ScriptExperiment
from phmrun.tasks.script.recording import LOG, Recording, input_checksums, recording
from phmrun.tasks.script.scores import read_scores

OUTPUT = "script.log"
"""Log of the script's output in its run directory."""
BEAT = 30.0
"""Seconds between two updates of a run's status while its script runs."""
_GUARD = "import os, sys; sys.stdin.buffer.read(); os.killpg(int(sys.argv[1]), 9)"
"""Program that kills a process group when its standard input is closed, also by the death of this process."""


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
        check(config)
        with recording(config, origin=origin, runs_dir=runs_dir, plugins=plugins, restart=restart) as record:
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
    config, log = record.config, record.run.path / OUTPUT
    words, scores = words_and_scores(config, record.directory)
    record.segment.entry["script"] = {"command": words, "directory": str(config.directory), "exit_code": None}
    record.segment.write()
    scores.unlink(missing_ok=True)
    code, timed_out = _completed(record, words, log)
    record.segment.entry["script"]["exit_code"] = code
    if timed_out:
        reason = f"stopped by the time limit {config.training.max_time}"
        record.run.set_state(State.INTERRUPTED, reason, seconds=record.seconds)
        LOG.warning("the script was %s; the same command continues it", reason)
        return
    if code:
        raise _failed(log, code)
    record.scores = read_scores(scores)


def _completed(record: Recording, words: list[str], log: Path) -> tuple[int, bool]:
    """Run a program to its end, with its output appended to a log.

    It has an empty input and a process group of its own. A second process, the guard, kills that group when the program
    has ended or this process has died, even by SIGKILL: either closes the guard's standard input. At the time limit the
    program gets SIGTERM.

    Returns:
        Exit code, which is minus the signal if one ended it, and True if the time limit did.

    Raises:
        PhmrunError: (exit 2) The program cannot be started.
        Interrupted: A signal to this process; it was passed on, and the program has ended.
    """
    config, limit = record.config, seconds_of(record.config.training.max_time)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if config.hardware.threads:
        environment["OMP_NUM_THREADS"] = str(config.hardware.threads)
    try:
        with log.open("ab") as output:
            process = start(words, output, environment, config.directory)
    except OSError as error:
        what = f"the command cannot be started: {error.strerror}"
        raise PhmrunError(what, where=str(error.filename or words[0]), code=ExitCode.USAGE) from error
    deadline = math.inf if limit is None else time.monotonic() + limit
    guard = [sys.executable, "-I", "-S", "-c", _GUARD, str(process.pid)]
    with subprocess.Popen(guard, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True):
        try:
            while (left := deadline - time.monotonic()) > 0:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(min(BEAT, left)), False
                record.beat()
            end([process], signal.SIGTERM)
        except KeyboardInterrupt as error:
            end([process], error.which if isinstance(error, Interrupted) else signal.SIGINT)
            raise
    return process.wait(), True


def _failed(log: Path, code: int) -> PhmrunError:
    """Return the error (exit 4) of a script that failed.

    It names the exit code or, if negative, the signal, and has the last lines of the output, if any.
    """
    how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code} ({signal.strsignal(-code)})"
    how += " (out of memory?)" if code == -signal.SIGKILL else ""
    lines = last_lines(log)
    what = ": ".join([f"the script {how}", *(line[:200] for line in lines[-1:])])
    hint = "\n".join(["Its last lines:", *lines]) if lines else "It has written no output."
    return PhmrunError(what, where=log, hint=hint, code=ExitCode.TRAINING)
