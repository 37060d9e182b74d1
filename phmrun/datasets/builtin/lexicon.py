"""The lexicon: nouns, verbs, adjectives and small words of both languages, read from the tables beside this file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in one sense. An English noun with two senses is two entries."""

    english: str
    english_plural: str
    german: str
    gender: str  # "m", "f" or "n"
    weak: bool  # the oblique singular is the plural form: der Junge, den Jungen
    genitive: str
    german_plural: str  # empty: a mass noun without a plural
    classes: tuple[str, ...]
    scheme: str  # how the place is stood in and entered, see prepositions.py; empty: no place
    complement: str  # the class of its genitive complement ("the bank of the river"); empty: none
    needs_complement: bool  # only the complement tells the sense
    definite: bool  # always with "the": the sun

    @property
    def mass(self) -> bool:
        """Whether the noun has no plural."""
        return not self.german_plural

    @property
    def person(self) -> bool:
        """Whether the noun names a human being."""
        return "person" in self.classes


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in one sense and with one frame, with the classes of nouns that it goes with."""

    english: tuple[str, str, str]  # base, past, participle
    english_particle: str  # "up" in "call up", "for" in "look for"
    particle_after_object: bool  # "calls the girl up", not "looks the girl for"
    german: str  # infinitive without its particle
    german_forms: tuple[str, str, str] | None  # third person, preterite, participle; None: weak
    german_particle: str  # "an" in "ruft … an"
    reflexive: bool
    frame: str
    state: bool  # a state: no progressive, no manner, no place
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    perfect_with_be: bool
    english_preposition: str
    german_preposition: str
    german_case: str
    instruments: str
    passive: bool
    place: bool
    often: float  # how much more often than others of its frame it is drawn

    @property
    def past_is_present(self) -> bool:
        """Whether "they put" may be past or present."""
        return self.english[0] == self.english[1]

    @property
    def german_lemma(self) -> str:
        """The infinitive as a dictionary has it: "anrufen", "sich beeilen"."""
        return ("sich " if self.reflexive else "") + self.german_particle + self.german


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in one sense; the classes of the noun that it describes tell the senses apart."""

    english: str
    english_comparative: str  # empty: "more …"
    german: str
    german_comparative: str
    german_stem: str  # before endings: "dunkl" in "dunkle"
    classes: tuple[str, ...]
    attributive_only: bool
    has_comparative: bool
    scale: str  # two adjectives of one scale never describe one thing


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """A word (or fixed phrase) that does not inflect for the sentence: adverbs, names, numerals, conjunctions."""

    kind: str
    english: str
    german: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All entries, in the order of the tables, with the look-ups that sampling needs."""

    nouns: tuple[Noun, ...]
    verbs: tuple[Verb, ...]
    adjectives: tuple[Adjective, ...]
    words: Mapping[str, tuple[Word, ...]]  # by kind
    nouns_of: Mapping[str, tuple[Noun, ...]]  # by class
    adjectives_of: Mapping[str, tuple[Adjective, ...]]  # by class of the noun
    verbs_of: Mapping[str, tuple[Verb, ...]]  # by frame


@cache
def lexicon() -> Lexicon:
    """The lexicon, read once."""
    nouns, verbs = read_nouns("nouns.txt"), read_verbs("verbs.txt")
    adjectives = tuple(_adjective(fields) for fields in rows("adjectives.txt"))
    words = tuple(_word(fields) for fields in rows("words.txt"))
    classes = {name: None for noun in nouns for name in noun.classes}
    return Lexicon(
        nouns=nouns,
        verbs=verbs,
        adjectives=adjectives,
        words=MappingProxyType(
            {kind: tuple(w for w in words if w.kind == kind) for kind in {w.kind: 0 for w in words}}
        ),
        nouns_of=MappingProxyType({name: tuple(n for n in nouns if name in n.classes) for name in classes}),
        adjectives_of=MappingProxyType({name: tuple(a for a in adjectives if name in a.classes) for name in classes}),
        verbs_of=MappingProxyType({f: tuple(v for v in verbs if v.frame == f) for f in {v.frame: 0 for v in verbs}}),
    )


def lemmas(language: str) -> list[str]:
    """The distinct dictionary forms of a language (``"en"`` or ``"de"``), sorted; phrases count once."""
    entries = lexicon()
    words = [word for kind in entries.words.values() for word in kind]
    if language == "en":
        verbs = [" ".join((verb.english[0], verb.english_particle)).strip() for verb in entries.verbs]
        others = [entry.english for table in (entries.nouns, entries.adjectives, words) for entry in table]
    else:
        verbs = [verb.german_lemma for verb in entries.verbs]
        others = [entry.german for table in (entries.nouns, entries.adjectives, words) for entry in table]
    return sorted({*verbs, *others})


def read_nouns(name: str) -> tuple[Noun, ...]:
    """The nouns of a table beside this file, in its order."""
    return tuple(_noun(fields) for fields in rows(name))


def read_verbs(name: str) -> tuple[Verb, ...]:
    """The verbs of a table beside this file, in its order."""
    return tuple(_verb(fields) for fields in rows(name))


def rows(name: str) -> Iterator[list[str]]:
    """The fields of each entry; " | " separates fields (a bare "|" marks a separable verb)."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield [field.strip() for field in re.split(r"\s\|(?=\s)", line + " ")]


