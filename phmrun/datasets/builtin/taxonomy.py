"""Which words are more general than which, and which are contraries: what inference pairs rest on."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TypeVar

from phmrun.datasets.builtin.lexicon import Adjective, Noun, Verb, lexicon, read_nouns, read_verbs, rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """The order of generality of nouns and verbs, and the contraries of adjectives and verbs.

    All mappings are between entries; where a word has none, the entry is missing. The specific words of a general one
    are all those below it, not only the next ones.
    """

    broader_nouns: Mapping[Noun, tuple[Noun, ...]]
    narrower_nouns: Mapping[Noun, tuple[Noun, ...]]
    broader_verbs: Mapping[Verb, tuple[Verb, ...]]
    narrower_verbs: Mapping[Verb, tuple[Verb, ...]]
    contrary_adjectives: Mapping[Adjective, tuple[Adjective, ...]]
    contrary_verbs: Mapping[Verb, tuple[Verb, ...]]
    person: Noun

    def related(self, one: Noun, other: Noun) -> bool:
        """Whether two nouns are the same or one is more general than the other."""
        return one is other or other in self.broader_nouns.get(one, ()) or one in self.broader_nouns.get(other, ())


@cache
def taxonomy() -> Taxonomy:
    """The taxonomy, read once."""
    entries = lexicon()
    nouns = {noun.english: noun for noun in (*entries.nouns, *read_nouns("general_nouns.txt"))}
    verbs: dict[tuple[str, str], Verb] = {}
    for verb in (*entries.verbs, *read_verbs("general_verbs.txt")):
        verbs.setdefault((verb.english[0], verb.frame), verb)
    noun_pairs: list[tuple[Noun, Noun]] = []
    verb_pairs: list[tuple[Verb, Verb]] = []
    opposed: list[tuple[Adjective, Adjective]] = []
    opposed_verbs: list[tuple[Verb, Verb]] = []
    for kind, general, listed in rows("taxonomy.txt"):
        for specific in listed.split():
            if kind == "noun":
                noun_pairs.append((nouns[specific], nouns[general]))
            else:
                pairs = verb_pairs if kind == "verb" else opposed_verbs
                pairs += [
                    (verbs[specific, frame], verbs[general, frame])
                    for frame in ("i", "t")
                    if (specific, frame) in verbs and (general, frame) in verbs
                ]
                if kind == "contrary":
                    opposed += _adjectives(specific, general)
    return Taxonomy(
        broader_nouns=_closed(noun_pairs),
        narrower_nouns=_closed([(general, specific) for specific, general in noun_pairs]),
        broader_verbs=_closed(verb_pairs),
        narrower_verbs=_closed([(general, specific) for specific, general in verb_pairs]),
        contrary_adjectives=_listed([*opposed, *((b, a) for a, b in opposed)]),
        contrary_verbs=_listed([*opposed_verbs, *((b, a) for a, b in opposed_verbs)]),
        person=nouns["person"],
    )


def _adjectives(one: str, other: str) -> list[tuple[Adjective, Adjective]]:
    """All pairs of adjectives with these English words."""
    found = lexicon().adjectives
    return [(a, b) for a in found for b in found if (a.english, b.english) == (one, other)]


def _closed(pairs: list[tuple[T, T]]) -> Mapping[T, tuple[T, ...]]:
    """By entry all entries that it leads to, directly or through others."""
    direct = _listed(pairs)
    closed: dict[T, tuple[T, ...]] = {}
    for entry in direct:
        found: dict[T, None] = {}
        waiting = list(direct[entry])
        while waiting:
            following = waiting.pop(0)
            found[following] = None
            waiting += direct.get(following, ())
        closed[entry] = tuple(found)
    return MappingProxyType(closed)


def _listed(pairs: list[tuple[T, T]]) -> Mapping[T, tuple[T, ...]]:
    """By entry the entries that it is paired with, in order."""
    found: dict[T, tuple[T, ...]] = {}
    for one, other in pairs:
        found[one] = (*found.get(one, ()), other)
    return MappingProxyType(found)
