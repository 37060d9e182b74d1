"""What a parser knows of a treebank: a vocabulary of words, tags, characters and labels, and sentences as numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from phmrun.documents import parse_json
from phmrun.files import intact, write_json
from phmrun.text.conllu import EMPTY, Sentence, universal
from phmrun.text.vocabulary import BOS as ROOT
from phmrun.text.vocabulary import PAD, UNK, padded_size

Tags = Literal["upos", "xpos"]
Numbers = NDArray[np.int64]

FILE = "treebank.json"
_LISTS = ("words", "tags", "characters", "labels")
SPECIALS = 3  # ids of words, tags and characters begin after those of padding, the unknown, and the root
NO_LABEL = -100  # of a word whose label the vocabulary lacks, and of the root and padding; losses pass over it


@dataclass(frozen=True)
class TreebankVocabulary:
    """Words, tags and characters by their ids minus the special ones, and labels by their ids."""

    words: tuple[str, ...]  # the words that have a vector of their own
    tags: tuple[str, ...]  # part-of-speech tags
    characters: tuple[str, ...]  # Unicode code points
    labels: tuple[str, ...]  # labels of arcs
    column: Tags = "upos"  # which tags these are
    lowercase: bool = True  # whether words are looked up in lower case; characters keep their case
    longest: int = 32  # how many characters of a word are read, from its beginning
    multiple_of: int = 1  # tables are padded with unused rows to a multiple of this
    _ids: dict[str, dict[str, int]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for kind in ("words", "tags", "characters"):
            self._ids[kind] = {entry: number for number, entry in enumerate(getattr(self, kind), SPECIALS)}
        self._ids["labels"] = {label: number for number, label in enumerate(self.labels)}

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Rows of the tables of words, tags and characters, and the number of labels."""
        words, tags, characters = (
            padded_size(len(entries) + SPECIALS, self.multiple_of)
            for entries in (self.words, self.tags, self.characters)
        )
        return words, tags, characters, len(self.labels)

    def tags_of(self, sentence: Sentence) -> tuple[str, ...]:
        """The tags of a sentence's words in the vocabulary's column."""
        return sentence.xpos if self.column == "xpos" else sentence.upos

    def encode(self, sentences: Sequence[Sentence]) -> "EncodedTreebank":
        """Sentences as numbers; trees are taken along where all of them have one."""
        words, tags, labels, characters = (self._ids[kind] for kind in ("words", "tags", "labels", "characters"))
        trees = all(sentence.heads for sentence in sentences)
        spelt = _Spellings(characters, self.longest)
        columns: dict[str, list[int]] = {key: [] for key in ("words", "tags", "spellings", "heads", "labels")}
        for sentence in sentences:
            forms = [form.lower() for form in sentence.forms] if self.lowercase else sentence.forms
            columns["words"] += [ROOT, *(words.get(form, UNK) for form in forms)]
            columns["tags"] += [ROOT, *(tags.get(tag, UNK) for tag in self.tags_of(sentence))]
            columns["spellings"] += [0, *map(spelt.number, sentence.forms)]
            if trees:
                columns["heads"] += [0, *sentence.heads]
                columns["labels"] += [NO_LABEL, *(_label_id(labels, label) for label in sentence.deprels)]
        lengths = [len(sentence) for sentence in sentences]
        arrays = {key: np.array(values, dtype=np.int64) for key, values in columns.items()}
        return EncodedTreebank(
            np.array(lengths, dtype=np.int64),
            arrays["words"],
            arrays["tags"],
            arrays["spellings"],
            arrays["heads"] if trees else None,
            arrays["labels"] if trees else None,
            np.array(spelt.characters, dtype=np.int64),
            np.array(spelt.counts, dtype=np.int64),
        )

    def save(self, directory: Path) -> None:
        """Writes ``treebank.json`` into ``directory``."""
        stored = {key: value for key, value in asdict(self).items() if not key.startswith("_")}
        write_json(directory / FILE, stored)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            PhmrunError: (exit 3) The directory holds no such vocabulary, or a damaged one.
        """
        path = directory / FILE
        with intact("the vocabulary is", path):
            stored = parse_json(path.read_text(encoding="utf-8"))
            if "letters" in stored:  # what this list was called
                stored["characters"] = stored.pop("letters")
            words, tags, characters, labels = (tuple(map(str, stored.pop(key))) for key in _LISTS)
            loaded = cls(words, tags, characters, labels, **stored)
            if loaded.column not in get_args(Tags) or min(loaded.longest, loaded.multiple_of) < 1:
                raise ValueError(f"column {loaded.column}, longest {loaded.longest}, multiple_of {loaded.multiple_of}")
        return loaded


def learn_vocabulary(
    sentences: Iterable[Sentence],
    *,
    most_words: int = 20_000,
    min_count: int = 2,
    lowercase: bool = True,
    subtypes: bool = True,
    column: Tags = "upos",
    longest: int = 32,
    multiple_of: int = 1,
) -> TreebankVocabulary:
    """The vocabulary of a treebank, the most frequent first, equal counts in alphabetical order.

    Args:
        sentences: With trees.
        most_words: Rows of the word table at most, the special ones included.
        min_count: Rarer words share the vector of the unknown word, which so is learnt.
        lowercase: Whether words are counted in lower case.
        subtypes: Whether labels keep their subtypes; otherwise only their universal parts are learnt.
        column: Which tags are read.
        longest: How many characters of a word are read.
        multiple_of: Tables are padded to a multiple of this.
    """
    counts: dict[str, Counter[str]] = {key: Counter() for key in _LISTS}
    for sentence in sentences:
        counts["words"].update(form.lower() if lowercase else form for form in sentence.forms)
        counts["tags"].update(tag for tag in (sentence.xpos if column == "xpos" else sentence.upos) if tag != EMPTY)
        counts["characters"].update("".join(form[:longest] for form in sentence.forms))
        counts["labels"].update(label if subtypes else universal(label) for label in sentence.deprels)
    ranked = {key: _ranked(counter, min_count if key == "words" else 1) for key, counter in counts.items()}
    return TreebankVocabulary(
        ranked["words"][: max(0, most_words - SPECIALS)],
        ranked["tags"],
        ranked["characters"],
        ranked["labels"],
        column,
        lowercase,
        longest,
        multiple_of,
    )


def _ranked(counter: Counter[str], least: int) -> tuple[str, ...]:
    ranked = sorted(counter.items(), key=lambda entry: (-entry[1], entry[0]))
    return tuple(entry for entry, count in ranked if count >= least)


class _Spellings:
    """Different words of a treebank as rows of characters; row 0 is the root."""

    def __init__(self, ids: Mapping[str, int], longest: int) -> None:
        self.ids = ids
        self.longest = longest
        self.characters = [ROOT]
        self.counts = [1]
        self._rows: dict[str, int] = {}

    def number(self, form: str) -> int:
        """The row of a word."""
        read = form[: self.longest]
        row = self._rows.get(read)
        if row is None:
            row = self._rows[read] = len(self.counts)
            self.characters += [self.ids.get(character, UNK) for character in read]
            self.counts.append(len(read))
        return row


class Padded(NamedTuple):
    """Sentences side by side, the root first; 0 pads."""

    words: Numbers  # `[batch, length]`
    tags: Numbers  # `[batch, length]`
    # characters of each spelling among the words, longest spellings first, `[spellings, longest]`
    characters: Numbers
    character_counts: Numbers  # `[spellings]`
    spellings: Numbers  # row of each word in `characters`, `[batch, length]`
    lengths: Numbers  # words and root, `[batch]`
    heads: Numbers  # `[batch, length]`, or empty where there are no trees
    labels: Numbers  # `[batch, length]`, :data:`NO_LABEL` for root and padding; likewise
    positions: Numbers  # where in the flattened `[batch, length]` words stand, `[words]`


@dataclass(frozen=True)
class EncodedTreebank:
    """Sentences as numbers, one after the other, the root before each sentence's words."""

    lengths: Numbers  # words of each sentence, without the root
    words: Numbers  # their ids
    tags: Numbers  # their tags' ids
    spellings: Numbers  # the rows of their spellings
    heads: Numbers | None  # numbers of their heads; `None`: there are no trees
    labels: Numbers | None  # ids of their labels; likewise
    characters: Numbers  # ids of the characters of all spellings, one after the other
    character_counts: Numbers  # characters of each spelling

    def __len__(self) -> int:
        """Sentences."""
        return len(self.lengths)

    @cached_property
    def _starts(self) -> Numbers:
        """Where each sentence's root stands."""
        return np.cumsum(self.lengths + 1) - (self.lengths + 1)

    @cached_property
    def _character_starts(self) -> Numbers:
        return np.cumsum(self.character_counts) - self.character_counts

    def padded(self, numbers: NDArray[Any]) -> Padded:
        """The sentences of these numbers as one batch."""
        lengths = self.lengths[numbers] + 1
        columns = np.arange(lengths.max())
        inside = columns < lengths[:, None]
        places = np.where(inside, self._starts[numbers][:, None] + columns, 0)

        def taken(values: Numbers | None, padding: int) -> Numbers:
            return np.zeros((0, 0), dtype=np.int64) if values is None else np.where(inside, values[places], padding)

        rows, spellings = np.unique(taken(self.spellings, 0), return_inverse=True)
        order = np.argsort(-self.character_counts[rows], kind="stable")
        counts = self.character_counts[rows[order]]
        first = self._character_starts[rows[order]]
        character_columns = np.arange(counts.max())
        character_inside = character_columns < counts[:, None]
        characters = np.where(
            character_inside, self.characters[np.where(character_inside, first[:, None] + character_columns, 0)], PAD
        )
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        return Padded(
            taken(self.words, PAD),
            taken(self.tags, PAD),
            characters,
            counts,
            ranks[spellings].reshape(inside.shape),
            lengths,
            taken(self.heads, 0),
            taken(self.labels, NO_LABEL),
            np.flatnonzero(inside & (columns > 0)),
        )


def _label_id(labels: Mapping[str, int], label: str) -> int:
    """The id of a label; of its universal part where only that is known."""
    return labels.get(label, labels.get(universal(label), NO_LABEL))
