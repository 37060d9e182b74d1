"""The style corpus: modern English sentences and the same in older English, both tokenised."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phmrun.datasets.builtin import archaic, english
from phmrun.datasets.builtin.corpus import MOST_WORDS
from phmrun.datasets.builtin.lexicon import lexicon
from phmrun.datasets.builtin.pairings import HELD_OUT, novel_pairings
from phmrun.datasets.builtin.sample_nominals import Habits
from phmrun.datasets.builtin.sample_sentences import SentenceSampler
from phmrun.datasets.builtin.splits import NOVEL, SEEN, Candidate, draw_splits, lines, wanted_sizes
from phmrun.datasets.builtin.tree import Clause
from phmrun.files import write_text

STYLE_VERSION = 1  # bumped whenever the sentences of a seed change; it is part of every run's identity
STYLE_SIZES: Mapping[str, int] = {"train": 8_000, "dev": 500, "test": 500}
# "You" is one person unless several are spoken to by name, so that the modern sentence tells the older one.
_HABITS = Habits(
    pronouns=((("1s", ""), 6), (("2s", ""), 12), (("3s", "m"), 4), (("3s", "f"), 4), (("1p", ""), 3), (("3p", ""), 3)),
    owners=((("1s", ""), 5), (("2s", ""), 8), (("3s", "m"), 4), (("3s", "f"), 3), (("1p", ""), 3), (("3p", ""), 2)),
    pronoun_share=0.45,
    negation_share=0.25,
    shapes=(("statement", 52), ("adverbial", 20), ("coordinated", 6), ("question", 14), ("address", 8)),
)


@dataclass(frozen=True, slots=True)
class StylePair:
    """A sentence in modern and in older English, with the tree that both were made from.

    ``part`` is ``"novel"`` where the tree has a construction pairing that training lacks, else ``"seen"``.
    """

    modern: str
    original: str
    part: str
    derivation: Clause = field(repr=False, compare=False)


def style(seed: int = 1, *, sizes: Mapping[str, int] | None = None) -> dict[str, list[StylePair]]:
    """The style corpus of a seed, always the same; no sentence occurs twice on either side.

    A fifth of the test pairs have a pairing of constructions that training and dev lack, as in
    :func:`~phmrun.datasets.builtin.corpus.translation`.

    Args:
        seed: Any integer; another seed is another sample of the same language.
        sizes: Sentences per split (``train``, ``dev``, ``test``); what is left out has the default size.

    Raises:
        PhmrunError: A split is unknown or a size negative.
    """
    sampler = SentenceSampler(lexicon(), _HABITS)

    def draw(key: str) -> Candidate[StylePair] | None:
        tree = sampler.draw(key)
        novelties = novel_pairings(tree)
        modern, original = modern_words(tree), archaic.sentence_words(tree)
        if max(len(modern), len(original)) > MOST_WORDS:
            return None
        pair = StylePair(" ".join(modern), " ".join(original), NOVEL if novelties else SEEN, tree)
        return Candidate(pair, (pair.modern, pair.original), novelties)

    return draw_splits(f"style/{seed}", wanted_sizes(STYLE_SIZES, sizes), draw, HELD_OUT)


def modern_words(tree: Clause) -> list[str]:
    """The words and punctuation marks of a main clause's English sentence."""
    text = english.sentence(tree)
    return f"{text[:-1]} {text[-1]}".replace(",", " ,").split()


def write_style(directory: Path, seed: int = 1) -> None:
    """Writes ``{train,dev,test}.{modern,original}`` and ``test.part``, each file whole or not at all.

    ``test.part`` has a line per test pair: ``seen`` or ``novel``.

    Args:
        directory: Where to; it is made if it is not there.
        seed: The corpus's seed.
    """
    for name, pairs in style(seed).items():
        write_text(directory / f"{name}.modern", lines(pair.modern for pair in pairs))
        write_text(directory / f"{name}.original", lines(pair.original for pair in pairs))
        if name == "test":
            write_text(directory / "test.part", lines(pair.part for pair in pairs))
