"""Atomic writes, checksums, bounded reads, and errors of full or read-only disks."""

import errno
import gzip
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any, cast

from phmrun.errors import ExitCode, PhmrunError, data_error
from phmrun.escaping import printable

if TYPE_CHECKING:
    from filelock import FileLock

GZIP_MAGIC = b"\x1f\x8b"
MOST_BYTES = 256 * 2**20
"""Largest small file of a run: status, scores, samples."""
DATA_VARIABLE = "PHMRUN_DATA"
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)
"""Errors of file systems that cannot flush a directory."""


@contextmanager
def replacing(path: Path, before_renaming: Callable[[], None] | None = None) -> Iterator[Path]:
    """Replace a file atomically.

    Yield a temporary path, then flush it to disk and rename it to ``path``. A missing parent directory is created. A
    reader sees the old or the new file, never a part, even after ``kill -9`` or a power cut. After an error, the old
    file stays. ``before_renaming`` is called before the rename and may raise to prevent it. An ``OSError`` names
    ``path``.
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
    """Replace a directory.

    Yield an empty one beside ``path``, and rename it to ``path`` on a clean exit. A missing parent directory is
    created. The old directory is removed just before; a kill in between leaves neither. After an error, the old one
    stays.
    """
    with _temporary(path) as temporary:
        temporary.mkdir()
        yield temporary
        remove(path)
        temporary.rename(path)


def sync_directory(folder: Path) -> None:
    """Flush a directory's entries to disk, if its file system supports that.

    Nothing is done if the directory cannot be opened.

    Raises:
        OSError: The disk fails.
    """
    try:
        directory = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:  # directories cannot be opened here
        return
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            error.filename = str(folder)
            raise
    finally:
        os.close(directory)


def is_name(text: str) -> bool:
    r"""True if a text can name an entry directly below a folder.

    It is neither empty nor "." or "..", is printable, and has none of the characters ``/ \ : * ? " < > |``, so that it
    is a name on any system.
    """
    return text.isprintable() and text not in ("", ".", "..") and not set(text) & set('/\\:*?"<>|')


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and remove it at the end.

    The parent directory is created. An ``OSError`` names ``path``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:50]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
    except OSError as error:
        # An error of writing has no name; one without a number is not of the disk, and its text stays.
        if error.errno and (error.filename is None or Path(str(error.filename)).is_relative_to(temporary)):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # on a read-only disk the original error matters more
            remove(temporary)


def remove(path: Path) -> None:
    """Remove a file or a directory tree, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove all temporary files in a folder and below it, except those of living processes on this machine.

    A process on another machine that seemed dead, and wakes up, then cannot finish its rename.
    """
    for left in folder.rglob(".*.tmp"):
        ours = re.search(r"\.(\d{1,9})\.[0-9a-f]{8}\.tmp$", left.name)  # ….<process>.<random digits>.tmp
        if ours is None:
            continue
        try:
            os.kill(int(ours[1]), 0)
        except ProcessLookupError:
            remove(left)
        except PermissionError:  # another user's process, so it exists
            continue


def write_text(path: Path, text: str, before_renaming: Callable[[], None] | None = None) -> None:
    """Write ``text`` as UTF-8, atomically; see :func:`replacing`."""
    with replacing(path, before_renaming) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, atomically; see :func:`replacing`."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Format ``value`` as indented JSON with a line end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def last_lines(log: Path, count: int = 5) -> list[str]:
    """Return the last ``count`` lines of a log that are not blank.

    None without a readable log. They lose white space at their ends. Control characters are escaped.

    Only its last 64 KiB are read.
    """
    try:
        with open_regular(log, most=1 << 62) as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - 64 * 1024))
            text = handle.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [printable(line.rstrip()) for line in text.splitlines() if line.strip()][-count:]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with open_regular(path, most=sys.maxsize) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def read_regular(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """Read a regular file of at most ``most`` bytes (256 MiB).

    Errors are those of :func:`open_regular`.
    """
    with open_regular(path, most=most) as handle:
        return handle.read(most)


def read_text(path: Path) -> str:
    """Read a regular UTF-8 file as text, as ``Path.read_text`` does; it never waits for a pipe.

    Errors are those of :func:`open_regular`.
    """
    with io.TextIOWrapper(open_regular(path, most=sys.maxsize), encoding="utf-8") as handle:
        return handle.read()


def read_object(path: Path) -> dict[str, Any]:
    """Read a file's JSON object; empty if the file is missing, cannot be read, or holds something else."""
    from phmrun.documents import parse_json  # brings YAML

    with suppress(OSError, ValueError, TypeError):
        return {**parse_json(read_regular(path))}
    return {}


def open_regular(path: Path, *, most: int = MOST_BYTES) -> io.BufferedReader:
    """Open a regular file for reading.

    Pipes and devices are not waited for. The default of ``most`` is 256 MiB. A file that claims more bytes than its
    disk has is damaged: reading its holes would take minutes.

    Raises:
        FileNotFoundError: It is missing.
        OSError: It is not a regular file, or larger than ``most`` bytes or its disk.
    """
    most = min(most, shutil.disk_usage(path).total or most)
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= most:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a file", str(path))
    raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))


