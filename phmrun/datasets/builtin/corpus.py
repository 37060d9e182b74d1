"""The translation corpus: English and German sentences, with construction pairings that only the test set has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phmrun.datasets.builtin import english, german
from phmrun.datasets.builtin.lexicon import lexicon
from phmrun.datasets.builtin.pairings import HELD_OUT, novel_pairings
from phmrun.datasets.builtin.sample_sentences import SentenceSampler
from phmrun.datasets.builtin.splits import NOVEL, SEEN, Candidate, draw_splits, lines, wanted_sizes
from phmrun.datasets.builtin.tree import Clause
from phmrun.files import write_text

VERSION = 1  # bumped whenever the sentences of a seed change; it is part of every run's identity

SIZES: Mapping[str, int] = {"train": 20_000, "dev": 1_000, "test": 1_000}
MOST_WORDS = 25


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence in both languages, with the tree that both were made from.

    ``part`` is ``"novel"`` where the tree has a construction pairing that training lacks (``novelties`` names them),
    else ``"seen"``.
    """

    source: str
    target: str
    part: str
    novelties: tuple[str, ...] = ()
    derivation: Clause | None = field(default=None, repr=False, compare=False)


def translation(seed: int = 1, *, sizes: Mapping[str, int] | None = None) -> dict[str, list[Pair]]:
    """The English–German corpus of a seed, always the same.

    No sentence of one split occurs in another, neither as source nor as target, and none occurs twice.

    Args:
        seed: Any integer; another seed is another sample of the same language.
        sizes: Sentences per split (``train``, ``dev``, ``test``); what is left out has the default size.

    Raises:
        PhmrunError: A split is unknown or a size negative.
    """
    sampler = SentenceSampler(lexicon())

    def draw(key: str) -> Candidate[Pair] | None:
        tree = sampler.draw(key)
        novelties = novel_pairings(tree)
        source, target = english.sentence(tree), german.sentence(tree)
        if max(source.count(" "), target.count(" ")) >= MOST_WORDS:
            return None
        return Candidate(
            Pair(source, target, NOVEL if novelties else SEEN, novelties, tree), (source, target), novelties
        )

    return draw_splits(str(seed), wanted_sizes(SIZES, sizes), draw, HELD_OUT)


def write_translation(directory: Path, seed: int = 1) -> None:
    """Writes ``{train,dev,test}.{en,de}`` and ``test.part``, each file whole or not at all.

    ``test.part`` has a line per test pair: ``seen`` or ``novel``.

    Args:
        directory: Where to; it is made if it is not there.
        seed: The corpus's seed.
    """
    for name, pairs in translation(seed).items():
        write_text(directory / f"{name}.en", lines(pair.source for pair in pairs))
        write_text(directory / f"{name}.de", lines(pair.target for pair in pairs))
        if name == "test":
            write_text(directory / "test.part", lines(pair.part for pair in pairs))
