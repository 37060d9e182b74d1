"""Readers of plain or gzip-compressed UTF-8 files, line by line.

Errors name file and line.

Only line ends (LF or CR LF) and a byte-order mark at the start of the file are removed. Compression is recognized by
the file's first bytes, not by its name.
"""

import gzip
import shlex
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from phmrun.errors import counted, data_error
from phmrun.files import GZIP_MAGIC, decompressed, open_regular, read_text

COMPRESSED = (GZIP_MAGIC, b"\xfd7zXZ\0", b"BZh91AY&SY", b"\x28\xb5\x2f\xfd", b"PK\3\4", b"7z\xbc\xaf\x27\x1c")
"""First bytes of files compressed by gzip, xz, bzip2, zstd, zip or 7z."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 1 << 20
"""Longest line in bytes; a longer one is not a sentence, and would break the bound on memory."""
LONGEST_PARAGRAPH = 1 << 24
"""Longest line of running text in bytes; a line may be a paragraph or a document."""


def numbered_lines(path: Path, *, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text) of a file.

    Empty lines are included; line ends and a byte-order mark are removed. Memory is constant.

    Args:
        path: UTF-8 file, plain or gzip.
        longest: Limit on the length of a line, in bytes.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged, empty or not UTF-8, or a line has a NUL character or exceeds
            the limit.
    """
    number = 0
    for number, line in enumerate(decoded(raw_lines(path, longest=longest), path), 1):
        yield number, line
    if number == 0:
        raise data_error("the file is empty", path)


def decoded(raw: Iterable[bytes], source: Path | str, *, exact: bool = False) -> Iterator[str]:
    """Yield lines of bytes as text; the one decoder of training, evaluation and prediction.

    A byte-order mark before the first line is removed, and from each line one end, LF or CR LF.

    Args:
        raw: Lines with their ends.
        source: File of the lines, or a name of them ("standard input").
        exact: Keep byte-order mark and line ends.

    Raises:
        PhmrunError: (exit 3) The text is compressed or not UTF-8, or a line has a NUL character.
    """
    for number, line in enumerate(raw, 1):
        where, skipped = f"{source}:{number}", 0
        if number == 1:
            if line.startswith(COMPRESSED):
                raise data_error("the text is compressed", source, "Decompress it; files may be plain or .gz.")
            skipped = len(BYTE_ORDER_MARK) if line.startswith(BYTE_ORDER_MARK) and not exact else 0
        body = line if exact else line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            text = body[skipped:].decode("utf-8")
        except UnicodeDecodeError as error:
            at = skipped + error.start
            what = f"byte 0x{body[at]:02x} at offset {at:,} of the line is not valid UTF-8"
            charset = "UTF-16" if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")) else "ISO-8859-1"
            name = shlex.quote(str(source)) if isinstance(source, Path) else "FILE"
            raise data_error(what, where, f"Convert it, for instance: iconv -f {charset} -t UTF-8 {name}") from error
        if "\0" in text:
            what = "the line holds a NUL character"
            raise data_error(what, where, "Is the file UTF-16, or binary? It must be UTF-8.")
        yield text


def raw_lines(path: Path, *, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Yield the lines of a file, plain or gzip, as bytes, ends included.

    Compression is recognized by the first bytes. An empty file yields nothing.

    Raises:
        PhmrunError: (exit 3) The file is missing, unreadable or damaged, or a line exceeds ``longest`` bytes.
    """
    number = 0
    try:
        with open_regular(path, most=sys.maxsize) as plain:
            stream = decompressed(plain)
            while raw := stream.readline(longest + 1):
                number += 1
                if len(raw) > longest:
                    what = f"the line is longer than {longest:,} bytes"
                    raise data_error(what, f"{path}:{number}", "There must be one sentence a line.")
                yield raw
    except FileNotFoundError as error:
        raise data_error("the file does not exist", path) from error
    # Before OSError, of which BadGzipFile is a kind.
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        hint = "Copy or fetch the file again."
        raise data_error(f"the gzip data are damaged ({error})", f"{path}:{number + 1}", hint) from error
    except OSError as error:
        raise data_error(f"the file cannot be read: {error.strerror or error}", path) from error


def read_parallel(source: Path, target: Path, *, empty: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the sentence pairs of two aligned files, in constant memory.

    After the first empty line, no pairs are yielded; the rest is read to count the faults. A line of white space counts
    as empty. Unequal lengths are reported before empty lines.

    Args:
        source: Source sentences, one a line, UTF-8, plain or gzip.
        target: Their translations, line by line.
        empty: Accept pairs with an empty side.

    Raises:
        PhmrunError: (exit 3) A file is missing, damaged or not UTF-8, a line is empty, or the files differ in length.
    """
    pairs = zip_longest(read_lines(source, empty=True), read_lines(target, empty=True))
    faults: list[tuple[Path, int]] = []
    for number, (left, right) in enumerate(pairs, 1):
        if left is None or right is None:
            rest = 1 + sum(1 for _ in pairs)
            shorter, longer = (source, target) if left is None else (target, source)
            what = f"the two files are not aligned: {shorter} ends at line {number - 1:,}, {longer} has {rest:,} more"
            raise data_error(what, longer, "Line k of one file must be the translation of line k of the other.")
        if not (empty or (left.strip() and right.strip())):
            faults.append((target if left.strip() else source, number))
        # After a first fault the rest is still read: to count faults, and since unequal lengths would explain them.
        elif not faults:
            yield left, right
    if faults:
        (path, first), shown = faults[0], ", ".join(str(number) for _, number in faults[:5])
        more = " …" if len(faults) > 5 else ""
        hint = f"Remove line {shown}{more} from both files, or train with --set data.empty=drop."
        raise data_error(f"the line is empty; lines with an empty side: {len(faults):,}", f"{path}:{first}", hint)


def read_lines(path: Path, *, empty: bool = False) -> Iterator[str]:
    """Yield the lines of one file, without line ends.

    The first empty line, or line of white space, raises unless ``empty``.

    Args:
        path: The file.
        empty: Accept empty lines.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged or not UTF-8, or a line is empty.
    """
    for number, line in numbered_lines(path):
        if not (empty or line.strip()):
            hint = f"Remove line {number} from both files of the pair."
            raise data_error("the line is empty", f"{path}:{number}", hint)
        yield line


def columns_fault(cells: Sequence[str], expected: str) -> str:
    """Return the fault of a line with other columns than expected: it is empty, or their number is wrong."""
    return f"the line has {counted(len(cells), 'column')} {expected}" if "".join(cells).strip() else "the line is empty"


def rows_of_parts(parts: Path | None, count: int) -> list[tuple[str, list[int]]]:
    """Return each part of a split in alphabetical order, with the numbers of its items from 0.

    Args:
        parts: File with the part of each item, one a line; None: the split has none.
        count: Number of items.
    """
    names = read_text(parts).split("\n")[:count] if parts else []
    return [(part, [row for row, name in enumerate(names) if name == part]) for part in sorted(set(names))]
