"""The English linearisation of abstract syntax trees."""

from typing import Any

from phmrun.datasets.builtin import morphology_english as morphology
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

# Modals that take a bare infinitive; "want to" and "had to" inflect as verbs do.
MODALS = ("can", "must", "should", "may", "could")
_CONTROL = ("want", "have to")  # these govern an infinitive with "to" and take "do" as full verbs


def sentence(clause_: Clause) -> str:
    """The English sentence of a main clause."""
    return detokenise(clause(clause_), "?" if clause_.kind == "question" else ".")


def clause(node: Clause) -> list[Token]:
    """The words of a clause of any kind."""
    tokens: list[Token] = []
    if node.address is not None:
        tokens += [*nominal(node.address, "object"), Token(",", node, "punct")]
    if node.adverbial is not None and node.adverbial_first:
        tokens += [*clause(node.adverbial), Token(",", node, "punct")]
    if node.conjunction is not None:
        tokens.append(Token(node.conjunction.english, node, "mark"))
    fronted, front_tokens = _front(node)
    tokens += front_tokens
    subject_first = fronted is node.subject
    subject = [] if subject_first or node.elided else nominal(node.subject, "subject")
    if node.kind == "infinitive":
        tokens += _infinitive(node)
    else:
        finite, rest = _verb_group(node)
        if inverted(node):
            tokens += [finite[0], *subject, *finite[1:]]
        else:
            tokens += [*subject, *finite]
        tokens += _with_frequency(node, rest, fronted)
    tokens += _after_verb(node, fronted)
    if node.complement is not None:
        tokens += clause(node.complement)
    if node.adverbial is not None and not node.adverbial_first:
        tokens += clause(node.adverbial)
    if node.coordinated is not None:
        tokens += [Token("and", node.coordinated, "cc"), *clause(node.coordinated)]
    return tokens


def _front(node: Clause) -> tuple[Any, list[Token]]:
    """What stands first (besides a subject in its usual place), and its words."""
    if node.gap:
        role = "subject" if node.gap == "owner" else node.gap
        fronted = getattr(node, role)
        return fronted, _gap(node, role)
    fronted = node.front
    match fronted:
        case None:
            return None, []
        case Adverb():
            return fronted, [Token(fronted.word.english, fronted, HEAD)]
        case Phrase():
            return fronted, phrase(fronted)
        case _:
            return fronted, nominal(fronted, "subject" if fronted is node.subject else "object")


def _gap(node: Clause, role: str) -> list[Token]:
    """The fronted constituent of a relative clause: "who", "for whom", "whose dog"."""
    if role == "phrase":
        governed: Any = node.phrase
        if not governed.english:
            return nominal(governed.nominal, "subject")
        return [Token(governed.english, governed, "case"), *nominal(governed.nominal, "prepositional")]
    if role == "indirect" and node.verb.frame == "g":
        pronoun: Any = node.indirect  # a relative pronoun
        return [Token("to", pronoun, "case"), *nominal(pronoun, "prepositional")]
    return nominal(getattr(node, role), "subject")


def _with_frequency(node: Clause, rest: list[Token], fronted: Any) -> list[Token]:
    """The frequency adverb, then the verbs that follow the first auxiliary."""
    adverbs = [
        Token(adverb.word.english, adverb, HEAD)
        for adverb in node.adverbs
        if adverb.word.kind == "frequency" and adverb is not fronted
    ]
    return [*adverbs, *rest]


def inverted(node: Clause) -> bool:
    """Whether the finite verb precedes the subject."""
    return node.kind == "question" and node.front is not node.subject


def verb_chain(node: Clause) -> list[tuple[str, str]]:
    """The verbs of a finite clause in order, each with the form that it takes.

    Lemmas are those of the dictionary, "have to" among them; forms are present, past, base, to, participle and ing.
    """
    chain = _auxiliaries(node)  # (lemma, form that it asks of the next verb)
    be_main = node.verb.english[0] == "be" and not chain
    no_auxiliary = not chain or chain[0][0] in _CONTROL
    if no_auxiliary and not be_main and (node.negated or inverted(node)):
        chain = [("do", "base"), *chain]
    past = node.tense in ("past", "pluperfect") or node.modal in ("had to", "wanted to")
    forms = ["past" if past else "present", *(following for _, following in chain)]
    return list(zip([*(lemma for lemma, _ in chain), node.verb.english[0]], forms, strict=True))


