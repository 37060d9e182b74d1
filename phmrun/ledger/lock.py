"""One process per run: a lock file that survives neither its holder's death nor two rivals.

The file is made with ``O_CREAT | O_EXCL``, which also holds on network file systems, and names its holder. Whether the
holder lives is asked of the operating system where that is the same machine. Elsewhere its signs of life decide: it
touches the file every few seconds. No two machines' clocks are compared: a lock counts as old by the time that the
file server gives a new file, and as dead if it then stands still while the taker watches it by a clock of its own. Only
a person can say that a lock from the future is dead: `unlock`.

What nothing can prevent is a holder that was stopped, taken for dead and wakes: it asks `still_held` before it writes.

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
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Self

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError
from phmrun.files import process_space

LOCK = "lock"
"""The file of a run directory that its holder keeps."""
HEARTBEAT = 10.0
"""Seconds between two signs of life of a holder."""
STALE_AFTER = 120.0
"""Seconds without a sign of life after which a holder on another machine may be dead."""
WATCHED_BEATS = 2.5
"""How long such a lock is watched before it is taken over, in heartbeats."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """The process that a lock file names: its machine, its id, and what tells it from others with the same id.

    That is when it began, in the operating system's own terms, and the namespace of its id, since ids of another
    container say nothing here. The token is unique to the lock file.
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
        return cls(socket.gethostname(), pid, _born(pid) or "", process_space(), secrets.token_hex(8))

    def lives(self, silent: float) -> bool:
        """Whether the process is there; seconds since its last sign of life decide where the system cannot tell."""
        known = self.known_to_live()
        return silent < STALE_AFTER if known is None else known

    def known_to_live(self) -> bool | None:
        """The same where the operating system can tell, and ``None`` elsewhere."""
        if self.born and (self.host, self.space) == (socket.gethostname(), process_space()):
            born = _born(self.pid)
            if born != "":
                return born == self.born
        return None


class Lock:
    """A lock file in a directory that exists, held from `acquire` to `release` or within a ``with`` block.

    ``purpose`` says what is locked, for messages; ``wait`` is how many seconds to wait for a living holder.
    """

    def __init__(self, path: Path, purpose: str, *, wait: float = 0.0) -> None:
        self.path = path
        self.purpose = purpose
        self.wait = wait
        self._descriptor: int | None = None
        self._owner = 0
        self._stop = threading.Event()

    def acquire(self) -> None:
        """Takes the lock; a `PhmrunError` (exit code 2) where a living process holds it."""
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

    @property
    def lost(self) -> bool:
        """Whether this process held the lock, has not released it, and no longer has it."""
        return self._descriptor is not None and self._owner == os.getpid() and not self.still_held()

    def require(self) -> None:
        """Refuses to go on with a lock that was taken over, or removed, meanwhile; to be asked before each write."""
        if self.lost:
            found = _read(self.path)
            by = f"process {found.holder.pid} on {found.holder.host}" if found else "somebody"
            raise PhmrunError(
                f"{self.purpose} was taken over by {by}: this process had given no sign of life, and stops",
                hint="Nothing of it is written any more; the other process goes on from the last checkpoint.",
            )

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
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
    """The living process that holds the lock file, if there is one, as far as can be told at once; changes nothing."""
    found = _read(path) if path.is_file() else None
    return found.holder if found and found.holder.lives(max(0.0, time.time() - found.touched)) else None


def unlock(path: Path, purpose: str) -> Holder | None:
    """Removes the lock of a process that is gone, whatever the file is dated; returns who held it, if anybody did.

    A holder that lives, or gives a sign of life while it is watched, raises a `PhmrunError` (exit code 2).
    """
    if (found := _read(path)) is None:
        return None
    taken = _take(path, Holder.this_process(), forced=True)
    if isinstance(taken, Holder):
        raise _refusal(path, purpose, taken)
    path.unlink(missing_ok=True)
    os.close(taken)
    return found.holder


