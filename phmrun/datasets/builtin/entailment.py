"""Edits of a sentence whose logical effect is known: the calculus that inference pairs are made with.

A part of a sentence is *narrowed* (an adjective, a relative clause, a place is added, "animal" becomes "dog", "a"
becomes "the") or *widened*, the reverse. Whether the sentence then says more or less depends on the part's polarity:

=====================  =====================================================================================
part                   polarity
=====================  =====================================================================================
subject's noun phrase  up after "the", "a", "some" and numbers, down after "every", "all" and "no"
verb phrase            up, but down after "no" and under "not"
object's noun phrase   up after "the", otherwise that of the verb phrase
=====================  =====================================================================================

Upward, the narrowed sentence entails the old one; downward, the widened one does. Conventions: a definite noun phrase
names the same thing in both sentences where its noun is the same or a more general one, also under "not"; names of
people name people; numbers mean "at least"; both sentences speak of the same time. Adjectives are relative to their
noun ("a big mouse" is no big animal), so a noun with an adjective, or with one said of it, stays as it is.

Source: Valencia (1991), "Studies on natural logic and categorial grammar"; MacCartney and Manning (2009), "An extended
model of natural logic".
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from phmrun.datasets.builtin.choices import Choices
from phmrun.datasets.builtin.lexicon import Adjective, Noun, Verb
from phmrun.datasets.builtin.sample_clauses import ClauseSampler
from phmrun.datasets.builtin.sample_nominals import ADJUNCT_PLACES
from phmrun.datasets.builtin.taxonomy import Taxonomy
from phmrun.datasets.builtin.tree import Adverb, Clause, Name, Nominal, NounPhrase, RelativePronoun, animate
from phmrun.datasets.builtin.verbs_by import fits

UP, DOWN = 1, -1
_SLOTS = (
    *(("subject", 3.0), ("object", 3.0), ("verb", 1.5), ("manner", 1.2), ("time", 1.0), ("place", 1.5)),
    *(("coordinated", 0.7), ("subject determiner", 1.5), ("object determiner", 1.0)),
)
_NOUN_PHRASE = (("noun", 4.0), ("adjective", 4.0), ("modifier", 1.0), ("relative", 1.0))
_MOST_ADJECTIVES = 2


@dataclass(frozen=True, slots=True)
class Edit:
    """An edited sentence.

    Attributes:
        node: The sentence.
        slot: The part that was edited.
        name: What was done where: "adjective/every", "place/negative".
    """

    node: Clause
    slot: str
    name: str


def scope(node: Clause) -> int:
    """The polarity of a clause's verb phrase."""
    return DOWN if node.negated or determiner(node.subject) == "no" else UP


def restriction(node: Clause, role: str) -> int:
    """The polarity of the noun phrase in a role (``"subject"`` or ``"object"``)."""
    kind = determiner(getattr(node, role))
    if kind in ("the", "name"):
        return UP
    if role == "subject":
        return DOWN if kind in ("every", "all", "no") else UP
    return scope(node)


def definite(nominal: Nominal | None) -> bool:
    """Whether a nominal names one thing: a name or a singular with "the"."""
    return determiner(nominal) in ("the", "name")


def determiner(nominal: Nominal | None) -> str:
    """The determiner of a nominal, "name" for a name and "number" for a number."""
    match nominal:
        case Name():
            return "name"
        case NounPhrase():
            return "number" if nominal.numeral is not None else nominal.determiner
        case _:
            return ""


def spoken(node: Clause) -> Clause:
    """The sentence as it is said: after "not" and "no" an object's "some" is "any"."""
    patient = node.object
    if scope(node) == DOWN and isinstance(patient, NounPhrase) and patient.determiner == "some":
        return replace(node, object=replace(patient, determiner="any"))
    return node


def with_nominal(node: Clause, role: str, nominal: Nominal) -> Clause:
    """The clause with another subject or object."""
    return replace(node, subject=nominal) if role == "subject" else replace(node, object=nominal)


