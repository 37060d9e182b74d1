"""The German linearisation of abstract syntax trees."""

from typing import Any

from phmrun.datasets.builtin import morphology_german as morphology
from phmrun.datasets.builtin.tree import (
    HEAD,
    Adverb,
    Clause,
    Coordination,
    Interrogative,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Predicate,
    Pronoun,
    RelativePronoun,
    Token,
    detokenise,
    is_pronoun,
    person_of,
)

_MODALS = {"can": "können", "must": "müssen", "should": "sollen", "may": "dürfen", "want to": "wollen"}
_PAST_MODALS = {"could": "können", "had to": "müssen", "wanted to": "wollen"}

# Order of the middle field; lower stands earlier.
_BEFORE_SUBJECT, _SUBJECT, _ACCUSATIVE_PRONOUN, _DATIVE_PRONOUN, _TIME, _JUST_NOW, _DATIVE, _DEFINITE, _FREQUENCY = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
)
_NOT, _AGENT, _MANNER, _INDEFINITE, _ADJUNCT, _PHRASE, _PREDICATE = 9, 10, 11, 12, 13, 14, 15
_ADVERBS = {"time": _TIME, "frequency": _FREQUENCY, "manner": _MANNER, "question": _TIME}
_ADJUNCTS = {"time": _TIME, "agent": _AGENT, "place": _ADJUNCT, "instrument": _ADJUNCT}


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
    """The words before the finite verb of a main clause or question, and the constituent that they are."""
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
        words = nominal(node.indirect, "dat")
        early = _BEFORE_SUBJECT if _stands_early(node, fronted, words) else _DATIVE_PRONOUN
        parts.append((early if is_pronoun(node.indirect) else _DATIVE, words))
    if node.object is not None and node.object is not fronted:
        indefinite = is_indefinite(node.object)
        kein = negation and indefinite
        negation = negation and not kein
        # A noun with a relative clause is heavy and goes behind the adverbs: "stiehlt oft den Koffer, den …".
        heavy = isinstance(node.object, NounPhrase) and node.object.relative is not None and not node.negated
        late = (_is_new(node.object) and not kein) or heavy
        words = nominal(node.object, "acc", negative=kein)
        early = _BEFORE_SUBJECT if _stands_early(node, fronted, words) else _ACCUSATIVE_PRONOUN
        parts.append((early if is_pronoun(node.object) else _INDEFINITE if late else _DEFINITE, words))
    if negation:
        parts.append((_NOT, [Token("nicht", node, "advmod")]))
    if node.tense == "progressive":
        parts.append((_JUST_NOW, [Token("gerade", node, "advmod")]))
    for adverb in node.adverbs:
        if adverb is not fronted:
            rank = _JUST_NOW if "early" in adverb.word.options else _ADVERBS[adverb.word.kind]
            parts.append((rank, [Token(adverb.word.german, adverb, HEAD)]))
    for adjunct in node.adjuncts:
        if adjunct is not fronted:
            parts.append((_ADJUNCTS[adjunct.kind], phrase(adjunct)))
    if node.phrase is not None and node.phrase is not fronted:
        parts.append((_PHRASE, phrase(node.phrase)))
    if node.predicate is not None:
        parts.append((_PREDICATE, _predicate(node.predicate)))
    return [token for _, words in sorted(parts, key=lambda part: part[0]) for token in words]


def _stands_early(node: Clause, fronted: Any, words: list[Token]) -> bool:
    """Whether a pronoun precedes the subject: "Gestern sah ihn der Mann". Not if it may be the subject."""
    noun_follows = fronted is not node.subject and not node.elided and not is_pronoun(node.subject)
    return node.kind != "embedded" and noun_follows and words[0].form not in ("sie", "es", "Sie")


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


def _is_new(node: Nominal) -> bool:
    """Whether a nominal brings something new, and so stands behind the adverbs: "kauft oft viele Bücher"."""
    return isinstance(node, NounPhrase) and node.determiner in ("", "a", "many", "some", "several", "few")


def is_indefinite(node: Nominal) -> bool:
    """Whether "kein" negates a nominal: it has the article "a" or none at all."""
    return isinstance(node, NounPhrase) and node.determiner in ("a", "") and node.numeral is None


