"""Dependency trees of the English sentences: heads and relations of Universal Dependencies 2.

The trees follow from the abstract syntax: a word that is not the head of its node hangs from the word that is, and that
one from the node above. The conventions are those of the English treebanks: content words are heads ("be" is ``cop``,
auxiliaries ``aux``), "want to" and "have to" govern an ``xcomp``, the possessive 's is a ``case``, a preposition of
several words is ``case`` and ``fixed``, a title and its name are ``flat``. What stands before the verb of "want to
read" depends on "want", what follows on "read". Relative pronouns and question words that are not subjects may make an
arc cross another, as in "the book that he wants to read".

Source: https://universaldependencies.org/guidelines.html
"""

from dataclasses import dataclass, replace
from typing import Any

from phmrun.datasets.builtin import english
from phmrun.datasets.builtin.tree import (
    HEAD,
    HEAD_ROLES,
    Adverb,
    Clause,
    Coordination,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Predicate,
    Token,
)
from phmrun.datasets.builtin.word_classes import PREPOSITIONS, QUANTIFIERS, Tag, tag

_FALLS_TO = {"in": "obl", "on": "obl", "at": "obl", "for": "obl", "ago": "advmod"}  # a fixed adverbial by a word of it
_NOUN_ADVERBS = ("today", "yesterday", "tomorrow", "day", "week", "year")


@dataclass(slots=True, eq=False)
class Unit:
    """A syntactic word while its tree is made: which node's, which relation in it, and then its place in the tree."""

    form: str
    node: Any
    relation: str
    glued: bool = False  # to the word before it
    head: "Unit | None" = None
    deprel: str = ""


@dataclass(frozen=True, slots=True)
class DependencyWord:
    """A word of a dependency tree.

    Attributes:
        form: As it stands in the text.
        tag: Lemma, tags and features.
        head: Number of its head from 1, 0 for the root.
        deprel: Its relation to the head.
        glued: Whether no space stands before it.
    """

    form: str
    tag: Tag
    head: int
    deprel: str
    glued: bool


def dependency_tree(tree: Clause) -> list[DependencyWord]:
    """The dependency tree of a main clause's English sentence."""
    units = _units(tree)
    _Attachment(units).sentence(tree)
    number = {id(unit): index for index, unit in enumerate(units, 1)}
    complex_prepositions = {id(unit.head) for unit in units if unit.deprel == "fixed"}
    chains: dict[int, int] = {}  # by clause the verbs of it that have been passed
    words = []
    for unit in units:
        place = chains.get(id(unit.node), 0)
        if unit.relation in ("aux", HEAD):
            chains[id(unit.node)] = place + 1
        word_tag = tag(unit.form, unit.node, unit.relation, unit.deprel, place)
        if id(unit) in complex_prepositions:
            word_tag = word_tag._replace(feats="ExtPos=ADP")
        words.append(
            DependencyWord(unit.form, word_tag, number[id(unit.head)] if unit.head else 0, unit.deprel, unit.glued)
        )
    first = words[0]
    words[0] = replace(first, form=first.form[:1].upper() + first.form[1:])
    return words


def _units(tree: Clause) -> list[Unit]:
    """The syntactic words of a sentence in order: commas as the text has them, possessives and "cannot" in two."""
    units: list[Unit] = []
    for token in english.clause(tree):
        if token.form == "," and units[-1].form == ",":
            continue
        units += _split(token)
    if units[-1].form == ",":
        units.pop()
    return [*units, Unit("?" if tree.kind == "question" else ".", tree, "punct", glued=True)]


def _split(token: Token) -> list[Unit]:
    form, node, relation = token
    if form == ",":
        return [Unit(form, node, relation, glued=True)]
    if isinstance(node, Adverb):
        return _adverbial(form.split(), node)
    if isinstance(node, Name) and node.title is not None:  # of a title and a name the first word is the head
        relation = {HEAD: "flat", "nmod": HEAD}.get(relation, relation)
    if form == "cannot":
        return [Unit("can", node, relation), Unit("not", node, "advmod", glued=True)]
    stem, mark, ending = form.partition("'")
    if mark:
        return [Unit(stem, node, relation), Unit(mark + ending, node, "case", glued=True)]
    return [Unit(form, node, relation)]


