"""German inflection: noun forms, determiners, adjective endings, pronouns and verb forms."""

import re

from phmrun.datasets.builtin.lexicon import Adjective, Noun, Verb

# The endings of "dieser", shared by its kind and by strong adjectives: gender (p = plural), then case.
STRONG = {
    "m": {"nom": "er", "acc": "en", "dat": "em", "gen": "es"},
    "f": {"nom": "e", "acc": "e", "dat": "er", "gen": "er"},
    "n": {"nom": "es", "acc": "es", "dat": "em", "gen": "es"},
    "p": {"nom": "e", "acc": "e", "dat": "en", "gen": "er"},
}
ARTICLE = {
    "m": {"nom": "der", "acc": "den", "dat": "dem", "gen": "des"},
    "f": {"nom": "die", "acc": "die", "dat": "der", "gen": "der"},
    "n": {"nom": "das", "acc": "das", "dat": "dem", "gen": "des"},
    "p": {"nom": "die", "acc": "die", "dat": "den", "gen": "der"},
}
RELATIVE = {
    "m": {"nom": "der", "acc": "den", "dat": "dem", "gen": "dessen"},
    "f": {"nom": "die", "acc": "die", "dat": "der", "gen": "deren"},
    "n": {"nom": "das", "acc": "das", "dat": "dem", "gen": "dessen"},
    "p": {"nom": "die", "acc": "die", "dat": "denen", "gen": "deren"},
}
PERSONAL = {
    "1s": {"nom": "ich", "acc": "mich", "dat": "mir"},
    "2s": {"nom": "du", "acc": "dich", "dat": "dir"},
    "3sm": {"nom": "er", "acc": "ihn", "dat": "ihm"},
    "3sf": {"nom": "sie", "acc": "sie", "dat": "ihr"},
    "3sn": {"nom": "es", "acc": "es", "dat": "ihm"},
    "1p": {"nom": "wir", "acc": "uns", "dat": "uns"},
    "2p": {"nom": "ihr", "acc": "euch", "dat": "euch"},
    "3p": {"nom": "sie", "acc": "sie", "dat": "ihnen"},
    "polite": {"nom": "Sie", "acc": "Sie", "dat": "Ihnen"},
}
REFLEXIVE = {"1s": "mich", "2s": "dich", "3s": "sich", "1p": "uns", "2p": "euch", "3p": "sich"}
POSSESSIVE = {
    "1s": "mein",
    "2s": "dein",
    "3sm": "sein",
    "3sf": "ihr",
    "3sn": "sein",
    "1p": "unser",
    "2p": "euer",
    "3p": "ihr",
    "polite": "Ihr",
}
INTERROGATIVE = {"who": {"nom": "wer", "acc": "wen", "dat": "wem"}, "what": {"nom": "was", "acc": "was", "dat": "was"}}

# English determiner to the German stem and the declension of a following adjective.
DETERMINERS = {
    "the": ("d", "weak"),
    "this": ("dies", "weak"),
    "that": ("jen", "weak"),
    "every": ("jed", "weak"),
    "all": ("all", "weak"),
    "both": ("beid", "weak"),
    "which": ("welch", "weak"),
    "a": ("ein", "mixed"),
    "no": ("kein", "mixed"),
    "many": ("viel", "strong"),
    "some": ("einig", "strong"),
    "several": ("mehrer", "strong"),
    "few": ("wenig", "strong"),
}

_EIN_BARE = {("m", "nom"), ("n", "nom"), ("n", "acc")}
_INSEPARABLE = re.compile(r"(be|er|ver|zer|ent|emp|gehör|gehorch|über|umarm|unterricht)")
_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
}

