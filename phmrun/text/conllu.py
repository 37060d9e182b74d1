"""Reader and writer of CoNLL-U treebanks.

The round trip is exact, and errors name file and line.

A sentence keeps its lines: comments, multi-word tokens (``1-2``), empty nodes (``1.1``), unused columns, line ends
and blank lines. Only columns of its words are replaced.
The PyPI library ``conllu`` writes parsed values instead: it normalizes comments (``#text=a`` becomes ``# text = a``)
and drops repeated features, empty columns and line ends. It does not check trees, either.

Source: https://universaldependencies.org/format.html
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from sys import intern

from phmrun.errors import counted, data_error
from phmrun.text.lines import decoded, raw_lines

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC = range(len(COLUMNS))
EMPTY = "_"
_NUMBER = re.compile(r"[0-9]{1,9}")
_RANGE = re.compile(rf"{_NUMBER.pattern}-{_NUMBER.pattern}")
_EMPTY_NODE = re.compile(rf"{_NUMBER.pattern}\.{_NUMBER.pattern}")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of syntactic words, numbered from 1.

    Multi-word tokens and empty nodes are not words.

    Attributes:
        lines: All lines with their ends, blank ones included.
        places: Index in ``lines`` of each word.
        forms: The words.
        upos: Universal part-of-speech tags.
        xpos: Language-specific tags.
        heads: Number of each word's head, 0 for the root; empty if trees were not read.
        deprels: Label of the arc from each word to its head; empty if trees were not read.
    """

    lines: tuple[str, ...]
    places: tuple[int, ...]
    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    heads: tuple[int, ...] = ()
    deprels: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of words."""
        return len(self.forms)

    @property
    def text(self) -> str:
        """Text of the sentence in the file, unchanged."""
        return "".join(self.lines)

    def with_parse(self, heads: Sequence[int], labels: Sequence[str]) -> "Sentence":
        """Return a copy of the sentence with another tree.

        Heads are numbers of words, 0 for the root. The tree is not checked. The columns HEAD and DEPREL and both
        attributes are set.

        Raises:
            ValueError: The number of heads or labels is not the number of words.
        """
        lines = list(self.lines)
        for place, head, label in zip(self.places, heads, labels, strict=True):
            columns = lines[place].split("\t")
            columns[HEAD], columns[DEPREL] = str(head), label
            lines[place] = "\t".join(columns)
        return replace(self, lines=tuple(lines), heads=tuple(heads), deprels=tuple(labels))

    def without_enhanced(self) -> "Sentence":
        """Return a copy of the sentence without its enhanced graph.

        DEPS becomes ``_``, and empty nodes, which only that graph connects, are removed.
        """
        lines: list[str] = []
        places: list[int] = []
        for place, line in enumerate(self.lines):
            body = line.rstrip("\r\n")
            columns, end = body.split("\t"), line[len(body) :]
            if place in self.places:
                places.append(len(lines))
                columns[DEPS] = EMPTY
            if not _EMPTY_NODE.fullmatch(columns[ID]):
                lines.append("\t".join(columns) + end)
        return replace(self, lines=tuple(lines), places=tuple(places))


def sentence_of(forms: Sequence[str]) -> Sentence:
    """Build a sentence of words without tags or tree.

    No word may contain a tab or a line end. All other columns are "_"; a blank line follows the words.
    """
    rest = "\t".join([EMPTY] * (len(COLUMNS) - 2))
    lines = [f"{number}\t{form}\t{rest}\n" for number, form in enumerate(forms, 1)]
    missing = (EMPTY,) * len(forms)
    return Sentence((*lines, "\n"), tuple(range(len(forms))), tuple(forms), missing, missing)


def universal(label: str) -> str:
    """Return a label without its subtype: ``nmod`` for ``nmod:poss``."""
    return label.partition(":")[0]


def load(path: Path, *, checked: bool = True) -> list[Sentence]:
    """Load all sentences of a UTF-8 file, plain or gzip-compressed; see :func:`read`.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged or not UTF-8, has no sentence, or a line is malformed.
    """
    return read(decoded(raw_lines(path), path, exact=True), str(path), checked=checked)


def read(lines: Iterable[str], name: str, *, checked: bool = True) -> list[Sentence]:
    """Return all sentences of lines with their trees.

    Trees are checked: every head is 0 or a word of the sentence, exactly one root (as the guidelines and the official
    evaluator require), no cycle, and a label for each word. Blank lines at the end belong to the last sentence.

    Args:
        lines: Lines with their ends.
        name: Name of the file in messages.
        checked: False to allow cycles and several roots, as in the output of a parser that need not give trees.

    Raises:
        PhmrunError: (exit 3) There is no sentence, or a line is malformed.
    """
    sentences: list[Sentence] = []
    for first, block in _blocks(lines):
        if not _blank(block):
            sentences.append(_sentence(block, first, name, trees=True, checked=checked))
        elif sentences:  # blank lines at the end of the file
            sentences[-1] = replace(sentences[-1], lines=(*sentences[-1].lines, *block))
    if not sentences:
        hint = "A CoNLL-U file has one word a line, ten columns with tabs."
        raise data_error("there is no sentence in it", name, hint)
    return sentences


def stream(lines: Iterable[str], *, name: str) -> Iterator[Sentence]:
    """Yield each sentence without its tree, as soon as the blank line after it is read.

    The last needs none. Blocks of blank lines are skipped. The columns HEAD and DEPREL are ignored, for text not
    parsed yet. Unlike :func:`read`, it neither raises for a text without sentences nor keeps blank lines at the end.
    """
    for first, block in _blocks(lines):
        if not _blank(block):
            yield _sentence(block, first, name, trees=False)


def dumps(sentences: Iterable[Sentence]) -> str:
    """Join sentences into the text of a file.

    All sentences of one file, in order, reproduce that file. A missing blank line between sentences is added.
    """
    parts: list[str] = []
    for sentence in sentences:
        if parts and not parts[-1].endswith(("\n\n", "\n\r\n")):
            parts.append("\n" if parts[-1].endswith("\n") else "\n\n")
        parts.append(sentence.text)
    return "".join(parts)


def _blank(block: Sequence[str]) -> bool:
    """True if all lines of a block are empty."""
    return not any(map(_body, block))


def _body(line: str) -> str:
    """Return a line without its end and without a byte-order mark.

    The end is LF, CR LF or CR.
    """
    return line.removesuffix("\n").removesuffix("\r").removeprefix("\ufeff")


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each sentence's first line, and its lines.

    The blank line after it is included. Extra blank lines begin the next sentence's block; at the end of the file they
    form a block.
    """
    block: list[str] = []
    begun, number = False, 0
    for number, line in enumerate(lines, 1):
        block.append(line)
        if _body(line):
            begun = True
        elif begun:
            yield number - len(block) + 1, block
            block, begun = [], False
    if block:
        yield number - len(block) + 1, block


