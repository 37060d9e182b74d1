"""Token names and SentencePiece models for exported models."""

from pathlib import Path
from typing import TypeGuard

from phmrun.text.subwords import PieceVocabulary, SubwordVocabulary
from phmrun.text.vocabularies import Vocabularies
from phmrun.text.vocabulary import SPECIALS, Vocabulary


def token_names(vocabulary: Vocabulary) -> list[str]:
    """Return a unique name for each embedding row.

    Special tokens have SentencePiece's names; a repeated token is followed by ``#`` and its id; unused rows are
    ``<unused ID>``.
    """
    names: dict[str, int] = {}
    for number, token in enumerate(vocabulary.tokens):
        names[token if number < len(SPECIALS) or token not in names else f"{token}#{number}"] = number
    for number in range(len(names), len(vocabulary)):
        names[f"<unused {number}>"] = number
    return list(names)


def write_models(vocabularies: Vocabularies, directory: Path) -> None:
    """Write the SentencePiece models of a pair of vocabularies.

    Files: ``subwords.model`` if joint, else ``source.model`` and ``target.model``. Vocabularies of another kind are
    skipped.
    """
    for name, vocabulary in vocabularies.sides("subwords").items():
        if has_model(vocabulary):
            (directory / f"{name}.model").write_bytes(vocabulary.model)


def has_model(vocabulary: Vocabulary) -> TypeGuard[SubwordVocabulary | PieceVocabulary]:
    """True if text is tokenized by a SentencePiece model instead of at spaces."""
    return isinstance(vocabulary, SubwordVocabulary | PieceVocabulary)
