"""Splitting of text into words."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

Splitting = Literal["space", "punctuation"]
_WORD = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)


def spaced(sentence: str, lowercase: bool, splitting: Splitting) -> str:
    """Return a sentence with single spaces between its words.

    It is in lower case if ``lowercase``. "space" splits at white space only. "punctuation" also separates punctuation
    marks and English contractions ("do n't", "it 's"), and replaces the apostrophe ’ by '. Hyphens between letters and
    separators within numbers stay ("well-known", "1,000.5").
    """
    text = sentence.lower() if lowercase else sentence
    return " ".join(text.split() if splitting == "space" else _WORD.findall(text.replace("’", "'")))


def learn_labels(items: Sequence[Any], labels: Sequence[Any], **features: Any) -> Callable[[Sequence[Any]], Any]:
    """Train a classifier of items by their words, and return it as a function of items.

    It is scikit-learn's logistic regression on the words that are there, however often. ``features`` are arguments of
    its ``CountVectorizer``.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(CountVectorizer(binary=True, **features), LogisticRegression(max_iter=300, tol=1e-3))
    return model.fit(items, labels).predict
