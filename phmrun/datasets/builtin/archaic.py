"""The linearisation of abstract syntax trees in older English, the style of printed plays around 1600.

What differs from modern English: "thou" with -est and the third person in -eth; no "do" in questions and negations
("seest thou", "I know not", "he seeth me not"); the perfect of verbs of motion with "be"; inversion after an adverbial
that stands first; the object before the verb of a subordinate clause; "would" and "was fain to" for wishing, "must
needs" for having to; "many a man"; "'tis"; an adjective after its noun ("an aged man and wise"); and many words, by
their sense. The modern sentence tells all that is needed: "you" is "thou" but to someone with a title, who stays
"you", and to several, who are "ye".
"""

from typing import Any

from phmrun.datasets.builtin import morphology_archaic as morphology
from phmrun.datasets.builtin.archaic_lexicon import ArchaicLexicon, archaic_lexicon
from phmrun.datasets.builtin.lexicon import Adjective
from phmrun.datasets.builtin.morphology_english import article, genitive, ing
from phmrun.datasets.builtin.tree import (
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
    is_pronoun,
    person_of,
)

_DETERMINERS = {"that": "yonder", "every": "each", "several": "divers", "some": "certain"}
_MODALS = ("can", "must", "should", "may", "could")
_MOST_BEFORE_VERB = 3  # words of an object that precedes the verb of a subordinate clause


def sentence_words(tree: Clause) -> list[str]:
    """The words and punctuation marks of a main clause in older English, the first with a capital."""
    words: list[str] = []
    for word in _Linearisation(archaic_lexicon(), _addressed(tree)).clause(tree):
        if word != "," or words[-1] != ",":
            words.append(word)
    if words[-1] == ",":
        words.pop()
    first = words[0][:2].upper() + words[0][2:] if words[0].startswith("'") else words[0][:1].upper() + words[0][1:]
    return [first, *words[1:], "?" if tree.kind == "question" else "."]


def _addressed(tree: Clause) -> str:
    """The pronoun for whom a sentence speaks to."""
    match tree.address:
        case Name() if tree.address.title is not None:
            return "you"
        case NounPhrase():
            return "ye"
        case _:
            return "thou"


