"""The built-in corpora, all made by one grammar that the project owns.

English and German sentence pairs; English sentences with their dependency trees; items of subject-verb agreement; pairs
of premise and hypothesis; modern and older English sentence pairs. Each has a version, which is part of the identity of
every run on it.
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
from phmrun.datasets.builtin.style_pairs import STYLE_SIZES, STYLE_VERSION, StylePair, style, write_style
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
    "STYLE_SIZES",
    "STYLE_VERSION",
    "TREEBANK_SIZES",
    "TREEBANK_VERSION",
    "VERSION",
    "AgreementItem",
    "InferencePair",
    "Pair",
    "StylePair",
    "TreebankSentence",
    "agreement",
    "dictionary_baseline",
    "inference",
    "nearest_noun_baseline",
    "neighbour_baseline",
    "style",
    "translation",
    "treebank",
    "write_agreement",
    "write_inference",
    "write_style",
    "write_translation",
    "write_treebank",
]
