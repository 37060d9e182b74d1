"""Exclusive lock on a run directory, safe against stale holders and concurrent takeovers.

The lock file names its holder. It is written under another name and linked to its own, which is atomic on network file
systems, too: nobody sees it empty. A file system without hard links has it created with ``O_CREAT | O_EXCL`` instead.

A holder on this machine is alive if the operating system lists its process. A holder on another machine is alive if it
touches the file every 10 seconds (:data:`HEARTBEAT`). Clocks of two machines are never compared. The age of a lock is
its distance to the time that the file server gives a new file. A lock of 120 s or more is then watched for 25 s by this
process's own clock, and counts as stale if it does not change. A lock dated in the future never grows old: `unlock`
removes it.

A holder that was suspended and presumed dead may wake up. It must call `require` or `still_held` before each write.

A stale lock is taken over in two steps:

1. Create a *claim* exclusively: a second lock file, named after the token of the stale lock.
2. If the first file is still the stale lock, rename the claim over it; otherwise remove the claim.

Two processes cannot hold the same claim. A claim whose process died is stale and is taken over by the same rule.
"""

import json
import logging
import os
import secrets
import shlex
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Self

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import no_file, open_regular, process_space, temporary_name

LOCK = "lock"
"""Name of the lock file in a run directory."""
HEARTBEAT = 10.0
"""Seconds between two heartbeats of a holder."""
STALE_AFTER = 120.0
"""Seconds without a heartbeat after which a holder on another machine may be dead."""
WATCHED_BEATS = 2.5
"""Heartbeat periods for which such a lock is watched before it is taken over."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """Process that holds a lock.

    Attributes:
        host: Name of its machine.
        pid: Process id.
        born: Start time as the operating system has it, to detect a reused id; empty if unknown.
        space: Namespace of process ids: ids of another container are not comparable.
        token: Random digits, unique to the lock file.
    """

    host: str
    pid: int
    born: str
    space: str
    token: str

    @classmethod
    def this_process(cls) -> "Holder":
        """Return a record of the running process with a new token."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _start_time(pid) or "", process_space(), secrets.token_hex(8))

    def lives(self, silent: float) -> bool:
        """True if the process is alive.

        If the operating system cannot tell, ``silent`` (seconds since its last heartbeat) must be below 120.
        """
        alive = self.known_to_live()
        return silent < STALE_AFTER if alive is None else alive

    def known_to_live(self) -> bool | None:
        """True if the operating system lists the process.

        ``False`` if it has ended. ``None`` if it cannot tell: another machine or container, or an unknown start time.
        """
        if self.born and (self.host, self.space) == (socket.gethostname(), process_space()):
            born = _start_time(self.pid)
            if born != "":
                return born == self.born
        return None


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
        self._owner = 0
        self._stop = threading.Event()

    def acquire(self) -> None:
        """Create the lock file, and start to write heartbeats.

        A stale file is replaced. Heartbeats are written by a thread. A living holder is waited for, at most ``wait``
        seconds; a dead one's lock is taken over.

        Raises:
            PhmrunError: (exit 2) A living process still holds the lock.
        """
        patience = time.monotonic() + self.wait
        while True:
            taken = _take(self.path, Holder.this_process())
            if not isinstance(taken, Holder):
                break
            if time.monotonic() >= patience:
                raise _refusal(self.path, self.purpose, taken)
            time.sleep(0.02)
        self._descriptor, self._owner, self._stop = taken, os.getpid(), threading.Event()
        threading.Thread(target=self._beat, args=(taken, self._stop), name="lock-heartbeat", daemon=True).start()

    def release(self) -> None:
        """Stop the heartbeats and remove the lock file.

        A file that another process took over is left in place. Nothing is done if the lock is not held, or in a forked
        copy of the holder.
        """
        if self._descriptor is None or self.forked:
            return
        self._stop.set()
        with suppress(OSError):  # a read-only folder; the lock is then stale once this process has ended
            if self.still_held():
                self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None

    def still_held(self) -> bool:
        """True if the lock file is still the one that this object created."""
        return self._descriptor is not None and _same_file(self.path, self._descriptor)

    @property
    def lost(self) -> bool:
        """True if this process's lock was taken over or removed.

        ``False`` if it is not held (never acquired, or released), or in a forked copy of the holder.
        """
        return self._descriptor is not None and not self.forked and not self.still_held()

    @property
    def forked(self) -> bool:
        """True in a forked copy of the process that holds the lock."""
        return self._descriptor is not None and self._owner != os.getpid()

    def require(self) -> None:
        """Check that the lock was not lost.

        It is called before each write. A lock that is not held passes.

        Raises:
            PhmrunError: (exit 2) The lock was taken over or removed, or this is a forked copy of its holder.
        """
        if self.forked:
            raise PhmrunError(
                f"{self.purpose} is held by process {self._owner}: its fork, process {os.getpid()}, writes nothing",
                hint="Return the results to that process, and record them there.",
            )
        if self.lost:
            lock_file = _read(self.path)
            if lock_file is None:
                raise PhmrunError(
                    f"{self.purpose} was moved or removed while this process wrote into it: the lock is gone",
                    where=str(self.path.parent),
                    hint="Move the directory back, and give the same command again; it continues.",
                )
            by = f"process {lock_file.holder.pid} on {lock_file.holder.host}"
            raise PhmrunError(
                f"{self.purpose} was taken over by {by}: this process wrote no heartbeat in time, and stops",
                hint="It writes nothing more; the other process continues from the last checkpoint.",
            )

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _beat(self, descriptor: int, stop: threading.Event) -> None:
        """Touch the lock file every 10 seconds until ``stop`` is set.

        The file is touched through its descriptor, so never another holder's. A takeover ends the loop with a logged
        warning. After an error of writing, which is logged, the loop goes on.
        """
        while not stop.wait(HEARTBEAT):
            try:
                if not _same_file(self.path, descriptor):
                    if not stop.is_set():  # released just now
                        _log.warning("%s: the lock was taken over by another process", self.path)
                    return
                os.utime(descriptor)
            except OSError as error:
                _log.warning("%s: the heartbeat could not be written: %s", self.path, error)