def _adverbial(forms: list[str], node: Adverb) -> list[Unit]:
    """An adverb or a fixed adverbial phrase; its last word is its head."""
    last = Unit(forms[-1], node, HEAD)
    relations = {"in": "case", "on": "case", "at": "case", "for": "case", "the": "det", "a": "det", "every": "det"}
    units = [Unit(form, node, relations.get(form, "amod"), head=last) for form in forms[:-1]]
    if forms[-1] == "ago":  # "two days ago": the noun measures the adverb
        units[1].relation = "obl:npmod"
        units[0].head = units[1]
        units[0].relation = "det" if forms[0] == "a" else "nummod"
    return [*units, last]


class _Attachment:
    """Gives each unit of a sentence its head and relation."""

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.of: dict[int, list[Unit]] = {}
        for unit in units:
            self.of.setdefault(id(unit.node), []).append(unit)

    def sentence(self, tree: Clause) -> None:
        """Attaches all words of a sentence."""
        self._attach(tree, None, "root")
        self.units[-1].head, self.units[-1].deprel = self._top(tree), "punct"

    def _own(self, node: Any, relation: str = HEAD) -> list[Unit]:
        return [unit for unit in self.of.get(id(node), ()) if unit.relation == relation]

    def _head(self, node: Any) -> Unit:
        """The word that stands for a node in the tree."""
        while type(node) in HEAD_ROLES:
            node = getattr(node, HEAD_ROLES[type(node)])
        return self._top(node) if isinstance(node, Clause) else self._own(node)[0]

    def _top(self, node: Clause) -> Unit:
        """The word of a clause that its subject and the clause above see: "want" in "want to read"."""
        return self._control(node) or self._low(node)

    def _low(self, node: Clause) -> Unit:
        """The word of a clause that its objects depend on: with "be" the predicate."""
        return self._own(node.predicate if _copular(node) else node)[0]

    def _control(self, node: Clause) -> Unit | None:
        """The "want" or "have" that governs an infinitive."""
        if node.kind == "infinitive" or node.modal not in ("want to", "wanted to", "had to"):
            return None
        auxiliaries = self._own(node, "aux")
        return next(unit for unit in auxiliaries if unit.form in ("want", "wants", "wanted", "have", "had"))

    def _attach(self, node: Any, head: Unit | None, deprel: str) -> None:
        """Attaches a node, with all below it, to a word."""
        match node:
            case Phrase():
                self._case(node, self._head(node.nominal))
                self._attach(node.nominal, head, deprel)
            case Coordination():
                self._attach(node.first, head, deprel)
                self._attach(node.second, self._head(node.first), "conj")
                self._small_words(node, self._head(node.first))
            case Clause():
                self._clause(node, head, deprel)
            case _:
                own = self._head(node)
                own.head, own.deprel = head, deprel
                self._small_words(node, own)
                self._below(node, own)

    def _below(self, node: Any, own: Unit) -> None:
        match node:
            case NounPhrase():
                for role, deprel in (("possessor", "nmod:poss"), ("complement", "nmod"), ("modifier", "nmod")):
                    if getattr(node, role) is not None:
                        self._attach(getattr(node, role), own, deprel)
                if node.relative is not None:
                    self._attach(node.relative, own, "acl:relcl")
            case Predicate() if node.than is not None:
                self._attach(node.than, own, "obl")

    def _small_words(self, node: Any, own: Unit) -> None:
        """The words of a nominal, an adverb or a predicate beside its head: determiners, adjectives, case, "and"."""
        for unit in self.of.get(id(node), ()):
            if unit is not own and not unit.deprel:
                unit.head = unit.head or own
                unit.deprel = "amod" if unit.form in QUANTIFIERS else unit.relation

    def _case(self, node: Phrase, head: Unit) -> None:
        first: Unit | None = None
        for unit in self.of.get(id(node), ()):
            unit.head, unit.deprel = first or head, "fixed" if first else "case"
            first = first or unit

    def _clause(self, node: Clause, head: Unit | None, deprel: str) -> None:
        top, low, control = self._top(node), self._low(node), self._control(node)
        top.head, top.deprel = head, deprel
        if control is not None:
            low.head, low.deprel = control, "xcomp"
        self._verbs(node, top, low, control)
        self._arguments(node, top, low, control)
        self._particle(node, low)
        for adverb in node.adverbs:
            early = adverb is node.front or adverb.word.kind == "frequency"
            self._attach(adverb, top if early else low, _adverb_relation(adverb))
        for adjunct in node.adjuncts:
            relation = "obl:agent" if adjunct.kind == "agent" else "obl"
            self._attach(adjunct, top if adjunct is node.front else low, relation)
        for inner, relation in ((node.adverbial, "advcl"), (node.coordinated, "conj"), (node.address, "vocative")):
            if inner is not None:
                self._attach(inner, top, relation)

    def _verbs(self, node: Clause, top: Unit, low: Unit, control: Unit | None) -> None:
        """The verbs and small words of a clause beside its heads."""
        before = True  # the main verb and, where there is one, the verb that governs it
        for unit in self.of[id(node)]:
            if unit is control:
                before = False
            elif unit is low or unit.deprel:
                continue
            elif unit.form == "," and unit.relation == "punct":
                unit.head, unit.deprel = self._head(node.address or node.adverbial), "punct"
            elif unit.relation == HEAD:
                unit.head, unit.deprel = low, "cop"
            elif unit.relation == "aux":
                passive = node.passive and unit.form in ("am", "is", "are", "was", "were", "be", "been", "being")
                unit.head, unit.deprel = (top if before else low), "aux:pass" if passive else "aux"
            elif unit.relation == "mark" and control is not None and not before:
                unit.head, unit.deprel = low, "mark"
            elif unit.relation == "mark":
                question = node.conjunction is not None and node.conjunction.kind == "question"
                unit.head, unit.deprel = top, "advmod" if question else "mark"
            elif unit.relation in ("advmod", "cc"):
                unit.head, unit.deprel = top, unit.relation

    def _arguments(self, node: Clause, top: Unit, low: Unit, control: Unit | None) -> None:
        if not node.elided:
            passive = node.passive and control is None
            self._attach(node.subject, top, "nsubj:pass" if passive else "nsubj")
        governed = "obl" if node.verb.english_particle in PREPOSITIONS else "obj"
        if node.object is not None:
            self._attach(node.object, low, "obj" if node.verb.frame == "g" else governed)
        if node.indirect is not None:
            marked = any(unit.relation == "case" and unit.form == "to" for unit in self.of.get(id(node.indirect), ()))
            relation = governed if node.verb.frame == "d" else "obl" if marked else "iobj"
            self._attach(node.indirect, low, relation)
        if node.phrase is not None:
            self._attach(node.phrase, low, "obl" if node.phrase.english else "obj")
        if node.predicate is not None:
            if _copular(node):
                self._small_words(node.predicate, low)
                self._below(node.predicate, low)
            else:
                self._attach(node.predicate, low, "xcomp")
        if node.complement is not None:
            self._attach(node.complement, low, "xcomp" if node.complement.kind == "infinitive" else "ccomp")

    def _particle(self, node: Clause, low: Unit) -> None:
        """The particle of a verb: an adverb, a preposition of its object, or the "part" of "take part"."""
        units = self._own(node, "compound:prt")
        for unit in units:
            unit.head, unit.deprel = low, "compound:prt"
            match unit.form:
                case "back" | "forward" | "away":
                    unit.deprel = "advmod"
                case "part":
                    unit.deprel = "obj"
                case "in":  # "in love"
                    unit.head, unit.deprel = units[1], "case"
                case "love":
                    unit.deprel = "obl"
                case form if form in PREPOSITIONS:
                    governed: Nominal | None = node.indirect or node.object
                    if governed is None:  # "he was looked for"
                        unit.deprel = "obl"
                    else:
                        unit.head, unit.deprel = self._head(governed), "case"


def _copular(node: Clause) -> bool:
    return node.verb.frame == "be" and node.predicate is not None


def _adverb_relation(adverb: Adverb) -> str:
    forms = adverb.word.english.split()
    if forms[-1] in _NOUN_ADVERBS and forms[0] not in _FALLS_TO:
        return "obl:tmod"
    return _FALLS_TO.get(forms[0], "advmod") if len(forms) > 1 and forms[-1] != "ago" else "advmod"
