"""Inference without a network: logistic regression on which words stand in which sentence (scikit-learn).

The features of a pair are indicators: each word of the premise, of the hypothesis, of both, of the hypothesis alone.
A network that does not reach this has learnt nothing from the order of the words.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice

from phmrun.families.sentence_classification.items import Item, LeftOut, Reader
from phmrun.progress import note
from phmrun.text.vocabulary import spaced

NAME = "bag-of-words"
MOST = 50_000  # training pairs that are used, the first ones: more take minutes and change the accuracy little


def words_of_pair(premise: str, hypothesis: str) -> Iterator[str]:
    """The features of a pair, by name: where a word stands, a colon, the word."""
    first, second = (set(spaced(text, True, "punctuation").split()) for text in (premise, hypothesis))
    for place, words in (("p", first), ("h", second), ("both", first & second), ("h-alone", second - first)):
        for word in sorted(words):
            yield f"{place}:{word}"


def bag_of_words(train: Reader) -> Callable[[Sequence[Item]], list[str]]:
    """What labels pairs by their words alone; it learns from ``train`` when it is first asked."""

    @cache
    def learnt() -> Callable[[Sequence[Item]], list[str]]:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        items = list(islice((item for item in train() if not isinstance(item, LeftOut)), MOST))
        note(f"baseline {NAME}: logistic regression on {len(items):,} training pairs")
        model = make_pipeline(
            CountVectorizer(analyzer=lambda sentences: words_of_pair(*sentences), binary=True),
            LogisticRegression(max_iter=300, tol=1e-3),
        )
        model.fit([item.sentences for item in items], [item.label for item in items])
        return lambda asked: [str(label) for label in model.predict([item.sentences for item in asked])]

    return lambda asked: learnt()(asked)
