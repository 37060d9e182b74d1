"""Members of downloaded archives, and assembly of dataset files from their parts, line by line.

Only members that the catalogue names are read, and written only to the paths that the catalogue names. An archive
therefore cannot choose where its files go. Links, devices and unsafe names are refused as well.

All sides of parallel text are assembled together: line k of one side belongs to line k of the other. Pairs with an
empty or unreadable side are left out and counted. White space becomes single spaces and entities such as ``&amp;`` are
kept, as in sacreBLEU's test sets.
"""

import errno
import lzma
import re
import shutil
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from phmrun.datasets.catalogue import File, Part, is_safe
from phmrun.errors import data_error
from phmrun.files import decompressed, open_regular, replacing
from phmrun.progress import progress
from phmrun.text.lines import BYTE_ORDER_MARK, LONGEST_LINE

LARGEST = 16 * 10**9
"""Limit in bytes for unpacked files of unknown size: larger than any corpus of the catalogue; a bomb has more."""
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, ValueError),
    *(NotImplementedError, RuntimeError),  # unknown compression method; encrypted archive
)


def extract(archive: Path, member: str | None, destination: Path, *, limit: int | None = None) -> None:
    """Extract one regular file of a zip or tar archive to ``destination``, atomically.

    Raises:
        PhmrunError: (exit 3) The archive is damaged or lacks the member, or the member is a link, has an unsafe name,
            or exceeds the limit.
        OSError: The file cannot be read.
    """
    with _opened(archive, member, limit) as handle, replacing(destination) as temporary, temporary.open("wb") as output:
        shutil.copyfileobj(handle, output)


@contextmanager
def _opened(archive: Path, member: str | None, limit: int | None = None) -> Iterator[IO[bytes]]:
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
        raise data_error(f"the name {member!r} leads out of the archive", archive)
    try:
        with ExitStack() as stack:
            content: IO[bytes] | None
            if member is None:
                size, content = archive.stat().st_size, stack.enter_context(open_regular(archive, most=sys.maxsize))
            elif zipfile.is_zipfile(archive):
                packed = stack.enter_context(zipfile.ZipFile(archive))
                info = next((info for info in packed.infolist() if info.filename == member), None)
                if info is None:
                    raise data_error(f"there is no {member!r} in it", archive)
                regular = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
                size, content = info.file_size, stack.enter_context(packed.open(info)) if regular else None
            else:
                tar = stack.enter_context(tarfile.open(archive))
                entry = next((entry for entry in tar if entry.name.removeprefix("./") == member), None)
                if entry is None:
                    raise data_error(f"there is no {member!r} in it", archive)
                size, content = entry.size, tar.extractfile(entry) if entry.isreg() else None
            if content is None:
                raise data_error(f"{member!r} is not a regular file", archive)
            if size > (most := LARGEST if limit is None else limit):
                raise data_error(f"{member or archive.name!r} holds more than {most:,} bytes", archive)
            yield content
    except (*_DAMAGED, OSError) as error:
        # EINVAL: the archive's directory points outside the file. A damaged gzip file has no number.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise data_error(f"the archive is damaged: {error}", archive) from error


_MARKUP = {
    "segments": re.compile(r"<seg\b[^>]*>(?P<text>.*)</seg>"),
    "talks": re.compile(r"<(?P<tag>title|description)>(?P<text>.*)</(?P=tag)>"),
}
"""Text within the tags of each markup."""


