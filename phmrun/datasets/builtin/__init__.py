"""The built-in corpus: English and German sentence pairs from a synchronous grammar that the project owns."""

from phmrun.datasets.builtin.baseline import dictionary_baseline
from phmrun.datasets.builtin.corpus import SIZES, VERSION, Pair, translation, write_translation

__all__ = ["SIZES", "VERSION", "Pair", "dictionary_baseline", "translation", "write_translation"]
