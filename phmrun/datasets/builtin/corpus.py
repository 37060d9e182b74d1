"""The corpus: splits that share no sentence, and a test set with construction pairings that training lacks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phmrun.datasets.builtin import english, german
from phmrun.datasets.builtin.lexicon import lexicon
from phmrun.datasets.builtin.pairings import HELD_OUT, novel_pairings
from phmrun.datasets.builtin.sample_sentences import SentenceSampler
from phmrun.datasets.builtin.tree import Clause
from phmrun.errors import PhmrunError
from phmrun.files import write_text

VERSION = 1  # bumped whenever the sentences of a seed change; it is part of every run's identity

SIZES: Mapping[str, int] = {"train": 20_000, "dev": 1_000, "test": 1_000}
_NOVEL_SHARE = 5  # every fifth test sentence
_MOST_WORDS = 25


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
    wanted = dict(SIZES) | dict(sizes or {})
    for name, size in wanted.items():
        if name not in SIZES:
            raise PhmrunError(f"the built-in corpus has no split {name!r}", valid=list(SIZES))
        if size < 0:
            raise PhmrunError(f"the size of split {name!r} is negative: {size}")
    sampler = SentenceSampler(lexicon())
    taken: set[str] = set()  # only asked for membership: its order never matters
    splits: dict[str, list[Pair]] = {}
    # The small splits choose first: what they take, training cannot have.
    for name in ("test", "dev", "train"):
        splits[name] = _split(sampler, seed, name, wanted[name], taken)
    return {name: splits[name] for name in SIZES}


def _split(sampler: SentenceSampler, seed: int, name: str, size: int, taken: set[str]) -> list[Pair]:
    """Draws a split; its strings are added to ``taken``."""
    novel_wanted = size // _NOVEL_SHARE if name == "test" else 0
    pools: dict[str, list[Pair]] = {"seen": [], "novel": []}
    met = dict.fromkeys(HELD_OUT, 0)
    most = 3 * novel_wanted // (2 * len(HELD_OUT)) + 1  # so that no pairing crowds out the others
    room = {"seen": size - novel_wanted, "novel": novel_wanted}
    attempt = 0
    while len(pools["seen"]) < room["seen"] or len(pools["novel"]) < room["novel"]:
        tree = sampler.draw(f"{seed}/{name}/{attempt}")
        attempt += 1
        novelties = novel_pairings(tree)
        part = "novel" if novelties else "seen"
        if len(pools[part]) >= room[part]:
            continue
        source, target = english.sentence(tree), german.sentence(tree)
        if source in taken or target in taken or max(source.count(" "), target.count(" ")) >= _MOST_WORDS:
            continue
        if any(met[novelty] >= most for novelty in novelties):
            continue
        for novelty in novelties:
            met[novelty] += 1
        taken.update((source, target))
        pools[part].append(Pair(source, target, part, novelties, tree))
    return _interleaved(pools["seen"], pools["novel"])


def _interleaved(seen: list[Pair], novel: list[Pair]) -> list[Pair]:
    """The novel pairs spread evenly, so that any prefix of the split is a fair sample of it."""
    if not novel:
        return seen
    step = len(seen) // len(novel)
    merged: list[Pair] = []
    for index, pair in enumerate(novel):
        merged += [*seen[index * step : (index + 1) * step], pair]
    return merged + seen[len(novel) * step :]


def write_translation(directory: Path, seed: int = 1) -> None:
    """Writes ``{train,dev,test}.{en,de}`` and ``test.part``, each file whole or not at all.

    ``test.part`` has a line per test pair: ``seen`` or ``novel``.

    Args:
        directory: Where to; it is made if it is not there.
        seed: The corpus's seed.
    """
    for name, pairs in translation(seed).items():
        write_text(directory / f"{name}.en", _lines(pair.source for pair in pairs))
        write_text(directory / f"{name}.de", _lines(pair.target for pair in pairs))
        if name == "test":
            write_text(directory / "test.part", _lines(pair.part for pair in pairs))


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)