def assemble(
    folder: Path, files: Sequence[File], archives: Mapping[str, Path], *, aligned: bool, label: str
) -> tuple[int, int]:
    """Write the files of one split below ``folder``, all of them or none.

    Pairs with an empty or unreadable side are left out if ``aligned``. Aligned lines get single spaces; others stay
    unchanged. An unreadable line raises unless ``aligned``.

    Args:
        folder: The dataset's folder.
        files: Files of the split.
        archives: Downloaded archives by name.
        aligned: True if the files are sides of parallel text, with the same number of parts.
        label: Text of the progress bar.

    Returns:
        Number of lines (pairs) kept, and number left out.

    Raises:
        PhmrunError: (exit 3) An archive is damaged or lacks a member, sides differ in length, or text is not UTF-8.
    """
    kept = dropped = 0
    with ExitStack() as stack, progress(label, None, "lines") as advance:
        outputs = []
        # The stack unwinds in reverse: each file is closed before it is renamed. After an exception none is renamed.
        for file in files:
            temporary = stack.enter_context(replacing(folder / file.path))
            outputs.append(stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n")))
        for number in range(max(len(file.parts) for file in files)):
            parts = [file.parts[number] for file in files]
            for place, rows in enumerate(_together(parts, archives, folder), 1):
                advance(1)
                if aligned and not all(line is not None and line.strip() for line in rows):
                    dropped += 1
                    continue
                kept += 1
                for output, line, part in zip(outputs, rows, parts, strict=True):
                    if line is None:
                        what = f"line {place} of {part.member or part.archive} is not UTF-8"
                        raise data_error(what, archives[part.archive])
                    output.write(f"{' '.join(line.split()) if aligned else line}\n")
    return kept, dropped


def _together(parts: Sequence[Part], archives: Mapping[str, Path], folder: Path) -> Iterator[tuple[str | None, ...]]:
    """Yield the aligned lines of one part's sides.

    None for an unreadable line. Lines are decompressed, decoded, freed from markup and selected, in this order.

    Raises:
        PhmrunError: (exit 3) The sides differ in length, or an archive is damaged.
    """
    with ExitStack() as stack:
        streams = []
        for part in parts:
            handle = decompressed(stack.enter_context(_opened(archives[part.archive], part.member)))
            streams.append(_selected(_marked(_decoded(handle, archives[part.archive]), part), part))
        try:
            yield from zip(*streams, strict=True)
        except ValueError as error:
            names = " and ".join(part.member or part.archive for part in parts)
            raise data_error(f"{names} differ in length", folder) from error


def _decoded(handle: IO[bytes], archive: Path) -> Iterator[str | None]:
    """Yield lines without their ends.

    None for one that is too long, holds a NUL or is not UTF-8. A byte order mark is removed.

    Raises:
        PhmrunError: (exit 3) The text exceeds :data:`LARGEST`, as decompressed text may.
    """
    total, begins = 0, True
    while raw := handle.readline(LONGEST_LINE):
        body = raw.removesuffix(b"\n").removesuffix(b"\r")
        if total == 0:
            body = body.removeprefix(BYTE_ORDER_MARK)
        total += len(raw)
        if total > LARGEST:
            raise data_error(f"it holds more than {LARGEST:,} bytes", archive)
        ends = raw.endswith(b"\n") or len(raw) < LONGEST_LINE
        if begins:
            try:
                yield None if b"\0" in body or not ends else body.decode("utf-8")
            except UnicodeDecodeError:
                yield None
        begins = ends  # the rest of a line that is too long is skipped


def _marked(lines: Iterator[str | None], part: Part) -> Iterator[str | None]:
    """Yield the text inside a part's markup.

    "segments": the content of each ``<seg>``; other lines are dropped. "talks": lines that do not begin with a tag, and
    the content of ``<title>`` and ``<description>``. Without markup: the lines themselves.
    Unreadable lines are None, so that both sides keep them. Other lines of talks are dropped.
    """
    tagged = _MARKUP.get(part.markup or "")
    for line in lines:
        if line is None or tagged is None or (part.markup == "talks" and not line.lstrip().startswith("<")):
            yield line
        elif match := tagged.search(line):
            yield match["text"]


def _selected(lines: Iterator[str | None], part: Part) -> Iterator[str | None]:
    """Yield every k-th line (``every``), or all but these (``but_every``).

    Without both, yield all. Unreadable lines, which are None, count. Counting begins at 1, so the first line kept by
    ``every`` is line k.
    """
    for number, line in enumerate(lines, 1):
        left_out = (part.every and number % part.every) or (part.but_every and number % part.but_every == 0)
        if not left_out:
            yield line
