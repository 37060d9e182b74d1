"""English inflection: noun forms, articles, pronouns and verb forms."""

import re

from phmrun.datasets.builtin.lexicon import Adjective, Noun, Verb

PERSONAL = {
    "1s": ("I", "me", "my"),
    "2s": ("you", "you", "your"),
    "3sm": ("he", "him", "his"),
    "3sf": ("she", "her", "her"),
    "3sn": ("it", "it", "its"),
    "1p": ("we", "us", "our"),
    "2p": ("you", "you", "your"),
    "3p": ("they", "them", "their"),
}
_BE_PRESENT = {"1s": "am", "3s": "is"}
_DOUBLING = re.compile(r"[^aeiou][aeiou][^aeiouwxy]$")
_DOUBLED = ("begin", "forget", "travel")
_PLURAL_DETERMINERS = {"this": "these", "that": "those"}


def noun_form(noun: Noun, plural: bool) -> str:
    """A noun in a number."""
    return noun.english_plural if plural else noun.english


def genitive(word: str) -> str:
    """The possessive of a word: "teacher's", "students'"."""
    return word + ("'" if word.endswith("s") else "'s")


def article(following: str) -> str:
    """The indefinite article before a word, by the sound that the word begins with."""
    silent = following == "honest"
    return "an" if silent or (following[0] in "aeiou" and not following.startswith(("uni", "use"))) else "a"


def determiner_form(determiner: str, plural: bool) -> str:
    """A determiner in a number."""
    return _PLURAL_DETERMINERS.get(determiner, determiner) if plural else determiner


def comparative(adjective: Adjective) -> list[str]:
    """The words of a comparative: "older", "more famous"."""
    return [adjective.english_comparative] if adjective.english_comparative else ["more", adjective.english]


def present(base: str, person: str) -> str:
    """A present form."""
    if base == "be":
        return _BE_PRESENT.get(person, "are")
    if person != "3s":
        return base
    if base == "have":
        return "has"
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    if re.search(r"[^aeiou]y$", base):
        return base[:-1] + "ies"
    return base + "s"


def past(verb: Verb, person: str) -> str:
    """A past form."""
    if verb.english[0] == "be":
        return be_past(person)
    return verb.english[1]


def be_past(person: str) -> str:
    """The past of "be"."""
    return "was" if person in ("1s", "3s") else "were"


def ing(base: str) -> str:
    """The -ing form: "lying", "making", "running", "seeing"."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "be")):
        return base[:-1] + "ing"
    vowels = len(re.findall(r"[aeiouy]+", base))
    if base in _DOUBLED or (vowels == 1 and _DOUBLING.search(base)):
        return base + base[-1] + "ing"
    return base + "ing"
