"""Process of a script: its log, signals, the time limit, and its end with phmrun's own process."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from phmrun.errors import ExitCode, Interrupted, PhmrunError
from phmrun.ledger.child import end, start

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
