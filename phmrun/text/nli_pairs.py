"""Sentence pairs with a label, in the formats in which the inference corpora are published.

``snli``
    SNLI, MultiNLI and SciTail's ``snli_format``: one JSON object a line, or a table with a header (the ``.txt`` files
    and GLUE's ``.tsv`` files). A gold label ``-`` says that the annotators did not agree; such a pair is dropped.
``scitail``
    SciTail's ``tsv_format``: premise, hypothesis, ``entails`` or ``neutral``, separated by tabs.
``dnli``
    Dialogue NLI: one JSON array of objects (in spite of the name ``.jsonl``), or one object a line.
``quora``
    Quora question pairs: the release ``quora_duplicate_questions.tsv`` (quoted fields, a header), or the division into
    train, dev and test of Wang et al. (2017): label, question, question, id. A pair with an empty question is dropped.
``sick``
    SICK's tables: ``SICK.txt``, or the SemEval files.
``tsv``
    The user's own: premise, hypothesis, label, separated by tabs; or a table whose header names these columns, in any
    order and beside others; or one JSON object a line with these keys. SNLI's names (sentence1, sentence2, gold_label)
    do as well. Labels as in SNLI, or by a mapping.

Labels come out under common names (``LABELS``), sentences with every run of white space as one space.
"""

import csv
import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.documents import parse_json, require_unicode
from phmrun.errors import ExitCode, PhmrunError, counted, nearest
from phmrun.text.lines import malformed, numbered_lines

THREE_WAY = ("entailment", "neutral", "contradiction")
LABELS: Mapping[str, tuple[str, ...]] = {
    "snli": THREE_WAY,
    "scitail": ("entailment", "neutral"),
    "dnli": THREE_WAY,
    "quora": ("different", "duplicate"),
    "sick": THREE_WAY,
    "tsv": THREE_WAY,
}
"""The labels that a format can have, in the order of their indices."""
SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "snli": {"entails": "entailment"},
    "scitail": {"entails": "entailment"},
    "dnli": {"positive": "entailment", "negative": "contradiction"},
    "quora": {"0": "different", "1": "duplicate"},
    "sick": {"ENTAILMENT": "entailment", "NEUTRAL": "neutral", "CONTRADICTION": "contradiction"},
    "tsv": {},
}
NO_LABEL = "-"
SAMPLES = "`phmrun data formats nli` prints a sample of each format."
COLUMNS = ("premise", "hypothesis", "label")
"""Of a file of the user's own."""
_OWN_NAMES = (("premise", "sentence1"), ("hypothesis", "sentence2"), ("label", "gold_label"))
_NAMES = {name for names in _OWN_NAMES for name in names}
WHOLE_FILE = 1 << 30
"""Bytes of the longest line of a JSON array, which is often all on one line."""


class Pair(NamedTuple):
    """Two sentences and how the second relates to the first."""

    premise: str
    hypothesis: str
    label: str


Row = tuple[int, Sequence[Any]]
"""Line number, and premise, hypothesis and label as they stand in the file."""


class PairReader(Iterator[Pair]):
    """Iterates over the pairs of a file and counts those that it leaves out.

    Args:
        path: The file, UTF-8, plain or gzip.
        format: One of ``LABELS``.
        names: The classes by the labels of the file, instead of the format's own.

    Attributes:
        dropped: Pairs without a gold label, or with an empty question, among those read so far.
    """

    def __init__(self, path: Path, format: str, names: Mapping[str, str] | None = None) -> None:
        if format not in _ROWS:
            raise PhmrunError(f"there is no format {format!r} of inference pairs", valid=sorted(_ROWS))
        self.path, self.format = path, format
        self.dropped = self._read = 0
        self.names = names or {**{name: name for name in LABELS[format]}, **SYNONYMS[format]}
        self._rows = _ROWS[format](path)

    def __next__(self) -> Pair:
        """The next pair.

        Raises:
            PhmrunError: (exit 3) The file is missing, damaged or not of its format; file and line are named.
        """
        for number, (first, second, label) in self._rows:
            where = f"{self.path}:{number}"
            name = self._label(label, where)
            premise, hypothesis = _sentence(first, "first", where), _sentence(second, "second", where)
            if premise and hypothesis and name:
                self._read += 1
                return Pair(premise, hypothesis, name)
            if name and self.format != "quora":
                raise malformed(f"the {'second' if premise else 'first'} sentence is empty", where)
            self.dropped += 1
        if not self._read:
            raise malformed("there is no labelled pair in the file", str(self.path))
        raise StopIteration

    def _label(self, label: Any, where: str) -> str | None:
        """The label's common name, or None where the annotators did not agree."""
        if isinstance(label, int | float) and self.format == "tsv":
            label = json.dumps(label)  # true, 1
        if isinstance(label, str):
            label = label.strip()
            if label in self.names:
                return self.names[label]
        if self.format in ("snli", "tsv") and label == NO_LABEL:
            return None
        hint = None
        if self.format == "tsv":
            close = nearest(str(label), sorted(self.names), most=1)
            meant = f"Did you mean {close[0]!r}? Otherwise say" if close else "Say"
            hint = f"{meant} what it stands for: --set 'data.labels={{{label}: entailment, …}}'; any classes will do."
        names, what = sorted(self.names), f"there is no label {label!r}"
        raise PhmrunError(what, where=where, valid=names, hint=hint, code=ExitCode.DATA)


