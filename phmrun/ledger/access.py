"""Access to a run directory for writing: its lock, checksums, atomic writes."""

import os
import shutil
from contextlib import nullcontext
from pathlib import Path

from phmrun.errors import PhmrunError
from phmrun.files import disk_errors, json_text, write_text
from phmrun.ledger.directory import METRICS, STATUS, check_links, is_run
from phmrun.ledger.lock import LOCK, Lock
from phmrun.ledger.manifest import Manifest
from phmrun.ledger.status import State, Status


class Access:
    """Access to a run directory; creating the object takes no lock.

    Attributes:
        lock: Lock on the run, which each write checks.

    Args:
        path: Run directory.
        run_id: Id of the run, for messages.
    """

    def __init__(self, path: Path, run_id: str) -> None:
        self.path, self.run_id = path, run_id
        self.manifest = Manifest(path)
        self.lock = Lock(path / LOCK, f"the run {run_id}")

    def folder(self, name: str) -> Path:
        """Return the path of a folder of the run, to write into.

        It need not exist, and is not created. The run may come from others: a symbolic link in it must not choose where
        this machine writes.

        Raises:
            PhmrunError: (exit 3) Any entry of the run directory is a symbolic link out of it.
        """
        check_links(self.path)
        return self.path / name

    def writing(self) -> Lock:
        """Return a new lock on manifest and concurrently written files.

        It is not yet taken. Taking it waits up to 20 s for its holder, then raises.

        Raises:
            PhmrunError: (exit 3) An entry of the run directory is a symbolic link out of it.
        """
        return Lock(self.folder(".metrics.lock"), f"{METRICS} of the run {self.run_id}", wait=20.0)

    def replace(self, path: Path, text: str) -> None:
        """Write a file atomically, with its checksum; the caller holds the lock of `writing`.

        Raises:
            PhmrunError: (exit 2) The run's lock was lost.
        """
        self.lock.require()
        self.manifest.expect(path, text.encode("utf-8"))
        write_text(path, text, self.lock.require)

    def write_status(self, before: Status, after: Status) -> Status:
        """Sign and write a status, and return it.

        If the run ends, its files are entered into the manifest; if it starts again, they are removed from it. Only
        then, or while it stays ended, the lock of `writing` is taken.
        """
        self.lock.require()
        written, running = after.signed(), (State.RUNNING, State.QUEUED)
        text = json_text(written.to_json())
        with nullcontext() if before.state in running and after.state in running else self.writing():
            if after.state not in running:
                self.manifest.settle(text.encode("utf-8"))
            elif before.state not in running:
                self.manifest.begin()
            write_text(self.path / STATUS, text, self.lock.require)
        return written

    def remove(self) -> None:
        """Delete the run directory.

        It is locked, and first renamed to a hidden name beside it. If it is a symbolic link, only the link is deleted.

        Raises:
            PhmrunError: (exit 2) The directory is not a run, or a living process holds it.
        """
        if not is_run(self.path):
            raise PhmrunError("this directory is not a run and is left alone", where=str(self.path))
        if self.path.is_symlink():  # its target is elsewhere on purpose
            with disk_errors():
                self.path.unlink()
            return
        with disk_errors(), self.lock:
            grave = self.path.with_name(f".removed-{self.run_id}-{os.getpid()}")
            self.path.rename(grave)
            shutil.rmtree(grave)