class _Linearisation:
    """Puts the nodes of one sentence into words."""

    def __init__(self, lexicon: ArchaicLexicon, you: str) -> None:
        self.lexicon = lexicon
        self.you = you

    def clause(self, node: Clause) -> list[str]:
        """The words of a clause of any kind."""
        words: list[str] = []
        if node.address is not None:
            words += [*self.nominal(node.address, "object"), ","]
        if node.adverbial is not None and node.adverbial_first:
            words += [*self.clause(node.adverbial), ","]
        if node.conjunction is not None:
            words += self.lexicon.word(node.conjunction).split()
        words += self._infinitive(node) if node.kind == "infinitive" else self._finite(node)
        if node.complement is not None:
            words += self.clause(node.complement)
        if node.adverbial is not None and not node.adverbial_first:
            words += self.clause(node.adverbial)
        if node.coordinated is not None:
            words += ["and", *self.clause(node.coordinated)]
        return words

    def _finite(self, node: Clause) -> list[str]:
        """A clause with a finite verb, up to the clauses that follow it."""
        fronted, words = self._front(node)
        subject = [] if fronted is node.subject or node.elided else self.nominal(node.subject, "subject")
        finite, rest = self._verbs(node)
        often = [
            word
            for adverb in node.adverbs
            if adverb.word.kind == "frequency" and adverb is not fronted
            for word in self.lexicon.word(adverb.word).split()
        ]
        early, after = self._objects(node, fronted, simple=not rest)
        denied = ["not"] if node.negated else []
        turned = node.kind == "question" or (isinstance(fronted, Adverb | Phrase) and not node.gap)
        if turned and subject:
            words += [*finite, *subject, *denied, *often]
        elif node.kind == "embedded" and not rest:
            words += [*subject, *early, *often, *finite, *denied]
        elif rest:
            words += [*self._joined(node, subject, finite, not often), *denied, *often]
        else:
            words += [*self._joined(node, [*subject, *often], finite, not often), *early, *denied]
        return [*words, *rest, *after]

    def _joined(self, node: Clause, subject: list[str], finite: list[str], adjacent: bool) -> list[str]:
        """Subject and finite verb; "it is" and "it was" are one word."""
        if adjacent and subject == ["it"] and finite in (["is"], ["was"]):
            return [f"'t{finite[0]}"]
        return [*subject, *finite]

    def _person(self, nominal: Nominal) -> str:
        """The person that a verb agrees with."""
        if isinstance(nominal, Pronoun) and nominal.person[0] == "2":
            return self.you
        if isinstance(nominal, NounPhrase) and _many_a(nominal):
            return "3s"
        return person_of(nominal)

    def _verbs(self, node: Clause) -> tuple[list[str], list[str]]:
        """The finite verb and the verbs after it."""
        person, verb = self._person(node.subject), self.lexicon.verb(node.verb)
        base, past, participle = verb.english
        ending = ["be", participle] if node.passive else [base]
        if node.modal in _MODALS:
            return [morphology.modal(node.modal, person)], ending
        match node.modal:
            case "want to":
                return [morphology.modal("would", person)], ending
            case "wanted to":
                return [morphology.be_past(person)], ["fain", "to", *ending]
            case "had to" if node.negated:
                return [morphology.past("needed", person)], ending
            case "had to":
                return ["must"], ["needs", *ending]
        pasts = {"be": morphology.be_past(person), "have": morphology.past("had", person)}
        done = ["been", participle] if node.passive else [participle]
        moved = node.verb.perfect_with_be and not node.passive and base != "be"
        match node.tense:
            case "future":
                return [morphology.modal("shall" if person in ("1s", "1p") else "will", person)], ending
            case "perfect":
                return [morphology.present("be" if moved else "have", person)], done
            case "pluperfect":
                had = "hadst" if person == "thou" else "had"
                return [pasts["be"] if moved else had], done
            case "progressive":
                return [morphology.present("be", person)], [f"a-{ing(base)}"]
        if node.passive:
            return [pasts["be"] if node.tense == "past" else morphology.present("be", person)], [participle]
        if node.tense == "past":
            return [pasts["be"] if base == "be" else morphology.past(past, person)], []
        return [morphology.present(base, person, past)], []

    def _infinitive(self, node: Clause) -> list[str]:
        base = self.lexicon.verb(node.verb).english[0]
        verb = ["from", ing(base)] if node.tense == "ing" else ["to", base]
        return [*verb, *self._objects(node, None, simple=False)[1]]

    def _front(self, node: Clause) -> tuple[Any, list[str]]:
        """What stands first (besides a subject in its usual place), and its words."""
        if node.gap:
            role = "subject" if node.gap == "owner" else node.gap
            return getattr(node, role), self._gap(node, role)
        fronted = node.front
        match fronted:
            case None:
                return None, []
            case Adverb():
                return fronted, self.lexicon.word(fronted.word).split()
            case Phrase():
                return fronted, self.phrase(fronted)
            case _:
                return fronted, self.nominal(fronted, "subject" if fronted is node.subject else "object")

    def _gap(self, node: Clause, role: str) -> list[str]:
        """The relative pronoun with what governs it."""
        if role == "phrase":
            governed: Any = node.phrase
            words = self._preposition(node, governed)
            return [*words, *self.nominal(governed.nominal, "prepositional" if words else "object")]
        if role == "indirect" and node.verb.frame == "g":
            return ["unto", *self.nominal(getattr(node, role), "prepositional")]
        return self.nominal(getattr(node, role), "subject" if role == "subject" else "object")

    def _objects(self, node: Clause, fronted: Any, *, simple: bool) -> tuple[list[str], list[str]]:
        """The object that precedes the verb or "not", and all that follows: particle, objects, phrases, adverbs."""
        verb = self.lexicon.verb(node.verb)
        particle = verb.english_particle.split()
        early: list[str] = []
        if verb.frame == "g":
            after = self._ditransitive(node, fronted, [word for word in particle if word != "to"])
        else:
            objects = [part for part in (node.indirect, node.object) if part is not None and part is not fronted]
            words = [word for part in objects for word in self.nominal(part, "object")]
            short = len(objects) == 1 and len(words) <= _MOST_BEFORE_VERB and not particle
            first = node.kind == "embedded" or (node.negated and is_pronoun(objects[0] if objects else None))
            if short and simple and first:
                early, after = words, []
            elif verb.particle_after_object and len(words) <= _MOST_BEFORE_VERB:
                after = [*words, *particle]
            else:
                after = [*particle, *words]
        if node.predicate is not None:
            after += self._predicate(node.predicate, node.subject)
        if node.phrase is not None and node.phrase is not fronted:
            after += [*self._preposition(node, node.phrase), *self.nominal(node.phrase.nominal, "prepositional")]
        return early, after + self._trailing(node, fronted)

    def _trailing(self, node: Clause, fronted: Any) -> list[str]:
        """Adverbs of manner, places, times and question words in this order."""
        order = {"manner": 0, "time": 2, "question": 3}
        late = [(order[a.word.kind], a) for a in node.adverbs if a is not fronted and a.word.kind in order]
        trailing = [(rank, self.lexicon.word(adverb.word).split()) for rank, adverb in late]
        trailing += [(1, self.phrase(adjunct)) for adjunct in node.adjuncts if adjunct is not fronted]
        return [word for _, words in sorted(trailing, key=lambda pair: pair[0]) for word in words]

    def _ditransitive(self, node: Clause, fronted: Any, particle: list[str]) -> list[str]:
        direct = self.nominal(node.object, "object") if node.object is not None and node.object is not fronted else []
        if node.indirect is None or node.indirect is fronted:
            return [*direct, *particle]
        indirect = self.nominal(node.indirect, "object")
        if node.to_dative or node.verb.english_particle.endswith("to") or is_pronoun(node.object) or not direct:
            return [*direct, *particle, "unto", *indirect]
        return [*indirect, *direct, *particle]

    def _preposition(self, node: Clause, phrase: Phrase) -> list[str]:
        """The preposition of a verb's own phrase, which may be another one with the older verb."""
        if phrase.kind == "object":
            return self.lexicon.verb(node.verb).english_preposition.split()
        return self.lexicon.preposition(phrase.english, phrase.kind).split()

    def phrase(self, node: Phrase) -> list[str]:
        """A prepositional phrase."""
        return [
            *self.lexicon.preposition(node.english, node.kind).split(),
            *self.nominal(node.nominal, "prepositional"),
        ]

    def _predicate(self, node: Predicate, subject: Nominal) -> list[str]:
        adjective = self._adjective(node.adjective, subject)
        if node.than is None:
            return [adjective.english]
        compared = [adjective.english_comparative] if adjective.english_comparative else ["more", adjective.english]
        return [*compared, "than", *self.nominal(node.than, "object")]

    def _adjective(self, adjective: Adjective, nominal: Nominal) -> Adjective:
        noun = getattr(nominal, "noun", None) or getattr(nominal, "antecedent", None)
        return self.lexicon.adjective(adjective, noun.classes if noun is not None else ("person",))

    def nominal(self, node: Nominal, role: str) -> list[str]:
        """A nominal as ``"subject"``, ``"object"`` or after a preposition (``"prepositional"``)."""
        match node:
            case Pronoun():
                return [self._pronoun(node)[0 if role == "subject" else 1]]
            case RelativePronoun():
                if not node.noun.person:
                    return ["which"]
                return ["that" if role == "subject" else "whom"]
            case Interrogative():
                return ["whom" if node.word == "who" and role != "subject" else node.word]
            case Name():
                return [*([self.lexicon.word(node.title)] if node.title else []), node.word.english]
            case Coordination():
                return [*self.nominal(node.first, role), "and", *self.nominal(node.second, role)]
            case NounPhrase():
                return self._noun_phrase(node)

    def _pronoun(self, node: Pronoun) -> tuple[str, str, str]:
        if node.person[0] == "2":
            return morphology.PERSONAL[self.you]
        return morphology.PERSONAL[node.person + node.gender if node.person == "3s" else node.person]

    def _noun_phrase(self, node: NounPhrase) -> list[str]:
        noun = self.lexicon.noun(node.noun)
        form = noun.english_plural if node.plural and not _many_a(node) else noun.english
        adjectives = [self._adjective(adjective, node).english for adjective in node.adjectives]
        after = [*adjectives[:1], form, *(word for late in adjectives[1:] for word in ("and", late))]
        if node.numeral is not None:
            after.insert(0, node.numeral.english)
        words = [*self._determiner(node, after[0]), *after]
        if node.complement is not None:
            words += ["of", *self._noun_phrase(node.complement)]
        if node.modifier is not None:
            words += self.phrase(node.modifier)
        if node.relative is not None:
            words += self.clause(node.relative)
        return words

    def _determiner(self, node: NounPhrase, following: str) -> list[str]:
        match node.possessor:
            case None:
                if _many_a(node):
                    return ["many", article(following)]
                if node.determiner == "a":
                    return [article(following)]
                if node.determiner == "this" and node.plural:
                    return ["these"]
                return [_DETERMINERS.get(node.determiner, node.determiner)] if node.determiner else []
            case Pronoun():
                return [morphology.possessive(self._pronoun(node.possessor)[2], following)]
            case RelativePronoun():
                return ["whose"]
            case _:
                words = self.nominal(node.possessor, "subject")
                return [*words[:-1], genitive(words[-1])]


def _many_a(node: NounPhrase) -> bool:
    """Whether "many men" becomes "many a man"; not before a relative clause, whose verb is plural."""
    return node.determiner == "many" and node.relative is None
