"""Probabilistic choice of sentences whose subject and verb stand far apart, with the nouns between them in hand."""

from collections.abc import Sequence
from dataclasses import replace

from phmrun.datasets.builtin.lexicon import Lexicon
from phmrun.datasets.builtin.sample_clauses import ClauseSampler
from phmrun.datasets.builtin.sample_sentences import SentenceSampler
from phmrun.datasets.builtin.tree import Clause, NounPhrase, RelativePronoun

_TENSES = (("present", 8.0), ("progressive", 1.0), ("perfect", 1.0))
_SUBJECTS = (
    *(("person", 10), ("animal", 4), ("thing", 3), ("text", 3), ("building", 2), ("vehicle", 2), ("furniture", 2)),
    *(("plant", 2), ("clothes", 1), ("event", 1), ("thought", 1)),
)
_VERBS = ("i", "t", "d", "p", "loc", "be")
_OPENINGS = (("none", 60), ("adverb", 14), ("reported", 13), ("subordinate", 13))
_BETWEEN = ((0, 50), (1, 26), (2, 14), (3, 7), (4, 3))  # nouns between subject and verb in training
_TRIES = 20


class AgreementSampler:
    """Draws sentences for agreement items, each from the stream of choices of its key."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.sentences = SentenceSampler(lexicon)

    def natural(self, key: str) -> Clause:
        """A sentence as the grammar has them, or one with a heavier subject whose nouns have any number."""
        clauses = self.sentences.clauses(key)
        choices = clauses.choices
        if choices.chance(0.45):
            return self.sentences.draw(f"{key}/plain")
        numbers = [choices.chance(0.4) for _ in range(1 + choices.weighted(_BETWEEN))]
        return self._sentence(clauses, numbers)

    def controlled(self, key: str, plural: bool, between: Sequence[bool]) -> Clause:
        """A sentence whose subject has a given number.

        Args:
            key: Of the stream of choices.
            plural: The number of the subject.
            between: Of each noun between subject and verb, whether it is plural. Now and then an adverbial adds a noun,
                so what came out must be looked at.
        """
        return self._sentence(self.sentences.clauses(key), [plural, *between])

    def _sentence(self, clauses: ClauseSampler, numbers: Sequence[bool]) -> Clause:
        subject = None
        while subject is None:
            host = self._noun_phrase(clauses, (clauses.choices.weighted(_SUBJECTS),), numbers[0])
            subject = self._grown(clauses, host, numbers[1:]) if host else None
        verb = clauses.verbs.for_subject(clauses.choices, subject.noun, _VERBS)
        if verb is None:
            return self._sentence(clauses, numbers)
        node = clauses.clause("main", depth=1, verb=verb, tenses=_TENSES, roles={"subject": subject}, passive=False)
        return self._opened(clauses, node)

    def _opened(self, clauses: ClauseSampler, node: Clause) -> Clause:
        """The clause, perhaps with something before its subject: an adverb, "she says that", "when …,"."""
        choices = clauses.choices
        conjunctions = {word.english: word for word in self.lexicon.words["conjunction"]}
        match choices.weighted(_OPENINGS):
            case "adverb":
                return self.sentences.fronted(choices, node)
            case "reported":
                verb = choices.of([verb for verb in self.lexicon.verbs_of["that"] if verb.often])
                said = clauses.clause("main", depth=1, verb=verb, tenses=(("present", 1.0),), passive=False)
                inner = replace(node, kind="embedded", conjunction=conjunctions["that"])
                return replace(said, complement=inner, adverbs=(), adjuncts=())
            case "subordinate":
                word = conjunctions[choices.of(("because", "although", "if", "while"))]
                first = clauses.clause("embedded", depth=1, tenses=(("present", 1.0),), conjunction=word)
                return replace(node, adverbial=first, adverbial_first=True)
            case _:
                return node

    def _noun_phrase(self, clauses: ClauseSampler, classes: tuple[str, ...], plural: bool) -> NounPhrase | None:
        """A plain noun phrase of a given number, or None where the draw does not give one."""
        for _ in range(_TRIES):
            noun = clauses.nominals.noun(classes)
            if (noun.mass or noun.needs_complement) and plural:
                continue
            drawn = clauses.nominals.noun_phrase(noun, plain=False, depth=2)
            if drawn.plural == plural and drawn.complement is None:
                return drawn
        return None

    def _grown(self, clauses: ClauseSampler, host: NounPhrase, numbers: Sequence[bool]) -> NounPhrase | None:
        """The noun phrase with as many nouns after its own as there are numbers, or None where the draw fails.

        The nouns stand in a prepositional phrase, in a relative clause, or in both one after the other.
        """
        if not numbers:
            return host
        choices = clauses.choices
        in_phrase = choices.weighted(((len(numbers), 5.0), (0, 3.0), (len(numbers) // 2, 2.0)))
        first, rest = numbers[:in_phrase], numbers[in_phrase:]
        grown: NounPhrase | None = host
        if first:
            grown = self._with_phrase(clauses, host, first)
        if rest and grown is not None:
            grown = self._with_relative(clauses, grown, rest)
        return grown

    def _with_phrase(self, clauses: ClauseSampler, host: NounPhrase, numbers: Sequence[bool]) -> NounPhrase | None:
        """The noun phrase with "of" and a complement, or with a preposition and its noun."""
        if host.noun.complement and not host.possessor and clauses.choices.chance(0.6):
            inner = self._noun_phrase(clauses, (host.noun.complement,), numbers[0])
            complement = self._grown(clauses, inner, numbers[1:]) if inner else None
            return replace(host, complement=complement) if complement else None
        phrase = clauses.nominals.modifier(host.noun)
        for _ in range(_TRIES):
            if phrase is not None and isinstance(phrase.nominal, NounPhrase):
                noun = phrase.nominal.noun
                if noun is not host.noun and not (numbers[0] and (noun.mass or noun.needs_complement)):
                    nominal = self._grown(clauses, replace(phrase.nominal, plural=numbers[0]), numbers[1:])
                    return replace(host, modifier=replace(phrase, nominal=nominal)) if nominal else None
            phrase = clauses.nominals.modifier(host.noun)
        return None

    def _with_relative(self, clauses: ClauseSampler, host: NounPhrase, numbers: Sequence[bool]) -> NounPhrase | None:
        """The noun phrase with a relative clause that names its subject's or its object's other party."""
        choices = clauses.choices
        gap, other = choices.of((("subject", "object"), ("object", "subject")))
        for _ in range(_TRIES):
            verb = clauses.verbs.for_gap(choices, host.noun, gap)
            if verb is None or verb.frame != "t":
                continue
            party = self._noun_phrase(clauses, verb.objects if other == "object" else verb.subjects, numbers[0])
            party = self._grown(clauses, party, numbers[1:]) if party and party.noun is not host.noun else None
            if party is None:
                continue
            roles = {gap: RelativePronoun(host.noun, host.plural), other: party}
            clause = clauses.clause("embedded", depth=2, verb=verb, roles=roles, gap=gap, passive=False)
            return replace(host, relative=clause)
        return None
