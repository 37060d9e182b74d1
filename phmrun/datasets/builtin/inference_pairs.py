"""Inference pairs: premise, hypothesis and whether the premise entails the hypothesis, contradicts it or neither.

Each hypothesis stands in three pairs, one of each label, so the hypothesis alone says nothing about the label. The
premises are made from it by edits of known effect (see ``entailment.py``):

- entailment: the hypothesis made more specific;
- contradiction: its negation or a contrary, made more specific;
- neutral: the hypothesis or its negation made less specific (perhaps more specific elsewhere), said of something else,
  with subject and object exchanged, or only supposed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phmrun.datasets.builtin import english
from phmrun.datasets.builtin.entailment import Editor, definite, spoken
from phmrun.datasets.builtin.lexicon import Noun, lexicon
from phmrun.datasets.builtin.opposition import about_another, contradiction, known, passive, supposed, swapped
from phmrun.datasets.builtin.sample_hypotheses import HypothesisSampler, with_place_first
from phmrun.datasets.builtin.sample_sentences import SentenceSampler
from phmrun.datasets.builtin.splits import NOVEL, SEEN, Candidate, draw_splits, lines, wanted_sizes
from phmrun.datasets.builtin.taxonomy import taxonomy
from phmrun.datasets.builtin.tree import Clause, NounPhrase, walk
from phmrun.files import write_text

INFERENCE_VERSION = 1  # bumped whenever the pairs of a seed change; it is part of every run's identity
INFERENCE_SIZES: Mapping[str, int] = {"train": 12_000, "dev": 1_002, "test": 1_002}
LABELS = ("entailment", "neutral", "contradiction")
HELD_OUT = (
    *("adjective/every", "noun/no", "modifier/no", "relative/the", "noun/a negative", "relative/all", "place/negative"),
    *("manner/positive", "verb/negative"),
)
"""Edits that train and dev lack: what is edited, and the determiner or the polarity of the place."""
_TRIES = 8
_MOST_WORDS = 22
_PASSIVE, _FRONTED, _KNOWN = 0.15, 0.2, 0.1


@dataclass(frozen=True, slots=True)
class InferencePair:
    """Two sentences and what the first says of the second.

    ``part`` is ``"novel"`` where the premise was made with an edit that training lacks. ``trees`` are those of premise
    and hypothesis.
    """

    premise: str
    hypothesis: str
    label: str
    part: str
    edits: tuple[str, ...]
    trees: tuple[Clause, Clause] = field(repr=False, compare=False)


def inference(seed: int = 1, *, sizes: Mapping[str, int] | None = None) -> dict[str, list[InferencePair]]:
    """The inference pairs of a seed, always the same; no sentence stands in two splits, and no premise in two pairs.

    The labels are balanced, and so are those of each hypothesis: it stands in one pair of each label. A split is three
    rounds through its hypotheses. Half of the test set's hypotheses have a premise made with an edit that train and dev
    lack.

    Args:
        seed: Any integer; another seed is another sample of the same language.
        sizes: Pairs per split (``train``, ``dev``, ``test``), rounded down to a multiple of three; what is left out has
            the default size.

    Raises:
        PhmrunError: A split is unknown or a size negative.
    """
    sentences = SentenceSampler(lexicon())

    def draw(key: str) -> Candidate[tuple[InferencePair, ...]] | None:
        editor = Editor(sentences.clauses(key), taxonomy())
        pairs = _triple(editor)
        if pairs is None:
            return None
        strings = (pairs[0].hypothesis, *(pair.premise for pair in pairs))
        if len(set(strings)) < len(strings) or max(string.count(" ") for string in strings) >= _MOST_WORDS:
            return None
        novelties = tuple(dict.fromkeys(edit for pair in pairs for edit in pair.edits if edit in HELD_OUT))
        return Candidate(pairs, strings, novelties)

    wanted = {name: size // len(LABELS) for name, size in wanted_sizes(INFERENCE_SIZES, sizes).items()}
    splits = draw_splits(f"inference/{seed}", wanted, draw, HELD_OUT, every=2)
    return {
        name: [triple[place] for place in range(len(LABELS)) for triple in triples] for name, triples in splits.items()
    }


def _triple(editor: Editor) -> tuple[InferencePair, ...] | None:
    """A pair of each label with one hypothesis, in random order, or None where the draw does not give them."""
    statement = HypothesisSampler(editor).draw()
    if statement is None:
        return None
    conclusion = _rendered(editor, statement)
    pairs = []
    for label in editor.choices.order([(label, 1.0) for label in LABELS]):
        made = next(filter(None, (PREMISES[label](editor, statement) for _ in range(_TRIES))), None)
        if made is None:
            return None
        part = NOVEL if any(edit in HELD_OUT for edit in made.edits) else SEEN
        texts = english.sentence(made.tree), english.sentence(conclusion)
        pairs.append(InferencePair(*texts, label, part, made.edits, (made.tree, conclusion)))
    return tuple(pairs)


@dataclass(frozen=True, slots=True)
class _Premise:
    tree: Clause
    edits: tuple[str, ...]


def _entailing(editor: Editor, statement: Clause) -> _Premise | None:
    """The statement made more specific."""
    node, edits = _specialised(editor, statement, editor.choices.weighted(((1, 50), (2, 35), (3, 15))))
    return _said(editor, node, edits) if edits else None


def _contradicting(editor: Editor, statement: Clause) -> _Premise | None:
    """The statement's negation or contrary, made more specific."""
    node = contradiction(editor, statement)
    if node is None:
        return None
    return _said(editor, *_specialised(editor, node, editor.choices.weighted(((0, 25), (1, 45), (2, 30)))))


