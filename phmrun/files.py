"""Files that are written whole or not at all, their checksums, and what is said when a disk is full."""

import errno
import glob
import gzip
import hashlib
import json
import os
import shutil
import socket
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tokenize import TokenError
from typing import Any

from phmrun.errors import ExitCode, PhmrunError

MOST_BYTES = 256 * 2**20
"""Largest small file of a run: status, scores, samples."""
DATA_VARIABLE = "PHMRUN_DATA"

_HOUR = 3600.0
"""Seconds after which another machine's unfinished file counts as left over."""


@contextmanager
def replacing(path: Path, before_renaming: Callable[[], None] | None = None) -> Iterator[Path]:
    """Yields a temporary path beside ``path``; on a clean exit it is flushed to disk and renamed over ``path``.

    A reader sees the old file or the new one, never half of one, also after ``kill -9`` or a power cut.

    Args:
        path: The file.
        before_renaming: Called when all is written; may refuse it by an exception.

    Raises:
        OSError: The disk is full, cannot be written to or fails; it names ``path``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{_machine()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        if before_renaming is not None:
            before_renaming()
        temporary.replace(path)
    except OSError as error:
        _name(error, temporary, path)
        raise
    finally:
        with suppress(OSError):  # of a disk that is read-only; the error that has brought us here says more
            temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Yields an empty directory beside ``path``; on a clean exit it takes the place of what is at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{_machine()}.tmp")
    try:
        temporary.mkdir()
        yield temporary
        _remove(path)
        temporary.rename(path)
    except OSError as error:
        _name(error, temporary, path)
        raise
    finally:
        with suppress(OSError):
            _remove(temporary)


def _name(error: OSError, temporary: Path, path: Path) -> None:
    """Lets an error tell of the file that was meant; of writing, the system names none."""
    if error.filename is None or Path(str(error.filename)).is_relative_to(temporary):
        error.filename = str(path)


def _remove(path: Path) -> None:
    """Removes a file, or a directory with what is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Removes what processes left over that were killed while they wrote the same file; an hour old, if elsewhere."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        try:
            living = _writer_lives(left)
            if living is False or (living is None and time.time() - left.stat().st_mtime > _HOUR):
                _remove(left)
        except FileNotFoundError:  # another process has been faster
            continue


def remove_unfinished(folder: Path) -> None:
    """Removes all that was being written within a folder, but for what living processes of this machine write.

    A process elsewhere that was taken for dead, and wakes, then cannot finish what it was about to rename.
    """
    for left in folder.rglob(".*.tmp"):
        if not _writer_lives(left):
            _remove(left)


def _writer_lives(unfinished: Path) -> bool | None:
    """Whether the process lives that writes an unfinished file; ``None``: it is on another machine, or unknown."""
    parts = unfinished.name.split(".")  # ….<process>.<machine>.tmp
    here = len(parts) > 4 and parts[-2] == _machine() and parts[-3].isdecimal()
    return _exists(int(parts[-3])) if here else None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _machine() -> str:
    """What tells the processes of this machine, or container, from those of others with the same numbers."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return hashlib.sha256(f"{socket.gethostname()} {space}".encode()).hexdigest()[:8]


def write_text(path: Path, text: str, before_renaming: Callable[[], None] | None = None) -> None:
    """Writes ``text`` as UTF-8, whole or not at all; see :func:`replacing`."""
    with replacing(path, before_renaming) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any, before_renaming: Callable[[], None] | None = None) -> None:
    """Writes ``value`` as indented JSON, whole or not at all; see :func:`replacing`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", before_renaming)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def content_sha256(path: Path) -> str:
    """The SHA-256 of what a text file says: of the content where it is compressed by gzip.

    Raises:
        PhmrunError: (exit 3) The file is missing or damaged.
    """
    try:
        with path.open("rb") as plain:
            compressed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            digest = hashlib.sha256()
            stream = gzip.GzipFile(fileobj=plain) if compressed else plain
            while piece := stream.read(1 << 20):
                digest.update(piece)
            return digest.hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PhmrunError(f"the file cannot be read: {reason}", where=str(path), code=ExitCode.DATA) from error


