"""Vocabulary of a treebank, and sentences as ids."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from phmrun.documents import parse_json
from phmrun.files import intact, read_text, write_json
from phmrun.tasks.parse.config import TreebankVocabularyConfig
from phmrun.text.conllu import EMPTY, Sentence, universal
from phmrun.text.vocabulary import BOS as ROOT
from phmrun.text.vocabulary import PAD, UNK, padded_size

Tags = Literal["upos", "xpos", "both"]
Numbers = NDArray[np.int64]

FILE = "treebank.json"
_LISTS = ("words", "tags", "characters", "labels")
DEFAULT = TreebankVocabularyConfig()
SPECIALS = 3  # number of special ids: padding, unknown, root
NO_LABEL = -100  # id of labels outside the vocabulary, of the root and of padding; losses ignore it


@dataclass(frozen=True)
class TreebankVocabulary:
    """Words, tags and characters by id minus :data:`SPECIALS`, and labels by id."""

    words: tuple[str, ...]  # words with their own vector
    tags: tuple[str, ...]  # part-of-speech tags; if both columns are read, "xpos=NN" is one of the treebank's own
    characters: tuple[str, ...]  # Unicode code points
    labels: tuple[str, ...]  # labels of arcs
    column: Tags = "upos"  # column of these tags, or both columns
    lowercase: bool = True  # look up words in lower case
    lowercase_characters: bool = False  # look up characters in lower case
    longest: int = 32  # maximum number of characters read of a word, from its beginning
    multiple_of: int = 1  # tables are padded with unused rows to a multiple of this
    rare: tuple[str, ...] = ()  # words without their own vector, if they are told apart; their ids follow the table
    _ids: dict[str, dict[str, int]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for kind in ("words", "tags", "characters"):
            self._ids[kind] = {entry: number for number, entry in enumerate(getattr(self, kind), SPECIALS)}
        self._ids["labels"] = {label: number for number, label in enumerate(self.labels)}
        self._ids["words"] |= {word: number for number, word in enumerate(self.rare, self.sizes[0])}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of the tables of words, tags, characters; number of labels; number of rare words, if there are any.

        Rows include the special ids and are rounded up to a multiple of ``multiple_of``.
        """
        words, tags, characters = (
            padded_size(len(entries) + SPECIALS, self.multiple_of)
            for entries in (self.words, self.tags, self.characters)
        )
        return words, tags, characters, len(self.labels), *((len(self.rare),) if self.rare else ())

    def encode(self, sentences: Sequence[Sentence]) -> "EncodedTreebank":
        """Return sentences as ids; each begins with the root.

        Words and characters are in lower case if configured; spellings are cut at ``longest`` characters. Heads and
        labels are ``None`` unless all sentences have trees. Unknown words, tags and characters have the unknown id; ids
        of rare words follow the table of words. A label with an unknown subtype counts as its universal part; an
        unknown label is :data:`NO_LABEL`.
        """
        words, tags, labels, characters = (self._ids[kind] for kind in ("words", "tags", "labels", "characters"))
        trees = all(sentence.heads for sentence in sentences)
        rows = {"": 0}  # index of each spelling, the root's first
        columns: dict[str, list[Any]] = {key: [] for key in ("words", "tags", "spellings", "heads", "labels")}
        for sentence in sentences:
            forms = [form.lower() for form in sentence.forms] if self.lowercase else sentence.forms
            columns["words"] += [ROOT, *(words.get(form, UNK) for form in forms)]
            tag_columns = _tag_columns(sentence, self.column)
            ids = [[ROOT, *(tags.get(tag, UNK) for tag in column)] for column in tag_columns]
            columns["tags"] += ids[0] if len(ids) == 1 else zip(*ids, strict=True)
            spellings = _spellings(sentence, self.longest, self.lowercase_characters)
            columns["spellings"] += [0, *(rows.setdefault(spelling, len(rows)) for spelling in spellings)]
            if trees:
                columns["heads"] += [0, *sentence.heads]
                # an unknown label counts as its universal part
                arcs = (labels.get(label, labels.get(universal(label), NO_LABEL)) for label in sentence.deprels)
                columns["labels"] += [NO_LABEL, *arcs]
        numbers = [characters.get(character, UNK) for spelling in rows for character in spelling]
        columns |= {
            "lengths": [len(sentence) for sentence in sentences],
            "characters": [ROOT, *numbers],
            "character_counts": [1, *(len(spelling) for spelling in rows if spelling)],
        }
        arrays: dict[str, Any] = {key: np.array(values, dtype=np.int64) for key, values in columns.items()}
        return EncodedTreebank(**arrays if trees else {**arrays, "heads": None, "labels": None})

    def unknown(self, encoded: "EncodedTreebank") -> NDArray[np.bool_]:
        """Return True for each encoded word that the table of words lacks; roots are known."""
        return (encoded.words == UNK) | (encoded.words >= self.sizes[0])

    def save(self, directory: Path) -> None:
        """Write ``treebank.json`` into ``directory``."""
        stored = {key: value for key, value in asdict(self).items() if not key.startswith("_")}
        if not self.rare:
            del stored["rare"]
        write_json(directory / FILE, stored)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Load the vocabulary that :meth:`save` wrote.

        Raises:
            PhmrunError: (exit 3) The directory holds no vocabulary, or a damaged one.
        """
        path = directory / FILE
        with intact("the vocabulary is", path):
            stored = parse_json(read_text(path))
            words, tags, characters, labels = (tuple(map(str, stored.pop(key))) for key in _LISTS)
            rare = tuple(map(str, stored.pop("rare", ())))
            loaded = cls(words, tags, characters, labels, rare=rare, **stored)
            if loaded.column not in get_args(Tags) or min(loaded.longest, loaded.multiple_of) < 1:
                raise ValueError(f"column {loaded.column}, longest {loaded.longest}, multiple_of {loaded.multiple_of}")
        return loaded


def learn_vocabulary(
    sentences: Iterable[Sentence], settings: TreebankVocabularyConfig = DEFAULT, *, with_rare: bool = False
) -> TreebankVocabulary:
    """Build the vocabulary of a treebank, most frequent first.

    Ties are in alphabetical order. Missing tags ("_") are left out. Only words are limited by number. With
    ``min_frequency_for="all"``, characters are counted in distinct words, as in Parser-v2
    (``parser/vocabs/subtoken_vocab.py:95``).

    Args:
        sentences: Sentences with trees.
        settings: Section ``data.vocabulary`` of the config.
        with_rare: Tell apart the words without their own vector.
    """
    counts: dict[str, Counter[str]] = {key: Counter() for key in _LISTS}
    distinct: set[str] = set()
    for sentence in sentences:
        counts["words"].update(form.lower() if settings.lowercase else form for form in sentence.forms)
        for tags in _tag_columns(sentence, settings.tags):
            counts["tags"].update(tag for tag in tags if tag != EMPTY)
        spellings = _spellings(sentence, settings.characters, settings.lowercase_characters)
        distinct.update(spellings)
        counts["characters"].update("".join(spellings))
        counts["labels"].update(label if settings.subtypes else universal(label) for label in sentence.deprels)
    all_frequent = settings.min_frequency_for == "all"
    if all_frequent:
        counts["characters"] = Counter("".join(distinct))
    lists = {}
    for key, counter in counts.items():
        ranked = sorted(counter.items(), key=lambda entry: (-entry[1], entry[0]))
        least = settings.min_frequency if all_frequent or key == "words" else 1
        lists[key] = tuple(entry for entry, count in ranked if count >= least)
    lists["words"] = lists["words"][: max(0, settings.size - SPECIALS)]
    frequent = set(lists["words"])
    return TreebankVocabulary(
        **lists,
        rare=tuple(sorted(word for word in counts["words"] if word not in frequent)) if with_rare else (),
        column=settings.tags,
        lowercase=settings.lowercase,
        lowercase_characters=settings.lowercase_characters,
        longest=settings.characters,
        multiple_of=settings.multiple_of,
    )


def _tag_columns(sentence: Sentence, column: Tags) -> tuple[tuple[str, ...], ...]:
    """Return the tags of a sentence's words, one tuple for each column that is read.

    If both are, the treebank's own tags are marked ("xpos=NN"). Missing tags stay "_".
    """
    if column == "both":
        return sentence.upos, tuple(tag if tag == EMPTY else f"xpos={tag}" for tag in sentence.xpos)
    return (sentence.xpos if column == "xpos" else sentence.upos,)


def _spellings(sentence: Sentence, longest: int, lowercase: bool) -> list[str]:
    """Return the first ``longest`` characters of each word, in lower case if configured."""
    return [(form.lower() if lowercase else form)[:longest] for form in sentence.forms]


class Padded(NamedTuple):
    """Batch of sentences as ids, the root first; padding is 0 except in labels."""

    words: Numbers  # `[batch, length]`
    tags: Numbers  # `[batch, length]`, or `[batch, length, 2]` of both columns
    # characters of each spelling among the words, longest spellings first, `[spellings, longest]`
    characters: Numbers
    character_counts: Numbers  # `[spellings]`
    spellings: Numbers  # row of each word's spelling in `characters`, `[batch, length]`
    lengths: Numbers  # words and root, `[batch]`
    heads: Numbers  # `[batch, length]`; empty without trees
    labels: Numbers  # `[batch, length]`, :data:`NO_LABEL` for root and padding; empty without trees
    positions: Numbers  # positions of words in the flattened `[batch, length]`, `[words]`


@dataclass(frozen=True)
class EncodedTreebank:
    """Concatenated ids of sentences, with the root before each sentence's words."""

    lengths: Numbers  # words of each sentence, without the root
    words: Numbers  # their ids
    tags: Numbers  # their tags' ids, one or two each
    spellings: Numbers  # indices of their spellings
    heads: Numbers | None  # positions of their heads; `None` without trees
    labels: Numbers | None  # ids of their labels; `None` without trees
    characters: Numbers  # ids of the characters of all spellings, one after the other
    character_counts: Numbers  # characters of each spelling

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def _starts(self) -> Numbers:
        """Position of each sentence's root."""
        return np.cumsum(self.lengths + 1) - (self.lengths + 1)

    @cached_property
    def _character_starts(self) -> Numbers:
        """Position of each spelling's first character."""
        return np.cumsum(self.character_counts) - self.character_counts

    def padded(self, numbers: NDArray[Any]) -> Padded:
        """Return the sentences with these numbers as a batch, in this order.

        They are padded to the longest one. Spellings are those of the batch only, each once, longest first. Padding has
        the root's spelling. Without trees, heads and labels are empty arrays.
        """
        lengths = self.lengths[numbers] + 1
        columns = np.arange(lengths.max())
        inside = columns < lengths[:, None]
        places = np.where(inside, self._starts[numbers][:, None] + columns, 0)

        def taken(values: Numbers | None, padding: int) -> Numbers:
            """Return values ``[batch, length, …]`` with padding.

            The result is an empty array if they are ``None``.
            """
            if values is None:
                return np.zeros((0, 0), dtype=np.int64)
            within = inside.reshape(inside.shape + (1,) * (values.ndim - 1))
            return np.where(within, values[places], padding)

        # Padding has the root's spelling, row 0, which every batch has, so it adds no row.
        rows, spellings = np.unique(taken(self.spellings, 0), return_inverse=True)
        order = np.argsort(-self.character_counts[rows], kind="stable")
        counts, first = self.character_counts[rows[order]], self._character_starts[rows[order]]
        within = np.arange(counts.max()) < counts[:, None]
        character_places = np.where(within, first[:, None] + np.arange(counts.max()), 0)
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        return Padded(
            taken(self.words, PAD),
            taken(self.tags, PAD),
            np.where(within, self.characters[character_places], PAD),
            counts,
            ranks[spellings].reshape(inside.shape),
            lengths,
            taken(self.heads, 0),
            taken(self.labels, NO_LABEL),
            np.flatnonzero(inside & (columns > 0)),
        )