def read_pairs(path: str | PathLike[str], format: str, names: Mapping[str, str] | None = None) -> PairReader:
    """Reads labelled sentence pairs one at a time; ``dropped`` of what it returns counts those left out.

    Args:
        path: The file, UTF-8, plain or gzip.
        format: One of ``LABELS``: the catalogue's ``format``.
        names: The classes by the labels of the file, instead of the format's own.

    Raises:
        PhmrunError: There is no such format (exit 2); while iterating, a fault of the file with its line (exit 3).
    """
    return PairReader(Path(path), format, names)


def _sentence(text: Any, place: str, where: str) -> str:
    if not isinstance(text, str):
        raise malformed(f"the {place} sentence is {type(text).__name__} instead of text", where)
    return " ".join(text.split())


def _snli(path: Path) -> Iterator[Row]:
    """JSON lines, or a table, as the first line shows."""
    read = _json_lines if _is_json(_first_line(path)) else _table
    yield from read(path, ("sentence1", "sentence2", "gold_label"))


def _scitail(path: Path) -> Iterator[Row]:
    """Three columns, or JSON lines of the ``snli_format``."""
    yield from _snli(path) if _is_json(_first_line(path)) else _cells(path, 3)


def _dnli(path: Path) -> Iterator[Row]:
    """A JSON array, or JSON lines."""
    read = _json_array if _first_line(path).lstrip().startswith("[") else _json_lines
    yield from read(path, ("sentence1", "sentence2", "label"))


def _quora(path: Path) -> Iterator[Row]:
    """The release with its header, or the four columns of Wang et al."""
    if _first_line(path).lstrip().startswith("id\t"):
        yield from _quoted_table(path, ("question1", "question2", "is_duplicate"))
    else:
        yield from ((number, (cells[1], cells[2], cells[0])) for number, cells in _cells(path, 4))


def _sick(path: Path) -> Iterator[Row]:
    """The label's column has one name in the release and another in the SemEval files."""
    _, header = next(iter(numbered_lines(path)))
    label = "entailment_judgment" if "entailment_judgment" in header.split("\t") else "entailment_label"
    yield from _table(path, ("sentence_A", "sentence_B", label))


def _own(path: Path) -> Iterator[Row]:
    """Three columns, a table with a header, or JSON lines: the first line shows which."""
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    if _is_json(first):
        try:
            record = parse_json(first)
        except (ValueError, RecursionError):
            record = {}  # the reader of lines says what is wrong with it
        yield from _json_lines(path, _fields(record if isinstance(record, dict) else {}))
        return
    header = first.split("\t")
    if len(set(header) & _NAMES) >= 2:
        yield from _table(path, _fields(header))
        return
    for number, line in numbered_lines(path):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            what = f"the line has {counted(len(cells), 'column')} instead of 3 separated by tabs: {', '.join(COLUMNS)}"
            if line.startswith("["):
                what = "the line is no JSON object; each line must be one, not the whole file a list"
            raise malformed(what, f"{path}:{number}", SAMPLES)
        yield number, cells


def _fields(there: Container[str]) -> tuple[str, str, str]:
    """The names of the three columns in a file of the user's own; the first of each where it has none."""
    first, second, label = (next((name for name in names if name in there), names[0]) for names in _OWN_NAMES)
    return first, second, label


_ROWS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    "snli": _snli,
    "scitail": _scitail,
    "dnli": _dnli,
    "quora": _quora,
    "sick": _sick,
    "tsv": _own,
}


