"""Process of a script: its log, signals, the time limit, and its end with phmrun's own process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from phmrun.errors import ExitCode, Interrupted, PhmrunError

GRACE = 20.0
"""Seconds between the signal that ends a script and SIGKILL."""
BEAT = 30.0
"""Seconds between two calls of ``beat``."""
_GUARD = "import os, sys; sys.stdin.buffer.read(); os.killpg(int(sys.argv[1]), 9)"
"""Program that kills a process group when its standard input is closed."""


class End(NamedTuple):
    """End of a script.

    Attributes:
        code: Exit code; minus the signal if one ended it.
        timed_out: True if the time limit ended it.
    """

    code: int
    timed_out: bool = False


def execute(
    words: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    seconds: float | None = None,
    beat: Callable[[], None] = lambda: None,
) -> End:
    """Run a program to its end, with its output in a log.

    It has an empty input and a process group of its own, which is killed when the program ends or this process dies.

    Args:
        words: Program and arguments.
        folder: Working directory.
        environment: Environment variables.
        log: File that standard output and standard error are appended to.
        seconds: Time limit; the program then gets SIGTERM. None: no limit.
        beat: Called about every :data:`BEAT` seconds.

    Raises:
        PhmrunError: (exit 2) The program cannot be started.
        Interrupted: A signal to this process; it was passed on, and the program has ended.
    """
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                words,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        what = f"the command cannot be started: {error.strerror}"
        raise PhmrunError(what, where=str(error.filename or words[0]), code=ExitCode.USAGE) from error
    with _guarded(process):
        try:
            return _waited(process, seconds, beat)
        except KeyboardInterrupt as error:
            _end(process, error.which if isinstance(error, Interrupted) else signal.SIGINT)
            raise
        finally:
            _send(process, signal.SIGKILL)  # processes that the script left behind


def _waited(process: subprocess.Popen[bytes], seconds: float | None, beat: Callable[[], None]) -> End:
    """Wait for a process and return its end.

    At the time limit, it is ended by SIGTERM, and ``timed_out`` is true. ``beat`` is called every :data:`BEAT` seconds.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = BEAT if deadline is None else max(0.0, min(BEAT, deadline - time.monotonic()))
        with suppress(subprocess.TimeoutExpired):
            return End(process.wait(left))
        if deadline is not None and time.monotonic() >= deadline:
            _end(process, signal.SIGTERM)
            return End(process.returncode, timed_out=True)
        beat()


def _end(process: subprocess.Popen[bytes], which: signal.Signals) -> None:
    """Send a signal to a process group and wait for its end.

    SIGKILL follows when the process has ended, after :data:`GRACE` seconds, or at an interruption.
    """
    try:
        _send(process, which)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    finally:
        _send(process, signal.SIGKILL)
        process.wait()


def _send(process: subprocess.Popen[bytes], which: signal.Signals) -> None:
    """Send a signal to a process group; one that has ended is ignored."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, which)


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
