"""The built-in corpora, all made by one grammar that the project owns.

English and German sentence pairs, and the English sentences with their dependency trees.
"""

from phmrun.datasets.builtin.baseline import dictionary_baseline
from phmrun.datasets.builtin.corpus import SIZES, VERSION, Pair, translation, write_translation
from phmrun.datasets.builtin.treebank_sentences import (
    TREEBANK_SIZES,
    TREEBANK_VERSION,
    TreebankSentence,
    neighbour_baseline,
    treebank,
    write_treebank,
)

__all__ = [
    "SIZES",
    "TREEBANK_SIZES",
    "TREEBANK_VERSION",
    "VERSION",
    "Pair",
    "TreebankSentence",
    "dictionary_baseline",
    "neighbour_baseline",
    "translation",
    "treebank",
    "write_translation",
    "write_treebank",
]
