"""Access to a run directory: contents checked against its manifest; a lock and atomic writes."""

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

from phmrun.documents import parse_json, parsed
from phmrun.errors import PhmrunError, data_error
from phmrun.files import disk_errors, json_text, read_regular, write_text
from phmrun.ledger.directory import METRICS, STATUS, check_links, is_run
from phmrun.ledger.lock import LOCK, Lock
from phmrun.ledger.manifest import BrokenChain, Manifest
from phmrun.ledger.status import State, Status, reason_of

T = TypeVar("T")
_ANEW = "To start over, give the command that trained the run with --restart."


class Contents:
    """Contents of a run's files; creating the object reads nothing.

    Attributes:
        kept: Contents by name of a lenient run, which are not read again.
        errors: Errors by name of a lenient run.

    Args:
        path: Run directory.
        lenient: Read each file once, and keep errors in `errors` instead of raising them.
    """

    def __init__(self, path: Path, *, lenient: bool) -> None:
        self.path = path
        self.lenient = lenient
        self.manifest = Manifest(path, once=lenient)
        self.errors: dict[str, Exception] = {}
        self.kept: dict[str, Any] = {}

    def of(self, name: str, read: Callable[[], T], otherwise: T) -> T:
        """Return the result of ``read``.

        If lenient, it is read once, and ``otherwise`` after an error of reading or decoding, which is kept.
        """
        if not self.lenient:
            return read()
        if name not in self.kept:
            try:
                self.kept[name] = read()
            except (PhmrunError, OSError, UnicodeDecodeError) as error:
                self.kept[name], self.errors[name] = otherwise, error
        content: T = self.kept[name]
        return content

    def object(self, name: str, is_valid: Callable[[dict[str, Any]], bool] = lambda content: True) -> dict[str, Any]:
        """Return the JSON object in a file, which is empty if the file is missing and not in the manifest.

        Raises:
            PhmrunError: (exit 3) The file is damaged, is not an object, is not valid, or has a wrong checksum.
        """
        path = self.path / name

        def read() -> dict[str, Any]:
            """Read and check the file."""
            try:
                text = read_regular(path)
                self.manifest.check(path, text)
                content = parsed(text)
            except FileNotFoundError:
                self.manifest.check(path)
                return {}
            except (OSError, ValueError) as error:
                unread = f"the file cannot be read: {reason_of(error)}"
                what = unread if isinstance(error, OSError) else f"this is not JSON: {error}"
                raise data_error(what, path) from error
            if not isinstance(content, dict):
                raise data_error("this is not a JSON object", path)
            if not is_valid(content):
                raise data_error(f"this is no {path.name} of a run", path)
            return content

        return self.of(name, read, {})

    def status(self) -> Status:
        """Return the stored status.

        Raises:
            PhmrunError: (exit 3) The file is missing, damaged, or has a wrong checksum.
        """
        path = self.path / STATUS
        try:
            content = read_regular(path)
            self.manifest.check(path, content)
            return Status.from_json(parse_json(content))
        except FileNotFoundError as error:
            raise data_error(f"{STATUS} is missing", self.path, _ANEW) from error
        except (OSError, ValueError, TypeError) as error:
            raise data_error(f"this is not a status: {reason_of(error)}", path, _ANEW) from error

    @property
    def error(self) -> Exception | None:
        """Kept error of the status, else of the scores."""
        return self.errors.get(STATUS) or self.errors.get(METRICS)

    @property
    def damage(self) -> str | None:
        """Reason of `error`, which begins with the file's name, except for a failed checksum or a system's error."""
        if not isinstance(self.error, PhmrunError):
            return str(self.error) if self.error else None
        name = Path(self.error.where or "").name
        return (
            self.error.what if isinstance(self.error, BrokenChain) or "." not in name else f"{name}: {self.error.what}"
        )


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
            raise PhmrunError("this directory is not a run and is left alone", where=self.path)
        if self.path.is_symlink():  # its target is elsewhere on purpose
            with disk_errors():
                self.path.unlink()
            return
        with disk_errors(), self.lock:
            grave = self.path.with_name(f".removed-{self.run_id}-{os.getpid()}")
            self.path.rename(grave)
            shutil.rmtree(grave)
