"""What each word of an English sentence is: lemma, universal tag, Penn Treebank tag and morphological features.

Tags and features are those of the English treebanks of Universal Dependencies 2.

Source: https://universaldependencies.org/u/pos/, https://universaldependencies.org/u/feat/
"""

from typing import Any, NamedTuple

from phmrun.datasets.builtin.english import MODALS, verb_chain
from phmrun.datasets.builtin.morphology_english import PERSONAL
from phmrun.datasets.builtin.tree import (
    HEAD,
    Adverb,
    Clause,
    Interrogative,
    NounPhrase,
    Predicate,
    Pronoun,
    RelativePronoun,
    person_of,
)


class Tag(NamedTuple):
    """Columns LEMMA, UPOS, XPOS and FEATS of a word; no features are an underscore."""

    lemma: str
    upos: str
    xpos: str
    feats: str = "_"


PREPOSITIONS = ("to", "for")  # among the particles of verbs: "listen to", "look for"
QUANTIFIERS = ("many", "few", "several")  # adjectives in Universal Dependencies
_PERSONS = {
    **{"1s": "Number=Sing|Person=1", "2s": "Number=Sing|Person=2", "1p": "Number=Plur|Person=1"},
    **{"2p": "Number=Plur|Person=2", "3p": "Number=Plur|Person=3", "3s": "Number=Sing|Person=3"},
}
_GENDERS = {"m": "Masc", "f": "Fem", "n": "Neut"}
_DETERMINERS = {
    **{"the": "Definite=Def|PronType=Art", "a": "Definite=Ind|PronType=Art", "an": "Definite=Ind|PronType=Art"},
    **{"this": "Number=Sing|PronType=Dem", "that": "Number=Sing|PronType=Dem", "no": "PronType=Neg"},
    **{"these": "Number=Plur|PronType=Dem", "those": "Number=Plur|PronType=Dem", "every": "PronType=Tot"},
    **{"all": "PronType=Tot", "both": "PronType=Tot", "some": "PronType=Ind"},
}
_SMALL = {
    **{"and": Tag("and", "CCONJ", "CC"), "not": Tag("not", "PART", "RB", "Polarity=Neg")},
    **{"'s": Tag("'s", "PART", "POS"), "'": Tag("'s", "PART", "POS"), ",": Tag(",", "PUNCT", ",")},
    **{".": Tag(".", "PUNCT", "."), "?": Tag("?", "PUNCT", ".")},
}
_VERB_FORMS = {
    "base": ("VB", "VerbForm=Inf"),
    "to": ("VB", "VerbForm=Inf"),
    "participle": ("VBN", "Tense=Past|VerbForm=Part"),
    "ing": ("VBG", "Tense=Pres|VerbForm=Part"),
    "gerund": ("VBG", "VerbForm=Ger"),
    "modal": ("MD", "Mood=Ind|VerbForm=Fin"),
}
_ADVERB_TAGS = {
    **dict.fromkeys(("in", "on", "at", "for"), ("ADP", "IN", "_")),
    **{"the": ("DET", "DT", "Definite=Def|PronType=Art"), "a": ("DET", "DT", "Definite=Ind|PronType=Art")},
    **{"every": ("DET", "DT", "PronType=Tot"), "two": ("NUM", "CD", "NumType=Card")},
    **dict.fromkeys(("last", "next", "long"), ("ADJ", "JJ", "Degree=Pos")),
    **dict.fromkeys(
        (
            *("morning", "evening", "afternoon", "night", "noon", "weekend", "spring", "summer", "autumn", "winter"),
            *("today", "yesterday", "tomorrow", "day", "week", "year", "time"),
        ),
        ("NOUN", "NN", "Number=Sing"),
    ),
    **dict.fromkeys(
        (
            *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
            *("January", "May", "July", "October"),
        ),
        ("PROPN", "NNP", "Number=Sing"),
    ),
}  # the words of fixed adverbial phrases; all others are adverbs


def tag(form: str, node: Any, relation: str, deprel: str, place: int) -> Tag:
    """The lemma, tags and features of a word.

    Args:
        form: The word, without the capital of the sentence's first word.
        node: The node of the abstract syntax that it belongs to.
        relation: Its relation in that node.
        deprel: Its relation in the dependency tree.
        place: Of a verb: which one of its clause it is, from 0.
    """
    if form in _SMALL:
        return _SMALL[form]
    if relation in ("aux", HEAD) and isinstance(node, Clause):
        return _verb(form, node, deprel, place)
    if relation == "mark" and isinstance(node, Clause):
        return _mark(form)
    if deprel in ("case", "fixed"):
        return Tag(form, "NOUN", "NN", "Number=Sing") if form == "front" else Tag(form, "ADP", "IN")
    if relation == "compound:prt":
        return _particle(form, deprel)
    match node:
        case Adverb():
            return _adverb(form)
        case Pronoun():
            return _pronoun(form, node, deprel)
        case RelativePronoun() | Interrogative():
            return _question_word(form, "Rel" if isinstance(node, RelativePronoun) else "Int")
        case NounPhrase() if relation != "amod":
            return _of_noun_phrase(form, node, relation)
        case NounPhrase() | Predicate():
            return _adjective(form, node)
        case _:
            return Tag(form, "PROPN", "NNP", "Number=Sing")


