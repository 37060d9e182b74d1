"""Probabilistic choice of nominals: which noun, which determiner, which modifiers."""

from collections.abc import Sequence
from dataclasses import dataclass

from phmrun.datasets.builtin.choices import Choices
from phmrun.datasets.builtin.lexicon import Adjective, Lexicon, Noun
from phmrun.datasets.builtin.prepositions import CITY, NEAR, SCHEMES, Relation
from phmrun.datasets.builtin.tree import Coordination, Name, Nominal, NounPhrase, Phrase, Pronoun

PERSON = ("person",)
_SINGULAR = (("the", 50), ("a", 17), ("this", 6), ("that", 3), ("owner", 13), ("every", 3), ("no", 2))
_PLURAL = (
    *(("the", 40), ("", 10), ("this", 5), ("that", 3), ("owner", 9), ("all", 4), ("both", 2), ("many", 5), ("some", 5)),
    *(("several", 3), ("few", 2), ("number", 8), ("the number", 3)),
)
_DEFINITE = (("the", 1),)
_MASS = (("the", 55), ("", 25), ("this", 6), ("owner", 14))
# In negated clauses "every", "no", "many" and their kind would leave the scope of "not" open.
_PLAIN_SINGULAR = (("the", 60), ("this", 8), ("that", 4), ("owner", 16))
_PLAIN_PLURAL = (("the", 60), ("this", 8), ("owner", 14))
_NEGATABLE_SINGULAR = (*_PLAIN_SINGULAR, ("a", 40))
_NEGATABLE_PLURAL = (*_PLAIN_PLURAL, ("", 30))
# Person and gender of pronouns that need no antecedent; a node is made afresh each time, for nodes have an identity.
_PRONOUNS = ((("1s", ""), 5), (("1p", ""), 4), (("3s", "m"), 5), (("3s", "f"), 5), (("3p", ""), 4))
_OWNERS = ((("1s", ""), 5), (("1p", ""), 4), (("3s", "m"), 4), (("3s", "f"), 4), (("3p", ""), 3))

ADJUNCT_PLACES = ("room", "outside", "town", "building", "market", "firm", "stop")
# Where a thing that a subject names may be, by the first of its classes that is listed.
_MODIFIER_PLACES = (
    *(("person", ("room", "outside", "building", "firm")), ("animal", ("outside", "land", "way"))),
    *(("furniture", ("room", "building")), ("vehicle", ("way", "town")), ("building", ("town", "height"))),
    *(
        ("plant", ("outside", "land")),
        ("thing", ("furniture", "container")),
        ("text", ("furniture",)),
        ("clothes", ("furniture",)),
    ),
)
_TARGETS = ("furniture", "container", "tree")
_SOLID = ("building", "vehicle", "tree", "building")


@dataclass(frozen=True, slots=True)
class Habits:
    """How often a corpus has what: shares are probabilities, tables are weighted.

    Attributes:
        pronouns: Person and gender of subjects and objects that are pronouns.
        owners: The same of possessive pronouns.
        pronoun_share: Pronouns among the nominals that may name persons.
        negation_share: Negated clauses among those that may be negated.
        shapes: Kinds of sentences.
    """

    pronouns: Sequence[tuple[tuple[str, str], float]] = _PRONOUNS
    owners: Sequence[tuple[tuple[str, str], float]] = _OWNERS
    pronoun_share: float = 0.16
    negation_share: float = 0.12
    shapes: Sequence[tuple[str, float]] = (
        *(("statement", 62), ("adverbial", 20), ("coordinated", 6), ("question", 7), ("address", 5)),
    )


USUAL = Habits()
"""Those of the translation corpus."""


