"""Files that are written whole or not at all, their checksums, and what is said when a disk is full."""

import errno
import glob
import hashlib
import json
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

from phmrun.errors import ExitCode, PhmrunError

MOST_BYTES = 256 * 2**20
"""Largest small file of a run: status, scores, samples."""
DATA_VARIABLE = "PHMRUN_DATA"
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)
"""Errors of file systems that cannot flush a directory."""
_HOUR = 3600.0
"""Seconds after which another machine's unfinished file counts as left over."""


@contextmanager
def replacing(path: Path, before_renaming: Callable[[], None] | None = None) -> Iterator[Path]:
    """Yields a temporary path beside ``path``; on a clean exit it is flushed to disk and renamed over ``path``.

    A reader sees the old file or the new one, never half of one, also after ``kill -9`` or a power cut.
    ``before_renaming`` is called when all is written, and may refuse it by an exception. An ``OSError`` names ``path``.
    """
    with _temporary(path) as temporary:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        if before_renaming is not None:
            before_renaming()
        temporary.replace(path)
    sync_directory(path.parent)  # the new name


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Yields an empty directory beside ``path``; on a clean exit it takes the place of what is at ``path``."""
    with _temporary(path) as temporary:
        temporary.mkdir()
        yield temporary
        _remove(path)
        temporary.rename(path)


@contextmanager
def staging(path: Path) -> Iterator[Path]:
    """Yields an empty directory beside ``path``, from which files are moved into place; it is removed at the end."""
    with _temporary(path) as temporary:
        temporary.mkdir()
        yield temporary


def sync_directory(folder: Path) -> None:
    """Flushes the names in a directory to disk, if its file system can."""
    try:
        directory = os.open(folder, os.O_RDONLY)
    except OSError:  # directories cannot be opened here
        return
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(directory)


def is_name(text: str) -> bool:
    """True if a text can name an entry directly below a folder, on any system."""
    return text.isprintable() and text not in ("", ".", "..") and not set(text) & set('/\\:*?"<>|')


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A path beside ``path``, which an error names in its place; nothing is left there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{_machine()}.tmp")
    try:
        yield temporary
    except OSError as error:
        if error.filename is None or Path(str(error.filename)).is_relative_to(temporary):  # none, of writing
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # of a disk that is read-only; the error that has brought us here says more
            _remove(temporary)


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
    if not (len(parts) > 4 and parts[-2] == _machine() and parts[-3].isdecimal()):
        return None
    try:
        os.kill(int(parts[-3]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process, hence there
        pass
    return True


def _machine() -> str:
    """What tells the processes of this machine, or container, from those of others with the same numbers."""
    return hashlib.sha256(f"{socket.gethostname()} {process_space()}".encode()).hexdigest()[:8]


def process_space() -> str:
    """The process-id namespace of this process; empty where there are none."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def write_text(path: Path, text: str, before_renaming: Callable[[], None] | None = None) -> None:
    """Writes ``text`` as UTF-8, whole or not at all; see :func:`replacing`."""
    with replacing(path, before_renaming) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any, before_renaming: Callable[[], None] | None = None) -> None:
    """Writes ``value`` as indented JSON, whole or not at all; see :func:`replacing`."""
    write_text(path, json_text(value), before_renaming)


def json_text(value: Any) -> str:
    """``value`` as indented JSON with a line end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def read_regular(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """The content of a file that may be anything; see :func:`open_regular`."""
    with open_regular(path, most=most) as handle:
        return handle.read(most)


def open_regular(path: Path, *, most: int = MOST_BYTES) -> BinaryIO:
    """Open a file that may be anything: a pipe, a device or a file without end is refused, not waited for.

    A ``FileNotFoundError`` says that there is none, another ``OSError`` that it is no file, or too large.
    """
    handle = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    facts = os.fstat(handle.fileno())
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= most:
        return handle
    handle.close()
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a file", str(path))
    raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))


def data_dir() -> Path:
    """The directory of all datasets: ``PHMRUN_DATA``, or ``data`` in phmrun's folder in the user's cache directory."""
    return _folder(DATA_VARIABLE, "data")


def cache_dir() -> Path:
    """Where prepared corpora are kept: ``PHMRUN_CACHE``, or phmrun's folder in the user's cache directory."""
    return _folder("PHMRUN_CACHE", "prepared")


def _folder(variable: str, name: str) -> Path:
    if given := os.environ.get(variable):
        return Path(given).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("phmrun", appauthor=False) / name


MISREAD = (
    *(OSError, EOFError, ArithmeticError, ValueError, LookupError, TypeError, AttributeError),
    *(SyntaxError, TokenError),  # of the head of a NumPy file
)


@contextmanager
def intact(what: str, where: Path, hint: str | None = None) -> Iterator[None]:
    """Turns whatever is raised by reading what phmrun has written into one `PhmrunError` (exit 3).

    ``what`` is what is read, and its verb ("the vocabulary is"), ``hint`` what mends it.
    """
    try:
        yield
    except MISREAD as error:
        reason = error if isinstance(error, OSError | ValueError) else repr(error)
        said = f"{what} missing or damaged: {reason}"
        raise PhmrunError(said, where=str(where), hint=hint, code=ExitCode.DATA) from error


@contextmanager
def disk_errors(code: ExitCode = ExitCode.DATA, hint: str | None = None, needed: int = 0) -> Iterator[None]:
    """Turns the system's errors of a full, a read-only or a failing disk into one that a user can mend.

    ``hint`` says what to do when there is room again, for the bytes that are ``needed`` if they are known.
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
    again = hint or "Then give the same command again."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        what = "the disk is full" if error.errno == errno.ENOSPC else "no more may be written there"
        facts = [f"{needed / 1e6:,.1f} MB are needed"] if needed else []
        for folder in path.absolute().parents if path and error.errno == errno.ENOSPC else ():
            with suppress(OSError):  # where the file is, or would be
                facts.append(f"{shutil.disk_usage(folder).free / 1e6:,.1f} MB are free")
                break
        what = f"{what} ({', '.join(facts)})" if facts else what
        advice = f"Make room there. {again}"
    elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        what = "this cannot be written to: the disk is read-only" if error.errno == errno.EROFS else "no permission"
        advice = "Change that, or choose another place, such as --runs-dir."
    elif error.errno == errno.EIO:
        what, advice = "the disk fails", again
    else:
        return None
    return PhmrunError(what, where=str(path) if path else None, hint=advice, code=code)
