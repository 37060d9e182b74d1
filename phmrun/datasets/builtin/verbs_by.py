"""Which verbs and adjectives go with a noun: the selectional index of the lexicon."""

from phmrun.datasets.builtin.choices import Choices
from phmrun.datasets.builtin.lexicon import Adjective, Lexicon, Noun, Verb
from phmrun.datasets.builtin.tree import Name, Nominal, NounPhrase, Pronoun, RelativePronoun

# How often a verb is drawn, by its frame: frames with few verbs need more of each.
_WEIGHTS = {
    **{"i": 1.0, "t": 1.0, "d": 1.5, "g": 1.6, "p": 1.2, "dir": 1.3, "city": 1.3, "far": 2.0, "loc": 2.2, "put": 2.5},
    **{
        "put0": 1.6,
        "pour": 2.0,
        "that": 1.2,
        "whether": 1.5,
        "wh": 2.0,
        "inf": 1.4,
        "ing": 2.0,
        "be": 26.0,
        "become": 4.0,
        "look": 3.0,
    },
}
_CLAUSAL = ("that", "whether", "wh", "inf", "ing")
_GAP_FRAMES = {"object": ("t", "g"), "indirect": ("d", "g"), "phrase": ("p", "loc"), "subject": tuple(_WEIGHTS)}
_CHANGING = (
    "tired",
    "sad",
    "angry",
    "hungry",
    "thirsty",
    "ill",
    "happy",
    "lonely",
    "rich",
    "famous",
    "curious",
    "proud",
    "late",
    "dirty",
)


class VerbIndex:
    """Look-ups over the lexicon, computed once for a corpus."""

    changing = _CHANGING
    # Verbs that an adverb of manner makes silly.
    no_manner = frozenset(
        ("erblassen", "vergessen", "verschwinden", "verlieren", "wachsen", "gehören", "brennen", "bemerken")
    )

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._weighted = [(verb, _WEIGHTS[verb.frame] * verb.often) for verb in lexicon.verbs]
        self._shallow = [(verb, weight) for verb, weight in self._weighted if verb.frame not in _CLAUSAL]
        self._active = [
            pair for pair in self._shallow if not pair[0].state and pair[0].frame not in ("be", "become", "look")
        ]
        classes = {name: None for noun in lexicon.nouns for name in noun.classes}
        self.described = [
            name
            for name in classes
            if name not in ("person", "kid", "kin", "grown", "royal", "bound")
            and any(not a.attributive_only for a in lexicon.adjectives_of.get(name, ()))
        ]
        self._by_subject: dict[Noun, list[tuple[Verb, float]]] = {}
        self._by_gap: dict[tuple[Noun, str], list[tuple[Verb, float]]] = {}
        self.ambiguous = self._ambiguous()

    def draw(self, choices: Choices, roles: dict[str, Nominal], depth: int, *, activity: bool = False) -> Verb:
        """A verb that fits the given roles."""
        subject = roles.get("subject")
        if subject is not None:
            fitting = [
                (verb, weight)
                for verb, weight in (self._active if activity else self._shallow)
                if (fits(verb.subjects, subject) and not (verb.frame == "look" and not self.adjectives_for(subject)))
                or (verb.frame == "be" and not activity and self.adjectives_for(subject))
            ]
            return choices.weighted(fitting)
        return choices.weighted(self._weighted if depth == 0 else self._shallow)

    def for_subject(self, choices: Choices, noun: Noun, frames: tuple[str, ...] = ()) -> Verb | None:
        """A verb that the noun can be the subject of, without a clause of its own; None where there is none."""
        if noun not in self._by_subject:
            described = any(
                not a.attributive_only for name in noun.classes for a in self.lexicon.adjectives_of.get(name, ())
            )
            self._by_subject[noun] = [
                (verb, min(weight, 6.0))
                for verb, weight in self._shallow
                if (any(name in verb.subjects for name in noun.classes) and (described or verb.frame != "look"))
                or (verb.frame == "be" and described)
            ]
        options = [pair for pair in self._by_subject[noun] if not frames or pair[0].frame in frames]
        return choices.weighted(options) if options else None

    def for_gap(self, choices: Choices, noun: Noun, gap: str) -> Verb | None:
        """A verb in whose role ``gap`` the noun can stand; None where there is none."""
        if gap == "subject":
            return self.for_subject(choices, noun)
        key = (noun, gap)
        if key not in self._by_gap:
            frames = _GAP_FRAMES[gap]
            self._by_gap[key] = [
                (verb, weight)
                for verb, weight in self._weighted
                if verb.frame in frames and (self._takes(verb, noun, gap))
            ]
        options = self._by_gap[key]
        return choices.weighted(options) if options else None

    def _takes(self, verb: Verb, noun: Noun, gap: str) -> bool:
        if verb.frame == "loc":
            return bool(noun.scheme)
        if gap == "indirect" and verb.frame == "g":
            return noun.person
        return any(name in verb.objects for name in noun.classes)

    def adjectives_for(self, nominal: Nominal) -> list[Adjective]:
        """The adjectives that can be said of a nominal; of a name or pronoun those said of persons."""
        noun = getattr(nominal, "noun", None) or getattr(nominal, "antecedent", None)
        classes = noun.classes if noun is not None else ("person",)
        return list(
            {a: None for name in classes for a in self.lexicon.adjectives_of.get(name, ()) if not a.attributive_only}
        )

    def _ambiguous(self) -> frozenset[tuple[str, str, str]]:
        """The English verbs that only their object (or subject) translates."""
        seen: dict[tuple[str, str, str], set[str]] = {}
        for verb in self.lexicon.verbs:
            if verb.frame in ("t", "d", "i", "dir", "city"):
                key = (verb.english[0], verb.english_particle, verb.english_preposition)
                seen.setdefault(key, set()).add(verb.german_lemma + ("" if verb.frame != "d" else "+dat"))
        return frozenset(key for key, lemmas in seen.items() if len(lemmas) > 1)

    def is_ambiguous(self, verb: Verb) -> bool:
        """Whether the English verb has several translations in frames with the same look."""
        return (verb.english[0], verb.english_particle, verb.english_preposition) in self.ambiguous


def fits(classes: tuple[str, ...], nominal: Nominal) -> bool:
    """Whether a nominal is of one of the classes; names and pronouns are persons."""
    match nominal:
        case NounPhrase() | RelativePronoun():
            return any(name in classes for name in nominal.noun.classes)
        case Pronoun() if nominal.antecedent is not None:
            return any(name in classes for name in nominal.antecedent.classes)
        case Name() | Pronoun():
            return "person" in classes
        case _:
            return "person" in classes
