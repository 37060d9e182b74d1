"""The treebank: English sentences with their dependency trees, in the CoNLL-U format."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from phmrun.datasets.builtin import english
from phmrun.datasets.builtin.corpus import MOST_WORDS
from phmrun.datasets.builtin.dependencies import DependencyWord, dependency_tree
from phmrun.datasets.builtin.lexicon import lexicon
from phmrun.datasets.builtin.pairings import HELD_OUT, novel_pairings
from phmrun.datasets.builtin.sample_sentences import SentenceSampler
from phmrun.datasets.builtin.splits import NOVEL, SEEN, Candidate, draw_splits, lines, wanted_sizes
from phmrun.datasets.builtin.tree import Clause
from phmrun.files import write_text

TREEBANK_VERSION = 1  # bumped whenever a tree of a seed changes; it is part of every run's identity
TREEBANK_SIZES: Mapping[str, int] = {"train": 4_000, "dev": 500, "test": 500}

TreeColumns = tuple[Sequence[str], Sequence[int], Sequence[str]]
"""Of a sentence's words the universal tags, the heads (0 for the root) and the relations."""


@dataclass(frozen=True, slots=True)
class TreebankSentence:
    """A sentence with its dependency tree; ``part`` is ``"novel"`` where it has a pairing that training lacks."""

    text: str
    words: tuple[DependencyWord, ...]
    part: str
    derivation: Clause = field(repr=False, compare=False)


def treebank(seed: int = 1, *, sizes: Mapping[str, int] | None = None) -> dict[str, list[TreebankSentence]]:
    """The treebank of a seed, always the same; no sentence occurs twice.

    A fifth of the test sentences have a pairing of constructions that training and dev lack, as in
    :func:`~phmrun.datasets.builtin.corpus.translation`.

    Args:
        seed: Any integer; another seed is another sample of the same language.
        sizes: Sentences per split (``train``, ``dev``, ``test``); what is left out has the default size.

    Raises:
        PhmrunError: A split is unknown or a size negative.
    """
    sampler = SentenceSampler(lexicon())

    def draw(key: str) -> Candidate[TreebankSentence] | None:
        tree = sampler.draw(key)
        text = english.sentence(tree)
        if text.count(" ") >= MOST_WORDS:
            return None
        novelties = novel_pairings(tree)
        words = tuple(dependency_tree(tree))
        return Candidate(TreebankSentence(text, words, NOVEL if novelties else SEEN, tree), (text,), novelties)

    return draw_splits(f"treebank/{seed}", wanted_sizes(TREEBANK_SIZES, sizes), draw, HELD_OUT)


def write_treebank(directory: Path, seed: int = 1) -> None:
    """Writes ``{train,dev,test}.conllu`` and ``test.part``, each file whole or not at all.

    ``test.part`` has a line per test sentence: ``seen`` or ``novel``.

    Args:
        directory: Where to; it is made if it is not there.
        seed: The treebank's seed.
    """
    for name, sentences in treebank(seed).items():
        blocks = [conllu_block(sentence, f"{name}-{number:04}") for number, sentence in enumerate(sentences, 1)]
        write_text(directory / f"{name}.conllu", "".join(blocks))
        if name == "test":
            write_text(directory / "test.part", lines(sentence.part for sentence in sentences))


def conllu_block(sentence: TreebankSentence, sent_id: str) -> str:
    """A sentence in the CoNLL-U format, with the blank line after it."""
    words = sentence.words
    rows = [f"# sent_id = {sent_id}", f"# text = {sentence.text}"]
    for number, word in enumerate(words, 1):
        glued = number < len(words) and words[number].glued
        columns = (word.form, *word.tag, str(word.head), word.deprel, "_", "SpaceAfter=No" if glued else "_")
        rows.append("\t".join((str(number), *columns)))
    return lines([*rows, ""])


def commonest_arcs(sentences: Iterable[TreeColumns]) -> dict[str, tuple[int, str]]:
    """By universal tag the commonest arc of its words: how many words ahead the head is, and the relation.

    Args:
        sentences: The columns of the training trees.
    """
    counts: dict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
    for upos, heads, deprels in sentences:
        for number, (tag, head, deprel) in enumerate(zip(upos, heads, deprels, strict=True), 1):
            counts[tag][(head - number if head else 0, deprel)] += 1
    return {tag: min(row, key=lambda arc: (-row[arc], arc)) for tag, row in counts.items()}


def neighbour_baseline(
    train: Iterable[TreeColumns], upos: Iterable[Sequence[str]]
) -> list[tuple[list[int], list[str]]]:
    """Heads and labels that need no model: each word's arc is the commonest of its tag in training.

    So a determiner hangs from the next word and a preposition from the one after that. Words whose arc would leave the
    sentence hang from the word before them, the first from the root; such a "tree" may have several roots or cycles.

    Args:
        train: The columns of the training trees.
        upos: The universal tags of each sentence to parse.
    """
    arcs = commonest_arcs(train)
    parses = []
    for tags in upos:
        found = [arcs.get(tag, (-1, "dep")) for tag in tags]
        heads = [
            number + ahead if ahead and 0 < number + ahead <= len(tags) else 0 if label == "root" else number - 1
            for number, (ahead, label) in enumerate(found, 1)
        ]
        parses.append((heads, [label for _, label in found]))
    return parses