def living_holder(path: Path) -> Holder | None:
    """Return the living holder of a lock file.

    The result is ``None`` if there is no lock file, or its holder is dead. A holder on another machine is judged by the
    file's age alone: below 120 s it lives. Changes nothing.
    """
    lock_file = None
    with suppress(OSError):  # another user's, or a file in the place of its folder
        lock_file = _read(path) if path.is_file() else None
    silent = max(0.0, time.time() - lock_file.touched) if lock_file else 0.0
    return lock_file.holder if lock_file and lock_file.holder.lives(silent) else None


def unlock(path: Path, purpose: str) -> Holder | None:
    """Remove the lock of a dead process, whatever the file's date.

    A holder that the operating system cannot judge (another machine or container) is first watched for heartbeats (25
    s).

    Returns:
        The former holder; ``None`` if there was no lock.

    Raises:
        PhmrunError: (exit 2) The holder is alive, or writes a heartbeat while it is watched.
    """
    if (lock_file := _read(path)) is None:
        return None
    taken = _take(path, Holder.this_process(), forced=True)
    if isinstance(taken, Holder):
        raise _refusal(path, purpose, taken)
    path.unlink(missing_ok=True)
    os.close(taken)
    return lock_file.holder


def _take(path: Path, mine: Holder, *, forced: bool = False) -> int | Holder:
    """Create the lock file, replacing a stale one by the module's two steps.

    Args:
        path: Path of the lock file.
        mine: Holder to write into it.
        forced: Watch a holder that the operating system cannot judge, even if its lock is young.

    Returns:
        Open descriptor of the new file, or the living holder of the lock or of a claim on it.

    Raises:
        OSError: The file cannot be written; it is removed.
    """
    while True:
        with suppress(FileExistsError):
            return _create(path, mine)
        lock_file = _read(path)
        if lock_file is None:
            continue
        if _is_alive(path, lock_file, forced):
            return lock_file.holder
        claim = path.with_name(f"{path.name}.{lock_file.holder.token}")
        taken = _take(claim, mine, forced=forced)
        if isinstance(taken, Holder):
            return taken
        again = _read(path)
        if again is not None and again.sign == lock_file.sign:
            claim.replace(path)
            return taken
        claim.unlink(missing_ok=True)
        os.close(taken)


def _create(path: Path, mine: Holder) -> int:
    """Create the lock file with its holder and return its open descriptor.

    Raises:
        FileExistsError: There is one.
        OSError: The file cannot be written; none is left.
    """
    if path.exists():  # a directory that cannot be written to may hold a lock
        raise FileExistsError(path)
    draft = _draft(path)
    descriptor = _written(draft, mine)
    try:
        os.link(draft, path)
    except FileExistsError:
        os.close(descriptor)
        raise
    except OSError:  # a file system without hard links
        os.close(descriptor)
        return _written(path, mine)
    finally:
        draft.unlink(missing_ok=True)
    return descriptor


def _draft(path: Path) -> Path:
    """Return a new path beside ``path`` that other processes leave alone."""
    return temporary_name(path.with_name(f"{path.name}.{secrets.token_hex(8)}"))