def _field(fields: list[str], index: int) -> str:
    return fields[index] if index < len(fields) else ""


def _options(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (item.partition("=") for item in text.split())}


def english_noun(text: str) -> tuple[str, str]:
    """Singular and plural of a noun as the tables have it: "mouse/mice"; a regular plural is left out."""
    singular, _, plural = text.partition("/")
    return singular, plural or _regular_plural(singular)


def english_verb(text: str) -> tuple[tuple[str, str, str], str, bool]:
    """Base, past and participle, particle, and whether it follows the object: "put/put/put on^"."""
    parts = [part.split() for part in text.split("/")]
    particle = " ".join(parts[-1][1:])
    base = parts[0][0]
    past, participle = (parts[1][0], parts[2][0]) if len(parts) == 3 else (_regular_past(base),) * 2
    return (base, past, participle), particle.rstrip("^"), particle.endswith("^")


def english_adjective(text: str) -> tuple[str, str]:
    """An adjective and its comparative, empty for one that is made with "more": "old", "big/bigger", "famous/+"."""
    positive, _, comparative = text.partition("/")
    if not comparative:
        comparative = positive.removesuffix("e") + "er"
    return positive, "" if comparative == "+" else comparative


def _noun(fields: list[str]) -> Noun:
    english, plural = english_noun(fields[0])
    german, gender, genitive, german_plural = fields[1].split()
    options = _options(_field(fields, 3))
    classes = tuple(fields[2].split())
    if "person" in classes and "kid" not in classes:
        classes += ("grown",)
    return Noun(
        english=english,
        english_plural=plural,
        german=german,
        gender="m" if gender == "w" else gender,
        weak=gender == "w",
        genitive=genitive,
        german_plural="" if german_plural == "0" else german_plural,
        classes=classes,
        scheme=options.get("at", ""),
        complement=options.get("of", options.get("of!", "")),
        needs_complement="of!" in options,
        definite="def" in options,
    )


def _verb(fields: list[str]) -> Verb:
    english, particle, after_object = english_verb(fields[0])
    german = fields[1].removeprefix("sich ").split()
    german_particle, _, infinitive = german[0].rpartition("|")
    options = _options(_field(fields, 5))
    preposition, _, case = options.get("de", "").partition(":")
    frame = fields[2]
    return Verb(
        english=english,
        english_particle=particle,
        particle_after_object=after_object,
        german=infinitive,
        german_forms=(german[1], german[2], german[3]) if len(german) > 1 else None,
        german_particle=german_particle,
        reflexive=fields[1].startswith("sich "),
        frame=frame.rstrip("!"),
        state=frame.endswith("!"),
        subjects=tuple(_field(fields, 3).split()),
        objects=tuple(_field(fields, 4).split()),
        perfect_with_be="sein" in options,
        english_preposition=options.get("en", "").replace("0", ""),
        german_preposition=preposition,
        german_case=case,
        instruments=options.get("with", ""),
        passive=frame == "t" and "nopass" not in options,
        place="place" in options or frame == "t",
        often=float(options.get("often", "1")),
    )


def _adjective(fields: list[str]) -> Adjective:
    english, comparative = english_adjective(fields[0])
    word, _, stem = fields[1].partition("~")
    german, _, german_comparative = word.partition("/")
    return Adjective(
        english=english,
        english_comparative=comparative,
        german=german,
        german_comparative=german_comparative or german.removesuffix("e") + "er",
        german_stem=stem or german.removesuffix("e"),
        classes=tuple(_field(fields, 2).split()),
        attributive_only="attr" in _field(fields, 3),
        scale=_options(_field(fields, 3)).get("scale", german),
        has_comparative=german not in ("kaputt", "leer", "voll", "wahr", "geheim", "tot", "ganz", "hölzern"),
    )


def _word(fields: list[str]) -> Word:
    return Word(fields[0], fields[1], _field(fields, 2), tuple(_field(fields, 3).split()))


def _regular_plural(noun: str) -> str:
    """The regular English plural."""
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def _regular_past(base: str) -> str:
    """The regular English past; the tables spell out doubled consonants."""
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ied"
    if base == "hug":
        return "hugged"
    return base + "ed"
