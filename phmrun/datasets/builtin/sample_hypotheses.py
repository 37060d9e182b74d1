"""Probabilistic choice of the sentences that inference pairs are about: one quantified statement each."""

from dataclasses import replace

from phmrun.datasets.builtin.entailment import Editor, determiner
from phmrun.datasets.builtin.lexicon import Verb
from phmrun.datasets.builtin.tree import Clause, Name, Nominal, NounPhrase

_FRAMES = (("i", 30), ("t", 50), ("be", 20))
_SUBJECTS = (("name", 10), ("the", 20), ("a", 16), ("every", 15), ("no", 18), ("some", 8), ("all", 7))
_OBJECTS = (("the", 30), ("a", 55), ("some", 15))
_PLURAL = ("some", "all")
_TENSES = (("present", 5.0), ("past", 5.0), ("progressive", 2.0), ("perfect", 1.0))
# What these verbs are about need not be there, or the verb says that something is not done.
_INTENSIONAL = (
    "miss",
    "forget",
    "look",
    "describe",
    "draw",
    "paint",
    "fear",
    "plan",
    "dream",
    "lose",
    "disappear",
    "die",
)
_GENERAL = 0.35  # share of nouns and verbs that a more general word replaces


class HypothesisSampler:
    """Draws statements with one stream of choices."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.clauses = editor.clauses
        self.choices = editor.choices

    def draw(self) -> Clause | None:
        """A statement, or None where the draw does not give one."""
        choices = self.choices
        frame = choices.weighted(_FRAMES)
        verb = self._verb(frame)
        subject = self._nominal(choices.weighted(_SUBJECTS), verb.subjects or ("person", "animal"), frame != "be")
        if subject is None or (frame == "be" and not self.clauses.verbs.adjectives_for(subject)):
            return None
        roles: dict[str, Nominal] = {"subject": subject}
        if frame == "t":
            patient = self._nominal(choices.weighted(_OBJECTS), verb.objects, True)
            if patient is None or self._same(subject, patient):
                return None
            roles["object"] = patient
        node = self.clauses.clause(
            "main", depth=2, verb=verb, tenses=_TENSES, roles=dict(roles), negatable=False, passive=False
        )
        kind = determiner(subject)
        negated = kind not in ("every", "all", "no") and choices.chance(0.5)
        node = replace(node, adverbs=(), adjuncts=(), negated=negated)
        return self._general(self._modified(node))

    def _verb(self, frame: str) -> Verb:
        verbs = self.clauses.lexicon.verbs_of[frame]
        verb = self.choices.weighted([(verb, verb.often) for verb in verbs])
        while verb.english[0] in _INTENSIONAL:
            verb = self.choices.weighted([(verb, verb.often) for verb in verbs])
        return verb

    def _nominal(self, kind: str, classes: tuple[str, ...], broad: bool) -> Nominal | None:
        """A nominal with a determiner, perhaps with an adjective or in place of its noun a broader one."""
        if kind == "name":
            return self.clauses.nominals.name() if "person" in classes else None
        noun = self.clauses.nominals.noun(classes)
        if noun.mass or noun.definite or noun.needs_complement:
            return None
        broader = self.editor.order.broader_nouns.get(noun, ())
        if broad and broader and self.choices.chance(_GENERAL):
            noun = self.choices.of(broader)
        adjectives = self.clauses.nominals.adjectives(noun, 0.35)[:1]
        return NounPhrase(noun, kind in _PLURAL, kind, adjectives)

    def _same(self, subject: Nominal, patient: Nominal) -> bool:
        """Whether both may name the same thing: "the king" and "the man"."""
        if isinstance(subject, NounPhrase) and isinstance(patient, NounPhrase):
            return self.editor.order.related(subject.noun, patient.noun)
        return isinstance(subject, Name) and isinstance(patient, Name) and subject.word is patient.word

    def _modified(self, node: Clause) -> Clause:
        """The statement, perhaps with a place, a time, a manner or a second verb."""
        for share, change in (
            (0.20, self.editor.with_place),
            (0.15, self.editor.with_manner),
            (0.12, self.editor.with_time),
            (0.08, self.editor.with_second_verb),
        ):
            changed = change(node) if self.choices.chance(share) else None
            node = changed or node
        return node

    def _general(self, node: Clause) -> Clause:
        """The statement, perhaps with a broader verb."""
        broader = [verb for verb in self.editor.order.broader_verbs.get(node.verb, ()) if self.editor.suits(verb, node)]
        return replace(node, verb=self.choices.of(broader)) if broader and self.choices.chance(_GENERAL) else node


def with_place_first(node: Clause) -> Clause:
    """The statement with its place at the beginning, which means the same where nothing is denied."""
    places = [adjunct for adjunct in node.adjuncts if adjunct.kind == "place"]
    unfit = node.negated or determiner(node.subject) == "no"
    return replace(node, front=places[0]) if places and not unfit else node
