"""Named members out of zip and tar archives, and nothing else from them.

Only members that the catalogue names are written, to the paths that the catalogue names, so an archive cannot choose
where anything goes. Links, devices and unsafe names are refused all the same.
"""

import errno
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from phmrun.datasets.dataset import is_safe
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import replacing

CHUNK = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError, ValueError),
    *(NotImplementedError, RuntimeError),  # a kind of compression that Python does not know; a password
)


def extract(archive: Path, member: str | None, destination: Path, *, limit: int | None = None) -> None:
    """Writes one regular file of an archive to ``destination``, whole or not at all.

    Args:
        archive: A zip archive, or a tar archive in any compression.
        member: Name of the file within it, or None for the file itself.
        destination: The file to write.
        limit: Most bytes to write; an archive that holds more is refused.

    Raises:
        PhmrunError: (exit 3) The archive is damaged or does not hold that file, or the member is a link, has an unsafe
            name, or is larger than ``limit``.
    """
    with opened(archive, member) as handle, replacing(destination) as temporary, temporary.open("wb") as output:
        written = 0
        while piece := handle.read(CHUNK):
            written += len(piece)
            if limit is not None and written > limit:
                raise _refused(f"{member!r} holds more than the {limit:,} bytes that it should", archive)
            output.write(piece)


@contextmanager
def opened(archive: Path, member: str | None) -> Iterator[IO[bytes]]:
    """The bytes of one regular member, or of the file itself.

    Raises:
        PhmrunError: (exit 3) As :func:`extract`, also while what it yields is read.
    """
    if member is not None and not is_safe(member):
        raise _refused(f"the name {member!r} leads out of the archive", archive)
    try:
        if member is None:
            with archive.open("rb") as handle:
                yield handle
        elif zipfile.is_zipfile(archive):
            yield from _zip_member(archive, member)
        else:
            yield from _tar_member(archive, member)
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (
            None,
            errno.EINVAL,
        ):  # a place that no file has
            raise
        raise _refused(f"the archive is damaged: {error}", archive) from error


@contextmanager
def unpacked(archive: Path, member: str | None) -> Iterator[IO[bytes]]:
    """As :func:`opened`, but where the member is a gzip file itself, what that holds."""
    with opened(archive, member) as handle:
        stream = io.BufferedReader(cast(io.RawIOBase, handle))
        if stream.peek(2)[:2] == GZIP_MAGIC:
            with gzip.GzipFile(fileobj=stream) as inner:
                yield cast(IO[bytes], inner)
        else:
            yield stream


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
                names = [info.filename for info in packed.infolist() if not info.is_dir()]
        else:
            with tarfile.open(archive) as packed_tar:
                names = [entry.name.removeprefix("./") for entry in packed_tar if entry.isreg()]
    except _DAMAGED as error:
        raise _refused(f"the archive is damaged: {error}", archive) from error
    return [name for name in names if is_safe(name)]


def _zip_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(archive) as packed:
        try:
            info = packed.getinfo(member)
        except KeyError as error:
            raise _refused(f"there is no {member!r} in it", archive) from error
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.is_dir() or kind not in (0, stat.S_IFREG):
            raise _refused(f"{member!r} is not a regular file", archive)
        with packed.open(info) as handle:
            yield handle


def _tar_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    with tarfile.open(archive) as packed:
        wanted = {member, f"./{member}"}
        entry = next((entry for entry in packed if entry.name in wanted), None)
        if entry is None:
            raise _refused(f"there is no {member!r} in it", archive)
        content = packed.extractfile(entry) if entry.isreg() else None
        if content is None:
            raise _refused(f"{member!r} is not a regular file", archive)
        with content:
            yield content


def _refused(what: str, archive: Path) -> PhmrunError:
    return PhmrunError(what, where=str(archive), code=ExitCode.DATA)