# Present ("1s" "3s" "3p" … in the order of PERSONS) and preterite stem of the verbs that follow no rule.
PERSONS = ("1s", "2s", "3s", "1p", "2p", "3p")
_IRREGULAR_PRESENT = {
    "sein": ("bin", "bist", "ist", "sind", "seid", "sind"),
    "haben": ("habe", "hast", "hat", "haben", "habt", "haben"),
    "werden": ("werde", "wirst", "wird", "werden", "werdet", "werden"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wisst", "wissen"),
    "mögen": ("mag", "magst", "mag", "mögen", "mögt", "mögen"),
    "können": ("kann", "kannst", "kann", "können", "könnt", "können"),
    "müssen": ("muss", "musst", "muss", "müssen", "müsst", "müssen"),
    "dürfen": ("darf", "darfst", "darf", "dürfen", "dürft", "dürfen"),
    "wollen": ("will", "willst", "will", "wollen", "wollt", "wollen"),
}
_PRETERITES = {
    "sein": "war",
    "haben": "hatte",
    "werden": "wurde",
    "können": "konnte",
    "müssen": "musste",
    "wollen": "wollte",
    "sollen": "sollte",
}


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    """A noun in a case and number."""
    if plural:
        form = noun.german_plural
        return form + "n" if case == "dat" and not form.endswith(("n", "s")) else form
    if case == "gen":
        return noun.genitive
    return noun.german_plural if noun.weak and case != "nom" else noun.german


def determiner_form(determiner: str, gender: str, case: str) -> str:
    """A determiner, named by its English form, in gender (``"p"``: plural) and case."""
    if determiner == "the":
        return ARTICLE[gender][case]
    stem, declension = DETERMINERS[determiner]
    return ein_form(stem, gender, case) if declension == "mixed" else stem + STRONG[gender][case]


def ein_form(stem: str, gender: str, case: str) -> str:
    """A form of "ein", "kein" or a possessive."""
    if (gender, case) in _EIN_BARE:
        return stem
    if stem == "euer":
        stem = "eur"
    return stem + STRONG[gender][case]


def adjective_form(adjective: Adjective, declension: str, gender: str, case: str) -> str:
    """An attributive adjective; declension is ``"weak"``, ``"mixed"`` or ``"strong"``."""
    return adjective.german_stem + adjective_ending(declension, gender, case)


def adjective_ending(declension: str, gender: str, case: str) -> str:
    """The ending of an attributive adjective."""
    if declension == "strong":
        return "en" if case == "gen" and gender in "mn" else STRONG[gender][case]
    if declension == "mixed" and (gender, case) in _EIN_BARE:
        return STRONG[gender][case]
    bare_e = case == "nom" or (case == "acc" and gender in "fn")
    return "e" if bare_e and gender != "p" else "en"


def contracted(preposition: str, article: str) -> str | None:
    """The one word for a preposition and an article ("im"), or None where they stay apart."""
    return _CONTRACTIONS.get((preposition, article))


def present(verb: Verb | str, person: str) -> str:
    """A present form without the separable particle; an auxiliary or modal is given by its infinitive."""
    infinitive = verb if isinstance(verb, str) else verb.german
    index = PERSONS.index(person)
    if infinitive in _IRREGULAR_PRESENT:
        return _IRREGULAR_PRESENT[infinitive][index]
    if infinitive == "sollen":
        return ("soll", "sollst", "soll", "sollen", "sollt", "sollen")[index]
    stem = _stem(infinitive)
    third = verb.german_forms[0] if isinstance(verb, Verb) and verb.german_forms else stem + _link(stem) + "t"
    match person:
        case "1s":
            return (stem[:-2] + "l" if infinitive.endswith("eln") else stem) + "e"
        case "2s":
            return _second_person(third, stem)
        case "3s":
            return third
        case "2p":
            return stem + _link(stem) + "t"
        case _:
            return infinitive


def preterite(verb: Verb | str, person: str) -> str:
    """A preterite form without the separable particle."""
    if isinstance(verb, str):
        first = _PRETERITES[verb]
    elif verb.german_forms:
        first = verb.german_forms[1]
    else:
        stem = _stem(verb.german)
        first = stem + _link(stem) + "te"
    match person:
        case "1s" | "3s":
            return first
        case "1p" | "3p":
            return first + ("n" if first.endswith("e") else "en")
        case "2s":
            return first + ("est" if first.endswith(("s", "ß", "t", "d")) else "st")
        case _:
            return first + ("et" if first.endswith(("t", "d")) else "t")


def participle(verb: Verb) -> str:
    """The past participle with the separable particle: "angerufen", "besucht", "repariert"."""
    if verb.german_forms:
        return verb.german_particle + verb.german_forms[2]
    stem = _stem(verb.german)
    prefix = "" if _has_no_ge(verb.german) else "ge"
    return verb.german_particle + prefix + stem + _link(stem) + "t"


def infinitive(verb: Verb) -> str:
    """The infinitive with the separable particle."""
    return verb.german_particle + verb.german


def zu_infinitive(verb: Verb) -> list[str]:
    """The words of the infinitive with "zu": "anzurufen" is one, "zu öffnen" two."""
    return [f"{verb.german_particle}zu{verb.german}"] if verb.german_particle else ["zu", verb.german]


def name_genitive(name: str) -> str:
    """A name before the noun that it owns: "Annas", "Paris'"."""
    return name + ("'" if name.endswith(("s", "ß", "x", "z")) else "s")


def _stem(infinitive: str) -> str:
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]


def _link(stem: str) -> str:
    """The "e" that keeps the ending apart: arbeit-e-t, öffn-e-t."""
    if stem.endswith(("t", "d")) or re.search(r"[^aeiouäöülrhmn][mn]$", stem):
        return "e"
    return ""


def _second_person(third: str, stem: str) -> str:
    if third.endswith(("sst", "st", "ßt", "zt")) and stem.endswith(("s", "ß", "z")):
        return third
    if stem.endswith("t") and not third.endswith("tet"):  # hält: the stem's own t stays
        return third + "st"
    return third[:-1] + "st"


def _has_no_ge(infinitive: str) -> bool:
    return infinitive.endswith("ieren") or (infinitive != "bellen" and bool(_INSEPARABLE.match(infinitive)))
