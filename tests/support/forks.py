"""Commands as forks of this process, which has imported torch and Lightning for them already, and what ends them.

Each is a group of its own. What it starts itself, the other processes of a training or the cells of a sweep, are forks
too, made beforehand.
"""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from pytorch_lightning.strategies.launchers import subprocess_script

from phmrun.cli.app import main
from phmrun.config import Task
from phmrun.ledger import child
from phmrun.registry import TASKS

PHMRUN = Path(sys.executable).with_name("phmrun")
PATIENCE = 1800.0
"""Seconds after which a command that does not end is killed, on a machine that has more to do."""
TICK = os.sysconf("SC_CLK_TCK")
POPEN = subprocess.Popen


def load() -> None:
    """Imports whatever a training needs."""
    importlib.import_module("phmrun.engine.fit")
    for name in ("lm", "nli", "nmt", "parse", "style", "sva"):
        task: Task = TASKS.get(name)
        for part in ("schema", "data", "module", "predictor", "vocabulary"):
            task.load(part)


class Forks:
    """Stand-in for ``subprocess.Popen``: forked processes that wait for their command.

    Args:
        number: How many.
    """

    def __init__(self, number: int) -> None:
        self.idle: list[tuple[int, socket.socket]] = []
        for _ in range(number):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            pid = os.fork()
            if not pid:
                for end in (ours, *(other for _, other in self.idle)):
                    end.close()
                _become(theirs)
            theirs.close()
            self.idle.append((pid, ours))

    def __call__(self, command: Sequence[Any], env: Mapping[str, str], stdout: Any = None, **more: Any) -> Any:
        """Starts a command in the next of them."""
        arguments = [str(part) for part in command]
        first = next((at for at, part in enumerate(arguments, 1) if part.rpartition("/")[2] == "phmrun"), 0)
        if not first:  # a script of a user
            return POPEN(command, env=env, stdout=stdout, **more)
        pid, end = self.idle.pop(0)
        output = {"command": arguments[first:], "env": dict(env), "session": bool(more.get("start_new_session"))}
        with suppress(OSError):  # it has been killed
            socket.send_fds(end, [json.dumps(output).encode()], [stdout.fileno()] if stdout else [])
        end.close()
        return Forked(pid)

    def close(self) -> None:
        """Ends those that have no command."""
        for pid, end in self.idle:
            end.close()
            os.waitpid(pid, 0)
        self.idle.clear()


class Forked:
    """A started process, as ``subprocess.Popen`` has them."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.returncode is None:
            actual, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if actual else None
        return self.returncode

    def send_signal(self, which: int) -> None:
        """Signals it."""
        if self.poll() is None:
            os.kill(self.pid, which)


def _become(end: socket.socket) -> NoReturn:
    """Waits for a command and is it; ends where none comes."""
    message, descriptors, *_ = socket.recv_fds(end, 1 << 20, 1)
    if not message:
        os._exit(0)
    output = json.loads(message)
    if output["session"]:
        os.setsid()
    for descriptor in descriptors:
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
    os.environ.clear()
    os.environ.update(output["env"])
    _be(output["command"])


def _be(command: Sequence[str], program: Callable[[list[str]], Any] = main) -> NoReturn:
    try:
        # Those of pytest hold what is written in memory, which ends with this process.
        sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", buffering=1, closefd=False) for descriptor in (1, 2))
        sys.argv = [str(PHMRUN), *command]
        sys.modules["__main__"].__spec__ = None  # Lightning starts further processes by sys.argv then
        program(list(command))
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 0 if end.code is None else 1)
    finally:
        os._exit(70)


def forked(command: Sequence[str], folder: Path, output: Path, others: int = 0) -> int:
    """Runs the command line in a new process, in a folder; its process id, which is also that of its group.

    Args:
        command: What follows ``phmrun``.
        folder: Where to run it.
        output: What it says.
        others: How many processes it may start.
    """
    pid = os.fork()
    if pid:
        while os.getpgid(pid) != pid:  # until it leads its group, by which it is ended
            time.sleep(0.001)
        return pid
    os.setsid()
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(folder)
    _start_by_forks(others)
    _be(command)


def _start_by_forks(number: int) -> None:
    """Makes this process start at most ``number`` others by forks made here; 0: as ever."""
    if number:
        forks = SimpleNamespace(Popen=Forks(number), DEVNULL=-3, STDOUT=-2)
        subprocess_script.subprocess = child.subprocess = forks


def completed(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    others: int = 0,
    program: Callable[[list[str]], Any] = main,
) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a new process and waits for it, as ``subprocess.run`` does.

    Args:
        command: What follows ``phmrun``.
        folder: Where to run it.
        environment: Variables beside those of this process.
        others: How many runs of a sweep it may start.
        program: What it runs; it ends with ``SystemExit``.
    """
    load()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        pid = os.fork()
        if not pid:
            os.setsid()
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.chdir(folder)
            os.environ.update(environment or {})
            _start_by_forks(others)
            _be(command, program)
        code = ended(pid)
        texts = [file.seek(0) or file.read() for file in (out, err)]
    return subprocess.CompletedProcess(list(command), code, *texts)


@contextmanager
def forked_runs(number: int) -> Iterator[None]:
    """Inside the block, a sweep of this process starts its runs as forks, at most ``number``."""
    load()
    forks = Forks(number)
    before, child.subprocess = child.subprocess, SimpleNamespace(Popen=forks, DEVNULL=-3, STDOUT=-2)
    try:
        yield
    finally:
        child.subprocess = before
        forks.close()


def ended(pid: int, limit: float = PATIENCE, *, sweeping: bool = True) -> int:
    """The exit code of a child, negative for a signal; it is killed after ``limit`` seconds.

    Args:
        pid: The child.
        limit: Seconds.
        sweeping: Kill what it leaves behind.
    """
    return finished(pid, limit, sweeping=sweeping)[0]


def finished(pid: int, limit: float = PATIENCE, *, sweeping: bool = True) -> tuple[int, float]:
    """The same, with the CPU time of its group in seconds."""
    deadline, used = time.monotonic() + limit, 0.0
    while time.monotonic() < deadline:
        actual, status = os.waitpid(pid, os.WNOHANG)
        if actual:
            if sweeping:
                sweep_up(pid)
            return os.waitstatus_to_exitcode(status), used
        used = max(used, spent(pid))
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), used


def await_moment(pid: int, moment: float) -> None:
    """Waits until a group has had so much CPU time, or has ended."""
    deadline = time.monotonic() + PATIENCE
    while members(pid) and spent(pid) < moment and time.monotonic() < deadline:
        time.sleep(0.01)


def sweep_up(pid: int) -> None:
    """Kills what is left of a group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def members(group: int) -> list[int]:
    """The living processes of a group."""
    return [pid for pid, _ in _processes(group)]


def spent(group: int) -> float:
    """The CPU time of the living processes of a group, in seconds."""
    return sum(ticks for _, ticks in _processes(group)) / TICK


def _processes(group: int) -> list[tuple[int, int]]:
    actual = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            actual.append((int(path.parent.name), int(fields[11]) + int(fields[12])))
    return actual
