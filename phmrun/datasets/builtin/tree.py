"""The abstract syntax of a sentence, common to all its linearisations.

A sentence is a tree of typed nodes that hold lexical entries and features, no word forms and no word order. Each
linearisation (English, German, …) turns it into words; every word names the node that it belongs to and its relation in
that node, and one word of a node has the relation ``HEAD``. A phrase and a coordination have no head word of their own
(``HEAD_ROLES``). So dependency trees, agreement items and paraphrases follow from the one tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from phmrun.datasets.builtin.lexicon import Adjective, Noun, Verb, Word

HEAD = "head"


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun: person ``"1s"`` to ``"3p"``; gender and antecedent matter in the third person."""

    person: str
    gender: str = ""  # of the English pronoun: m he, f she, n it
    antecedent: Noun | None = None  # the noun that "it" stands for: its gender is the German pronoun's
    polite: bool = False  # you: Sie


@dataclass(frozen=True, slots=True, eq=False)
class RelativePronoun:
    """The gap of a relative clause, filled by a pronoun that agrees with the noun it belongs to."""

    noun: Noun
    plural: bool


@dataclass(frozen=True, slots=True, eq=False)
class Interrogative:
    """``who`` or ``what``; "which book" is a noun phrase with the determiner ``which``."""

    word: str


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A proper name, perhaps after a title: "Anna", "Mr Weber"."""

    word: Word
    title: Word | None = None
    gender: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class NounPhrase:
    """A noun with its determiner and modifiers.

    ``determiner`` is its English form in the singular, ``""`` for none, ``"owner"`` when ``possessor`` fills its place.
    """

    noun: Noun
    plural: bool
    determiner: str
    adjectives: tuple[Adjective, ...] = ()
    numeral: Word | None = None
    possessor: "Nominal | None" = None
    complement: "NounPhrase | None" = None  # "the bank of the river"
    modifier: "Phrase | None" = None  # "the key on the table"
    relative: "Clause | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Coordination:
    """Two nominals joined by "and"; it is plural."""

    first: "Nominal"
    second: "Nominal"


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """A preposition in each language, the case that the German one governs here, and its nominal."""

    english: str
    german: str
    case: str
    nominal: "Nominal"
    kind: str  # place, direction, instrument, object, attribute, agent


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb or a fixed adverbial phrase; ``word.kind`` is its kind: time, frequency or manner."""

    word: Word


@dataclass(frozen=True, slots=True, eq=False)
class Predicate:
    """A predicative adjective, perhaps compared with a nominal: "older than the tree"."""

    adjective: Adjective
    than: "Nominal | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    """A verb with its roles, features and adjuncts.

    ``kind`` is main, question, embedded (verb-final in German) or infinitive. ``tense`` is present, past, perfect,
    pluperfect, future or progressive (present where ``modal`` is given; "ing": an English infinitive in -ing). In the
    passive the patient is the ``subject``. ``front`` is the constituent that stands first. ``gap`` is, in a relative
    clause, the role of the constituent that holds the relative pronoun ("owner": inside the subject).
    """

    verb: Verb
    kind: str
    tense: str
    subject: "Nominal"
    modal: str = ""
    passive: bool = False
    negated: bool = False
    object: "Nominal | None" = None
    indirect: "Nominal | None" = None
    to_dative: bool = False  # "gives the book to the man" rather than "gives the man the book"
    phrase: Phrase | None = None
    predicate: Predicate | None = None
    complement: "Clause | None" = None
    adverbs: tuple[Adverb, ...] = ()
    adjuncts: tuple[Phrase, ...] = ()
    conjunction: Word | None = None  # of an embedded clause
    adverbial: "Clause | None" = None  # a subordinate clause
    adverbial_first: bool = False
    coordinated: "Clause | None" = None  # "and closes the door": the subject is not repeated
    front: "Nominal | Phrase | Adverb | None" = None
    gap: str = ""
    elided: bool = False  # the subject is not said: the second of two coordinated clauses
    address: "Nominal | None" = None  # "Anna, can you …?"


Nominal: TypeAlias = Pronoun | RelativePronoun | Interrogative | Name | NounPhrase | Coordination
Node: TypeAlias = Nominal | Phrase | Adverb | Predicate | Clause

ROLES: dict[type, tuple[str, ...]] = {
    NounPhrase: ("possessor", "complement", "modifier", "relative"),
    Coordination: ("first", "second"),
    Phrase: ("nominal",),
    Predicate: ("than",),
    Clause: (
        *("subject", "indirect", "object", "phrase", "predicate", "complement"),
        *("adverbs", "adjuncts", "adverbial", "coordinated", "address"),
    ),
}


# The role whose head word is the head of a node that has none of its own.
HEAD_ROLES: dict[type, str] = {Phrase: "nominal", Coordination: "first"}


def children(node: Node) -> Iterator[tuple[str, Any]]:
    """The nodes below a node with their roles; a subject that is not said is not among them."""
    for role in ROLES.get(type(node), ()):
        value = getattr(node, role)
        if value is None or (role == "subject" and getattr(node, "elided", False)):
            continue
        if isinstance(value, tuple):
            for item in value:
                yield role, item
        else:
            yield role, value


def walk(node: Node) -> Iterator[Any]:
    """A node and all nodes below it, parents first."""
    yield node
    for _, child in children(node):
        yield from walk(child)


class Token(NamedTuple):
    """A word of a linearisation: its form, the node that it belongs to, and its relation to that node's head word."""

    form: str
    node: Any
    relation: str


def is_pronoun(nominal: "Nominal | None") -> bool:
    """Whether a nominal is a personal pronoun."""
    return isinstance(nominal, Pronoun)


def person_of(nominal: "Nominal") -> str:
    """Person and number for agreement: ``"1s"`` to ``"3p"``."""
    match nominal:
        case Pronoun():
            return nominal.person
        case NounPhrase() | RelativePronoun():
            return "3p" if nominal.plural else "3s"
        case Coordination():
            return (
                "1p" if any(is_pronoun(n) and person_of(n) == "1s" for n in (nominal.first, nominal.second)) else "3p"
            )
        case _:
            return "3s"


def detokenise(tokens: list[Token], final: str) -> str:
    """The sentence as text: commas closed up and never doubled, a capital first, ``final`` punctuation last."""
    text = ""
    for token in tokens:
        if token.form == ",":
            if text and not text.endswith(","):
                text += ","
        else:
            text += f" {token.form}" if text else token.form
    text = text.rstrip(",")
    return text[:1].upper() + text[1:] + final


def animate(nominal: Nominal) -> bool:
    """Whether a nominal names a person or an animal."""
    noun = getattr(nominal, "noun", None) or getattr(nominal, "antecedent", None)
    if noun is not None:
        return noun.person or "animal" in noun.classes
    return True


def reference(nominal: Nominal) -> str:
    """What a nominal stands for, roughly, so that no one sees himself."""
    match nominal:
        case Pronoun():
            return nominal.person + nominal.gender
        case NounPhrase() | RelativePronoun():
            return nominal.noun.english
        case Name():
            return nominal.word.english
        case _:
            return "coordination"
