"""Sentences that contradict a given one, and sentences that leave it open: the other half of the calculus.

What stands under "if" or after "hopes that" leaves open whether it is so; what stands after "knows that" is so, and so
is a sentence with a reason beside it.
"""

from dataclasses import replace

from phmrun.datasets.builtin.entailment import Editor, definite, determiner, present_or_past, with_nominal
from phmrun.datasets.builtin.tree import Clause, Name, Nominal, NounPhrase, Phrase, walk
from phmrun.datasets.builtin.verbs_by import fits

_KNOWING = ("wissen", "bemerken", "sehen")
_SUPPOSING = ("hoffen", "behaupten", "träumen", "fürchten")
_REASONS = ("because", "although")
_SYMMETRIC = ("marry", "meet", "kiss", "hug")
_OPPOSITES = {"a": "no", "some": "no", "number": "no", "no": "a"}
_UNIVERSALS = {"every": "a", "all": "some", "a": "every", "some": "all"}


def contradiction(editor: Editor, node: Clause) -> Clause | None:
    """A sentence that cannot be true together with the given one, or None; most often its negation."""
    subject, kind = node.subject, determiner(node.subject)
    if definite(subject):
        contrary = None if node.negated or editor.choices.chance(0.5) else _contrary(editor, node)
        return contrary or replace(node, negated=not node.negated, coordinated=None)
    if not isinstance(subject, NounPhrase):
        return None
    if kind in _OPPOSITES and not node.negated:
        opposite = "some" if kind == "no" and subject.plural else _OPPOSITES[kind]
        return replace(node, subject=replace(subject, determiner=opposite, numeral=None))
    if kind in _UNIVERSALS and node.coordinated is None:
        return replace(node, negated=not node.negated, subject=replace(subject, determiner=_UNIVERSALS[kind]))
    return None


def _contrary(editor: Editor, node: Clause) -> Clause | None:
    """The clause with the contrary of its predicate or verb, or None where there is none."""
    if node.predicate is not None:
        sayable = editor.clauses.verbs.adjectives_for(node.subject)
        listed = editor.order.contrary_adjectives.get(node.predicate.adjective, ())
        fitting = [adjective for adjective in listed if adjective in sayable]
        if not fitting:
            return None
        return replace(node, predicate=replace(node.predicate, adjective=editor.choices.of(fitting)))
    if node.coordinated or not definite(node.object):
        return None
    verbs = [verb for verb in editor.order.contrary_verbs.get(node.verb, ()) if editor.suits(verb, node)]
    return replace(node, verb=editor.choices.of(verbs)) if verbs else None


def about_another(editor: Editor, node: Clause) -> tuple[str, Clause] | None:
    """The sentence about another thing of the same kind, neither more nor less general, or None.

    Which nominal it was comes first. It must stay as it is: of "all buses" one comes to "all vehicles", and back to
    "all cars".
    """
    roles = [role for role in ("subject", "object") if getattr(node, role) is not None]
    role = editor.choices.of(roles)
    nominal: Nominal = getattr(node, role)
    if isinstance(nominal, Name):
        other = editor.clauses.nominals.name()
        names = [part.word for part in walk(node) if isinstance(part, Name)]
        return (role, with_nominal(node, role, other)) if other.word not in names else None
    if not isinstance(nominal, NounPhrase) or nominal.relative or nominal.modifier:
        return None
    noun = editor.clauses.nominals.noun(nominal.noun.classes[:1])
    fitting = editor.clauses.nominals.fitting(noun)
    said = [*nominal.adjectives, *([node.predicate.adjective] if role == "subject" and node.predicate else [])]
    others = [part.noun for part in walk(node) if isinstance(part, NounPhrase)]
    suits = not (noun.mass or noun.definite or noun.needs_complement) and all(word in fitting for word in said)
    if not suits or any(editor.order.related(noun, other) for other in others):
        return None
    return role, with_nominal(node, role, replace(nominal, noun=noun))


def swapped(node: Clause) -> Clause | None:
    """The sentence with subject and object exchanged, or None where that makes no sense or no difference."""
    subject, patient, verb = node.subject, node.object, node.verb
    kinds = {determiner(subject), determiner(patient)}
    if patient is None or not kinds <= {"the", "name", "a"} or verb.english[0] in _SYMMETRIC or node.coordinated:
        return None
    if determiner(subject) == "a" and node.negated:
        return None
    modified = any(isinstance(part, NounPhrase) and part.modifier for part in (subject, patient))
    if modified or not (fits(verb.subjects, patient) and fits(verb.objects, subject)):
        return None
    return replace(node, subject=patient, object=subject)


def passive(node: Clause) -> Clause:
    """The sentence in the passive, which means the same, where both its nominals name one thing each."""
    possible = node.verb.passive and node.tense != "progressive" and not node.coordinated
    if node.object is None or not possible or not (definite(node.subject) and definite(node.object)):
        return node
    agent = Phrase("by", "von", "dat", node.subject, "agent")
    return replace(node, passive=True, subject=node.object, object=None, adjuncts=(agent, *node.adjuncts))


def known(editor: Editor, node: Clause) -> Clause:
    """A sentence that entails the given one: someone knows it, or something is so because of it or in spite of it."""
    if editor.choices.chance(0.5):
        return _reported(editor, node, _KNOWING)
    return _joined(editor, node, editor.choices.of(_REASONS))


def supposed(editor: Editor, node: Clause) -> Clause:
    """A sentence that leaves the given one open: someone hopes it, or it is a condition or has one."""
    if editor.choices.chance(0.5):
        return _reported(editor, node, _SUPPOSING)
    return _joined(editor, node, "if")


def _reported(editor: Editor, node: Clause, verbs: tuple[str, ...]) -> Clause:
    """The sentence after "Anna knows that", or another of the verbs, which are named by their German words."""
    clauses = editor.clauses
    verb = editor.choices.of([verb for verb in clauses.lexicon.verbs_of["that"] if verb.german in verbs])
    that = next(word for word in clauses.lexicon.words["conjunction"] if word.english == "that")
    inner = replace(node, kind="embedded", conjunction=that)
    return Clause(verb, "main", present_or_past(node), _bystander(editor, node), complement=inner)


def _joined(editor: Editor, node: Clause, conjunction: str) -> Clause:
    """The sentence with a short clause beside it; either of the two may be the subordinate one.

    A subordinate clause about something else comes first, where it is beyond the reach of "not".
    """
    clauses, subject = editor.clauses, _bystander(editor, node)
    word = next(word for word in clauses.lexicon.words["conjunction"] if word.english == conjunction)
    used = [part.verb.english for part in walk(node) if isinstance(part, Clause)]
    verb = clauses.verbs.for_subject(editor.choices, editor.order.person, ("i",))
    while verb is None or verb.english in used:
        verb = clauses.verbs.for_subject(editor.choices, editor.order.person, ("i",))
    other = Clause(verb, "main", present_or_past(node), subject)
    if editor.choices.chance(0.5):
        first = replace(other, kind="embedded", conjunction=word)
        return replace(node, adverbial=first, adverbial_first=True)
    inner = replace(node, kind="embedded", conjunction=word)
    return replace(other, adverbial=inner, adverbial_first=editor.choices.chance(0.5))


def _bystander(editor: Editor, node: Clause) -> Name:
    """Someone whom the sentence does not name."""
    names = [part.word for part in walk(node) if isinstance(part, Name)]
    other = editor.clauses.nominals.name()
    while other.word in names:
        other = editor.clauses.nominals.name()
    return other
