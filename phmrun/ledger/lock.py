"""Exclusive lock on a run directory, safe against dead holders.

The holder has the operating system's lock (``flock``) on the lock file, which ends with its process. The file names the
holder, and the holder touches it every 10 seconds (:data:`HEARTBEAT`).

Some network file systems do not share ``flock`` between machines. The lock of a holder on another machine or in another
container is therefore taken over only if it is 120 s old or more.

A holder that was suspended and presumed dead may wake up. It must call `require` or `still_held` before each write.
"""

import fcntl
import json
import os
import secrets
import socket
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError
from phmrun.files import open_regular

LOCK = "lock"
"""Name of the lock file in a run directory."""
HEARTBEAT = 10.0
"""Seconds between two heartbeats of a holder."""
STALE_AFTER = 120.0
"""Seconds without a heartbeat after which a holder on another machine is dead."""
PATIENCE = 0.2
"""Minimum seconds to wait for a lock, because another process may be looking at it."""

_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


def _close_in_fork() -> None:
    """Close the descriptors of held locks in a forked copy, which would hold them beyond the end of their process."""
    for lock in list(_held):
        with suppress(OSError, TypeError):
            os.close(lock._descriptor)  # type: ignore[arg-type]


os.register_at_fork(after_in_child=_close_in_fork)


@dataclass(frozen=True)
class Holder:
    """Process that holds a lock.

    Attributes:
        host: Name of its machine.
        pid: Process id.
        space: Namespace of process ids: ids of another container are not comparable.
        token: Random digits, unique to the lock.
    """

    host: str = "an unknown machine"
    pid: int = 0
    space: str = ""
    token: str = ""

    @classmethod
    def this_process(cls) -> "Holder":
        """Return a record of the running process with a new token."""
        return cls(socket.gethostname(), os.getpid(), _process_space(), secrets.token_hex(8))

    @property
    def is_here(self) -> bool:
        """True if the process is on this machine, in this namespace of process ids."""
        return (self.host, self.space) == (socket.gethostname(), _process_space())


