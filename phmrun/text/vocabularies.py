"""Vocabularies of any kind, single or as a pair for source and target: trained, saved and loaded.

A pair is saved as ``shared/`` (joint), or as ``source/`` and ``target/``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from phmrun.text.vocabulary import Vocabulary, WordVocabulary, read_description, train_words


@dataclass(frozen=True)
class Vocabularies:
    """Vocabularies of both sides; the same object twice if they are joint."""

    source: Vocabulary
    target: Vocabulary

    @property
    def joint(self) -> bool:
        """True if both sides share one vocabulary.

        Their embeddings can then be tied.
        """
        return self.source is self.target

    @property
    def sizes(self) -> tuple[int, int]:
        """Embedding rows of source and target, unused ones included."""
        return len(self.source), len(self.target)

    def sides(self, joint: str) -> dict[str, Vocabulary]:
        """Return both vocabularies, "source" and "target", or a joint one by the name ``joint``."""
        return {joint: self.source} if self.joint else {"source": self.source, "target": self.target}

    def save(self, directory: Path) -> None:
        """Write both into ``directory``: ``shared/``, or ``source/`` and ``target/``."""
        for name, vocabulary in self.sides("shared").items():
            vocabulary.save(directory / name)

    @classmethod
    def load(cls, directory: Path) -> "Vocabularies":
        """Load the vocabularies that :meth:`save` wrote.

        ``shared/`` is loaded if it exists; both sides are then the same object.

        Raises:
            PhmrunError: (exit 3) The directory holds no complete pair of vocabularies.
        """
        shared = directory / "shared"
        if shared.is_dir():
            vocabulary = load_vocabulary(shared)
            return cls(vocabulary, vocabulary)
        return cls(load_vocabulary(directory / "source"), load_vocabulary(directory / "target"))


def train_vocabulary(
    lines: Iterable[str],
    *,
    kind: str,
    size: int,
    multiple_of: int = 1,
    character_coverage: float = 1.0,
) -> Vocabulary:
    """Train a vocabulary on text.

    The same lines in the same order give the same vocabulary.

    Args:
        lines: The training text, read once.
        kind: ``unigram`` or ``bpe`` (SentencePiece), or ``word`` (split at white space).
        size: Largest size, including the four special tokens, at least 5. If the text allows fewer, the vocabulary is
            as large as the text allows; compare ``requested`` with ``entries``.
        multiple_of: The size is padded with unused entries to a multiple of this, for structures whose order must
            divide it.
        character_coverage: Share of the text's characters that the alphabet covers (SentencePiece only; 0.98 to 1).

    Raises:
        PhmrunError: (exit 3) The text is empty, has more distinct characters than ``size``, or SentencePiece refuses a
            setting.
    """
    if kind == "word":
        return train_words(lines, size=size, multiple_of=multiple_of)
    from phmrun.text.subwords import train_subwords  # imports SentencePiece

    return train_subwords(lines, kind=kind, size=size, multiple_of=multiple_of, character_coverage=character_coverage)


def load_vocabulary(directory: Path) -> Vocabulary:
    """Load a vocabulary of any kind: words, subwords or imported pieces.

    Raises:
        PhmrunError: (exit 3) The directory holds no vocabulary, or one that this version cannot read.
    """
    from phmrun.text.subwords import PieceVocabulary, SubwordVocabulary

    classes = {kind: cls for cls in (SubwordVocabulary, WordVocabulary, PieceVocabulary) for kind in cls.kinds}
    kind = read_description(directory, list(classes))["kind"]
    return classes[kind].load(directory)
