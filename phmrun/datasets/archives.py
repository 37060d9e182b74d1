"""Named members out of zip and tar archives, and nothing else from them.

Only members that the catalogue names are written, to the paths that the catalogue names, so an archive cannot choose
where anything goes. Links, devices and unsafe names are refused all the same.
"""

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from phmrun.datasets.catalogue import is_safe
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import replacing

CHUNK = 1 << 20


def extract(archive: Path, member: str, destination: Path, *, limit: int | None = None) -> None:
    """Writes one regular file of an archive to ``destination``, whole or not at all.

    Args:
        archive: A zip archive, or a tar archive in any compression.
        member: Name of the file within it.
        destination: The file to write.
        limit: Most bytes to write; an archive that holds more is refused.

    Raises:
        PhmrunError: (exit 3) The archive is damaged or does not hold that file, or the member is a link, has an unsafe
            name, or is larger than ``limit``.
    """
    if not is_safe(member):
        raise _refused(f"the name {member!r} leads out of the archive", archive)
    try:
        with _opened(archive, member) as handle, replacing(destination) as temporary, temporary.open("wb") as output:
            written = 0
            while piece := handle.read(CHUNK):
                written += len(piece)
                if limit is not None and written > limit:
                    raise _refused(f"{member!r} holds more than the {limit:,} bytes that it should", archive)
                output.write(piece)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError) as error:
        raise _refused(f"the archive is damaged: {error}", archive) from error


@contextmanager
def _opened(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """The bytes of one regular member."""
    if zipfile.is_zipfile(archive):
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
        return
    with tarfile.open(archive) as packed_tar:
        wanted = {member, f"./{member}"}
        entry = next((entry for entry in packed_tar if entry.name in wanted), None)
        if entry is None:
            raise _refused(f"there is no {member!r} in it", archive)
        content = packed_tar.extractfile(entry) if entry.isreg() else None
        if content is None:
            raise _refused(f"{member!r} is not a regular file", archive)
        with content:
            yield content


def _refused(what: str, archive: Path) -> PhmrunError:
    return PhmrunError(what, where=str(archive), code=ExitCode.DATA)
