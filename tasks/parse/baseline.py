"""Trees that need no model: each word hangs where most words of its tag hang in training."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

TreeColumns = tuple[Sequence[str], Sequence[int], Sequence[str]]
"""Of a sentence's words the universal tags, the heads (0 for the root) and the relations."""


def commonest_arcs(sentences: Iterable[TreeColumns]) -> dict[str, tuple[int, str]]:
    """By universal tag the commonest arc of its words: how many words ahead the head is, and the relation."""
    counts: dict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
    for upos, heads, deprels in sentences:
        for number, (tag, head, deprel) in enumerate(zip(upos, heads, deprels, strict=True), 1):
            counts[tag][(head - number if head else 0, deprel)] += 1
    return {tag: min(row, key=lambda arc: (-row[arc], arc)) for tag, row in counts.items()}


def neighbour_baseline(
    train: Iterable[TreeColumns], upos: Iterable[Sequence[str]]
) -> list[tuple[list[int], list[str]]]:
    """Heads and labels that need no model: each word's arc is the commonest of its tag in training.

    So a determiner hangs from the next word and a preposition from the one after that. Words whose arc would leave the
    sentence hang from the word before them, the first from the root; such a "tree" may have several roots or cycles.
    """
    arcs = commonest_arcs(train)
    parses = []
    for tags in upos:
        found = [arcs.get(tag, (-1, "dep")) for tag in tags]
        heads = [
            number + ahead if ahead and 0 < number + ahead <= len(tags) else 0 if label == "root" else number - 1
            for number, (ahead, label) in enumerate(found, 1)
        ]
        parses.append((heads, [label for _, label in found]))
    return parses
