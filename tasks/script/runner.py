"""Execution of a script's command as a run: its words, its process, its end."""

import json
import logging
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import Signals
from typing import Any

from phmrun.errors import ExitCode, Interrupted, PhmrunError, nearest
from phmrun.files import last_lines
from phmrun.ledger import Run, State
from phmrun.ledger.child import end, start
from phmrun.registry import plugin_marks
from phmrun.tasks.script.config import ScriptExperiment
from phmrun.tasks.script.recording import Recording, input_checksums, read_scores, recording

PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]*)(?:\|([^{}]*))?\}")
"""Key, and a default after ``|``. Other braces are ordinary characters."""
LAYERS = ("layer", "embedding", "output")
PYTHON = ("python", "python3")


def words_of(config: ScriptExperiment, run: Path) -> list[str]:
    """Return program and arguments of a run.

    Placeholders are replaced; each value stays one argument. ``python`` and ``python3`` become phmrun's interpreter.

    Args:
        config: Resolved configuration.
        run: Folder of the script's files.

    Raises:
        PhmrunError: (exit 2) There is no command, a placeholder has no value, or a quote is not closed.
    """
    if not config.command.strip():
        raise PhmrunError("there is no command", where="command", hint="command: python train.py --seed {seed}")
    try:
        # A default may hold spaces, so placeholders are kept whole.
        kept = PLACEHOLDER.sub(lambda match: match[0].replace(" ", "\0"), config.command)
        words = [word.replace("\0", " ") for word in shlex.split(kept)]
    except ValueError as error:
        raise PhmrunError(f"the command cannot be split into words: {error}", where="command") from error
    values = _values(config, run)
    program, *arguments = (_filled(word, values) for word in words)
    return [sys.executable if program in PYTHON else program, *arguments]


def scores_path(config: ScriptExperiment, run: Path) -> Path:
    """Return the path of the scores file, with placeholders replaced.

    Raises:
        PhmrunError: (exit 2) A placeholder has no value.
    """
    return Path(_filled(config.scores, _values(config, run)))


def check(config: ScriptExperiment) -> None:
    """Check that each placeholder has a value, and each setting a placeholder.

    Placeholders of the command and of ``scores`` count. That of a section stands for all of its keys.

    Raises:
        PhmrunError: (exit 2) There is no command, a quote is not closed, a placeholder has neither value nor default,
            a setting has no placeholder, or the file of scores is not in the run's folder. Seed, run folder and dense
            layers need none.
    """
    words_of(config, Path("run"))
    values = _values(config, Path("run"))
    used = [match[1] for match in PLACEHOLDER.finditer(f"{config.command} {config.scores}")]
    optional = {"seed", "run", *(f"{key}.structure" for key in LAYERS if values[key] == {"structure": "dense"})}
    unused = [
        key
        for key, value in values.items()
        if not (isinstance(value, Mapping) or key in optional or any(f"{key}.".startswith(f"{name}.") for name in used))
    ]
    if unused:
        raise PhmrunError(
            f"the command has no placeholder for {', '.join(unused)}, so the setting would have no effect",
            where="command",
            hint=f"Add {{{unused[0]}}} to the command, or remove {unused[0]} from the settings.",
        )
    if not config.scores.startswith("{run}/") or ".." in Path(config.scores).parts:
        raise PhmrunError(
            "several runs would share this file of scores: it is not in the run's folder {run}",
            where="scores",
            valid=["{run}/scores.json"],
            hint="Give the folder to the script, as in command: python train.py --out {run}",
        )


def _values(config: ScriptExperiment, run: Path) -> dict[str, Any]:
    """Return the values of placeholders by dotted key; those of sections are mappings.

    These are the settings, the seed, the absolute path of the run's folder, and layer, embedding and output with their
    options. Keys without a value are left out.
    """
    layers = {key: getattr(config, key).arguments for key in LAYERS}
    settings = config.settings.__pydantic_extra__ or {}
    return _by_key({**layers, **settings, "seed": config.seed, "run": str(run.absolute())})


def _by_key(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return values and nested values other than None, by dotted key."""
    table: dict[str, Any] = {}
    for key, value in values.items():
        table |= {} if value is None else {f"{prefix}{key}": value}
        table |= _by_key(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {}
    return table


def _filled(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with its placeholders replaced.

    A text is unchanged; a structure without options is its name; anything else is JSON (true, 0.1, [1, 2]).

    Raises:
        PhmrunError: (exit 2) A placeholder has neither a value nor a default.
    """

    def replace(match: re.Match[str]) -> str:
        """Return the value of a placeholder as text, or its default."""
        value = values.get(match[1], match[2])
        if value is None:
            names = sorted(key for key in values if not isinstance(values[key], Mapping))
            close = nearest(match[1], names)
            advice = f"Did you mean {{{close[0]}}}? " if close else ""
            hint = f"{advice}{{{match[1]}|0}} has the default 0."
            raise PhmrunError(f"no value for {match[0]} in this cell", where="command", valid=names, hint=hint)
        if isinstance(value, Mapping) and value.keys() == {"structure"}:
            value = value["structure"]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return PLACEHOLDER.sub(replace, template)


BEAT = 30.0
"""Seconds between two calls of ``beat``."""
_GUARD = "import os, sys; sys.stdin.buffer.read(); os.killpg(int(sys.argv[1]), 9)"
"""Program that kills a process group when its standard input is closed."""


def execute(
    words: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    seconds: float | None = None,
    beat: Callable[[], None] = lambda: None,
) -> tuple[int, bool]:
    """Run a program to its end, with its output in a log.

    It has an empty input and a process group of its own, which is killed when the program ends or this process dies.

    Args:
        words: Program and arguments.
        folder: Working directory.
        environment: Environment variables.
        log: File that standard output and standard error are appended to.
        seconds: Time limit; the program then gets SIGTERM. None: no limit.
        beat: Called about every :data:`BEAT` seconds.

    Returns:
        Exit code, which is minus the signal if one ended it, and True if the time limit did.

    Raises:
        PhmrunError: (exit 2) The program cannot be started.
        Interrupted: A signal to this process; it was passed on, and the program has ended.
    """
    try:
        with log.open("ab") as output:
            process = start(words, output, environment, folder)
    except OSError as error:
        what = f"the command cannot be started: {error.strerror}"
        raise PhmrunError(what, where=str(error.filename or words[0]), code=ExitCode.USAGE) from error
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    with _guarded(process):
        try:
            while (left := deadline - time.monotonic()) > 0:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(min(BEAT, left)), False
                beat()
            end([process], signal.SIGTERM)
        except KeyboardInterrupt as error:
            end([process], error.which if isinstance(error, Interrupted) else signal.SIGINT)
            raise
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # also processes that the script left behind
        return process.wait(), True


@contextmanager
def _guarded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process group if this process dies within the block.

    This holds even for SIGKILL: a second process waits for the end of a pipe. It is ended with the block.
    """
    words = [sys.executable, "-I", "-S", "-c", _GUARD, str(process.pid)]
    guard = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        guard.kill()
        guard.wait()
        if guard.stdin is not None:
            guard.stdin.close()


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
    config, limit = record.config, record.config.training.max_seconds
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