def read_regular(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """The content of a file that may be anything: a pipe, a device or a file without end is refused, not waited for.

    Args:
        path: The file, or a link to it.
        most: Bytes from which on it is too large.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be read, is no file, or is too large.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as handle:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a file", str(path))
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
        return handle.read(most)


def _sync_directory(directory: Path) -> None:
    """Makes a rename durable; a no-op where directories cannot be opened."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def data_dir() -> Path:
    """The directory of all datasets: ``PHMRUN_DATA``, or ``data`` in phmrun's folder in the user's cache directory."""
    if given := os.environ.get(DATA_VARIABLE):
        return Path(given).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("phmrun", appauthor=False) / "data"


def cache_dir() -> Path:
    """Where prepared corpora are kept: ``PHMRUN_CACHE``, or phmrun's folder in the user's cache directory."""
    if given := os.environ.get("PHMRUN_CACHE"):
        return Path(given).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("phmrun", appauthor=False) / "prepared"


MISREAD = (
    *(OSError, EOFError, ArithmeticError, ValueError, LookupError, TypeError, AttributeError),
    *(SyntaxError, TokenError),  # of the head of a NumPy file
)


@contextmanager
def intact(what: str, where: Path, hint: str | None = None) -> Iterator[None]:
    """Turns whatever is raised by reading what phmrun has written into one error.

    Args:
        what: What is read, and its verb: "the vocabulary is".
        where: The file or directory.
        hint: What mends it.

    Raises:
        PhmrunError: (exit 3) It is missing or damaged.
    """
    try:
        yield
    except MISREAD as error:
        reason = error if isinstance(error, OSError | ValueError) else repr(error)
        raise PhmrunError(
            f"{what} missing or damaged: {reason}", where=str(where), hint=hint, code=ExitCode.DATA
        ) from error


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
UNWRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def disk_errors(code: ExitCode = ExitCode.DATA, hint: str | None = None, needed: int = 0) -> Iterator[None]:
    """Turns the system's errors of a full, a read-only or a failing disk into one that a user can mend.

    Args:
        code: The exit code.
        hint: What to do when there is room again.
        needed: Bytes that were to be written; 0: unknown.

    Raises:
        PhmrunError: The disk is at fault.
    """
    try:
        yield
    except OSError as error:
        found = disk_error(error, code, hint, needed)
        if found is None:
            raise
        raise found from error


def disk_error(
    error: OSError, code: ExitCode = ExitCode.DATA, hint: str | None = None, needed: int = 0
) -> PhmrunError | None:
    """The same for one error; ``None`` if it is of another kind."""
    path = Path(str(error.filename)) if error.filename is not None else None
    where = str(path) if path else None
    if error.errno in FULL:
        what = "the disk is full" if error.errno == errno.ENOSPC else "no more may be written there"
        facts = [f"{needed / 1e6:,.1f} MB are needed"] if needed else []
        free = _free(path)
        if free is not None and error.errno == errno.ENOSPC:
            facts.append(f"{free / 1e6:,.1f} MB are free")
        advice = hint or "Then give the same command again."
        what = f"{what} ({', '.join(facts)})" if facts else what
        return PhmrunError(what, where=where, hint=f"Make room there. {advice}", code=code)
    if error.errno in UNWRITABLE:
        what = "this cannot be written to: the disk is read-only" if error.errno == errno.EROFS else "no permission"
        return PhmrunError(
            what, where=where, hint="Change that, or choose another place, such as --runs-dir.", code=code
        )
    if error.errno == errno.EIO:
        return PhmrunError("the disk fails", where=where, hint=hint or "Then give the same command again.", code=code)
    return None


def _free(path: Path | None) -> int | None:
    """Free bytes where a file is, or would be."""
    for folder in path.absolute().parents if path else ():
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return None
