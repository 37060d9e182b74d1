"""Child processes in groups of their own, with their output in a log."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

GRACE = ((signal.SIGINT, 30.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))
"""Signals that end a child, in order, each with the seconds to wait after it."""


def start(
    command: Sequence[str], log: BinaryIO, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a program with an empty input in its own session; the terminal's Ctrl-C does not reach it.

    Args:
        command: Program and arguments.
        log: Open file for standard output and standard error.
        environment: Environment variables; this process's if not given.
        folder: Working directory; this process's if not given.
    """
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )


def end(processes: Sequence[subprocess.Popen[bytes]], first: signal.Signals = signal.SIGINT) -> None:
    """Send ``first`` to processes with their groups, then stronger signals, until they have ended; see `GRACE`."""
    for which, seconds in ((first, GRACE[0][1]), *GRACE[1:]):
        for process in processes:
            with suppress(ProcessLookupError):  # it has ended in this instant
                if process.poll() is None:
                    os.killpg(process.pid, which)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(process.poll() is None for process in processes):
            time.sleep(0.05)
