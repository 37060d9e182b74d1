"""The German linearisation of abstract syntax trees: clauses. Noun phrases are in german_nominals.py."""

from typing import Any

from phmrun.datasets.builtin import morphology_german as morphology
from phmrun.datasets.builtin.german_nominals import is_indefinite, nominal, phrase
from phmrun.datasets.builtin.tree import (
    HEAD,
    Adverb,
    Clause,
    Phrase,
    Predicate,
    Pronoun,
    Token,
    detokenise,
    is_pronoun,
    person_of,
)

_MODALS = {"can": "können", "must": "müssen", "should": "sollen", "may": "dürfen", "want to": "wollen"}
_PAST_MODALS = {"could": "können", "had to": "müssen", "wanted to": "wollen"}

# Order of the middle field; lower stands earlier.
_BEFORE_SUBJECT, _SUBJECT, _ACCUSATIVE_PRONOUN, _DATIVE_PRONOUN, _TIME, _JUST_NOW, _DATIVE, _DEFINITE, _FREQUENCY = 0, 1, 2, 3, 4, 5, 6, 7, 8
_NOT, _AGENT, _MANNER, _INDEFINITE, _ADJUNCT, _PHRASE, _PREDICATE = 9, 10, 11, 12, 13, 14, 15
_ADVERBS = {"time": _TIME, "frequency": _FREQUENCY, "manner": _MANNER, "question": _TIME}


def sentence(node: Clause) -> str:
    """The German sentence of a main clause."""
    return detokenise(clause(node), "?" if node.kind == "question" else ".")


def clause(node: Clause) -> list[Token]:
    """The words of a clause of any kind: verb-second, verb-first or verb-final."""
    comma = Token(",", node, "punct")
    tokens: list[Token] = [*nominal(node.address, "nom"), comma] if node.address is not None else []
    finite, cluster = _verbs(node)
    if node.kind == "embedded":
        fronted, front = _gap(node) if node.gap else (None, [])
        if node.conjunction is not None:
            front = [Token(node.conjunction.german, node, "mark")]
        core = [*front, *_middle_field(node, fronted), *cluster, *finite]
    elif node.kind == "infinitive":
        core = [*_middle_field(node, None), *cluster]
    else:
        first, fronted = _first(node)
        core = [*first, *finite, *_middle_field(node, fronted), *cluster]
    tokens += core
    if node.complement is not None:
        tokens += [comma, *clause(node.complement), comma]
    if node.adverbial is not None and not node.adverbial_first:
        tokens += [comma, *clause(node.adverbial), comma]
    if node.coordinated is not None:
        tokens += [Token("und", node.coordinated, "cc"), *clause(node.coordinated)]
    return tokens


def _first(node: Clause) -> tuple[list[Token], Any]:
    """The words before the finite verb of a main clause or question, and the constituent of the clause that they are."""
    if node.adverbial is not None and node.adverbial_first:
        return [*clause(node.adverbial), Token(",", node, "punct")], None
    front = node.front
    if front is None:
        if node.kind == "question" or node.elided:
            return [], None
        front = node.subject
    match front:
        case Adverb():
            return [Token(front.word.german, front, HEAD)], front
        case Phrase():
            return phrase(front), front
        case _:
            return nominal(front, _case(node, front)), front


def _case(node: Clause, part: Any) -> str:
    """The case of a subject or object."""
    if part is node.object:
        return "acc"
    return "dat" if part is node.indirect else "nom"


def _gap(node: Clause) -> tuple[Any, list[Token]]:
    """The constituent that holds the relative pronoun, and its words."""
    role = "subject" if node.gap == "owner" else node.gap
    fronted = getattr(node, role)
    return fronted, phrase(fronted) if role == "phrase" else nominal(fronted, _case(node, fronted))