def _written(path: Path, mine: Holder) -> int:
    """Create a file with a holder and return its open descriptor; raise as :func:`_create`."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
    try:
        os.write(descriptor, json.dumps(asdict(mine)).encode())
    except OSError:  # full disk: a lock without a holder would be left
        path.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return descriptor


def _is_alive(path: Path, lock_file: "_LockFile", forced: bool) -> bool:
    """True if the holder of a lock is presumed alive.

    The operating system decides if it can. Else a lock younger than 120 s is alive, unless ``forced``. An older one is
    watched for up to 25 s, and is alive if the same holder changes it meanwhile. It is dead at once if the file
    vanishes or gets another holder.
    """
    alive = lock_file.holder.known_to_live()
    if alive is not None:
        return alive
    if not forced:
        probe = _draft(path)
        try:
            probe.touch(exist_ok=False)
            now = probe.stat().st_mtime  # by the clock of the file system that the lock is on
        finally:
            probe.unlink(missing_ok=True)
        if now - lock_file.touched < STALE_AFTER:
            return True
    holder = lock_file.holder
    _log.info("%s: watching for heartbeats of process %s on %s", path, holder.pid, holder.host)
    end = time.monotonic() + WATCHED_BEATS * HEARTBEAT
    while time.monotonic() < end:
        time.sleep(min(HEARTBEAT / 10, max(0.0, end - time.monotonic())))
        again = _read(path)
        if again is None or again.sign != lock_file.sign:
            return again is not None and again.holder.token == holder.token
    return False


class _LockFile(NamedTuple):
    """Content and state of a lock file.

    Attributes:
        holder: Process that holds the lock.
        touched: Time of the last heartbeat, by the clock of the file system.
        sign: Facts of the file that each heartbeat changes.
    """

    holder: Holder
    touched: float
    sign: tuple[str, int, int, int]


def _read(path: Path) -> _LockFile | None:
    """Read a lock file; ``None`` if it is missing.

    A file without a readable holder was created just now, or its process died before it wrote the holder. It is read
    again for about half a second, unless it is older than 120 s. Its holder is then an unknown process with id 0, which
    is judged by the file's age.

    Raises:
        PhmrunError: (exit 3) A folder, a pipe or a device is in its place.
    """
    for _ in range(50):
        try:
            with open_regular(path) as handle:  # on network file systems, opening refreshes the file's times
                content, stat = handle.read(), os.fstat(handle.fileno())
        except FileNotFoundError:
            return None
        except OSError as error:
            if path.is_file():
                raise
            what = f"the lock {no_file(path).partition(',')[0]}"
            raise PhmrunError(what, where=str(path), hint="Move it away.", code=ExitCode.DATA) from error
        try:
            holder = Holder(**parse_json(content))
        except (ValueError, TypeError):
            holder = None
        # The token becomes part of a file name.
        if holder and isinstance(holder.pid, int) and 0 < holder.pid < 2**31 and str(holder.token).isalnum():
            break
        holder = None
        if time.time() - stat.st_mtime > STALE_AFTER:
            break
        time.sleep(0.01)
    holder = holder or Holder("an unknown machine", 0, "", "", f"{stat.st_ino:x}{stat.st_mtime_ns:x}")
    return _LockFile(holder, stat.st_mtime, (holder.token, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns))


def _refusal(path: Path, purpose: str, holder: Holder) -> PhmrunError:
    """Return the error (exit 2) for a lock that a living process holds.

    Its hint names ``runs unlock`` if the holder may be on a machine that is gone.
    """
    hint = "Wait until that process ends, or stop it."
    if holder.known_to_live() is None:  # on another machine, or unknown
        hint += f" If its machine is gone: phmrun runs unlock {shlex.quote(str(path.parent))}"
    return PhmrunError(f"{purpose} is in use by process {holder.pid} on {holder.host}", hint=hint)


def _same_file(path: Path, descriptor: int) -> bool:
    """True if ``path`` is the file of an open descriptor.

    The result is ``False`` if it is missing or unreadable.
    """
    try:
        with open_regular(path) as now:  # on network file systems, only opening resolves the present file
            return os.path.samestat(os.fstat(now.fileno()), os.fstat(descriptor))
    except OSError:
        return False


def _start_time(pid: int) -> str | None:
    """Return the start time of a process, for comparison only.

    The result is ``None`` if it has ended, empty if the system does not report it. A zombie has ended: it only waits
    for its parent.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # another user's process exists
    try:
        # The second field is the program's name in parentheses and may hold spaces; the state follows it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    except OSError:  # a system without /proc
        ps = ["ps", "-o", "lstart=", "-p", str(pid)]
        with suppress(OSError):
            return subprocess.run(ps, capture_output=True, text=True, check=False).stdout.strip()
        return ""
