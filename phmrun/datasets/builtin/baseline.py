"""Two translations that need no model: word by word with a dictionary, and copying the source."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

_TOKEN = re.compile(r"\w+(?:[-']\w+)*|[.,?]")
_ROUNDS = 3
_PAIRS = 8_000  # more pairs change the score by less than half a point


def dictionary(pairs: Iterable[tuple[str, str]], split: Callable[[str], list[str]] | None = None) -> dict[str, str]:
    """The likeliest target word form of each source one, such as the German one of each English one.

    The counts are those of the classic lexical alignment model, Brown et al. (1993), model 1: expectation
    maximisation of ``t(g | e)`` over co-occurrences, with an empty English word.

    Args:
        pairs: Sentence pairs, source and target; the first 8,000 are used.
        split: What gives the words of a sentence; :func:`tokens` where it is None.
    """
    split = split or tokens
    corpus = [(("", *split(source)), split(target)) for source, target in islice(pairs, _PAIRS)]
    table: Mapping[str, Mapping[str, float]] | None = None
    for _ in range(_ROUNDS):
        counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for source, target in corpus:
            rows = [counts[word] for word in source]
            old = None if table is None else [table[word] for word in source]
            for german in target:
                if old is None:
                    share = 1 / len(source)
                    for row in rows:
                        row[german] += share
                else:
                    weights = [row.get(german, 0.0) for row in old]
                    total = sum(weights)
                    for row, weight in zip(rows, weights, strict=True):
                        if weight > 1e-4 * total:
                            row[german] += weight / total
        table = {
            word: {german: count / total for german, count in row.items()}
            for word, row in counts.items()
            for total in (sum(row.values()),)
        }
    # Ties are broken by the word itself, so that the order of the corpus does not matter.
    return {word: min(row, key=lambda g: (-row[g], g)) for word, row in (table or {}).items() if row and word}


def dictionary_baseline(
    train: Iterable[tuple[str, str]], sources: Sequence[str], *, tokenised: bool = False
) -> list[str]:
    """Translates word by word, in the source's order, by a learned dictionary; unknown words are copied.

    Args:
        train: Sentence pairs, source and target.
        sources: The sentences to translate.
        tokenised: Whether spaces separate all words and punctuation marks, in and out.
    """
    split = _words if tokenised else tokens
    forms = dictionary(train, split)
    return [_join((forms.get(word, word) for word in split(source)), tokenised) for source in sources]


def _words(text: str) -> list[str]:
    """The words of tokenised text, without the capital of the first one."""
    return (text[:1].lower() + text[1:]).split()


def tokens(text: str) -> list[str]:
    """Words and punctuation marks, without the capital of the sentence's first word."""
    found = _TOKEN.findall(text)
    return [found[0][0].lower() + found[0][1:], *found[1:]] if found else []


def _join(words: Iterable[str], tokenised: bool) -> str:
    text = " ".join(words)
    if not tokenised:
        text = re.sub(r" ([.,?])", r"\1", text)
    return text[:1].upper() + text[1:]