def _middle_field(node: Clause, fronted: Any) -> list[Token]:
    """Everything between the finite verb (or the conjunction) and the verbs at the end."""
    parts: list[tuple[int, list[Token]]] = []
    negation = node.negated
    if fronted is not node.subject and not node.elided:
        parts.append((_SUBJECT, nominal(node.subject, "nom")))
    if node.verb.reflexive:
        # Before a noun, after a pronoun: "Gestern beeilte sich der Mann", "Gestern beeilte er sich".
        before = fronted is not node.subject and not node.elided and not is_pronoun(node.subject)
        reflexive = Token(morphology.REFLEXIVE[_reflexive_person(node)], node, "expl")
        parts.append((_BEFORE_SUBJECT if before else _ACCUSATIVE_PRONOUN, [reflexive]))
    if node.indirect is not None and node.indirect is not fronted:
        parts.append((_DATIVE_PRONOUN if is_pronoun(node.indirect) else _DATIVE, nominal(node.indirect, "dat")))
    if node.object is not None and node.object is not fronted:
        indefinite = is_indefinite(node.object)
        kein = negation and indefinite
        negation = negation and not kein
        rank = _ACCUSATIVE_PRONOUN if is_pronoun(node.object) else _INDEFINITE if indefinite else _DEFINITE
        parts.append((rank, nominal(node.object, "acc", negative=kein)))
    if negation:
        parts.append((_NOT, [Token("nicht", node, "advmod")]))
    if node.tense == "progressive":
        parts.append((_JUST_NOW, [Token("gerade", node, "advmod")]))
    for adverb in node.adverbs:
        if adverb is not fronted:
            parts.append((_ADVERBS[adverb.word.kind], [Token(adverb.word.german, adverb, HEAD)]))
    for adjunct in node.adjuncts:
        if adjunct is not fronted:
            parts.append((_AGENT if adjunct.kind == "agent" else _ADJUNCT, phrase(adjunct)))
    if node.phrase is not None and node.phrase is not fronted:
        parts.append((_PHRASE, phrase(node.phrase)))
    if node.predicate is not None:
        parts.append((_PREDICATE, _predicate(node.predicate)))
    return [token for _, words in sorted(parts, key=lambda part: part[0]) for token in words]


def _reflexive_person(node: Clause) -> str:
    subject = node.subject
    return "3p" if isinstance(subject, Pronoun) and subject.polite else person_of(subject)


def _predicate(node: Predicate) -> list[Token]:
    if node.than is None:
        return [Token(node.adjective.german, node, HEAD)]
    return [
        Token(node.adjective.german_comparative, node, HEAD),
        Token("als", node.than, "case"),
        *nominal(node.than, "nom"),
    ]


def _verbs(node: Clause) -> tuple[list[Token], list[Token]]:
    """The finite verb and the verbs at the end; in a verb-final clause with one verb its particle is joined to it."""
    verb = node.verb
    infinitive = morphology.infinitive(verb)
    if node.kind == "infinitive":
        words = morphology.zu_infinitive(verb)
        return [], [Token(word, node, HEAD if word == words[-1] else "mark") for word in words]
    person = "3p" if isinstance(node.subject, Pronoun) and node.subject.polite else person_of(node.subject)
    main = [Token(morphology.participle(verb) if node.passive else infinitive, node, HEAD)]
    if node.passive and (node.modal or node.tense == "future"):
        main.append(Token("werden", node, "aux"))
    if node.modal:
        past = node.modal in _PAST_MODALS or node.modal == "should"
        # "must not" forbids: darf nicht. "muss nicht" would be "need not".
        lemma = "dürfen" if node.modal == "must" and node.negated else (_PAST_MODALS | _MODALS)[node.modal]
        form = morphology.preterite(lemma, person) if past else morphology.present(lemma, person)
        return [Token(form, node, "aux")], main
    match node.tense, node.passive:
        case "future", _:
            return [Token(morphology.present("werden", person), node, "aux")], main
        case ("perfect" | "pluperfect") as tense, passive:
            auxiliary = "sein" if verb.perfect_with_be or passive else "haben"
            inflect = morphology.present if tense == "perfect" else morphology.preterite
            participle = [Token(morphology.participle(verb), node, HEAD)]
            if passive:
                participle.append(Token("worden", node, "aux"))
            return [Token(inflect(auxiliary, person), node, "aux")], participle
        case "past", True:
            return [Token(morphology.preterite("werden", person), node, "aux")], main
        case _, True:
            return [Token(morphology.present("werden", person), node, "aux")], main
        case tense, _:
            inflect_verb = morphology.preterite if tense == "past" else morphology.present
            form = inflect_verb(verb, person)
            if not verb.german_particle:
                return [Token(form, node, HEAD)], []
            if node.kind == "embedded":
                return [Token(verb.german_particle + form, node, HEAD)], []
            return [Token(form, node, HEAD)], [Token(verb.german_particle, node, "compound:prt")]