def _verb_group(node: Clause) -> tuple[list[Token], list[Token]]:
    """The words up to the place of a frequency adverb (an auxiliary and "not"), and the verbs after it."""
    person = person_of(node.subject)
    chain = verb_chain(node)
    last = len(chain) - 1
    tokens = [
        [
            Token(word, node, "mark" if word == "to" else HEAD if index == last else "aux")
            for word in _form(node, lemma, wanted, person)
        ]
        for index, (lemma, wanted) in enumerate(chain)
    ]
    separate = chain[0][0] not in _CONTROL and (last > 0 or chain[0][0] == "be")
    finite = tokens[0] if separate else []
    if node.negated:
        if finite[0].form == "can":
            turned = inverted(node)
            finite = [finite[0]._replace(form="cannot")] if not turned else [*finite, Token("not", node, "advmod")]
        else:
            finite = [*finite, Token("not", node, "advmod")]
    rest = [token for words in (tokens[1:] if separate else tokens) for token in words]
    return finite, rest


def _auxiliaries(node: Clause) -> list[tuple[str, str]]:
    """The auxiliaries in order, each with the form that it asks of the next verb."""
    chain: list[tuple[str, str]] = []
    if node.modal in MODALS:
        chain.append((node.modal, "base"))
    elif node.modal:
        chain.append(({"want to": "want", "wanted to": "want", "had to": "have to"}[node.modal], "to"))
    elif node.tense == "future":
        chain.append(("will", "base"))
    elif node.tense in ("perfect", "pluperfect"):
        chain.append(("have", "participle"))
    elif node.tense == "progressive":
        chain.append(("be", "ing"))
    if node.passive:
        chain.append(("be", "participle"))
    return chain


def _form(node: Clause, lemma: str, wanted: str, person: str) -> list[str]:
    """The words of one verb of the chain in the wanted form."""
    lemma = "have" if lemma == "have to" else lemma
    if lemma in MODALS or lemma == "will":
        return [lemma]
    main = lemma == node.verb.english[0]
    match wanted:
        case "present":
            return [morphology.present(lemma, person)]
        case "past":
            auxiliary = {"do": "did", "have": "had", "want": "wanted", "be": morphology.be_past(person)}
            return [morphology.past(node.verb, person) if main else auxiliary[lemma]]
        case "participle":
            return [node.verb.english[2] if main else {"be": "been", "have": "had"}[lemma]]
        case "ing":
            return [morphology.ing(lemma)]
        case "to":
            return ["to", lemma]
        case _:
            return [lemma]


def _infinitive(node: Clause) -> list[Token]:
    base = node.verb.english[0]
    negation = [Token("not", node, "advmod")] if node.negated else []
    if node.tense == "ing":
        return [*negation, Token(morphology.ing(base), node, HEAD)]
    return [*negation, Token("to", node, "mark"), Token(base, node, HEAD)]


def _after_verb(node: Clause, fronted: Any) -> list[Token]:
    """Particle, objects, complements and adjuncts in the English order."""
    verb = node.verb
    particle = [Token(word, node, "compound:prt") for word in verb.english_particle.split()]
    if verb.frame == "g":
        tokens = _ditransitive(node, fronted, [token for token in particle if token.form != "to"])
    else:
        objects = [part for part in (node.indirect, node.object) if part is not None and part is not fronted]
        words = [token for part in objects for token in nominal(part, "object")]
        after = verb.particle_after_object and objects and (is_pronoun(objects[0]) or len(words) <= 3)
        tokens = [*words, *particle] if after else [*particle, *words]
    if node.predicate is not None:
        tokens += predicate(node.predicate)
    if node.phrase is not None and node.phrase is not fronted:
        tokens += phrase(node.phrase)
    order = {"manner": 0, "time": 2, "question": 3}
    late = [(order[a.word.kind], a) for a in node.adverbs if a is not fronted and a.word.kind in order]
    trailing = [(rank, [Token(adverb.word.english, adverb, HEAD)]) for rank, adverb in late]
    trailing += [(1, phrase(adjunct)) for adjunct in node.adjuncts if adjunct is not fronted]
    for _, words in sorted(trailing, key=lambda pair: pair[0]):
        tokens += words
    return tokens


