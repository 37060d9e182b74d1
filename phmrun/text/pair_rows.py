"""Raw rows of labeled sentence pairs: tables with tabs, JSON lines and JSON arrays."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json, require_unicode
from phmrun.text.lines import malformed, numbered_lines

SAMPLES = "`phmrun data formats nli` prints a sample of each format."
WHOLE_FILE = 1 << 30
"""Longest line of a JSON array in bytes; such an array is often a single line."""

Row = tuple[int, Sequence[Any]]
"""Line number, and raw premise, hypothesis and label."""


def is_json_object(line: str) -> bool:
    """True if a line begins a JSON object.

    A line with tabs is columns, even if it begins with a brace. The brace may follow spaces.
    """
    return line.lstrip().startswith("{") and "\t" not in line


def first_line(path: Path) -> str:
    """Return the first line that is not blank.

    Raises:
        PhmrunError: (exit 3) All lines are blank.
    """
    for _, line in numbered_lines(path, longest=WHOLE_FILE):
        if line.strip():
            return line
    raise malformed("the file has only empty lines", str(path))


def cells_of(path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of tab-separated lines without quoting.

    Raises:
        PhmrunError: (exit 3) A line has another number of cells than ``columns``.
    """
    for number, line in numbered_lines(path):
        cells = line.split("\t")
        if len(cells) != columns:
            raise malformed(f"the line has {len(cells)} columns instead of {columns}", f"{path}:{number}")
        yield number, cells


def table_rows(path: Path, fields: tuple[str, str, str]) -> Iterator[Row]:
    """Yield the rows of a tab-separated table.

    There is no quoting; the header names the columns. A row has the cells of the columns ``fields``, in this order.
    Cells to the right of these may be missing.

    Raises:
        PhmrunError: (exit 3) A column is missing, or a line has too few or too many cells.
    """
    lines = numbered_lines(path)
    number, line = next(lines)
    header = line.split("\t")
    places = _places(header, fields, f"{path}:{number}")
    needed = max(places) + 1
    for number, line in lines:
        cells = line.split("\t")
        # Annotators' labels at the end of a line may be missing, but extra cells are a fault.
        if not needed <= len(cells) <= len(header):
            what = f"the line has {len(cells)} columns where the header has {len(header)}"
            raise malformed(what, f"{path}:{number}")
        yield number, [cells[place] for place in places]


def is_quoted(line: str) -> bool:
    """True if each cell of a line of a table begins and ends with a quotation mark."""
    return all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in line.split("\t"))


def quoted_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line, and the cells, of the rows of a table with quoting.

    Quoted fields may contain line breaks, and quotation marks twice.

    Raises:
        PhmrunError: (exit 3) A row is malformed.
    """
    rows = csv.reader((f"{line}\n" for _, line in numbered_lines(path)), delimiter="\t")
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise malformed(f"not a table: {error}", f"{path}:{rows.line_num}") from error


def quoted_table_rows(path: Path, fields: tuple[str, str, str]) -> Iterator[Row]:
    """Yield the rows of a tab-separated table with quoting.

    Quoted fields may contain line breaks. In a truncated file an unclosed quotation swallows the last column; the
    number of columns reveals it. A row has the cells of the columns ``fields``, and the number of its last line.

    Raises:
        PhmrunError: (exit 3) A column is missing, or a row is malformed.
    """
    rows = quoted_cells(path)
    _, header = next(rows)
    places = _places(header, fields, f"{path}:1")
    for number, row in rows:
        if len(row) != len(header):
            what = f"the row has {len(row)} columns where the header has {len(header)}"
            raise malformed(what, f"{path}:{number}")
        yield number, [row[place] for place in places]


def _places(header: Sequence[str], fields: tuple[str, str, str], where: str) -> list[int]:
    """Return the positions of the required columns in a header.

    Raises:
        PhmrunError: (exit 3) One is missing.
    """
    missing = [field for field in fields if field not in header]
    if missing:
        what = f"the header has no column {' or '.join(map(repr, missing))}, only {', '.join(map(repr, header))}"
        raise malformed(what, where, SAMPLES)
    return [header.index(field) for field in fields]


def json_line_rows(path: Path, fields: tuple[str, str, str]) -> Iterator[Row]:
    """Yield the rows of one JSON object a line.

    A row has the values of the keys ``fields``; other keys are ignored.

    Raises:
        PhmrunError: (exit 3) A line is no JSON object with these keys.
    """
    for number, line in numbered_lines(path):
        yield number, json_values(line, fields, f"{path}:{number}")


def json_values(line: str, fields: Sequence[str], where: str) -> list[Any]:
    """Return the values of the keys ``fields`` of a line's JSON object.

    Raises:
        PhmrunError: (exit 3) The line is no JSON object with these keys.
    """
    try:
        record = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise malformed(f"not JSON: {error}", where) from error
    return _values(record, fields, where)


def json_array_rows(path: Path, fields: tuple[str, str, str]) -> Iterator[Row]:
    """Yield the rows of one array of objects, parsed object by object.

    Memory holds the text only. A row's number is the line on which its object begins.

    Raises:
        PhmrunError: (exit 3) The text is no array of objects with these keys.
    """
    text = "\n".join(line for _, line in numbered_lines(path, longest=WHOLE_FILE))
    decode = json.JSONDecoder().raw_decode
    number, counted = 1, 0
    at = text.index("[") + 1
    separator: str | None = None  # character before the next object; None before the first
    while True:
        at = _skip_blank(text, at)
        # Counted from the last position: counting from the beginning for each object would be quadratic.
        number, counted = number + text.count("\n", counted, at), at
        where = f"{path}:{number}"
        if text.startswith("]", at):
            if separator == ",":
                raise malformed("not JSON: no object follows the last comma", where)
            if text[at + 1 :].strip():
                raise malformed("not JSON: text follows the end of the array", where)
            return
        if separator not in (",", None):
            raise malformed("not JSON: a comma or the end of the array is missing", where)
        try:
            begin, (record, at) = at, decode(text, at)
            require_unicode(record, text[begin:at])
        except (ValueError, RecursionError) as error:
            raise malformed(f"not JSON: {error}", where) from error
        yield number, _values(record, fields, where)
        at = _skip_blank(text, at)
        separator = text[at : at + 1]
        at += separator == ","


def _skip_blank(text: str, at: int) -> int:
    """Return the position of the next character that is no white space.

    The search begins at ``at``.
    """
    while text[at : at + 1].isspace():
        at += 1
    return at


def _values(record: Any, fields: Sequence[str], where: str) -> list[Any]:
    """Return the required values of one JSON object.

    They are in the order of ``fields``, unchanged.

    Raises:
        PhmrunError: (exit 3) It is no object, or a key is missing.
    """
    if not isinstance(record, dict):
        raise malformed(f"expected a JSON object, not {type(record).__name__}", where)
    missing = [field for field in fields if field not in record]
    if missing:
        raise malformed(f"the object has no {' and no '.join(map(repr, missing))}", where, SAMPLES)
    return [record[field] for field in fields]