def _take(path: Path, mine: Holder, *, forced: bool = False) -> int | Holder:
    """Makes the lock file, over a dead one where need be: its open descriptor, or the living holder.

    ``forced``: a lock of another machine may be dead whatever it is dated, if it stands still.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
        except FileExistsError:
            found = _read(path)
        else:
            try:
                os.write(descriptor, json.dumps(asdict(mine)).encode())
            except OSError:  # the disk is full: nobody would know whose lock it is
                path.unlink(missing_ok=True)
                os.close(descriptor)
                raise
            return descriptor
        if found is None:
            continue
        if _lives(path, found, forced):
            return found.holder
        claim = path.with_name(f"{path.name}.{found.holder.token}")
        taken = _take(claim, mine, forced=forced)
        if isinstance(taken, Holder):
            return taken
        again = _read(path)
        if again is not None and again.sign == found.sign:
            claim.replace(path)
            return taken
        claim.unlink(missing_ok=True)
        os.close(taken)


def _lives(path: Path, found: "_Found", forced: bool) -> bool:
    """Whether the holder of a lock is to be taken for alive; watches the lock of another machine that seems dead."""
    known = found.holder.known_to_live()
    if known is not None:
        return known
    if not forced:
        probe = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            probe.touch(exist_ok=False)
            now = probe.stat().st_mtime  # by the clock of the file system that the lock is on
        finally:
            probe.unlink(missing_ok=True)
        if now - found.touched < STALE_AFTER:
            return True
    _log.info("%s: watching for signs of life of process %s on %s", path, found.holder.pid, found.holder.host)
    end = time.monotonic() + WATCHED_BEATS * HEARTBEAT
    while time.monotonic() < end:
        time.sleep(min(HEARTBEAT / 10, max(0.0, end - time.monotonic())))
        again = _read(path)
        if again is None or again.sign != found.sign:
            return again is not None and again.holder.token == found.holder.token
    return False


class _Found(NamedTuple):
    """Who holds a lock, when it was touched by the clock of whoever dates the files, what each sign of life changes."""

    holder: Holder
    touched: float
    sign: tuple[str, int, int, int]


def _read(path: Path) -> _Found | None:
    """What a lock file says; ``None`` without a file.

    A file without a readable holder was made an instant ago, or by a process that died in that instant: it is read
    again for a while, then stands for an unknown process whose file's age decides.
    """
    for _ in range(50):
        try:
            with path.open("rb") as handle:  # on a network, opening brings the file's true times
                content, stat = handle.read(), os.fstat(handle.fileno())
        except FileNotFoundError:
            return None
        try:
            holder = Holder(**parse_json(content))
        except (ValueError, TypeError):
            holder = None
        # The token becomes a part of a file name.
        if holder and isinstance(holder.pid, int) and 0 < holder.pid < 2**31 and str(holder.token).isalnum():
            break
        holder = None
        if time.time() - stat.st_mtime > STALE_AFTER:
            break
        time.sleep(0.01)
    holder = holder or Holder("an unknown machine", 0, "", "", f"{stat.st_ino:x}{stat.st_mtime_ns:x}")
    return _Found(holder, stat.st_mtime, (holder.token, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns))


def _refusal(path: Path, purpose: str, holder: Holder) -> PhmrunError:
    """The error for a lock that a living process holds."""
    hint = "Wait until that process ends, or stop it."
    if holder.known_to_live() is None:  # on another machine, or unknown
        hint += f" If its machine is gone: phmrun runs unlock {path.parent.name}"
    return PhmrunError(f"{purpose} is in use by process {holder.pid} on {holder.host}", hint=hint)


def _same_file(path: Path, descriptor: int) -> bool:
    """Whether ``path`` is the file behind an open descriptor."""
    try:
        with path.open("rb") as now:  # on a network, only opening tells which file has the name now
            return os.path.samestat(os.fstat(now.fileno()), os.fstat(descriptor))
    except (FileNotFoundError, PermissionError):
        return False


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
        # The second field is the program's name in parentheses and may hold spaces; the state follows it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    except OSError:  # a system without /proc
        ps = ["ps", "-o", "lstart=", "-p", str(pid)]
        with suppress(OSError):
            return subprocess.run(ps, capture_output=True, text=True, check=False).stdout.strip()
        return ""
