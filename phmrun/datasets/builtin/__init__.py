"""The built-in corpora, all made by one grammar that the project owns.

English and German sentence pairs; English sentences with their dependency trees; items of subject-verb agreement.
"""

from phmrun.datasets.builtin.agreement_items import (
    AGREEMENT_SIZES,
    AGREEMENT_VERSION,
    AgreementItem,
    agreement,
    nearest_noun_baseline,
    write_agreement,
)
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
    "AGREEMENT_SIZES",
    "AGREEMENT_VERSION",
    "SIZES",
    "TREEBANK_SIZES",
    "TREEBANK_VERSION",
    "VERSION",
    "AgreementItem",
    "Pair",
    "TreebankSentence",
    "agreement",
    "dictionary_baseline",
    "nearest_noun_baseline",
    "neighbour_baseline",
    "translation",
    "treebank",
    "write_agreement",
    "write_translation",
    "write_treebank",
]
