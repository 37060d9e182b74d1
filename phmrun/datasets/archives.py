"""Named members out of zip and tar archives, and nothing else from them.

Only members that the catalogue names are written, to the paths that the catalogue names, so an archive cannot choose
where anything goes. Links, devices and unsafe names are refused all the same. What is unpacked is counted as it
comes, whatever the archive says of its size.
"""

import errno
import gzip
import io
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from phmrun.datasets.catalogue import is_safe
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import replacing
from phmrun.text.lines import GZIP_MAGIC, LONGEST_LINE

CHUNK = 1 << 20
VARIABLE = "PHMRUN_LARGEST_GB"
USUAL = 16  # GB, more than any corpus of the catalogue has; a few hundred kilobytes can unpack to as much
MOST_MEMBERS = 100_000  # files of an archive
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError, ValueError),
    *(NotImplementedError, RuntimeError),  # a kind of compression that Python does not know; a password
)


def largest() -> int:
    """Bytes of the largest file of unknown size, as it arrives and as it is unpacked: ``PHMRUN_LARGEST_GB``, or 16 GB.

    Raises:
        PhmrunError: The variable is no number of GB.
    """
    given = os.environ.get(VARIABLE) or str(USUAL)
    if not (given.isascii() and given.isdigit() and len(given) <= 6 and int(given)):
        raise PhmrunError(f"{given!r} is no number of GB", where=VARIABLE, valid=("1 to 999999",))
    return int(given) * 10**9


def too_much(limit: int, known: bool) -> str:
    """What is said of a file of more than ``limit`` bytes, which is its size if the catalogue knows it."""
    if known:
        return f"more than the {limit:,} bytes that it should have"
    return f"more than {limit / 1e9:,.0f} GB; to take more: {VARIABLE}={2 * limit // 10**9}"


def extract(archive: Path, member: str | None, destination: Path, *, limit: int | None = None) -> None:
    """Writes one regular file of a zip or tar archive to ``destination``, whole or not at all.

    ``member`` is its name within the archive, or None for the archive itself; ``limit`` the bytes that it has, as the
    catalogue knows them.

    Raises:
        PhmrunError: (exit 3) The archive is damaged or does not hold that file, or the member is a link, has an unsafe
            name, or is larger than ``limit``, or else than :func:`largest`.
    """
    with opened(archive, member, limit) as handle, replacing(destination) as temporary, temporary.open("wb") as output:
        shutil.copyfileobj(handle, output, CHUNK)


@contextmanager
def opened(archive: Path, member: str | None, limit: int | None = None) -> Iterator[IO[bytes]]:
    """The bytes of one regular member, or of the file itself.

    Raises:
        PhmrunError: (exit 3) As :func:`extract`, also while what it yields is read.
    """
    if member is not None and not is_safe(member):
        raise _refused(f"the name {member!r} leads out of the archive", archive)
    try:
        if member is None:
            with archive.open("rb") as handle:
                yield _counted(handle, archive, member, limit) if limit is not None else handle
        else:
            unpack = _zip_member if zipfile.is_zipfile(archive) else _tar_member
            with unpack(archive, member) as content:
                yield _counted(content, archive, member, limit)
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # a place that no file has
            raise
        raise _refused(f"the archive is damaged: {error}", archive) from error


@contextmanager
def unpacked(archive: Path, member: str | None) -> Iterator[IO[bytes]]:
    """As :func:`opened`, but where the member is a gzip file itself, what that holds."""
    with opened(archive, member) as handle:
        stream = cast(io.BufferedReader, handle)
        if stream.peek(2)[:2] == GZIP_MAGIC:
            with gzip.GzipFile(fileobj=stream) as inner:
                yield _counted(cast(IO[bytes], inner), archive, member, None)
        else:
            yield stream


def lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of what is being unpacked; of one without end, its beginning."""
    while line := stream.readline(LONGEST_LINE):
        rest = line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE)
        yield line


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or tar archive, by its content."""
    try:
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except _DAMAGED:  # compressed, and cut short: what reads it says so
        return True


def members(archive: Path) -> list[str]:
    """Names of the regular files in an archive that are safe to use.

    Raises:
        PhmrunError: (exit 3) It is damaged.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                _check_number(len(packed.infolist()), archive)
                names = [info.filename for info in packed.infolist() if not info.filename.endswith("/")]
        else:
            with tarfile.open(archive) as packed_tar:
                names = [entry.name.removeprefix("./") for entry in _entries(packed_tar, archive) if entry.isreg()]
    except _DAMAGED as error:
        raise _refused(f"the archive is damaged: {error}", archive) from error
    return [name for name in names if is_safe(name)]


@contextmanager
def _zip_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(archive) as packed:
        _check_number(len(packed.infolist()), archive)
        try:
            info = packed.getinfo(member)
        except KeyError as error:
            raise _refused(f"there is no {member!r} in it", archive) from error
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.filename.endswith("/") or kind not in (0, stat.S_IFREG):
            raise _refused(f"{member!r} is not a regular file", archive)
        with packed.open(info) as handle:
            yield handle


@contextmanager
def _tar_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    with tarfile.open(archive) as packed:
        wanted = {member, f"./{member}"}
        entry = next((entry for entry in _entries(packed, archive) if entry.name in wanted), None)
        if entry is None:
            raise _refused(f"there is no {member!r} in it", archive)
        content = packed.extractfile(entry) if entry.isreg() else None
        if content is None:
            raise _refused(f"{member!r} is not a regular file", archive)
        with content:
            yield content


def _entries(packed: tarfile.TarFile, archive: Path) -> Iterator[tarfile.TarInfo]:
    """The entries of a tar archive one by one; what lies between two has to be unpacked to find the second."""
    passed = 0
    for number, entry in enumerate(packed, 1):
        _check_number(number, archive)
        yield entry
        passed += entry.size
        if passed > largest():
            raise _refused(f"it holds {too_much(largest(), known=False)}", archive)


def _check_number(members: int, archive: Path) -> None:
    if members > MOST_MEMBERS:
        raise _refused(f"it holds more than the {MOST_MEMBERS:,} files that are looked through", archive)


def _counted(content: IO[bytes], archive: Path, member: str | None, limit: int | None) -> IO[bytes]:
    """What reads the content, and refuses to go on beyond the limit."""
    most = largest() if limit is None else limit
    what = f"{member or archive.name!r} holds {too_much(most, known=limit is not None)}"
    return cast(IO[bytes], io.BufferedReader(_Counted(content, most, _refused(what, archive)), CHUNK))


class _Counted(io.RawIOBase):
    """Bytes that are counted as they are read, since what an archive says of their number may be wrong."""

    def __init__(self, content: IO[bytes], limit: int, error: PhmrunError) -> None:
        super().__init__()
        self._content, self._left, self._error = content, limit, error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._content.read(len(buffer))
        self._left -= len(piece)
        if self._left < 0:
            raise self._error
        buffer[: len(piece)] = piece
        return len(piece)


def _refused(what: str, archive: Path) -> PhmrunError:
    return PhmrunError(what, where=str(archive), code=ExitCode.DATA)
