"""Lines and sentence pairs from plain or gzip-compressed UTF-8 files: one line is one sentence."""

from collections.abc import Iterator
from itertools import zip_longest
from os import PathLike
from pathlib import Path

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.lines import malformed, numbered_lines, raw_lines


def read_parallel(
    source: str | PathLike[str], target: str | PathLike[str], *, empty: bool = False
) -> Iterator[tuple[str, str]]:
    """Yields the sentence pairs of two aligned files; memory does not grow with the files.

    Args:
        source: Source sentences, one a line, UTF-8, plain or gzip.
        target: Their translations, line by line.
        empty: Let pairs with an empty side pass.

    Raises:
        PhmrunError: (exit 3) A file is missing, damaged or not UTF-8, a line is empty, or the files differ in length.
    """
    source, target = Path(source), Path(target)
    pairs = zip_longest(read_lines(source, empty=True), read_lines(target, empty=True))
    faults: list[tuple[Path, int]] = []
    for number, (left, right) in enumerate(pairs, 1):
        if left is None or right is None:
            rest = 1 + sum(1 for _ in pairs)
            shorter, longer = (source, target) if left is None else (target, source)
            raise _misaligned(shorter, longer, rest)
        if not (empty or (left.strip() and right.strip())):
            faults.append((target if left.strip() else source, number))
        elif not faults:
            yield left, right
    if faults:
        raise _empty(faults)


def read_lines(path: str | PathLike[str], *, empty: bool = False) -> Iterator[str]:
    """Yields the lines of one file, under the same rules as :func:`read_parallel`.

    Args:
        path: The file.
        empty: Let empty lines pass.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged or not UTF-8, or a line is empty.
    """
    for number, line in numbered_lines(Path(path)):
        if not (empty or line.strip()):
            hint = f"Remove line {number} from both files of the pair."
            raise malformed("the line is empty", f"{path}:{number}", hint)
        yield line


def _empty(places: list[tuple[Path, int]]) -> PhmrunError:
    """The error for pairs of which a side is empty: all are counted, the first are named."""
    path, first = places[0]
    shown = ", ".join(str(number) for _, number in places[:5]) + (" …" if len(places) > 5 else "")
    one = len(places) == 1
    return PhmrunError(
        "the line is empty" if one else f"the line is empty, and {len(places) - 1:,} more are on one side or both",
        where=f"{path}:{first}",
        hint=f"Remove {'line' if one else 'lines'} {shown} from both files of the pair, or --set data.empty=drop.",
        code=ExitCode.DATA,
    )


def _misaligned(shorter: Path, longer: Path, rest: int) -> PhmrunError:
    """The error for two files of which the second has ``rest`` more lines than the first."""
    short = sum(1 for _ in raw_lines(shorter))
    return PhmrunError(
        f"the two files are not aligned: {longer} is longer by {rest:,} (it has {short + rest:,} lines, "
        f"{shorter} has {short:,})",
        hint="Line k of one file must be the translation of line k of the other.",
        code=ExitCode.DATA,
    )
