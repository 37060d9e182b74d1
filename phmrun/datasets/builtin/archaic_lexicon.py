"""The words of older English: what stands for a word in one of its senses, read from ``archaic.txt``."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from phmrun.datasets.builtin.lexicon import (
    Adjective,
    Noun,
    Verb,
    Word,
    english_adjective,
    english_noun,
    english_verb,
    lexicon,
    rows,
)


@dataclass(frozen=True, slots=True)
class ArchaicLexicon:
    """By entry the entry with older English forms; what is missing stays as it is."""

    nouns: Mapping[Noun, Noun]
    verbs: Mapping[Verb, Verb]
    adjectives: Mapping[Adjective, tuple[tuple[tuple[str, ...], Adjective], ...]]  # by the classes of the noun
    words: Mapping[Word, str]
    prepositions: Mapping[tuple[str, str], str]  # by preposition and kind of the phrase

    def noun(self, noun: Noun) -> Noun:
        """The noun's older form."""
        return self.nouns.get(noun, noun)

    def verb(self, verb: Verb) -> Verb:
        """The verb's older form."""
        return self.verbs.get(verb, verb)

    def word(self, word: Word) -> str:
        """The word's older form."""
        return self.words.get(word, word.english)

    def adjective(self, adjective: Adjective, classes: tuple[str, ...]) -> Adjective:
        """The adjective's older form beside a noun of some classes."""
        for wanted, older in self.adjectives.get(adjective, ()):
            if not wanted or any(name in classes for name in wanted):
                return older
        return adjective

    def preposition(self, english: str, kind: str) -> str:
        """The preposition's older form in a phrase of some kind."""
        return self.prepositions.get((english, kind), english)


@cache
def archaic_lexicon() -> ArchaicLexicon:
    """The lexicon of older English, read once."""
    entries = lexicon()
    nouns: dict[Noun, Noun] = {}
    verbs: dict[Verb, Verb] = {}
    adjectives: dict[Adjective, tuple[tuple[tuple[str, ...], Adjective], ...]] = {}
    words: dict[Word, str] = {}
    prepositions: dict[tuple[str, str], str] = {}
    for kind, english, german, older, *rest in rows("archaic.txt"):
        options = rest[0].split() if rest else []
        match kind:
            case "noun":
                singular, plural = english_noun(older)
                for noun in entries.nouns:
                    if (noun.english, noun.german) == (english, german):
                        nouns[noun] = replace(noun, english=singular, english_plural=plural)
            case "verb":
                for verb in entries.verbs:
                    if verb.english[0] == english and german in _senses(verb):
                        verbs[verb] = _older_verb(verb, older, options)
            case "adjective":
                positive, comparative = english_adjective(older)
                for adjective in entries.adjectives:
                    if (adjective.english, adjective.german) == (english, german):
                        form = replace(adjective, english=positive, english_comparative=comparative)
                        adjectives[adjective] = (*adjectives.get(adjective, ()), (tuple(options), form))
            case "word":
                for listed in entries.words.values():
                    words |= {word: older for word in listed if (word.english, word.german) == (english, german)}
            case _:
                prepositions[english, german] = older
    return ArchaicLexicon(nouns, verbs, adjectives, words, prepositions)


def _senses(verb: Verb) -> tuple[str, str]:
    """How the table may name a verb's sense: by German word and frame, perhaps with its preposition."""
    sense = f"{verb.german_lemma} {verb.frame}"
    return sense, f"{sense} {verb.english_preposition}"


def _older_verb(verb: Verb, older: str, options: list[str]) -> Verb:
    forms, particle, after_object = english_verb(older)
    preposition = next((option.removeprefix("en=") for option in options), verb.english_preposition)
    return replace(
        verb,
        english=forms,
        english_particle=particle,
        particle_after_object=after_object,
        english_preposition="" if preposition == "0" else preposition,
    )
