"""Construction pairings: which constructions meet in a tree, and the ones that only the test set has."""

from phmrun.datasets.builtin.tree import Clause, NounPhrase, walk

# Each construction of a held-out pairing is common in training; only their meeting is new. Relative clauses: gap,
# role of the phrase that the clause belongs to, form of the verb that governs it. Subordinate clauses: conjunction,
# position, form of the main verb.
HELD_OUT = (
    "relative object/subject/perfect",
    "relative object/object/modal",
    "relative subject/object/perfect",
    "relative subject/subject/future",
    "relative indirect/object/simple",
    "relative indirect/subject/modal",
    "relative phrase/subject/simple",
    "relative phrase/phrase/simple",
    "relative owner/subject/modal",
    "relative owner/object/simple",
    "subordinate weil/first/modal",
    "subordinate obwohl/last/modal",
    "subordinate wenn/last/future",
    "subordinate als/first/separable",
    "subordinate bevor/first/simple",
    "subordinate nachdem/last/simple",
    "complement dass/separable",
    "complement zu/perfect",
    "front time/passive",
)
_HELD_OUT = frozenset(HELD_OUT)


def verb_form(node: Clause) -> str:
    """The form of a clause's verb complex."""
    if node.passive:
        return "passive"
    if node.modal:
        return "modal"
    if node.tense in ("perfect", "pluperfect"):
        return "perfect"
    return "future" if node.tense == "future" else "simple"


def pairings(root: Clause) -> tuple[str, ...]:
    """The construction pairings of a tree, in the order of the tree, each once."""
    found: dict[str, None] = {}
    for node in walk(root):
        if isinstance(node, Clause):
            for name in _of_clause(node):
                found[name] = None
    return tuple(found)


def novel_pairings(root: Clause) -> tuple[str, ...]:
    """The held-out pairings that a tree has; empty for trees that may stand in training."""
    return tuple(name for name in pairings(root) if name in _HELD_OUT)


def _of_clause(node: Clause) -> list[str]:
    form = verb_form(node)
    names = []
    for role in ("subject", "object", "indirect", "phrase"):
        part = getattr(node, role)
        host = part.nominal if role == "phrase" and part is not None else part
        if isinstance(host, NounPhrase) and host.relative is not None:
            names.append(f"relative {host.relative.gap}/{role}/{form}")
    separable = "/separable" if node.verb.german_particle and form == "simple" else ""
    if node.adverbial is not None and node.adverbial.conjunction is not None:
        place = "first" if node.adverbial_first else "last"
        names.append(f"subordinate {node.adverbial.conjunction.german}/{place}/{separable.strip('/') or form}")
    inner = node.complement
    if inner is not None:
        if inner.conjunction is None:
            names.append(f"complement zu/{form}")
        elif inner.verb.german_particle and verb_form(inner) == "simple":
            names.append(f"complement {inner.conjunction.german}/separable")
        else:
            names.append(f"complement {inner.conjunction.german}/{verb_form(inner)}")
    if node.front is not None and getattr(node.front, "word", None) is not None:
        names.append(f"front time/{form}")
    return names