def _sentence(block: list[str], first: int, name: str, trees: bool, checked: bool = True) -> Sentence:
    """Parse a block whose first line has the number ``first`` in the file.

    Comments before the first word are kept; trees are read if ``trees``. Multi-word tokens and empty nodes are no
    words. Empty lines are ignored. A comment after the first word is an error.

    Raises:
        PhmrunError: (exit 3) A line is malformed, or there is no word.
    """
    words: list[list[str]] = []
    places: list[int] = []
    for place, line in enumerate(block):
        body = _body(line)
        if not body or (body[0] == "#" and not words):
            continue
        where = f"{name}:{first + place}"
        if body[0] == "#":
            raise data_error("a comment stands within a sentence", where, "Comments belong before its first word.")
        columns = body.split("\t")
        if len(columns) != len(COLUMNS):
            what = f"the line has {counted(len(columns), 'column')} instead of {len(COLUMNS)}"
            raise data_error(what, where, "Columns are separated by tabs, sentences by blank lines.")
        if _RANGE.fullmatch(columns[ID]) or _EMPTY_NODE.fullmatch(columns[ID]):
            continue
        if columns[ID] != str(len(words) + 1):
            raise data_error(f"the id is {columns[ID]!r}, and the next word has the id {len(words) + 1}", where)
        if not columns[FORM]:
            raise data_error("the word has no form", where)
        words.append(columns)
        places.append(place)
    if not words:
        comment = next(place for place, line in enumerate(block) if _body(line))
        raise data_error("comments, but no word of a sentence", f"{name}:{first + comment}")
    # Interned, since a treebank repeats words and tags: each is kept in memory once.
    forms, upos, xpos = (tuple(intern(columns[number]) for columns in words) for number in (FORM, UPOS, XPOS))
    tree = _tree(words, [f"{name}:{first + place}" for place in places], checked) if trees else ()
    return Sentence(tuple(block), tuple(places), forms, upos, xpos, *tree)


def _tree(
    words: Sequence[Sequence[str]], where: Sequence[str], checked: bool
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the heads and labels of words after checks.

    ``where`` is each word's place in the file. A head is a number from 0 to the number of words. An empty head or
    label, or "_", is missing.

    Raises:
        PhmrunError: (exit 3) A head or label is missing or invalid, or the heads are no tree with one root.
    """
    heads = []
    for columns, place in zip(words, where, strict=True):
        head = columns[HEAD]
        if not _NUMBER.fullmatch(head) or int(head) > len(words):
            raise data_error(f"the head is {head!r:.20}, not a number from 0 to {len(words)}", place)
        if columns[DEPREL] in ("", EMPTY):
            raise data_error("the arc to the word has no label", place)
        heads.append(int(head))
    if checked and (word := _in_cycle(heads)):
        raise data_error(f"the heads form a cycle through word {word}", where[word - 1])
    # At least one root exists: without a cycle, following the heads ends at 0.
    roots = [number for number, head in enumerate(heads, 1) if head == 0]
    if checked and len(roots) > 1:
        what = f"the sentence has {len(roots)} roots, words {', '.join(map(str, roots))}"
        raise data_error(what, where[roots[1] - 1], "A tree has one word whose head is 0.")
    return tuple(heads), tuple(intern(columns[DEPREL]) for columns in words)


def _in_cycle(heads: Sequence[int]) -> int:
    """Return a word of a cycle of heads, or 0 without one; words are numbered from 1, and head 0 ends a path."""
    seen = [0] * (len(heads) + 1)  # start of the walk that reached each word first
    for start in range(1, len(heads) + 1):
        word = start
        while word and not seen[word]:
            seen[word] = start
            word = heads[word - 1]
        if word and seen[word] == start:
            return word
    return 0