def _is_json(line: str) -> bool:
    """Whether a line is an object rather than columns, the first of which may begin with a brace as well."""
    return line.lstrip().startswith("{") and "\t" not in line


def _first_line(path: Path) -> str:
    """The first line that is not blank; where there is none, an error of the data."""
    for _, line in numbered_lines(path, longest=WHOLE_FILE):
        if line.strip():
            return line
    raise malformed("the file has only empty lines", str(path))


def _cells(path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    """The cells of tab-separated lines without quoting, all of the same number."""
    for number, line in numbered_lines(path):
        cells = line.split("\t")
        if len(cells) != columns:
            raise malformed(f"the line has {len(cells)} columns instead of {columns}", f"{path}:{number}")
        yield number, cells


def _table(path: Path, fields: tuple[str, str, str]) -> Iterator[Row]:
    """A tab-separated table without quoting; the header names the columns."""
    lines = numbered_lines(path)
    number, line = next(lines)
    header = line.split("\t")
    places = _places(header, fields, f"{path}:{number}")
    needed = max(places) + 1
    for number, line in lines:
        cells = line.split("\t")
        # Annotators' labels at the end of a line may be left out, but never be too many.
        if not needed <= len(cells) <= len(header):
            what = f"the line has {len(cells)} columns where the header has {len(header)}"
            raise malformed(what, f"{path}:{number}")
        yield number, [cells[place] for place in places]


def _quoted_table(path: Path, fields: tuple[str, str, str]) -> Iterator[Row]:
    """A tab-separated table whose fields may be quoted and then hold line breaks.

    A quotation that a truncated file never ends swallows the last column, which is noticed by the number of columns.
    """
    rows = csv.reader((f"{line}\n" for _, line in numbered_lines(path)), delimiter="\t")
    try:
        header = next(rows)
        places = _places(header, fields, f"{path}:1")
        for row in rows:
            if len(row) != len(header):
                what = f"the row has {len(row)} columns where the header has {len(header)}"
                raise malformed(what, f"{path}:{rows.line_num}")
            yield rows.line_num, [row[place] for place in places]
    except csv.Error as error:
        raise malformed(f"not a table: {error}", f"{path}:{rows.line_num}") from error


def _places(header: Sequence[str], fields: tuple[str, str, str], where: str) -> list[int]:
    """Where the wanted columns are."""
    missing = [field for field in fields if field not in header]
    if missing:
        what = f"the header has no column {' or '.join(map(repr, missing))}, only {', '.join(map(repr, header))}"
        raise malformed(what, where, SAMPLES)
    return [header.index(field) for field in fields]


def _json_lines(path: Path, fields: tuple[str, str, str]) -> Iterator[Row]:
    """One object a line."""
    for number, line in numbered_lines(path):
        try:
            record = parse_json(line)
        except (ValueError, RecursionError) as error:
            raise malformed(f"not JSON: {error}", f"{path}:{number}") from error
        yield number, _values(record, fields, f"{path}:{number}")


def _json_array(path: Path, fields: tuple[str, str, str]) -> Iterator[Row]:
    """One array of objects, taken apart object by object so that only its text is held."""
    text = "\n".join(line for _, line in numbered_lines(path, longest=WHOLE_FILE))
    decode = json.JSONDecoder().raw_decode
    number, counted = 1, 0
    at = text.index("[") + 1
    separator: str | None = None  # what stands before the object to come; before the first, nothing does
    while True:
        at = _skip_blank(text, at)
        # From the last place on: counting the lines from the beginning for each object would be quadratic.
        number, counted = number + text.count("\n", counted, at), at
        where = f"{path}:{number}"
        if text.startswith("]", at):
            if separator == ",":
                raise malformed("not JSON: there is no object after the last comma", where)
            if text[at + 1 :].strip():
                raise malformed("there is something after the end of the array", where)
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
    while text[at : at + 1].isspace():
        at += 1
    return at


def _values(record: Any, fields: tuple[str, str, str], where: str) -> list[Any]:
    """The wanted values of one object."""
    if not isinstance(record, dict):
        raise malformed(f"a JSON object is wanted, not {type(record).__name__}", where)
    missing = [field for field in fields if field not in record]
    if missing:
        raise malformed(f"the object has no {' and no '.join(map(repr, missing))}", where, SAMPLES)
    return [record[field] for field in fields]
