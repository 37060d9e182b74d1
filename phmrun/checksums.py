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

    Every file below it is included.
    """
    write_json(folder / CHECKSUMS, {name: sha256_of(folder / name) for name in _names(folder)})


def fault_in(folder: Path) -> str | None:
    """Return the first fault of a directory against its checksums.

    The result is ``None`` if there is none. Missing and extra files come first, then changed ones, each in order of
    names. A process hashes each file once: a file whose size and time of change are the same is not read again.
    """
    try:
        expected = parse_json(read_regular(folder / CHECKSUMS))
    except FileNotFoundError:
        return f"{CHECKSUMS} is missing"
    except (OSError, ValueError) as error:
        return f"{CHECKSUMS} cannot be read: {error}"
    names = _names(folder)
    if not isinstance(expected, dict) or (differing := sorted(set(names) ^ expected.keys())):
        return f"{differing[0]} is missing or extra" if isinstance(expected, dict) else f"{CHECKSUMS} is damaged"
    wrong = (name for name in names if checksum_once(stamp_of(folder / name)) != expected[name])
    return next((f"checksum mismatch of {name}" for name in wrong), None)


def stamp_of(path: Path) -> Stamp:
    """Return the stamp that identifies a file's present content.

    It is valid within a process.

    Raises:
        OSError: The file is missing.
    """
    status = path.stat()
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(maxsize=4096)
def checksum_once(stamp: Stamp) -> str:
    """Return the SHA-256 of the file with this stamp, computed once in a process."""
    return sha256_of(Path(stamp[0]))


def _names(folder: Path) -> list[str]:
    """Return the sorted relative paths of all files below a folder, except ``checksums.json``."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name != CHECKSUMS)
