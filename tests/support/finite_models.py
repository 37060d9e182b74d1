"""Small random worlds in which the sentences of inference pairs are true or false: a check that shares no code.

A world has four entities. Nouns, adjectives and attributes are sets of them, closed under the taxonomy; what happens is
a list of events with a verb, an agent, perhaps a patient, and circumstances. "some" means two or more, numbers three or
more. A definite noun phrase names one entity, the same in both sentences where one noun is as general as the other, and
says that the noun phrase is true of it, also under "not".
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from phmrun.datasets.builtin import english
from phmrun.datasets.builtin.taxonomy import taxonomy
from phmrun.datasets.builtin.tree import Clause, Name, NounPhrase, Predicate, walk

ENTITIES = range(4)
EVENTS = 7
ORDER = taxonomy()


@dataclass(frozen=True)
class Event:
    verb: Any
    agent: int
    patient: int
    circumstances: frozenset[str]


def text(tokens: list[Any]) -> str:
    return " ".join(token.form for token in tokens)


def circumstances(node: Clause) -> set[str]:
    """Manner, time and place of a clause, as they stand there; not the agent of a passive."""
    places = {text(english.phrase(adjunct)) for adjunct in node.adjuncts if adjunct.kind != "agent"}
    return places | {adverb.word.english for adverb in node.adverbs}


class World:
    """One random world for a pair of sentences."""

    def __init__(self, premise: Clause, hypothesis: Clause, seed: int) -> None:
        self.random = random.Random(seed)
        self.share = self.random.choice((0.25, 0.5, 0.8))
        self.facts: dict[tuple[Any, ...], bool] = {}
        nodes = [*walk(premise), *walk(hypothesis)]
        clauses = [node for node in nodes if isinstance(node, Clause)]
        self.nouns = {node.noun for node in nodes if isinstance(node, NounPhrase)} | {ORDER.person}
        self.names = {node.word: self.random.choice(ENTITIES) for node in sorted_names(nodes)}
        self.things = {id(node): entity for node, entity in self.definites(premise, hypothesis)}
        self.adjectives = {node.adjective for node in nodes if isinstance(node, Predicate)}
        self.adjectives |= {
            adjective for node in nodes if isinstance(node, NounPhrase) for adjective in node.adjectives
        }
        verbs = list(dict.fromkeys(node.verb for node in clauses if node.verb.frame in ("i", "t")))
        said = sorted({said for node in clauses for said in circumstances(node)})
        self.events = self.draw_events(verbs, said)

    def definites(self, premise: Clause, hypothesis: Clause) -> list[tuple[NounPhrase, int]]:
        """Every definite noun phrase of subjects and objects with what it names."""
        named: list[tuple[NounPhrase, int]] = []
        for sentence in (hypothesis, premise):
            new = []
            for node in walk(sentence):
                if isinstance(node, NounPhrase) and node.determiner == "the":
                    same = [entity for other, entity in named if ORDER.related(node.noun, other.noun)]
                    new.append((node, same[0] if same else self.random.choice(ENTITIES)))
            named += new
        return named

    def draw_events(self, verbs: list[Any], said: list[str]) -> list[Event]:
        events: list[Event] = []
        for _ in range(self.random.randint(0, EVENTS) if verbs else 0):
            event = Event(
                self.random.choice(verbs),
                self.random.choice(ENTITIES),
                self.random.choice(ENTITIES),
                frozenset(name for name in said if self.random.random() < 0.6),
            )
            if not any(self.excluded(event, other) for other in events):
                events.append(event)
        return events

    @staticmethod
    def excluded(one: Event, other: Event) -> bool:
        """Whether two events cannot both be: no one loves and hates the same person."""
        contrary = other.verb in ORDER.contrary_verbs.get(one.verb, ())
        return contrary and (one.agent, one.patient) == (other.agent, other.patient)

    def fact(self, *key: Any) -> bool:
        if key not in self.facts:
            self.facts[key] = self.random.random() < self.share
        return self.facts[key]

    def is_a(self, noun: Any, entity: int) -> bool:
        if noun is ORDER.person and entity in self.names.values():
            return True
        below = [other for other in ORDER.narrower_nouns.get(noun, ()) if other in self.nouns]
        return any(self.fact("noun", word.english, entity) for word in (noun, *below))

    def has(self, adjective: Any, entity: int) -> bool:
        """An adjective is true of a thing unless a contrary one was drawn that precedes it in the alphabet."""
        listed = ORDER.contrary_adjectives.get(adjective, ())
        contraries = [a for a in listed if a in self.adjectives and a.english < adjective.english]
        drawn = self.fact("adjective", adjective.english, entity)
        return drawn and not any(self.fact("adjective", a.english, entity) for a in contraries)

    def fits(self, phrase: NounPhrase, entity: int) -> bool:
        """Whether a noun with all its modifiers is true of an entity."""
        modifier = phrase.modifier
        return all(
            [
                self.is_a(phrase.noun, entity),
                *(self.has(adjective, entity) for adjective in phrase.adjectives),
                modifier is None or self.fact("attribute", text(english.phrase(modifier)), entity),
                phrase.relative is None or self.does(phrase.relative, entity),
            ]
        )

    def named(self, nominal: Any) -> int | None:
        if isinstance(nominal, Name):
            return self.names[nominal.word]
        return self.things.get(id(nominal))

    def quantified(self, nominal: Any, predicate: Callable[[int], bool]) -> bool:
        """Whether a predicate is true of as many entities as a nominal asks for."""
        entity = self.named(nominal)
        if entity is not None:
            return predicate(entity)
        true = [predicate(entity) for entity in ENTITIES if self.fits(nominal, entity)]
        if nominal.numeral is not None:
            return sum(true) >= 3
        match nominal.determiner:
            case "a" | "any":
                return sum(true) >= 1
            case "some":
                return sum(true) >= 2
            case "every" | "all":
                return all(true)
            case "no":
                return not any(true)
        raise ValueError(nominal.determiner)

    def does(self, node: Clause, agent: int) -> bool:
        """Whether what the verb phrase says, without "not", is true of an agent."""
        if node.coordinated is not None and not self.does(node.coordinated, agent):
            return False
        if node.predicate is not None:
            return self.has(node.predicate.adjective, agent)
        wanted = circumstances(node)
        patients = {
            event.patient
            for event in self.events
            if event.agent == agent
            and (event.verb is node.verb or node.verb in ORDER.broader_verbs.get(event.verb, ()))
            and wanted <= event.circumstances
        }
        if node.object is None:
            return bool(patients)
        return self.quantified(node.object, lambda entity: entity in patients)

    def true(self, node: Clause) -> bool:
        """Whether a sentence is true."""
        if node.complement is not None:
            opaque = self.fact("attitude", english.sentence(node)[:40], node.verb.german)
            factive = node.verb.german in ("wissen", "bemerken", "sehen")
            return (not factive or self.true(node.complement)) and opaque
        if node.adverbial is not None:
            alone = Clause(**{name: getattr(node, name) for name in node.__slots__} | {"adverbial": None})
            side, main = self.true(node.adverbial), self.true(alone)
            assert node.adverbial.conjunction is not None
            return (not side or main) if node.adverbial.conjunction.english == "if" else side and main
        if node.passive:
            agents = [adjunct.nominal for adjunct in node.adjuncts if adjunct.kind == "agent"]
            parts = {"passive": False, "subject": agents[0], "object": node.subject}
            node = Clause(**{name: getattr(node, name) for name in node.__slots__} | parts)
        return self.presupposed(node) and self.quantified(
            node.subject, lambda entity: self.does(node, entity) != node.negated
        )

    def presupposed(self, node: Clause) -> bool:
        """Whether the definite noun phrases of a sentence fit what they name."""
        phrases = [part for part in (node.subject, node.object) if id(part) in self.things]
        return all(self.fits(phrase, self.things[id(phrase)]) for phrase in phrases)

    def admits(self, premise: Clause, hypothesis: Clause) -> bool:
        """Whether what the hypothesis takes for granted, and the premise does not speak of, is so."""
        spoken = [node.noun for node in walk(premise) if isinstance(node, NounPhrase) and node.determiner == "the"]
        for node in walk(hypothesis):
            granted = isinstance(node, NounPhrase) and id(node) in self.things
            if granted and not any(ORDER.related(node.noun, noun) for noun in spoken):
                parts = [part for part in walk(hypothesis) if isinstance(part, Clause) and part.subject is node]
                if (parts or _is_object(hypothesis, node)) and not self.fits(node, self.things[id(node)]):
                    return False
        return True


def _is_object(sentence: Clause, phrase: NounPhrase) -> bool:
    agents = [adjunct.nominal for adjunct in sentence.adjuncts if adjunct.kind == "agent"]
    return sentence.object is phrase or phrase in agents


def sorted_names(nodes: list[Any]) -> list[Name]:
    names = {node.word: node for node in nodes if isinstance(node, Name)}
    return sorted(names.values(), key=lambda name: name.word.english)


def outcomes(
    premise: Clause, hypothesis: Clause, worlds: int, enough: set[tuple[bool, bool]]
) -> set[tuple[bool, bool]]:
    """The pairs of truth values that the sentences take in random worlds; ends early once ``enough`` was met."""
    met: set[tuple[bool, bool]] = set()
    for seed in range(worlds):
        world = World(premise, hypothesis, seed)
        if world.admits(premise, hypothesis):
            met.add((world.true(premise), world.true(hypothesis)))
        if enough <= met:
            break
    return met