class NominalSampler:
    """Draws nominals that fit the classes which a verb or preposition asks for."""

    def __init__(
        self,
        choices: Choices,
        lexicon: Lexicon,
        nouns: dict[tuple[str, ...], tuple[Noun, ...]],
        habits: Habits = USUAL,
    ) -> None:
        self.choices = choices
        self.lexicon = lexicon
        self.habits = habits
        self._nouns = nouns  # a cache shared by all samplers of a corpus

    def noun(self, classes: tuple[str, ...]) -> Noun:
        """A noun of one of the classes."""
        if len(classes) > 1 and self.choices.chance(0.5):
            classes = (self.choices.of(classes),)  # so that the nouns of small classes are not drowned
        if classes not in self._nouns:
            found = {noun: None for name in classes for noun in self.lexicon.nouns_of[name]}
            self._nouns[classes] = tuple(found)
        return self.choices.early(self._nouns[classes])

    def nominal(self, classes: tuple[str, ...], *, plain: bool, depth: int, object_: bool = False) -> Nominal:
        """A nominal of one of the classes.

        Args:
            classes: Classes of nouns.
            plain: Only determiners that can stand in a negated clause.
            depth: 0 in a main clause; deeper nominals have no clauses of their own.
            object_: Whether it is an object, where "a" under negation becomes "kein".
        """
        choices = self.choices
        if "person" in classes and choices.chance(1 / len(classes) if object_ else 0.9):
            if choices.chance(self.habits.pronoun_share):
                pronouns = self.habits.pronouns
                return Pronoun(*choices.weighted(pronouns if not object_ else pronouns[:4]))
            if choices.chance(0.13):
                return self.name()
            if choices.chance(0.05):
                return Coordination(self._simple_person(), self._simple_person())
            classes = PERSON
        return self.noun_phrase(self.noun(classes), plain=plain, depth=depth, object_=object_)

    def name(self) -> Name:
        """A first name, or a surname after its title."""
        words = self.lexicon.words
        if self.choices.chance(0.65):
            word = self.choices.of(words["name"])
            return Name(word, gender=word.options[0])
        title = self.choices.of(words["title"])
        return Name(self.choices.of(words["surname"]), title, gender=title.options[0])

    def _simple_person(self) -> Nominal:
        if self.choices.chance(0.3):
            return Name(self.choices.of(self.lexicon.words["name"]))
        return NounPhrase(self.noun(PERSON), plural=self.choices.chance(0.2), determiner="the")

    def noun_phrase(self, noun: Noun, *, plain: bool, depth: int, object_: bool = False) -> NounPhrase:
        """A noun phrase around a noun, without a relative clause."""
        choices = self.choices
        plural = not noun.mass and not noun.needs_complement and choices.chance(0.32)
        table: tuple[tuple[str, int], ...]
        if noun.definite:
            table = _DEFINITE
        elif noun.mass:
            table = _MASS
        elif plain:
            negatable = (_NEGATABLE_PLURAL, _NEGATABLE_SINGULAR) if object_ else (_PLAIN_PLURAL, _PLAIN_SINGULAR)
            table = negatable[0] if plural else negatable[1]
        else:
            table = _PLURAL if plural else _SINGULAR
        determiner = choices.weighted(table)
        if determiner == "no" and object_:
            determiner = "a"
        if determiner == "" and "bound" in noun.classes:
            determiner = "the"
        if determiner == "owner" and noun.person and "bound" not in noun.classes:
            determiner = "the"
        complement = None
        if noun.complement and (noun.needs_complement or choices.chance(0.25)):
            determiner = "the"
            complement = self.simple((noun.complement,), other=noun)
        numeral = None
        if determiner.endswith("number"):
            determiner = determiner.removesuffix("number").strip()
            numeral = choices.of(self.lexicon.words["numeral"])
        possessor = self._possessor(noun, depth) if determiner == "owner" else None
        modifier = None
        if depth == 0 and complement is None and not isinstance(possessor, NounPhrase) and choices.chance(0.13):
            modifier = self.modifier(noun, object_)
        return NounPhrase(
            noun=noun,
            plural=plural,
            determiner=determiner,
            adjectives=self.adjectives(noun, 0.42 if depth == 0 else 0.3),
            numeral=numeral,
            possessor=possessor,
            complement=complement,
            modifier=modifier,
        )

    def simple(self, classes: tuple[str, ...], *, other: Noun | None = None, adjective: float = 0.2) -> NounPhrase:
        """A short definite noun phrase, of another noun than ``other``."""
        noun = self.noun(classes)
        while noun is other:
            noun = self.noun(classes)
        determiner = self.choices.weighted((("the", 12), ("this", 1), ("owner", 2)))
        if noun.definite or (noun.person and "bound" not in noun.classes):
            determiner = "the"
        possessor = Pronoun(*self.choices.weighted(self.habits.owners)) if determiner == "owner" else None
        plural = not noun.mass and not noun.needs_complement and self.choices.chance(0.2)
        complement = None
        if noun.needs_complement:
            determiner, possessor, complement = "the", None, self.simple((noun.complement,), other=noun)
        adjectives = self.adjectives(noun, adjective)
        return NounPhrase(noun, plural, determiner, adjectives, possessor=possessor, complement=complement)

    def adjectives(self, noun: Noun, probability: float) -> tuple[Adjective, ...]:
        """No, one or rarely two adjectives that fit the noun."""
        if not self.choices.chance(probability):
            return ()
        of = self.lexicon.adjectives_of
        fitting = self.fitting(noun)
        if not fitting:
            return ()
        if self.choices.chance(0.6):  # so that the adjectives of small classes are not drowned
            by_class = [of[name] for name in noun.classes if of.get(name)]
            fitting = self.choices.of(by_class)
        first = self.choices.of(fitting)
        second = self.choices.of(fitting) if self.choices.chance(0.08) else first
        # Two senses of one English word, or two words for one German word, would make an odd pair.
        if second.english == first.english or second.scale == first.scale:
            return (first,)
        return (first, second)

    def fitting(self, noun: Noun) -> tuple[Adjective, ...]:
        """The adjectives that fit a noun."""
        of = self.lexicon.adjectives_of
        return tuple({adjective: None for name in noun.classes for adjective in of.get(name, ())})

    def _possessor(self, noun: Noun, depth: int) -> Nominal:
        if self.choices.chance(0.25) and depth == 0:
            return self.simple(PERSON, other=noun, adjective=0.1)
        if self.choices.chance(0.2):
            word = self.choices.of(self.lexicon.words["name"])
            return Name(word, gender=word.options[0])
        return Pronoun(*self.choices.weighted(self.habits.owners))

    def modifier(self, noun: Noun, object_: bool = False) -> Phrase | None:
        """A prepositional attribute; only subjects have places, which after objects would read as the clause's."""
        choices = self.choices
        if "text" in noun.classes or "film" in noun.classes:
            return Phrase("about", "über", "acc", self.simple(("person", "law", "sight", "war")), "attribute")
        if noun.person and choices.chance(0.6):
            if choices.chance(0.3):
                return Phrase("from", "aus", "dat", Name(choices.of(self.lexicon.words["city"])), "attribute")
            noun = self.noun(("clothes", "pet"))
            worn = NounPhrase(noun, choices.chance(0.3), "the", self.adjectives(noun, 0.75))
            return Phrase("with", "mit", "dat", worn, "attribute")
        places = next((found for name, found in _MODIFIER_PLACES if name in noun.classes), None)
        if object_ or places is None:
            return None
        if "furniture" not in places and choices.chance(0.3):
            return self.near(noun, "dat")
        return self.place(places, 0, other=noun)

    def place(self, classes: tuple[str, ...], motion: int, *, other: Noun | None = None) -> Phrase:
        """A place: 0 where something is, 1 where someone goes, 2 where a thing is put."""
        nominal = self.simple(classes, other=other)
        while not nominal.noun.scheme:
            nominal = self.simple(classes, other=other)
        relation: Relation = SCHEMES[nominal.noun.scheme][motion]
        return Phrase(relation.english, relation.german, relation.case, nominal, "direction" if motion else "place")

    def near(self, other: Noun | None, case: str) -> Phrase:
        """A place behind, next to or in front of a larger thing."""
        english, german = self.choices.of(NEAR)
        classes, kind = (_SOLID, "place") if case == "dat" else (_TARGETS, "direction")
        return Phrase(english, german, case, self.simple(classes, other=other), kind)

    def city(self, motion: int) -> Phrase:
        """In or to a city or country."""
        relation = CITY[motion]
        name = Name(self.choices.of(self.lexicon.words["city"]))
        return Phrase(relation.english, relation.german, relation.case, name, "direction" if motion else "place")
