"""Readers of labeled sentence pairs, in the formats of the published inference corpora.

``snli``
    SNLI, MultiNLI and SciTail's ``snli_format``: one JSON object a line, or a table with a header (the ``.txt`` files
    and GLUE's ``.tsv`` files). A gold label ``-`` says that the annotators did not agree; such a pair is dropped.
``scitail``
    SciTail's ``tsv_format``: premise, hypothesis, ``entails`` or ``neutral``, separated by tabs.
``dnli``
    Dialogue NLI: one JSON array of objects (despite the name ``.jsonl``), or one object a line.
``quora``
    Quora question pairs, as divided into train, dev and test by Wang et al. (2017): label, question, question, id. A
    pair with an empty question is dropped.
``tsv``
    User's files: premise, hypothesis, label, separated by tabs; or a table whose header names these columns, in any
    order and among others; or JSON objects with these keys, one a line or in an array. SNLI's names (sentence1,
    sentence2, gold_label) are accepted, too. Labels as in SNLI, or translated by a mapping.

Labels are translated to common names (``LABELS``); runs of white space in sentences become one space.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.errors import ExitCode, PhmrunError, data_error
from phmrun.text.pair_rows import LAYOUTS, is_json_object, json_values, read_rows

THREE_WAY = ("entailment", "neutral", "contradiction")
LABELS: Mapping[str, tuple[str, ...]] = {
    "snli": THREE_WAY,
    "scitail": ("entailment", "neutral"),
    "dnli": THREE_WAY,
    "quora": ("different", "duplicate"),
    "tsv": THREE_WAY,
}
"""Labels of each format, in the order of their indices."""
SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "snli": {"entails": "entailment"},
    "scitail": {"entails": "entailment"},
    "dnli": {"positive": "entailment", "negative": "contradiction"},
    "quora": {"0": "different", "1": "duplicate"},
    "tsv": {},
}
NO_LABEL = "-"
HINT = "data.labels is a list of the file's labels, or maps each to its class, or to null to drop its pairs."


class Pair(NamedTuple):
    """Two sentences and the relation of the second to the first."""

    premise: str
    hypothesis: str
    label: str


def read_pairs(path: Path, format: str, names: Mapping[str, str | None] | None = None) -> Iterator[Pair | None]:
    """Yield the pairs of a file, each with its label's common name.

    None stands for a pair that is dropped: it has no gold label, a label to drop, or an empty question.

    Args:
        path: The file, UTF-8, plain or gzip.
        format: Name of a format, a key of ``LABELS``.
        names: Class of each label in the file, None to drop its pairs; None for the format's labels.

    Raises:
        PhmrunError: (exit 2) The format is unknown. (exit 3) The file is missing, damaged or of another format, or has
            no pair; the message names file and line.
    """
    if format not in LAYOUTS:
        raise PhmrunError(f"there is no format {format!r} of inference pairs", valid=sorted(LAYOUTS))
    names = names or {**{name: name for name in LABELS[format]}, **SYNONYMS[format]}
    is_empty = True
    for number, (first, second, label) in read_rows(path, format):
        where = f"{path}:{number}"
        name = _class_of(label, names, format, where)
        premise, hypothesis = _sentence(first, "first", where), _sentence(second, "second", where)
        is_kept = bool(premise and hypothesis and name)
        if name and not is_kept and format != "quora":
            raise data_error(f"the {'second' if premise else 'first'} sentence is empty", where)
        yield Pair(premise, hypothesis, str(name)) if is_kept else None
        is_empty = is_empty and not is_kept
    if is_empty:
        raise data_error("there is no labelled pair in the file", path)


def _class_of(label: Any, names: Mapping[str, str | None], format: str, where: str) -> str | None:
    """Return the class of a label in a format; surrounding spaces do not count.

    The result is ``None`` for "-" in the formats ``snli`` and ``tsv``: the annotators did not agree. It is looked up in
    ``names``, truth values in lower case, too. For ``tsv``, numbers, truth values and null of JSON count as text.

    Raises:
        PhmrunError: (exit 3) The label is unknown.
    """
    is_json = format == "tsv" and isinstance(label, bool | int | float | None)
    text = json.dumps(label) if is_json else label
    if isinstance(text, str):
        text = text.strip()
        key = text.lower() if text not in names and text.lower() in ("true", "false") else text
        if key in names:
            return names[key]
    if format in ("snli", "tsv") and text == NO_LABEL:
        return None
    hint = HINT if format == "tsv" else None
    raise PhmrunError(f"there is no label {text!r}", where=where, valid=sorted(names), hint=hint, code=ExitCode.DATA)


def sentences_of(line: str, where: str) -> list[str]:
    """Return the sentences of a line without a label.

    They are those of a JSON object with the keys of a user's file, else the line's cells, separated by tabs.

    Raises:
        PhmrunError: (exit 3) A JSON object is malformed or lacks a sentence.
    """
    if not is_json_object(line):
        return line.split("\t")
    values = json_values(line, LAYOUTS["tsv"].names[:2], where)
    return [_sentence(text, place, where) for text, place in zip(values, ("first", "second"), strict=True)]


def header_of(line: str) -> list[str]:
    """Return the columns of a user's file whose names are the cells of a line; empty if a cell is no such name."""
    columns = {name: names[0] for names in LAYOUTS["tsv"].names for name in names}
    cells = line.split("\t")
    return [columns[cell] for cell in cells] if columns.keys() >= set(cells) else []


def _sentence(text: Any, place: str, where: str) -> str:
    """Return a sentence with single spaces, without surrounding ones.

    ``place`` is "first" or "second".

    Raises:
        PhmrunError: (exit 3) It is no text.
    """
    if not isinstance(text, str):
        raise data_error(f"the {place} sentence is {type(text).__name__} instead of text", where)
    return " ".join(text.split())
