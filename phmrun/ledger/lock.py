"""One process per run: a lock file that survives neither its holder's death nor two rivals.

The file is made with ``O_CREAT | O_EXCL``, which also holds on network file systems, and names its holder. Whether the
holder lives is asked of the operating system where that is the same machine, and read from the file's age elsewhere:
the holder touches it every few seconds.

A dead holder's lock is taken over in two steps. The taker first makes, exclusively, a *claim* on exactly that lock: a
second lock file named after the first one's token. It then looks again whether the first file is still the one it
judged dead, and renames the claim over it. Two takers cannot hold the same claim, a claim on a lock that was replaced
in the meantime is given up, and a taker that dies leaves a dead claim, which is taken over by the same rule.
"""

import json
import logging
import os
import secrets
import socket
import subprocess
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError

HEARTBEAT = 10.0
"""Seconds between two signs of life of a holder."""

STALE_AFTER = 120.0
"""Seconds without a sign of life after which a holder on another machine counts as dead."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """The process that a lock file names.

    Attributes:
        host: Name of its machine.
        pid: Its process id.
        born: When it began, in the operating system's own terms; tells it from a later process with the same id.
        space: Its process-id namespace; ids of another container say nothing here.
        token: Unique to this lock file.
    """

    host: str
    pid: int
    born: str
    space: str
    token: str

    @classmethod
    def this_process(cls) -> "Holder":
        """A new holder record for the running process."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _born(pid) or "", _space(), secrets.token_hex(8))

    def lives(self, silent: float) -> bool:
        """Whether the process is there.

        Args:
            silent: Seconds since its last sign of life, which decides where the operating system cannot.
        """
        if self.born and (self.host, self.space) == (socket.gethostname(), _space()):
            born = _born(self.pid)
            if born != "":
                return born == self.born
        return silent < STALE_AFTER


class Lock:
    """A lock file, held from `acquire` to `release` or within a ``with`` block.

    Args:
        path: The lock file. Its directory must exist.
        purpose: What is locked, for the message of a refusal.
        wait: Seconds to wait for a living holder before refusing.
    """

    def __init__(self, path: Path, purpose: str, *, wait: float = 0.0) -> None:
        self.path = path
        self.purpose = purpose
        self.wait = wait
        self._descriptor: int | None = None
        self._owner = 0
        self._stop = threading.Event()

    def acquire(self) -> None:
        """Takes the lock.

        Raises:
            PhmrunError: A living process holds it (exit code 2).
        """
        patience = time.monotonic() + self.wait
        while True:
            taken = _take(self.path, Holder.this_process())
            if not isinstance(taken, Holder):
                break
            if time.monotonic() >= patience:
                raise _refusal(self.purpose, taken)
            time.sleep(0.02)
        descriptor = self._descriptor = taken
        self._owner = os.getpid()
        self._stop = threading.Event()
        beat = threading.Thread(target=self._beat, args=(descriptor, self._stop), name="lock-heartbeat", daemon=True)
        beat.start()

    def release(self) -> None:
        """Gives the lock back; a lock that another machine took over in the meantime is left alone."""
        if self._descriptor is None or self._owner != os.getpid():
            return  # not held, or a forked copy of the holder
        self._stop.set()
        if self.still_held():
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None

    def still_held(self) -> bool:
        """Whether the file is still the one that this object made."""
        return self._descriptor is not None and _same_file(self.path, self._descriptor)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _beat(self, descriptor: int, stop: threading.Event) -> None:
        """Touches the lock file until told to stop; through the descriptor, so never somebody else's file."""
        while not stop.wait(HEARTBEAT):
            try:
                if not _same_file(self.path, descriptor):
                    _log.warning("%s: the lock was taken over by another process", self.path)
                    return
                os.utime(descriptor)
            except OSError as error:
                _log.warning("%s: no sign of life could be written: %s", self.path, error)


def living_holder(path: Path) -> Holder | None:
    """The living process that holds the lock file, if there is one; changes nothing."""
    found = _read(path)
    if found is None:
        return None
    holder, silent = found
    return holder if holder.lives(silent) else None


def _take(path: Path, mine: Holder) -> int | Holder:
    """Makes the lock file, over a dead one where need be: its open descriptor, or the living holder."""
    while True:
        descriptor = _create(path, mine)
        if descriptor is not None:
            return descriptor
        found = _read(path)
        if found is None:
            continue
        holder, silent = found
        if holder.lives(silent):
            return holder
        claim = path.with_name(f"{path.name}.{holder.token}")
        taken = _take(claim, mine)
        if isinstance(taken, Holder):
            return taken
        again = _read(path)
        if again is not None and again[0].token == holder.token:
            claim.replace(path)
            return taken
        claim.unlink(missing_ok=True)
        os.close(taken)


def _create(path: Path, holder: Holder) -> int | None:
    """Makes the file exclusively and writes the holder into it; ``None`` if it is there already."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
    except FileExistsError:
        return None
    os.write(descriptor, json.dumps(asdict(holder)).encode())
    return descriptor


def _read(path: Path) -> tuple[Holder, float] | None:
    """The holder that a lock file names, and the seconds since its last sign of life; ``None`` without a file.

    A file without a readable holder was made an instant ago, or by a process that died in that instant: it is read
    again for a while, then stands for an unknown process whose file's age decides.
    """
    for _ in range(50):
        try:
            with path.open("rb") as handle:
                content, stat = handle.read(), os.fstat(handle.fileno())
        except FileNotFoundError:
            return None
        silent = max(0.0, time.time() - stat.st_mtime)
        holder = _holder_in(content)
        if holder is not None:
            return holder, silent
        if silent > STALE_AFTER:
            break
        time.sleep(0.01)
    return Holder("an unknown machine", 0, "", "", f"{stat.st_ino:x}-{stat.st_mtime_ns:x}"), silent


def _holder_in(content: bytes) -> Holder | None:
    """The holder that a lock file's content names, if it names one."""
    try:
        holder = Holder(**parse_json(content))
    except (ValueError, TypeError):
        return None
    # The token becomes a part of a file name.
    sound = isinstance(holder.pid, int) and 0 < holder.pid < 2**31 and str(holder.token).isalnum()
    return holder if sound else None


def _refusal(purpose: str, holder: Holder) -> PhmrunError:
    """The error for a lock that a living process holds."""
    by = f"process {holder.pid} on {holder.host}"
    return PhmrunError(f"{purpose} is in use by {by}", hint="Wait until that process ends, or stop it.")


def _same_file(path: Path, descriptor: int) -> bool:
    """Whether ``path`` is the file behind an open descriptor."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _space() -> str:
    """The process-id namespace of this process; empty where there are none."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _born(pid: int) -> str | None:
    """When a process began: ``None`` if it is gone, empty if it is there but the system does not tell.

    A zombie is gone: it only waits for its parent.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # another user's process, hence there
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _born_by_ps(pid)
    # The second field is the program's name in parentheses and may hold spaces; the state follows it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"


def _born_by_ps(pid: int) -> str:
    """The same from ``ps``, for systems without ``/proc``."""
    try:
        answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return answer.stdout.strip()