class Editor:
    """Edits sentences with one stream of choices."""

    def __init__(self, clauses: ClauseSampler, order: Taxonomy) -> None:
        self.clauses = clauses
        self.order = order
        self.choices: Choices = clauses.choices

    def specialise(self, node: Clause, avoid: Collection[str] = ()) -> Edit | None:
        """A sentence that entails the given one, or None where nothing can be edited.

        Args:
            node: A main clause.
            avoid: Slots that must stay as they are.
        """
        return self._edit(node, avoid, more=True)

    def generalise(self, node: Clause, avoid: Collection[str] = ()) -> Edit | None:
        """A sentence that the given one entails and that does not entail it; otherwise as :meth:`specialise`."""
        return self._edit(node, avoid, more=False)

    def _edit(self, node: Clause, avoid: Collection[str], more: bool) -> Edit | None:
        for slot in self.choices.order(_SLOTS):
            part, _, of_determiner = slot.partition(" ")
            if slot in avoid or (part == "object" and node.object is None):
                continue
            if of_determiner:
                polarity = UP if part == "subject" else scope(node)
                where = determiner(getattr(node, part)) + ("" if polarity == UP else " negative")
                found = self._determiner(node, part, narrow=more == (polarity == UP))
            elif part in ("subject", "object"):
                polarity = restriction(node, part)
                where = determiner(getattr(node, part)) + ("" if part == "subject" or polarity == UP else " negative")
                found = self._noun_phrase(node, part, narrow=more == (polarity == UP))
            else:
                polarity = scope(node)
                where = "positive" if polarity == UP else "negative"
                found = self._verb_phrase(node, part, narrow=more == (polarity == UP))
            if found is not None:
                return Edit(found[1], slot, f"{found[0]}/{where}")
        return None

    def _noun_phrase(self, node: Clause, role: str, narrow: bool) -> tuple[str, Clause] | None:
        phrase = getattr(node, role)
        if not isinstance(phrase, NounPhrase):
            return None
        for kind in self.choices.order(_NOUN_PHRASE):
            change: Callable[[Clause, str, NounPhrase], NounPhrase | None]
            if narrow:
                change = {
                    "adjective": self._with_adjective,
                    "noun": self._with_narrower_noun,
                    "modifier": self._with_modifier,
                    "relative": self._with_relative,
                }[kind]
            else:
                change = {
                    "adjective": self._without_adjective,
                    "noun": self._with_broader_noun,
                    "modifier": self._without_modifier,
                    "relative": self._without_relative,
                }[kind]
            changed = change(node, role, phrase)
            if changed is not None:
                return kind, with_nominal(node, role, changed)
        return None

    def _with_adjective(self, node: Clause, role: str, phrase: NounPhrase) -> NounPhrase | None:
        said = [adjective.scale for adjective in phrase.adjectives]
        if role == "subject" and node.predicate is not None:
            said.append(node.predicate.adjective.scale)
        fitting = [a for a in self.clauses.nominals.fitting(phrase.noun) if a.scale not in said]
        if not fitting or len(phrase.adjectives) >= _MOST_ADJECTIVES:
            return None
        added: Adjective = self.choices.of(fitting)
        return replace(phrase, adjectives=(added, *phrase.adjectives))

    def _without_adjective(self, node: Clause, role: str, phrase: NounPhrase) -> NounPhrase | None:
        if not phrase.adjectives:
            return None
        dropped = self.choices.of(range(len(phrase.adjectives)))
        return replace(phrase, adjectives=tuple(a for i, a in enumerate(phrase.adjectives) if i != dropped))

    def _with_narrower_noun(self, node: Clause, role: str, phrase: NounPhrase) -> NounPhrase | None:
        classes = node.verb.subjects if role == "subject" else node.verb.objects
        narrower = self.order.narrower_nouns.get(phrase.noun, ())
        fitting = [noun for noun in narrower if any(name in classes for name in noun.classes)]
        return self._with_noun(node, role, phrase, fitting)

    def _with_broader_noun(self, node: Clause, role: str, phrase: NounPhrase) -> NounPhrase | None:
        return self._with_noun(node, role, phrase, self.order.broader_nouns.get(phrase.noun, ()))

    def _with_noun(self, node: Clause, role: str, phrase: NounPhrase, nouns: Collection[Noun]) -> NounPhrase | None:
        other = getattr(node.object if role == "subject" else node.subject, "noun", None)
        distinct = [noun for noun in nouns if other is None or not self.order.related(noun, other)]
        judged = role == "subject" and node.predicate is not None
        if not distinct or phrase.adjectives or phrase.relative or judged:
            return None
        return replace(phrase, noun=self.choices.of(distinct))

    def _with_modifier(self, node: Clause, role: str, phrase: NounPhrase) -> NounPhrase | None:
        if phrase.modifier or phrase.relative:
            return None
        modifier = self.clauses.nominals.modifier(phrase.noun, role == "object")
        if modifier is None or (modifier.kind == "place" and node.adjuncts):  # no one is in two places
            return None
        return replace(phrase, modifier=modifier)

    def _without_modifier(self, node: Clause, role: str, phrase: NounPhrase) -> NounPhrase | None:
        return replace(phrase, modifier=None) if phrase.modifier else None

    def _with_relative(self, node: Clause, role: str, phrase: NounPhrase) -> NounPhrase | None:
        if phrase.relative:
            return None
        verb = self.clauses.verbs.for_subject(self.choices, phrase.noun, ("i",))
        if verb is None or self._related(verb, node.verb):
            return None
        relative = self.clauses.clause(
            "embedded",
            depth=2,
            verb=verb,
            tenses=((present_or_past(node), 1.0),),
            roles={"subject": RelativePronoun(phrase.noun, phrase.plural)},
            negatable=False,
            gap="subject",
        )
        return replace(phrase, relative=replace(relative, adverbs=(), adjuncts=()))

    def _without_relative(self, node: Clause, role: str, phrase: NounPhrase) -> NounPhrase | None:
        return replace(phrase, relative=None) if phrase.relative else None

    def _determiner(self, node: Clause, role: str, narrow: bool) -> tuple[str, Clause] | None:
        """Another determiner: "the" is narrower than "a", a number than "some", "every" than "the"."""
        phrase = getattr(node, role)
        kind = determiner(phrase)
        counted = role == "subject" or scope(node) == UP  # "not three" has two readings
        if isinstance(phrase, Name):
            a_person = NounPhrase(self.order.person, False, "a")
            return None if narrow else ("determiner", with_nominal(node, role, a_person))
        if not isinstance(phrase, NounPhrase):
            return None
        changed: NounPhrase | Name | None = None
        negated = node.negated
        if narrow:
            bare = phrase.noun is self.order.person and not (phrase.adjectives or phrase.modifier or phrase.relative)
            if kind == "a":
                changed = self.clauses.nominals.name() if bare else replace(phrase, determiner="the")
            elif kind == "some" and counted:
                number = self.choices.of(self.clauses.lexicon.words["numeral"])
                changed = replace(phrase, determiner="", numeral=number)
            elif kind == "the" and role == "subject" and node.coordinated is None:  # every man sings; no man sings
                changed = replace(phrase, determiner="no" if negated else "every")
                negated = False
        elif kind == "the":
            changed = replace(phrase, determiner="a")
        elif kind == "number" and counted:
            changed = replace(phrase, determiner="some", numeral=None)
        elif kind in ("every", "no") and role == "subject" and not phrase.plural and node.coordinated is None:
            changed = replace(phrase, determiner="the")
            negated = kind == "no"
        if changed is None:
            return None
        return "determiner", replace(with_nominal(node, role, changed), negated=negated)

    def _verb_phrase(self, node: Clause, slot: str, narrow: bool) -> tuple[str, Clause] | None:
        changed: Clause | None
        if slot == "verb":
            changed = self._with_verb(node, narrow)
        elif slot == "coordinated":
            if narrow:
                changed = self.with_second_verb(node)
            else:
                changed = replace(node, coordinated=None) if node.coordinated else None
        elif narrow:
            changed = {"manner": self.with_manner, "time": self.with_time, "place": self.with_place}[slot](node)
        else:
            changed = _without(node, slot)
        return (slot, changed) if changed is not None else None

    def _with_verb(self, node: Clause, narrow: bool) -> Clause | None:
        listed = (self.order.narrower_verbs if narrow else self.order.broader_verbs).get(node.verb, ())
        fitting = [verb for verb in listed if self.suits(verb, node)]
        return replace(node, verb=self.choices.of(fitting)) if fitting else None

    def suits(self, verb: Verb, node: Clause) -> bool:
        """Whether a verb can stand in a clause instead of its own."""
        if verb.state and (node.tense == "progressive" or node.adverbs or node.adjuncts):
            return False
        return fits(verb.subjects, node.subject) and (node.object is None or fits(verb.objects, node.object))

    def _related(self, one: Verb, other: Verb) -> bool:
        """Whether two verbs are the same or one is more general than the other."""
        broader = self.order.broader_verbs
        return one.english == other.english or other in broader.get(one, ()) or one in broader.get(other, ())

    def with_manner(self, node: Clause) -> Clause | None:
        """The clause with an adverb of manner, or None where none fits."""
        verb = node.verb
        acts = not verb.state and animate(node.subject) and verb.german not in self.clauses.verbs.no_manner
        if not acts or any(adverb.word.kind == "manner" for adverb in node.adverbs):
            return None
        fitting = [word for word in self.clauses.lexicon.words["manner"] if verb.frame in word.options]
        return replace(node, adverbs=(*node.adverbs, Adverb(self.choices.of(fitting)))) if fitting else None

    def with_time(self, node: Clause) -> Clause | None:
        """The clause with an adverbial of time, or None where none fits."""
        if node.verb.state or any(adverb.word.kind == "time" for adverb in node.adverbs):
            return None
        times = self.clauses.lexicon.words["time"]
        fitting = [word for word in times if node.tense in word.options and "lasting" not in word.options]
        return replace(node, adverbs=(*node.adverbs, Adverb(self.choices.of(fitting)))) if fitting else None

    def with_place(self, node: Clause) -> Clause | None:
        """The clause with a place, or None where none fits."""
        if node.verb.state or not node.verb.place or node.adjuncts or _placed(node.subject):
            return None
        subject = getattr(node.subject, "noun", None)
        return replace(node, adjuncts=(self.clauses.nominals.place(ADJUNCT_PLACES, 0, other=subject),))

    def with_second_verb(self, node: Clause) -> Clause | None:
        """The clause with a second verb that has the same subject, or None where none fits."""
        plain = node.tense in ("present", "past") and not node.negated and node.predicate is None
        if not plain or node.coordinated or not animate(node.subject):
            return None
        noun = getattr(node.subject, "noun", self.order.person)
        verb = self.clauses.verbs.for_subject(self.choices, noun, ("i",))
        if verb is None or self._related(verb, node.verb):
            return None
        second = self.clauses.clause(
            "main",
            depth=2,
            verb=verb,
            tenses=((node.tense, 1.0),),
            roles={"subject": node.subject},
            negatable=False,
            elided=True,
        )
        return replace(node, coordinated=replace(second, adverbs=(), adjuncts=()))


def present_or_past(node: Clause) -> str:
    """The simple tense that goes with a clause's."""
    return "past" if node.tense == "past" else "present"


def _without(node: Clause, slot: str) -> Clause | None:
    """The clause without its adverb of a kind, or without its place; None where it has none."""
    if slot == "place":
        return replace(node, adjuncts=()) if node.adjuncts else None
    kept = tuple(adverb for adverb in node.adverbs if adverb.word.kind != slot)
    return replace(node, adverbs=kept) if len(kept) < len(node.adverbs) else None


def _placed(nominal: Nominal | None) -> bool:
    """Whether a nominal says where its thing is."""
    return isinstance(nominal, NounPhrase) and nominal.modifier is not None and nominal.modifier.kind == "place"