class Lock:
    """Lock file, held from `acquire` to `release` or within a ``with`` block.

    Args:
        path: Path of the file, in an existing directory.
        purpose: Name of the locked thing, for messages.
        wait: Seconds to wait for a living holder. Default: 0.
    """

    def __init__(self, path: Path, purpose: str, *, wait: float = 0.0) -> None:
        self.path = path
        self.purpose = purpose
        self.wait = wait
        self._descriptor: int | None = None
        self._mine = Holder()
        self._stop = threading.Event()

    def acquire(self) -> None:
        """Create the lock file or take over a dead holder's, and start a thread that writes heartbeats.

        A living holder is waited for, at most ``wait`` seconds.

        Raises:
            PhmrunError: (exit 2) A living process still holds the lock.
        """
        end = time.monotonic() + max(self.wait, PATIENCE)
        while holder := self._take():
            if time.monotonic() >= end:
                hint = "Wait until that process ends, or stop it."
                if not holder.is_here:
                    hint += f" If its machine is gone, wait {STALE_AFTER:.0f} seconds."
                raise PhmrunError(f"{self.purpose} is in use by process {holder.pid} on {holder.host}", hint=hint)
            time.sleep(0.02)
        _held.add(self)
        self._stop = threading.Event()
        threading.Thread(target=_beat, args=(self._descriptor, self._stop), name="heartbeat", daemon=True).start()

    def release(self) -> None:
        """Stop the heartbeats and remove the lock file.

        A file that another process took over is left in place. Nothing is done if the lock is not held, or in a forked
        copy of the holder.
        """
        if self._descriptor is None or self.forked:
            return
        self._stop.set()
        with suppress(OSError):  # a read-only folder; the lock ends with the descriptor
            if self.still_held():
                self.path.unlink(missing_ok=True)
        _held.discard(self)
        os.close(self._descriptor)
        self._descriptor = None

    def still_held(self) -> bool:
        """True if the lock file still names this holder."""
        return self._descriptor is not None and _read(self.path)[0] == self._mine

    @property
    def lost(self) -> bool:
        """True if this process's lock was taken over or removed.

        ``False`` if it is not held (never acquired, or released), or in a forked copy of the holder.
        """
        return self._descriptor is not None and not self.forked and not self.still_held()

    @property
    def forked(self) -> bool:
        """True in a forked copy of the process that holds the lock."""
        return self._descriptor is not None and self._mine.pid != os.getpid()

    def require(self) -> None:
        """Check that the lock was not lost.

        It is called before each write. A lock that is not held passes.

        Raises:
            PhmrunError: (exit 2) The lock was taken over or removed, or this is a forked copy of its holder.
        """
        if self.forked:
            raise PhmrunError(
                f"{self.purpose} is held by process {self._mine.pid}: its fork, process {os.getpid()}, writes nothing",
                hint="Return the results to that process, and record them there.",
            )
        if self.lost:
            holder = _read(self.path)[0]
            by = f"taken over by process {holder.pid} on {holder.host}" if holder else "moved or removed"
            what = f"{self.purpose} was {by}: this process writes nothing more"
            hint = "Move the directory back if it was moved, and give the same command again; it continues."
            raise PhmrunError(what, where=self.path.parent, hint=hint)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _take(self) -> Holder | None:
        """Take the lock, or return its living holder.

        Raises:
            OSError: The file cannot be written.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        free = _flock(descriptor, fcntl.LOCK_EX)
        holder, age = _read(self.path)
        # A holder that released the lock just now has removed the file.
        if free is False or not _is_dead(holder, age, free) or not _is_same(self.path, descriptor):
            os.close(descriptor)
            return holder or Holder()
        self._mine = Holder.this_process()
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(asdict(self._mine)).encode(), 0)
        except OSError:  # full disk: an empty file would be left
            self.path.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return None


def living_holder(path: Path) -> Holder | None:
    """Return the living holder of a lock file.

    The result is ``None`` if there is no lock file, or its holder is dead. Changes nothing.
    """
    with suppress(OSError):  # another user's, or a file in the place of its folder
        holder, age = _read(path)
        with open_regular(path) as handle:
            free = _flock(handle.fileno(), fcntl.LOCK_SH)
        return holder if free is False or not _is_dead(holder, age, free) else None
    return None


def _beat(descriptor: int, stop: threading.Event) -> None:
    """Touch the lock file every 10 seconds until ``stop`` is set."""
    while not stop.wait(HEARTBEAT):
        with suppress(OSError):
            os.utime(descriptor)


def _is_dead(holder: Holder | None, age: float, free: bool | None) -> bool:
    """True if a lock file has no living holder.

    Args:
        holder: Holder that the file names.
        age: Seconds since the last heartbeat.
        free: True if ``flock`` can be taken, ``None`` if locks are not supported.
    """
    return holder is None or age >= STALE_AFTER or (free is True and holder.is_here)


def _flock(descriptor: int, how: int) -> bool | None:
    """Lock an open file, and return True; ``False`` if another process has it, ``None`` if locks are not supported."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _read(path: Path) -> tuple[Holder | None, float]:
    """Return the holder of a lock file, and the seconds since its last heartbeat.

    The holder is ``None`` without a file, and for a file that names none.
    """
    try:
        with open_regular(path) as handle:  # on network file systems, opening refreshes the file's times
            content, touched = handle.read(), os.fstat(handle.fileno()).st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None, 0.0
    with suppress(ValueError, TypeError):
        return Holder(**parse_json(content)), time.time() - touched
    return None, 0.0


def _is_same(path: Path, descriptor: int) -> bool:
    """True if ``path`` is the file of an open descriptor; ``False`` if it is missing."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _process_space() -> str:
    """Return the process-id namespace of this process.

    The result is empty on systems without namespaces.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
