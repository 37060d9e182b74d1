"""Probabilistic choice of whole sentences: statements, questions, subordinate and coordinated clauses, fronting."""

from dataclasses import replace
from typing import Any

from phmrun.datasets.builtin.choices import Choices
from phmrun.datasets.builtin.lexicon import Lexicon, Noun, Word
from phmrun.datasets.builtin.sample_clauses import ClauseSampler
from phmrun.datasets.builtin.sample_nominals import USUAL, Habits, NominalSampler
from phmrun.datasets.builtin.tree import (
    Adverb,
    Clause,
    Interrogative,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Pronoun,
    walk,
)
from phmrun.datasets.builtin.verbs_by import VerbIndex

_PRESENT_TENSES = (("present", 5.0), ("modal", 1.0))
_FUTURE_TENSES = (("future", 2.0), ("present", 2.0), ("modal", 2.0))
_PAST_TENSES = (("past", 5.0), ("modal", 1.0))
_QUESTION_TENSES = (("present", 4.0), ("past", 3.0), ("perfect", 2.0), ("future", 1.0), ("modal", 2.0))
_ADDRESS_TENSES = (("present", 3.0), ("perfect", 2.0), ("future", 1.0), ("modal", 4.0))
# Conjunctions by the German word, which settles the sense ("if" is wenn, too).
_CONJUNCTIONS = (
    ("weil", 5),
    ("obwohl", 3),
    ("wenn", 4),
    ("if", 3),
    ("als", 4),
    ("während", 2),
    ("bevor", 2.5),
    ("nachdem", 3),
    ("bis", 1.5),
)