def _verb(form: str, node: Clause, deprel: str, place: int) -> Tag:
    """A verb by its place in its clause's chain."""
    if node.kind == "infinitive":
        lemma, wanted = node.verb.english[0], "gerund" if node.tense == "ing" else "base"
    else:
        lemma, wanted = verb_chain(node)[place]
    upos = "AUX" if deprel.startswith("aux") or deprel == "cop" else "VERB"
    lemma = lemma.removesuffix(" to")
    if lemma in MODALS or lemma == "will":
        wanted = "modal"
    if wanted == "past":
        return Tag(lemma, upos, "VBD", "Mood=Ind|Tense=Past|VerbForm=Fin")
    if wanted == "present":
        third = person_of(node.subject) == "3s"
        number = "Number=Sing|Person=3|" if third else "Number=Sing|Person=1|" if form == "am" else ""
        return Tag(lemma, upos, "VBZ" if third else "VBP", f"Mood=Ind|{number}Tense=Pres|VerbForm=Fin")
    xpos, feats = _VERB_FORMS[wanted]
    passive = node.passive and wanted == "participle" and upos == "VERB"
    return Tag(lemma, upos, xpos, feats + "|Voice=Pass" if passive else feats)


def _mark(form: str) -> Tag:
    """What opens a clause: "to", a conjunction, a question word."""
    if form == "to":
        return Tag(form, "PART", "TO")
    if form in ("when", "why"):
        return Tag(form, "ADV", "WRB", "PronType=Int")
    return Tag(form, "SCONJ", "IN")


def _particle(form: str, deprel: str) -> Tag:
    """The particle of a verb."""
    if deprel == "compound:prt":
        return Tag(form, "ADP", "RP")
    if deprel == "advmod":
        return Tag(form, "ADV", "RB")
    return Tag(form, "ADP", "IN") if form in PREPOSITIONS else Tag(form, "NOUN", "NN", "Number=Sing")


def _adverb(form: str) -> Tag:
    """A word of an adverb or a fixed adverbial phrase."""
    if form in ("where", "when", "why"):
        return Tag(form, "ADV", "WRB", "PronType=Int")
    if form == "days":
        return Tag("day", "NOUN", "NNS", "Number=Plur")
    return Tag(form, *_ADVERB_TAGS.get(form, ("ADV", "RB", "_")))


def _pronoun(form: str, node: Pronoun, deprel: str) -> Tag:
    """A personal or possessive pronoun; only its place tells whether "you" is a subject."""
    key = node.person + node.gender if node.person == "3s" else node.person
    gender = f"Gender={_GENDERS[node.gender]}|" if node.person == "3s" else ""
    if deprel == "nmod:poss":
        return Tag(form, "PRON", "PRP$", f"{gender}{_PERSONS[node.person]}|Poss=Yes|PronType=Prs")
    case = "Nom" if deprel.startswith("nsubj") else "Acc"
    return Tag(PERSONAL[key][0], "PRON", "PRP", f"Case={case}|{gender}{_PERSONS[node.person]}|PronType=Prs")


def _question_word(form: str, kind: str) -> Tag:
    """A relative or interrogative pronoun."""
    if form == "whose":
        return Tag(form, "PRON", "WP$", f"Poss=Yes|PronType={kind}")
    return Tag(
        "who" if form == "whom" else form, "PRON", "WDT" if form in ("that", "which") else "WP", f"PronType={kind}"
    )


def _of_noun_phrase(form: str, node: NounPhrase, relation: str) -> Tag:
    """The noun, a determiner or a number."""
    if relation == HEAD:
        number = ("NNS", "Number=Plur") if node.plural else ("NN", "Number=Sing")
        return Tag(node.noun.english, "NOUN", *number)
    if relation == "nummod":
        return Tag(form, "NUM", "CD", "NumType=Card")
    if form in QUANTIFIERS:
        return Tag(form, "ADJ", "JJ", "Degree=Pos")
    if form == "which":
        return Tag(form, "DET", "WDT", "PronType=Int")
    lemma = {"an": "a", "these": "this", "those": "that"}.get(form, form)
    return Tag(lemma, "DET", "DT", _DETERMINERS[form])


def _adjective(form: str, node: NounPhrase | Predicate) -> Tag:
    """An adjective, perhaps compared."""
    if form == "more":
        return Tag("more", "ADV", "RBR", "Degree=Cmp")
    if isinstance(node, Predicate) and node.than is not None and form != node.adjective.english:
        return Tag(node.adjective.english, "ADJ", "JJR", "Degree=Cmp")
    return Tag(form, "ADJ", "JJ", "Degree=Pos")
