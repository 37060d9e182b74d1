"""Lines and sentence pairs from plain or gzip-compressed UTF-8 files, one at a time, with every fault placed.

One line is one sentence. A line's text is kept as it is but for its end (LF or CR LF) and a byte-order mark at the
start of the file. Compression is told by the file's first bytes, not by its name.
"""

import gzip
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from phmrun.errors import ExitCode, PhmrunError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 1 << 20
"""Bytes; a longer line is no sentence, and holding it would break the promise of constant memory."""


def read_parallel(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yields the sentence pairs of two aligned files; memory does not grow with the files.

    Args:
        source: Source sentences, one a line, UTF-8, plain or gzip.
        target: Their translations, line by line.

    Raises:
        PhmrunError: (exit 3) A file is missing, damaged or not UTF-8, a line is empty, or the files differ in length.
    """
    pairs = zip_longest(_numbered(source), _numbered(target))
    for left, right in pairs:
        if left is None or right is None:
            rest = 1 + sum(1 for _ in pairs)
            shorter, longer = (source, target) if left is None else (target, source)
            raise _misaligned(shorter, longer, rest)
        yield left[1], right[1]


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of one file, under the same rules as :func:`read_parallel`.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged or not UTF-8, or a line is empty.
    """
    for _, line in _numbered(path):
        yield line


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, text)."""
    offset = 0
    number = 0
    for number, raw in enumerate(_raw_lines(path), 1):
        line = _decode(raw, path, number, offset)
        offset += len(raw)
        yield number, line
    if number == 0:
        raise _malformed("the file is empty", str(path))


def _decode(raw: bytes, path: Path, number: int, offset: int) -> str:
    """The text of one raw line; ``offset`` is where the line starts, in uncompressed bytes."""
    where = f"{path}:{number}"
    body = raw.removesuffix(b"\n").removesuffix(b"\r")
    skipped = 0
    if number == 1 and body.startswith(BYTE_ORDER_MARK):
        skipped = len(BYTE_ORDER_MARK)
    try:
        line = body[skipped:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = skipped + error.start
        raise _malformed(
            f"byte 0x{body[at]:02x} at offset {offset + at:,} ({at} within the line) is not valid UTF-8",
            where,
            f"Convert the file, for instance: iconv -f ISO-8859-1 -t UTF-8 {path.name} > {path.stem}.utf8",
        ) from error
    if "\0" in line:
        raise _malformed("the line holds a NUL character", where, "Is the file UTF-16, or binary? It must be UTF-8.")
    if not line.strip():
        raise _malformed("the line is empty", where, f"Remove line {number} from both files of the pair.")
    return line


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines as bytes, ends included; every fault of the file system and of gzip is made a data error."""
    try:
        with path.open("rb") as plain:
            compressed = plain.read(2) == GZIP_MAGIC
            plain.seek(0)
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=plain)) if compressed else plain
            number = 0
            while raw := stream.readline(LONGEST_LINE + 1):
                number += 1
                if len(raw) > LONGEST_LINE:
                    what = f"the line is longer than {LONGEST_LINE:,} bytes"
                    raise _malformed(what, f"{path}:{number}", "There must be one sentence a line.")
                yield raw
    except FileNotFoundError as error:
        raise _malformed("the file does not exist", str(path)) from error
    except EOFError as error:
        hint = "The file is not complete; copy or fetch it again."
        raise _malformed("the gzip data end too early", f"{path}:{number + 1}", hint) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        hint = "Copy or fetch the file again."
        raise _malformed(f"the gzip data are damaged ({error})", f"{path}:{number + 1}", hint) from error
    except OSError as error:
        raise _malformed(f"the file cannot be read: {error.strerror or error}", str(path)) from error


def _misaligned(shorter: Path, longer: Path, rest: int) -> PhmrunError:
    """The error for two files of which the second has ``rest`` more lines than the first."""
    short = sum(1 for _ in _raw_lines(shorter))
    return PhmrunError(
        f"the two files are not aligned: {longer} is longer by {rest:,} (it has {short + rest:,} lines, "
        f"{shorter} has {short:,})",
        hint="Line k of one file must be the translation of line k of the other.",
        code=ExitCode.DATA,
    )


def _malformed(what: str, where: str, hint: str | None = None) -> PhmrunError:
    return PhmrunError(what, where=where, hint=hint, code=ExitCode.DATA)
