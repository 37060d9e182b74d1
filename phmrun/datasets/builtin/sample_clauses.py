"""Probabilistic choice of clauses: verbs, tenses, roles, adjuncts and the clauses inside them."""

from dataclasses import replace
from typing import Any

from phmrun.datasets.builtin.choices import Choices
from phmrun.datasets.builtin.lexicon import Adjective, Lexicon, Noun, Verb, Word
from phmrun.datasets.builtin.prepositions import SCHEMES
from phmrun.datasets.builtin.sample_nominals import ADJUNCT_PLACES, PERSON, NominalSampler
from phmrun.datasets.builtin.tree import (
    Adverb,
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    Predicate,
    Pronoun,
    RelativePronoun,
    animate,
    person_of,
    reference,
)
from phmrun.datasets.builtin.verbs_by import VerbIndex

TENSES = (("present", 36), ("past", 28), ("perfect", 12), ("future", 8), ("progressive", 6), ("modal", 15))
MODALS = (
    ("can", 3),
    ("must", 3),
    ("should", 2),
    ("may", 1.5),
    ("want to", 3),
    ("could", 2),
    ("had to", 2),
    ("wanted to", 2),
)
_WILLED = ("want to", "wanted to", "may", "can", "could")
_GAPS = (("subject", 4), ("object", 4), ("indirect", 2), ("phrase", 2.5), ("owner", 3))
_PAST_MODALS = ("could", "had to", "wanted to")
_TARGETS = ("furniture", "container")
_JUMPS = ("furniture", "stream", "top", "height")
_DESTINATIONS = (*ADJUNCT_PLACES, "way", "shore", "sight", "land", "wood", "openable", "sea")
_SHORES = ("shore", "coast", "shore")
_RESTS = ("furniture", "land", "outside", "room")
_HOMES = ("building", "town", "town")

Roles = dict[str, Any]


