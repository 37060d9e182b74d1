"""SHA-256 checksums of the files of a directory, kept in the directory itself as ``checksums.json``."""

from functools import lru_cache
from pathlib import Path

from phmrun.documents import parse_json
from phmrun.files import read_regular, sha256_of, write_json

CHECKSUMS = "checksums.json"
Stamp = tuple[str, int, int, int]
"""A file's path, its number in the file system, its bytes and its time of change in nanoseconds."""


def write_checksums(folder: Path) -> None:
    """Write the checksums of a complete folder into ``checksums.json``.

    All files below it are included, except those named ``checksums.json`` at any depth. An existing one is replaced.
    """
    write_json(folder / CHECKSUMS, {name: sha256_of(folder / name) for name in _names(folder)})


def fault_in(folder: Path) -> str | None:
    """Return the first fault of a directory against its checksums.

    The result is ``None`` if there is none. A ``checksums.json`` that is missing, unreadable or damaged is the fault
    returned, not an exception. Missing and extra files come next, together in order of names, then changed ones.
    Files named ``checksums.json`` are not checked. A file with the same :func:`stamp_of` is not hashed again, see
    :func:`checksum_once`.
    """
    try:
        expected: dict[str, str] = {**parse_json(read_regular(folder / CHECKSUMS))}
    except (OSError, ValueError, TypeError) as error:
        return f"{CHECKSUMS} is missing or damaged: {error}"
    names = _names(folder)
    if differing := sorted(set(names) ^ expected.keys()):
        return f"{differing[0]} is missing or extra"
    try:
        wrong = (name for name in names if checksum_once(stamp_of(folder / name)) != expected[name])
        return next((f"checksum mismatch of {name}" for name in wrong), None)
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"


def stamp_of(path: Path) -> Stamp:
    """Return the stamp that identifies a file's present content.

    It holds path, number in the file system (inode), size in bytes, and time of change in nanoseconds. It is valid
    within a process.

    Raises:
        OSError: The file is missing.
    """
    status = path.stat()
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(maxsize=4096)
def checksum_once(stamp: Stamp) -> str:
    """Return the SHA-256 of the file with this stamp, computed once in a process.

    Only the 4096 stamps used last are remembered.
    """
    return sha256_of(Path(stamp[0]))


def _names(folder: Path) -> list[str]:
    """Return the relative paths of all files below a folder, sorted.

    Files named ``checksums.json`` are left out at any depth.
    """
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name != CHECKSUMS)
