"""Safe extraction of named members from zip and tar archives.

Only members that the catalogue names are written, and only to the paths that the catalogue names. An archive therefore
cannot choose where its files go. Links, devices and unsafe names are refused as well. Bytes are counted while they are
unpacked, because the size that an archive states may be wrong.
"""

import errno
import gzip
import io
import lzma
import os
import shutil
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from phmrun.datasets.catalogue import is_safe
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import open_regular, replacing
from phmrun.text.lines import GZIP_MAGIC, LONGEST_LINE

CHUNK = 1 << 20
VARIABLE = "PHMRUN_LARGEST_GB"
USUAL = 16  # GB, larger than any corpus of the catalogue; a bomb of a few hundred kilobytes can unpack to more
MOST_MEMBERS = 100_000  # files in an archive
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError, ValueError),
    *(NotImplementedError, RuntimeError),  # unknown compression method; encrypted archive
)


def largest() -> int:
    """Return the size limit in bytes for files of unknown size.

    It applies to packed and unpacked files. The environment variable ``PHMRUN_LARGEST_GB`` sets it in GB; the default
    is 16 GB.

    Raises:
        PhmrunError: The variable is not a whole number of GB, 1 to 999,999.
    """
    value = os.environ.get(VARIABLE) or str(USUAL)
    if not (value.isascii() and value.isdigit() and len(value) <= 6 and int(value)):
        raise PhmrunError(f"{value!r} is not a number of GB", where=VARIABLE, valid=("1 to 999999",))
    return int(value) * 10**9


def too_much(limit: int, known: bool) -> str:
    """Return the error text for a file of more than ``limit`` bytes.

    ``known`` if that is its size in the catalogue; otherwise the text says how to raise the limit.
    """
    if known:
        return f"more than the expected {limit:,} bytes"
    return f"more than {limit / 1e9:,.0f} GB; to take more: {VARIABLE}={2 * limit // 10**9}"


def extract(archive: Path, member: str | None, destination: Path, *, limit: int | None = None) -> None:
    """Extract one regular file of a zip or tar archive to ``destination``, atomically.

    Args:
        archive: The archive's path.
        member: Name within the archive; None copies the archive itself.
        destination: Path of the new file.
        limit: Expected size in bytes; None applies :func:`largest`.

    Raises:
        PhmrunError: (exit 3) The archive is damaged or lacks the member, or the member is a link, has an unsafe name,
            or exceeds the limit.
    """
    with opened(archive, member, limit) as handle, replacing(destination) as temporary, temporary.open("wb") as output:
        shutil.copyfileobj(handle, output, CHUNK)


@contextmanager
def opened(archive: Path, member: str | None, limit: int | None = None) -> Iterator[IO[bytes]]:
    """Open one regular member of an archive for reading.

    The file itself if ``member`` is None; then the size is limited only if ``limit`` is not None.

    Raises:
        PhmrunError: (exit 3) For the reasons of :func:`extract`; also raised while the stream is read.
        OSError: The file cannot be read.
    """
    if member is not None and not is_safe(member):
        raise _refused(f"the name {member!r} leads out of the archive", archive)
    try:
        if member is None:
            with open_regular(archive, most=sys.maxsize) as handle:
                yield _counted(handle, archive, member, limit) if limit is not None else handle
        else:
            unpack = _zip_member if zipfile.is_zipfile(archive) else _tar_member
            with unpack(archive, member) as content:
                yield _counted(content, archive, member, limit)
    except (*_DAMAGED, OSError) as error:
        # EINVAL: the archive's directory points outside the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise _refused(f"the archive is damaged: {error}", archive) from error


@contextmanager
def unpacked(archive: Path, member: str | None) -> Iterator[IO[bytes]]:
    """Open a member like :func:`opened`, decompressed if its content is gzip.

    The size of a plain file is not limited.

    Raises:
        PhmrunError: (exit 3) The content exceeds :func:`largest`, or the archive is damaged.
    """
    with opened(archive, member) as handle:
        stream = cast(io.BufferedReader, handle)
        if stream.peek(2)[:2] == GZIP_MAGIC:
            with gzip.GzipFile(fileobj=stream) as inner:
                yield _counted(cast(IO[bytes], inner), archive, member, None)
        else:
            yield stream


def lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream with their ends, each cut to ``LONGEST_LINE`` bytes.

    The rest of a longer line is skipped.
    """
    while line := stream.readline(LONGEST_LINE):
        rest = line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE)
        yield line


def is_archive(path: Path) -> bool:
    """Return True if a file's content is a zip or tar archive.

    True for a truncated compressed file, too, which the reader reports.
    """
    try:
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except _DAMAGED:  # a truncated compressed file; the reader reports it
        return True


def members(archive: Path) -> list[str]:
    """Return the names of the files in an archive, without unsafe names.

    Directories are left out, and links in tar archives; :func:`extract` refuses links in zip archives. Names lose a
    leading ``./`` in tar archives.

    Raises:
        PhmrunError: (exit 3) The archive is damaged or holds more than ``MOST_MEMBERS`` files.
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
    """Open a regular member of a zip archive.

    Raises:
        PhmrunError: (exit 3) It is missing or not a regular file, or the archive holds too many files.
    """
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
    """Open a regular member of a tar archive.

    It may be stored as ``./member``.

    Raises:
        PhmrunError: (exit 3) It is missing or not a regular file, or too much is stored before it.
    """
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
    """Yield the entries of a tar archive.

    Skipped content counts towards the size limit, since it is unpacked too. Sizes count when the next entry is read, so
    the entry that exceeds the limit is still yielded.

    Raises:
        PhmrunError: (exit 3) There are too many entries, or they exceed :func:`largest`.
    """
    passed = 0
    for number, entry in enumerate(packed, 1):
        _check_number(number, archive)
        yield entry
        passed += entry.size
        if passed > largest():
            raise _refused(f"the archive holds {too_much(largest(), known=False)}", archive)


def _check_number(members: int, archive: Path) -> None:
    """Check that an archive has at most ``MOST_MEMBERS`` files.

    Raises:
        PhmrunError: (exit 3) It has more.
    """
    if members > MOST_MEMBERS:
        raise _refused(f"the archive holds more than {MOST_MEMBERS:,} files", archive)


def _counted(content: IO[bytes], archive: Path, member: str | None, limit: int | None) -> IO[bytes]:
    """Return a stream whose reading beyond ``limit`` bytes raises a :class:`PhmrunError`.

    None applies :func:`largest`.
    """
    most = largest() if limit is None else limit
    what = f"{member or archive.name!r} holds {too_much(most, known=limit is not None)}"
    return cast(IO[bytes], io.BufferedReader(_Counted(content, most, _refused(what, archive)), CHUNK))


class _Counted(io.RawIOBase):
    """Stream that counts its bytes and raises an error beyond a limit."""

    def __init__(self, content: IO[bytes], limit: int, error: PhmrunError) -> None:
        super().__init__()
        self._content, self._left, self._error = content, limit, error

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into ``buffer``.

        Return their number, 0 at the end.

        Raises:
            PhmrunError: The limit is exceeded.
        """
        piece = self._content.read(len(buffer))
        self._left -= len(piece)
        if self._left < 0:
            raise self._error
        buffer[: len(piece)] = piece
        return len(piece)


def _refused(what: str, archive: Path) -> PhmrunError:
    """Return an error (exit 3) about an archive."""
    return PhmrunError(what, where=str(archive), code=ExitCode.DATA)
