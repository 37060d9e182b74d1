"""The built-in corpora, all made by one grammar that the project owns.

English and German sentence pairs; English sentences with their dependency trees; items of subject-verb agreement; pairs
of premise and hypothesis.
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
from phmrun.datasets.builtin.inference_pairs import (
    INFERENCE_SIZES,
    INFERENCE_VERSION,
    InferencePair,
    inference,
    write_inference,
)
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
    "INFERENCE_SIZES",
    "INFERENCE_VERSION",
    "SIZES",
    "TREEBANK_SIZES",
    "TREEBANK_VERSION",
    "VERSION",
    "AgreementItem",
    "InferencePair",
    "Pair",
    "TreebankSentence",
    "agreement",
    "dictionary_baseline",
    "inference",
    "nearest_noun_baseline",
    "neighbour_baseline",
    "translation",
    "treebank",
    "write_agreement",
    "write_inference",
    "write_translation",
    "write_treebank",
]