def _neutral(editor: Editor, statement: Clause) -> _Premise | None:
    """The statement or its negation, made less specific, of something else, turned round or only supposed."""
    base = contradiction(editor, statement) if editor.choices.chance(0.5) else statement
    if base is None:
        return None
    more = editor.choices.weighted(((0, 35), (1, 40), (2, 25)))
    match editor.choices.weighted((("general", 50), ("another", 20), ("swapped", 12), ("supposed", 18))):
        case "general":
            return _loosened(editor, statement, base, more)
        case "another":
            found = about_another(editor, base)
            if found is None:
                return None
            return _said(editor, *_specialised(editor, found[1], more, {found[0], f"{found[0]} determiner"}))
        case "swapped":
            changed = swapped(base)
            return _said(editor, changed, ()) if changed else None
        case _:
            node, edits = _specialised(editor, base, more)
            return _Premise(supposed(editor, spoken(node)), edits)


def _loosened(editor: Editor, statement: Clause, base: Clause, more: int) -> _Premise | None:
    """The base made less specific in one part and more specific in others.

    Where the base contradicts the statement, its definite noun phrases and contrary verbs stay: the same thing would
    still be said of the same man if he were called a person.
    """
    blocked = set()
    if base is not statement:
        blocked = {role for role in ("subject", "object") if definite(getattr(base, role))}
        if base.verb is not statement.verb:
            blocked.add("verb")
    looser = editor.generalise(base, blocked)
    if looser is None:
        return None
    part = looser.slot.partition(" ")[0]
    node, edits = _specialised(editor, looser.node, more, {part, f"{part} determiner"})
    dropped = _nouns(base) - _nouns(looser.node)
    if dropped & _nouns(node):
        return None
    return _said(editor, node, (looser.name, *edits))


def _specialised(
    editor: Editor, node: Clause, times: int, blocked: Collection[str] = ()
) -> tuple[Clause, tuple[str, ...]]:
    """The sentence made more specific up to some times, with the names of the edits.

    A noun phrase's determiner changes once, and only where the rest of the phrase has stayed: "every old man" says
    nothing of "the man".
    """
    avoid = set(blocked)
    names: list[str] = []
    for _ in range(times):
        edit = editor.specialise(node, avoid)
        if edit is None:
            break
        node = edit.node
        names.append(edit.name)
        part, _, of_determiner = edit.slot.partition(" ")
        avoid |= {part, edit.slot} if of_determiner else {f"{part} determiner"}
    return node, tuple(names)


def _said(editor: Editor, node: Clause, edits: tuple[str, ...]) -> _Premise:
    """The premise, perhaps in another order or the passive, or known or with a reason."""
    if editor.choices.chance(_KNOWN):
        return _Premise(known(editor, spoken(node)), edits)
    return _Premise(_rendered(editor, node), edits)


def _rendered(editor: Editor, node: Clause) -> Clause:
    """The sentence, perhaps in the passive or with its place first; both mean the same."""
    if editor.choices.chance(_PASSIVE):
        return spoken(passive(node))
    return spoken(with_place_first(node) if editor.choices.chance(_FRONTED) else node)


def _nouns(node: Clause) -> set[Noun]:
    return {part.noun for part in walk(node) if isinstance(part, NounPhrase)}


PREMISES: Mapping[str, Callable[[Editor, Clause], _Premise | None]] = {
    "entailment": _entailing,
    "neutral": _neutral,
    "contradiction": _contradicting,
}


def write_inference(directory: Path, seed: int = 1) -> None:
    """Writes ``{train,dev,test}.tsv`` and ``test.part``, each file whole or not at all.

    A line is premise, hypothesis and label, separated by tabs; ``test.part`` has a line per test pair: ``seen`` or
    ``novel``.

    Args:
        directory: Where to; it is made if it is not there.
        seed: The seed of the pairs.
    """
    for name, pairs in inference(seed).items():
        write_text(directory / f"{name}.tsv", lines(f"{p.premise}\t{p.hypothesis}\t{p.label}" for p in pairs))
        if name == "test":
            write_text(directory / "test.part", lines(pair.part for pair in pairs))