class SentenceSampler:
    """Draws one sentence's tree from its own stream of choices."""

    def __init__(self, lexicon: Lexicon, habits: Habits = USUAL) -> None:
        self.lexicon = lexicon
        self.habits = habits
        self.verbs = VerbIndex(lexicon)
        self._nouns: dict[tuple[str, ...], tuple[Noun, ...]] = {}
        self._conjunctions = {f"{w.german}/{w.english}": w for w in lexicon.words["conjunction"]}

    def draw(self, key: str) -> Clause:
        """The tree that belongs to a key, for ever."""
        clauses = self.clauses(key)
        choices = clauses.choices
        match choices.weighted(self.habits.shapes):
            case "statement":
                return self.fronted(choices, clauses.clause("main"))
            case "adverbial":
                return self._adverbial(choices, clauses)
            case "coordinated":
                return self._coordinated(clauses)
            case "question":
                return self._question(choices, clauses)
            case _:
                return self._address(choices, clauses)

    def clauses(self, key: str) -> ClauseSampler:
        """A sampler of clauses with the stream of choices that belongs to a key."""
        choices = Choices(key)
        nominals = NominalSampler(choices, self.lexicon, self._nouns, self.habits)
        return ClauseSampler(choices, self.lexicon, self.verbs, nominals)

    def fronted(self, choices: Choices, node: Clause) -> Clause:
        """Puts an adverb, a place or a demonstrative object first, now and then."""
        times = [adverb for adverb in node.adverbs if adverb.word.kind == "time"]
        if times and choices.chance(0.5):
            return replace(node, front=times[0])
        stages = [phrase for phrase in node.adjuncts if phrase.kind in ("time", "place")]
        if stages and choices.chance(0.35 if stages[0].kind == "time" else 0.12):
            return replace(node, front=stages[0])
        patient = node.object
        topical = isinstance(patient, NounPhrase) and patient.determiner in ("this", "that") and not patient.relative
        clear = isinstance(node.subject, Pronoun) or getattr(node.subject, "determiner", "") in ("the", "owner", "no")
        short = topical and clear and not getattr(node.subject, "relative", None)
        if short and node.verb.frame == "t" and choices.chance(0.5):
            return replace(node, front=patient)
        return node

    def _adverbial(self, choices: Choices, clauses: ClauseSampler) -> Clause:
        """A main clause with a subordinate one, before or after it; the second may refer to the first by a pronoun."""
        name = choices.weighted(_CONJUNCTIONS)
        past = name in ("als", "nachdem") or (name not in ("wenn", "if") and choices.chance(0.45))
        word = {
            "if": self._conjunctions["wenn/if"],
            "wenn": self._conjunctions["wenn/when"],
        }.get(name) or next(w for w in self.lexicon.words["conjunction"] if w.german == name)
        main_tenses = _PAST_TENSES if past else _FUTURE_TENSES if name in ("if", "bis") else _PRESENT_TENSES
        tenses: tuple[tuple[str, float], ...] = (("past", 1.0),) if past else (("present", 1.0),)
        if name == "nachdem":
            tenses = (("pluperfect", 1.0),)
        elif name in ("weil", "obwohl"):
            tenses = _PAST_TENSES if past else _PRESENT_TENSES
        first = choices.chance(0.45)
        negatable = name in ("weil", "obwohl", "if")
        embedded: dict[str, Any] = {"kind": "embedded", "tenses": tenses, "conjunction": word, "negatable": negatable}
        main: dict[str, Any] = {"kind": "main", "tenses": main_tenses}
        opening, following = (embedded, main) if first else (main, embedded)
        # Subordinate clauses are of depth 1 (no relative clauses of their own) to keep sentences short.
        one = clauses.clause(**opening, depth=1 if first else 0)
        two = self._referring(choices, clauses, one, following)
        sub, head = (one, two) if first else (two, one)
        return replace(head, adverbial=sub, adverbial_first=first)

    def _referring(self, choices: Choices, clauses: ClauseSampler, one: Clause, settings: dict[str, Any]) -> Clause:
        """The second clause, its subject or object a pronoun for a noun of the first where that is unambiguous."""
        antecedent = self._antecedent(choices, one)
        if antecedent is not None and choices.chance(0.7):
            pronoun, noun = antecedent
            if choices.chance(0.55):
                verb = self.verbs.for_subject(choices, noun)
                if verb is not None:
                    return clauses.clause(**settings, depth=1, verb=verb, roles={"subject": pronoun})
            verb = self.verbs.for_gap(choices, noun, choices.of(("object", "object", "indirect")))
            if verb is not None:
                role = "indirect" if verb.frame == "d" else "object"
                fits = role == "indirect" or any(name in verb.objects for name in noun.classes)
                if fits and verb.frame != "g":
                    return clauses.clause(**settings, depth=1, verb=verb, roles={role: pronoun}, passive=False)
        return clauses.clause(**settings, depth=1)

    def _antecedent(self, choices: Choices, clause: Clause) -> tuple[Pronoun, Noun] | None:
        """A noun of a clause that a pronoun can take up, with that pronoun."""
        phrases = [node for node in walk(clause) if isinstance(node, NounPhrase)]
        candidates = [
            part
            for part in (clause.subject, clause.object)
            if isinstance(part, NounPhrase)
            and part.determiner in ("the", "this", "that", "a", "owner", "both")
            and part.numeral is None
        ]
        if not candidates:
            return None
        part = choices.of(candidates)
        noun = part.noun
        if part.plural:
            rivals = [p for p in phrases if p.plural and p is not part]
            return None if rivals else (Pronoun("3p", antecedent=noun), noun)
        if noun.person and noun.gender == "n":
            return None  # das Mädchen … es or sie: both are said
        rivals = [p for p in phrases if not p.plural and p.noun.person == noun.person and p is not part]
        if noun.person:
            rivals = [p for p in rivals if p.noun.gender == noun.gender]
        if rivals:
            return None
        return Pronoun("3s", noun.gender if noun.person else "n", noun), noun

    def _coordinated(self, clauses: ClauseSampler) -> Clause:
        """Two verbs with one subject: "opens the door and calls the dog"."""
        tenses = clauses.choices.of(((("present", 1.0),), (("past", 1.0),)))
        draw = self.verbs
        verb = draw.draw(clauses.choices, {"subject": Pronoun("3s", "m")}, 1, activity=True)
        one = clauses.clause("main", verb=verb, tenses=tenses, negatable=False, passive=False)
        if one.object is not None and isinstance(one.object, NounPhrase) and one.object.relative is not None:
            return one
        second = draw.draw(clauses.choices, {"subject": one.subject}, 1, activity=True)
        two = clauses.clause(
            "main",
            depth=1,
            verb=second,
            tenses=tenses,
            roles={"subject": one.subject},
            negatable=False,
            elided=True,
        )
        if second is verb:
            return one
        return replace(one, coordinated=two)

    def _question(self, choices: Choices, clauses: ClauseSampler) -> Clause:
        """A yes/no question or one with a question word or "which"."""
        node = clauses.clause("question", tenses=_QUESTION_TENSES, negatable=False, depth=0, passive=False)
        while getattr(node.subject, "determiner", "") == "no":
            node = clauses.clause("question", tenses=_QUESTION_TENSES, negatable=False, depth=0, passive=False)
        node = replace(node, adverbs=tuple(a for a in node.adverbs if a.word.kind != "frequency"))
        form = choices.weighted((("yes/no", 4), ("word", 3), ("which", 3), ("who", 2), ("what", 2)))
        words: list[Word] = [w for w in self.lexicon.words["question"] if not w.options]
        ambiguous = self.verbs.is_ambiguous(node.verb)
        times = any(adverb.word.kind == "time" for adverb in node.adverbs)
        match form:
            case "word" if (
                node.phrase is not None
                and node.phrase.kind in ("place", "direction")
                and not node.object
                and not ambiguous
            ):
                kind = node.phrase.kind
                where = next(w for w in self.lexicon.words["question"] if kind in w.options)
                adverb = Adverb(where)
                return replace(node, phrase=None, adverbs=(*node.adverbs, adverb), front=adverb)
            case "word":
                adverb = Adverb(words[0] if times or node.verb.state else choices.of(words))
                return replace(node, adverbs=(*node.adverbs, adverb), front=adverb)
            case "which" if isinstance(node.object, NounPhrase) and node.verb.frame == "t":
                chosen = NounPhrase(node.object.noun, node.object.plural, "which", node.object.adjectives)
                if not chosen.noun.needs_complement:
                    return replace(node, object=chosen, front=chosen)
            case "which" if isinstance(node.subject, NounPhrase) and not node.subject.noun.needs_complement:
                chosen = NounPhrase(node.subject.noun, node.subject.plural, "which", node.subject.adjectives)
                return replace(node, subject=chosen, front=chosen)
            case "what" if node.object is not None and node.verb.frame == "t" and not ambiguous:
                chosen_word = Interrogative("who" if _is_person(node.object) else "what")
                return replace(node, object=chosen_word, front=chosen_word)
            case "who" if _is_person(node.subject) and "person" in node.verb.subjects:
                who = Interrogative("who")
                return replace(node, subject=who, front=who)
            case _:
                pass
        return node

    def _address(self, choices: Choices, clauses: ClauseSampler) -> Clause:
        """A question to someone who is named: "Anna, can you …?" asks for "du", "Mr Weber" for "Sie"."""
        words = self.lexicon.words
        address: Nominal
        if choices.chance(0.5):
            address, you = Name(choices.of(words["name"])), Pronoun("2s")
        elif choices.chance(0.75):
            address, you = Name(choices.of(words["surname"]), choices.of(words["title"])), Pronoun("2p", polite=True)
        else:
            noun = next(noun for noun in self.lexicon.nouns if noun.english == "child")
            address, you = NounPhrase(noun, True, ""), Pronoun("2p")
        verb = self.verbs.draw(choices, {"subject": you}, 1)
        node = clauses.clause(
            "question",
            tenses=_ADDRESS_TENSES,
            verb=verb,
            roles={"subject": you},
            negatable=False,
            depth=1,
            address=address,
        )
        return replace(node, adverbs=tuple(a for a in node.adverbs if a.word.kind != "frequency"))


def _is_person(nominal: Nominal | Phrase) -> bool:
    noun = getattr(nominal, "noun", None)
    return noun.person if noun is not None else isinstance(nominal, Pronoun | Name)
