"""Named members of zip and tar archives, read as streams.

Only members that the catalogue names are read, and written only to the paths that the catalogue names. An archive
therefore cannot choose where its files go. Links, devices and unsafe names are refused as well.
"""

import errno
import gzip
import lzma
import shutil
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from phmrun.datasets.catalogue import is_safe
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import open_regular, replacing
from phmrun.text.lines import GZIP_MAGIC

LARGEST = 16 * 10**9
"""Limit in bytes for unpacked files of unknown size: larger than any corpus of the catalogue; a bomb has more."""
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, ValueError),
    *(NotImplementedError, RuntimeError),  # unknown compression method; encrypted archive
)


def extract(archive: Path, member: str | None, destination: Path, *, limit: int | None = None) -> None:
    """Extract one regular file of a zip or tar archive to ``destination``, atomically.

    Raises:
        PhmrunError: (exit 3) For the reasons of :func:`opened`.
    """
    with opened(archive, member, limit) as handle, replacing(destination) as temporary, temporary.open("wb") as output:
        shutil.copyfileobj(handle, output)


@contextmanager
def opened(archive: Path, member: str | None, limit: int | None = None) -> Iterator[IO[bytes]]:
    """Open one regular member of an archive for reading; the file itself if ``member`` is None.

    Both kinds of archive end a member at the size that its header states. Of equal names, tar's first counts.

    Args:
        archive: The archive's path.
        member: Name within the archive; a tar archive may store it as ``./member``.
        limit: Expected size in bytes; None applies :data:`LARGEST`.

    Raises:
        PhmrunError: (exit 3) The archive is damaged or lacks the member, or the member is a link, has an unsafe name,
            or exceeds the limit; also raised while the stream is read.
        OSError: The file cannot be read.
    """
    if member is not None and not is_safe(member):
        raise refused(f"the name {member!r} leads out of the archive", archive)
    try:
        with ExitStack() as stack:
            content: IO[bytes] | None
            if member is None:
                size, content = archive.stat().st_size, stack.enter_context(open_regular(archive, most=sys.maxsize))
            elif zipfile.is_zipfile(archive):
                packed = stack.enter_context(zipfile.ZipFile(archive))
                info = next((info for info in packed.infolist() if info.filename == member), None)
                if info is None:
                    raise refused(f"there is no {member!r} in it", archive)
                regular = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
                size, content = info.file_size, stack.enter_context(packed.open(info)) if regular else None
            else:
                tar = stack.enter_context(tarfile.open(archive))
                entry = next((entry for entry in tar if entry.name.removeprefix("./") == member), None)
                if entry is None:
                    raise refused(f"there is no {member!r} in it", archive)
                size, content = entry.size, tar.extractfile(entry) if entry.isreg() else None
            if content is None:
                raise refused(f"{member!r} is not a regular file", archive)
            if size > (most := LARGEST if limit is None else limit):
                raise refused(f"{member or archive.name!r} holds more than {most:,} bytes", archive)
            yield content
    except (*_DAMAGED, OSError) as error:
        # EINVAL: the archive's directory points outside the file. A damaged gzip file has no number.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise refused(f"the archive is damaged: {error}", archive) from error


@contextmanager
def unpacked(archive: Path, member: str | None) -> Iterator[IO[bytes]]:
    """Open a member like :func:`opened`, decompressed if its content is gzip."""
    with opened(archive, member) as content:
        compressed = content.read(2) == GZIP_MAGIC
        content.seek(0)
        yield gzip.GzipFile(fileobj=content) if compressed else content  # type: ignore[misc]


def refused(what: str, archive: Path) -> PhmrunError:
    """Return an error (exit 3) about an archive."""
    return PhmrunError(what, where=str(archive), code=ExitCode.DATA)
