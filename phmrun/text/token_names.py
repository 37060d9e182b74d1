"""What of the vocabularies travels with a model that other tools run."""

from pathlib import Path
from typing import TypeGuard

from phmrun.text.subwords import PieceVocabulary, SubwordVocabulary
from phmrun.text.vocabularies import Vocabularies
from phmrun.text.vocabulary import SPECIALS, Vocabulary


def token_names(vocabulary: Vocabulary) -> list[str]:
    """A name for each row of an embedding, all different; the special ones have the names of SentencePiece."""
    names: dict[str, int] = {}
    for number, token in enumerate(vocabulary.tokens):
        names[token if number < len(SPECIALS) or token not in names else f"{token}#{number}"] = number
    for number in range(len(names), len(vocabulary)):
        names[f"<unused {number}>"] = number
    return list(names)


def write_models(vocabularies: Vocabularies, directory: Path) -> None:
    """Writes the SentencePiece models, if any: ``subwords.model``, or ``source.model`` and ``target.model``."""
    for name, vocabulary in sides(vocabularies).items():
        if has_model(vocabulary):
            (directory / f"{name}.model").write_bytes(vocabulary.model)


def sides(vocabularies: Vocabularies) -> dict[str, Vocabulary]:
    """The vocabularies by the names of their files."""
    if vocabularies.joint:
        return {"subwords": vocabularies.source}
    return {"source": vocabularies.source, "target": vocabularies.target}


def has_model(vocabulary: Vocabulary) -> TypeGuard[SubwordVocabulary | PieceVocabulary]:
    """Whether text becomes tokens by a SentencePiece model; else by spaces."""
    return isinstance(vocabulary, SubwordVocabulary | PieceVocabulary)
