"""Exclusive lock on a run directory, safe against dead holders.

The holder has the operating system's lock (``flock``) on the lock file, which ends with its process. The file names the
holder, and the holder touches it every 10 seconds (:data:`HEARTBEAT`).

Some network file systems do not share ``flock`` between machines. The lock of a holder on another machine or in another
container is therefore taken over only if it is 120 s old or more, and then does not change for 25 s of this process's
clock. A lock dated in the future never grows old: `unlock` removes it.

A holder that was suspended and presumed dead may wake up. It must call `require` or `still_held` before each write.
"""

import fcntl
import json
import logging
import os
import secrets
import shlex
import socket
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import no_file, open_regular, process_space

LOCK = "lock"
"""Name of the lock file in a run directory."""
HEARTBEAT = 10.0
"""Seconds between two heartbeats of a holder."""
STALE_AFTER = 120.0
"""Seconds without a heartbeat after which a holder on another machine may be dead."""
WATCHED_BEATS = 2.5
"""Heartbeat periods for which such a lock is watched before it is taken over."""
PATIENCE = 0.2
"""Minimum seconds to wait for a lock, because another process may be looking at it."""

_log = logging.getLogger(__name__)
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
        return cls(socket.gethostname(), os.getpid(), process_space(), secrets.token_hex(8))

    @property
    def is_here(self) -> bool:
        """True if the process is on this machine, in this namespace of process ids."""
        return (self.host, self.space) == (socket.gethostname(), process_space())


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
                raise self._refusal(holder)
            time.sleep(0.02)
        _held.add(self)
        self._stop = threading.Event()
        threading.Thread(target=self._beat, args=(self._descriptor, self._stop), name="heartbeat", daemon=True).start()

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
            what = "moved or removed while this process wrote into it: the lock is gone"
            hint = "Move the directory back, and give the same command again; it continues."
            if holder is not None:
                what = f"taken over by process {holder.pid} on {holder.host}: this process wrote no heartbeat in time"
                hint = "It writes nothing more; the other process continues from the last checkpoint."
            raise PhmrunError(f"{self.purpose} was {what}", where=str(self.path.parent), hint=hint)

    def remove(self) -> Holder | None:
        """Remove the lock of a dead process, whatever the file's date.

        A holder on another machine is first watched for heartbeats (25 s).

        Returns:
            The former holder; ``None`` if there was no lock.

        Raises:
            PhmrunError: (exit 2) The holder is alive, or writes a heartbeat while it is watched.
        """
        former = _read(self.path)[0]
        if former is not None:
            if holder := self._take(forced=True):
                raise self._refusal(holder)
            self.release()
        return former

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _take(self, *, forced: bool = False) -> Holder | None:
        """Take the lock, or return its living holder.

        Args:
            forced: Watch a holder on another machine even if its lock is young.

        Raises:
            OSError: The file cannot be written.
        """
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            with suppress(FileExistsError):
                descriptor = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o644)
                _flock(descriptor, fcntl.LOCK_EX)  # others may look at it, and then let it go
                break
            _read(self.path)  # a folder or pipe is refused
            try:
                descriptor = os.open(self.path, flags)
            except FileNotFoundError:
                continue
            free = _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            holder, touched = _read(self.path)
            if free is not False and not _same_file(self.path, descriptor):  # released just now
                os.close(descriptor)
                continue
            holder = holder or Holder()
            if free is not False and ((free and holder.is_here) or self._is_silent(holder, touched, forced)):
                break
            os.close(descriptor)
            return holder
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

    def _is_silent(self, holder: Holder, touched: int, forced: bool) -> bool:
        """True if a holder on another machine shows no heartbeat for 120 s, and for 25 s of watching."""
        if not forced and time.time() - touched / 1e9 < STALE_AFTER:
            return False
        _log.info("%s: watching for heartbeats of process %s on %s", self.path, holder.pid, holder.host)
        before, end = _read(self.path), time.monotonic() + WATCHED_BEATS * HEARTBEAT
        while time.monotonic() < end:
            time.sleep(min(HEARTBEAT / 10, max(0.0, end - time.monotonic())))
            if _read(self.path) != before:
                return False
        return before[1] == touched

    def _refusal(self, holder: Holder) -> PhmrunError:
        """Return the error (exit 2) for a lock that a living process holds.

        Its hint names ``runs unlock`` if the holder may be on a machine that is gone.
        """
        hint = "Wait until that process ends, or stop it."
        if not holder.is_here:
            hint += f" If its machine is gone: phmrun runs unlock {shlex.quote(str(self.path.parent))}"
        return PhmrunError(f"{self.purpose} is in use by process {holder.pid} on {holder.host}", hint=hint)

    def _beat(self, descriptor: int, stop: threading.Event) -> None:
        """Touch the lock file every 10 seconds until ``stop`` is set.

        A takeover ends the loop with a logged warning. After an error of writing, which is logged, the loop goes on.
        """
        while not stop.wait(HEARTBEAT):
            try:
                if not self.still_held():
                    if not stop.is_set():  # released just now
                        _log.warning("%s: the lock was taken over by another process", self.path)
                    return
                os.utime(descriptor)
            except OSError as error:
                _log.warning("%s: the heartbeat could not be written: %s", self.path, error)


def living_holder(path: Path) -> Holder | None:
    """Return the living holder of a lock file.

    The result is ``None`` if there is no lock file, or its holder is dead. If ``flock`` does not tell, a holder on
    another machine lives if the file is younger than 120 s. Changes nothing.
    """
    with suppress(OSError, PhmrunError):  # another user's, or a file in the place of its folder
        holder, touched = _read(path)
        if holder is None:
            return None
        with open_regular(path) as handle:
            free = _flock(handle.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        young = time.time() - touched / 1e9 < STALE_AFTER
        return holder if free is False or (young and not (free and holder.is_here)) else None
    return None


def _flock(descriptor: int, how: int) -> bool | None:
    """Lock an open file, and return True; ``False`` if another process has it, ``None`` if locks are not supported."""
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _read(path: Path) -> tuple[Holder | None, int]:
    """Return the holder of a lock file, and the time of its last heartbeat in nanoseconds.

    Without a file, the holder is ``None``. That of a file without a readable holder, which was created just now or on a
    full disk, is an unknown process.

    Raises:
        PhmrunError: (exit 3) A folder, a pipe or a device is in its place.
    """
    try:
        with open_regular(path) as handle:  # on network file systems, opening refreshes the file's times
            content, touched = handle.read(), os.fstat(handle.fileno()).st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    except OSError as error:
        if path.is_file():
            raise
        what = f"the lock {no_file(path).partition(',')[0]}"
        raise PhmrunError(what, where=str(path), hint="Move it away.", code=ExitCode.DATA) from error
    with suppress(ValueError, TypeError):
        holder = Holder(**parse_json(content))
        if type(holder.pid) is int and 0 < holder.pid < 2**31:
            return holder, touched
    return Holder(), touched


def _same_file(path: Path, descriptor: int) -> bool:
    """True if ``path`` is the file of an open descriptor; ``False`` if it is missing."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