def decompressed(handle: IO[bytes]) -> IO[bytes]:
    """Return a reader of a seekable file's content, decompressed if it is gzip."""
    is_gzip = handle.read(2) == GZIP_MAGIC
    handle.seek(0)
    return cast(IO[bytes], gzip.GzipFile(fileobj=handle)) if is_gzip else handle


def file_lock(path: Path) -> "FileLock":
    """Return a lock on a file, which is created.

    Raises:
        PhmrunError: (exit 3) Something else than a file has the path; the lock would never be had.
    """
    import filelock

    if path.exists() and not path.is_file():
        raise data_error(f"the lock {no_file(path).partition(',')[0]}", path, "Remove it.")
    return filelock.FileLock(path)


def no_file(path: Path) -> str:
    """Return the reason why a path is no file of data.

    It is the end of a sentence: "is a folder", "is a pipe or a device …", or "does not exist". A regular file is not
    expected.
    """
    if path.is_dir():
        return "is a folder"
    if path.exists():
        return "is a pipe or a device, and data are read more than once: write them into a file (plain or .gz)"
    return "does not exist"


def sha256_of_input(path: Path) -> str:
    """Return the SHA-256 of a file that decides the result of a run.

    Raises:
        PhmrunError: (exit 3) It is missing or no regular file.
    """
    if not path.is_file():
        raise data_error(f"the input {no_file(path)}", path)
    return sha256_of(path)


def data_dir() -> Path:
    """Return the directory of all datasets.

    It is ``PHMRUN_DATA``, or ``data`` in phmrun's user cache.
    """
    return _folder(DATA_VARIABLE, "data")


def cache_dir() -> Path:
    """Return the directory of prepared corpora.

    It is ``PHMRUN_CACHE``, or ``prepared`` in phmrun's user cache.
    """
    return _folder("PHMRUN_CACHE", "prepared")


def _folder(variable: str, name: str) -> Path:
    """Return the folder of an environment variable.

    ``~`` is expanded. Without the variable, it is ``name`` in the user's cache.
    """
    if folder := os.environ.get(variable):
        return Path(folder).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("phmrun", appauthor=False) / name


MISREAD = (
    *(OSError, EOFError, ArithmeticError, ValueError, LookupError, TypeError, AttributeError),
    *(SyntaxError, TokenError),  # from the header of a NumPy file
)


@contextmanager
def intact(what: str, where: Path, hint: str | None = None) -> Iterator[None]:
    """Convert errors of reading phmrun's own files.

    They become a `PhmrunError` (exit 3). ``what`` is the subject with its verb ("the vocabulary is"), ``hint`` the
    remedy.
    """
    try:
        yield
    except MISREAD as error:
        reason = error if isinstance(error, OSError | ValueError) else repr(error)
        raise data_error(f"{what} missing or damaged: {reason}", where, hint) from error


@contextmanager
def disk_errors(code: ExitCode = ExitCode.DATA, hint: str | None = None, needed: int = 0) -> Iterator[None]:
    """Convert disk errors into a `PhmrunError` with advice.

    The disk is full, read-only or failing. Other errors are raised unchanged. ``hint`` is the advice once there is room
    again; ``needed`` the number of bytes required, if known.
    """
    try:
        yield
    except OSError as error:
        if user_error := disk_error(error, code, hint, needed):
            raise user_error from error
        raise


def disk_error(
    error: OSError, code: ExitCode = ExitCode.DATA, hint: str | None = None, needed: int = 0
) -> PhmrunError | None:
    """Return the user error for a disk error.

    The disk is full, over its quota, read-only, not permitted, or failing, or something else is in the place; the
    result is ``None`` for errors of another kind. Arguments are those of :func:`disk_errors`; ``code`` is the exit
    code.
    """
    if error.errno not in _DISK_FAULTS:
        return None
    path = Path(str(error.filename)) if error.filename is not None else None
    what = _DISK_FAULTS[error.errno]
    if error.errno == errno.ENOSPC:
        facts = [f"{needed / 1e6:,.1f} MB are needed"] if needed else []
        for folder in path.absolute().parents if path else ():
            with suppress(OSError):  # the nearest folder that exists
                facts.append(f"{shutil.disk_usage(folder).free / 1e6:,.1f} MB are free")
                break
        what = f"{what} ({', '.join(facts)})" if facts else what
    advice = f"Make room, or choose another place, such as by --runs-dir. {hint or 'Then give the same command again.'}"
    return PhmrunError(what, where=str(path) if path else None, hint=advice, code=code)


_DISK_FAULTS = {
    errno.ENOSPC: "the disk is full",
    **dict.fromkeys((errno.EDQUOT, errno.EFBIG), "the quota or the size limit is reached"),
    errno.EROFS: "this cannot be written to: the disk is read-only",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "no permission"),
    errno.ENOTDIR: "a file is in the place of a folder",
    **dict.fromkeys((errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENOTEMPTY, errno.ENXIO), "something else is here"),
    errno.EIO: "the disk reports an error",
}
