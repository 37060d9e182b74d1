"""Process of a script: its log of bounded size, signals, the time limit, and its end with phmrun's own process."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from phmrun.errors import ExitCode, Interrupted, PhmrunError
from phmrun.files import replacing

LONGEST_LOG = 8 << 20
"""Size of a log in bytes above which its middle is removed."""
KEPT = 1 << 20
"""Bytes that are kept of the beginning and of the end of such a log."""
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
        log: File that standard output and standard error are appended to, with its middle removed above
            :data:`LONGEST_LOG`. They also go to this process's standard error if that is a terminal.
        seconds: Time limit; the program then gets SIGTERM. None: no limit.
        beat: Called about every :data:`BEAT` seconds.

    Raises:
        PhmrunError: (exit 2) The program cannot be started.
        Interrupted: A signal to this process; it was passed on, and the program has ended.
    """
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        what = f"the command cannot be started: {error.strerror}"
        raise PhmrunError(what, where=str(error.filename or words[0]), code=ExitCode.USAGE) from error
    reader = threading.Thread(target=_copy, args=(process.stdout, log, ended := threading.Event()), daemon=True)
    reader.start()
    with _guarded(process):
        try:
            end = _waited(process, seconds, beat)
        except KeyboardInterrupt as error:
            _end(process, error.which if isinstance(error, Interrupted) else signal.SIGINT)
            raise
        finally:
            _send(process, signal.SIGKILL)  # processes that the script left behind
            reader.join(2.0)
            ended.set()  # a process that left the group may keep the pipe open
    return end


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


def _copy(stream: IO[bytes], path: Path, ended: threading.Event) -> None:
    """Append a stream to a log until its end, or until ``ended`` is set, then close the stream.

    If the log is longer than :data:`LONGEST_LOG`, :data:`KEPT` bytes of both ends stay. Parts that cannot be written
    are dropped. A terminal shows them, too.
    """
    log = path.open("ab", buffering=0)
    with stream:
        while (data := stream.read1(1 << 16)) and not ended.is_set():  # type: ignore[attr-defined]
            with suppress(OSError, ValueError):
                log.write(data)
                if sys.stderr.isatty():
                    sys.stderr.buffer.write(data)
                    sys.stderr.buffer.flush()
                if log.tell() > LONGEST_LOG:
                    log.close()
                    with path.open("rb") as old, replacing(path) as new:
                        head = old.read(KEPT)
                        old.seek(-KEPT, os.SEEK_END)
                        new.write_bytes(head + b"\n[phmrun: output left out here]\n" + old.read())
                    log = path.open("ab", buffering=0)
    log.close()


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
