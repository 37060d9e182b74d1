"""Raw rows of labeled sentence pairs: tables with tabs, JSON lines and JSON arrays."""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.documents import parse_json, require_unicode
from phmrun.errors import data_error
from phmrun.text.lines import columns_fault, numbered_lines

SAMPLES = "`phmrun schema nli --files` prints a sample of each format."
WHOLE_FILE = 1 << 30
"""Longest line of a JSON array in bytes; such an array is often a single line."""

Row = tuple[int, Sequence[Any]]
"""Line number, and raw premise, hypothesis and label."""
Names = tuple[tuple[str, ...], ...]
"""Names of the first sentence, the second, and the label; of several, the first that a file has counts."""


class Layout(NamedTuple):
    """Columns, or keys of JSON objects, in a format of the published corpora."""

    names: Names
    columns: tuple[str, ...] = ()  # of a table without a header; empty if there must be one


_SNLI: Names = (("sentence1",), ("sentence2",), ("gold_label",))
LAYOUTS: Mapping[str, Layout] = {
    "snli": Layout(_SNLI),
    "scitail": Layout(_SNLI, ("sentence1", "sentence2", "gold_label")),
    "dnli": Layout((("sentence1",), ("sentence2",), ("label",))),
    "quora": Layout(
        (("question1",), ("question2",), ("is_duplicate",)), ("is_duplicate", "question1", "question2", "id")
    ),
    "tsv": Layout(
        (("premise", "sentence1"), ("hypothesis", "sentence2"), ("label", "gold_label")),
        ("premise", "hypothesis", "label"),
    ),
}


def read_rows(path: Path, format: str) -> Iterator[Row]:
    """Yield the rows of a file.

    The first line that is not blank decides: a JSON array, JSON objects one a line, or a table.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged or of another form; the message names file and line.
    """
    layout = LAYOUTS[format]
    first = next((line for _, line in numbered_lines(path, longest=WHOLE_FILE) if line.strip()), None)
    if first is None:
        raise data_error("the file has only empty lines", path)
    if first.lstrip().startswith("[") and "\t" not in first:
        yield from _array_rows(path, layout)
    elif is_json_object(first):
        for number, line in numbered_lines(path):
            if line.strip():
                yield number, json_values(line, layout.names, f"{path}:{number}")
    else:
        yield from _table_rows(path, layout, first)


def is_json_object(line: str) -> bool:
    """True if a line begins a JSON object.

    A line with tabs is columns, even if it begins with a brace. The brace may follow spaces.
    """
    return line.lstrip().startswith("{") and "\t" not in line


def json_values(line: str, names: Iterable[tuple[str, ...]], where: str) -> list[Any]:
    """Return the values of a line's JSON object.

    Raises:
        PhmrunError: (exit 3) The line is no JSON object with these keys.
    """
    try:
        record = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise data_error(f"not JSON: {error}", where) from error
    return _values(record, names, where)


def _table_rows(path: Path, layout: Layout, first: str) -> Iterator[Row]:
    """Yield the rows of a tab-separated table; two known names in the first line make it a header.

    Cells to the right of those needed may be missing below a header, as some annotators' labels are.

    Raises:
        PhmrunError: (exit 3) A column is missing, or a row is malformed.
    """
    cells = first.split("\t")
    headed = not layout.columns or sum(not set(names).isdisjoint(cells) for names in layout.names) > 1
    lines = dropwhile(lambda row: not row[1].strip(), numbered_lines(path))
    rows = ((number, line.split("\t")) for number, line in lines)
    begin, header = next(rows) if headed else (0, layout.columns)
    missing = [names[0] for names in layout.names if _name(names, header) not in header]
    if missing:
        what = f"the header has no column {' or '.join(map(repr, missing))}, only {', '.join(map(repr, header))}"
        raise data_error(what, f"{path}:{begin}", SAMPLES)
    places = [header.index(_name(names, header)) for names in layout.names]
    least = max(places) + 1 if headed else len(header)
    for number, cells in rows:
        if not least <= len(cells) <= len(header):
            expected = f"instead of {len(header)} separated by tabs: {', '.join(header)}"
            expected = f"where the header has {len(header)}" if headed else expected
            raise data_error(columns_fault(cells, expected), f"{path}:{number}", SAMPLES)
        yield number, [cells[place] for place in places]


def _array_rows(path: Path, layout: Layout) -> Iterator[Row]:
    """Yield the rows of one array of objects, parsed object by object.

    Memory holds the text only. A row's number is the line on which its object begins.

    Raises:
        PhmrunError: (exit 3) The text is no array of objects with these keys.
    """
    text = "\n".join(line for _, line in numbered_lines(path, longest=WHOLE_FILE))
    decode, after = json.JSONDecoder().raw_decode, re.compile(r"\s*(,|\]\s*\Z)\s*")
    at = len(text) - len(text.lstrip()[1:].lstrip())  # after the bracket
    if after.match(text, at):
        return  # an empty array
    number, last = 1, 0
    while True:
        # Counted from the last position: counting from the beginning for each object would be quadratic.
        number, last = number + text.count("\n", last, at), at
        where = f"{path}:{number}"
        try:
            record, end = decode(text, at)
            require_unicode(record, text[at:end])
        except (ValueError, RecursionError) as error:
            raise data_error(f"not JSON: {error}", where) from error
        yield number, _values(record, layout.names, where)
        separator = after.match(text, end)
        if not separator:
            raise data_error("not JSON: a comma or the end of the array is missing after the object", where)
        if separator[1] != ",":
            return
        at = separator.end()


def _name(names: Sequence[str], there: Container[str]) -> str:
    """Return the first of the names that is there, or else the first."""
    return next((name for name in names if name in there), names[0])


def _values(record: Any, names: Iterable[tuple[str, ...]], where: str) -> list[Any]:
    """Return the required values of one JSON object, unchanged.

    Raises:
        PhmrunError: (exit 3) It is no object, or a key is missing.
    """
    if not isinstance(record, dict):
        raise data_error(f"expected a JSON object, not {type(record).__name__}", where)
    fields = [_name(options, record) for options in names]
    if missing := [field for field in fields if field not in record]:
        raise data_error(f"the object has no {' and no '.join(map(repr, missing))}", where, SAMPLES)
    return [record[field] for field in fields]