def nominal(node: Nominal, case: str, *, negative: bool = False) -> list[Token]:
    """A nominal in a case; ``negative`` puts "kein" before an indefinite one."""
    match node:
        case Pronoun():
            return [Token(morphology.PERSONAL[_pronoun_key(node)][case], node, HEAD)]
        case RelativePronoun():
            return [Token(morphology.RELATIVE[_gender(node)][case], node, HEAD)]
        case Interrogative():
            return [Token(morphology.INTERROGATIVE[node.word][case], node, HEAD)]
        case Name():
            if node.title is None:
                return [Token(node.word.german, node, HEAD)]
            title = node.title.german if case == "nom" else node.title.options[1]
            return [Token(title, node, "nmod"), Token(node.word.german, node, HEAD)]
        case Coordination():
            und = Token("und", node.second, "cc")
            return [*nominal(node.first, case), und, *nominal(node.second, case)]
        case NounPhrase():
            return noun_phrase(node, case, negative)


def phrase(node: Phrase) -> list[Token]:
    """A prepositional phrase; preposition and article melt ("im") unless a relative clause stresses the article."""
    inner = node.nominal
    tokens = nominal(inner, node.case)
    if isinstance(inner, NounPhrase) and inner.determiner == "the" and inner.relative is None:
        melted = morphology.contracted(node.german, tokens[0].form)
        if node.kind == "object" and tokens[0].form == "das":
            melted = None  # "an das Geheimnis glauben": with verbs only the dative melts
        if melted is not None:
            return [Token(melted, node, "case"), *tokens[1:]]
    return [Token(node.german, node, "case"), *tokens]


def noun_phrase(node: NounPhrase, case: str, negative: bool = False) -> list[Token]:
    """A noun with its determiner and modifiers in a case."""
    gender = _gender(node)
    tokens, declension = _determiner(node, gender, case, negative)
    if node.numeral is not None:
        tokens = [*tokens, Token(node.numeral.german, node, "nummod")]
    for adjective in node.adjectives:
        tokens.append(Token(morphology.adjective_form(adjective, declension, gender, case), node, "amod"))
    tokens.append(Token(morphology.noun_form(node.noun, case, node.plural), node, HEAD))
    if isinstance(node.possessor, NounPhrase):
        tokens += noun_phrase(node.possessor, "gen")
    if node.complement is not None:
        tokens += noun_phrase(node.complement, "gen")
    if node.modifier is not None:
        tokens += phrase(node.modifier)
    if node.relative is not None:
        comma = Token(",", node.relative, "punct")
        tokens += [comma, *clause(node.relative), comma]
    return tokens


def _determiner(node: NounPhrase, gender: str, case: str, negative: bool) -> tuple[list[Token], str]:
    """The words before the adjectives, and the declension of the adjectives."""
    owner = node.possessor
    match owner:
        case None:
            pass
        case Pronoun():
            return [Token(morphology.ein_form(_possessive(owner), gender, case), owner, HEAD)], "mixed"
        case RelativePronoun():
            return [Token(morphology.RELATIVE[_gender(owner)]["gen"], owner, HEAD)], "strong"
        case Name():
            title = [Token(owner.title.options[1], owner, "nmod")] if owner.title else []
            return [*title, Token(morphology.name_genitive(owner.word.german), owner, HEAD)], "strong"
        case _:
            return [Token(morphology.ARTICLE[gender][case], node, "det")], "weak"
    determiner = "no" if negative else node.determiner
    if not determiner:
        return [], "strong"
    form = morphology.determiner_form(determiner, gender, case)
    return [Token(form, node, "det")], morphology.DETERMINERS[determiner][1]


def _gender(node: NounPhrase | RelativePronoun) -> str:
    return "p" if node.plural else node.noun.gender


def _pronoun_key(node: Pronoun) -> str:
    if node.polite:
        return "polite"
    if node.person != "3s":
        return node.person
    return node.person + (node.antecedent.gender if node.gender == "n" and node.antecedent else node.gender)


def _possessive(node: Pronoun) -> str:
    return morphology.POSSESSIVE[_pronoun_key(node)]