def _ditransitive(node: Clause, fronted: Any, particle: list[Token]) -> list[Token]:
    direct = nominal(node.object, "object") if node.object is not None and node.object is not fronted else []
    if node.indirect is None or node.indirect is fronted:
        return [*direct, *particle]
    indirect = nominal(node.indirect, "object")
    needs_to = node.verb.english_particle.endswith("to") or is_pronoun(node.object) or not direct
    if node.to_dative or needs_to:
        return [*direct, *particle, Token("to", node.indirect, "case"), *indirect]
    return [*indirect, *direct, *particle]


def predicate(node: Predicate) -> list[Token]:
    """A predicative adjective: "old", "older than the tree"."""
    if node.than is None:
        return [Token(node.adjective.english, node, HEAD)]
    words = morphology.comparative(node.adjective)
    tokens = [Token(word, node, HEAD if word == words[-1] else "advmod") for word in words]
    return [*tokens, Token("than", node.than, "case"), *nominal(node.than, "object")]


def phrase(node: Phrase) -> list[Token]:
    """A prepositional phrase."""
    case = [Token(word, node, "case") for word in node.english.split()]
    return [*case, *nominal(node.nominal, "prepositional")]


def nominal(node: Nominal, role: str) -> list[Token]:
    """A nominal as ``"subject"``, ``"object"`` or after a preposition (``"prepositional"``)."""
    match node:
        case Pronoun():
            key = node.person + node.gender if node.person == "3s" else node.person
            return [Token(morphology.PERSONAL[key][0 if role == "subject" else 1], node, HEAD)]
        case RelativePronoun():
            if role == "prepositional":
                return [Token("whom" if node.noun.person else "which", node, HEAD)]
            return [Token("who" if node.noun.person else "that", node, HEAD)]
        case Interrogative():
            return [Token(node.word, node, HEAD)]
        case Name():
            title = [Token(node.title.english, node, "nmod")] if node.title else []
            return [*title, Token(node.word.english, node, HEAD)]
        case Coordination():
            return [*nominal(node.first, role), Token("and", node.second, "cc"), *nominal(node.second, role)]
        case NounPhrase():
            return noun_phrase(node)


def noun_phrase(node: NounPhrase) -> list[Token]:
    """A noun with its determiner and modifiers."""
    after = [Token(adjective.english, node, "amod") for adjective in node.adjectives]
    after.append(Token(morphology.noun_form(node.noun, node.plural), node, HEAD))
    if node.numeral is not None:
        after.insert(0, Token(node.numeral.english, node, "nummod"))
    tokens = [*_determiner(node, after[0].form), *after]
    if node.complement is not None:
        tokens += [Token("of", node.complement, "case"), *noun_phrase(node.complement)]
    if node.modifier is not None:
        tokens += phrase(node.modifier)
    if node.relative is not None:
        tokens += clause(node.relative)
    return tokens


def _determiner(node: NounPhrase, following: str) -> list[Token]:
    owner = node.possessor
    match owner:
        case None:
            word = morphology.article(following) if node.determiner == "a" else node.determiner
            return [Token(morphology.determiner_form(word, node.plural), node, "det")] if word else []
        case Pronoun():
            key = owner.person + owner.gender if owner.person == "3s" else owner.person
            return [Token(morphology.PERSONAL[key][2], owner, HEAD)]
        case RelativePronoun():
            return [Token("whose", owner, HEAD)]
        case _:
            words = nominal(owner, "subject")
            return [*words[:-1], words[-1]._replace(form=morphology.genitive(words[-1].form))]
