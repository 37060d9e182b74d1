"""Subject–verb agreement: what precedes a verb, and whether the verb is singular or plural.

The format is that of Linzen et al. (2016), "Assessing the ability of LSTMs to learn syntax-sensitive dependencies":
``VBZ`` or ``VBP``, a tab, the words before the verb in lower case. An attractor is a noun between the subject and the
verb whose number is not the subject's.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from phmrun.datasets.builtin.dependencies import DependencyWord, dependency_tree
from phmrun.datasets.builtin.lexicon import lexicon
from phmrun.datasets.builtin.sample_agreement import AgreementSampler
from phmrun.datasets.builtin.splits import Candidate, draw_split, lines, wanted_sizes
from phmrun.datasets.builtin.tree import Clause, NounPhrase, walk
from phmrun.files import write_text

AGREEMENT_VERSION = 1  # bumped whenever the items of a seed change; it is part of every run's identity
AGREEMENT_SIZES: Mapping[str, int] = {"train": 16_000, "dev": 1_000, "test": 2_500}
ATTRACTORS = (0, 1, 2, 3, 4)
"""The numbers of attractors in the test set, each as frequent as the next."""
_FINITE = ("VBZ", "VBP")
_MOST_WORDS = 30  # before the verb
_MOST_BETWEEN = 4  # nouns of the subject's number that stand between in an item without attractors


@dataclass(frozen=True, slots=True)
class AgreementItem:
    """The words before a verb, whether the verb is ``VBZ`` or ``VBP``, and how many attractors precede it."""

    prefix: str
    label: str
    attractors: int
    homogeneous: bool  # all nouns between subject and verb have one number


def agreement(seed: int = 1, *, sizes: Mapping[str, int] | None = None) -> dict[str, list[AgreementItem]]:
    """The agreement items of a seed, always the same; no prefix occurs twice.

    Train and dev are natural: most items have no attractor and most subjects are singular. The test set is controlled:
    0 to 4 attractors, each number as often as the next, with as many singular as plural verbs; the nouns between are
    all attractors, or none is one. Its first items are a fair sample of it.

    Args:
        seed: Any integer; another seed is another sample of the same language.
        sizes: Items per split (``train``, ``dev``, ``test``); what is left out has the default size.

    Raises:
        PhmrunError: A split is unknown or a size negative.
    """
    wanted = wanted_sizes(AGREEMENT_SIZES, sizes)
    sampler = AgreementSampler(lexicon())
    taken: set[str] = set()
    cells = []
    share, more = divmod(wanted["test"], 2 * len(ATTRACTORS))
    for index, (attractors, label) in enumerate((number, label) for number in ATTRACTORS for label in _FINITE):
        draw = _controlled(sampler, attractors, label)
        key = f"agreement/{seed}/test/{attractors}/{label}"
        cells.append(draw_split(key, share + (index < more), draw, taken))
    test = [cell[place] for place in range(share + 1) for cell in cells if place < len(cell)]

    def natural(key: str) -> Candidate[AgreementItem] | None:
        tree = sampler.natural(key)
        items = agreement_items(tree)
        return _candidate(sampler.sentences.clauses(f"{key}/which").choices.of(items)) if items else None

    dev = draw_split(f"agreement/{seed}/dev", wanted["dev"], natural, taken)
    return {"train": draw_split(f"agreement/{seed}/train", wanted["train"], natural, taken), "dev": dev, "test": test}


def _controlled(
    sampler: AgreementSampler, attractors: int, label: str
) -> Callable[[str], Candidate[AgreementItem] | None]:
    """What draws items with a number of attractors and a label."""
    plural = label == "VBP"

    def draw(key: str) -> Candidate[AgreementItem] | None:
        choices = sampler.sentences.clauses(f"{key}/between").choices
        between = [not plural] * attractors if attractors else [plural] * choices.of(range(_MOST_BETWEEN + 1))
        for item in agreement_items(sampler.controlled(key, plural, between)):
            if (item.attractors, item.label, item.homogeneous) == (attractors, label, True):
                return _candidate(item)
        return None

    return draw


def _candidate(item: AgreementItem) -> Candidate[AgreementItem] | None:
    return Candidate(item, (item.prefix,)) if item.prefix.count(" ") < _MOST_WORDS else None


def agreement_items(tree: Clause) -> list[AgreementItem]:
    """The agreement items of a sentence: one for each noun that is the subject of a later verb in the present."""
    if not any(_agrees(node) for node in walk(tree)):
        return []
    words = dependency_tree(tree)
    items = []
    for place, word in enumerate(words):
        if word.deprel not in ("nsubj", "nsubj:pass") or word.tag.upos != "NOUN":
            continue
        if any(other.head == place + 1 and other.deprel == "conj" for other in words):
            continue  # "the king and the queen": the head is not what the verb agrees with
        verb = _finite(words, word.head)
        if verb is not None and verb > place:
            items.append(_item(words, place, verb))
    return items


def _agrees(node: object) -> bool:
    """Whether a node is a clause whose verb may agree with a noun; most sentences have none, and no tree is made."""
    present = isinstance(node, Clause) and not node.modal and node.tense in ("present", "progressive", "perfect")
    return present and isinstance(node, Clause) and isinstance(node.subject, NounPhrase)


def _finite(words: list[DependencyWord], governor: int) -> int | None:
    """The place of the word that agrees with a subject: its governor, or an auxiliary or copula of that."""
    for place, word in enumerate(words):
        ours = place + 1 == governor or (word.head == governor and word.deprel in ("aux", "aux:pass", "cop"))
        if ours and word.tag.xpos in _FINITE:
            return place
    return None


def _item(words: list[DependencyWord], subject: int, verb: int) -> AgreementItem:
    plural = words[subject].tag.xpos == "NNS"
    between = [word for word in words[subject + 1 : verb] if word.tag.upos in ("NOUN", "PROPN")]
    others = sum((word.tag.xpos == "NNS") != plural for word in between)
    prefix = " ".join(word.form.lower() for word in words[:verb])
    return AgreementItem(prefix, words[verb].tag.xpos, others, others in (0, len(between)))


def write_agreement(directory: Path, seed: int = 1) -> None:
    """Writes ``{train,dev,test}.tsv`` and ``test.attractors``, each file whole or not at all.

    A line of ``test.attractors`` is the number of attractors in that line of ``test.tsv``.

    Args:
        directory: Where to; it is made if it is not there.
        seed: The seed of the items.
    """
    for name, items in agreement(seed).items():
        write_text(directory / f"{name}.tsv", lines(f"{item.label}\t{item.prefix}" for item in items))
        if name == "test":
            write_text(directory / "test.attractors", lines(str(item.attractors) for item in items))


def nearest_noun_baseline(prefixes: Iterable[str]) -> list[str]:
    """Labels that need no model: the verb agrees with the noun that precedes it most closely; ``VBZ`` without a noun.

    It is right where no attractor stands between and wrong where all nouns between are attractors, but for a few verbs
    that look like nouns: "saw".

    Args:
        prefixes: The words before each verb.
    """
    numbers = _numbers()
    return [next((numbers[word] for word in reversed(prefix.split()) if word in numbers), "VBZ") for prefix in prefixes]


@cache
def _numbers() -> Mapping[str, str]:
    """The label that a noun form asks for; a noun without a plural is singular."""
    entries = lexicon()
    plurals = {noun.english_plural: "VBP" for noun in entries.nouns if not noun.mass}
    names = {word.english.lower(): "VBZ" for kind in ("name", "surname", "city") for word in entries.words[kind]}
    return plurals | names | {noun.english: "VBZ" for noun in entries.nouns}