class ClauseSampler:
    """Draws clauses from the grammar with one stream of choices."""

    def __init__(self, choices: Choices, lexicon: Lexicon, verbs: VerbIndex, nominals: NominalSampler) -> None:
        self.choices = choices
        self.lexicon = lexicon
        self.verbs = verbs
        self.nominals = nominals

    def clause(
        self,
        kind: str,
        *,
        depth: int = 0,
        verb: Verb | None = None,
        tenses: tuple[tuple[str, float], ...] = TENSES,
        roles: Roles | None = None,
        negatable: bool = True,
        passive: bool = True,
        **features: Any,
    ) -> Clause:
        """A clause with all its obligatory parts; ``roles`` are given, the others are drawn.

        Args:
            kind: main, question, embedded or infinitive.
            depth: 0 for the main clause; deeper clauses are simpler.
            verb: The verb, or None to draw one that fits the roles.
            tenses: Weighted tenses ("modal" draws a modal verb).
            roles: Constituents that are already there, by role.
            negatable: Whether the clause may be negated.
            passive: Whether the clause may be passive.
            features: Further fields of the clause.
        """
        choices = self.choices
        given = dict(roles or {})
        verb = verb or self.verbs.draw(choices, given, depth)
        while tenses[0][0] == "pluperfect" and verb.state and "subject" not in given:
            verb = self.verbs.draw(choices, given, depth)  # what happened before: no states
        negated = negatable and choices.chance(self.nominals.habits.negation_share)
        tense = choices.weighted(tenses)
        passive = passive and verb.passive and not given and kind in ("main", "embedded") and choices.chance(0.14)
        if "subject" not in given:
            given["subject"] = self._subject(verb, passive, plain=negated, depth=depth)
        told = passive or negated or kind == "question"  # an auxiliary tells the tense of "put"
        tense = _settled(tense, tenses, verb, given["subject"], passive, told)
        modal = self._modal(verb, given["subject"], passive, tenses) if tense == "modal" else ""
        if verb.frame in ("be", "become", "look") and "predicate" not in given:
            changing = verb.frame == "become" or tense in ("pluperfect", "future")
            given["predicate"] = self._predicate(verb, given["subject"], depth, changing)
        self._objects(verb, given, passive, negated, depth)
        self._places(verb, given)
        result = Clause(
            verb=verb,
            kind=kind,
            tense="present" if modal else tense,
            modal=modal,
            passive=passive,
            negated=negated,
            **(given | features),
        )
        result = self._with_complement(result, depth)
        return self._with_adjuncts(result, depth)

    def _modal(self, verb: Verb, subject: Nominal, passive: bool, tenses: tuple[tuple[str, float], ...]) -> str:
        """A modal that fits the subject and the tenses that are allowed."""
        allowed = {tense for tense, _ in tenses}
        willed = not passive and animate(subject)
        options = [
            (modal, weight)
            for modal, weight in MODALS
            if (willed or modal not in _WILLED)
            and ("past" in allowed or modal not in _PAST_MODALS)
            and ("present" in allowed or modal in _PAST_MODALS)
        ]
        return self.choices.weighted(options) if options else "must"

    def _subject(self, verb: Verb, passive: bool, *, plain: bool, depth: int) -> Nominal:
        if verb.frame in ("be", "become"):
            person = verb.frame == "become" or self.choices.chance(0.4)
            classes: tuple[str, ...] = PERSON if person else (self.choices.of(self.verbs.described),)
        else:
            classes = verb.objects if passive else verb.subjects
        subject = self.nominals.nominal(classes, plain=plain, depth=depth)
        return self.with_relative(subject, depth)

    def _predicate(self, verb: Verb, subject: Nominal, depth: int, changing: bool) -> Predicate:
        """An adjective that fits the subject, perhaps compared with a thing of its own kind."""
        choices = self.choices
        said = [adjective.scale for adjective in getattr(subject, "adjectives", ())]
        possible = self.verbs.adjectives_for(subject)
        adjectives = [adjective for adjective in possible if adjective.scale not in said] or possible
        if changing:
            adjectives = [a for a in adjectives if a.english in self.verbs.changing] or adjectives
        adjective: Adjective = choices.of(adjectives)
        comparable = verb.frame == "be" and adjective.has_comparative and isinstance(subject, NounPhrase) and depth < 2
        if comparable and choices.chance(0.22):
            noun: Noun = subject.noun  # type: ignore[union-attr]
            shared = tuple(name for name in noun.classes if name in adjective.classes)
            if len(self.lexicon.nouns_of[shared[0]]) > 1:
                return Predicate(adjective, self.nominals.simple(shared[:1], other=noun))
        return Predicate(adjective)

    def _objects(self, verb: Verb, given: Roles, passive: bool, negated: bool, depth: int) -> None:
        """Draws the objects that the verb's frame asks for, none the same as the subject."""
        if passive:
            return
        frame = verb.frame
        if frame in ("t", "g", "put", "pour") and "object" not in given:
            given["object"] = self._other(given, verb.objects, negated, depth, bare=frame in ("put", "pour"))
        if frame == "d" and "indirect" not in given:
            given["indirect"] = self._other(given, verb.objects, negated, depth, definite=True)
        if frame == "g" and "indirect" not in given:
            given["indirect"] = self._other(given, PERSON, negated, depth + 1, definite=True)
        if frame == "p" and "phrase" not in given:
            inner = self._other(given, verb.objects, negated, depth, definite=True)
            given["phrase"] = self.governed(verb, inner)

    def governed(self, verb: Verb, nominal: Nominal) -> Phrase:
        """The prepositional object of a verb."""
        return Phrase(verb.english_preposition, verb.german_preposition, verb.german_case, nominal, "object")

    def _other(
        self,
        given: Roles,
        classes: tuple[str, ...],
        plain: bool,
        depth: int,
        *,
        bare: bool = False,
        definite: bool = False,
    ) -> Nominal:
        taken = [reference(given[role]) for role in ("subject", "object", "indirect") if role in given]
        while True:
            ambiguous = definite and plain
            drawn = self.nominals.nominal(classes, plain=plain, depth=2 if bare else depth, object_=not ambiguous)
            if reference(drawn) not in taken and not (_first_person(drawn) and any(t[:1] == "1" for t in taken)):
                break
        return drawn if bare else self.with_relative(drawn, depth)

    def _places(self, verb: Verb, given: Roles) -> None:
        """Draws the place that verbs of rest and motion ask for."""
        if "phrase" in given:
            return
        draw, frame = self.nominals, verb.frame
        subject = getattr(given["subject"], "noun", None)
        if frame == "loc":
            given["phrase"] = self._rest(verb, subject)
        elif frame == "dir":
            given["phrase"] = draw.place(_DESTINATIONS, 1, other=subject)
        elif frame == "city":
            given["phrase"] = draw.city(1)
        elif frame == "far":
            given["phrase"] = draw.place(_SHORES, 1, other=subject)
        elif frame == "put0":
            given["phrase"] = draw.place(_JUMPS, 2, other=subject)
        elif frame in ("put", "pour"):
            moved = getattr(given["object"], "noun", None)
            if frame == "pour":
                given["phrase"] = draw_into(draw)
            else:
                heavy = verb.german == "schieben"
                near = self.choices.chance(0.6 if heavy else 0.25)
                where = (("room",), 1) if heavy else (_TARGETS, 2)
                given["phrase"] = draw.near(moved, "acc") if near else draw.place(*where, other=moved)

    def _rest(self, verb: Verb, subject: Noun | None) -> Phrase:
        draw = self.nominals
        if verb.german == "wohnen" and self.choices.chance(0.4):
            return draw.city(0)
        if verb.german == "wohnen":
            return draw.place(_HOMES, 0, other=subject)
        if verb.german == "leben":
            return draw.place(("wood", "land", "outside"), 0, other=subject)
        if self.choices.chance(0.25):
            return draw.near(subject, "dat")
        if subject is not None and "building" in subject.classes:
            return draw.place(("town", "outside"), 0, other=subject)
        classes = _RESTS if verb.german in ("liegen", "sitzen") else ADJUNCT_PLACES
        return draw.place(classes, 0, other=subject)

    def with_relative(self, nominal: Nominal, depth: int) -> Nominal:
        """The nominal, now and then with a relative clause."""
        if not isinstance(nominal, NounPhrase) or depth > 0 or nominal.modifier or nominal.complement:
            return nominal
        if isinstance(nominal.possessor, NounPhrase) or not self.choices.chance(0.2):
            return nominal
        relative = self.relative(nominal)
        return replace(nominal, relative=relative) if relative else nominal

    def relative(self, host: NounPhrase) -> Clause | None:
        """A relative clause on a noun phrase, or None where the drawn gap does not suit the noun."""
        noun, pronoun = host.noun, RelativePronoun(host.noun, host.plural)
        gap = self.choices.weighted(_GAPS)
        if gap == "owner":
            if not (noun.person or "animal" in noun.classes):
                return None
            owned = self.nominals.noun(("kin", "own", "clothes", "pet") if noun.person else ("prey",))
            if noun.person is False or owned is noun:
                return None
            verb = self.verbs.for_subject(self.choices, owned, ("i", "be"))
            plural = not owned.mass and self.choices.chance(0.3)
            fits = self.nominals.adjectives(owned, 0.2)
            subject = NounPhrase(owned, plural, "owner", fits, possessor=pronoun)
            if verb is None or (verb.frame == "be" and not self.verbs.adjectives_for(subject)):
                return None
            return self.clause("embedded", depth=1, verb=verb, roles={"subject": subject}, gap="owner")
        verb = self.verbs.for_gap(self.choices, noun, gap)
        if verb is None:
            return None
        filler: Nominal | Phrase = pronoun
        if gap == "phrase":
            if verb.frame == "p":
                filler = self.governed(verb, pronoun)
            elif noun.scheme and "place" not in noun.classes:
                relation = SCHEMES[noun.scheme].location
                filler = Phrase(relation.english, relation.german, relation.case, pronoun, "place")
            else:
                return None
        clause = self.clause(
            "embedded", depth=1, verb=verb, roles={gap: filler}, gap=gap, passive=False, to_dative=gap == "object"
        )
        return None if reference(clause.subject) == reference(host) and gap != "subject" else clause

    def _with_complement(self, node: Clause, depth: int) -> Clause:
        """Adds the clause that the verb asks for."""
        frame, choices = node.verb.frame, self.choices
        if frame in ("that", "whether", "wh"):
            past = node.tense in ("past", "pluperfect") or node.modal in _PAST_MODALS
            tenses: tuple[tuple[str, float], ...] = (
                (("past", 5), ("pluperfect", 1.5))
                if past
                else (("present", 5), ("past", 3), ("future", 2), ("perfect", 2), ("modal", 2))
            )
            kinds = {word.german: word for word in self.lexicon.words["conjunction"]}
            if frame == "wh":
                conjunction: Word = choices.of([w for w in self.lexicon.words["question"] if not w.options])
            else:
                conjunction = kinds["dass" if frame == "that" else "ob"]
            inner = self.clause("embedded", depth=depth + 1, tenses=tenses, conjunction=conjunction)
            return replace(node, complement=inner)
        if frame in ("inf", "ing"):
            verb = self.verbs.draw(choices, {"subject": node.subject}, depth + 2, activity=True)
            inner = self.clause(
                "infinitive",
                depth=depth + 1,
                verb=verb,
                tenses=(("ing" if frame == "ing" else "present", 1),),
                roles={"subject": node.subject},
                negatable=False,
                elided=True,
            )
            return replace(node, complement=inner)
        return node

    def _with_adjuncts(self, node: Clause, depth: int) -> Clause:
        """Adds adverbs of time, frequency and manner, places, instruments and circumstances."""
        choices, verb = self.choices, node.verb
        adverbs: list[Adverb] = []
        adjuncts: list[Phrase] = []
        tense = "modal" if node.modal else node.tense
        if node.modal in _PAST_MODALS:
            tense = "past"
        share = 0.34 if depth == 0 else 0.16
        if node.passive and choices.chance(0.5):
            agent = self.nominals.simple(PERSON, other=getattr(node.subject, "noun", None))
            adjuncts.append(Phrase("by", "von", "dat", agent, "agent"))
        if node.kind != "infinitive" and choices.chance(share):
            lasting = verb.frame == "loc" or (verb.frame == "i" and verb.place)
            fitting = [
                w for w in self.lexicon.words["time"] if tense in w.options and (lasting or "lasting" not in w.options)
            ]
            if fitting and self._passing(node):
                adverbs.append(Adverb(choices.of(fitting)))
        elif depth == 0 and not verb.state and node.kind == "main" and node.complement is None and choices.chance(0.09):
            adjuncts.append(self._circumstance())
        if node.kind != "infinitive" and not (node.negated or node.passive or adverbs) and choices.chance(0.13):
            never = getattr(node.subject, "determiner", "") != "no"
            fitting = [
                w
                for w in self.lexicon.words["frequency"]
                if tense in w.options and (never or "negative" not in w.options)
            ]
            if fitting and self._passing(node):
                adverbs.append(Adverb(choices.of(fitting)))
        acts = (
            not verb.state
            and not node.passive
            and animate(node.subject)
            and verb.frame in ("i", "t", "d", "p", "g", "dir", "put")
        )
        if acts and not node.negated and verb.german not in self.verbs.no_manner and choices.chance(0.13):
            fitting = [w for w in self.lexicon.words["manner"] if verb.frame in w.options]
            if fitting:
                adverbs.append(Adverb(choices.of(fitting)))
        if verb.instruments and not node.passive and choices.chance(0.3):
            tool = self.nominals.simple((verb.instruments,))
            adjuncts.append(Phrase("with", "mit", "dat", tool, "instrument"))
        elif acts and verb.place and node.gap != "phrase" and choices.chance(0.17):
            subject = getattr(node.subject, "noun", None)
            if verb.frame == "i" or not _is_place(node.object):
                adjuncts.append(self.nominals.place(ADJUNCT_PLACES, 0, other=subject))
        return replace(node, adverbs=tuple(adverbs), adjuncts=tuple(adjuncts))

    def _passing(self, node: Clause) -> bool:
        """Whether what the clause says can be so at one time and not at another."""
        if node.predicate is not None:
            return node.predicate.adjective.english in self.verbs.changing and node.predicate.than is None
        return not node.verb.state

    def _circumstance(self) -> Phrase:
        english, german, case, classes = self.choices.of(
            (
                ("because of", "wegen", "gen", "weather"),
                ("during", "während", "gen", "event"),
                ("after", "nach", "dat", "event"),
                ("before", "vor", "dat", "event"),
                ("despite", "trotz", "gen", "weather"),
            )
        )
        return Phrase(english, german, case, self.nominals.simple((classes,)), "time")


def _settled(
    tense: str, tenses: tuple[tuple[str, float], ...], verb: Verb, subject: Nominal, passive: bool, told: bool
) -> str:
    """The drawn tense, or another one where it does not go with the verb or the subject."""
    first = tenses[0][0]
    if tense == "progressive" and (passive or verb.state):
        return "past" if passive else "present"
    if tense in ("modal", "perfect") and verb.frame in ("be", "look"):
        return first
    if tense == "modal" and not passive and not animate(subject):
        tense = first
    if tense == "past" and verb.past_is_present and not told and person_of(subject) != "3s":
        allowed = [name for name, _ in tenses]
        return next((name for name in ("perfect", "pluperfect") if name in allowed), "modal")
    return tense


def draw_into(nominals: NominalSampler) -> Phrase:
    """Into a glass, a cup or a bottle."""
    return Phrase("into", "in", "acc", nominals.simple(("vessel",)), "direction")


def _is_place(nominal: Nominal | None) -> bool:
    return isinstance(nominal, NounPhrase) and bool(nominal.noun.scheme)


def _first_person(nominal: Nominal) -> bool:
    return isinstance(nominal, Pronoun) and nominal.person[0] == "1"
